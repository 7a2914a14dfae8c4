"""The action language: what models write, what it means, and what they are told when it means nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webarena.actions import Action, ParseError, Target, canonical, parse, resolve
from webarena.observation import Element


def name(text, role=""):
    return Target(name=text, role=role)


def by_id(number):
    return Target(id=number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the language as documented
        ("click [12]", Action("click", by_id(12))),
        ("click 'Wool Blanket'", Action("click", name("Wool Blanket"))),
        ("hover 'Menu'", Action("hover", name("Menu"))),
        ("type 'Name' 'Ada Lovelace'", Action("type", name("Name"), "Ada Lovelace")),
        ("type [3] 'Ada'", Action("type", by_id(3), "Ada")),
        ("type 'Ada'", Action("type", None, "Ada")),
        ("select 'Country' 'Peru'", Action("select", name("Country"), "Peru")),
        ("select [4] 'Peru'", Action("select", by_id(4), "Peru")),
        ("select 'Peru'", Action("select", None, "Peru")),
        ("press Enter", Action("press", text="Enter")),
        ("press ctrl+a", Action("press", text="Control+a")),
        ("press Shift+y", Action("press", text="Shift+Y")),
        ("press ArrowDown", Action("press", text="ArrowDown")),
        ("scroll down", Action("scroll", text="down")),
        ("scroll up", Action("scroll", text="up")),
        ("back", Action("back")),
        ("go back", Action("back")),
        ("wait", Action("wait")),
        ("wait 2", Action("wait", amount=2.0)),
        ("wait 600", Action("wait", amount=5.0)),
        ("stop", Action("stop")),
        ("stop '42 items'", Action("stop", text="42 items")),
        ("stop [N/A]", Action("stop", text="N/A")),
        # quotes of every kind, and apostrophes inside them
        ("click “Ok”", Action("click", name("Ok"))),
        ("click ‘Ok’", Action("click", name("Ok"))),
        ('click "Ok"', Action("click", name("Ok"))),
        ("click 'Bob's Burgers'", Action("click", name("Bob's Burgers"))),
        ('click "Bob\'s"', Action("click", name("Bob's"))),
        ("click 'It\\'s here'", Action("click", name("It's here"))),
        ("type 'Name' 'O'Neil'", Action("type", name("Name"), "O'Neil")),
        ("click 'a, b'", Action("click", name("a, b"))),
        # loose spelling
        ("Click Ok", Action("click", name("Ok"))),
        ("click Wool Blanket.", Action("click", name("Wool Blanket"))),
        ("click on 'Ok'", Action("click", name("Ok"))),
        ("click on the 'Ok' button", Action("click", name("Ok", "button"))),
        ("click button 'Ok' [3]", Action("click", by_id(3))),
        ("click ['Ok']", Action("click", name("Ok"))),
        ("click [Ok]", Action("click", name("Ok"))),
        ("click 12", Action("click", Target(name="12", id=12))),
        ("click(12)", Action("click", Target(name="12", id=12))),
        ("click('Ok')", Action("click", name("Ok"))),
        ("type('Name', 'Ada, Countess')", Action("type", name("Name"), "Ada, Countess")),
        ("type 'Ada' into 'Name'", Action("type", name("Name"), "Ada")),
        ("type 'Ada' into the 'Name' field", Action("type", name("Name"), "Ada")),
        ("type [3] [Ada] [1]", Action("type", by_id(3), "Ada")),
        ("type [3] Ada", Action("type", by_id(3), "Ada")),
        ("type hello", Action("type", None, "hello")),
        ("select 'Peru' from 'Country'", Action("select", name("Country"), "Peru")),
        ("press 'Submit'", Action("click", name("Submit"))),
        ("press Submit", Action("click", name("Submit"))),
        ("press the Submit button.", Action("click", name("Submit button"))),
        ("press the Enter key", Action("press", text="Enter")),
        ("Action: click 'Ok'", Action("click", name("Ok"))),
        ("**Action:** click 'Ok'", Action("click", name("Ok"))),
        ("Answer: click 'Ok'", Action("click", name("Ok"))),
        ("type(3, 'Ada')", Action("type", Target("3", 3), "Ada")),
        ("type 3 'Ada'", Action("type", Target("3", 3), "Ada")),
        ("type Name 'Ada'", Action("type", name("Name"), "Ada")),
        ("type the text 'Ada'", Action("type", None, "Ada")),
        ("type Ada into 'Name'", Action("type", name("Name"), "Ada")),
        ("1. click 'Ok'", Action("click", name("Ok"))),
        ("- click 'Ok'", Action("click", name("Ok"))),
        ("`click 'Ok'`", Action("click", name("Ok"))),
        # surrounding prose, with one reading
        ("I will click 'Ok'.", Action("click", name("Ok"))),
        ("To finish, I need to click [7] now", Action("click", by_id(7))),
        ("I would press Enter.", Action("press", text="Enter")),
        ("Let me type 'Ada' into 'Name'", Action("type", name("Name"), "Ada")),
        # only the first line that says something counts
        ("\n\n  click 'Ok'  \nclick 'Cancel'", Action("click", name("Ok"))),
        ("```\nclick 'Ok'\n```", Action("click", name("Ok"))),
    ],
)
def test_parses(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no action given"),
        ("   \n \n", "no action given"),
        ("The page has two buttons.", "is not an action"),
        ("Maybe click 'Ok' or click 'Cancel'", "is not an action"),
        ("button 'Ok' [3]", "is not an action"),
        ("click", "click what?"),
        ("click 'Ok' 'Cancel'", "names 2"),
        ("click ''", "the name is empty"),
        ("type [3]", "type what into [3]?"),
        ("type 'a' 'b' 'c' 'd'", "4 arguments"),
        ("press", "press Enter"),
        ("scroll up and down", "not both"),
    ],
)
def test_refuses_and_says_what_is_expected(text, says):
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert says in str(caught.value)


def test_an_error_shows_how_to_write_an_action():
    with pytest.raises(ParseError, match="write one line such as: click 'NAME'"):
        parse("hmm")


def page(*lines):
    return [Element(number, role, label, f"e{number}") for number, (role, label) in enumerate(lines, 1)]


FORM = page(
    ("textbox", "Name"),
    ("textbox", "Full name of guardian"),
    ("button", "Ok"),
    ("button", "OK"),
    ("button", "Name"),
    ("button", "Save all"),
    ("button", "Save as"),
    ("link", "Help"),
    ("button", "Help"),
)


@pytest.mark.parametrize(
    ("target", "verb", "number"),
    [
        (by_id(6), "click", 6),
        (name("OK"), "click", 4),  # exact beats the first in page order
        (name("ok"), "click", 3),  # else the first, whatever its case
        (name("Help"), "click", 8),  # the first of two of the same name
        (name("Help", "button"), "click", 9),  # unless the role says which
        (name("button Help"), "click", 9),
        (name("guardian"), "type", 2),  # the only one with that in its name
        (name("save AL"), "click", 6),
        (name("Name"), "type", 1),  # typing wants a field
        (name("help."), "click", 8),
        (Target(name="7", id=7), "click", 7),  # no element is called 7
    ],
)
def test_resolves(target, verb, number):
    assert resolve(FORM, target, verb).id == number


def test_a_number_is_a_name_first():
    elements = page(("button", "3"), ("button", "2"), ("button", "1"))
    assert resolve(elements, Target(name="3", id=3), "click").id == 1
    assert resolve(elements, by_id(3), "click").id == 3


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (name("Save"), "'Save' fits 2 elements; there are: button 'Save all' [6], button 'Save as' [7]"),
        (name("Cancel"), "there is no 'Cancel' on the page; there are: textbox 'Name' [1]"),
        (by_id(40), "there is no [40] on the page"),
    ],
)
def test_an_unclear_target_lists_the_candidates(target, says):
    with pytest.raises(ParseError) as caught:
        resolve(FORM, target, "click")
    assert says in str(caught.value)


def test_candidates_are_cut():
    many = page(*(("button", f"Item {number}") for number in range(20)))
    with pytest.raises(ParseError, match="and 14 more"):
        resolve(many, name("Item"), "click")


def test_an_empty_page_says_so():
    with pytest.raises(ParseError, match="nothing of that kind"):
        resolve([], name("Ok"), "click")


@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(
            st.sampled_from(
                [
                    "click",
                    "type",
                    "press",
                    "select",
                    "'",
                    '"',
                    "[",
                    "]",
                    "(",
                    ")",
                    "3",
                    "Ok",
                    " ",
                    ",",
                    "into",
                    "\\",
                ]
            )
        ).map("".join),
    )
)
def test_any_text_is_an_action_or_a_parse_error(text):
    try:
        action = parse(text)
    except ParseError:
        return
    assert action.verb
    assert action.target is None or action.target.name or action.target.id is not None


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), min_size=1, max_size=30))
def test_a_name_written_as_the_page_shows_it_is_read_back(label):
    label = " ".join(label.split())
    element = Element(1, "button", label, "e1")
    if label and "\\" not in label and not set(label) & set("'\"“”‘’`«»[]"):
        assert resolve([element], parse(f"click '{label}'").target, "click") is element


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ('Click on the "Ok" button.', "click 'Ok'"),
        ("click [1]", "click 'Ok'"),
        ("click [2]", "click [2]"),
        ("type [3] “Ann”", "type 'First name' 'Ann'"),
        ("press Enter", "press Enter"),
        ("stop '42'", "stop '42'"),
    ],
)
def test_canonical_form_names_the_element_where_the_name_is_enough(said: str, plain: str) -> None:
    page = (
        Element(1, "button", "Ok", "e1"),
        Element(2, "textbox", "", "e2"),
        Element(3, "textbox", "First name", "e3"),
    )
    action = parse(said)
    assert canonical(action, page) == plain
    assert canonical(parse(plain), page) == plain

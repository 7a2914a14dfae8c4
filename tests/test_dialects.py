"""Three languages for the same actions: what each text means, and what an agent is told when it means nothing."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webarena.actions import Action, ParseError, Target
from webarena.dialects import DIALECTS, parse, write
from webarena.observation import Element


def on(number):
    return Target(id=number)


COEVO = [
    ("click [3]", Action("click", on(3))),
    ("right_click 'Ok'", Action("right_click", Target("Ok"))),
    ("right click [3]", Action("right_click", on(3))),
    ("type [3] 'wool'", Action("type", on(3), "wool")),
    ("type [3] 'wool' enter", Action("type", on(3), "wool", enter=True)),
    ("type 'wool' into 'Search' and press Enter.", Action("type", Target("Search"), "wool", enter=True)),
    ("type 'Search' 'press enter'", Action("type", Target("Search"), "press enter")),
    ("type [3] [wool] [1]", Action("type", on(3), "wool")),
    ("goto 'shopping/cart'", Action("goto", text="shopping/cart")),
    ("goto http://shopping/cart", Action("goto", text="http://shopping/cart")),
    ("go to [/cart]", Action("goto", text="/cart")),
    ("go back", Action("back")),
    ("go_back", Action("back")),
    ("go forward", Action("forward")),
    ("forward", Action("forward")),
    ("new_tab", Action("new_tab")),
    ("new tab", Action("new_tab")),
    ("tab 1", Action("tab", amount=1.0)),
    ("tab [0]", Action("tab", amount=0.0)),
    ("close tab", Action("close_tab")),
    ("scroll up", Action("scroll", text="up")),
    ("stop", Action("stop")),
    ("stop 'Bob's Burgers'", Action("stop", text="Bob's Burgers")),
    ("stop 3 of 'A' and 'B'", Action("stop", text="3 of 'A' and 'B'")),
    ("answer 42", Action("stop", text="42")),
    ("infeasible", Action("infeasible")),
    ("infeasible 'there is no such order'", Action("infeasible", text="there is no such order")),
]

WEBARENA = [
    ("click [3]", Action("click", on(3))),
    ("```click [3]```", Action("click", on(3))),
    ("In summary, the next action I will perform is ```click [3]```", Action("click", on(3))),
    (
        "I could ```scroll [down]``` or ```click [3]```",
        Action("scroll", text="down"),
    ),  # the first block, as there
    ("```\nclick [3]\n```", Action("click", on(3))),
    ("Action: click [3]", Action("click", on(3))),
    ("Let me think.\nclick [3]", Action("click", on(3))),
    ("click [3] where [3] is a link", Action("click", on(3))),
    ("hover [12]", Action("hover", on(12))),
    ("right_click [12]", Action("right_click", on(12))),
    ("type [4] [wool] [1]", Action("type", on(4), "wool", enter=True)),
    ("type [4] [wool] [0]", Action("type", on(4), "wool")),
    ("type [4] [wool]", Action("type", on(4), "wool", enter=True)),
    ("type [4] [] [0]", Action("type", on(4), "")),
    ("type [4] [a [b] c] [0]", Action("type", on(4), "a [b] c")),
    ("select [5] [Peru]", Action("select", on(5), "Peru")),
    ("press [Enter]", Action("press", text="Enter")),
    ("press [ctrl+a]", Action("press", text="Control+a")),
    ("press [Meta+v]", Action("press", text="Meta+v")),
    ("scroll [down]", Action("scroll", text="down")),
    ("scroll [direction=up]", Action("scroll", text="up")),
    ("scroll down", Action("scroll", text="down")),
    ("goto [http://shopping/cart]", Action("goto", text="http://shopping/cart")),
    ("goto http://shopping/cart", Action("goto", text="http://shopping/cart")),
    ("go_back", Action("back")),
    ("go_forward", Action("forward")),
    ("new_tab", Action("new_tab")),
    ("tab_focus [1]", Action("tab", amount=1.0)),
    ("page_focus [0]", Action("tab", amount=0.0)),
    ("close_tab", Action("close_tab")),
    ("wait", Action("wait")),
    ("stop [42]", Action("stop", text="42")),
    ("stop [a [b]]", Action("stop", text="a [b]")),
    ("```stop [two\nlines]```", Action("stop", text="two\nlines")),
    ("stop", Action("stop")),
    ("stop []", Action("stop")),
    ("stop [N/A]", Action("stop", text="N/A")),
    ("infeasible [no such order]", Action("infeasible", text="no such order")),
]

WEBRL = [
    ('do(action="Click", element="3")', Action("click", on(3))),
    ("do(action='Click', element='3')", Action("click", on(3))),
    ('do(action="Click", element=3)', Action("click", on(3))),
    ('do(action="Click", element="[3]")', Action("click", on(3))),
    ('do(element="3", action="click")', Action("click", on(3))),
    ('do("Click", element="3")', Action("click", on(3))),
    ('do(action="Right Click", element="3")', Action("right_click", on(3))),
    ('do(action="Hover", element="3")', Action("hover", on(3))),
    ('do(action="Type", argument="wool", element="4")', Action("type", on(4), "wool")),
    ('do(action="Search", argument="wool", element="4")', Action("type", on(4), "wool", enter=True)),
    ('do(action="Type", argument="say \\"hi\\"", element="4")', Action("type", on(4), 'say "hi"')),
    ('do(action="Type", argument="say "hi" now", element="4")', Action("type", on(4), 'say "hi" now')),
    ('do(action="Type", argument="it\'s", element="4")', Action("type", on(4), "it's")),
    ('do(action="Type", argument="a, b) c", element="4")', Action("type", on(4), "a, b) c")),
    ('do(action="Type", argument="exit(message=1)", element="4")', Action("type", on(4), "exit(message=1)")),
    ('do(action="Type", argument="one\\ntwo", element="4")', Action("type", on(4), "one\ntwo")),
    ('do(action="Select Dropdown Option", argument="Peru", element="5")', Action("select", on(5), "Peru")),
    ('do(action="Scroll Down")', Action("scroll", text="down")),
    ('do(action="Scroll Up")', Action("scroll", text="up")),
    ('do(action="Press Enter")', Action("press", text="Enter")),
    ('do(action="Press Key", argument="Escape")', Action("press", text="Escape")),
    ('do(action="Switch Tab", argument="1")', Action("tab", amount=1.0)),
    ('do(action="New Tab")', Action("new_tab")),
    ('do(action="Close Tab")', Action("close_tab")),
    ('do(action="Goto", argument="/cart")', Action("goto", text="/cart")),
    ('do(action="Go Backward")', Action("back")),
    ('do(action="Go Forward")', Action("forward")),
    ('do(action="Wait")', Action("wait")),
    ("go_backward()", Action("back")),
    ("go_forward()", Action("forward")),
    ('exit(message="42")', Action("stop", text="42")),
    ('exit("42")', Action("stop", text="42")),
    ("exit(message=42)", Action("stop", text="42")),
    ("exit()", Action("stop")),
    # what stands around the call
    ('# Element: the \'Next\' link\ndo(action="Click", element="3")', Action("click", on(3))),
    ('I will not exit(message="1") yet.\ndo(action="Click", element="3")', Action("click", on(3))),
    ('```python\ndo(action="Click", element="3")\n```', Action("click", on(3))),
    ('do(action="Click", element="3") opens it', Action("click", on(3))),
    ('do(action="Click", element="3")\nexit(message="done")', Action("stop", text="done")),
]


@pytest.mark.parametrize(("text", "expected"), COEVO)
def test_coevo(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(("text", "expected"), WEBARENA)
def test_webarena(text, expected):
    assert parse(text, "webarena") == expected


@pytest.mark.parametrize(("text", "expected"), WEBRL)
def test_webrl(text, expected):
    assert parse(text, "webrl") == expected


@pytest.mark.parametrize(
    ("dialect", "text", "says"),
    [
        ("coevo", "goto", "goto takes one address"),
        ("coevo", "tab 'Details' [3]", "is not an action"),  # a line of the page
        ("webarena", "", "no action given"),
        ("webarena", "I am thinking", "there is no action in this; write one action such as: click [ID]"),
        ("webarena", "```I am thinking```", "is not an action"),
        ("webarena", "click", "click is written: click [ID]"),
        ("webarena", "click ['Ok']", "click is written: click [ID]"),
        ("webarena", "type [4]", "type is written: type [ID] [TEXT] [1]"),
        ("webarena", "type [4] [a] [2]", None),
        ("webarena", "press [Wool]", "'Wool' is no key"),
        ("webarena", "scroll [left]", "scroll is written: scroll [down] or scroll [up]"),
        ("webarena", "goto", "goto is written: goto [URL]"),
        ("webarena", "tab_focus [next]", "tab_focus is written: tab_focus [INDEX]"),
        ("webarena", "stop the answer is 42", "the answer of stop stands in brackets: stop [ANSWER]"),
        ("webrl", "", "no action given"),
        ("webrl", "click [3]", 'there is no action in this; write one call such as: do(action="Click"'),
        ("webrl", 'do(element="3")', "do(…) needs an action"),
        ("webrl", 'do(action="Click")', "Click needs an element"),
        (
            "webrl",
            'do(action="Click", element="Ok")',
            "element is the number in brackets, as in element=\"3\", not 'Ok'",
        ),
        ("webrl", 'do(action="Type", element="3")', "Type needs a text"),
        ("webrl", 'do(action="Switch Tab", argument="next")', "Switch Tab takes a tab's number"),
        ("webrl", 'do(action="Switch Tab")', "Switch Tab needs an argument"),
        ("webrl", 'do(action="Fly")', "there is no action 'Fly'; there are Click, Right Click"),
        ("webrl", 'do(action="Click", element="3"', "do( is not closed"),
        ("webrl", 'do(action="Click, element=3)', "a string in do(…) is not closed"),
        ("webrl", 'do(action="Press Key", argument="Wool")', "'Wool' is no key"),
        ("webrl", 'do(action="Click", element="3")\ndo(action="Cli', "is not closed"),
    ],
)
def test_refuses_and_says_how_it_is_written(dialect, text, says):
    if says is None:  # a third argument other than 0 and 1 is part of the text
        assert parse(text, dialect) == Action("type", on(4), "a] [2", enter=True)
        return
    with pytest.raises(ParseError) as caught:
        parse(text, dialect)
    assert says in str(caught.value)


PAGE = (
    Element(1, "button", "Ok", "e1"),
    Element(2, "textbox", "Search", "e2"),
    Element(3, "combobox", "Country", "e3", options=("Peru", "Chile")),
)
PLAIN = [
    (Action("click", on(1)), ("click 'Ok'", "click [1]", 'do(action="Click", element="1")')),
    (Action("right_click", on(1)), ("right_click 'Ok'", "right_click [1]", 'do(action="Right Click", element="1")')),
    (Action("hover", on(1)), ("hover 'Ok'", "hover [1]", 'do(action="Hover", element="1")')),
    (
        Action("type", on(2), "wool"),
        ("type 'Search' 'wool'", "type [2] [wool] [0]", 'do(action="Type", argument="wool", element="2")'),
    ),
    (
        Action("type", on(2), "wool", enter=True),
        ("type 'Search' 'wool' enter", "type [2] [wool] [1]", 'do(action="Search", argument="wool", element="2")'),
    ),
    (
        Action("select", on(3), "Peru"),
        (
            "select 'Country' 'Peru'",
            "select [3] [Peru]",
            'do(action="Select Dropdown Option", argument="Peru", element="3")',
        ),
    ),
    (Action("press", text="Enter"), ("press Enter", "press [Enter]", 'do(action="Press Enter")')),
    (Action("press", text="Control+a"), ("press Control+a", "press [Control+a]", 'do(action="Press Key", argument="Control+a")')),
    (Action("scroll", text="down"), ("scroll down", "scroll [down]", 'do(action="Scroll Down")')),
    (Action("goto", text="/cart"), ("goto '/cart'", "goto [/cart]", 'do(action="Goto", argument="/cart")')),
    (Action("back"), ("back", "go_back", "go_backward()")),
    (Action("forward"), ("forward", "go_forward", "go_forward()")),
    (Action("new_tab"), ("new_tab", "new_tab", 'do(action="New Tab")')),
    (Action("tab", amount=1.0), ("tab 1", "tab_focus [1]", 'do(action="Switch Tab", argument="1")')),
    (Action("close_tab"), ("close_tab", "close_tab", 'do(action="Close Tab")')),
    (Action("wait"), ("wait", "wait", 'do(action="Wait")')),
    (Action("stop", text="42"), ("stop '42'", "stop [42]", 'exit(message="42")')),
]  # fmt: skip


@pytest.mark.parametrize(("action", "texts"), PLAIN, ids=[texts[0] for _, texts in PLAIN])
def test_the_plain_form_of_each_dialect_is_read_back(action, texts):
    for dialect, text in zip(DIALECTS, texts, strict=True):
        assert write(action, PAGE, dialect) == text
        again = parse(text, dialect)
        assert (again.verb, again.text, again.amount, again.enter) == (
            action.verb,
            action.text,
            action.amount,
            action.enter,
        )
        assert write(again, PAGE, dialect) == text


def test_infeasible_is_the_answer_that_webrl_has_for_it():
    assert write(Action("infeasible", text="why"), PAGE, "webrl") == 'exit(message="N/A")'
    assert write(Action("infeasible", text="why"), PAGE, "webarena") == "infeasible [why]"


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_an_element_that_is_not_there_is_a_parse_error(dialect):
    with pytest.raises(ParseError, match=r"there is no \[9\] on the page"):
        write(Action("click", on(9)), PAGE, dialect)


PIECES = [
    *(
        "do(",
        "exit(",
        "go_backward(",
        "action=",
        "element=",
        "argument=",
        "message=",
        "Click",
        "Type",
        '"',
        "'",
        "\\",
    ),
    *(
        "click",
        "type",
        "stop",
        "press",
        "scroll",
        "goto",
        "tab_focus",
        "[",
        "]",
        "3",
        ",",
        ")",
        " ",
        "\n",
        "```",
        "=",
    ),
]


@given(st.one_of(st.text(max_size=50), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_text_is_an_action_or_a_parse_error(text):
    for dialect in DIALECTS:
        try:
            action = parse(text, dialect)
        except ParseError:
            continue
        assert action.target is None or action.target.name or action.target.id is not None


LINE = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs")), min_size=1)


@given(st.lists(LINE, min_size=1, max_size=4).map(" ".join), st.booleans())
@example("the girls’ room", True)
@example("’", False)
def test_any_text_is_read_back_as_it_was_written(text, enter):
    for dialect in DIALECTS:
        for action in (Action("type", on(2), text, enter=enter), Action("stop", text=text)):
            again = parse(write(action, PAGE, dialect), dialect)
            assert (again.verb, again.text, again.enter) == (action.verb, text, action.enter), dialect

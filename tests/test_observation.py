"""From Playwright's aria snapshot to the lines an agent reads."""

import textwrap

import pytest

from webarena.actions import parse
from webarena.observation import compact, parse_snapshot, quote


def view(snapshot, **limits):
    return compact(parse_snapshot(textwrap.dedent(snapshot).strip("\n")), **limits)


def test_one_line_an_element_numbered_in_page_order():
    page = view(
        """
        - generic [ref=e1]:
          - heading "Shop" [level=1] [ref=e2]
          - paragraph [ref=e3]: Welcome back
          - button "Ok" [ref=e4]
          - link "Help" [ref=e5]:
            - /url: "#help"
        """
    )
    assert page.lines == ("heading 'Shop'", "Welcome back", "button 'Ok' [1]", "link 'Help' [2]")
    assert [(element.id, element.ref) for element in page.elements] == [(1, "e4"), (2, "e5")]
    assert page.text == "heading 'Shop'\nWelcome back\nbutton 'Ok' [1]\nlink 'Help' [2]"


def test_states_and_values():
    page = view(
        """
        - checkbox "News" [checked] [ref=e1]
        - checkbox "Ads" [ref=e2]
        - tab "One" [selected] [ref=e3]
        - button "More" [expanded] [ref=e4]
        - button "Go" [disabled] [ref=e5]
        - button "Bold" [pressed] [ref=e6]
        - textbox "Name" [ref=e7]: Ada
        - textbox "Mail" [ref=e8]:
          - /placeholder: you@there
          - text: ada@here
        - textbox [ref=e9]:
          - /placeholder: Search
        - spinbutton "Age" [ref=e10]: "36"
        """
    )
    assert page.lines == (
        "checkbox 'News' [1] checked",
        "checkbox 'Ads' [2]",
        "tab 'One' [3] selected",
        "button 'More' [4] expanded",
        "button 'Go' [5] disabled",
        "button 'Bold' [6] pressed",
        "textbox 'Name' [7] = 'Ada'",
        "textbox 'Mail' [8] = 'ada@here'",
        "textbox 'Search' [9]",
        "spinbutton 'Age' [10] = '36'",
    )


def test_lists_show_their_options_and_what_is_chosen():
    page = view(
        """
        - combobox "Country" [ref=e1]:
          - option "Chile"
          - option "Peru" [selected]
        - listbox "Toppings" [ref=e2]:
          - option "Olives" [selected] [ref=e3]
          - option "Onions" [selected] [ref=e4]
          - option "Cheese" [ref=e5]
        """
    )
    assert page.lines == (
        "combobox 'Country' [1] = 'Peru' options 'Chile', 'Peru'",
        "listbox 'Toppings' [2] = 'Olives, Onions' options 'Olives', 'Onions', 'Cheese'",
    )
    assert page.elements[1].options == ("Olives", "Onions", "Cheese")


def test_a_label_is_not_said_twice():
    page = view(
        """
        - generic [ref=e1]:
          - text: "Name:"
          - textbox "Name:" [ref=e2]
          - checkbox "wool" [ref=e3]
          - text: wool
          - tab "Tab #1" [ref=e4]:
            - link "Tab #1" [ref=e5]
        """
    )
    assert page.lines == ("textbox 'Name:' [1]", "checkbox 'wool' [2]", "tab 'Tab #1' [3]")


def test_plain_cells_beside_links_are_shown_too():
    page = view(
        """
        - table [ref=e1]:
          - rowgroup [ref=e2]:
            - row "Issue Status Owner" [ref=e3]:
              - columnheader "Issue" [ref=e4]
              - columnheader "Status" [ref=e5]
              - columnheader "Owner" [ref=e6]
            - row "Fix it Open High Nora" [ref=e7]:
              - cell "Fix it" [ref=e8]:
                - link "Fix it" [ref=e9]
              - cell "Open" [ref=e10]
              - cell "High" [ref=e11]
              - cell "Nora" [ref=e12]:
                - link "Nora" [ref=e13]
              - cell "today" [ref=e14]
        """
    )
    assert page.lines == (
        "Issue | Status | Owner",
        "link 'Fix it' [1]",
        "Open | High",
        "link 'Nora' [2]",
        "today",
    )


def test_rows_of_plain_cells_become_one_line():
    page = view(
        """
        - table [ref=e1]:
          - rowgroup [ref=e2]:
            - row "Color red" [ref=e3]:
              - cell "Color" [ref=e4]
              - cell "red" [ref=e5]
            - row "Pay" [ref=e6]:
              - cell "Pay" [ref=e7]:
                - button "Pay" [ref=e8]
        """
    )
    assert page.lines == ("Color | red", "button 'Pay' [1]")


def test_hidden_parts_and_noise_are_left_out():
    page = view(
        """
        - note "coevo:hidden" [ref=e1]:
          - button "Secret" [ref=e2]
        - generic [ref=e3]: ·
        - button "Ok" [ref=e4]
        """
    )
    assert page.lines == ("button 'Ok' [1]",)


def test_what_shows_a_pointer_can_be_clicked():
    page = view(
        """
        - generic [ref=e1] [cursor=pointer]:
          - generic [ref=e2]: Wool
          - generic [ref=e3]: 20 €
        """
    )
    assert page.lines == ("button 'Wool 20 €' [1]",)
    assert page.elements[0].ref == "e1"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('- button "a: b" [ref=e1]', "a: b"),
        ("- 'button \"Section #2: it''s here\" [ref=e1]'", "Section #2: it's here"),
        ('- button "say \\"hi\\"" [ref=e1]', 'say "hi"'),
        ('- button "♥♥♥" [ref=e1] [cursor=pointer]', "♥♥♥"),
        ('- button "[3] x" [ref=e1]', "[3] x"),
    ],
)
def test_awkward_names(line, name):
    assert view(line).elements[0].name == name


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("- text: plain", "plain"),
        ('- text: "Name: x"', "Name: x"),
        ('- text: "a \\"b\\" \\\\ c"', 'a "b" \\ c'),
        ('- paragraph [ref=e1]: "12"', "12"),
    ],
)
def test_awkward_texts(line, text):
    assert view(line).lines == (text,)


def test_long_pages_and_texts_are_cut_visibly():
    lines = "\n".join(f'- button "B{number}" [ref=e{number}]' for number in range(30))
    page = view(lines, max_lines=10)
    assert len(page.lines) == 11
    assert page.lines[-1] == "… 20 more lines"
    assert view("- text: " + "word " * 100, max_text=20).lines == ("word word word word…",)
    long = view("- textbox [ref=e1]: first " + "word " * 100 + "last", max_text=20).lines[0]
    assert long.startswith("textbox [1] = 'first ")
    assert long.endswith(" last'")


@pytest.mark.parametrize("name", ["Ok", "Bob's", "say “hi”", "a, b", "[3]"])
def test_a_quoted_name_is_read_back(name):
    assert parse(f"click {quote(name)}").target.name == name


def test_a_disabled_element_keeps_its_line():
    assert view('- button "Go" [disabled]').lines == ("button 'Go' [1] disabled",)


@pytest.fixture
async def page():
    from webarena.browser import Browser
    from webarena.observation import INIT_SCRIPT

    browser = Browser()
    page = await browser.new_page(init_script=INIT_SCRIPT)
    yield page
    await browser.close()


async def shown(page, html, hidden=""):
    from webarena.observation import observe

    await page.goto("about:blank")
    await page.set_content(html)
    await page.evaluate("(hidden) => __coevo.annotate(hidden)", hidden)
    return (await observe(page, timeout_ms=3000)).lines


@pytest.mark.browser
async def test_clickable_elements_without_a_role_are_shown(page):
    lines = await shown(
        page,
        """
        <span id=a>linen</span> and <span id=b style="text-decoration: underline">wool</span>
        <div id=c class="trash-icon" style="width:10px;height:10px"></div>
        <div id=d style="width:10px;height:10px;background-color:magenta"></div>
        <div onclick="1">card</div> <div>plain</div>
        <svg width=100 height=50><circle id=e cx=10 cy=10 r=10 fill=red></circle>
          <rect id=f x=50 y=10 width=5 height=5 fill="rgb(0,0,250)"></rect></svg>
        <script>for (const id of "abcdef") document.getElementById(id).addEventListener("click", () => 1)</script>
        """,
    )
    assert lines == (
        "button 'linen' [1]",
        "and",
        "link 'wool' [2]",
        "button 'trash icon' [3]",
        "button 'magenta' [4]",
        "button 'card' [5]",
        "plain",
        "button 'large red circle' [6]",
        "button 'small blue rectangle' [7]",
    )


@pytest.mark.browser
async def test_an_element_that_lost_its_listener_is_no_button(page):
    lines = await shown(
        page,
        """<div id=a>one</div><div id=b>two</div>
        <script>const f = () => 1; for (const id of "ab") document.getElementById(id).addEventListener("click", f);
        document.getElementById("b").removeEventListener("click", f)</script>""",
    )
    assert lines == ("button 'one' [1]", "two")


@pytest.mark.browser
async def test_fields_take_the_name_of_the_text_before_them(page):
    lines = await shown(
        page,
        """<p>User <input></p><p>Password: <input type=password></p>
        <label for=x>Age</label><input id=x type=number>
        <input placeholder=Search><select aria-label=Size><option>S<option selected>M</select>
        <div><input type=checkbox> wool</div>""",
    )
    assert lines == (
        "textbox 'User' [1]",
        "textbox 'Password' [2]",
        "spinbutton 'Age' [3]",
        "textbox 'Search' [4]",
        "combobox 'Size' [5] = 'M' options 'S', 'M'",
        "checkbox 'wool' [6]",
    )


@pytest.mark.browser
async def test_hidden_parts_do_not_show(page):
    lines = await shown(page, "<div id=secret><button>A</button></div><button>B</button>", "#secret")
    assert lines == ("button 'B' [1]",)

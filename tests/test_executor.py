"""Actions on small pages in a real Chromium: what they do to the page, and why they may not."""

import pytest
import pytest_asyncio

from webarena.actions import ParseError, parse
from webarena.browser import Browser
from webarena.executor import ActionFailed, perform
from webarena.observation import INIT_SCRIPT, observe

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page():
    browser = Browser()
    yield await browser.new_page(init_script=INIT_SCRIPT)
    await browser.close()


async def do(page, html, *actions):
    """The lines of the page after the actions."""
    if html is not None:
        await page.goto("about:blank")
        await page.set_content(html)
    for action in (*actions, None):
        await page.evaluate("async () => { await __coevo.settle(500); __coevo.annotate(''); }")
        view = await observe(page, timeout_ms=3000)
        if action is not None:
            await perform(page, view, parse(action))
    return view.lines


async def test_clicks_are_real_and_ticks_show(page):
    html = """<input type=checkbox aria-label=wool>
      <button onclick="this.textContent = event.isTrusted ? 'yes' : 'no'">Trusted?</button>"""
    assert await do(page, html, "click 'wool'", "click 'Trusted?'") == (
        "checkbox 'wool' [1] checked",
        "button 'yes' [2]",
    )


async def test_typing_replaces_text_and_reaches_key_listeners(page):
    html = """<input aria-label=Name value=old onkeyup="out.textContent = 'keys: ' + this.value"><p id=out></p>"""
    assert await do(page, html, "type 'Name' 'new one'") == (
        "textbox 'Name' [1] = 'new one'",
        "keys: new one",
    )
    assert (await do(page, None, "type 'Name' ''"))[0] == "textbox 'Name' [1]"
    assert (await do(page, None, "press x", "press Shift+y"))[0] == "textbox 'Name' [1] = 'xY'"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("date", "11/05/2017", "2017-11-05"),
        ("date", "2017-11-05", "2017-11-05"),
        ("time", "1:30 PM", "13:30"),
        ("time", "12:05 am", "00:05"),
        ("range", "7", "7"),
    ],
)
async def test_formatted_fields(page, kind, text, value):
    await do(page, f"<input type={kind} aria-label=When>", f"type 'When' '{text}'")
    assert await page.locator("input").input_value() == value


async def test_enter_submits_a_form(page):
    html = """<form onsubmit="event.preventDefault(); out.textContent = 'sent ' + q.value">
      <input id=q aria-label=Query></form><p id=out></p>"""
    assert "sent wool" in await do(page, html, "type 'wool'", "press Enter")


SIZES = "<select aria-label=Size onchange='out.textContent = value'><option>S<option>M<option>L</select><p id=out></p>"


@pytest.mark.parametrize(
    "action", ["select 'Size' 'M'", "select [1] 'M'", "select 'M'", "select 'M' from 'Size'", "click 'M'"]
)
async def test_choosing_from_a_list(page, action):
    assert await do(page, SIZES, action) == ("combobox 'Size' [1] = 'M' options 'S', 'M', 'L'", "M")


async def test_a_list_of_several_adds_choices(page):
    html = "<select multiple aria-label=Toppings><option>Olives<option>Onions<option>Cheese</select>"
    lines = await do(page, html, "select 'Olives'", "select 'Toppings' 'Cheese'")
    assert lines == ("listbox 'Toppings' [1] = 'Olives, Cheese' options 'Olives', 'Onions', 'Cheese'",)


async def test_hovering_opens_what_opens_on_hover(page):
    html = """<div onclick=1 onmouseenter="menu.hidden = false">Menu</div><div id=menu hidden><a href=#x>Prices</a></div>"""
    assert await do(page, html, "hover 'Menu'") == ("button 'Menu' [1]", "link 'Prices' [2]")


async def test_elements_out_of_view_are_scrolled_to(page):
    html = "<div style='height:3000px'></div><button onclick='this.textContent = 1'>Far</button>"
    assert await do(page, html, "click 'Far'") == ("button '1' [1]",)


async def test_scrolling(page):
    html = "<div style='height:3000px'>long</div>"
    await do(page, html, "scroll down")
    assert await page.evaluate("scrollY") > 0
    await do(page, None, "scroll up")
    with pytest.raises(ActionFailed, match="already at the top"):
        await do(page, None, "scroll up")


async def test_waiting_ends_with_the_change(page):
    html = "<p id=out>soon</p><script>setTimeout(() => { out.textContent = 'now' }, 700)</script>"
    started = await page.evaluate("performance.now()")
    assert await do(page, html, "wait 5") == ("now",)
    assert await page.evaluate("performance.now()") - started < 4000


async def test_short_timers_are_waited_for(page):
    html = """<button onclick="setTimeout(() => setTimeout(() => { out.textContent = 'done' }, 100), 100)">Go</button><p id=out>idle</p>"""
    assert await do(page, html, "click 'Go'") == ("button 'Go' [1]", "done")


async def test_inside_a_frame(page):
    html = """<iframe srcdoc="<button onclick='this.textContent = 1'>Inner</button><input aria-label=Field>"></iframe>"""
    lines = await do(page, html, "click 'Inner'", "type 'Field' 'wool'")
    assert lines == ("button '1' [1]", "textbox 'Field' [2] = 'wool'")


@pytest.mark.parametrize(
    ("html", "action", "error", "says"),
    [
        ("<button disabled>Go</button>", "click 'Go'", ActionFailed, "button 'Go': it is disabled"),
        ("<button>Go</button>", "type 'Go' 'x'", ActionFailed, "cannot be typed into"),
        ("<input readonly aria-label=Name>", "type 'Name' 'x'", ActionFailed, "cannot be typed into"),
        (SIZES, "select 'Size' 'XL'", ActionFailed, "combobox 'Size': it has no option 'XL'"),
        (SIZES, "click 'Size'", ActionFailed, "write select 'Size' 'OPTION'"),
        (
            "<button>Go</button>",
            "select 'XL'",
            ParseError,
            "there is no 'XL' on the page; there are: button 'Go' [1]",
        ),
        (
            "<button>Go</button><div style='position:fixed;inset:0'>Cookies?</div>",
            "click 'Go'",
            ActionFailed,
            "button 'Go': it is covered by 'cookies?'",
        ),
    ],
)
async def test_what_cannot_be_done_says_why(page, html, action, error, says):
    with pytest.raises(error) as caught:
        await do(page, html, action)
    assert says in str(caught.value)


async def test_an_element_that_went_away_says_so(page):
    await page.goto("about:blank")
    await page.set_content("<button>Go</button>")
    view = await observe(page, timeout_ms=3000)
    await page.evaluate("document.querySelector('button').remove()")
    with pytest.raises(ActionFailed, match="button 'Go': it is no longer on the page"):
        await perform(page, view, parse("click 'Go'"))

"""MiniWoB in a real Chromium: instances, rewards, mistakes, and a browser that breaks."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap

import processes
import pytest
import pytest_asyncio

from coevo.env import Environment, Task
from coevo.errors import ConfigError, WorldError
from webarena.browser import Browser, find_chromium
from webarena.miniwob import task_names, tasks


def quoted(goal, number=0):
    return re.findall(r'"([^"]*)"', goal)[number]


def checkboxes(goal, page):
    wanted = re.sub(r"^Select | and click Submit\.$", "", goal)
    names = [] if wanted == "nothing" else wanted.split(", ")
    return [f"click '{name}'" for name in names] + ["click 'Submit'"]


def greatest(goal, page):
    cards = [int(number) for number in re.findall(r"button '(-?\d+)'", page)]
    return [f"click '{max(cards)}'", "click 'Submit'"]


def table(goal, page):
    field = re.search(r"value of (.*) into", goal)[1]
    value = re.search(rf"^{field} \| (.*)$", page, re.M)[1]
    return [f"type '{value}'", "click 'Submit'"]


def movie(goal, page):
    genre, director, year = re.search(
        r"Search for (\S+) movies directed by (\S+) from year (\d+)", goal
    ).groups()
    return [
        f"type 'Genre' '{genre}'",
        f"type 'Director' '{director}'",
        f"type 'Year' '{year}'",
        "click 'Submit'",
    ]


def delete_mail(goal, page):
    sender = re.search(r"email by (\S+) and", goal)[1]
    row = int(re.search(rf"button '{sender} .*\[(\d+)\]", page)[1])
    return [f"click [{row + 1}]"]


def login(goal, page):
    return [f"type 'Username' '{quoted(goal)}'", f"type 'Password' '{quoted(goal, 1)}'", "click 'Login'"]


ORACLE = {
    "click-button": lambda goal, page: [f"click '{quoted(goal)}'"],
    "click-test-2": lambda goal, page: ["click 'ONE'"],
    "click-link": lambda goal, page: [f"click '{quoted(goal)}'"],
    "click-tab": lambda goal, page: [f"click '{re.search('Tab #[0-9]', goal)[0]}'"],
    "click-color": lambda goal, page: [f"click '{goal.split()[3]}'"],
    "click-option": lambda goal, page: checkboxes(goal, page),
    "click-checkboxes": checkboxes,
    "click-button-sequence": lambda goal, page: ["click 'ONE'", "click 'TWO'"],
    "click-dialog": lambda goal, page: ["click 'Close'"],
    "choose-list": lambda goal, page: [
        f"select '{re.search('Select (.*) from the list', goal)[1]}'",
        "click 'Submit'",
    ],
    "click-scroll-list": lambda goal, page: [
        *(f"select '{name}'" for name in re.search("Select (.*) from the", goal)[1].split(", ")),
        "click 'Submit'",
    ],
    "enter-text": lambda goal, page: [f"type '{quoted(goal)}'", "click 'Submit'"],
    "enter-password": lambda goal, page: [
        f"type 'Password' '{quoted(goal)}'",
        f"type 'Verify password' '{quoted(goal)}'",
        "click 'Submit'",
    ],
    "enter-date": lambda goal, page: [f"type '{goal.split()[1]}'", "click 'Submit'"],
    "login-user": login,
    "focus-text": lambda goal, page: ["click [1]"],
    "find-greatest": greatest,
    "read-table": table,
    "multi-orderings": movie,
    "email-inbox-delete": delete_mail,
    "click-collapsible": lambda goal, page: [
        re.sub(r".*(tab) ('.*') .*", r"click \2", page.splitlines()[0]),
        "click 'Submit'",
    ],
}
STATEFUL = (  # pages that build widgets or keep variables
    *("click-tab", "click-dialog", "click-collapsible", "click-scroll-list", "email-inbox-delete"),
    *("enter-date", "click-checkboxes", "login-user", "multi-orderings", "find-word"),
)
SLIPS = {  # one wrong thing to do on each page, which the page scores as a failure at once
    "click-test-2": "click 'TWO'",
    "enter-text": "click 'Submit'",
    "login-user": "click 'Login'",
    "choose-list": "click 'Submit'",
    "find-greatest": "click 'Submit'",
    "enter-date": "click 'Submit'",
}


@pytest.fixture(scope="module")
def task_set():
    return tasks(tuple(ORACLE), train=3, dev=2, test=2)


in_one_loop = pytest.mark.asyncio(loop_scope="module")  # tests that share one browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(task_set):
    pool = task_set.pool(2)
    yield pool
    await pool.close()


async def play(environment, task, choose):
    """Runs the actions `choose` gives; returns the first observation and the last transition."""
    observation = await environment.reset(task, seed=0)
    transition = None
    for action in choose(observation.goal, observation.text):
        transition = await environment.step(action)
        assert not transition.info.get("error"), (task.id, action, transition.info)
        if transition.done:
            break
    return observation, transition


# --- the task set: no browser ----------------------------------------------------------------------------------


def test_splits_are_disjoint_and_fixed(task_set):
    seeds = {split: {task.seed for task in task_set.tasks(split)} for split in ("train", "dev", "test")}
    assert [len(seeds[split]) for split in seeds] == [3 * len(ORACLE), 2 * len(ORACLE), 2 * len(ORACLE)]
    assert len(set.union(*seeds.values())) == 7 * len(ORACLE)
    assert task_set.tasks("dev") == tasks(tuple(ORACLE), train=99, dev=2, test=1).tasks("dev")


def test_names_take_turns(task_set):
    assert [task.group for task in task_set.tasks("train")[: len(ORACLE)]] == list(ORACLE)


def test_more_instances_only_add_some():
    few, many = tasks("click-button", train=2), tasks("click-button", train=5)
    assert many.tasks("train")[:2] == few.tasks("train")


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        (["click-buton"], {}, "no task 'click-buton'.*\n.*click-button"),
        ([], {}, "no MiniWoB tasks"),
        (["click-button"], {"formt_weight": 1}, "unknown MiniWoB option 'formt_weight'.*\n.*format_weight"),
        (["click-button"], {"format_weight": 2}, "not between 0 and 1"),
        (["click-button"], {"max_turns": 0}, "max_turns"),
        (["click-button"], {"train": -1}, "fewer than 0"),
    ],
)
def test_bad_settings_are_refused(names, options, says):
    with pytest.raises(ConfigError, match=says):
        tasks(names, **options)


def test_an_unknown_split_is_refused(task_set):
    with pytest.raises(ConfigError, match="no split 'tset'"):
        task_set.tasks("tset")


def test_the_wheel_has_its_tasks():
    assert len(task_names()) > 120


def test_no_chromium_says_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("COEVO_CHROMIUM", raising=False)
    with pytest.raises(ConfigError, match="no Chromium found") as caught:
        find_chromium(str(tmp_path / "nothing"))
    assert "apt install chromium" in str(caught.value)
    monkeypatch.setenv("COEVO_CHROMIUM", "/nowhere/chrome")
    with pytest.raises(ConfigError, match="COEVO_CHROMIUM=/nowhere/chrome is not an executable"):
        find_chromium(None)


# --- episodes ----------------------------------------------------------------------------------------------------


@pytest.mark.browser
@in_one_loop
async def test_doing_what_is_asked_scores_one(pool, task_set):
    failures = []
    for task in task_set.tasks("train")[: len(ORACLE)]:
        environment = await pool.acquire(task)
        assert isinstance(environment, Environment)
        observation, transition = await play(environment, task, ORACLE[task.group])
        if not (transition.done and transition.success and transition.reward == 1):
            failures.append((task.id, observation.goal, observation.text, transition))
        await pool.release(environment)
    assert not failures


@pytest.mark.browser
@in_one_loop
async def test_doing_something_else_scores_zero(pool, task_set):
    for task in task_set.tasks("dev"):
        if task.group in SLIPS:
            environment = await pool.acquire(task)
            _, transition = await play(environment, task, lambda goal, page, slip=SLIPS[task.group]: [slip])
            assert transition.done, task.id
            assert (transition.reward, transition.success) == (0, False), task.id
            assert transition.info["category"] == "wrong_action"
            await pool.release(environment)


@pytest.mark.browser
async def test_a_page_in_use_shows_the_same_instance_as_a_fresh_one():
    """Restarting in place, after other episodes were played, gives what a newly loaded page gives, hidden text too."""

    async def see(environment, task):
        observation = await environment.reset(task, seed=0)
        text = await environment.slot.page.text_content("#area")
        return observation.goal, observation.text, text

    task_set = tasks(STATEFUL, train=3)
    pool = task_set.pool(1)
    try:
        for name in STATEFUL:
            first, second, third = (task for task in task_set.tasks("train") if task.group == name)
            environment = await pool.acquire(first)
            fresh = await see(environment, first)
            page = environment.slot.page
            for other in (second, third):
                await play(
                    environment, other, ORACLE.get(name, lambda goal, text: ["type 'x'", "click 'Submit'"])
                )
            assert await see(environment, first) == fresh, name
            assert await see(environment, second) != fresh, name
            assert environment.slot.page is page
            await pool.release(environment)
    finally:
        await pool.close()


@pytest.mark.browser
@in_one_loop
async def test_a_page_that_has_the_task_loaded_is_preferred(pool, task_set):
    first, second = task_set.tasks("train")[:2]
    environments = [await pool.acquire(first), await pool.acquire(second)]
    pages = []
    for environment, task in zip(environments, (first, second), strict=True):
        await environment.reset(task, seed=0)
        pages.append(environment.slot.page)
        await pool.release(environment)
    again = await pool.acquire(first)
    assert again.slot.page is pages[0]
    await pool.release(again)


@pytest.mark.browser
@in_one_loop
async def test_mistakes_come_back_as_text(pool, task_set):
    task = next(task for task in task_set.tasks("train") if task.group == "enter-text")
    environment = await pool.acquire(task)
    first = await environment.reset(task, seed=0)
    for action, category, says in (
        ("hello there", "parse_error", "is not an action"),
        ("click 'Nonsense'", "parse_error", "no 'Nonsense' on the page"),
        ("type 'Submit' 'x'", "action_failed", "cannot be typed into"),
        ("back", "action_failed", "no page to go back to"),
        ("scroll down", "action_failed", "nothing to scroll"),
    ):
        transition = await environment.step(action)
        assert not transition.done
        assert transition.info["category"] == category, action
        assert says in transition.info["error"] == transition.observation.error
        assert transition.observation.text == first.text
    transition = await environment.step("stop 'I give up'")
    assert (transition.done, transition.success, transition.info["category"]) == (True, False, "gave_up")
    with pytest.raises(RuntimeError, match="call reset"):
        await environment.step("click 'Submit'")
    await pool.release(environment)


@pytest.mark.browser
@in_one_loop
async def test_typing_replaces_what_was_there_and_shows(pool, task_set):
    task = next(task for task in task_set.tasks("train") if task.group == "enter-text")
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    assert "= 'wrong'" in (await environment.step("type 'wrong'")).observation.text
    assert "= 'right'" in (await environment.step("type [1] 'right'")).observation.text
    await pool.release(environment)


@pytest.mark.browser
@in_one_loop
async def test_a_covered_element_is_named_with_its_cover(pool, task_set):
    task = next(task for task in task_set.tasks("train") if task.group == "click-test-2")
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    await environment.slot.page.evaluate(
        "() => document.body.insertAdjacentHTML('beforeend', '<div id=c style=\"position:fixed;inset:0;z-index:9\">Cookies</div>')"
    )
    transition = await environment.step("click 'ONE'")
    assert transition.info == {
        "error": "button 'ONE': it is covered by 'cookies'",
        "category": "action_failed",
    }
    await environment.slot.page.evaluate("() => document.getElementById('c').remove()")
    await pool.release(environment)


@pytest.mark.browser
async def test_format_weight_gives_partial_reward():
    task_set = tasks("enter-text", train=1, format_weight=0.25)
    (task,) = task_set.tasks("train")
    pool = task_set.pool(1)
    environment = await pool.acquire(task)
    observation = await environment.reset(task, seed=0)
    assert (await environment.step("blah")).reward == 0
    assert (await environment.step(f"type '{quoted(observation.goal)}'")).reward == 0.25 / 2
    last = await environment.step("click 'Submit'")
    assert last.components == {"task": 1.0, "format": 2 / 3}
    assert last.reward == pytest.approx(0.75 + 0.25 * 2 / 3)
    await pool.close()


@pytest.mark.browser
async def test_turn_cap_screenshots_and_time_limit():
    task_set = tasks("click-button-sequence", train=1, max_turns=1, screenshots=True, timed=True)
    (task,) = task_set.tasks("train")
    pool = task_set.pool(1)
    environment = await pool.acquire(task)
    observation = await environment.reset(task, seed=0)
    assert observation.screenshot_png.startswith(b"\x89PNG")
    assert await environment.slot.page.evaluate("core.EPISODE_MAX_TIME") == 10_000
    transition = await environment.step("click 'ONE'")
    assert transition.done
    assert transition.info["category"] == "turn_limit"
    assert transition.observation.screenshot_png.startswith(b"\x89PNG")
    await pool.close()


@pytest.mark.browser
async def test_eight_at_once_do_not_influence_each_other():
    task_set = tasks(("login-user", "click-checkboxes"), train=8)
    pool = task_set.pool(8)

    async def episode(task):
        environment = await pool.acquire(task)
        try:
            return (await play(environment, task, ORACLE[task.group]))[1].reward
        finally:
            await pool.release(environment)

    try:
        assert await asyncio.gather(*(episode(task) for task in task_set.tasks("train"))) == [1] * 16
    finally:
        await pool.close()


# --- a world that breaks -------------------------------------------------------------------------------------------


def browser_processes(root):
    return {
        pid: command
        for pid, command in processes.descendants(root).items()
        if "chrom" in command or "playwright" in command
    }


@pytest.fixture
def news():
    """Browser processes of this program that were not there when the test began."""
    before = browser_processes(os.getpid())
    return lambda: {
        pid: command for pid, command in browser_processes(os.getpid()).items() if pid not in before
    }


@pytest.mark.browser
async def test_chromium_killed_mid_episode_is_a_world_error_and_the_pool_recovers(task_set, news):
    task = task_set.tasks("train")[0]
    pool = task_set.pool(1)
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    (main,) = [
        pid for pid, command in news().items() if "remote-debugging" in command and "--type=" not in command
    ]
    os.kill(main, signal.SIGKILL)
    with pytest.raises(WorldError):
        await environment.step("click 'ok'")
    await pool.release(environment)
    environment = await pool.acquire(task)
    _, transition = await play(environment, task, ORACLE[task.group])
    assert transition.reward == 1
    assert pool.browser.starts == 2
    await pool.release(environment)
    await pool.close()


@pytest.mark.browser
@in_one_loop
async def test_a_crashed_page_is_a_world_error_and_is_replaced(pool, task_set):
    task = task_set.tasks("train")[0]
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    page = environment.slot.page
    with pytest.raises(Exception, match="crash"):
        await page.goto("chrome://crash", timeout=5000)
    with pytest.raises(WorldError, match="crash"):
        await environment.step("click 'ok'")
    await pool.release(environment)
    environment = await pool.acquire(task)
    assert environment.slot.page is not page
    assert (await play(environment, task, ORACLE[task.group]))[1].reward == 1
    assert pool.browser.starts == 1
    await pool.release(environment)


@pytest.mark.browser
async def test_a_hung_page_is_a_world_error_in_time(task_set):
    hasty = tasks("click-button", train=1, step_timeout_s=1.0)
    (task,) = hasty.tasks("train")
    pool = hasty.pool(1)
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    await environment.slot.page.evaluate("() => void setTimeout(() => { for (;;); }, 0)")
    with pytest.raises(WorldError, match="did not answer within 1 s"):
        await environment.step("click [1]")
    await pool.release(environment)
    environment = await pool.acquire(task)
    assert (await play(environment, task, ORACLE[task.group]))[1].reward == 1
    await pool.release(environment)
    await asyncio.wait_for(pool.close(), 20)


@pytest.mark.browser
@in_one_loop
async def test_a_cancelled_episode_gives_its_page_up(pool, task_set):
    task = task_set.tasks("train")[0]
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    page = environment.slot.page
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(environment.step("wait 5"), 0.05)
    await pool.release(environment)
    again = await pool.acquire(task)
    assert again.slot.page is not page
    await pool.release(again)


@pytest.mark.browser
@in_one_loop
async def test_a_page_that_leaves_its_task_is_a_world_error(pool, task_set):
    task = task_set.tasks("train")[0]
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    await environment.slot.page.goto("about:blank")
    with pytest.raises(WorldError, match="left its task"):
        await environment.step("wait 0.01")
    await environment.reset(task, seed=0)
    await pool.release(environment)


@pytest.mark.browser
async def test_an_unstartable_chromium_is_reported(monkeypatch, tmp_path, news):
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("COEVO_CHROMIUM", str(fake))
    browser = Browser()
    with pytest.raises(WorldError, match="did not start"):
        await browser.new_page()
    await browser.close()
    assert not news()


@pytest.mark.browser
async def test_closing_leaves_no_process_behind(task_set, news):
    pool = task_set.pool(2)
    environment, _ = [await pool.acquire(task) for task in task_set.tasks("train")[:2]]
    assert news()
    await pool.release(environment)
    await pool.close()
    await pool.close()
    assert not news()


@pytest.mark.browser
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_program_leaves_no_browser_behind(how):
    program = textwrap.dedent(
        """
        import asyncio
        from webarena.miniwob import tasks
        async def main():
            task_set = tasks("click-button", train=1)
            environment = await task_set.pool(1).acquire(task_set.tasks("train")[0])
            await environment.reset(task_set.tasks("train")[0], seed=0)
            print("ready", flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
        """
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    below = browser_processes(process.pid)
    assert below
    process.send_signal(how)
    process.wait(10)
    for _ in range(100):
        left = [pid for pid in below if processes.alive(pid)]
        if not left:
            break
        signal.sigtimedwait([], 0.1)
    assert not left


def test_a_task_needs_no_browser_to_be_described():
    (task,) = tasks("click-button", train=1).tasks("train")
    assert task == Task(
        id="miniwob/click-button/train/0",
        goal="MiniWoB task click-button",
        seed=task.seed,
        group="click-button",
        data={"name": "click-button", "split": "train", "index": 0},
    )


@pytest.mark.browser
@in_one_loop
async def test_what_was_done_is_told_in_the_plain_form_of_an_action(pool, task_set):
    task = next(task for task in task_set.tasks("train") if task.group == "click-test-2")
    environment = await pool.acquire(task)
    await environment.reset(task, seed=0)
    transition = await environment.step("Click button ONE.")
    assert (transition.success, transition.info["performed"]) == (True, "click 'ONE'")
    await pool.release(environment)

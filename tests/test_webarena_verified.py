"""webarena-verified as a scorer: what is exchanged with it, its verdicts, and the recording of network traffic."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import processes
import pytest
from webarena_site import Site

from coevo.errors import ConfigError, WorldError
from webarena import verified
from webarena.browser import Browser
from webarena.configs import parse_config
from webarena.evaluators import Score
from webarena.har import Recorder
from webarena.verified import (
    ANSWER_FORMAT,
    SCORER,
    VerifiedEvaluator,
    agent_response,
    evaluate,
    find_python,
    install,
    read_result,
    reword,
    write_exchange,
)

try:
    PYTHON = find_python()
except ConfigError:
    PYTHON = None
needs_package = pytest.mark.skipif(
    PYTHON is None, reason="webarena-verified is not installed: coevo webarena verified install"
)
URLS = {"shopping": "http://127.0.0.1:7770/", "shopping_admin": "http://127.0.0.1:7780/admin"}
STAND_IN = f"""#!{sys.executable}
import json, pathlib, sys, time
_, module, command, *options = sys.argv[1:]
assert (module, command) == ("webarena_verified", "eval-tasks"), sys.argv
options = dict(zip(options[::2], options[1::2]))
folder = pathlib.Path(options["--output-dir"]) / options["--task-ids"]
answer = json.loads((folder / "agent_response.json").read_text())
traffic = json.loads((folder / "network.har").read_text())
sites = json.loads(pathlib.Path(options["--config"]).read_text())["environments"]
said = (answer["retrieved_data"] or [""])[0]
if said == "wait":
    time.sleep(60)
if said == "crash":
    sys.exit("it crashed")
right = said == "42" and sites["__SHOPPING__"]["urls"] == ["http://127.0.0.1:7770"] and len(traffic["log"]["entries"]) == 1
result = {{"status": "success" if right else "failure", "score": float(right), "evaluators_results": [
    {{"evaluator_name": "AgentResponseEvaluator", "score": float(right)}},
    {{"evaluator_name": "NetworkEventEvaluator", "score": 1.0}},
    {{"evaluator_name": "NetworkEventEvaluator", "score": 0.0}},
]}}
(folder / "eval_result.json").write_text(json.dumps(result))
"""


def entry(method="GET", url="http://127.0.0.1:7770/", **response):
    request = {"method": method, "url": url, "headers": [{"name": "accept", "value": "text/html"}]}
    answer = {"status": 200, "headers": [], "cookies": [], "content": {}, "redirectURL": ""}
    return {"request": request, "response": answer | response}


def archive(*entries):
    return {"log": {"version": "1.2", "entries": list(entries)}}


def task(number, *, old=None, site="shopping"):
    raw = {
        "sites": [site],
        "task_id": number,
        "start_url": "http://x",
        "intent": "old words",
        "intent_template_id": 1,
        "eval": {"eval_types": ["url_match"], "reference_url": "http://x"},
    }
    return parse_config(raw if old is None else raw | {"old_task_id": old})


@pytest.fixture
def stand_in(tmp_path):
    path = tmp_path / "python"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("answer", "methods", "task_type", "status", "data"),
    [
        ("42", ["GET"], "RETRIEVE", "SUCCESS", ["42"]),
        ("", ["GET"], "NAVIGATE", "SUCCESS", None),
        ("", ["GET", "POST"], "MUTATE", "SUCCESS", None),
        ("N/A", ["GET"], "RETRIEVE", "NOT_FOUND_ERROR", None),
        (
            '{"task_type": "MUTATE", "status": "SUCCESS", "retrieved_data": null}',
            [],
            "MUTATE",
            "SUCCESS",
            None,
        ),
        (
            'Here: {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": [1]} ok',
            [],
            "RETRIEVE",
            "SUCCESS",
            [1],
        ),
        ("{not json", ["GET"], "RETRIEVE", "SUCCESS", ["{not json"]),
        ('{"a": 1}', ["GET"], "RETRIEVE", "SUCCESS", ['{"a": 1}']),
    ],
)
def test_answers_in_its_form(answer, methods, task_type, status, data):
    response = agent_response(answer, archive(*(entry(method) for method in methods)))
    assert (response["task_type"], response["status"], response["retrieved_data"]) == (
        task_type,
        status,
        data,
    )


class TestExchange:
    def test_what_is_laid_out(self, tmp_path):
        write_exchange(tmp_path, 7, response={"status": "SUCCESS"}, archive=archive(entry()), urls=URLS)
        assert json.loads((tmp_path / "config.json").read_text()) == {
            "environments": {
                "__SHOPPING__": {"urls": ["http://127.0.0.1:7770"]},
                "__SHOPPING_ADMIN__": {"urls": ["http://127.0.0.1:7780/admin"]},
            }
        }
        assert json.loads((tmp_path / "7" / "agent_response.json").read_text()) == {"status": "SUCCESS"}
        assert json.loads((tmp_path / "7" / "network.har").read_text()) == archive(entry())

    @pytest.mark.parametrize(("said", "reward"), [("42", 1.0), ("41", 0.0)])
    async def test_a_verdict(self, stand_in, said, reward):
        response = agent_response(said, archive())
        score = await evaluate(stand_in, 7, response=response, archive=archive(entry()), urls=URLS)
        components = {
            "AgentResponseEvaluator": reward,
            "NetworkEventEvaluator": 1.0,
            "NetworkEventEvaluator#2": 0.0,
        }
        assert score == Score(reward, components, "webarena-verified/1.2.3")

    async def test_a_process_that_fails_gives_none(self, stand_in):
        response = agent_response("crash", archive())
        with pytest.raises(WorldError, match=r"gave no verdict on task 7: FileNotFoundError.*it crashed"):
            await evaluate(stand_in, 7, response=response, archive=archive(), urls=URLS)

    @pytest.mark.parametrize("how", ["time", "cancelled"])
    async def test_a_process_that_hangs_is_ended(self, stand_in, how):
        response = agent_response("wait", archive())
        work = evaluate(
            stand_in,
            7,
            response=response,
            archive=archive(),
            urls=URLS,
            timeout_s=0.5 if how == "time" else 60,
        )
        if how == "time":
            with pytest.raises(WorldError, match=r"gave no verdict on task 7 within 0.5 s"):
                await work
        else:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(work, 0.5)
        deadline = time.monotonic() + 20
        while processes.running(str(stand_in)) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        assert processes.running(str(stand_in)) == []

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (None, "gave no verdict on task 7: FileNotFoundError"),
            ("{", "gave no verdict on task 7: JSONDecodeError"),
            ("{}", "gave no verdict on task 7: KeyError: 'evaluators_results'"),
            (
                '{"status": "error", "score": 0.0, "evaluators_results": [], "error_msg": "no such page"}',
                "could not score task 7: no such page",
            ),
            (
                '{"status": "success", "score": NaN, "evaluators_results": []}',
                "could not score task 7: success",
            ),
        ],
    )
    def test_what_is_no_verdict(self, tmp_path, content, message):
        (tmp_path / "7").mkdir()
        if content is not None:
            (tmp_path / "7" / "eval_result.json").write_text(content)
        with pytest.raises(WorldError, match=message):
            read_result(tmp_path, 7)


class TestInstalling:
    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv("COEVO_CACHE", raising=False)
        monkeypatch.delenv("COEVO_WEBARENA_VERIFIED", raising=False)

    def test_where_it_is(self, monkeypatch):
        with pytest.raises(
            ConfigError, match=r"1.2.3 is not installed\n  → install it: coevo webarena verified install"
        ):
            find_python()
        monkeypatch.setenv("COEVO_WEBARENA_VERIFIED", "/nowhere/python")
        with pytest.raises(ConfigError, match="COEVO_WEBARENA_VERIFIED=/nowhere/python is no file"):
            find_python()
        monkeypatch.setenv("COEVO_WEBARENA_VERIFIED", sys.executable)
        assert find_python() == Path(sys.executable)

    def test_steps(self, monkeypatch, tmp_path):
        commands = []

        def run(command, **options):
            commands.append(command)
            if command[1:3] == ["-m", "venv"]:
                (Path(command[3]) / "bin").mkdir(parents=True)
                (Path(command[3]) / "bin" / "python").write_text("")
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(verified.subprocess, "run", run)
        assert install() == find_python() == tmp_path / "coevo/webarena/webarena-verified-1.2.3/bin/python"
        assert [command[1:3] for command in commands] == [
            ["-m", "venv"],
            ["-m", "pip"],
            ["-m", "webarena_verified"],
        ]
        assert commands[1][-1] == "webarena-verified==1.2.3"
        install()
        assert len(commands) == 3

    def test_pip_fails(self, monkeypatch, tmp_path):
        def run(command, **options):
            return subprocess.CompletedProcess(command, 1, "", "ERROR: no network")

        monkeypatch.setattr(verified.subprocess, "run", run)
        with pytest.raises(
            ConfigError, match=r"could not install webarena-verified 1.2.3: ERROR: no network"
        ):
            install()
        assert list((tmp_path / "coevo" / "webarena").iterdir()) == []

    def test_words_of_a_package_that_is_not_there(self):
        with pytest.raises(ConfigError, match="has no webarena-verified"):
            reword([task(0)], Path("/nowhere/bin/python"))


@pytest.mark.browser
async def test_traffic_is_recorded():
    site, browser = Site(), Browser()
    try:
        form = "<form method=post action='/send?a=1&b='><input name=text value='a b'><button>Go"
        site.pages |= {"/": form, "/send": (302, "/done"), "/done": "<title>done</title><img src=/p.png>"}
        site.reviews["B07"] = [{"nickname": "Ann"}]
        page = await browser.new_page()
        before = await browser.new_page()
        await before.goto(site.url)
        recorder = Recorder(page.context)
        await page.goto(site.url)
        await page.click("button")
        await page.wait_for_url("**/done")
        script = "() => fetch('/rest/V1/products/B07/reviews', {headers: {Authorization: 'Bearer secret'}}).then(r => r.text())"
        await page.evaluate(script)
        found = await recorder.stop()
        await page.goto(f"{site.url}/after")
        assert await recorder.stop() == found
    finally:
        await browser.close()
        site.close()
    entries = found["log"]["entries"]
    told = [
        (one["request"]["method"], one["request"]["url"].removeprefix(site.url), one["response"]["status"])
        for one in entries
    ]
    assert [one for one in told if "favicon" not in one[1]] == [
        ("GET", "/", 200),
        ("POST", "/send?a=1&b=", 302),
        ("GET", "/done", 200),
        ("GET", "/rest/V1/products/B07/reviews", 200),
    ]
    sent = next(one for one in entries if one["request"]["method"] == "POST")
    assert sent["request"]["postData"] == {
        "mimeType": "application/x-www-form-urlencoded",
        "text": "text=a+b",
    }
    assert sent["request"]["queryString"] == [{"name": "a", "value": "1"}, {"name": "b", "value": ""}]
    assert sent["response"]["redirectURL"] == f"{site.url}/done"
    headers = {header["name"]: header["value"] for header in sent["request"]["headers"]}
    assert (headers["sec-fetch-mode"], headers["referer"]) == ("navigate", f"{site.url}/")
    assert json.loads(entries[-1]["response"]["content"]["text"]) == [{"nickname": "Ann"}]
    assert "text" not in entries[0]["response"]["content"]
    json.dumps(found)


async def test_what_was_not_recorded_is_not_scored(stand_in):
    class Page:
        context = object()

    with pytest.raises(WorldError, match="traffic was not recorded"):
        await VerifiedEvaluator(stand_in).score(task(0), answer="", page=Page(), urls=URLS)


class Context:
    """Where listeners are."""

    def __init__(self):
        self.listeners = []

    def on(self, event, listener):
        self.listeners.append((event, listener))

    def remove_listener(self, event, listener):
        self.listeners.remove((event, listener))

    def close(self):
        for event, listener in list(self.listeners):
            if event == "close":
                listener(self)


def test_episodes_that_are_not_scored_leave_nothing_behind(stand_in):
    evaluator, first, second = VerifiedEvaluator(stand_in), Context(), Context()
    for _ in range(3):
        evaluator.watch(first)
    assert len(first.listeners) == 4
    first.close()
    evaluator.watch(second)
    assert first.listeners == []
    assert len(second.listeners) == 4


@needs_package
class TestRealPackage:
    def test_its_words(self):
        (reworded,) = reword([task(5, old=0)], PYTHON)
        assert reworded.intent == f"Get the top-1 best-selling product name(s) in 2022\n\n{ANSWER_FORMAT}"
        assert (reworded.sites, reworded.start_urls) == (("shopping_admin",), ("__SHOPPING_ADMIN__",))
        assert reworded.raw["intent"] == reworded.intent
        assert reworded.old_task_id == 0
        with pytest.raises(ConfigError, match="has no task 9999"):
            reword([task(9999)], PYTHON)

    @pytest.mark.parametrize(("name", "reward"), [("Quest Lumaflex™ Band", 1.0), ("Another Band", 0.0)])
    async def test_a_retrieved_answer(self, name, reward):
        response = {
            "task_type": "RETRIEVE",
            "status": "SUCCESS",
            "retrieved_data": [name],
            "error_details": None,
        }
        traffic = archive(entry(url="http://127.0.0.1:7780/admin/"))
        score = await evaluate(PYTHON, 0, response=response, archive=traffic, urls=URLS)
        assert score == Score(reward, {"AgentResponseEvaluator": reward}, SCORER)

    async def test_a_task_it_does_not_have(self):
        with pytest.raises(WorldError, match="could not score task 9999"):
            await evaluate(PYTHON, 9999, response={}, archive=archive(entry()), urls=URLS)

    @pytest.mark.browser
    async def test_navigation_in_a_browser(self):
        """Its task 300 asks for the page of order 189."""
        site, browser = Site(), Browser()
        try:
            path = "/sales/order/view/order_id/189/"
            site.pages |= {"/": f"<a href={path}>189</a>", path: "<title>189</title>"}
            evaluator = VerifiedEvaluator(PYTHON)
            for steps, reward in ((1, 1.0), (0, 0.0)):
                page = await browser.new_page()
                evaluator.watch(page.context)
                await page.goto(site.url)
                for _ in range(steps):
                    await page.click("a")
                    await page.wait_for_url(f"**{path}")
                score = await evaluator.score(task(300), answer="", page=page, urls={"shopping": site.url})
                assert score.components == {"AgentResponseEvaluator": 1.0, "NetworkEventEvaluator": reward}
                assert score.reward == reward
        finally:
            await browser.close()
            site.close()

"""The local arena: restoring, dying, and leaving nothing behind. The site is a toy (`toysite.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import processes
import pytest
from click.testing import CliRunner

from coevo.errors import ConfigError, WorldError
from webarena import standing
from webarena.arena import Arena, ArenaWorlds, make_root
from webarena.cli import webarena
from webarena.sites import SITES, load_site
from webarena.sites.base import Instance, Site, Template
from webarena.sites.client import is_server
from webarena.sites.copies import differs, mirror
from webarena.sites.logins import KEPT_S, LoginStates, saved_logins
from webarena.sites.seed import cache_root, seed_folder, seed_state
from webarena.sites.tasks import local_tasks
from webarena.solve import Proof

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def empty_cache(toy: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is built yet; other tests share what the first has built."""
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_cache: Path) -> Iterator[None]:
    """The only site is the toy, and its accounts are logged in without a browser."""
    for name in list(SITES):
        monkeypatch.delitem(SITES, name)
    monkeypatch.setitem(SITES, "toy", "toysite")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("COEVO_CACHE", str(shared_cache))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("webarena.sites.logins._log_in", _log_in)
    before = set(_servers())
    yield
    left = [pid for pid in _servers() if pid not in before]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, "processes were left running"


async def _log_in(site: Site, key: str, url: str, browser: Any) -> dict[str, Any]:
    answer = await asyncio.to_thread(urllib.request.urlopen, f"{url}/login?name={key}")
    value = answer.headers["Set-Cookie"].split(";")[0].partition("=")[2]
    cookie = {"name": "toy_session", "value": value, "domain": "127.0.0.1", "path": "/"}
    return {"cookies": [cookie], "origins": [{"origin": url, "localStorage": []}]}


def _servers() -> list[int]:
    """Processes of toy servers, children included."""
    return processes.running("webarena.sites.server", "toysite")


def get(url: str, cookies: Any = None) -> str:
    request = urllib.request.Request(url)
    if cookies:
        request.add_header("Cookie", "; ".join(f"{c['name']}={c['value']}" for c in cookies["cookies"]))
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


async def ask(url: str, cookies: Any = None) -> str:
    return await asyncio.to_thread(get, url, cookies)


async def until(true: Callable[[], Any]) -> None:
    for _ in range(500):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen within 10 s")


async def start(slots: int = 2) -> Arena:
    return await Arena.start(slots=slots, seed=5)


async def test_slots_are_private_and_restored() -> None:
    arena = await start()
    try:
        one, two = arena.urls(0)["toy"], arena.urls(1)["toy"]
        assert (await ask(f"{one}/add"), await ask(two)) == ("6", "5")
        await arena.snapshot("toy", 0, "six")
        await arena.restore(0)
        assert await ask(one) == "5"
        await arena.restore_snapshot("toy", 1, "six")
        assert (await ask(two), await ask(one)) == ("6", "5")
        with pytest.raises(WorldError, match="no snapshot"):
            await arena.restore_snapshot("toy", 1, "seven")
        with pytest.raises(WorldError, match=r"no slot 7: there are 2"):
            await arena.servers["toy"].ask("restore", slot=7)
        with pytest.raises(WorldError, match="no operation 'dance'"):
            await arena.servers["toy"].ask("dance")
    finally:
        await arena.close()
    assert not arena.root.exists()


async def test_a_dead_child_is_replaced_and_counted() -> None:
    arena = await start()
    try:
        url = arena.urls(0)["toy"]
        await ask(f"{url}/add")
        (slot, _) = (await arena.status())["toy"]["slots"]
        os.kill(slot["pid"], signal.SIGKILL)
        assert await ask(url) == "6"  # the same state, the same address
        (after, other) = (await arena.status())["toy"]["slots"]
        assert (after["deaths"], after["starts"], other["deaths"]) == (1, slot["starts"] + 1, 0)
    finally:
        await arena.close()


async def test_children_die_with_their_parent_and_the_site_comes_back() -> None:
    arena = await start()
    worlds = ArenaWorlds(lambda: _given(arena), 2)
    try:
        lease = await worlds.lease(["toy"], account="", writes=True)
        server = arena.servers["toy"]
        children = [slot["pid"] for slot in (await server.ask("status"))["slots"]]
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: not any(processes.alive(pid) for pid in children))
        await worlds.give_back(lease, broken=True)
        for _ in range(2):  # both slots
            lease = await worlds.lease(["toy"], account="", writes=True)
            assert await ask(lease.urls["toy"]) == "5"
    finally:
        await worlds.close()


async def test_a_site_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = await start(1)
    worlds = ArenaWorlds(lambda: _given(arena), 1)
    try:
        lease = await worlds.lease(["toy"], account="", writes=True)
        pid = arena.servers["toy"].pid
        monkeypatch.setattr("webarena.sites.client.CONTROL_TIMEOUT_S", 1.0)
        monkeypatch.setattr("webarena.sites.client.END_TIMEOUT_S", 0.3)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(WorldError, match=r"site toy does not answer \(status\)"):
            await arena.servers["toy"].ask("status")
        await worlds.give_back(lease, broken=True)
        lease = await worlds.lease(["toy"], account="", writes=True)
        assert await ask(lease.urls["toy"]) == "5"
        assert arena.servers["toy"].pid != pid
    finally:
        await worlds.close()


async def _given(arena: Arena) -> Arena:
    return arena


async def test_everything_ends_when_the_owner_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from webarena.sites import SITES; SITES.clear(); SITES['toy'] = 'toysite'\n"
        "import webarena.sites.logins as logins; from test_arena import _log_in; logins._log_in = _log_in\n"
        "from webarena.arena import Arena\n"
        "async def main():\n"
        "    arena = await Arena.start(slots=2, seed=5); print(arena.root, flush=True); await asyncio.sleep(600)\n"
        "asyncio.run(main())"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    root = Path((await asyncio.to_thread(owner.stdout.readline)).strip())
    assert root.is_dir()
    assert len(_servers()) == 3
    owner.kill()
    owner.wait()
    owner.stdout.close()
    await until(lambda: not any(map(processes.alive, _servers())) and not root.exists())


async def test_leases_restore_what_was_written() -> None:
    arena = await start(1)
    worlds = ArenaWorlds(lambda: _given(arena), 1)
    try:
        lease = await worlds.lease(["toy"], account="ann", writes=True)
        url = lease.urls["toy"]
        assert await ask(f"{url}/me", lease.storage_state) == "ann"
        await ask(f"{url}/add")
        await worlds.give_back(lease, written=["toy"])
        await worlds.give_back(lease, written=["toy"])  # a second time changes nothing
        lease = await worlds.lease(["toy"], account="default", writes=False)
        assert await ask(url) == "5"
        assert await ask(f"{url}/me", lease.storage_state) == "ann"  # the sessions are part of the base
        waiting = asyncio.create_task(worlds.lease(["toy"], account="bob", writes=False))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await worlds.give_back(lease)
        lease = await waiting
        assert await ask(f"{url}/me", lease.storage_state) == "bob"
        await worlds.give_back(lease)
        with pytest.raises(ConfigError, match="no account 'eve' on toy"):
            await worlds.lease(["toy"], account="eve", writes=False)
        with pytest.raises(ConfigError, match="the arena runs without map"):
            await worlds.lease(["map"], account="", writes=False)
        await worlds.lease(["toy"], account="", writes=False)  # the failed ones gave their slot back
    finally:
        await worlds.close()


async def test_changes_that_nobody_reports_do_not_stay() -> None:
    arena = await start(1)
    worlds = ArenaWorlds(lambda: _given(arena), 1)
    try:
        for _ in range(2):
            lease = await worlds.lease(["toy"], account="ann", writes=False)
            assert await ask(lease.urls["toy"]) == "5"
            await ask(f"{lease.urls['toy']}/add")
            await worlds.give_back(lease)
        (slot,) = (await arena.status())["toy"]["slots"]
        lease = await worlds.lease(["toy"], account="ann", writes=False)
        (clean,) = (await arena.status())["toy"]["slots"]
        await ask(lease.urls["toy"])
        await worlds.give_back(lease)
        lease = await worlds.lease(["toy"], account="ann", writes=False)
        (after,) = (await arena.status())["toy"]["slots"]
        assert (
            slot["starts"] <= clean["starts"] == after["starts"]
        )  # without a change there is nothing to restore
    finally:
        await worlds.close()


async def test_many_writers_at_once_do_not_meet() -> None:
    arena = await start(4)
    worlds = ArenaWorlds(lambda: _given(arena), 4)

    async def episode(writes: int) -> str:
        lease = await worlds.lease(["toy"], account="", writes=True)
        for _ in range(writes):
            await ask(f"{lease.urls['toy']}/add")
        count = await ask(lease.urls["toy"])
        await worlds.give_back(lease, written=["toy"] if writes else [])
        return count

    try:
        counts = [number % 4 for number in range(16)]
        assert await asyncio.gather(*map(episode, counts)) == [str(5 + count) for count in counts]
    finally:
        await worlds.close()


@pytest.mark.usefixtures("empty_cache")
async def test_logins_are_made_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    await (await start()).close()

    async def never(*_: Any) -> Any:
        raise AssertionError("logged in again")

    monkeypatch.setattr("webarena.sites.logins._log_in", never)
    said: list[str] = []
    arena = await Arena.start(slots=1, seed=5, report=said.append)
    state = arena.storage_state(0, ["toy"], "bob")
    assert state is not None
    assert state["origins"] == [{"origin": arena.urls(0)["toy"], "localStorage": []}]
    assert await ask(f"{arena.urls(0)['toy']}/me", state) == "bob"
    await arena.close()
    assert len(said) == 1
    assert "answers after" in said[0]
    (ready,) = seed_folder("toy", 5).glob("ready-*")
    assert isinstance(saved_logins(seed_folder("toy", 5), load_site("toy")), LoginStates)
    ready.rename(ready.with_name(f"ready-{int((time.time() - KEPT_S - 1) * 1e9)}"))
    assert saved_logins(seed_folder("toy", 5), load_site("toy")) is None


@pytest.mark.usefixtures("empty_cache")
async def test_what_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="slots = 0"):
        await Arena.start(slots=0)
    with pytest.raises(ConfigError, match="no site 'shop'"):
        await Arena.start(["shop"], slots=1)
    monkeypatch.setenv("TOY_MISSING", "the toy needs a key: turn it")
    with pytest.raises(ConfigError, match="site toy cannot run here: the toy needs a key: turn it"):
        await Arena.start(["toy"], slots=1)
    with pytest.raises(ConfigError, match="no site to run"):
        await Arena.start(slots=1)
    monkeypatch.delenv("TOY_MISSING")
    monkeypatch.setenv("TOY_BUILD_FAILS", "1")
    with pytest.raises(
        WorldError, match=r"content of site toy failed \(1\)(.|\n)*the toy's paint has run out"
    ) as failed:
        await Arena.start(slots=1)
    assert "build.log" in str(failed.value.hint)
    monkeypatch.delenv("TOY_BUILD_FAILS")
    monkeypatch.setenv("TOY_SERVE_FAILS", "1")
    monkeypatch.setattr("webarena.sites.client.PROBE_TIMEOUT_S", 0.5)
    with pytest.raises(WorldError, match=r"site toy: http://127\.0\.0\.1:\d+ does not answer"):
        await Arena.start(slots=1)
    monkeypatch.setitem(SITES, "toy", "no_such_module")
    with pytest.raises(ModuleNotFoundError):
        await Arena.start(slots=1)


@pytest.mark.usefixtures("empty_cache")
def test_a_seed_state_is_built_once_and_again_for_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    state = seed_state("toy", 5)
    (state / "mark").touch()
    assert seed_state("toy", 5) == state
    assert (state / "mark").exists()
    assert seed_state("toy", 6) != state
    assert cache_root() in state.parents
    monkeypatch.setattr("webarena.sites.seed._fingerprint", lambda module: "other")
    assert seed_state("toy", 5) != state


def test_what_sqlite_leaves_beside_a_database_that_is_read_is_no_change(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    database = sqlite3.connect(source / "db")
    database.executescript("PRAGMA journal_mode = wal; CREATE TABLE t (x)")
    database.close()
    mirror(source, target)
    assert not differs(source, target)
    with contextlib.closing(sqlite3.connect(target / "db")) as copy:
        assert copy.execute("SELECT count(*) FROM t").fetchone() == (0,)
        assert (target / "db-wal").exists()
        assert not differs(source, target)
        copy.execute("INSERT INTO t VALUES (1)")
        copy.commit()
        assert differs(source, target)
    mirror(source, target)
    assert not differs(source, target)
    (target / "more").mkdir()
    assert differs(source, target)


def test_mirror_copies_only_what_differs(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a").write_text("a" * 5000)
    (source / "b").write_text("b")
    (source / "link").symlink_to("b")
    assert mirror(source, target) == 2
    assert mirror(source, target) == 0
    (target / "b").write_text("c")  # as long as before
    (target / "new").mkdir()
    (target / "new" / "file").touch()
    (target / "deep" / "a").unlink()
    (target / "deep" / "a").mkdir()
    assert mirror(source, target) == 2
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == [
        "b",
        "deep",
        "deep/a",
        "link",
    ]
    assert (target / "b").read_text() == "b"
    assert os.readlink(target / "link") == "b"


@pytest.mark.usefixtures("empty_cache")
async def test_an_arena_that_stays_up(tmp_path: Path) -> None:
    said: list[str] = []
    (one, made), (two, again) = await asyncio.gather(
        standing.up(None, slots=2, seed=5), standing.up(None, slots=2, seed=5)
    )
    try:
        assert {made, again} == {True, False}
        assert one.urls(1) == two.urls(1)
        await asyncio.gather(one.close(), two.close())
        assert await ask(one.urls(1)["toy"]) == "5"  # closing leaves it up
        with pytest.raises(ConfigError, match="it has 2 slots, not 3"):
            await standing.up(None, slots=3, seed=5)
        with pytest.raises(ConfigError, match="its content is of seed 5, not 6"):
            await standing.up(None, slots=2, seed=6)

        await ask(f"{one.urls(0)['toy']}/add")
        first = await standing.connect(["toy"], slots=1, seed=5, report=said.append)
        assert (await ask(first.urls(0)["toy"]), list(first.slot_numbers)) == ("5", [0])
        second = await standing.connect(["toy"], slots=1, seed=5, report=said.append)
        assert list(second.slot_numbers) == [1]
        assert second.storage_state(1, ["toy"], "ann")
        third = await standing.connect(["toy"], slots=1, seed=5, report=said.append)
        assert third.root != one.root
        assert "too few of its slots are free" in said[2]
        for arena in (first, second, third):
            await arena.close()
    finally:
        assert await standing.down() == ["toy"]
    assert not one.root.exists()
    assert await standing.down() == []


async def test_a_dead_standing_arena_is_cleared_away() -> None:
    arena, _ = await standing.up(None, slots=1, seed=5)
    os.kill(arena.servers["toy"].pid, signal.SIGKILL)
    await until(lambda: not is_server(arena.servers["toy"].pid))
    said: list[str] = []
    again, made = await standing.up(None, slots=1, seed=5, report=said.append)
    try:
        assert made
        assert "clearing away what is left of an arena whose toy died" in said[0]
        assert not arena.root.exists()
        assert await ask(again.urls(0)["toy"]) == "5"
        record = json.loads(standing.record_file().read_text())
        record["sites"]["toy"]["pid"] = os.getpid()  # a number that someone else has got since
        assert standing.gone(record) == ["toy"]
    finally:
        await standing.down()


@pytest.mark.usefixtures("empty_cache")
def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    assert run(webarena, ["status"]).output == "No arena is up.\n"
    assert run(webarena, ["down"]).output == "No arena was up.\n"
    done = run(webarena, ["up", "--slots", "2"])
    try:
        assert done.exit_code == 0, done.output
        assert re.search(r"^toy +http://127\.0\.0\.1:\d+$", done.output, re.M)
        assert "toy: building its content" in done.output
        assert "with 2 slots" in done.output
        assert "was up already" in run(webarena, ["up", "--slots", "2"]).output
        (row,) = json.loads(run(webarena, ["status", "--json"]).output)
        assert (row["site"], row["state"], row["slots"], row["deaths"]) == ("toy", "up", 2, 0)
        os.kill(row["pid"], signal.SIGKILL)
        while is_server(row["pid"]):
            time.sleep(0.02)
        (row,) = json.loads(run(webarena, ["status", "--json"]).output)
        assert row["state"] == "down"
        assert "toy" in run(webarena, ["status"]).output
    finally:
        ended = run(webarena, ["down"])
    assert ended.output == "No arena was up.\n"  # its only site had died; what was left of it is gone
    assert not standing.record_file().exists()
    assert isinstance(run(webarena, ["up", "--site", "shop"]).exception, ConfigError)


@pytest.mark.parametrize(
    ("solved", "idle", "problem", "message"),
    [
        (1.0, 0.0, "", "1 of 1 tasks hold"),
        (0.0, 0.0, "", "its script scores 0.0 with the answer '7'"),
        (1.0, 1.0, "", "doing nothing scores 1.0"),
        (None, 0.0, "the page went away", "the page went away"),
    ],
)
def test_solve_tells_what_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, solved: float | None, idle: float, problem: str, message: str
) -> None:
    proof = Proof("local/toy/1/0", "Count.", "toy", 1, "information", solved, idle, "7", problem)

    async def prove(tasks: Any, pool: Any, *, report: Callable[[Proof], None]) -> list[Proof]:
        report(proof)
        return [proof]

    answer = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "7"}}

    async def script(page: Any, instance: Instance, url: str) -> str:
        return "7"

    template = Template(
        1, "toy", 1, "information", "Count.", lambda seed: [Instance({}, "toy/1", answer)], script
    )
    monkeypatch.setattr("toysite.ToySite.templates", lambda self: [template])
    monkeypatch.setattr("webarena.solve.prove", prove)
    local_tasks.cache_clear()
    try:
        done = CliRunner().invoke(webarena, ["solve"])
        listed = CliRunner().invoke(webarena, ["solve", "--json", "--template", "1"])
        counted = CliRunner().invoke(webarena, ["tasks", "--template", "1"])
        unknown = CliRunner().invoke(webarena, ["solve", "--template", "2"])
    finally:
        local_tasks.cache_clear()
    assert message in done.output
    assert done.exit_code == listed.exit_code == (0 if proof.holds else 1)
    assert json.loads(listed.stdout)[0]["holds"] == proof.holds
    assert counted.output.endswith("1 tasks of 1 templates\n")
    assert isinstance(unknown.exception, ConfigError)
    assert unknown.exception.message == "the template 2 has no tasks here"


def test_socket_paths_stay_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    root = make_root()
    root.rmdir()
    assert len(str(root / "shopping_admin.sock")) < 100

"""The store: rows in, rows out, groups, shared texts, and how much it all takes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from coevo.engine.base import Completion, Perturbation, Request, Sampling
from coevo.env import Observation, Outcome
from coevo.errors import StoreError
from coevo.store import Store, queries
from coevo.store.recorder import EpisodeRecorder

EPISODE = {"run": "r1", "phase": "rollout", "generation": 0, "task": "t1"}


@pytest.fixture
def store(tmp_path: Path):
    with Store.open(tmp_path / "coevo.sqlite") as store:
        yield store


def test_put_then_flush_then_query(store: Store):
    store.put("runs", {"id": "r1", "name": "demo", "config": {"es": {"sigma": 0.05}}, "seed": 2**63 - 1})
    store.flush_sync()
    assert store.query("SELECT id, status, config, seed FROM runs") == [
        {"id": "r1", "status": "running", "config": '{"es":{"sigma":0.05}}', "seed": 2**63 - 1}
    ]


def test_put_again_changes_the_given_columns_and_keeps_the_others(store: Store):
    store.put("members", {"run": "r", "generation": 1, "member": 2, "seed": 5, "reward": None})
    store.put("members", {"run": "r", "generation": 1, "member": 2, "reward": 0.5})
    store.update("members", ("r", 1, 2), {"coefficient": -1.25})
    store.flush_sync()
    (row,) = store.query("SELECT * FROM members")
    assert (row["seed"], row["reward"], row["coefficient"]) == (5, 0.5, -1.25)


@pytest.mark.parametrize(
    ("table", "row", "says"),
    [
        ("epsiodes", {"id": "x"}, "no table 'epsiodes'"),
        ("runs", {"id": "x", "nmae": "y"}, "no column nmae"),
        ("members", {"run": "r", "generation": 1, "reward": 1.0}, "needs member"),
        ("runs", {"id": "x", "seed": 2**63}, "does not fit 64 bits"),
        ("runs", {"id": "x", "config": object()}, "a object cannot be stored"),
        ("calls", {"episode": "e", "ord": 0, "id": "e.0"}, "no column id"),
    ],
)
def test_a_row_that_cannot_be_stored_is_refused_where_it_is_put(store: Store, table, row, says):
    with pytest.raises(StoreError, match=says):
        store.put(table, row)
    store.put("runs", {"id": "fine", "name": "n"})  # the refusal harms nothing else
    store.flush_sync()
    assert len(store.query("SELECT id FROM runs")) == 1


def test_a_group_is_committed_whole_or_not_at_all(store: Store):
    def fails() -> None:
        with store.group():
            store.put("runs", {"id": "a", "name": "lost"})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    with store.group():
        store.put("runs", {"id": "b", "name": "kept"})
        with store.group():
            store.put("runs", {"id": "c", "name": "kept too"})
        with pytest.raises(StoreError, match="inside a group"):
            store.flush_sync()
    store.flush_sync()
    assert [row["id"] for row in store.query("SELECT id FROM runs ORDER BY id")] == ["b", "c"]


async def test_groups_of_concurrent_tasks_do_not_mix(store: Store):
    async def write(name: str, fail: bool) -> None:
        with store.group():
            store.put("runs", {"id": f"{name}1", "name": name})
            await asyncio.sleep(0.01)
            store.put("runs", {"id": f"{name}2", "name": name})
            if fail:
                raise ValueError(name)

    await asyncio.gather(write("good", False), write("bad", True), return_exceptions=True)
    await store.flush()
    assert [row["id"] for row in store.query("SELECT id FROM runs ORDER BY id")] == ["good1", "good2"]


async def test_a_task_that_outlives_the_group_it_was_started_in_still_writes(store: Store):
    async def late() -> None:
        await asyncio.sleep(0.02)
        store.put("runs", {"id": "late", "name": "n"})

    with store.group():
        task = asyncio.create_task(late())
        store.put("runs", {"id": "now", "name": "n"})
    await task
    await store.flush()
    assert [row["id"] for row in store.query("SELECT id FROM runs ORDER BY id")] == ["late", "now"]


def test_many_threads_write_through_one_store(store: Store):
    def write(worker: int) -> None:
        for number in range(200):
            store.put("members", {"run": "r", "generation": worker, "member": number})

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.flush_sync()
    assert store.query("SELECT count(*) AS n FROM members") == [{"n": 1200}]


def test_rows_queued_before_close_are_there_afterwards(tmp_path: Path):
    with Store.open(tmp_path / "a.sqlite") as store:
        for number in range(3000):
            store.put("members", {"run": "r", "generation": 0, "member": number})
    with pytest.raises(StoreError, match="is closed"):
        store.put("runs", {"id": "x", "name": "n"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]  # the WAL has been folded in
    with Store.open(tmp_path / "a.sqlite", readonly=True) as again:
        assert again.query("SELECT count(*) AS n FROM members") == [{"n": 3000}]
        with pytest.raises(StoreError, match="read-only"):
            again.put("runs", {"id": "x", "name": "n"})


def test_a_bad_query_says_so(store: Store):
    with pytest.raises(StoreError, match="no such column: colour"):
        store.query("SELECT colour FROM runs")
    with pytest.raises(StoreError, match="readonly"):
        store.query("DELETE FROM runs")


def test_messages_share_their_history_and_the_pages_in_them(store: Store):
    page = "button 'Order' [1]\n" * 40
    system = store.put_message(None, "system", "Be brief. " * 20)
    first = store.put_message(system, "user", f"Look:\n{page}\n\nTask: order 'é😀'", containing=[page])
    store.put_message(system, "user", f"Look:\n{page}\n\nTask: order 'é😀'", containing=[page])
    answer = store.put_message(first, "assistant", "click [1]", {"tool_calls": [{"id": "a"}]})
    other = store.put_message(first, "assistant", "click [1]")
    store.flush_sync()

    assert answer != other  # what else a message carries counts
    assert store.query("SELECT count(*) AS n FROM messages") == [{"n": 4}]
    assert store.query("SELECT count(*) AS n FROM texts WHERE text = ?", (page,)) == [{"n": 1}]
    (row,) = store.query("SELECT content, at FROM messages WHERE hash = ?", (first,))
    assert row == {"content": "Look:\n\n\nTask: order 'é😀'", "at": 6}
    assert queries.messages(store, answer) == [
        {"role": "system", "content": "Be brief. " * 20},
        {"role": "user", "content": f"Look:\n{page}\n\nTask: order 'é😀'"},
        {"role": "assistant", "content": "click [1]", "tool_calls": [{"id": "a"}]},
    ]


@pytest.mark.parametrize(
    "text", ["nul \x00 inside", "half a pair \ud83d here", "", "x" * 64, "x" * 65, "\ud83d" * 99]
)
def test_any_text_a_page_may_hold_comes_back(store: Store, text: str):
    expected = text.replace("\x00", "\ufffd").replace("\ud83d", "\ufffd")
    key = store.put_message(None, "user", f"a {text} b", containing=[text])
    recorder = EpisodeRecorder(store, "e1")
    recorder.start(EPISODE)
    recorder.step(0, None, Observation(text))
    store.flush_sync()
    assert queries.messages(store, key)[0]["content"] == f"a {expected} b"
    assert store.query("SELECT observation FROM step_text") == [{"observation": expected}]


def test_blobs_are_stored_once(store: Store):
    assert store.put_blob(b"\x89PNG", "image/png") == store.put_blob(b"\x89PNG", "image/png")
    store.flush_sync()
    assert store.query("SELECT media_type, data FROM blobs") == [
        {"media_type": "image/png", "data": b"\x89PNG"}
    ]


def record(store: Store, episode: str, **changes: object) -> None:
    """A finished two-step episode; `changes` override columns of its row."""
    recorder = EpisodeRecorder(store, episode)
    recorder.start(EPISODE | {"goal": "Press Ok", "member": 3, **changes})
    recorder.step(0, None, Observation("page one"))
    messages = ({"role": "user", "content": "page one\n\nTask: Press Ok"},)
    request = Request(messages, Sampling(seed=11), Perturbation(5, -0.5))
    recorder.call(request, Completion("press", 7, 1, "stop", 4, cached_tokens=2), run_id=None, seconds=0.5)
    recorder.step(1, "press", Observation("page two"), error="which one?", reward=0.25, done=True)
    recorder.finish(
        {"status": "finished", "outcome": "failure", "reward": 0.25, "components": {"a": 0.25}, "turns": 1}
    )


def test_an_episode_reads_back_as_it_was_recorded(store: Store):
    record(store, "e1")
    store.flush_sync()
    (episode,) = queries.episodes(store, "r1")
    assert (episode.goal, episode.member, episode.reward, episode.components) == (
        "Press Ok",
        3,
        0.25,
        {"a": 0.25},
    )
    assert episode.outcome is Outcome.FAILURE
    assert (episode.prompt_tokens, episode.completion_tokens, episode.weights_step) == (7, 1, 4)
    assert [(s.ord, s.action, s.observation, s.error, s.reward, s.done) for s in episode.steps] == [
        (0, None, "page one", "", None, False),
        (1, "press", "page two", "which one?", 0.25, True),
    ]
    whole = queries.episode(store, "e1")
    assert (whole["calls"][0]["id"], whole["calls"][0]["perturbation_sigma"]) == ("e1.0", -0.5)
    assert queries.conversation(store, "e1.0") == [
        {"role": "user", "content": "page one\n\nTask: Press Ok"},
        {"role": "assistant", "content": "press"},
    ]


def test_episodes_are_filtered_and_ordered(store: Store):
    for name, generation, member, task in [
        ("d", 1, 0, "t"),
        ("c", 0, 1, "b"),
        ("b", 0, 1, "a"),
        ("a", 0, None, "z"),
    ]:
        record(store, name, generation=generation, member=member, task=task)
    recorder = EpisodeRecorder(store, "unfinished")
    recorder.start(EPISODE)
    store.flush_sync()
    assert [e.id for e in queries.episodes(store, "r1")] == ["a", "b", "c", "d"]
    assert [e.id for e in queries.episodes(store, "r1", generation=0, member=1)] == ["b", "c"]
    assert [e.id for e in queries.episodes(store, "r1", generations=[1, 2], with_steps=False)] == ["d"]
    assert queries.episodes(store, "r1", outcome=Outcome.SUCCESS) == []
    assert queries.finished_ids(store, ["a", "unfinished", "nowhere"]) == {"a"}


def test_an_interrupted_attempt_leaves_nothing_in_the_next_one(store: Store):
    recorder = EpisodeRecorder(store, "e1")
    recorder.start(EPISODE)
    for number in range(5):
        recorder.step(number, "press", Observation(f"page {number}"))
        recorder.call(
            Request(({"role": "user", "content": "x"},)), None, run_id=None, seconds=0.0, error="gone"
        )
    record(store, "e1")
    store.flush_sync()
    whole = queries.episode(store, "e1")
    assert (len(whole["steps"]), len(whole["calls"]), whole["status"]) == (2, 1, "finished")


def test_what_is_reported_after_the_end_is_not_recorded(store: Store):
    recorder = EpisodeRecorder(store, "e1")
    recorder.start(EPISODE)
    recorder.finish({"status": "finished", "outcome": "failure"})
    recorder.step(7, "press", Observation("late"))
    recorder.call(Request(()), Completion("late", 1, 1, "stop", 0), run_id=None, seconds=0.0)
    store.flush_sync()
    assert store.query("SELECT * FROM steps") == store.query("SELECT * FROM calls") == []


def test_content_in_parts_is_kept_as_it_was_sent(store: Store):
    recorder = EpisodeRecorder(store, "e1")
    recorder.start(EPISODE)
    parts = [
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:,x"}},
    ]
    request = Request(({"role": "user", "content": parts},), tools=({"type": "function"},))
    recorder.call(request, Completion("a cat", 3, 2, "length", 0), run_id=None, seconds=0.0)
    store.flush_sync()
    assert queries.conversation(store, "e1.0") == [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "a cat"},
    ]


@pytest.mark.parametrize("ask", ["nope", "e"])
def test_ids_that_fit_none_or_several_are_refused(store: Store, ask: str):
    record(store, "e1")
    record(store, "e2")
    store.flush_sync()
    with pytest.raises(StoreError, match=r"no episode 'nope'|'e' fits 2 episodes: e1, e2"):
        queries.episode(store, ask)
    with pytest.raises(StoreError, match="no call"):
        queries.conversation(store, ask)


def test_runs_are_found_by_id_beginning_or_name(store: Store):
    store.put("runs", {"id": "20261129-a", "name": "one", "created_at": "2026-11-29", "config": {"a": 1}})
    store.put("runs", {"id": "20261130-b", "name": "two", "created_at": "2026-11-30"})
    record(store, "e1", run="20261130-b")
    store.flush_sync()
    assert [(r["name"], r["episodes"]) for r in queries.runs(store)] == [("two", 1), ("one", 0)]
    assert queries.run(store, "one")["config"] == {"a": 1}
    assert queries.run(store, "20261130")["name"] == "two"
    with pytest.raises(StoreError, match="fits 2 runs"):
        queries.run(store, "2026")


def test_a_long_episode_costs_little_more_than_its_text(tmp_path: Path):
    """30 turns of 12 kB pages with the whole history in every prompt: at most 1.2 times the distinct text."""
    text_bytes = 0
    path = tmp_path / "a.sqlite"
    with Store.open(path) as store:
        empty = path.stat().st_size
        for number in range(4):
            recorder = EpisodeRecorder(store, f"{number:016x}")
            recorder.start(EPISODE)
            messages = [{"role": "system", "content": "skill " * 100}]
            for turn in range(30):
                page = "\n".join(f"link 'offer {number} {turn} {line}' [{line}]" for line in range(400))
                action = f"click [{turn}]"
                recorder.step(turn, action, Observation(page))
                messages.append({"role": "user", "content": f"{page}\n\nTask: buy the offer"})
                recorder.call(
                    Request(tuple(messages)), Completion(action, 1, 1, "stop", 0), run_id=None, seconds=0.1
                )
                messages.append({"role": "assistant", "content": action})
                text_bytes += len(page) + len(action)
    assert path.stat().st_size - empty <= 1.2 * text_bytes
    assert text_bytes > 4 * 30 * 10_000


def test_the_file_can_be_read_by_anyone_while_it_is_written(tmp_path: Path, store: Store):
    record(store, "e1")
    store.flush_sync()
    plain = sqlite3.connect(store.path)
    assert plain.execute("SELECT response, last_message FROM call_text").fetchall() == [
        ("press", "page one\n\nTask: Press Ok")
    ]
    plain.close()

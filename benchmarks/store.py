"""What the trajectory store costs: rows per second through the writer, and bytes on disk an episode.

    python benchmarks/store.py [--json] [--rows 50000] [--episodes 20]

"Distinct text" is what nobody could do without: the skill, the goal, every different page and every different answer,
in UTF-8. The file is measured after it is closed, less an empty database.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from coevo.engine.base import Completion, Request
from coevo.env import Observation
from coevo.store import Store
from coevo.store.recorder import EpisodeRecorder

WORDS = [
    f"{a}{b}"
    for a in ("wool", "gran", "blan", "sho", "order", "ship")
    for b in ("ket", "ite", "ping", "ary", "t", "en")
]
SKILL = "# Acting on web pages\n" + "Write one action, nothing else. Copy names exactly.\n" * 20


def page(rng: random.Random, size_bytes: int) -> str:
    """A page of `size_bytes` on average (half to one and a half times it), one element a line, unlike any other."""
    size_bytes = round(size_bytes * rng.uniform(0.5, 1.5))
    lines: list[str] = []
    size = 0
    while size < size_bytes:
        lines.append(f"button '{' '.join(rng.choices(WORDS, k=4))} {rng.randrange(10**6)}' [{len(lines)}]")
        size += len(lines[-1]) + 1
    return "\n".join(lines)


def record_episode(store: Store, number: int, *, turns: int, page_bytes: int, history: bool) -> int:
    """Record one made-up episode as the runner does; returns the bytes of its distinct text (the skill not included)."""
    rng = random.Random(number)
    recorder = EpisodeRecorder(store, f"{number:016x}")
    goal = f"Put the {' '.join(rng.choices(WORDS, k=3))} number {number} into the cart and check out."
    recorder.start(
        {
            "run": "bench",
            "phase": "rollout",
            "generation": 0,
            "member": 0,
            "task": f"t{number}",
            "goal": goal,
            "seed": number,
        }
    )
    texts = {goal}
    messages: list[dict[str, Any]] = [{"role": "system", "content": SKILL}]
    seen = page(rng, page_bytes)
    recorder.step(0, None, Observation(seen))
    for turn in range(1, turns + 1):
        asked = {"role": "user", "content": f"{seen}\n\nTask: {goal}"}
        messages = [*messages, asked] if history else [messages[0], asked]
        action = f"click '{' '.join(rng.choices(WORDS, k=4))} {turn}'"
        answer = Completion(action, page_bytes // 4, 12, "stop", 0)
        recorder.call(Request(tuple(messages)), answer, run_id=None, seconds=0.1)
        messages.append({"role": "assistant", "content": action})
        texts |= {seen, action}
        seen = page(rng, page_bytes)
        recorder.step(turn, action, Observation(seen), reward=0.0, done=turn == turns)
    texts.add(seen)
    recorder.finish(
        {"status": "finished", "outcome": "failure", "reward": 0.0, "turns": turns, "seconds": 1.0}
    )
    return sum(len(text.encode()) for text in texts)


def bytes_per_episode(folder: Path, episodes: int, shape: dict[str, Any]) -> dict[str, float]:
    """Bytes on disk and of distinct text, an episode."""
    name = "-".join(str(value) for value in shape.values())
    empty, full = folder / f"empty-{name}.sqlite", folder / f"full-{name}.sqlite"
    Store.open(empty).close()
    with Store.open(full) as store:
        text = sum(record_episode(store, number, **shape) for number in range(episodes)) + len(SKILL.encode())
    disk = full.stat().st_size - empty.stat().st_size
    return {"disk_bytes": disk / episodes, "text_bytes": text / episodes, "ratio": disk / text}


def rows_per_second(path: Path, rows: int) -> float:
    """Rows committed a second: steps, calls and members as an episode puts them, in groups of three."""
    with Store.open(path) as store:
        started = time.perf_counter()
        for number in range(rows // 3):
            episode, ord = f"{number // 30:016x}", number % 30
            with store.group():
                store.put(
                    "steps",
                    {"episode": episode, "ord": ord, "action": "click 'Ok'", "reward": 0.0, "done": 0},
                )
                store.put(
                    "calls",
                    {"episode": episode, "ord": ord, "node": "decide", "prompt_tokens": 300, "seconds": 0.1},
                )
                store.put(
                    "members",
                    {"run": "bench", "generation": number // 16, "member": number % 16, "reward": 0.5},
                )
        store.flush_sync()
        return rows / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--episodes", type=int, default=20)
    options = parser.parse_args()
    shapes = {
        "30 turns of 12 kB pages, whole history in every prompt": {
            "turns": 30,
            "page_bytes": 12_000,
            "history": True,
        },
        "30 turns of 12 kB pages, one page a prompt": {"turns": 30, "page_bytes": 12_000, "history": False},
        "30 turns of 3 kB pages, one page a prompt": {"turns": 30, "page_bytes": 3_000, "history": False},
        "3 turns of 400 B pages, one page a prompt": {"turns": 3, "page_bytes": 400, "history": False},
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = sorted(rows_per_second(folder / f"rows-{turn}.sqlite", options.rows) for turn in range(3))
        sizes = {
            label: bytes_per_episode(folder, options.episodes * (30 // shape["turns"]), shape)
            for label, shape in shapes.items()
        }
    if options.json:
        print(json.dumps({"rows_per_second": rates, "episodes": sizes}))
        return
    print(f"writer: {rates[1]:,.0f} rows/s, median of 3 from {rates[0]:,.0f} to {rates[2]:,.0f} (bar: 5,000)")
    for label, size in sizes.items():
        print(
            f"{label}: {size['disk_bytes']:,.0f} B on disk, {size['ratio']:.2f} × its text (bar for 30 turns: 1.20)"
        )


if __name__ == "__main__":
    main()

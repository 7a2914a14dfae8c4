"""The main job on real parts: SmolLM2, Chromium, MiniWoB pages, one database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from coevo.cli import main

ROOT = Path(__file__).parent.parent
SMALL = [
    "es.generations=1",
    "es.population=4",
    "es.tasks_per_generation=4",
    "tasks.slots=4",
    "skill.every=1",
    "skill.dev_tasks=8",
    "evaluate.tasks=4",
]


@pytest.mark.browser
@pytest.mark.model
@pytest.mark.timeout(900)
def test_a_small_co_evolution_on_real_pages_with_the_real_model(tmp_path: Path) -> None:
    database = tmp_path / "runs.sqlite"
    invoke = CliRunner().invoke
    done = invoke(main, ["run", str(ROOT / "webarena" / "miniwob.toml"), f"database={database}", *SMALL])
    assert done.exit_code == 0, done.output

    with closing(sqlite3.connect(database)) as rows:
        rollouts = rows.execute(
            "SELECT count(*), count(DISTINCT member), count(DISTINCT task) FROM episodes"
            " WHERE phase = 'rollout' AND status = 'finished' AND outcome != 'invalid'"
        ).fetchone()
        assert rollouts == (16, 4, 4)
        # what the model saw is the page Chromium showed, and what it said was tried on that page
        seen, said, tried = rows.execute(
            "SELECT c.last_message, c.response, s.action FROM call_text c JOIN episodes e ON e.id = c.episode"
            " JOIN step_text s ON s.episode = e.id AND s.ord = 1 WHERE e.phase = 'rollout' LIMIT 1"
        ).fetchone()
        assert "button" in seen
        assert "Task: " in seen
        assert said.strip().splitlines()[0].strip() == tried
        status, moved = rows.execute("SELECT status, step_norm FROM es_steps").fetchone()
        assert status == "skipped" or moved > 0

    report = json.loads(invoke(main, ["report", "--grid", "--json", "--db", str(database)]).output)
    assert [cell["arm"] for cell in report["cells"]] == [
        "base+seed",
        "base+evolved",
        "evolved+seed",
        "evolved+evolved",
    ]
    assert report["cells"][0]["estimate"]["n"] == 4

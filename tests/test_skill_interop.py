"""A skill written for other clients loads, evolves and leaves again, and nobody's files are lost on the way."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
import skills_ref
from click.testing import CliRunner, Result
from toyrun import experiment

from coevo.cli import main
from coevo.errors import SkillError
from coevo.loop import run_experiment
from coevo.skill import SkillDocument
from coevo.skill.files import companions
from coevo.store import Store

SKILL = """---
name: press-buttons
description: >-
  Press buttons on a page: read the goal, find the button, press it.
  Use when a task names a button.
license: Apache-2.0 (see LICENSE.txt)
compatibility: Needs a page with buttons
metadata:
  author: example-org
  version: 1.0
  updated: 2026-02-01
allowed-tools: Read Grep Bash(python:*)
---
# Pressing buttons

Press the button the task names. For pages with forms see
[forms](references/forms.md), and run `scripts/find.py` to list the buttons.

## When it fails

1. Look again.
2. Try once more.
"""
OTHERS = {
    "references/forms.md": "# Forms\n\nFill in every field before you send.\n",
    "references/REFERENCE.md": "# Reference\n\nAll there is to know.\n",
    "scripts/find.py": "print('button')\n",
    "assets/page.bin": "\udcff\udcfe",
    "LICENSE.txt": "Apache License 2.0\n",
}


def write(directory: Path, text: str = SKILL) -> Path:
    """The skill in `directory`/press-buttons, with files of every kind around it."""
    skill = directory / "press-buttons"
    for name, content in {"SKILL.md": text, **OTHERS}.items():
        path = skill / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode(errors="surrogateescape"))
    (skill / "scripts" / "find.py").chmod(0o755)
    return skill


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose run began with the foreign skill and accepted a version of its own."""
    directory = tmp_path_factory.mktemp("interop")
    made = experiment(
        directory,
        "agent.skill=press-buttons",
        "es.generations=2",
        "skill.confidence=0.55",
        "evaluate.tasks=3",
    )
    before = files(write(directory))
    asyncio.run(run_experiment(made))
    assert files(directory / "press-buttons") == before
    return directory


def accepted(directory: Path) -> int:
    with closing(Store.open(directory / "runs.sqlite", readonly=True)) as store:
        return len(store.query("SELECT 1 FROM skill_versions WHERE status = 'accepted'"))


def test_it_loads_with_all_of_its_front_matter(tmp_path: Path) -> None:
    document = SkillDocument.load(write(tmp_path))
    assert document.license == "Apache-2.0 (see LICENSE.txt)"
    assert document.allowed_tools == "Read Grep Bash(python:*)"
    assert document.metadata == {"author": "example-org", "version": "1.0", "updated": "2026-02-01"}
    assert document.description.startswith("Press buttons on a page: read the goal")
    assert document.references["references/forms.md"].startswith("# Forms")
    assert SkillDocument.parse(document.render(), references=document.references) == document


def test_lint_has_nothing_against_it(tmp_path: Path) -> None:
    result = call("skills", "lint", write(tmp_path))
    assert result.exit_code == 0
    assert "nothing to complain about" in result.output


def test_keys_of_one_client_only_are_named_with_the_remedy(tmp_path: Path) -> None:
    extra = SKILL.replace("license:", "model: some-model\ndisable-model-invocation: true\nlicense:")
    directory = write(tmp_path, extra)
    with pytest.raises(SkillError, match=r"unknown key 'model' \(extra data belongs in 'metadata'\)"):
        SkillDocument.load(directory)
    result = call("skills", "lint", "--json", directory)
    assert result.exit_code == 1
    (row,) = json.loads(result.output)
    assert "disable-model-invocation" in row["finding"]


def test_a_run_evolves_it_and_the_export_is_a_skill_for_every_client(evolved: Path, tmp_path: Path) -> None:
    assert accepted(evolved) >= 1
    result = call("skills", "export", "toy-1", tmp_path / "out", "--db", evolved / "runs.sqlite")
    assert result.exit_code == 0, result.output
    out = tmp_path / "out" / "press-buttons"
    assert {name: content for name, content in files(out).items() if name != "SKILL.md"} == {
        name: content for name, content in files(evolved / "press-buttons").items() if name != "SKILL.md"
    }
    assert (out / "scripts" / "find.py").stat().st_mode & 0o111  # still to be executed
    assert skills_ref.validate(out) == []
    properties = skills_ref.read_properties(out)
    assert properties.license == "Apache-2.0 (see LICENSE.txt)"
    assert properties.allowed_tools == "Read Grep Bash(python:*)"
    assert {key: properties.metadata[key] for key in ("author", "version", "updated")} == {
        "author": "example-org",
        "version": "1.0",
        "updated": "2026-02-01",
    }
    text = (out / "SKILL.md").read_text()
    assert "Rule 1: answer with press 'NAME'" in text
    assert "1. Look again.\n2. Try once more." in text
    assert (out / "references" / "forms.md").read_text() == OTHERS["references/forms.md"]
    assert SkillDocument.load(out).content_hash != SkillDocument.load(evolved / "press-buttons").content_hash


def test_an_export_into_the_foreign_directory_is_refused_and_changes_nothing(evolved: Path) -> None:
    before = files(evolved / "press-buttons")
    result = call("skills", "export", "toy-1", evolved, "--db", evolved / "runs.sqlite")
    assert result.exit_code == 1
    assert "holds files that coevo did not write: LICENSE.txt" in result.output
    assert files(evolved / "press-buttons") == before


def test_links_hidden_files_and_caches_stay_behind(tmp_path: Path) -> None:
    skill = write(tmp_path)
    (skill / "scripts" / "__pycache__").mkdir()
    (skill / "scripts" / "__pycache__" / "find.pyc").write_text("")
    (skill / ".env").write_text("KEY=1")
    (tmp_path / "secret").write_text("mine")
    (skill / "assets" / "link").symlink_to(tmp_path / "secret")
    (skill / "more").symlink_to(tmp_path)
    assert set(companions(skill)) == set(OTHERS) - {"references/forms.md"}


def test_a_file_changed_where_the_export_goes_is_not_overwritten(evolved: Path, tmp_path: Path) -> None:
    arguments = ("skills", "export", "toy-1", tmp_path, "--db", evolved / "runs.sqlite")
    assert call(*arguments).exit_code == 0
    (tmp_path / "press-buttons" / "scripts" / "find.py").write_text("mine")
    result = call(*arguments)
    assert result.exit_code == 1
    assert "holds files that coevo did not write: scripts/find.py" in result.output


def test_what_an_export_names_and_lacks_is_told(evolved: Path, tmp_path: Path) -> None:
    shutil.copytree(evolved, tmp_path / "copy")
    (moved,) = [tmp_path / "copy" / "runs.sqlite"]
    seed = evolved / "press-buttons"
    seed.rename(evolved / "elsewhere")
    try:
        result = call("skills", "export", "toy-1", tmp_path / "out", "--db", moved)
    finally:
        (evolved / "elsewhere").rename(seed)
    assert result.exit_code == 0, result.output
    assert set(files(tmp_path / "out" / "press-buttons")) == {"SKILL.md", "references/forms.md"}
    said = " ".join(result.output.split())
    assert "it names scripts/find.py, which is not in it, and the directory of its seed is gone" in said


def test_an_export_over_a_skill_edited_by_hand_is_refused(evolved: Path, tmp_path: Path) -> None:
    arguments = ("skills", "export", "toy-1", tmp_path, "--db", evolved / "runs.sqlite")
    assert call(*arguments).exit_code == 0
    assert call(*arguments).exit_code == 0  # its own export it knows
    path = tmp_path / "press-buttons" / "SKILL.md"
    path.write_text(path.read_text() + "\nMine.\n")
    result = call(*arguments)
    assert result.exit_code == 1
    assert "edited or written elsewhere" in result.output
    assert path.read_text().endswith("Mine.\n")


def test_a_run_begins_with_an_export(evolved: Path, tmp_path: Path) -> None:
    call("skills", "export", "toy-1", tmp_path, "--db", evolved / "runs.sqlite")
    made = experiment(
        tmp_path, "agent.skill=press-buttons", "es.generations=1", "evaluate.tasks=3", "evaluate.grid=false"
    )
    assert asyncio.run(run_experiment(made)).status == "finished"

"""`coevo skills`: the versions of skill documents, and where every line comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coevo.cli.common import console, database_option, json_option, open_store, print_json, print_rows

if TYPE_CHECKING:
    from coevo.skill import SkillDocument
    from coevo.store import Store


@click.group()
def skills() -> None:
    """List, read, compare and export skill versions."""


@skills.command("list")
@click.option("--run", "run_id", metavar="RUN", help="Only versions of this run.")
@database_option
@json_option
def list_versions(run_id: str | None, database: str, as_json: bool) -> None:
    """List skill versions, those that were turned down included.

    \b
    coevo skills list --run miniwob-1
    """
    from coevo.store import queries

    with open_store(database) as store:
        if run_id is not None:
            run_id = queries.run(store, run_id)["id"]
        rows = store.query(
            "SELECT id, skill, status, parent, run, generation, gain, gain_lower, gain_upper, pairs, author,"
            " created_at, reason FROM skill_versions WHERE ?1 IS NULL OR run = ?1 ORDER BY created_at, id",
            (run_id,),
        )
    columns = ("id", "status", "parent", "gain", "reason")
    print_rows(rows, columns, as_json=as_json, empty="no skill versions yet")


@skills.command("show")
@click.argument("version")
@database_option
@json_option
def show_version(version: str, database: str, as_json: bool) -> None:
    """Print the SKILL.md of VERSION (or of a run: the version it ended with).

    \b
    coevo skills show miniwob-1
    """
    with open_store(database) as store:
        row = find_version(store, version)
    if as_json:
        print_json(row)
    else:
        click.echo(row["text"])


@skills.command("diff")
@click.argument("version", metavar="RUN|VERSION")
@click.argument("other", metavar="[RUN|VERSION]", required=False)
@database_option
def diff(version: str, other: str | None, database: str) -> None:
    """Show what a run made of its seed skill, what a version changed in its parent, or what leads from one to another.

    Of two, a run stands for the version it ended with.

    \b
    coevo skills diff miniwob-1                           from the seed to the end of the run
    coevo skills diff miniwob-1.g3                        what this version changed
    coevo skills diff miniwob-1.g1 miniwob-1              from one version to another
    """
    import difflib

    from coevo.errors import SkillError
    from coevo.store.versions import seed_version

    with open_store(database) as store:
        first = find_version(store, version)
        if other is not None:
            old, new = first, find_version(store, other)
        elif first["id"] != version and (seed := seed_version(store, version)):
            old, new = find_version(store, seed), first
        elif first["parent"] is not None:
            old, new = find_version(store, first["parent"]), first
        else:
            raise SkillError(f"{first['id']} is a seed: it has no parent", hint="name a second version")
    lines = difflib.unified_diff(
        old["text"].splitlines(), new["text"].splitlines(), old["id"], new["id"], lineterm=""
    )
    colours = {"+": "green", "-": "red", "@": "cyan"}
    text = [click.style(line, fg=colours.get(line[:1])) for line in lines]
    click.echo("\n".join(text) if text else "no difference")


@skills.command("export")
@click.argument("version")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@database_option
def export_version(version: str, directory: Path, database: str) -> None:
    """Write VERSION (or the version a run ended with) as an Agent Skills directory inside DIRECTORY.

    Scripts and other files come from the seed's directory, as they are there now.

    \b
    coevo skills export miniwob-1 ./skills-out
    """
    from coevo.loop.skills import document_of

    with open_store(database) as store:
        row = find_version(store, version)
    stamps: dict[str, Any] = {"version": row["id"]} | ({"run": row["run"]} if row["run"] else {})
    for line in write_skill(database, row["id"], document_of(row).stamped(**stamps), directory):
        console().print(line, highlight=False)


def write_skill(database: str, version: str, document: SkillDocument, directory: Path) -> list[str]:
    """Write a document that is `version`, or was made from it, as a skill inside `directory`, with the other files of the
    version's seed. Returns what to say of it: where it is, and which files it names that are missing."""
    from coevo.skill import export as export_document
    from coevo.skill.lint import missing

    with open_store(database) as store:
        row = find_version(store, version)
        source = seed_directory(store, row)
        known = [
            entry["content_hash"]
            for entry in store.query(
                "SELECT content_hash FROM skill_versions WHERE skill = ?", (row["skill"],)
            )
        ]
    written = export_document(document, directory, known=known, source=source)
    where = f"nor in {source}" if source else "and the directory of its seed is gone"
    return [
        f"wrote {written}",
        *(f"it names {name}, which is not in it, {where}" for name in missing(document, written)),
    ]


def seed_directory(store: Store, row: dict[str, Any]) -> Path | None:
    """Where the seed of a version lies: the skill directory its run began with; None when it is not there any more."""
    from coevo.errors import ConfigError
    from coevo.loop import experiment_of

    runs = store.query(
        "SELECT id FROM runs WHERE id = ? OR json_extract(provenance, '$.seed_skill') = ? ORDER BY created_at DESC LIMIT 1",
        (row["run"], row["id"]),
    )
    if not runs:
        return None
    try:
        experiment = experiment_of(store, runs[0]["id"])
        return experiment.find("agent.skill", experiment.agent.skill)
    except ConfigError:
        return None


def find_version(store: Store, ident: str) -> dict[str, Any]:
    """A version by id, by a beginning that fits only one, or the one a run ended with. Raises SkillError."""
    from coevo.errors import SkillError
    from coevo.store.versions import final_version

    rows = (
        store.query("SELECT * FROM skill_versions WHERE id = ?", (ident,))
        or store.query("SELECT * FROM skill_versions WHERE id = ?", (final_version(store, ident),))
        or store.query("SELECT * FROM skill_versions WHERE substr(id, 1, length(?1)) = ?1", (ident,))
    )
    if not rows:
        raise SkillError(f"there is no skill version {ident!r}", hint="`coevo skills list` lists them")
    if len(rows) > 1:
        fits = ", ".join(str(row["id"]) for row in rows[:5])
        raise SkillError(f"{ident!r} fits {len(rows)} versions: {fits}", hint="give more of it")
    return rows[0]

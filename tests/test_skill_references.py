"""Reference files of a skill: blocks move there, exports keep to the directory, versions keep them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from skill_rows import episode

from coevo.errors import SkillError
from coevo.skill import EditStatus, Evidence, Op, ProposedEdit, SkillDocument, apply_edits, export
from coevo.skill.author import ReplyError
from coevo.skill.replies import read_edits
from coevo.store import Store

BASE = SkillDocument(
    "web", "How to act on a web page.", "Act.\n\n## Rules\n\n- Click links.\n- Mind the tide tables."
)
MOVE = ProposedEdit(Op.MOVE, "Rules", "references/rare-cases.md", target="- Mind the tide tables.")


def test_a_block_moves_and_leaves_a_pointer_once() -> None:
    moved = apply_edits(BASE, [MOVE])
    assert [status.status for status in moved.statuses] == [EditStatus.APPLIED]
    document = moved.document
    assert document.references == {"references/rare-cases.md": "- Mind the tide tables."}
    assert "tide" not in document.body
    assert document.body.endswith("## References\n\n- [Rare cases](references/rare-cases.md)")
    assert document.content_hash != BASE.content_hash
    again = apply_edits(document, [MOVE])
    assert [status.status for status in again.statuses] == [EditStatus.NOT_FOUND]
    second = apply_edits(document, [replace(MOVE, target="- Click links.")]).document
    assert second.references["references/rare-cases.md"] == "- Mind the tide tables.\n- Click links."
    assert second.body.count("rare-cases.md") == 1


@pytest.mark.parametrize(
    "path",
    [
        "../x.md",
        "references/../../x.md",
        "references/a/b.md",
        "/etc/x.md",
        "references/x.sh",
        "",
        "references/.md",
    ],
)
def test_nothing_moves_out_of_the_references(path: str) -> None:
    (status,) = apply_edits(BASE, [replace(MOVE, text=path)]).statuses
    assert status.status is EditStatus.REFUSED
    with pytest.raises(ReplyError, match=r"references/NAME\.md"):
        read_edits(f'{{"edits": [{{"op": "move", "target": "- Click links.", "file": "{path}"}}]}}')
    assert SkillDocument("a", "b", references={path: "x"}).problems()


def test_export_writes_and_cleans_only_what_is_its_own(tmp_path: Path) -> None:
    document = apply_edits(BASE, [MOVE]).document
    written = export(document, tmp_path)
    assert (written / "references" / "rare-cases.md").read_text() == "- Mind the tide tables.\n"
    assert SkillDocument.load(written) == document
    export(BASE, tmp_path, known=[document.content_hash])
    assert not (written / "references" / "rare-cases.md").exists()
    export(document, tmp_path, known=[BASE.content_hash])
    (written / "references" / "notes.txt").write_text("mine")
    with pytest.raises(SkillError, match="holds files that coevo did not write: references"):
        export(document, tmp_path, known=[document.content_hash])
    (written / "references" / "notes.txt").unlink()
    (written / "references" / "rare-cases.md").write_text("edited by hand")
    with pytest.raises(SkillError, match="not a version coevo knows"):
        export(document, tmp_path, known=[document.content_hash])


def test_too_many_and_too_long_references_are_refused() -> None:
    many = {f"references/n{i}.md": "x" for i in range(9)}
    assert "9 reference files" in replace(BASE, references=many).problems()[0]
    long = {"references/long.md": "\n".join("x" * 301)}
    assert "301 lines" in replace(BASE, references=long).problems()[0]


async def test_versions_keep_their_references(tmp_path: Path) -> None:
    from coevo.loop.skills import SkillLedger
    from coevo.skill import compose, select

    with Store.open(tmp_path / "runs.sqlite") as store:
        store.put(
            "runs",
            {
                "id": "r",
                "name": "r",
                "status": "running",
                "seed": 0,
                "config": {},
                "provenance": {},
                "created_at": "2026-01-01",
            },
        )
        rows = [episode(f"e{i}", "click 'Help'", task=f"t{i}") for i in range(2)]
        evidence = tuple(Evidence(row.id, row.task) for row in rows)
        for row in rows:
            store.put("episodes", {"id": row.id, "run": "r", "phase": "rollout", "task": row.task})
        ledger = SkillLedger(store, "r", BASE)
        await ledger.register_seed()
        found = compose(BASE, select(rows), [replace(MOVE, evidence=evidence)])
        (version,) = await ledger.record(0, ledger.seed_version, found, "test", candidates=1)
        fresh = SkillLedger(store, "r", BASE)
        assert fresh.document(version) == found.proposals[0].document
        assert fresh.document(version).references

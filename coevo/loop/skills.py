"""The run's skill versions: the seed, the candidates, and what the gate said of each."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, SkillError
from coevo.seeds import derive_seed
from coevo.skill import Aside, Budgets, Distillation, Proposal, SkillDocument, draw
from coevo.store.versions import Kept, kept_versions

if TYPE_CHECKING:
    from coevo.skill import GateDecision, Standing
    from coevo.store import Store
    from coevo.tables import SkillTable

Pair = tuple[str, int, float | None, float | None]
"""(task, seed, reward of the current version, reward of the candidate)."""


def now() -> str:
    """UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def document_of(row: Mapping[str, Any]) -> SkillDocument:
    """The document in a row of `skill_versions`."""
    return SkillDocument.parse(row["text"], references=json.loads(row["files"] or "{}"))


def budgets(table: SkillTable) -> Budgets:
    return Budgets(max_lines=table.max_lines, max_tokens=table.max_tokens)


def _aside(item: Aside, status: str) -> dict[str, Any]:
    edit = item.edit
    return {
        "status": status,
        "why": item.why,
        "op": str(edit.op),
        "section": edit.section,
        "text": edit.text,
        "target": edit.target,
        "support": edit.support,
        "analyst": edit.author,
        "episodes": [evidence.episode for evidence in edit.evidence],
        "calls": list(edit.calls),
    }


class SkillLedger:
    """Reads and writes the versions of one run. Every candidate stays, with its verdict and why."""

    def __init__(self, store: Store, run: str, seed: SkillDocument) -> None:
        self._store, self._run, self._seed = store, run, seed
        self.seed_version = f"{seed.name}@{seed.content_hash[:10]}"
        self._documents: dict[str, SkillDocument] = {self.seed_version: seed}

    async def register_seed(self) -> None:
        """Make sure the seed version has its row; versions of one text are shared between runs."""
        await self.register(self._seed)

    async def register(self, document: SkillDocument) -> str:
        """Make sure a document that a person wrote has its row; returns its version. Raises ConfigError for another skill."""
        if document.name != self._seed.name:
            raise ConfigError(
                f"{document.name!r} is not a version of the skill {self._seed.name!r}",
                hint="give it the name of the run's skill in its front matter",
            )
        version = f"{document.name}@{document.content_hash[:10]}"
        if self._row(version) is None:
            with self._store.group():
                known = self._store.query("SELECT 1 FROM skills WHERE name = ?", (self._seed.name,))
                if not known:
                    self._store.put(
                        "skills",
                        {"name": document.name, "created_at": now(), "current_version": version},
                    )
                self._store.put(
                    "skill_versions",
                    {
                        "id": version,
                        "skill": document.name,
                        "status": "seed",
                        "author": "person",
                        "text": document.render(),
                        "files": dict(document.references) or None,
                        "content_hash": document.content_hash,
                        "created_at": now(),
                    },
                )
            await self._store.flush()
        self._documents[version] = document
        return version

    def pool(self, before: int | None = None) -> list[Kept]:
        """The versions the run keeps, the best first: one without a pool. `before`: when that generation began."""
        return kept_versions(self._store, self._run, before=before) or [Kept(self.seed_version, 1)]

    def best(self) -> str:
        """The version the run stands for: the last one accepted, else the seed; of a pool, the best by its last comparison."""
        return self.pool()[0].version

    def current(self, generation: int) -> str:
        """The version in use in `generation`, for all members; of a pool, the one drawn when its last look was over."""
        kept = self.pool(generation)
        if len(kept) == 1:
            return kept[0].version
        facts = self._store.query(
            "SELECT seed, (SELECT max(generation) FROM distillations WHERE run = ?1 AND generation < ?2) AS look"
            " FROM runs WHERE id = ?1",
            (self._run, generation),
        )[0]
        weights = {one.version: one.weight for one in kept}
        return draw(weights, derive_seed(facts["seed"], "skill", "in use", facts["look"]))

    def born(self, version: str) -> int:
        """The generation that accepted a version, -1 for a seed."""
        row = self._row(version)
        return -1 if row is None or row["generation"] is None else int(row["generation"])

    def document(self, version: str) -> SkillDocument:
        if version not in self._documents:
            row = self._row(version)
            if row is None:
                raise SkillError(f"skill version {version} is not in the database")
            self._documents[version] = document_of(row)
        return self._documents[version]

    def body(self, version: str) -> str:
        """What the agent reads."""
        return self.document(version).body

    def bodies(self, *versions: str) -> dict[str, str]:
        return {version: self.body(version) for version in versions}

    def ruled_out(self, before: int | None = None) -> frozenset[str]:
        """What need not be proposed: hashes of documents that were turned down or are kept already, and keys of edits that
        failed on their own.

        An edit that lost to a better candidate is not ruled out. `before`: kept when that generation began.
        """
        kept = {self.document(one.version).content_hash for one in self.pool(before)}
        documents = self._store.query(
            "SELECT content_hash FROM skill_versions WHERE run = ? AND status = 'rejected'", (self._run,)
        )
        alone = self._store.query(
            "SELECT min(e.content_hash) AS content_hash FROM skill_versions v JOIN edits e ON e.skill_version = v.id"
            " WHERE v.run = ? AND v.status = 'rejected' AND e.status = 'applied' AND NOT EXISTS ("
            " SELECT 1 FROM skill_versions w WHERE w.run = v.run AND w.generation = v.generation"
            " AND w.status = 'accepted') GROUP BY v.id HAVING count(*) = 1",
            (self._run,),
        )
        return frozenset(row["content_hash"] for row in (*documents, *alone)) | kept

    def candidates(self, generation: int) -> list[dict[str, Any]]:
        """The versions proposed after `generation`, decided or not."""
        return self._store.query(
            "SELECT * FROM skill_versions WHERE run = ? AND generation = ? AND status != 'seed' ORDER BY id",
            (self._run, generation),
        )

    async def record(
        self,
        generation: int,
        parent: str,
        found: Distillation,
        author: str,
        *,
        candidates: int,
        report: str = "",
    ) -> list[str]:
        """Store a distillation: the first candidates with their edits, the episodes and calls behind them, and what was left
        out on the way. Returns the candidates' version ids."""
        versions = []
        selection = found.selection
        with self._store.group():
            self._store.put(
                "distillations",
                {
                    "run": self._run,
                    "generation": generation,
                    "skill_version": parent,
                    "analyst": author,
                    "episodes": len(selection.tasks) + len(selection.dropped),
                    "pairs": len(selection.pairs),
                    "successes": len(selection.successes),
                    "failures": len(selection.failures),
                    "left_out": [list(item) for item in selection.dropped],
                    "aside": [
                        *(_aside(item, "aside") for item in found.aside),
                        *(_aside(item, "refused") for item in found.refused),
                    ],
                    "duplicates": found.duplicates,
                    "candidates": len(found.proposals),
                    "report": report or None,
                    "created_at": now(),
                },
            )
            for index, proposal in enumerate(found.proposals[:candidates]):
                version = f"{self._run}.g{generation}" + (f".{index}" if index else "")
                versions.append(version)
                self._put_version(version, parent, proposal, author, generation)
        await self._store.flush()
        return versions

    async def propose(self, version: str, parent: str, proposal: Proposal, author: str) -> None:
        """Store a candidate from outside the run's own rhythm, unless it is there: no generation ever takes it up."""
        self._documents[version] = proposal.document
        if self._row(version) is None:
            with self._store.group():
                self._put_version(version, parent, proposal, author, None)
            await self._store.flush()

    async def set_aside(self, reasons: Mapping[str, str]) -> None:
        """Mark versions as rejected that their author dropped before any gate, unless a gate has decided on them."""
        with self._store.group():
            for version, reason in reasons.items():
                row = self._row(version)
                if row is not None and row["pairs"] is None:
                    self._store.update("skill_versions", version, {"status": "rejected", "reason": reason})
        await self._store.flush()

    async def judge(
        self, version: str, against: str, decision: GateDecision, reason: str, pairs: Sequence[Pair]
    ) -> None:
        """Store the verdict on a candidate of `propose`. One that passes stays proposed: the run goes on as it was."""
        status = "proposed" if decision.accepted else "rejected"
        with self._store.group():
            self._put_verdict(version, status, decision, reason, against, None, pairs)
        await self._store.flush()

    def _put_version(
        self, version: str, parent: str, proposal: Proposal, author: str, generation: int | None
    ) -> None:
        self._documents[version] = proposal.document
        self._store.put(
            "skill_versions",
            {
                "id": version,
                "skill": self._seed.name,
                "parent": parent,
                "status": "proposed",
                "author": author,
                "text": proposal.document.render(),
                "files": dict(proposal.document.references) or None,
                "content_hash": proposal.document.content_hash,
                "run": self._run,
                "generation": generation,
                "created_at": now(),
                "reason": proposal.reason,
            },
        )
        self._put_edits(version, proposal, author)

    def _put_edits(self, version: str, proposal: Proposal, author: str) -> None:
        for number, applied in enumerate(proposal.edits):
            edit = applied.edit
            edit_id = f"{version}.e{number}"
            self._store.put(
                "edits",
                {
                    "id": edit_id,
                    "skill_version": version,
                    "op": str(edit.op),
                    "section": edit.section,
                    "text": edit.text,
                    "target": edit.target or None,
                    "support": edit.support,
                    "status": str(applied.status),
                    "reason": applied.reason or edit.reason,
                    "analyst": edit.author or author,
                    "content_hash": edit.key,
                },
            )
            for evidence in edit.evidence:
                self._store.put("edit_evidence", {"edit": edit_id, "episode": evidence.episode})
            for call in edit.calls:
                self._store.put("edit_calls", {"edit": edit_id, "call": call})

    async def decide(
        self,
        generation: int,
        current: str,
        accepted: str | None,
        decisions: Mapping[str, tuple[GateDecision, str]],
        pairs: Mapping[str, Sequence[Pair]],
        pool: Sequence[Standing] = (),
    ) -> None:
        """Store the verdicts on the candidates of a generation at once, with the pairs of rewards behind them.

        `decisions` maps a candidate to the gate's decision and the reason to show; `pool` is what became of the versions kept
        besides the accepted one.
        """
        with self._store.group():
            for version, (decision, reason) in decisions.items():
                status = "accepted" if version == accepted else "rejected"
                self._put_verdict(version, status, decision, reason, current, generation, pairs[version])
            if accepted:
                self._store.update("skills", self._seed.name, {"current_version": accepted})
            self._put_pool(generation, pool)
        await self._store.flush()

    async def keep(self, generation: int, pool: Sequence[Standing]) -> None:
        """Store a comparison of the versions kept."""
        with self._store.group():
            self._put_pool(generation, pool)
        await self._store.flush()

    def _put_pool(self, generation: int, pool: Sequence[Standing]) -> None:
        if pool:  # a comparison that a rollback made void may be made again
            self._store.delete("skill_pool", {"run": self._run, "generation": generation})
        for place, standing in enumerate(pool):
            self._store.put(
                "skill_pool",
                {
                    "run": self._run,
                    "generation": generation,
                    "skill_version": standing.version,
                    "place": place,
                    "mean": standing.mean,
                    "episodes": standing.episodes,
                    "best_on": list(standing.best_on),
                    "weight": standing.weight,
                },
            )
        if pool:
            self._store.update("skills", self._seed.name, {"current_version": pool[0].version})

    def _put_verdict(
        self,
        version: str,
        status: str,
        decision: GateDecision,
        reason: str,
        against: str,
        generation: int | None,
        pairs: Sequence[Pair],
    ) -> None:
        self._store.update(
            "skill_versions",
            version,
            {
                "status": status,
                "reason": reason,
                "gain": decision.mean_difference,
                "gain_lower": decision.lower if math.isfinite(decision.lower) else None,
                "gain_upper": decision.upper if math.isfinite(decision.upper) else None,
                "pairs": decision.pairs,
            },
        )
        for task, seed, reward_current, reward_candidate in pairs:
            self._store.put(
                "gate_results",
                {
                    "skill_version": version,
                    "against": against,
                    "task": task,
                    "seed": seed,
                    "run": self._run,
                    "generation": generation,
                    "reward_current": reward_current,
                    "reward_candidate": reward_candidate,
                },
            )

    def _row(self, version: str) -> dict[str, Any] | None:
        rows = self._store.query("SELECT * FROM skill_versions WHERE id = ?", (version,))
        return rows[0] if rows else None

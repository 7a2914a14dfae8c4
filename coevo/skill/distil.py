"""From episodes to candidate skills: select, analyse, merge, apply. The gate decides what becomes of them.

One distillation may propose several candidates, because what helps a model depends on the model: rules only, examples
only, both, other examples. They are alternatives: the loop gates the most promising ones and takes the best that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coevo.errors import SkillError, explained
from coevo.skill.analyse import Analyst
from coevo.skill.apply import AppliedEdit, EditStatus, apply_edits, blocks
from coevo.skill.document import Budgets, SkillDocument
from coevo.skill.edits import EXAMPLES, Evidence, Op, ProposedEdit, defects, union
from coevo.skill.examples import choose
from coevo.skill.literals import leaked, task_literals
from coevo.skill.merge import Aside, merge
from coevo.skill.select import Selection, select

if TYPE_CHECKING:
    from coevo.store.queries import EpisodeRecord

# Worth in mean reward, measured on a 135M model: rules gain about 0.04, the first worked example about 0.08, and
# a page of them up to 0.17. It only orders the candidates; the gate measures.
_RULES_GAIN = 0.04
_EXAMPLES_GAIN = 0.17


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate version: the document, what became of every edit considered for it, and the episodes behind it."""

    label: str
    document: SkillDocument
    edits: tuple[AppliedEdit, ...]
    expected_gain: float
    reason: str

    @property
    def applied(self) -> tuple[ProposedEdit, ...]:
        """The edits that made it into the document."""
        return tuple(one.edit for one in self.edits if one.status is EditStatus.APPLIED)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return union(item for edit in self.applied for item in edit.evidence)

    @property
    def text(self) -> str:
        """The text of `SKILL.md`."""
        return self.document.render()

    @property
    def content_hash(self) -> str:
        return self.document.content_hash

    @property
    def if_rejected(self) -> frozenset[str]:
        """What a rejection of this candidate rules out for good, to be passed as `rejected` from then on.

        Always this very document. A single edit is ruled out by itself; of several, nobody knows which one harmed.
        """
        alone = {edit.key for edit in self.applied} if len(self.applied) == 1 else set()
        return frozenset({self.content_hash} | alone)


@dataclass(frozen=True, slots=True)
class Distillation:
    """Everything a distillation produced: candidates, most promising first, and what was left out on the way."""

    selection: Selection
    proposals: tuple[Proposal, ...]
    aside: tuple[Aside, ...] = ()
    refused: tuple[Aside, ...] = ()
    duplicates: int = 0


async def distil(
    document: SkillDocument,
    episodes: Sequence[EpisodeRecord],
    analyst: Analyst,
    *,
    rejected: Collection[str] = (),
    budgets: Budgets | None = None,
    held_out: Collection[str] = (),
    min_support: int = 2,
    max_examples: int = 8,
    max_proposals: int = 5,
) -> Distillation:
    """Candidates for the next version of `document`, most promising first (none when the episodes teach nothing new), with a
    full account of the selection and of edits put aside or refused.

    rejected: keys of edits and content hashes of documents that were turned down (`Proposal.if_rejected`).
    held_out: task ids that must never be learned from. max_examples: worked examples one candidate may add; 0 leaves
    the examples as they are.
    """
    selection = select(episodes, held_out=held_out)
    with explained(f"the analyst {analyst.name!r}", SkillError):
        proposed = list(await analyst.analyse(document, selection))
        for edit in proposed:
            _check_type(edit)
    return compose(
        document,
        selection,
        proposed,
        rejected=rejected,
        budgets=budgets,
        min_support=min_support,
        max_examples=max_examples,
        max_proposals=max_proposals,
    )


def _check_type(edit: object) -> None:
    if not isinstance(edit, ProposedEdit):
        raise TypeError(f"an analyst returns ProposedEdits, not {type(edit).__name__}")
    texts = (edit.section, edit.text, edit.target, edit.topic, edit.scope, edit.reason, edit.author)
    if not isinstance(edit.op, Op) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"an edit has an Op and texts, unlike {edit!r:.200}")


def compose(
    document: SkillDocument,
    selection: Selection,
    proposed: Iterable[ProposedEdit],
    *,
    rejected: Collection[str] = (),
    budgets: Budgets | None = None,
    min_support: int = 2,
    max_examples: int = 8,
    max_proposals: int = 5,
) -> Distillation:
    """Candidates from the edits of an analyst; a pure function, whoever the analyst was.

    Refused are edits that could break the document, edits without evidence from `selection`, and rules that carry
    literals of its tasks. No candidate equals `document` or has its content hash in `rejected`.
    """
    budgets = budgets or Budgets()
    rejected = frozenset(rejected)
    sound, refused = _screen(proposed, selection)
    merged = merge(sound, rejected_hashes=rejected, min_support=min_support)
    rules = [edit for edit in merged.edits if edit.kind == "rule"]
    about_examples = [edit for edit in merged.edits if edit.kind == "example" and max_examples]
    examples = [edit for edit in about_examples if edit.op is Op.ADD]
    others = [edit for edit in about_examples if edit.op is not Op.ADD]
    seen = {document.content_hash} | rejected
    proposals = []
    for label, edits in _menus(document, rules, examples, others, budgets, max_examples):
        result = apply_edits(document, edits, budgets)
        if result.document.content_hash in seen:
            continue
        seen.add(result.document.content_hash)
        applied = result.applied
        proposals.append(
            Proposal(
                label, result.document, result.statuses, _expected_gain(applied), _reason(label, applied)
            )
        )
    proposals.sort(key=lambda proposal: -proposal.expected_gain)
    return Distillation(
        selection, tuple(proposals[:max_proposals]), merged.aside, tuple(refused), merged.duplicates
    )


def _screen(proposed: Iterable[ProposedEdit], selection: Selection) -> tuple[list[ProposedEdit], list[Aside]]:
    tasks = selection.tasks
    literals = task_literals((*selection.all_successes, *selection.all_failures))
    sound, refused = [], []
    for edit in proposed:
        strangers = [item for item in edit.evidence if tasks.get(item.episode) != item.task]
        if found := defects(edit):
            refused.append(Aside(edit, "; ".join(found)))
        elif not edit.evidence:
            refused.append(Aside(edit, "no evidence"))
        elif strangers:
            refused.append(
                Aside(edit, f"evidence {strangers[0].episode!r} is not among the selected episodes")
            )
        elif edit.kind == "rule" and (literal := leaked(edit.text, literals)):
            refused.append(Aside(edit, f"a rule must not carry {literal!r}, which belongs to a task"))
        else:
            sound.append(edit)
    return sound, sorted(refused, key=lambda item: (item.edit.key, item.why))


def _menus(
    document: SkillDocument,
    rules: list[ProposedEdit],
    examples: list[ProposedEdit],
    others: list[ProposedEdit],
    budgets: Budgets,
    max_examples: int,
) -> Iterable[tuple[str, list[ProposedEdit]]]:
    """The alternatives, as sets of edits."""
    count = budgets.count_tokens
    free = budgets.max_tokens - count(document.body) - count(f"\n\n## {EXAMPLES}")
    free_lines = budgets.max_lines - len(document.body.splitlines()) - 2
    for_rules = sum(count("\n- " + edit.text) for edit in rules)

    def pick(limit: int, tokens: int, skip: Iterable[str] = ()) -> list[ProposedEdit]:
        chosen = choose(examples, limit=limit, max_tokens=tokens, count_tokens=count, skip=skip)
        return _within_lines(chosen, free_lines)

    if not examples and not others:
        yield "rules", rules
        return
    full = pick(max_examples, free)
    yield "rules and examples", [*rules, *others, *pick(max_examples, free - for_rules)]
    yield "examples", [*others, *full]
    yield "few examples", pick(min(2, max_examples), free)
    yield "other examples", pick(max_examples, free, skip={edit.key for edit in full})
    yield "rules", rules
    yield "newer examples", _swap(document, examples, max_examples, count)


def _within_lines(chosen: list[ProposedEdit], lines: int) -> list[ProposedEdit]:
    kept = []
    for edit in chosen:
        lines -= len(edit.text.splitlines()) + 1
        if lines < 0:
            break
        kept.append(edit)
    return kept


def _swap(
    document: SkillDocument, examples: list[ProposedEdit], limit: int, count: Callable[[str], int]
) -> list[ProposedEdit]:
    """Replace the examples of the document by new ones, for when there is no room to add."""
    section = document.section(EXAMPLES)
    if section is None:
        return []
    old = blocks(section.text)
    fresh = [edit for edit in examples if edit.text not in old]
    chosen = choose(fresh, limit=min(limit, len(old)), max_tokens=count(section.text), count_tokens=count)
    return [
        replace(edit, op=Op.REPLACE, target=target, reason=f"{edit.reason}; replaces an older example")
        for edit, target in zip(chosen, old, strict=False)
    ]


def _expected_gain(edits: Sequence[ProposedEdit]) -> float:
    rules = sum(1 for edit in edits if edit.kind == "rule")
    examples = sum(1 for edit in edits if edit.kind == "example" and edit.op is Op.ADD)
    swapped = sum(1 for edit in edits if edit.kind == "example" and edit.op is Op.REPLACE)
    gain = _RULES_GAIN * (1 - 0.5**rules) + _EXAMPLES_GAIN * (1 - 0.5**examples)
    return round(gain + 0.5 * _RULES_GAIN * (1 - 0.5**swapped), 6)


def _reason(label: str, edits: Sequence[ProposedEdit]) -> str:
    tasks = {item.task for edit in edits for item in edit.evidence}
    return f"{label}: {len(edits)} edits from {len(tasks)} tasks"

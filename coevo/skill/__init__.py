"""The skill side: a `SKILL.md` that evolves from episodes, with evidence behind every line."""

from coevo.skill.analyse import Analyst, MinerAnalyst
from coevo.skill.apply import AppliedEdit, ApplyResult, EditStatus, apply_edits
from coevo.skill.distil import Distillation, Proposal, compose, distil
from coevo.skill.document import Budgets, Section, SkillDocument, estimate_tokens
from coevo.skill.edits import Evidence, Op, ProposedEdit
from coevo.skill.files import export
from coevo.skill.gate import GateDecision, TaskDelta, Verdict, decide, decide_early, paired_interval
from coevo.skill.literals import leaked, task_literals
from coevo.skill.merge import Aside, MergeResult, combine, merge
from coevo.skill.pool import Entrant, Standing, draw, standings
from coevo.skill.prompt import ExampleTurn, split_examples
from coevo.skill.select import ContrastPair, LeftOut, Selection, select

__all__ = [
    "Analyst",
    "AppliedEdit",
    "ApplyResult",
    "Aside",
    "Budgets",
    "ContrastPair",
    "Distillation",
    "EditStatus",
    "Entrant",
    "Evidence",
    "ExampleTurn",
    "GateDecision",
    "LeftOut",
    "MergeResult",
    "MinerAnalyst",
    "Op",
    "Proposal",
    "ProposedEdit",
    "Section",
    "Selection",
    "SkillDocument",
    "Standing",
    "TaskDelta",
    "Verdict",
    "apply_edits",
    "combine",
    "compose",
    "decide",
    "decide_early",
    "distil",
    "draw",
    "estimate_tokens",
    "export",
    "leaked",
    "merge",
    "paired_interval",
    "select",
    "split_examples",
    "standings",
    "task_literals",
]

"""Evolution strategies: shaping, schedules, and the node that turns rewards into a step."""

from coevo.es.node import (
    EsResult,
    Member,
    MemberResult,
    NoStep,
    Population,
    draw_population,
    es_node,
)
from coevo.es.operator import EsOperator, EsRound
from coevo.es.schedule import ScheduleName, scheduled
from coevo.es.shaping import RewardTable, ShapingName, shape

__all__ = [
    "EsOperator",
    "EsResult",
    "EsRound",
    "Member",
    "MemberResult",
    "NoStep",
    "Population",
    "RewardTable",
    "ScheduleName",
    "ShapingName",
    "draw_population",
    "es_node",
    "scheduled",
    "shape",
]

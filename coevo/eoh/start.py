"""Heuristics a search starts from, given by a person."""

from __future__ import annotations

from coevo.config import Experiment
from coevo.eoh.replies import Draft
from coevo.errors import ConfigError

SEED = "seed"


def start_drafts(experiment: Experiment, seed_code: str) -> list[Draft]:
    """The programs that `search.start` names. Raises ConfigError for a file that cannot be read."""
    assert experiment.search is not None
    drafts = []
    for name in experiment.search.start:
        if name == SEED:
            drafts.append(Draft("the simple heuristic of the problem", seed_code))
            continue
        path = experiment.find("search.start", name)
        try:
            drafts.append(Draft(f"given: {path.name}", path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"search.start: {path} cannot be read: {error}") from error
    return drafts

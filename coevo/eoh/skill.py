"""Whether the skill of a search is one that the starter set has for another problem."""

from __future__ import annotations

from coevo.starter import starter_files

ANY = "heuristic"
"""The starter set's skill for any problem; `heuristic-<problem>` is for one."""


def foreign_skill(skill: str, problem: str) -> tuple[str, str] | None:
    """What is wrong with a skill of that name and what to do about it; None if nothing is.

    A problem called `<problem>_<variant>` shares the skill of `<problem>`.
    """
    own = {name for name in _shipped() if _is_for(name, problem)}
    if skill not in _shipped() or skill in own:
        return None
    better = max(own, key=len, default=ANY)
    return (
        f"the skill {skill} is that of another problem than {problem}",
        f"agent.skill=skills/{better} is for this one",
    )


def _shipped() -> set[str]:
    """Names of the starter set's skills for one problem."""
    folders = (file.split("/")[1] for file in starter_files() if file.startswith(f"skills/{ANY}-"))
    return set(folders)


def _is_for(skill: str, problem: str) -> bool:
    meant = skill.removeprefix(f"{ANY}-").replace("-", "_")
    return f"{problem}_".startswith(f"{meant}_")

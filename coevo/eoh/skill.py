"""Whether the skill of a search is one that the starter set has for another problem."""

from __future__ import annotations

from coevo.starter import starter_files

ANY = "heuristic"
"""The starter set's skill for any problem; `heuristic-<problem>` is for one."""


def foreign_skill(skill: str, problem: str) -> tuple[str, str] | None:
    """What is wrong with a skill of that name and what to do about it; None if nothing is.

    A problem called `<problem>_<variant>` shares the skill of `<problem>`.
    """
    shipped = {file.split("/")[1] for file in starter_files() if file.startswith("skills/")}
    own = {name for name in shipped if _is_for(name, problem)}
    if skill not in shipped - own - {ANY}:
        return None
    better = max(own, key=len, default=ANY)
    what = "that of another problem" if skill.startswith(f"{ANY}-") else "for something other"
    return (
        f"the skill {skill} is {what} than {problem}",
        f"agent.skill=skills/{better} is for this one",
    )


def _is_for(skill: str, problem: str) -> bool:
    kind, _, meant = skill.partition("-")
    return kind == ANY and bool(meant) and f"{problem}_".startswith(f"{meant.replace('-', '_')}_")

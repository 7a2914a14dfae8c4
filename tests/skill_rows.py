"""Episodes as rows, for the tests of the skill side."""

from __future__ import annotations

from typing import Any

from coevo.env import Outcome
from coevo.skill import Proposal, distil
from coevo.store.queries import EpisodeRecord, StepRecord

PAGE = "button 'Cancel' [1]\nbutton 'Ok' [2]\nlink 'Help' [3]\nSome text of the page"


def episode(
    id: str,
    *answers: str | tuple[str, str],
    success: bool = False,
    task: str = "t1",
    group: str = "click-button",
    goal: str = 'Click on the "Ok" button.',
    page: str | tuple[str, ...] = PAGE,
    member: int | None = 0,
    seed: int = 0,
    skill: str | None = "seed",
    weights: int = 0,
    phase: str = "rollout",
    category: str = "",
    outcome: Outcome | None = None,
) -> EpisodeRecord:
    """An episode of `answers`; an answer with a complaint is a pair. `page` may be one page a turn, the last repeats."""
    pages = (page,) if isinstance(page, str) else page
    steps = [StepRecord(0, None, pages[0], "", None, False)]
    for index, answer in enumerate(answers, start=1):
        text, error = answer if isinstance(answer, tuple) else (answer, "")
        last = index == len(answers)
        steps.append(
            StepRecord(index, text, pages[min(index, len(pages) - 1)], error, float(success and last), last)
        )
    return EpisodeRecord(
        id=id,
        run="run",
        phase=phase,
        generation=0,
        member=member,
        arm=None,
        task=task,
        task_group=group,
        goal=goal,
        seed=seed,
        attempt=0,
        skill_version=skill,
        weights_step=weights,
        perturbation_seed=None if member is None else 1000 + member,
        outcome=outcome or (Outcome.SUCCESS if success else Outcome.FAILURE),
        reward=float(success),
        category="" if success else (category or "wrong_action"),
        turns=len(answers),
        steps=tuple(steps),
    )


def named(index: int, *, group: str = "click-button") -> tuple[str, str, str]:
    """Task id, page and goal of the `index`-th instance of a task that names a button."""
    names = [
        "Wool Blanket",
        "Desk Lamp",
        "Tea Kettle",
        "Rain Coat",
        "Oak Table",
        "Soup Bowl",
        "Ink Pen",
        "Sun Hat",
    ]
    own, other = names[index % 8], names[(index + 3) % 8]
    page = f"link 'Home' [1]\nbutton '{other}' [2]\nbutton '{own}' [3]\nbutton 'Back' [4]"
    return f"miniwob/{group}/train/{index}", page, f'Click the button "{own}".'


async def propose(*args: Any, **options: Any) -> list[Proposal]:
    """The candidates of `distil`."""
    return list((await distil(*args, **options)).proposals)

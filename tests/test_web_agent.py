"""The starter web agent: what it tells the model, and whole episodes on MiniWoB with a scripted model."""

import re
from pathlib import Path

import pytest

from coevo.agent import EpisodeSpec, load_graph, run_episode
from coevo.engine.base import Completion, Sampling
from coevo.env import Observation, Outcome, Transition
from coevo.store import Store
from webarena.miniwob import tasks

AGENT = Path(__file__).parent.parent / "agents" / "web.py"


class World:
    """A pool of one scripted environment."""

    size = 1

    def __init__(self, transitions):
        self.transitions = list(transitions)

    async def acquire(self, task):
        return self

    async def release(self, environment):
        pass

    async def reset(self, task, *, seed):
        return Observation("button 'A' [1]", goal="Press A")

    async def step(self, action):
        return self.transitions.pop(0)

    async def close(self):
        pass


def said(text):
    return Completion(text, prompt_tokens=1, completion_tokens=1, finish_reason="stop", weights_step=0)


async def run(pool, task, generate, tmp_path, **settings):
    spec = EpisodeSpec("r", "rollout", 0, 0, None, task, 1, None, "v1")
    store = Store.open(tmp_path / "db.sqlite")
    options = {"skill_text": "# Be brief", "max_turns": 4, "deadline_s": 60.0} | settings
    try:
        return await run_episode(
            spec,
            graph=load_graph(f"{AGENT}:graph"),
            generate=generate,
            pool=pool,
            sampling=Sampling(),
            store=store,
            **options,
        )
    finally:
        store.close()


async def test_the_prompt_is_the_skill_the_past_actions_and_the_page(tmp_path):
    (task,) = tasks("click-button", train=1).tasks("train")
    seen = []

    async def generate(request):
        seen.append([(message["role"], message["content"]) for message in request.messages])
        return said("\n click 'B' \nbecause")

    missing = Transition(
        Observation("button 'A' [1]", goal="Press A", error="there is no 'B'"),
        0.0,
        False,
        info={"error": "there is no 'B'", "category": "parse_error"},
    )
    right = Transition(Observation("", goal="Press A"), 1.0, True, success=True)
    result = await run(World([missing, right]), task, generate, tmp_path)
    assert result.outcome is Outcome.SUCCESS
    assert seen == [
        [("system", "# Be brief"), ("user", "button 'A' [1]\nTask: Press A")],
        [
            ("system", "# Be brief"),
            ("user", "(page 1)"),
            ("assistant", "click 'B'"),
            ("user", "button 'A' [1]\nTask: Press A\nError: there is no 'B'"),
        ],
    ]


async def test_old_turns_fall_out_of_the_prompt(tmp_path):
    (task,) = tasks("click-button", train=1).tasks("train")
    sizes = []

    async def generate(request):
        sizes.append(len(request.messages))
        return said("wait")

    still = Transition(Observation("button 'A' [1]"), 0.0, False)
    result = await run(World([still] * 8), task, generate, tmp_path, max_turns=8, skill_text="")
    assert (result.outcome, result.category, result.turns) == (Outcome.FAILURE, "turn_limit", 8)
    assert sizes == [2, 4, 6, 8, 10, 10, 10, 10]


@pytest.mark.browser
async def test_episodes_on_a_real_page(tmp_path):
    task_set = tasks("click-button", train=3)
    pool = task_set.pool(1)

    async def solve(request):
        goal = re.search(r"Task: .*\"(.*)\"", request.messages[-1]["content"])[1]
        return said(f"click '{goal}'")

    async def stop(request):
        return said("stop")

    async def ramble(request):
        return said("I think that the button is nice.")

    try:
        outcomes = []
        for task, generate in zip(task_set.tasks("train"), (solve, stop, ramble), strict=True):
            result = await run(pool, task, generate, tmp_path)
            outcomes.append((result.outcome, result.reward, result.category, result.turns))
        assert outcomes == [
            (Outcome.SUCCESS, 1.0, "", 1),
            (Outcome.FAILURE, 0.0, "gave_up", 1),
            (Outcome.FAILURE, 0.0, "parse_error", 4),
        ]
    finally:
        await pool.close()

"""The public test aids: a fake engine that evolution strategies can really teach, and a toy world."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from coevo.engine.base import NoiseSpec, Perturbation, Request, Sampling, Step
from coevo.env import EnvironmentPool, TaskSet
from coevo.errors import EngineError, WorldError
from coevo.testing import FakeEngine, ToyEnvironment, noise, perturbed, toy_tasks


def step(seeds: tuple[int, ...], coefficients: tuple[float, ...], **changes: object) -> Step:
    values = {"generation": 0, "population": len(seeds), "alpha": 0.5, "sigma": 0.1, "noise": NoiseSpec()}
    return Step(seeds=seeds, coefficients=coefficients, **(values | changes))


def ask(page: str, *, seed: int = 0, noise: Perturbation | None = None, system: str = "") -> Request:
    messages = ({"role": "system", "content": system},) if system else ()
    return Request((*messages, {"role": "user", "content": page}), Sampling(seed=seed), noise)


PAGE = "button 'red'\nbutton 'blue'\n\nTask: Press the button 'red'."


def test_noise_has_mean_0_and_variance_1_and_no_two_streams_agree():
    draws = [value for seed in range(500) for value in noise(seed, 8)]
    assert abs(statistics.fmean(draws)) < 4 / len(draws) ** 0.5
    assert abs(statistics.pvariance(draws) - 1) < 0.1
    assert len(set(draws)) == len(draws)


def test_noise_is_the_sum_of_twelve_uniforms_minus_six():
    import hashlib
    import struct

    words = struct.unpack("<12I", hashlib.blake2b(b"3:1", digest_size=48).digest())
    assert noise(3, 2)[1] == sum(words) / 2**32 - 6


async def test_an_update_is_alpha_over_g_times_the_weighted_noise_less_decay():
    engine = FakeEngine(size=3)
    await engine.update(step((1,), (1.0,), alpha=1.0))
    before = engine.theta
    assert before == noise(1, 3)
    report = await engine.update(step((2, 3), (1.5, -0.5), population=4, alpha=0.5, decay=0.25, sigma=100.0))
    expected = [
        old + 0.5 / 4 * (1.5 * a - 0.5 * b) - 0.25 * old
        for old, a, b in zip(before, noise(2, 3), noise(3, 3), strict=True)
    ]
    assert engine.theta == pytest.approx(expected)
    assert report.weights_step == 2
    assert report.share_under_sigma == 1.0
    assert report.drift_norm == pytest.approx(sum(value**2 for value in engine.theta) ** 0.5)
    assert report.checksum == await engine.checksum()


async def test_steps_rebuild_the_weights_bit_for_bit_and_perturbing_leaves_them_alone(tmp_path: Path):
    steps = [step((i, i + 50), (0.75, -0.75), generation=i, decay=0.01) for i in range(20)]
    live, rebuilt = FakeEngine(), FakeEngine()
    for one in steps:
        await live.update(one)
        checksum = await live.checksum()
        await live.generate([ask(PAGE, noise=Perturbation(seed, 0.3)) for seed in range(8)])
        assert await live.checksum() == checksum
    await rebuilt.update(steps[3])
    await rebuilt.restore(steps)
    assert (rebuilt.theta, rebuilt.weights_step) == (live.theta, 20)
    await live.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "theta.json").read_text()) == {
        "theta": list(live.theta),
        "weights_step": 20,
    }


async def test_answers_depend_on_weights_seed_and_messages_alone():
    engine = FakeEngine()
    requests = [ask(PAGE, seed=seed, noise=Perturbation(seed, 1.0)) for seed in range(30)]
    together = await engine.generate(requests)
    alone = [(await engine.generate([request]))[0] for request in reversed(requests)]
    assert [answer.text for answer in together] == [answer.text for answer in reversed(alone)]
    assert len({answer.text for answer in together}) > 1


async def test_a_pool_hands_out_no_more_than_its_size():
    import asyncio

    tasks = toy_tasks()
    pool: EnvironmentPool = tasks.pool(2)
    (task, *_) = tasks.tasks("train")
    first, second = await pool.acquire(task), await pool.acquire(task)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pool.acquire(task), 0.05)
    await pool.release(first)
    assert await asyncio.wait_for(pool.acquire(task), 1) is not second


def test_a_mirrored_perturbation_is_the_opposite():
    up, down = perturbed((0.0, 1.0), Perturbation(4, 0.5)), perturbed((0.0, 1.0), Perturbation(4, -0.5))
    assert [a + b for a, b in zip(up, down, strict=True)] == pytest.approx([0.0, 2.0])


async def test_the_weights_and_a_worked_example_make_answers_better():
    async def well_formed(theta: float, system: str) -> float:
        engine = FakeEngine()
        engine.theta = (theta, *[50.0] * 7)
        answers = await engine.generate([ask(PAGE, seed=seed, system=system) for seed in range(400)])
        return statistics.fmean(answer.text == "press 'red'" for answer in answers)

    # logistic(0) = 0.5, logistic(2) = 0.88, with 400 draws: four standard errors are 0.1 and 0.065.
    assert await well_formed(0.0, "Press buttons.") == pytest.approx(0.5, abs=0.1)
    assert await well_formed(0.0, "Example: press 'Ok'") == pytest.approx(0.88, abs=0.065)
    assert await well_formed(2.0, "Press buttons.") == pytest.approx(0.88, abs=0.065)


async def test_stop_sequences_and_the_token_limit_are_honoured():
    engine = FakeEngine(["one two\nthree", "one two three"])
    stopped, cut = await engine.generate(
        [Request((), Sampling(stop=("\n",))), Request((), Sampling(max_tokens=2))]
    )
    assert (stopped.text, stopped.finish_reason, stopped.completion_tokens) == ("one two", "stop", 2)
    assert (cut.text, cut.finish_reason, cut.completion_tokens) == ("one two", "length", 2)
    with pytest.raises(EngineError, match="used up"):
        await engine.generate([Request(())])


async def test_misuse_is_refused():
    engine = FakeEngine()
    with pytest.raises(EngineError, match="2 seeds, 1 coefficients"):
        await engine.update(step((1, 2), (1.0,)))
    await engine.close()
    with pytest.raises(EngineError, match="closed"):
        await engine.generate([Request(())])


def test_splits_share_no_instance_and_are_always_the_same():
    tasks: TaskSet = toy_tasks(train=20, dev=10, test=20)
    seeds = {split: {task.seed for task in tasks.tasks(split)} for split in ("train", "dev", "test")}
    assert [len(seeds[split]) for split in seeds] == [20, 10, 20]
    assert not seeds["train"] & seeds["dev"]
    assert not (seeds["train"] | seeds["dev"]) & seeds["test"]
    assert list(tasks.tasks("test")) == list(toy_tasks(train=20, dev=10, test=20).tasks("test"))
    with pytest.raises(WorldError, match="no split 'valid'"):
        tasks.tasks("valid")


async def test_the_toy_world_rewards_pages_and_explains_errors():
    (task, *_) = toy_tasks(rounds=2).tasks("train")
    environment = ToyEnvironment()
    first = await environment.reset(task, seed=1)
    again = await environment.reset(task, seed=1)
    assert first == again != await environment.reset(task, seed=2)
    assert f"button '{task.data['target']}'" in first.text

    nonsense = await environment.step("please press it")
    assert (nonsense.done, nonsense.info["category"]) == (False, "parse_error")
    missing = await environment.step("press 'nothing'")
    assert (missing.done, missing.info["category"]) == (False, "action_failed")
    half = await environment.step(f"press '{task.data['target']}'")
    assert (half.done, half.reward, half.success) == (False, 0.5, False)
    whole = await environment.step(f"press '{task.data['target']}'")
    assert (whole.done, whole.reward, whole.success) == (True, 1.0, True)


async def test_a_wrong_button_ends_the_task():
    (task, *_) = toy_tasks().tasks("train")
    environment = ToyEnvironment()
    page = (await environment.reset(task, seed=1)).text
    wrong = next(name for line in page.splitlines() if (name := line.split("'")[1]) != task.data["target"])
    transition = await environment.step(f"press '{wrong}'")
    assert (transition.done, transition.reward, transition.info["category"]) == (True, 0.0, "wrong_action")


async def test_plain_evolution_strategies_teach_the_fake_engine():
    """z-scored rewards of eight mirrored pairs, fifteen generations: from about a quarter right to most."""
    tasks = toy_tasks(train=12, test=120)
    engine = FakeEngine()

    async def reward(split: str, seed: int, noise: Perturbation | None) -> float:
        rewards = []
        for task in tasks.tasks(split):
            environment = ToyEnvironment()
            seen = await environment.reset(task, seed=seed)
            answer = await engine.complete(ask(f"{seen.text}\n\nTask: {seen.goal}", seed=seed, noise=noise))
            rewards.append((await environment.step(answer.text)).reward)
        return statistics.fmean(rewards)

    before = await reward("test", 1, None)
    for generation in range(15):
        members = [Perturbation(100 * generation + pair, sign) for pair in range(8) for sign in (1.0, -1.0)]
        rewards = [await reward("train", generation, member) for member in members]
        mean, std = statistics.fmean(rewards), statistics.pstdev(rewards)
        scores = [
            (r - mean) / std * (1 if m.sigma > 0 else -1) for r, m in zip(rewards, members, strict=True)
        ]
        await engine.update(step(tuple(m.seed for m in members), tuple(scores), alpha=1.0))
    assert before < 0.45
    assert await reward("test", 1, None) > before + 0.25

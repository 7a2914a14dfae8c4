"""The embedded engine on a tiny real model: exactness of weights, populations, replay and export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from coevo.engine import Engine, NoiseSpec, Perturbation, Request, Sampling, Step, load_engine
from coevo.engine.noise import epsilon, quantise_coefficients
from coevo.engine.packed import PackedRunner, Prompt
from coevo.engine.padded import PaddedRunner
from coevo.errors import ConfigError, EngineError, ModelError
from coevo.testing_models import tiny_model

LOWRANK = NoiseSpec("lowrank", rank=2, scale="rms")
GAUSSIAN = NoiseSpec("gaussian", scale="absolute")
UPPER = replace(LOWRANK, include=("*.layers.1.*", "*.layers.2.*"))

Load = Callable[..., Any]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
async def load(model_dir: Path, request: pytest.FixtureRequest) -> AsyncIterator[Load]:
    """Every test runs on the CPU, and again on the GPU where there is one."""
    engines: list[Engine] = []
    settings = {"dtype": "float32", "threads": 1, "device": request.param}

    def make(noise: NoiseSpec = LOWRANK, **options: Any) -> Any:
        engines.append(load_engine(str(model_dir), noise=noise, **{**settings, **options}))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


def ask(text: str, member: Perturbation | None = None, **sampling: Any) -> Request:
    messages = (
        {"role": "system", "content": "Answer with one action, please."},
        {"role": "user", "content": text},
    )
    return Request(messages, Sampling(**{"max_tokens": 8, **sampling}), member)


def a_step(noise: NoiseSpec, generation: int = 0, decay: float = 0.0) -> Step:
    z = quantise_coefficients([1.25, -0.5, 0.125, -0.875])
    return Step(generation, tuple(range(generation * 4, generation * 4 + 4)), z, 4, 0.02, 0.05, noise, decay)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_centre_is_unchanged_bit_for_bit_after_1000_perturbations(load: Load, dtype: str) -> None:
    engine = load(GAUSSIAN, dtype=dtype)
    await engine.update(a_step(GAUSSIAN))
    before = await engine.checksum(), engine.weights.served_checksum()
    for seed in range(1000):
        engine.weights.perturb(Perturbation(seed, 0.05))
    assert engine.weights.served_checksum() != before[1]
    engine.weights.perturb(None)
    engine.weights._checksum = None
    assert (await engine.checksum(), engine.weights.served_checksum()) == before


@pytest.mark.parametrize("noise", [LOWRANK, GAUSSIAN])
async def test_base_and_steps_rebuild_the_weights_bit_for_bit(load: Load, noise: NoiseSpec) -> None:
    """Also on another device: weights evolved on a GPU are the same numbers when a laptop replays the run."""
    live = load(noise)
    steps = [a_step(noise, generation, decay=0.01 * generation) for generation in range(5)]
    for step in steps:
        live.weights.perturb(Perturbation(99, 0.1))  # whatever was served must not matter
        report = await live.update(step)
    rebuilt = load(noise, threads=2, device="cpu")
    await rebuilt.restore(steps)
    assert await rebuilt.checksum() == await live.checksum() == report.checksum
    assert rebuilt.weights.served_checksum() == live.weights.served_checksum()
    await live.restore(())
    assert await live.checksum() == await load(noise).checksum()


async def test_update_is_the_sum_written_in_the_contract(load: Load) -> None:
    engine, base = load(LOWRANK), load(LOWRANK)
    step = a_step(LOWRANK)
    report = await engine.update(step)
    square = 0.0
    for name in engine.weights.names:
        theta0 = base.weights._master[name].double()
        total = sum(
            z * epsilon(LOWRANK, s, name, theta0.shape).double()
            for s, z in zip(step.seeds, step.coefficients, strict=True)
        )
        wanted = theta0 + step.alpha / step.population * engine.weights.scales[name] * total
        assert torch.allclose(engine.weights._master[name].double(), wanted, atol=1e-7)
        square += float((engine.weights._master[name].double() - theta0).square().sum())
    assert report.step_norm == pytest.approx(square**0.5, rel=1e-3)
    assert report.drift_norm == pytest.approx(square**0.5, rel=1e-6)
    assert 0 < report.share_under_sigma <= 1


def logits_of(engine: Any, prompts: list[Prompt]) -> torch.Tensor:
    with torch.inference_mode():
        logits, order = engine._runner.start(prompts, 1)
        engine._runner.finish()
    back = torch.empty_like(logits)
    back[order] = logits
    return back.cpu()


@pytest.mark.parametrize("noise", [LOWRANK, UPPER], ids=["all layers", "shared trunk"])
async def test_population_in_one_batch_gives_the_logits_of_explicitly_perturbed_weights(
    load: Load, noise: NoiseSpec
) -> None:
    """fp32: agreement to 1e-4 of the logits' spread. Not bit-equal, because x(W + σbaᵀ)ᵀ and xWᵀ + σ(xa)b round in
    different places."""
    together, alone = load(noise, population="batched"), load(noise, population="sequential")
    members = [Perturbation(seed, 0.08 if seed % 2 else -0.08) for seed in range(5)] + [None]
    texts = [(5, 9, 11, 40, 41, 42, 43, 60 + i, 70, 71)[: 10 - i % 3] for i in range(4)]
    prompts = [Prompt(t, 4, m, members[m]) for m in range(6) for t in texts]
    together._population.use(members)
    batched = logits_of(together, prompts)
    for index, member in enumerate(members):
        alone.weights.perturb(member)
        alone._runner.forget()
        explicit = logits_of(alone, [Prompt(t, 0, 0, None) for t in texts])
        rows = batched[index * 4 : index * 4 + 4]
        assert float((rows - explicit).abs().max()) < 1e-4 * float(explicit.std())
    assert float((batched[:4] - batched[4:8]).abs().max()) > 1e-2  # members do differ


async def test_in_bfloat16_batched_and_explicit_logits_agree_within_rounding(load: Load) -> None:
    """bf16 keeps 8 bits. Both paths round activations about ten times a layer, and the explicit one rounds W + σε
    once more: relative error sqrt(30 roundings) · 2⁻⁹ ≈ 1 % of the logits' spread, bounded here by 5 %."""
    together = load(population="batched", dtype="bfloat16")
    alone = load(population="sequential", dtype="bfloat16")
    member = Perturbation(7, 0.08)
    prompts = [Prompt(tuple(range(10 + i, 30 + i)), 0, 0, member) for i in range(4)]
    together._population.use([member])
    alone.weights.perturb(member)
    batched, explicit = logits_of(together, prompts), logits_of(alone, prompts)
    assert float((batched - explicit).square().mean().sqrt()) < 0.05 * float(explicit.std())


@pytest.mark.parametrize("noise", [LOWRANK, UPPER], ids=["all layers", "shared trunk"])
async def test_texts_do_not_depend_on_who_else_is_in_the_batch(load: Load, noise: NoiseSpec) -> None:
    engine = load(noise)
    assert (engine.describe()["shared_layers"] == 1) == (noise is UPPER)
    members = [None, *(Perturbation(seed, 0.3) for seed in range(6))]
    requests = [
        ask(f"page {i}\nTask: {'x' * i}", member, temperature=t, seed=i)
        for member in members
        for i, t in ((1, 0.0), (9, 1.0), (4, 0.7))
    ]
    together = [answer.text for answer in await engine.generate(requests)]
    alone = [(await engine.generate([request]))[0].text for request in requests]
    assert together == alone
    assert len(set(together)) > len(members)


async def test_each_answer_is_delivered_once_and_the_short_ones_first(load: Load) -> None:
    engine = load()
    lengths = [12, 2, 7]
    delivered: list[tuple[int, str]] = []
    answers = await engine.generate(
        [ask(f"page {i}", max_tokens=n) for i, n in enumerate(lengths)],
        deliver=lambda position, answer: delivered.append((position, answer.text)),
    )
    assert [position for position, _ in delivered] == [1, 2, 0]
    assert [text for _, text in sorted(delivered)] == [answer.text for answer in answers]
    assert [answer.completion_tokens for answer in answers] == lengths


async def test_closing_ends_what_is_being_written(load: Load) -> None:
    engine = load()
    begun = asyncio.Event()
    work = asyncio.create_task(
        engine.generate(
            [ask("short", max_tokens=1), ask("long", max_tokens=900)], deliver=lambda *_: begun.set()
        )
    )
    await begun.wait()
    await engine.close()
    with pytest.raises(EngineError, match="closed while it was writing"):
        await work


async def test_sequential_population_gives_the_texts_of_the_batched_one(load: Load) -> None:
    requests = [ask(f"page {i}", Perturbation(seed, 0.2)) for seed in range(4) for i in range(3)]
    batched = await load(population="batched").generate(requests)
    sequential = await load(population="sequential").generate(requests)
    assert [a.text for a in batched] == [a.text for a in sequential]


async def test_seeded_sampling_repeats_and_varies_with_the_seed(load: Load) -> None:
    engine = load()
    texts = [
        (await engine.generate([ask("page", temperature=1.0, seed=seed, max_tokens=12)]))[0].text
        for seed in (1, 1, 2, 3)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


async def test_padded_runner_gives_the_logits_of_the_packed_one(load: Load, model_dir: Path) -> None:
    engine, other = load(), load()
    other._model.set_attn_implementation("sdpa")
    prompts = [Prompt(tuple(range(10, 10 + n)), 0, 0, None) for n in (3, 9, 5)]
    with torch.inference_mode():
        packed, padded = engine._runner, PaddedRunner(other._model, None, 0)
        assert isinstance(packed, PackedRunner)
        first, order = packed.start(prompts, 4)
        assert torch.allclose(first, padded.start(prompts, 4)[0][order], atol=1e-4)
        tokens = [7, 8, 9]
        second = packed.advance([tokens[i] for i in order])
        assert torch.allclose(second, padded.advance(tokens)[order], atol=1e-4)
        keep = [0, 2]
        third = packed.advance([4, 6], keep)
        wanted = {order[0]: 4, order[2]: 6}
        rows = sorted(wanted)
        padded_third = padded.advance([wanted[i] for i in rows], rows)
        assert torch.allclose(third, padded_third[[rows.index(order[0]), rows.index(order[2])]], atol=1e-4)


async def test_stop_strings_and_length_end_an_answer(load: Load) -> None:
    engine = load()
    free = (await engine.generate([ask("page", max_tokens=6)]))[0]
    assert free.finish_reason == "length"
    assert free.completion_tokens == 6
    cut = (await engine.generate([ask("page", max_tokens=6, stop=(free.text[2],))]))[0]
    assert cut.finish_reason == "stop"
    assert cut.text == free.text[: free.text.index(free.text[2])]


async def test_the_stem_is_encoded_once_a_member_and_again_after_an_update(load: Load) -> None:
    engine = load()
    first = await engine.generate([ask("page 1"), ask("page 2")])
    assert first[0].cached_tokens > 16
    kept = len(engine._runner._stems)
    await engine.generate([ask("page 3")])
    assert len(engine._runner._stems) == kept == 1
    answer = (await engine.generate([ask("page 1")]))[0].text
    await engine.update(a_step(LOWRANK))
    moved = (await engine.generate([ask("page 1")]))[0].text
    fresh = load()
    await fresh.restore([a_step(LOWRANK)])
    assert moved == (await fresh.generate([ask("page 1")]))[0].text
    assert answer == (await load().generate([ask("page 1")]))[0].text


async def test_too_long_a_prompt_loses_its_oldest_observation_never_the_task(load: Load) -> None:
    engine = load(context=400)
    page = "\n".join(f"button '{n}'" for n in range(30))
    request = Request(
        (
            {"role": "system", "content": "s" * 30},
            {"role": "user", "content": f"{page}\nTask: press the seventh."},
            {"role": "assistant", "content": "click '1'"},
            {"role": "user", "content": "link 'the newest page'\nTask: press the seventh."},
        ),
        Sampling(max_tokens=8),
    )
    encoded = engine._encoder.encode(request)
    text = engine._tokenizer.decode(encoded.tokens)
    assert encoded.truncated > 0
    assert len(encoded.tokens) <= 392
    assert text.count("Task: press the seventh.") == 2
    assert "link 'the newest page'" in text
    assert "[…]" in text
    answer = (await engine.generate([request]))[0]
    assert answer.truncated_tokens == encoded.truncated
    with pytest.raises(EngineError, match="after shortening every observation"):
        await engine.generate([replace(request, messages=({"role": "user", "content": "t" * 600},))])


async def test_exported_model_loads_in_plain_transformers_with_the_same_logits(
    load: Load, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    engine = load()
    await engine.update(a_step(LOWRANK))
    await engine.save(tmp_path / "out")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokens = tuple(AutoTokenizer.from_pretrained(tmp_path / "out")("click 'Save'")["input_ids"])
    with torch.inference_mode():
        wanted = plain(input_ids=torch.tensor([tokens])).logits[0, -1]
    assert torch.allclose(logits_of(engine, [Prompt(tokens, 0, 0, None)])[0], wanted, atol=1e-5)


async def test_concurrent_calls_are_served_one_after_the_other(load: Load) -> None:
    engine = load()
    alone = [(await engine.generate([ask(f"p{i}")]))[0].text for i in range(4)]
    together = await asyncio.gather(*(engine.generate([ask(f"p{i}")]) for i in range(4)))
    assert [t[0].text for t in together] == alone


def test_bad_models_and_settings_say_what_to_do(model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_engine(str(tmp_path), noise=LOWRANK)
    with pytest.raises(ModelError, match="the built-in model is 'builtin:smollm2-135m'"):
        load_engine("builtin:gpt9", noise=LOWRANK)
    with pytest.raises(ConfigError, match="choose one of: transformers"):
        load_engine(str(model_dir), engine="warp", noise=LOWRANK)
    with pytest.raises(EngineError, match="needs low-rank noise"):
        load_engine(str(model_dir), noise=GAUSSIAN, population="batched")
    with pytest.raises(EngineError, match="select no tensor"):
        load_engine(str(model_dir), noise=replace(LOWRANK, include=("nothing",)))
    with pytest.raises(ModelError, match="unknown dtype"):
        load_engine(str(model_dir), noise=LOWRANK, dtype="float99")


async def test_a_step_made_with_other_noise_is_refused(load: Load) -> None:
    with pytest.raises(EngineError, match="the step was made with noise"):
        await load(LOWRANK).update(a_step(GAUSSIAN))

"""Answers that must follow a grammar, on a tiny real model with random weights."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from langchain_core.messages import HumanMessage

from coevo.chat import PolicyChatModel
from coevo.check import check_experiment
from coevo.config import load_experiment
from coevo.engine import Completion, Engine, NoiseSpec, Perturbation, Request, Sampling, load_engine
from coevo.engine.grammar import check_grammar
from coevo.engine.padded import PaddedRunner
from coevo.errors import ConfigError, EngineError
from coevo.loop.resources import open_resources
from coevo.skill import EditStatus, SkillDocument, apply_edits
from coevo.skill.replies import edits_grammar, merge_grammar, read_edits, read_merge
from coevo.testing_models import tiny_model

pytest.importorskip("llguidance")

LOWRANK = NoiseSpec("lowrank", rank=2, scale="rms")
NUMBERS = r"""
start: NUMBER (", " NUMBER){0,3} "."
NUMBER: /[1-9][0-9]{0,4}/
"""
FOLLOWS = re.compile(r"[1-9][0-9]{0,4}(, [1-9][0-9]{0,4}){0,3}\.")
MEMBERS = [None, Perturbation(1, 0.1), Perturbation(1, -0.1), Perturbation(2, 0.1)]

Load = Callable[..., Any]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"])
async def load(model_dir: Path, request: pytest.FixtureRequest) -> AsyncIterator[Load]:
    engines: list[Engine] = []

    def make(**options: Any) -> Any:
        settings = {"dtype": "float32", "threads": 1, "device": request.param, "noise": LOWRANK}
        engines.append(load_engine(str(model_dir), **settings | options))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


def ask(seed: int = 0, member: Perturbation | None = None, **sampling: Any) -> Request:
    settings = {"max_tokens": 60, "temperature": 1.0, "grammar": NUMBERS} | sampling
    return Request(
        ({"role": "user", "content": "Say some numbers."},), Sampling(seed=seed, **settings), member
    )


@pytest.mark.parametrize("attention", ["packed", "padded"])
@pytest.mark.parametrize("population", ["batched", "sequential"])
async def test_every_answer_follows_its_grammar(load: Load, population: str, attention: str) -> None:
    engine = load(population=population)
    if attention == "padded":
        use_padded(engine)
    requests = [ask(seed, member) for seed in range(5) for member in MEMBERS]
    answers = await engine.generate(requests)
    assert all(FOLLOWS.fullmatch(answer.text) for answer in answers)
    assert {answer.finish_reason for answer in answers} == {"stop"}
    assert len({answer.text for answer in answers}) > 10
    # the full stop completes the grammar: no token is spent on an end of sequence
    assert all(answer.completion_tokens == len(answer.text) for answer in answers)


def use_padded(engine: Any) -> None:
    engine._model.set_attn_implementation("sdpa")
    engine._packed = False
    engine._runner = PaddedRunner(engine._model, engine._population, engine._stops[0])


async def test_a_seeded_answer_is_the_same_in_any_company(load: Load) -> None:
    engine, alone = load(), load(batch_invariant=True)
    requests = [ask(seed, member) for seed in range(2) for member in MEMBERS]
    texts = [answer.text for answer in await engine.generate(requests)]
    assert [answer.text for answer in await engine.generate(requests[::-1])] == texts[::-1]
    assert [answer.text for answer in await alone.generate(requests)] == texts


async def test_other_requests_of_the_batch_are_left_alone(load: Load) -> None:
    engine = load()
    free = [ask(seed, grammar="", max_tokens=20) for seed in range(4)]
    words = [ask(seed, grammar='start: "yes" | "no"', max_tokens=20) for seed in range(4)]
    expected = await engine.generate(free)
    mixed = await engine.generate([*words, *free, ask(9)])
    assert [answer.text for answer in mixed[4:8]] == [answer.text for answer in expected]
    assert {answer.text for answer in mixed[:4]} <= {"yes", "no"}
    assert FOLLOWS.fullmatch(mixed[8].text)


async def test_the_grammar_comes_before_every_other_choice(load: Load) -> None:
    """A top-k over all tokens would leave none that the grammar allows."""
    choices: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"top_k": 1},
        {"top_p": 0.05},
        {"min_p": 0.9},
        {"repetition_penalty": 1.7},
        {"presence_penalty": 2.0, "frequency_penalty": 2.0},
    ]
    for answer in await load().generate([ask(seed, **choice) for choice in choices for seed in range(3)]):
        assert FOLLOWS.fullmatch(answer.text)


async def test_an_answer_may_end_where_the_grammar_allows_it(load: Load) -> None:
    answers = await load().generate([ask(seed, grammar='start: "a"*', max_tokens=200) for seed in range(40)])
    ended = [answer for answer in answers if answer.finish_reason == "stop"]
    assert ended
    assert all(set(answer.text) <= {"a"} for answer in answers)
    assert all(
        answer.completion_tokens == len(answer.text) + 1 for answer in ended
    )  # and the end of sequence


async def test_what_the_grammar_does_not_end_ends_at_max_tokens(load: Load) -> None:
    engine = load()
    [long] = await engine.generate([ask(grammar="start: /[ab]{500}/", max_tokens=12)])
    assert re.fullmatch("[ab]{12}", long.text)
    assert long.finish_reason == "length"
    [exact] = await engine.generate([ask(grammar="start: /[ab]{12}/", max_tokens=12)])
    assert (len(exact.text), exact.finish_reason) == (12, "stop")


async def test_stop_strings_end_an_answer_within_its_grammar(load: Load) -> None:
    [answer] = await load().generate([ask(grammar='start: "one, two, three"', stop=(", th",))])
    assert (answer.text, answer.finish_reason) == ("one, two", "stop")


async def test_a_broken_grammar_is_told_with_the_place(load: Load) -> None:
    engine = load()
    with pytest.raises(EngineError, match=r'unknown name: "word"(.|\n)*start: "a" word'):
        await engine.generate([ask(grammar='start: "a" word'), ask()])
    assert FOLLOWS.fullmatch((await engine.generate([ask()]))[0].text)  # the engine goes on
    with pytest.raises(ConfigError, match=r'unknown name: "word"'):
        check_grammar('start: "a" word')
    check_grammar(NUMBERS)


async def test_a_grammar_too_large_to_follow_is_an_error_not_an_answer(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    import llguidance

    engine = load()
    start = engine._grammars.matcher
    tight = llguidance.LLParserLimits(step_max_items=1)
    tokens = engine._grammars._tokens()

    def limited(grammar: str) -> Any:
        start(grammar)
        return llguidance.LLMatcher(
            tokens, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0, limits=tight
        )

    monkeypatch.setattr(engine._grammars, "matcher", limited)
    with pytest.raises(EngineError, match="could not be followed"):
        await engine.generate([ask(grammar='start: ("a" | "b" start)*')])


DOCUMENT = SkillDocument(
    "web", "x", 'Answer.\n\n## Rules\n\n- Click "links".\n- Wait.\n\n## Forms\n\n- Fill in {all}.'
)


async def test_whatever_follows_an_authors_grammar_is_read(load: Load) -> None:
    """A model with random weights says anything the grammar leaves."""
    engine = load()
    grammar = edits_grammar(DOCUMENT, most=2)
    requests = [ask(seed, grammar=grammar, max_tokens=900, temperature=3.0) for seed in range(24)]
    proposed = 0
    for answer in await engine.generate(requests):
        assert answer.finish_reason == "stop"
        edits = read_edits(answer.text, most=2)
        proposed += len(edits)
        for edit in edits:
            (status,) = apply_edits(DOCUMENT, [edit]).statuses
            assert status.status is EditStatus.APPLIED
    assert proposed
    texts = ["Click links.", "Wait for the page.", "Never wait."]
    grammar = merge_grammar(texts)
    merged = [
        read_merge(answer.text, len(texts))
        for answer in await engine.generate(
            [ask(seed, grammar=grammar, max_tokens=300) for seed in range(12)]
        )
    ]
    assert any(groups for groups, _ in merged)
    assert {text for groups, _ in merged for _, text in groups} <= set(texts)


@pytest.mark.parametrize(
    "edit",
    [
        {"op": "add", "section": "Rules", "text": "Read the page first."},
        {
            "op": "replace",
            "section": "Rules",
            "target": '- Click "links".',
            "text": "Click what the task names.",
        },
        {"op": "delete", "section": "Forms", "target": "- Fill in {all}."},
        {"op": "move", "section": "Rules", "target": "- Wait.", "file": "references/waiting.md"},
    ],
    ids=lambda edit: edit["op"],
)
async def test_an_authors_grammar_leaves_every_kind_of_edit(load: Load, edit: dict[str, str]) -> None:
    grammars = load()._grammars

    def follows(*edits: dict[str, str]) -> bool:
        matcher = grammars.matcher(edits_grammar(DOCUMENT, most=2))
        tokens = grammars._tokens().tokenize_str(json.dumps({"edits": edits}))
        return matcher.consume_tokens(tokens) and matcher.is_accepting()

    assert follows(edit)
    assert follows(edit, edit)
    assert not follows(edit, edit, edit)
    assert not follows(edit | {"section": "Elsewhere"})
    assert not follows({key: value.replace(".", "\n.") for key, value in edit.items()})


# -- from the experiment file ------------------------------------------------------------------------------------------

EXPERIMENT = """
[model]
id = "none"
[agent]
graph = "agent.py:graph"
skill = "skill"
[tasks]
set = "coevo.testing:toy_tasks"
"""


def write(folder: Path, grammar: str) -> Path:
    path = folder / "run.toml"
    path.write_text(f"{EXPERIMENT}[sampling]\ngrammar = {grammar}\n", encoding="utf-8")
    return path


def test_a_grammar_is_text_or_a_file_beside_the_experiment(tmp_path: Path) -> None:
    text = load_experiment(write(tmp_path, "'''start: \"a\"'''"))
    assert text.base_sampling().grammar == 'start: "a"'
    (tmp_path / "words.lark").write_text('start: "a"', encoding="utf-8")
    file = load_experiment(write(tmp_path, '"words.lark"'))
    assert file.base_sampling() == text.base_sampling()
    assert file.fingerprint() == text.fingerprint()
    (tmp_path / "words.lark").write_text('start: "b"', encoding="utf-8")
    assert file.fingerprint() != text.fingerprint()  # another grammar is another experiment


def test_a_grammar_file_that_is_missing_is_told(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, '"words.lark"'))
    with pytest.raises(ConfigError, match=r"sampling\.grammar = 'words.lark': there is no such file"):
        experiment.base_sampling()
    (tmp_path / "words.lark").mkdir()
    with pytest.raises(ConfigError, match=r"sampling\.grammar: .*words\.lark cannot be read"):
        experiment.base_sampling()


def test_check_and_run_report_a_broken_grammar_before_the_model_is_loaded(tmp_path: Path) -> None:
    path = write(tmp_path, "'start: \"a\" word'")
    [found] = [check for check in check_experiment(path, quick=True) if check.name == "grammar"]
    assert found.status == "failed"
    assert 'unknown name: "word"' in found.detail
    assert "llguidance" in found.next_step
    with pytest.raises(ConfigError, match="unknown name"):
        open_resources(load_experiment(path))


async def test_the_policy_passes_grammar_and_stop_on() -> None:
    seen: list[Request] = []

    async def complete(request: Request) -> Completion:
        seen.append(request)
        return Completion("a", 1, 1, "stop", 0)

    policy = PolicyChatModel(complete=complete, sampling=Sampling(grammar=NUMBERS, stop=("!",)))
    await policy.ainvoke([HumanMessage("go")])
    await policy.bind(grammar='start: "a"').ainvoke([HumanMessage("go")], stop=["?"])
    assert [request.sampling.grammar for request in seen] == [NUMBERS, 'start: "a"']
    assert [request.sampling.stop for request in seen] == [("!",), ("!", "?")]
    assert replace(seen[0].sampling, seed=0) == Sampling(grammar=NUMBERS, stop=("!",))


# -- what there is no choice about -------------------------------------------------------------------------------------


async def test_what_a_grammar_fixes_is_written_without_the_model(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word in the middle is picked: a few tokens, whatever stands around it."""
    from coevo.engine import sampling

    picked = 0
    pick = sampling.pick

    def counting(logits: Any, *rest: Any) -> Any:
        nonlocal picked
        picked += len(logits)
        return pick(logits, *rest)

    monkeypatch.setattr(sampling, "pick", counting)
    around = 'start: "There once was a colour, and it was " COLOUR ", as everybody knew who came by."\nCOLOUR: "red" | "blue"\n'
    engine = load()
    answers = await engine.generate([ask(seed, grammar=around, max_tokens=120) for seed in range(6)])
    for answer in answers:
        assert answer.text.startswith("There once was a colour, and it was ")
        assert answer.text.endswith(", as everybody knew who came by.")
        assert answer.completion_tokens > 20
    assert {answer.finish_reason for answer in answers} == {"stop"}
    assert {answer.text.split()[8] for answer in answers} == {"red,", "blue,"}
    assert picked <= 6 * 6


@pytest.mark.parametrize("most", [1, 2, 5, 11, 12, 13])
async def test_an_answer_of_one_text_only_is_that_text_or_its_beginning(load: Load, most: int) -> None:
    engine = load()
    text = "one two three four"
    (whole,) = await engine.generate([ask(grammar=f'start: "{text}"', max_tokens=100)])
    assert (whole.text, whole.finish_reason) == (text, "stop")
    (answer,) = await engine.generate([ask(grammar=f'start: "{text}"', max_tokens=most)])
    assert text.startswith(answer.text)
    assert answer.completion_tokens <= most
    assert (answer.finish_reason == "stop") == (answer.text == text)

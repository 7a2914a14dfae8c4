"""The judge: what it makes of replies, what it remembers, and that it never turns a failure into a verdict."""

import asyncio
import sqlite3
import sys

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from coevo.errors import ConfigError, WorldError
from webarena.judge import Judge, answer_verdict, make_judge, reason_verdict


class Scripted(GenericFakeChatModel):
    """Replies in turn; an exception is raised instead. What it was asked is kept."""

    def __init__(self, *replies):
        super().__init__(messages=iter(()))
        object.__setattr__(self, "replies", list(replies))
        object.__setattr__(self, "asked", [])

    async def ainvoke(self, messages, *arguments, **keywords):
        self.asked.append([message.text for message in messages])
        await asyncio.sleep(0)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return AIMessage(reply)


def judge(*replies, **options):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    made = Judge(Scripted(*replies), pause=pause, **{"name": "test:scripted"} | options)
    made.pauses = pauses
    return made


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("correct", True),
        ("Correct.", True),
        ("verdict: CORRECT", True),
        ("incorrect", False),
        ("Partially correct", False),
        ("partially\ncorrect", False),
        ("correct, no: incorrect", False),
        ("not correct", False),
        ("It isn't quite correct", False),
        ("Correctness is hard to tell", None),
        ("yes", None),
        ("", None),
    ],
)
def test_verdicts_on_answers(reply, verdict):
    assert answer_verdict(reply) is verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("same", True),
        ("[Same]", True),
        ("different", False),
        ("not the same", False),
        ("the same or different?", False),
        ("somewhat", None),
        ("", None),
    ],
)
def test_verdicts_on_reasons(reply, verdict):
    assert reason_verdict(reply) is verdict


async def test_it_sees_task_reference_and_answer_and_nothing_else():
    one = judge("correct", "different")
    assert await one.equivalent("Find the price", "5 dollars", "it is $5") is True
    assert await one.same_reason("Buy it", "it is sold out", "there is no button") is False
    (rules, case), (other_rules, other_case) = one.model.asked
    assert case == (
        "<task>Find the price</task>\n<reference>5 dollars</reference>\n<answer>it is $5</answer>\nVerdict on the answer:"
    )
    assert "partially correct" in rules
    assert "different" in other_rules
    assert "<reason>it is sold out</reason>\n<report>there is no button</report>" in other_case


class TestCache:
    async def test_a_question_is_paid_for_once(self, tmp_path):
        cache = tmp_path / "deep" / "judge.sqlite"
        one = judge("correct", "incorrect", cache=cache)
        assert [await one.equivalent("t", "a", "b") for _ in range(3)] == [True] * 3
        assert await one.equivalent("t", "a", "c") is False
        assert one.asked == 2
        again = judge(cache=cache)
        assert (await again.equivalent("t", "a", "b"), await again.equivalent("t", "a", "c")) == (True, False)
        assert again.asked == 0
        rows = (
            sqlite3.connect(cache)
            .execute("SELECT verdict, model, reply FROM verdicts ORDER BY verdict")
            .fetchall()
        )
        assert rows == [(0, "test:scripted", "incorrect"), (1, "test:scripted", "correct")]

    async def test_another_model_is_asked_itself(self, tmp_path):
        cache = tmp_path / "judge.sqlite"
        await judge("correct", cache=cache).equivalent("t", "a", "b")
        assert await judge("incorrect", cache=cache, name="test:other").equivalent("t", "a", "b") is False

    async def test_episodes_that_ask_the_same_at_once_share_a_call(self):
        one = judge("correct")
        assert await asyncio.gather(*(one.equivalent("t", "a", "b") for _ in range(8))) == [True] * 8
        assert one.asked == 1

    async def test_failures_are_not_remembered(self, tmp_path):
        one = judge("hm", "hm", "correct", tries=2, cache=tmp_path / "judge.sqlite")
        with pytest.raises(WorldError):
            await one.equivalent("t", "a", "b")
        assert await one.equivalent("t", "a", "b") is True

    async def test_a_cache_that_is_no_database_is_no_verdict(self, tmp_path):
        cache = tmp_path / "judge.sqlite"
        cache.write_text("these are not the bytes of a database, whatever their name says")
        with pytest.raises(WorldError, match=r"judge.sqlite cannot be used: file is not a database"):
            await judge("correct", cache=cache).equivalent("t", "a", "b")


class TestFailures:
    async def test_a_passing_fault_is_waited_out(self):
        one = judge(OSError("reset"), RuntimeError("429"), "correct")
        assert await one.equivalent("t", "a", "b") is True
        assert one.pauses == [1, 2]

    async def test_a_lasting_one_makes_the_episode_invalid(self):
        one = judge(*[RuntimeError("no quota left")] * 4)
        with pytest.raises(
            WorldError, match=r"the judge test:scripted failed 4 times: RuntimeError: no quota left"
        ):
            await one.equivalent("t", "a", "b")
        assert one.pauses == [1, 2, 4]

    async def test_a_reply_without_verdict_is_asked_for_again(self):
        one = judge("Let me think.", "same")
        assert await one.same_reason("t", "a", "b") is True

    async def test_and_makes_the_episode_invalid_in_the_end(self):
        with pytest.raises(WorldError, match=r"failed 4 times: no verdict in its reply 'maybe'"):
            await judge(*["maybe"] * 4).same_reason("t", "a", "b")

    async def test_a_judge_that_hangs(self, monkeypatch):
        monkeypatch.setattr("webarena.judge.REPLY_TIMEOUT_S", 0.01)
        one = judge(tries=1)

        async def never(*arguments, **keywords):
            await asyncio.Event().wait()

        object.__setattr__(one.model, "ainvoke", never)
        with pytest.raises(WorldError, match=r"no reply within 0.01 s"):
            await one.equivalent("t", "a", "b")


class TestByName:
    def test_a_model_of_a_provider(self, monkeypatch):
        import langchain.chat_models

        made = {}

        def init_chat_model(name, **options):
            made.update(options, name=name)
            return Scripted()

        monkeypatch.setattr(langchain.chat_models, "init_chat_model", init_chat_model)
        assert make_judge("openai:gpt-4.1-mini", options={"max_tokens": 5}).name == "openai:gpt-4.1-mini"
        assert made == {"name": "openai:gpt-4.1-mini", "temperature": 0, "max_tokens": 5}

    @pytest.mark.parametrize("name", ["gpt-4.1-mini", "openai:", ":x", ""])
    def test_names_without_provider(self, name):
        with pytest.raises(ConfigError, match="write provider:model, for example"):
            make_judge(name)

    def test_a_provider_nobody_knows(self):
        with pytest.raises(ConfigError, match=r"judge 'nobody:x' cannot be set up: .*"):
            make_judge("nobody:x")

    def test_without_langchain(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "langchain.chat_models", None)
        with pytest.raises(ConfigError, match=r"langchain is not installed\n  → pip install langchain"):
            make_judge("openai:x")


def test_a_model_without_name_is_known_by_its_class():
    assert Judge(Scripted()).name == "Scripted"

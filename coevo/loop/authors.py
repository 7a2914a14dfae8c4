"""Who writes the skill: the analyst an experiment names, and the lasting log of what its author was asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, explained
from coevo.objects import load_object
from coevo.skill import Analyst, MinerAnalyst
from coevo.skill.author import Author, AuthorCall, CallLog, Limits
from coevo.skill.llm import LlmAnalyst

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from coevo.config import Experiment
    from coevo.engine.base import Completion, Request
    from coevo.store import Store
    from coevo.tables import AuthorTable

Generate = Callable[["Request"], Awaitable["Completion"]]
MakeAnalyst = Callable[[CallLog, Generate], Analyst]
"""Makes the analyst of a run: from the log of its author's calls, and the unperturbed policy as a possible author."""

MakeAuthor = Callable[[CallLog, Generate], Author]
"""Makes an author from the same two."""

POLICY = "policy"


def load_analyst(experiment: Experiment) -> MakeAnalyst:
    """How to make the analyst that `skill.analyst` names: `miner`, `llm`, or a factory of your own without arguments.

    Whatever can be wrong with the names is found now. Raises ConfigError.
    """
    name, table = experiment.skill.analyst, experiment.skill.author
    if name == "miner":
        return lambda log, generate: MinerAnalyst()
    if name == "llm":
        make_author = load_author(table)
        return lambda log, generate: LlmAnalyst(
            make_author(log, generate),
            roles=table.reads,
            examples=experiment.skill.examples > 0,
            max_tokens=table.transcript_tokens,
        )
    if ":" not in name:
        raise ConfigError(
            f"skill.analyst = {name!r} is not known",
            hint="known analysts: miner, llm, or your own as module:factory",
        )
    factory = load_object("skill.analyst", experiment.find_target("skill.analyst", name))
    with explained(f"skill.analyst = {name!r}", ConfigError):
        analyst: Analyst = factory()
    if not callable(getattr(analyst, "analyse", None)) or not hasattr(analyst, "name"):
        raise ConfigError(
            f"skill.analyst = {name!r} made a {type(analyst).__name__}, not an analyst",
            hint="an analyst has a name and the method analyse(skill, selection)",
        )
    return lambda log, generate: analyst


def load_author(table: AuthorTable) -> MakeAuthor:
    """How to make the author that `table` names. Raises ConfigError for a provider or model that is not there."""
    make = None if table.model == POLICY else _chat_model(table)
    return lambda log, generate: Author(
        make or _policy(table, generate),
        name=f"{table.model} T={table.temperature:g} n={table.max_tokens}",
        log=log,
        limits=_limits(table),
        follows_grammar=make is None and table.grammar,
    )


class StoredCalls:
    """The log of an author's calls in the trajectory store (table `author_calls`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, key: str) -> AuthorCall | None:
        rows = self._store.query(
            "SELECT * FROM author_calls WHERE key = ? AND error IS NULL ORDER BY attempt LIMIT 1", (key,)
        )
        return _call(rows[0]) if rows else None

    async def add(self, call: AuthorCall) -> None:
        from coevo.loop.skills import now

        tried = self._store.query("SELECT count(*) AS n FROM author_calls WHERE key = ?", (call.key,))
        self._store.put(
            "author_calls",
            {
                "key": call.key,
                "attempt": tried[0]["n"],
                "purpose": call.purpose,
                "author": call.author,
                "messages": [dict(message) for message in call.messages],
                "reply": None if call.error else call.reply,
                "prompt_tokens": call.prompt_tokens,
                "completion_tokens": call.completion_tokens,
                "seconds": round(call.seconds, 4),
                "error": call.error or None,
                "created_at": now(),
            },
        )
        await self._store.flush()


def _call(row: dict[str, Any]) -> AuthorCall:
    return AuthorCall(
        row["key"],
        row["purpose"],
        row["author"],
        tuple(json.loads(row["messages"])),
        row["reply"],
        row["prompt_tokens"],
        row["completion_tokens"],
        row["seconds"],
    )


def _limits(table: AuthorTable) -> Limits:
    return Limits(
        calls=table.max_calls,
        tokens=table.max_total_tokens,
        timeout_s=None if table.model == POLICY else table.timeout_s,
        concurrency=table.concurrency,
    )


def _policy(table: AuthorTable, generate: Generate) -> Callable[[int], BaseChatModel]:
    """The current policy, unperturbed, as its own author."""
    from coevo.chat import PolicyChatModel
    from coevo.engine.base import Sampling

    def make(seed: int) -> BaseChatModel:
        sampling = Sampling(temperature=table.temperature, max_tokens=table.max_tokens, seed=seed)
        return PolicyChatModel(complete=generate, sampling=sampling)

    return make


def _chat_model(table: AuthorTable) -> Callable[[int], BaseChatModel]:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise ConfigError(
            f"skill.author.model = {table.model!r} needs the package 'langchain'",
            hint="pip install langchain, and the provider's package, e.g. langchain-openai",
        ) from error
    with explained(f"skill.author.model = {table.model!r}", ConfigError):
        model: BaseChatModel = init_chat_model(
            table.model, temperature=table.temperature, max_tokens=table.max_tokens, **table.options
        )
    return lambda seed: model

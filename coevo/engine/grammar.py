"""Grammars for constrained decoding, compiled by llguidance. How they are followed: `coevo.engine.masks`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, EngineError, ModelError

if TYPE_CHECKING:
    from llguidance import LLExecutor, LLMatcher, LLTokenizer

_KEPT = 256  # a batch of a search has one for each child


def check_grammar(grammar: str) -> None:
    """Raises ConfigError with the place when `grammar` is not valid Lark in llguidance's dialect."""
    failed, messages = _llguidance().LLMatcher.validate_grammar_with_warnings(_lark(grammar), None)
    if failed:
        raise _broken(messages[0], ConfigError)


class GrammarCompiler:
    """The grammars of one engine, each compiled once for its tokenizer. The tokenizer is wrapped on first use: that takes
    about a second."""

    def __init__(self, tokenizer: Any, *, vocabulary: int, stop_ids: Sequence[int], threads: int) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = max(vocabulary, len(tokenizer))
        self._stop_ids = list(stop_ids)
        self._threads = threads
        self._wrapped: LLTokenizer | None = None
        self._executor: LLExecutor | None = None
        self._compiled: OrderedDict[str, LLMatcher] = OrderedDict()

    @property
    def executor(self) -> LLExecutor:
        if self._executor is None:
            self._executor = _llguidance().LLExecutor(num_threads=self._threads)
        return self._executor

    def matcher(self, grammar: str) -> LLMatcher:
        """A matcher at the grammar's beginning. Raises EngineError for a broken grammar."""
        if grammar not in self._compiled:
            matcher = _llguidance().LLMatcher(self._tokens(), _lark(grammar), log_level=0)
            if matcher.is_error():
                raise _broken(matcher.get_error(), EngineError)
            self._compiled[grammar] = matcher
            while len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(grammar)
        return self._compiled[grammar].deep_copy()

    def _tokens(self) -> LLTokenizer:
        if self._wrapped is None:
            _llguidance()
            from llguidance.hf import from_tokenizer

            try:
                self._wrapped = from_tokenizer(
                    self._tokenizer, n_vocab=self.vocabulary, eos_token=self._stop_ids
                )
            except ValueError as error:
                raise EngineError(
                    f"this model's tokenizer cannot be used with a grammar: {error}",
                    hint="use a model with a fast tokenizer (tokenizer.json), or no sampling.grammar",
                ) from error
        return self._wrapped


def _lark(grammar: str) -> str:
    text: str = _llguidance().LLMatcher.grammar_from_lark(grammar)
    return text


def _broken(error: str, kind: type[ConfigError | EngineError]) -> ConfigError | EngineError:
    return kind(
        f"the grammar cannot be used: {error.strip()}",
        hint="write it in llguidance's Lark dialect, with a rule `start`",
    )


def _llguidance() -> Any:
    try:
        import llguidance
    except ModuleNotFoundError as error:
        raise ModelError(
            "a grammar needs the package 'llguidance'", hint="pip install 'coevo[torch]'"
        ) from error
    return llguidance

"""How WebArena compares text, numbers and addresses, in its two dialects.

`webarena` is the upstream benchmark, `vab` the WebArena-Lite runner of VisualAgentBench. The same task and answer can get
different verdicts under them; each function says where they part. Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, get_args
from urllib.parse import parse_qs, urlsplit

from coevo.errors import ConfigError

Dialect = Literal["webarena", "vab"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

OR = " |OR| "
TOLERANCE = 1e-8
_COMPARISON = re.compile(r"\s*(<=|>=|==|<|>)\s*(-?\d+(?:\.\d*)?|-?\.\d+)\s*")
_SENTENCE_END = re.compile(r"(?<=[^\s.])\.(?=[\"')\]}»”’]*\s)")
_ABBREVIATIONS = frozenset(
    re.findall(
        r"\S+",
        "mr mrs ms dr prof st jr sr vs etc inc ltd co corp vol fig approx dept est gen gov rev "
        "jan feb mar apr jun jul aug sep sept oct nov dec ave blvd rd pa u.s u.k e.g i.e a.m p.m",
    )
)


def normalise(text: str, dialect: Dialect) -> str:
    """Lower case, less one pair of equal quotes around the whole. `webarena` trims white space first, `vab` does not."""
    if dialect == "webarena":
        text = text.strip()
    for quote in ("'", '"'):
        if text.startswith(quote) and text.endswith(quote):
            text = text[1:-1]
            break
    return text.lower()


def exact_match(reference: str, answer: str, dialect: Dialect) -> bool:
    return normalise(answer, dialect) == normalise(reference, dialect)


def must_include(references: Sequence[str], answer: str, dialect: Dialect, *, page: bool = False) -> bool:
    """Whether `answer` has every reference in it. `page`: the answer is what a page shows, not what the agent said.

    `vab`: a reference may list alternatives with " |OR| "; one that is a single word must be a word of the answer.
    `webarena`: alternatives on pages only; words only where the one reference of an answer is one character.
    """
    whole_word = not page and len(references) == 1
    return all(
        any(_includes(one, answer, dialect, whole_word) for one in _alternatives(entry, dialect, page))
        for entry in references
    )


def must_exclude(references: Sequence[str], answer: str) -> bool:
    """Whether `answer` has no reference in it (`vab` only)."""
    return not any(_includes(one, answer, "vab", False) for one in references)


def one_of(references: Sequence[str], answer: str) -> bool:
    """Whether `answer` contains any reference (`vab` only)."""
    text = normalise(answer, "vab")
    return any(normalise(reference, "vab") in text for reference in references)


def required_values(references: Sequence[str], answer: str) -> bool:
    """Whether `answer` is a whole number that meets every comparison, such as ">= 300 |OR| == 0" (`vab` only)."""
    try:
        number = int(answer.strip().replace(",", ""))
    except ValueError:
        return False
    return all(any(_holds(number, *comparison(one)) for one in entry.split(OR)) for entry in references)


def comparison(text: str) -> tuple[str, float]:
    """Operator and number of a comparison. Raises `ValueError` for anything else."""
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a comparison such as '>= 300'")
    return match[1], float(match[2])


def url_match(reference: str, url: str, note: str | None, dialect: Dialect) -> bool:
    """Whether `url` is (one of) the reference's. `note` is the task's rule: "EXACT", "GOLD in PRED" or None for the default.

    `vab`: text comparison, by default of the whole address. `webarena`: host and path contain a reference's, and each query
    key of the references has one of their values. Raises `ConfigError` for a rule the dialect does not have.
    """
    rule = note or ("EXACT" if dialect == "vab" else "GOLD in PRED")
    references = reference.split(OR)
    if dialect == "vab" and rule in ("EXACT", "GOLD in PRED"):
        found = _plain_url(url)
        plain = [_plain_url(one) for one in references]
        return found in plain if rule == "EXACT" else any(one in found for one in plain)
    if dialect == "webarena" and rule == "GOLD in PRED":
        place, query = _split_url(url)
        parts = [_split_url(one) for one in references]
        wanted: dict[str, set[str]] = {}
        for _, values in parts:
            for key, choices in values.items():
                wanted.setdefault(key, set()).update(choices)
        return any(one in place for one, _ in parts) and all(
            choices & set(query.get(key, ())) for key, choices in wanted.items()
        )
    raise ConfigError(
        f"the dialect {dialect!r} has no url_match rule {rule!r}",
        hint="use the dialect vab" if rule == "EXACT" else "use 'GOLD in PRED'",
    )


def tokens(text: str) -> list[str]:
    """Words and marks as nltk's `word_tokenize` splits them, without its downloaded sentence model.

    Its word tokeniser only parts a full stop from the last word of a sentence. Sentences are found by rule: a full stop
    before white space ends one, unless it follows a common abbreviation, an initial, or (as in the model, which sees an
    ordinal there) a number with a lower-case word after it.
    """
    return [token for sentence in _sentences(text) for token in _tokenizer().tokenize(sentence)]


def _sentences(text: str) -> list[str]:
    starts = [0]
    for match in _SENTENCE_END.finditer(text):
        word = re.search(r"\S*$", text[max(0, match.start() - 40) : match.start()])
        last = word[0].lstrip("\"'([{«“‘").lower() if word else ""
        if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
            continue
        following = re.compile(r"\S*\s+(\S)").match(text, match.end())
        if re.search(r"(?:^|[:;#(])-?[\d.,-]*\d$", last) and following and following[1].islower():
            continue
        end = re.compile(r"\S*\s").match(text, match.end())
        starts.append(end.end() if end else match.end())
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


@cache
def _tokenizer() -> Any:
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError as error:
        raise ConfigError(
            "nltk is not installed", hint="install the web extra: pip install 'coevo[web]'"
        ) from error
    return NLTKWordTokenizer()


def _alternatives(entry: str, dialect: Dialect, page: bool) -> list[str]:
    return entry.split(OR) if page or dialect == "vab" else [entry]


def _includes(reference: str, answer: str, dialect: Dialect, whole_word: bool) -> bool:
    reference, answer = normalise(reference, dialect), normalise(answer, dialect)
    as_word = dialect == "vab" or (whole_word and len(reference) == 1)
    if reference not in answer and not set(reference) & set("\"'`"):
        return False  # no token of the answer can be equal to it either; quotes alone change in tokens
    if not as_word or len(tokens(reference)) != 1:
        return reference in answer
    found = tokens(answer)
    if dialect == "vab":
        found += [part for token in found if "/" in token for part in token.split("/")]
    return reference in found


def _holds(number: int, operator: str, bound: float) -> bool:
    low, high = number <= bound + TOLERANCE, number >= bound - TOLERANCE
    return {
        "<=": low,
        "<": number < bound + TOLERANCE,
        ">=": high,
        ">": number > bound - TOLERANCE,
        "==": low and high,
    }[operator]


def _plain_url(url: str) -> str:
    return url.replace("localhost", "127.0.0.1").removesuffix("/")


def _split_url(url: str) -> tuple[str, dict[str, list[str]]]:
    parts = urlsplit(url.rstrip("/"))
    return (parts.netloc + parts.path).rstrip("/"), parse_qs(parts.query)

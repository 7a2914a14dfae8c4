"""A model's reply becomes a thought and a program, whatever it is wrapped in.

The thought is a sentence in braces before the program, else the text before it. The program is a fenced block that defines
the function, else the lines from the first import or definition on, cut at the end until they parse. Raises CandidateError
(`parse_error`) with a sentence that says what was missing: the model may read it and try again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from coevo.problem import Signature
from coevo.sandbox import CandidateError, Category

LONGEST_REPLY = 30_000
"""Characters of a reply that are looked at."""

_FENCE = re.compile(r"```[ \t]*+[\w+-]*+[ \t]*+\n(.*?)(?:```|\Z)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]{8,})\}", re.DOTALL)
_BEGINS = re.compile(r"^(?:import |from |def |async def |class |@)", re.MULTILINE)
_SPACES = re.compile(r"\s+")
_LONGEST_THOUGHT = 600
_BLOCKS, _ATTEMPTS = 8, 12
"""Fenced blocks that are looked at, and how often a source is cut and parsed again."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What was written: the idea in words and the program."""

    thought: str
    code: str


def read_python(reply: str, signature: Signature) -> Draft:
    """The draft in a reply. The function may have another name if it is the only one at the top level."""
    text = reply[:LONGEST_REPLY].replace("\r\n", "\n").replace("\x00", "")
    other: Draft | None = None
    for start, source in _candidates(text, signature.function):
        code = _parsing(source)
        names = _functions(code) if code else []
        if signature.function in names:
            return Draft(_thought(text, start), code)
        if len(names) == 1 and other is None:
            other = Draft(_thought(text, start), f"{code}\n{signature.function} = {names[0]}\n")
        elif names:
            break
    if other is not None:
        return other
    if "def " not in text:
        raise CandidateError(
            Category.PARSE_ERROR, f"the answer holds no Python function; `{signature.header}` was asked for"
        )
    raise CandidateError(
        Category.PARSE_ERROR, f"the answer holds no function {signature.function} that Python can read"
    )


def _candidates(text: str, function: str) -> Iterator[tuple[int, str]]:
    """The few places where the program may stand, the likeliest first: offset in the text, source."""
    defines = re.compile(rf"^[ \t]*def[ \t]+{re.escape(function)}\b", re.MULTILINE)
    blocks = [(match.start(), match.group(1)) for match in islice(_FENCE.finditer(text), _BLOCKS)]
    yield from (block for block in blocks if defines.search(block[1]))
    yield from (block for block in blocks if not defines.search(block[1]))
    begins = [match.start() for match in (_BEGINS.search(text), defines.search(text)) if match]
    for start in dict.fromkeys(begins):
        yield start, text[start:].split("```", 1)[0]


def _parsing(source: str) -> str:
    """The longest beginning of `source`, by lines, that Python parses; "" if none is found in a few attempts."""
    lines = source.strip("\n").split("\n")
    if lines and _BRACES.fullmatch(lines[0].strip()):
        lines = lines[1:]
    lines = _dedent(lines)
    for _ in range(_ATTEMPTS):
        code = "\n".join(lines)
        try:
            ast.parse(code)
        except SyntaxError as error:
            # what comes before the faulty line may be whole; each round loses at least one line
            last = min(len(lines) - 1, (error.lineno or len(lines)) - 1)
            lines = lines[: max(0, last)] if last < len(lines) - 1 else lines[:-1]
        except (ValueError, RecursionError, MemoryError):
            return ""
        else:
            return code.strip() + "\n" if code.strip() else ""
    return ""


def _dedent(lines: list[str]) -> list[str]:
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    cut = min(indents, default=0)
    return [line[cut:] for line in lines]


def _functions(code: str) -> list[str]:
    return [
        node.name
        for node in ast.parse(code).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def _thought(text: str, code_start: int) -> str:
    before = text[:code_start]
    braces = _BRACES.findall(before) or _BRACES.findall(text[:code_start] or "")
    said = braces[0] if braces else re.sub(r"```\w*", " ", before)
    return _SPACES.sub(" ", said).strip(" :#*\n")[:_LONGEST_THOUGHT]

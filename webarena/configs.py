"""WebArena's task files: JSON with everything about a task, read strictly.

A mistake is a `ConfigError` that names file, task and field. Addresses keep their placeholders (`__SHOPPING__`, …) until an
episode knows where its sites are: `resolve`. Tasks of the local arena carry their extras under the key "coevo".
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

from coevo.errors import ConfigError
from webarena.helpers import PREFIX, Call, parse_call
from webarena.matching import OR, comparison

SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "map", "wikipedia")
EVAL_TYPES = ("string_match", "url_match", "program_html")
LISTED_KINDS = ("must_include", "must_exclude", "one_of", "required_values", "fuzzy_match")
ANSWER_KINDS = ("exact_match", *LISTED_KINDS)
CONTENT_KINDS = (
    "exact_match",
    "must_include",
    "must_exclude",
    "required_values",
    "fuzzy_match",
)  # first of these counts
UNACHIEVABLE = "N/A"
AND = "|AND|"
_PLACEHOLDER = re.compile(rf"__({'|'.join(sorted((*SITES, 'homepage'), key=len, reverse=True)).upper()})__")

_TASK_KEYS = (
    *("sites", "task_id", "require_login", "storage_state", "start_url", "geolocation", "intent_template"),
    *("instantiation_dict", "intent", "require_reset", "eval", "intent_template_id", "old_task_id"),
    *("image", "viewport_size", "reference_action_sequence", "string_note", "coevo"),
)
_EVAL_KEYS = (
    *("eval_types", "reference_answers", "reference_url", "program_html", "string_note", "url_note"),
    *("reference_answer_raw_annotation", "annotation_note"),
)
_TARGET_KEYS = ("url", "locator", "required_contents", "prep_actions")


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with an answer or a page. `kind` is one of `ANSWER_KINDS`, or "unachievable" where the task's fuzzy
    reference is "N/A": the agent should say that it cannot be done."""

    kind: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A place to look at once the agent has stopped, and what must be there.

    `url` is "last" (wherever the page is by then), an address, or a helper's call. `locator` is blank (the whole page), a
    JavaScript expression, `lambda:` with a JavaScript function, or a helper's call. `prep_actions` are JavaScript.
    """

    url: str | Call
    locator: str | Call
    contents: Check
    prep_actions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a task is scored: the product of its `eval_types`."""

    eval_types: tuple[str, ...]
    reference_answers: tuple[Check, ...] = ()
    reference_url: str = ""
    program_html: tuple[Target, ...] = ()
    url_note: str | None = None
    string_note: str = ""
    reference_answer_raw_annotation: str = ""


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """A task as its file has it. `start_urls` are the tabs to open, the first in front; placeholders are not resolved.

    The last fields are extras of the local arena; they are None elsewhere.
    """

    task_id: int
    sites: tuple[str, ...]
    intent: str
    intent_template: str
    intent_template_id: int
    start_urls: tuple[str, ...]
    eval: Evaluation
    instantiation_dict: Mapping[str, Any] = field(default_factory=dict)
    require_login: bool = False
    storage_state: str | None = None
    require_reset: bool = False
    geolocation: Mapping[str, Any] | None = None
    old_task_id: int | None = None
    image: tuple[str, ...] = ()
    viewport_size: Mapping[str, Any] | None = None
    reference_action_sequence: Any = None
    level: int | None = None
    kind: str | None = None
    account: str | None = None
    split: str | None = None
    entity: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def load_configs(path: str | Path) -> list[TaskConfig]:
    """All tasks of a file: a JSON list of tasks, or one task. Raises `ConfigError` naming file, task and field."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"cannot read the task file {path}: {error.strerror}",
            hint="coevo webarena fetch gets the public files; or name a file of yours",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is not JSON: brackets within brackets, too deep") from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        ) from error
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list) or not content:
        raise ConfigError(f"{path}: expected a JSON list of tasks, found {_shown(content)}")
    configs = []
    seen: dict[int, int] = {}
    for index, raw in enumerate(content):
        config = parse_config(raw, source=f"{path}, entry {index}" if _id(raw) is None else str(path))
        if config.task_id in seen:
            raise ConfigError(
                f"{path}: entries {seen[config.task_id]} and {index} both have task_id {config.task_id}"
            )
        seen[config.task_id] = index
        configs.append(config)
    return configs


def parse_config(raw: Any, *, source: str = "task") -> TaskConfig:
    """A task from its JSON object; `source` begins the errors. Raises `ConfigError` naming task and field."""
    task_id = _id(raw)
    where = source if task_id is None else f"{source}, task {task_id}"
    task = _Fields(raw, where, "", _TASK_KEYS)
    sites = task.texts("sites")
    for site in sites:
        if site not in SITES:
            task.fail("sites", f"unknown site {site!r}", _nearest(site, SITES))
    start_urls = tuple(part.strip() for part in task.text("start_url").split(AND))
    if not all(start_urls):
        task.fail("start_url", "an address is blank")
    extras = _Fields(task.get("coevo", dict, {}), where, "coevo", None)
    image = task.get("image", (str, list), None)
    return TaskConfig(
        task_id=cast(int, task.get("task_id", int)),
        sites=sites,
        intent=task.text("intent"),
        intent_template=task.text("intent_template", ""),
        intent_template_id=cast(int, task.get("intent_template_id", int)),
        start_urls=start_urls,
        eval=_evaluation(_Fields(task.get("eval", dict), where, "eval", _EVAL_KEYS)),
        instantiation_dict=task.get("instantiation_dict", dict, {}),
        require_login=task.get("require_login", bool, False),
        storage_state=task.get("storage_state", str, None),
        require_reset=task.get("require_reset", bool, False),
        geolocation=task.get("geolocation", dict, None),
        old_task_id=task.get("old_task_id", int, None),
        image=() if image is None else task.texts("image"),
        viewport_size=task.get("viewport_size", dict, None),
        reference_action_sequence=task.get("reference_action_sequence", (dict, list), None),
        level=extras.get("level", int, None),
        kind=extras.get("kind", str, None),
        account=extras.get("account", str, None),
        split=extras.get("split", str, None),
        entity=extras.get("entity", str, None),
        raw=raw,
    )


def resolve(text: str, urls: Mapping[str, str]) -> str:
    """`text` with base URLs, written without a trailing slash, in place of the sites' placeholders.

    Raises `ConfigError` that names a site without URL.
    """

    def base(match: re.Match[str]) -> str:
        site = match[1].lower()
        if not urls.get(site):
            raise ConfigError(
                f"{match[0]} stands for the site {site!r}, which has no URL",
                hint=f"give the site {site} a URL; known are {', '.join(sorted(urls)) or 'none'}",
            )
        return urls[site].rstrip("/")

    return _PLACEHOLDER.sub(base, text)


def resolve_evaluation(config: TaskConfig, urls: Mapping[str, str]) -> Evaluation:
    """The task's evaluation with base URLs in every text. Raises `ConfigError` as `resolve` does."""
    filled = _resolve_all(config.raw["eval"], urls)
    return _evaluation(_Fields(filled, f"task {config.task_id}", "eval", _EVAL_KEYS))


def _resolve_all(value: Any, urls: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return resolve(value, urls)
    if isinstance(value, Mapping):
        return {key: _resolve_all(entry, urls) for key, entry in value.items()}
    return [_resolve_all(entry, urls) for entry in value] if isinstance(value, list) else value


def _evaluation(given: _Fields) -> Evaluation:
    eval_types = given.texts("eval_types")
    for eval_type in eval_types:
        if eval_type not in EVAL_TYPES:
            given.fail("eval_types", f"unknown evaluator {eval_type!r}", _nearest(eval_type, EVAL_TYPES))
    if not eval_types:
        given.fail("eval_types", "names no evaluator")
    answers = given.inner("reference_answers", ANSWER_KINDS)
    targets = given.get("program_html", list, None) or []
    evaluation = Evaluation(
        eval_types=eval_types,
        reference_answers=tuple(_check(answers, kind) for kind in answers.given),
        reference_url=given.text("reference_url", ""),
        program_html=tuple(
            _target(_Fields(target, given.where, f"eval.program_html[{index}]", _TARGET_KEYS))
            for index, target in enumerate(targets)
        ),
        url_note=given.get("url_note", str, None),
        string_note=given.text("string_note", ""),
        reference_answer_raw_annotation=given.text("reference_answer_raw_annotation", ""),
    )
    needs = {
        "string_match": ("reference_answers", evaluation.reference_answers),
        "url_match": ("reference_url", evaluation.reference_url.strip()),
        "program_html": ("program_html", evaluation.program_html),
    }
    for eval_type in eval_types:
        key, value = needs[eval_type]
        if not value:
            given.fail(key, f"{eval_type} needs one")
    return evaluation


def _target(given: _Fields) -> Target:
    url, locator = given.text("url"), given.text("locator")
    if not re.match(r"last$|func:|https?://|__[A-Z_]+__", url):
        given.fail("url", f"{url!r} is not 'last', an address, or func: with a helper's call")
    if locator.strip() and not locator.startswith(("document.", "[...document.", "lambda:", PREFIX)):
        given.fail(
            "locator", f"{locator!r} is blank or begins with document., [...document., lambda: or func:"
        )
    contents = given.inner("required_contents", CONTENT_KINDS)
    kinds = [kind for kind in CONTENT_KINDS if kind in contents.given]
    if not kinds:
        given.fail("required_contents", f"needs one of {', '.join(CONTENT_KINDS)}")
    return Target(
        url=_call(given, "url", url) or url,
        locator=_call(given, "locator", locator) or locator.strip(),
        contents=_check(contents, kinds[0]),
        prep_actions=given.texts("prep_actions", ()),
    )


def _call(given: _Fields, key: str, text: str) -> Call | None:
    if not text.startswith(PREFIX):
        return None
    try:
        return parse_call(text.removeprefix(PREFIX))
    except ValueError as error:
        given.fail(key, str(error))


def _check(given: _Fields, kind: str) -> Check:
    """Lists and single texts become tuples: one of the public tasks has a text where the others have a list."""
    if kind == "fuzzy_match" and given.given[kind] == UNACHIEVABLE:
        return Check("unachievable", (UNACHIEVABLE,))
    values = (given.text(kind),) if kind == "exact_match" else given.texts(kind)
    if not values:
        given.fail(kind, "is empty")
    if kind == "required_values":
        for entry in values:
            try:
                for one in entry.split(OR):
                    comparison(one)
            except ValueError as error:
                given.fail(kind, str(error))
    return Check(kind, values)


_REQUIRED: Any = object()


class _Fields:
    """Typed access to a JSON object whose complaints say where: file, task, and the path of the field."""

    def __init__(self, given: Any, where: str, path: str, known: Sequence[str] | None) -> None:
        self.where = where
        self.path = path
        if not isinstance(given, Mapping):
            raise ConfigError(f"{where}: {path or 'a task'}: expected an object, found {_shown(given)}")
        self.given = given
        for key in given:
            if known is not None and key not in known:
                self.fail(key, "unknown field", _nearest(key, known))

    def fail(self, key: str, problem: str, hint: str | None = None) -> NoReturn:
        path = f"{self.path}.{key}" if self.path else key
        raise ConfigError(f"{self.where}: {path}: {problem}", hint=hint)

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = _REQUIRED) -> Any:
        """The value of a field. null counts as left out."""
        value = self.given.get(key)
        if value is None:
            if default is _REQUIRED:
                self.fail(key, "is missing" if key not in self.given else "is null")
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.fail(key, f"expected {' or '.join(_WORDS[one] for one in kinds)}, found {_shown(value)}")
        return value

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        return str(self.get(key, str, default))

    def texts(self, key: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of texts, or one text."""
        value = self.get(key, (list, str), default)
        values = [value] if isinstance(value, str) else value
        for entry in values:
            if not isinstance(entry, str):
                self.fail(key, f"expected a list of text, found {_shown(entry)} in it")
        return tuple(values)

    def inner(self, key: str, known: Sequence[str]) -> _Fields:
        path = f"{self.path}.{key}" if self.path else key
        return _Fields(self.get(key, dict, {}), self.where, path, known)


_WORDS = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}


def _id(raw: Any) -> int | None:
    value = raw.get("task_id") if isinstance(raw, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"

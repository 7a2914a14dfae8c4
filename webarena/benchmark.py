"""WebArena and WebArena-Lite as a task set: `set = "webarena.benchmark:tasks"`. Needs the sites, by URL: `webarena.real`."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from coevo.env import Task
from coevo.errors import ConfigError
from coevo.seeds import derive_seed
from webarena.browser import Browser
from webarena.cache import cache_dir
from webarena.configs import SITES, TaskConfig, load_configs
from webarena.environment import Options, Scorer
from webarena.evaluators import Evaluator
from webarena.fetch import NAMES, task_file
from webarena.judge import make_judge
from webarena.login import Logins, with_login
from webarena.matching import DIALECTS
from webarena.options import checked, typed
from webarena.real import RESET_TIMEOUT_S, SHARING, RealWorlds, site_urls
from webarena.splits import Splits, reference_split, template_split
from webarena.web import WebPool, writes

SPLITS = ("train", "dev", "test")
VERIFIED = "verified"
SCORERS = (*DIALECTS, VERIFIED)
DEV_TASKS = 32
TEST_TASKS = 165


class _Checking(Scorer, Protocol):
    def check(self, config: TaskConfig) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Sites:
    """Where the sites are and how they are put back: see `RealWorlds`."""

    urls: Mapping[str, str | Sequence[str]] | None = None
    resets: Mapping[str, str] | None = None
    reset_timeout_s: float = RESET_TIMEOUT_S
    sharing: int = SHARING
    drift: bool = False

    def __post_init__(self) -> None:
        site_urls(self.urls)
        for site in self.resets or {}:
            if site not in SITES:
                raise ConfigError(
                    f"resets: there is no WebArena site {site!r}", hint=f"sites: {', '.join(SITES)}"
                )
        if self.reset_timeout_s <= 0:
            raise ConfigError(f"reset_timeout_s = {self.reset_timeout_s} is no time at all")
        if self.sharing < 1:
            raise ConfigError(f"sharing = {self.sharing}: at least one episode has to fit on a site")


class BenchmarkTasks:
    """Tasks of a WebArena task file in three splits."""

    def __init__(self, name: str, splits: Splits, scorer: Scorer, options: Options, sites: Sites) -> None:
        self.name = name
        self.scorer = scorer
        self.options = options
        self.sites = sites
        self._configs = {"train": splits.train, "dev": splits.dev, "test": splits.test}

    def configs(self, split: str) -> tuple[TaskConfig, ...]:
        """Raises `ConfigError` for an unknown split."""
        if split not in self._configs:
            raise ConfigError(f"WebArena has no split {split!r}", hint=f"use one of {', '.join(SPLITS)}")
        return self._configs[split]

    def tasks(self, split: str) -> list[Task]:
        return [self._task(config) for config in self.configs(split)]

    def pool(self, size: int, *, browser: Browser | None = None) -> WebPool:
        """Environments on the real sites. Raises `ConfigError` when a site has no URL, or cannot be put back after writes."""
        urls = site_urls(self.sites.urls)
        configs = [config for split in SPLITS for config in self._configs[split]]
        needed = [site for site in SITES if any(site in config.sites for config in configs)]
        missing = [site for site in needed if site not in urls]
        if missing:
            raise ConfigError(
                f"no URL for {', '.join(missing)}",
                hint="set "
                + ", ".join(f"WA_{site.upper()}" for site in missing)
                + "; or take tasks of the other sites only: only_sites = [...]",
            )
        resets = self.sites.resets or {}
        written = {site for config in configs if writes(config) for site in with_login(config.sites)}
        lasting = sorted(written - set(resets))
        if lasting and not self.sites.drift:
            raise ConfigError(
                f"there are tasks that write to {', '.join(lasting)}, and no way to undo it",
                hint=f"give resets.{lasting[0]} a command, or set drift = true and let episodes meet what others wrote",
            )
        browser = browser or Browser(viewport=self.options.viewport)
        worlds = RealWorlds(
            {site: urls[site] for site in needed},
            Logins(browser),
            resets=resets,
            reset_timeout_s=self.sites.reset_timeout_s,
            sharing=self.sites.sharing,
            drift=self.sites.drift,
        )
        return WebPool(size, worlds, self.options, self.scorer, browser=browser)

    def _task(self, config: TaskConfig) -> Task:
        # Lite numbers its tasks anew, and its training tasks come from the full set.
        kind = "full" if config.old_task_id is None else "lite"
        return Task(
            id=f"webarena/{kind}/{config.task_id}",
            goal=config.intent,
            seed=derive_seed("webarena", kind, config.task_id),
            group="+".join(config.sites),
            data={"config": config.raw},
        )


@checked
def tasks(
    files: str | Sequence[str] = "lite",
    *,
    split: Literal["reference", "template"] = "reference",
    train: int | None = None,
    dev: int | None = None,
    test: int | None = None,
    split_seed: int = 0,
    only_sites: Sequence[str] | None = None,
    evaluator: str = "vab",
    judge: str = "",
    judge_options: Mapping[str, Any] | None = None,
    judge_cache: str = "",
    without_judge: bool = False,
    urls: Mapping[str, str | Sequence[str]] | None = None,
    resets: Mapping[str, str] | None = None,
    reset_timeout_s: float = RESET_TIMEOUT_S,
    sharing: int = SHARING,
    drift: bool = False,
    **options: Any,
) -> BenchmarkTasks:
    """WebArena's tasks on its real sites.

    `files`: "lite" tests on the 165 of WebArena-Lite, "full" on tasks drawn from the 812 (template split only), or paths of
    task files of yours (template split only). `split`: "reference" is the published one, "template" keeps every template
    on one side. `train`, `dev`, `test`: how many tasks of each. `only_sites`: tasks of these sites alone. `evaluator`:
    "vab" (as WebArena-Lite scores), "webarena" (as the original), or "verified" (`coevo webarena verified install`).
    `judge`: a chat model, `provider:model`, for references that are compared by meaning; `without_judge` leaves such tasks
    out. Where the sites are: `urls`, `resets`, `reset_timeout_s`, `sharing`, `drift`, see `webarena.real`. Further options
    (`dialect`, `observation_tokens`, …): see `webarena.environment.Options`.

    Raises `ConfigError` for unknown names and values, missing files, and tasks that cannot be scored.
    """
    chosen = _options(options)
    places = Sites(urls, resets, reset_timeout_s, sharing, drift)
    for site in only_sites or ():
        if site not in SITES:
            raise ConfigError(
                f"only_sites: there is no WebArena site {site!r}", hint=f"sites: {', '.join(SITES)}"
            )
    for size_of, size in (("train", train), ("dev", dev), ("test", test)):
        if size is not None and size < 0:
            raise ConfigError(f"{size_of} = {size}: a split cannot have fewer than 0 tasks")
    splits = _splits(files, split, train=train, dev=dev, test=test, seed=split_seed, only_sites=only_sites)
    scorer = _scorer(evaluator, judge, judge_options, judge_cache)
    if without_judge:
        splits = _filter(splits, lambda config: not _needs_judge(config))
    if evaluator == VERIFIED:
        splits = _reworded(splits, scorer)
    for config in (*splits.train, *splits.dev, *splits.test):
        scorer.check(config)
    name = files if isinstance(files, str) and files in NAMES else "webarena"
    return BenchmarkTasks(name, _cut(splits, train, dev, test), scorer, chosen, places)


def _options(given: Mapping[str, Any]) -> Options:
    known = [field.name for field in dataclasses.fields(Options)]
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(
                f"unknown WebArena option {key!r}",
                hint=f"did you mean {close[0]}?" if close else f"options: {', '.join(known)}",
            )
    return typed(Options, given)


def _splits(
    files: str | Sequence[str],
    split: str,
    *,
    train: int | None,
    dev: int | None,
    test: int | None,
    seed: int,
    only_sites: Sequence[str] | None,
) -> Splits:
    def on_sites(config: TaskConfig) -> bool:
        return only_sites is None or set(config.sites) <= set(only_sites)

    def wanted(configs: Sequence[TaskConfig]) -> list[TaskConfig]:
        return list(filter(on_sites, configs))

    if split not in ("reference", "template"):
        raise ConfigError(f"there is no split {split!r}", hint="use reference or template")
    if split == "reference" and files != "lite":
        raise ConfigError(
            f"the reference split tests on WebArena-Lite, not on {files!r}",
            hint='set files = "lite", or split = "template"',
        )
    if files == "lite":
        full, lite = load_configs(task_file("full")), load_configs(task_file("lite"))
        if split == "reference":
            return _filter(reference_split(full, lite), on_sites)
        return template_split(
            wanted(full),
            dev=DEV_TASKS if dev is None else dev,
            train=train,
            lite=wanted(lite),
            seed=seed,
        )
    if files == "full":
        full = load_configs(task_file("full"))
    else:
        paths = (files,) if isinstance(files, str) else files
        full = [config for path in paths for config in load_configs(Path(path))]
    return template_split(
        wanted(full),
        dev=DEV_TASKS if dev is None else dev,
        train=train,
        test=TEST_TASKS if test is None else test,
        seed=seed,
    )


def _scorer(
    evaluator: str, judge: str, judge_options: Mapping[str, Any] | None, judge_cache: str
) -> _Checking:
    if evaluator == VERIFIED:
        from webarena.verified import VerifiedEvaluator

        return VerifiedEvaluator()
    for dialect in DIALECTS:
        if evaluator == dialect:
            cache = judge_cache or str(cache_dir() / "judge.sqlite")
            asked = make_judge(judge, cache=cache, options=judge_options) if judge else None
            return Evaluator(dialect, asked)
    raise ConfigError(f"there is no evaluator {evaluator!r}", hint=f"use one of {', '.join(SCORERS)}")


def _needs_judge(config: TaskConfig) -> bool:
    checks = [*config.eval.reference_answers, *(target.contents for target in config.eval.program_html)]
    return any(check.kind in ("fuzzy_match", "unachievable") for check in checks)


def _reworded(splits: Splits, scorer: Any) -> Splits:
    from webarena.verified import reword

    return Splits(*(tuple(reword(part, scorer.python)) for part in (splits.train, splits.dev, splits.test)))


def _filter(splits: Splits, wanted: Any) -> Splits:
    return Splits(*(tuple(filter(wanted, part)) for part in (splits.train, splits.dev, splits.test)))


def _cut(splits: Splits, train: int | None, dev: int | None, test: int | None) -> Splits:
    return Splits(splits.train[:train], splits.dev[:dev], splits.test[:test])

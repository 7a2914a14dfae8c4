"""The encyclopaedia: facts that agree, pages without dead links, and kiwix-serve in the arena."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from coevo.errors import ConfigError
from webarena import local
from webarena.arena import Arena, ArenaWorlds
from webarena.evaluators import Evaluator
from webarena.sites import install
from webarena.sites.tasks import SPLITS
from webarena.sites.wikipedia import site
from webarena.sites.wikipedia.articles import articles
from webarena.sites.wikipedia.content import world
from webarena.solve import prove, sample
from webarena.web import WebPool


def test_facts_agree_and_names_are_distinct() -> None:
    facts = world(0)
    for person in facts.people:
        assert 30 < person.age < 100
        if person.teacher:
            assert person.teacher.field == person.field
            assert person.teacher.born + 20 <= person.born <= person.teacher.died - 20
    for company in facts.companies:
        assert company.founder.born + 20 < company.founded < company.founder.died
    for invention in facts.inventions:
        assert invention.maker.founded <= invention.year <= invention.inventor.died
    for mountain in facts.mountains:
        assert mountain.climber.field == "explorer"
        assert mountain.climber.born < mountain.ascent_year < mountain.climber.died
    for province in facts.provinces:
        assert province.capital in province.towns
    for river in facts.rivers:
        assert all(town.river is river for town in river.towns)
    for numbers in ([town.population for town in facts.towns], [river.length_km for river in facts.rivers]):
        assert len(set(numbers)) == len(numbers)
    assert world(1).people[0].name != facts.people[0].name


def test_articles_link_to_articles_and_say_the_facts() -> None:
    pages = {article.path: article for article in articles(world(0))}
    assert len(pages) == len(list(articles(world(0)))) >= 300
    linked = {link for page in pages.values() for link in re.findall(r'href="([^"]+)"', page.html)}
    assert linked - pages.keys() == set()
    assert pages.keys() - linked == set()  # every article can be reached
    assert not any("http" in page.html for page in pages.values())  # nothing from elsewhere
    text = " ".join(page.html for page in pages.values())
    assert not any(f">River {name}<" in text or f" {name} " in text for name in world(0).absent)
    river = world(0).rivers[0]
    assert f"{river.length_km} km" in pages[river.name.replace(" ", "_")].html
    assert [page.html for page in articles(world(3))] == [page.html for page in articles(world(3))]


def test_without_kiwix_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COEVO_KIWIX", str(tmp_path / "none"))
    assert "kiwix-serve is not installed: `python -m webarena.sites.install`" in site.missing()
    monkeypatch.setattr(install, "apt_commands", lambda package: [["false", package]])
    with pytest.raises(ConfigError, match="could not install kiwix-serve: false kiwix-tools: exit 1"):
        install.install_kiwix()
    program = tmp_path / "kiwix-serve"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("COEVO_KIWIX", str(program))
    assert site.missing() == ""
    assert install.install_kiwix() == str(program)


def test_the_installer_is_asked_for_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COEVO_KIWIX", str(tmp_path / "kiwix-serve"))
    asked = []

    def pretend(command: list[str], timeout_s: float) -> str:
        asked.append(command)
        (tmp_path / "kiwix-serve").write_text("#!/bin/sh\n")
        (tmp_path / "kiwix-serve").chmod(0o755)
        return ""

    monkeypatch.setattr(install, "attempt", pretend)
    monkeypatch.setattr(install, "apt_commands", lambda package: [["apt-get", "install", package]])
    assert install.install_kiwix() == str(tmp_path / "kiwix-serve")
    assert asked == [["apt-get", "install", "kiwix-tools"]]


@pytest.mark.browser
async def test_tasks_are_solved_in_the_arena(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task of each level and kind with its script, kiwix-serve being killed on the way."""
    if site.missing():
        pytest.skip(site.missing())
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path))
    tasks = local.tasks("wikipedia")
    everything = [task for split in SPLITS for task in tasks.local(split)]
    kinds = {(task.template.level, task.template.kind): task for task in sample(everything, 1)}
    chosen = list(kinds.values())
    assert len(chosen) >= 7
    worlds = ArenaWorlds(partial(Arena.start, ["wikipedia"], slots=2), 2)
    pool = WebPool(2, worlds, tasks.options, Evaluator("vab"))
    try:
        first = await prove(chosen[:2], pool)
        assert worlds.arena is not None
        url = worlds.arena.urls(0)["wikipedia"]
        assert worlds.arena.urls(1)["wikipedia"] == url
        await _kill_kiwix(worlds.arena)
        page = await asyncio.to_thread(_get, f"{url}/search?content=wikipedia&pattern=province")
        assert "Province" in page
        proofs = [*first, *await prove(chosen[2:], pool)]
    finally:
        await pool.close()
        await worlds.close()
    assert [
        (proof.task, proof.solved, proof.idle, proof.problem) for proof in proofs if not proof.holds
    ] == []


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


async def _kill_kiwix(arena: Arena) -> None:
    """Kills the kiwix-serve below the site's slot, and waits until the slot has a new process."""
    (slot,) = (await arena.status())["wikipedia"]["slots"]
    (kiwix,) = Path(f"/proc/{slot['pid']}/task/{slot['pid']}/children").read_text().split()
    assert b"kiwix-serve" in Path(f"/proc/{kiwix}/cmdline").read_bytes()
    os.kill(int(kiwix), signal.SIGKILL)
    for _ in range(500):
        (after,) = (await arena.status())["wikipedia"]["slots"]
        if after["pid"] not in (0, slot["pid"]):
            assert after["deaths"] == slot["deaths"] + 1
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the slot was not started again")

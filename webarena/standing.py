"""An arena that outlives the command that starts it: `coevo webarena up` writes down where it is, runs find it there."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import IO, Any

from coevo.errors import ConfigError
from webarena.arena import Arena, Report, usable_sites
from webarena.sites import SITES
from webarena.sites.client import SiteServer, end_server, is_server
from webarena.sites.logins import logins_of
from webarena.sites.seed import cache_root, seed_folder


def record_file() -> Path:
    return cache_root() / "run" / "arena.json"


def read_record() -> dict[str, Any] | None:
    """What is written about the standing arena, whether or not it still runs; None if there is nothing to read."""
    try:
        record: dict[str, Any] = json.loads(record_file().read_text())
    except (OSError, ValueError):
        return None
    return record if _is_record(record) else None


def _is_record(record: Any) -> bool:
    """Whether it has what `_write` writes: a file that somebody changed is as good as none."""
    if not isinstance(record, dict) or not isinstance(record.get("root"), str):
        return False
    sites = record.get("sites")
    return (
        isinstance(sites, dict)
        and bool(sites)
        and all(
            isinstance(site, dict) and isinstance(site.get("pid"), int) and "base" in site
            for site in sites.values()
        )
    )


def gone(record: dict[str, Any]) -> list[str]:
    """Sites of a record whose process is no longer there."""
    return [name for name, site in record["sites"].items() if not is_server(site["pid"])]


async def up(
    sites: Sequence[str] | None, *, slots: int, seed: int = 0, report: Report = lambda _: None
) -> tuple[Arena, bool]:
    """The standing arena, and whether it has just been started. Left-overs of a dead one are cleared away first.

    Two at once: the second waits and finds the first's. Raises `ConfigError` when one with other settings is up.
    """
    async with _lock():
        record = read_record()
        if record is not None and not gone(record):
            why = mismatch(record, sites, slots=slots, seed=seed)
            if why:
                raise ConfigError(
                    f"another arena is up already: {why}", hint="`coevo webarena down`, then up again"
                )
            return attach(record), False
        if record is not None:
            report(f"clearing away what is left of an arena whose {', '.join(gone(record))} died")
            await asyncio.to_thread(_clear, record)
        arena = await Arena.start(sites, slots=slots, seed=seed, report=report)
        try:
            _write(arena.record())
            for server in arena.servers.values():
                await server.disown()
        except BaseException:
            record_file().unlink(missing_ok=True)
            await arena.close()
            raise
        arena.own_root = False
        return arena, True


async def down() -> list[str]:
    """Ends the standing arena. Returns the sites that were running; nothing to do is no error."""
    async with _lock():
        record = read_record()
        if record is None:
            return []
        running = [name for name in record["sites"] if name not in gone(record)]
        await asyncio.to_thread(_clear, record)
        return running


async def connect(
    sites: Sequence[str] | None, *, slots: int, seed: int = 0, report: Report = lambda _: None
) -> Arena:
    """Slots of the standing arena if it fits and has enough that no other process uses; otherwise an arena of our own."""
    record = read_record()
    if record is not None and not gone(record):
        why = mismatch(record, sites, slots=slots, seed=seed)
        if not why:
            arena = attach(record)
            if claim(arena, slots):
                for slot in arena.slot_numbers:  # whoever used it before may have died over it
                    await arena.restore(slot)
                report(f"using {slots} slots of the arena that is up")
                return arena
            why = "too few of its slots are free"
        report(f"an arena is up, but {why}: starting another")
    return await Arena.start(sites, slots=slots, seed=seed, report=report)


def mismatch(record: dict[str, Any], sites: Sequence[str] | None, *, slots: int, seed: int) -> str:
    """Why the arena of a record does not do for these wishes, "" if it does."""
    wanted = usable_sites(sites, lambda _: None)
    lacking = [name for name in wanted if name not in record["sites"]]
    if lacking:
        return f"it runs without {', '.join(lacking)}"
    if record["slots"] < slots:
        return f"it has {record['slots']} slots, not {slots}"
    if record["seed"] != seed:
        return f"its content is of seed {record['seed']}, not {seed}"
    old = [name for name in wanted if record["sites"][name]["seed_folder"] != str(seed_folder(name, seed))]
    if old:
        return f"its {', '.join(old)} was built from other sources"
    return ""


def attach(record: dict[str, Any]) -> Arena:
    """An `Arena` for the running sites of a record. Closing it leaves them running."""
    root = Path(record["root"])
    servers = {
        name: SiteServer(
            name, Path(site["base"]), root, record["slots"], pid=site["pid"], ports=tuple(site["ports"])
        )
        for name, site in record["sites"].items()
        if name in SITES
    }
    arena = Arena(servers, root, slots=record["slots"], seed=record["seed"])
    arena.own_root = False
    for name, server in servers.items():
        logins = logins_of(server.base)
        if logins is not None:
            arena.logins[name] = logins
    return arena


def claim(arena: Arena, count: int) -> bool:
    """Reserves so many slots for this process, until the arena is closed or the process dies; False if too few are free."""
    folder = arena.root / "claims"
    folder.mkdir(exist_ok=True)
    claims: list[IO[str]] = []
    numbers = []
    for slot in range(arena.slots):
        file = (folder / str(slot)).open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            continue
        claims.append(file)
        numbers.append(slot)
        if len(numbers) == count:
            arena.claims, arena.slot_numbers = claims, numbers
            return True
    for taken in claims:
        taken.close()
    return False


def _write(record: dict[str, Any]) -> None:
    file = record_file()
    part = file.with_name(f"{file.name}.{os.getpid()}")
    part.write_text(json.dumps(record, indent=1))
    part.rename(file)


def _clear(record: dict[str, Any]) -> None:
    for site in record["sites"].values():
        end_server(site["pid"])
    root = Path(record["root"])
    if root.name.startswith("coevo-arena-"):
        shutil.rmtree(root, ignore_errors=True)
    record_file().unlink(missing_ok=True)


@contextlib.asynccontextmanager
async def _lock() -> AsyncIterator[None]:
    """Held by one `up` or `down` at a time."""
    path = record_file().with_name("lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield

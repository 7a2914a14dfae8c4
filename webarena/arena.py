"""The local arena: real applications on this machine, one private copy of each per slot, restored in milliseconds.

`Arena` runs the sites; `ArenaWorlds` lends its slots to episodes. An arena belongs to the process that starts it and ends
with it, however that dies; `webarena.standing` has the one that outlives `coevo webarena up`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from coevo.errors import ConfigError, WorldError
from webarena.sites import SITES, load_site
from webarena.sites.client import SiteServer
from webarena.sites.logins import LoginStates, saved_logins
from webarena.sites.seed import is_built, seed_folder, seed_state
from webarena.worlds import Lease

if TYPE_CHECKING:
    from webarena.browser import Browser

Report = Callable[[str], None]
SOCKET_PATH_LIMIT = 100  # bytes; the kernel's is 108


def usable_sites(names: Sequence[str] | None, report: Report) -> list[str]:
    """The named sites, or all that this machine can run; what is left out is reported.

    Raises `ConfigError` for an unknown name, for a named site that cannot run here, and when none can.
    """
    usable = []
    for name in names if names is not None else SITES:
        lacking = load_site(name).missing()
        if not lacking:
            usable.append(name)
        elif names is not None:
            raise ConfigError(f"site {name} cannot run here: {lacking}", hint="or leave it out of `sites`")
        else:
            report(f"{name}: left out: {lacking}")
    if not usable:
        raise ConfigError("the local arena has no site to run", hint="pip install 'coevo[arena]'")
    return list(dict.fromkeys(usable))


class Arena:
    """Running sites. `start` makes one; `close` ends what it has started.

    `logins[site]` holds the browser state of each logged-in account; slots begin with these sessions.
    """

    def __init__(self, servers: Mapping[str, SiteServer], root: Path, *, slots: int, seed: int) -> None:
        self.servers = dict(servers)
        self.root = root
        self.slots = slots
        self.seed = seed
        self.slot_numbers: Sequence[int] = range(slots)
        self.logins: dict[str, LoginStates] = {}
        self.claims: list[IO[str]] = []
        """Locks on `slot_numbers`, where other processes use the same sites."""
        self.own_root = True

    @classmethod
    async def start(
        cls,
        sites: Sequence[str] | None = None,
        *,
        slots: int,
        seed: int = 0,
        browser: Browser | None = None,
        report: Report = lambda _: None,
    ) -> Arena:
        """Builds what is not built yet, starts all sites at once, and logs in every account.

        `sites`: all that can run here if None. `seed`: of the content. Raises `ConfigError` for what the machine lacks,
        `WorldError` when a site does not come up; nothing is left running then.
        """
        if slots < 1:
            raise ConfigError(f"slots = {slots}: the arena needs at least one")
        names = usable_sites(sites, report)
        root = make_root()
        servers = {name: SiteServer(name, Path(), root, slots) for name in names}
        arena = cls(servers, root, slots=slots, seed=seed)
        try:
            await _all(arena._bring_up(server, report) for server in servers.values())
            await arena._log_in(browser, report)
        except BaseException:
            await arena.close()
            raise
        return arena

    async def _bring_up(self, server: SiteServer, report: Report) -> None:
        begun = time.monotonic()
        built = is_built(server.name, self.seed)
        if not built:
            report(f"{server.name}: building its content")
        server.base = await asyncio.to_thread(seed_state, server.name, self.seed)
        logins = saved_logins(seed_folder(server.name, self.seed), load_site(server.name))
        if logins is not None:
            self.logins[server.name], server.base = logins, logins.base
        await server.start()
        await server.probe(0)
        report(f"{server.name}: {server.url(0)} answers after {time.monotonic() - begun:.1f} s")

    async def _log_in(self, browser: Browser | None, report: Report) -> None:
        """Logs in every account of sites that have no saved logins, through their forms, and makes that the base."""
        from webarena.browser import Browser
        from webarena.sites.logins import make_logins

        needed = [server for name, server in self.servers.items() if name not in self.logins]
        needed = [server for server in needed if load_site(server.name).accounts]
        if not needed:
            return
        begun = time.monotonic()
        own = browser or Browser(viewport=(1280, 720))
        try:
            for server in needed:
                folder = seed_folder(server.name, self.seed)
                self.logins[server.name] = await make_logins(load_site(server.name), server, folder, own)
                server.base = self.logins[server.name].base
                await server.ask("rebase", base=str(server.base))
        finally:
            if browser is None:
                await own.close()
        names = ", ".join(server.name for server in needed)
        report(f"logged in the accounts of {names} in {time.monotonic() - begun:.1f} s")

    def urls(self, slot: int) -> dict[str, str]:
        """Base URL of each site for a slot, without a trailing slash."""
        return {name: server.url(slot) for name, server in self.servers.items()}

    def storage_state(self, slot: int, sites: Sequence[str], account: str) -> dict[str, Any] | None:
        """Playwright's storage state with `account` logged in on `sites`; "default": the first account of each.

        None for nobody. Raises `ConfigError` when no site knows the account.
        """
        if not account:
            return None
        merged: dict[str, Any] = {"cookies": [], "origins": []}
        found = False
        for name in sites:
            logins = self.logins.get(name)
            state = logins.state(account, self.servers[name].url(slot)) if logins else None
            if state is not None:
                found = True
                merged["cookies"] += state["cookies"]
                merged["origins"] += state["origins"]
        if not found and account != "default":
            raise ConfigError(f"no account {account!r} on {', '.join(sites)}")
        return merged if found else None

    def changeable(self) -> list[str]:
        """Sites that an episode can change."""
        return [name for name in self.servers if not load_site(name).read_only]

    async def restore(self, slot: int, sites: Sequence[str] | None = None) -> None:
        """Puts sites (all that can change if None) of a slot back to their base. A site that is gone is started again."""
        names = sites if sites is not None else self.changeable()
        await _all(self._restore(self.servers[name], slot, "restore") for name in names)

    async def tidy(self, slot: int, sites: Sequence[str]) -> None:
        """Restores those of `sites` whose files have changed."""
        await _all(self._restore(self.servers[name], slot, "tidy") for name in sites)

    async def _restore(self, server: SiteServer, slot: int, operation: str) -> None:
        if server.alive:
            pid = server.pid
            try:
                await server.ask(operation, slot=slot)
            except WorldError:
                await server.restart(pid)
        else:
            await server.start()

    async def snapshot(self, site: str, slot: int, name: str) -> Path:
        """Keeps the state of a site's slot under a name, as long as the arena lives. `restore_snapshot` brings it back."""
        folder = self._snapshot_folder(site, name)
        await self.servers[site].ask("snapshot", slot=slot, to=str(folder))
        return folder

    async def restore_snapshot(self, site: str, slot: int, name: str) -> None:
        """Puts a site's slot into a state kept by `snapshot`."""
        await self.servers[site].ask("restore", slot=slot, **{"from": str(self._snapshot_folder(site, name))})

    def _snapshot_folder(self, site: str, name: str) -> Path:
        return self.servers[site].folder / "snapshots" / name

    async def revive(self, sites: Sequence[str]) -> None:
        """Starts the sites among `sites` whose process is gone."""
        await _all(self.servers[name].start() for name in sites if not self.servers[name].alive)

    async def status(self) -> dict[str, dict[str, Any]]:
        """For each site what its process says, or {"error": …}."""

        async def one(server: SiteServer) -> dict[str, Any]:
            try:
                return await server.ask("status")
            except WorldError as error:
                return {"error": error.message}

        answers = await asyncio.gather(*(one(server) for server in self.servers.values()))
        return dict(zip(self.servers, answers, strict=True))

    async def close(self) -> None:
        """Ends the processes this arena has started, and removes their files."""
        await asyncio.gather(
            *(server.stop() for server in self.servers.values() if server.ours or self.own_root)
        )
        for claim in self.claims:
            claim.close()
        self.claims.clear()
        if self.own_root:
            shutil.rmtree(self.root, ignore_errors=True)

    def record(self) -> dict[str, Any]:
        """What another process needs to use these sites (`webarena.standing`)."""
        return {
            "root": str(self.root),
            "slots": self.slots,
            "seed": self.seed,
            "sites": {
                name: {
                    "pid": server.pid,
                    "ports": list(server.ports),
                    "base": str(server.base),
                    "seed_folder": str(seed_folder(name, self.seed)),
                }
                for name, server in self.servers.items()
            },
        }


class ArenaWorlds:
    """Lends the slots of an arena, which `connect` starts or finds at the first lease (`webarena.worlds.Worlds`).

    As soon as a slot comes back, its sites that were written are restored in the background, before it is lent again; so are
    those whose files have changed although they got no request that should (a logout by a link, a counter of views).
    """

    def __init__(self, connect: Callable[[], Awaitable[Arena]], size: int) -> None:
        self.size = size
        self.arena: Arena | None = None
        self._connect = connect
        self._starting = asyncio.Lock()
        self._free: asyncio.Queue[int] = asyncio.Queue()
        self._lent: set[int] = set()
        self._dirty: dict[int, set[str]] = {}
        self._broken: set[int] = set()
        self._cleaning: set[asyncio.Task[None]] = set()

    async def lease(self, sites: Sequence[str], *, account: str, writes: bool) -> Lease:
        """A slot of its own for every episode, whether it writes or not. Raises `WorldError` when a site stays down."""
        arena = await self._running()
        unknown = [name for name in sites if name not in arena.servers]
        if unknown:
            raise ConfigError(f"the arena runs without {', '.join(unknown)}", hint="start it with this site")
        slot = await self._free.get()
        try:
            await self._clean(arena, slot)
            await arena.revive(sites)
            lease = Lease(arena.urls(slot), arena.storage_state(slot, sites, account), key=slot)
        except BaseException:
            self._free.put_nowait(slot)
            raise
        self._lent.add(slot)
        return lease

    async def give_back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        """Returns at once; a second return of the same lease does nothing."""
        slot = lease.key
        if self.arena is None or slot not in self._lent:
            return
        self._lent.discard(slot)
        self._dirty.setdefault(slot, set()).update(written)
        if broken:
            self._broken.add(slot)
        task = asyncio.create_task(self._clean_and_free(self.arena, slot))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def close(self) -> None:
        for task in tuple(self._cleaning):
            task.cancel()
        await asyncio.gather(*self._cleaning, return_exceptions=True)
        arena, self.arena = self.arena, None
        if arena is not None:
            await arena.close()

    async def _running(self) -> Arena:
        async with self._starting:
            if self.arena is None:
                self.arena = await self._connect()
                for slot in self.arena.slot_numbers:
                    self._free.put_nowait(slot)
            return self.arena

    async def _clean_and_free(self, arena: Arena, slot: int) -> None:
        try:
            await self._clean(arena, slot)
        except WorldError:
            pass  # stays dirty: the next lease tries again and tells
        finally:
            self._free.put_nowait(slot)

    async def _clean(self, arena: Arena, slot: int) -> None:
        """Restores what is dirty; after a break every site, and each must answer."""
        if slot in self._broken:
            await _all(self._mend(arena, arena.servers[name], slot) for name in arena.servers)
        elif slot in self._dirty:
            names = arena.changeable()
            written = [name for name in names if name in self._dirty[slot]]
            await arena.restore(slot, written)
            await arena.tidy(slot, [name for name in names if name not in written])
        self._broken.discard(slot)
        self._dirty.pop(slot, None)

    async def _mend(self, arena: Arena, server: SiteServer, slot: int) -> None:
        if not load_site(server.name).read_only:
            await arena.restore(slot, [server.name])
        elif server.alive:
            try:
                await server.probe(slot, timeout_s=10.0)
                return
            except WorldError:
                await arena.restore(slot, [server.name])
        else:
            await server.start()
        pid = server.pid
        try:
            await server.probe(slot)
        except WorldError:
            await server.restart(pid)
            await server.probe(slot)


def make_root() -> Path:
    """A new folder for an arena's sockets and slots, with a path short enough for Unix sockets."""
    longest = max(len(name) for name in SITES) + len("/coevo-arena-12345678/.sock")
    parent = tempfile.gettempdir()
    if len(parent.encode()) + longest > SOCKET_PATH_LIMIT:
        parent = "/tmp"
    return Path(tempfile.mkdtemp(prefix="coevo-arena-", dir=parent))


async def _all(works: Any) -> None:
    """Awaits all; raises the first error after the others have ended, so that none runs on unseen."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


__all__ = ["Arena", "ArenaWorlds", "usable_sites"]

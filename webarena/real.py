"""The real WebArena sites, by URL: any number of copies of each, lent so that no episode meets what another wrote.

Episodes that only read share a copy. One that is meant to write gets a copy to itself. A copy that was written to is out
of service until its reset command has put it back and it answers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from coevo.errors import ConfigError, WorldError
from webarena.accounts import account_of
from webarena.configs import SITES
from webarena.login import Logins, fetch_text, merge, with_login
from webarena.worlds import Lease

HOST_VARIABLE = "WEBARENA_HOST"
PUBLISHED: Mapping[str, str] = {
    "shopping": ":7770",
    "shopping_admin": ":7780/admin",
    "reddit": ":9999",
    "gitlab": ":8023",
    "map": ":3000",
    "wikipedia": ":8888/wikipedia_en_all_maxi_2022-05/A/User:The_other_Kiwix_guy/Landing",
}
"""Ports and paths of the published images, behind `http://$WEBARENA_HOST`."""
RESET_TIMEOUT_S = 900.0
HEALTH_TIMEOUT_S = 300.0
HEALTH_EVERY_S = 1.0
SHARING = 8
PING_TIMEOUT_S = 20.0
LOG_CHARACTERS = 400


def site_urls(given: Mapping[str, str | Sequence[str]] | None = None) -> dict[str, tuple[str, ...]]:
    """Base URLs of each site's copies, without trailing slashes: `given`, else `$WA_SHOPPING` or `$SHOPPING` (several are
    separated by commas or spaces), else the published ports on `$WEBARENA_HOST`. Sites without any are left out.

    Raises `ConfigError` for an unknown site and for what is no URL.
    """
    for site in given or {}:
        if site not in SITES:
            raise ConfigError(f"there is no WebArena site {site!r}", hint=f"sites: {', '.join(SITES)}")
    found = {}
    for site in SITES:
        source = f"urls.{site}"
        urls = (given or {}).get(site, "")
        for variable in (f"WA_{site.upper()}", site.upper()):
            if not urls and os.environ.get(variable):
                urls, source = os.environ[variable], f"${variable}"
        if not urls and (host := os.environ.get(HOST_VARIABLE)):
            urls, source = (
                f"http://{host.removeprefix('http://').rstrip('/')}{PUBLISHED[site]}",
                f"${HOST_VARIABLE}",
            )
        listed = urls.replace(",", " ").split() if isinstance(urls, str) else list(urls)
        for url in listed:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.netloc:
                raise ConfigError(
                    f"{source}: {url!r} is no URL", hint="write for example http://my-host:7770"
                )
        if listed:
            found[site] = tuple(url.rstrip("/") for url in listed)
    return found


@dataclass(eq=False, slots=True)
class Replica:
    """A copy of a site. `users`: episodes on it now, `writing`: one that has it to itself."""

    site: str
    url: str
    number: int
    users: int = 0
    writing: bool = False
    dirty: bool = False
    suspect: bool = False
    """Something did not answer; it is looked at before it is lent again."""
    condition: Literal["up", "busy", "down"] = "up"
    """`busy`: being reset or looked at. `down`: that failed, and `problem` says how."""
    problem: str = ""

    def free_for(self, *, writing: bool, sharing: int) -> bool:
        if self.condition != "up" or self.dirty or self.suspect or self.writing:
            return False
        return self.users == 0 if writing else self.users < sharing


@dataclass(eq=False, slots=True)
class _Waiting:
    sites: tuple[str, ...]
    writing: bool
    granted: asyncio.Future[dict[str, Replica]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class RealWorlds:
    """Lends copies of real sites (`webarena.worlds.Worlds`).

    `urls`: copies of each site. `resets`: a shell command for each site that can be written to; it finds `COEVO_SITE`,
    `COEVO_URL` and `COEVO_REPLICA` (from 0) in its environment, and returns 0 when the site is as new. `sharing`:
    episodes that may read one copy at once. `drift`: sites without a reset command are used on as they are.
    """

    def __init__(
        self,
        urls: Mapping[str, Sequence[str]],
        logins: Logins,
        *,
        resets: Mapping[str, str] | None = None,
        reset_timeout_s: float = RESET_TIMEOUT_S,
        health_timeout_s: float = HEALTH_TIMEOUT_S,
        sharing: int = SHARING,
        drift: bool = False,
    ) -> None:
        self.replicas = {
            site: [Replica(site, url, number) for number, url in enumerate(copies)]
            for site, copies in urls.items()
        }
        self.size = sharing * min(map(len, self.replicas.values()), default=1)
        self.resets = dict(resets or {})
        self._logins = logins
        self._reset_timeout_s = reset_timeout_s
        self._health_timeout_s = health_timeout_s
        self._sharing = sharing
        self._drift = drift
        self._waiting: list[_Waiting] = []
        self._mending: set[asyncio.Task[None]] = set()

    async def lease(self, sites: Sequence[str], *, account: str, writes: bool) -> Lease:
        """Copies of all `sites` at once; first come, first served, so that a writer is not passed over for ever.

        `account`: "" for nobody, "default" for the benchmark's user of each site that has one, "default@gitlab.reddit"
        for that of some. Raises `ConfigError` for a site without URL, or to write to one without a reset command;
        `WorldError` when no copy of a site is left, or a login fails.
        """
        for site in sites:
            if site not in self.replicas:
                raise ConfigError(
                    f"the site {site} has no URL", hint=f"set WA_{site.upper()}, or urls.{site}"
                )
            if writes and not self._drift and site in with_login(sites) and site not in self.resets:
                raise ConfigError(
                    f"a task that writes to {site} needs a way to undo it",
                    hint=f"give resets.{site} a command, or set drift = true and let episodes meet what others wrote",
                )
        waiting = _Waiting(tuple(dict.fromkeys(sites)), writes)
        self._waiting.append(waiting)
        self._grant()
        try:
            taken = await waiting.granted
        except BaseException:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif (
                waiting.granted.done() and not waiting.granted.cancelled() and not waiting.granted.exception()
            ):
                self._leave(waiting.granted.result())
            self._grant()
            raise
        lease_urls = {site: replica.url for site, replica in taken.items()}
        try:
            state = await self._logged_in(lease_urls, account)
        except BaseException as error:
            self._leave(taken, broken=isinstance(error, WorldError))
            raise
        return Lease(lease_urls, state, key=taken)

    async def give_back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        """Resets what was written, and looks at what may be broken, once nobody uses it any more; in the background."""
        self._leave(lease.key, written=written, broken=broken)

    async def close(self) -> None:
        """Stops resets that are under way."""
        for task in self._mending:
            task.cancel()
        await asyncio.gather(*self._mending, return_exceptions=True)

    async def settled(self) -> None:
        """Returns once no copy is being reset or looked at."""
        while self._mending:
            await asyncio.gather(*self._mending, return_exceptions=True)

    def _grant(self) -> None:
        """Serves who waits, in order; who cannot be served holds back later ones for the same sites."""
        held: set[str] = set()
        for waiting in list(self._waiting):
            if waiting.granted.done():
                self._waiting.remove(waiting)
                continue
            lost = next((site for site in waiting.sites if self._lost(site)), None)
            if lost is not None:
                problems = "; ".join(f"{copy.url}: {copy.problem}" for copy in self.replicas[lost])
                self._waiting.remove(waiting)
                waiting.granted.set_exception(
                    WorldError(
                        f"no copy of {lost} is left: {problems}",
                        hint="repair them, then: coevo webarena check",
                    )
                )
                continue
            chosen = {site: self._free(site, waiting.writing) for site in waiting.sites}
            taken = {site: replica for site, replica in chosen.items() if replica is not None}
            if held & set(waiting.sites) or len(taken) < len(chosen):
                held |= set(waiting.sites)
                continue
            for replica in taken.values():
                replica.users += 1
                replica.writing = waiting.writing
            self._waiting.remove(waiting)
            waiting.granted.set_result(taken)

    def _lost(self, site: str) -> bool:
        return all(replica.condition == "down" for replica in self.replicas[site])

    def _free(self, site: str, writing: bool) -> Replica | None:
        """A copy that can be lent: the fullest one, so that others stay free for who writes."""
        free = [copy for copy in self.replicas[site] if copy.free_for(writing=writing, sharing=self._sharing)]
        return max(free, key=lambda copy: (copy.users, -copy.number), default=None)

    def _leave(
        self, taken: Mapping[str, Replica], *, written: Sequence[str] = (), broken: bool = False
    ) -> None:
        for site, replica in taken.items():
            replica.users -= 1
            replica.writing = False
            replica.dirty |= site in written
            replica.suspect |= broken
            self._tend(replica)
        self._grant()

    def _tend(self, replica: Replica) -> None:
        """Resets a copy that was written to, once nobody uses it; looks at a suspect one at once. In the background."""
        if replica.condition == "up" and (replica.users == 0 if replica.dirty else replica.suspect):
            replica.condition = "busy"
            task = asyncio.create_task(self._mend(replica))
            self._mending.add(task)
            task.add_done_callback(self._mending.discard)

    async def _mend(self, replica: Replica) -> None:
        resetting = replica.dirty
        try:
            if resetting:
                await self._reset(replica)
                self._logins.forget(replica.site, replica.url)
            await self._wait_until_healthy(replica)
        except WorldError as error:
            replica.condition, replica.problem = "down", error.message
        else:
            replica.condition, replica.suspect = "up", False
            replica.dirty = replica.dirty and not resetting
            self._tend(replica)
        self._grant()

    async def _reset(self, replica: Replica) -> None:
        command = self.resets.get(replica.site)
        if command is None:
            if self._drift:
                return
            raise WorldError(f"it was written to and {replica.site} has no reset command")
        environment = os.environ | {
            "COEVO_SITE": replica.site,
            "COEVO_URL": replica.url,
            "COEVO_REPLICA": str(replica.number),
        }
        with tempfile.TemporaryFile() as log:  # not a pipe: what the command starts may keep it open
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", command),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                await asyncio.wait_for(process.wait(), self._reset_timeout_s)
            except TimeoutError as error:
                raise WorldError(f"its reset did not end within {self._reset_timeout_s:g} s") from error
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            if process.returncode:
                log.seek(0)
                said = log.read().decode(errors="replace").strip()[-LOG_CHARACTERS:]
                status = f"its reset ended with status {process.returncode}"
                raise WorldError(f"{status}: {said}" if said else status)

    async def _wait_until_healthy(self, replica: Replica) -> None:
        clock = asyncio.get_running_loop().time
        end = clock() + self._health_timeout_s
        while True:
            try:
                await ping(replica.url)
            except WorldError as error:
                if clock() > end:
                    raise WorldError(f"it does not answer: {error.message}") from error
                await asyncio.sleep(HEALTH_EVERY_S)
            else:
                return

    async def _logged_in(self, urls: Mapping[str, str], account: str) -> dict[str, Any] | None:
        if not account:
            return None
        who, _, named = account.partition("@")
        if who != "default":
            raise ConfigError(f"the real sites have no account {account!r}", hint="theirs is called default")
        wanted = [site for site in with_login(list(urls)) if not named or site in named.split(".")]
        states = await asyncio.gather(
            *(self._logins.state(site, urls[site], account_of(site)) for site in wanted)
        )
        return merge(dict(zip(wanted, states, strict=True)))


async def ping(url: str, *, timeout_s: float = PING_TIMEOUT_S) -> int:
    """Status of the page at `url`. Raises `WorldError` without an answer, or with one that says the site is broken."""
    status, _, _ = await fetch_text(url, timeout_s=timeout_s)
    if status >= 500:
        raise WorldError(f"{url} answered {status}")
    return status

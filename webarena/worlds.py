"""Where the sites of an episode are: the contract between the WebArena environment and whoever provides the sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """The sites one episode may use, until it is given back.

    `urls`: base URL of each site by name, without a trailing slash. `storage_state`: Playwright's storage state in which
    the accounts that the task needs are logged in, or None. `key` is the provider's own.
    """

    urls: Mapping[str, str]
    storage_state: Mapping[str, Any] | None = None
    key: Any = field(default=None, compare=False)


class Worlds(Protocol):
    """Provides sites to episodes: local private copies (`webarena.arena`), or real sites by URL (`webarena.real`)."""

    size: int
    """Episodes that can be under way at once."""

    async def lease(self, sites: Sequence[str], *, account: str, writes: bool) -> Lease:
        """Sites for one episode, in their seed state when `writes`. Waits for a free copy. `account`: whom to be logged in
        as ("" for nobody; "default" for the benchmark's one user of each site). Raises `WorldError` when a site is down.
        """
        ...

    async def give_back(self, lease: Lease, *, written: Sequence[str] = (), broken: bool = False) -> None:
        """End a lease. `written`: sites that got a request other than GET or HEAD; they are restored before the copy is used
        again. `broken`: something did not answer; everything of the copy is restored or restarted."""
        ...

    async def close(self) -> None: ...

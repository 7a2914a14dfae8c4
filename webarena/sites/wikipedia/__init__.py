"""An invented encyclopaedia, served by kiwix-serve from a ZIM file: the arena's *wikipedia*. Read-only, so all slots share it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from coevo.errors import WorldError
from webarena.sites.base import Account, Template

if TYPE_CHECKING:
    from playwright.async_api import Page


class Wikipedia:
    name = "wikipedia"
    read_only = True
    accounts: Mapping[str, Account] = {}

    def missing(self) -> str:
        from webarena.sites.wikipedia.kiwix import REMEDY, find_kiwix

        if find_spec("libzim") is None:
            return "the package libzim is not installed: pip install 'coevo[arena]'"
        return "" if find_kiwix() else f"kiwix-serve is not installed: {REMEDY}"

    def build(self, state: Path, seed: int) -> None:
        from webarena.sites.wikipedia.build import write_zim

        write_zim(state, seed)

    def load(self) -> None:
        from webarena.sites.wikipedia import kiwix  # noqa: F401

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        from webarena.sites.wikipedia.kiwix import serve

        serve(state, listener)

    async def login(self, page: Page, account: Account, url: str) -> None:
        raise WorldError("nobody can log in to an encyclopaedia without accounts")

    async def logged_in(self, page: Page, account: Account, url: str) -> bool:
        return False

    def templates(self) -> Sequence[Template]:
        from webarena.sites.wikipedia.tasks import TEMPLATES

        return TEMPLATES


site = Wikipedia()

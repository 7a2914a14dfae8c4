"""A small site for tests of the arena: a counter in a file, and a login whose sessions lie in the state."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from webarena.sites.base import Account, Template


class ToySite:
    name = "toy"
    read_only = False
    accounts: Mapping[str, Account] = {"ann": Account("ann", "secret"), "bob": Account("bob", "secret")}

    def missing(self) -> str:
        return os.environ.get("TOY_MISSING", "")

    def build(self, state: Path, seed: int) -> None:
        print(f"building with seed {seed}")
        if os.environ.get("TOY_BUILD_FAILS"):
            raise RuntimeError("the toy's paint has run out")
        (state / "sessions").mkdir()
        (state / "count").write_text(str(seed))

    def load(self) -> None:
        pass

    def serve(self, state: Path, listener: socket.socket, url: str) -> None:
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

        if os.environ.get("TOY_SERVE_FAILS"):
            raise RuntimeError("the toy does not turn")

        class Quiet(WSGIRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

        server = WSGIServer(listener.getsockname(), Quiet, bind_and_activate=False)
        server.socket = listener
        server.server_name, server.server_port = "127.0.0.1", listener.getsockname()[1]
        server.setup_environ()
        server.set_app(lambda environ, start: _page(state, environ, start))
        server.serve_forever()

    async def login(self, page: Any, account: Account, url: str) -> None:
        await page.goto(f"{url}/login?name={account.name}")

    async def logged_in(self, page: Any, account: Account, url: str) -> bool:
        await page.goto(f"{url}/me")
        return account.name in await page.content()

    def templates(self) -> Sequence[Template]:
        return []


def _page(state: Path, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    path, count = environ["PATH_INFO"], state / "count"
    headers = [("Content-Type", "text/html")]
    if path == "/add":
        count.write_text(str(int(count.read_text()) + 1))
    elif path == "/die":
        os._exit(3)
    elif path == "/login":
        key = secrets.token_hex(8)
        (state / "sessions" / key).write_text(parse_qs(environ["QUERY_STRING"])["name"][0])
        headers.append(("Set-Cookie", f"toy_session={key}; Path=/"))
    elif path == "/me":
        keys = environ.get("HTTP_COOKIE", "").replace("toy_session=", "").split("; ")
        names = [(state / "sessions" / key) for key in keys if key]
        start("200 OK", headers)
        return [",".join(name.read_text() for name in names if name.exists()).encode()]
    start("200 OK", headers)
    return [count.read_text().encode()]


site = ToySite()

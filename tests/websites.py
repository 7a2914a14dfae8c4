"""A small web site with everything that makes browsing hard, and what the WebArena tests share."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from coevo.env import Task

PAGES = {
    "/": """<title>Home</title><h1>Home</h1>
      <a href=/item>Item</a> <a href=/popup target=_blank>New window</a> <a href=/slow>Slow</a>
      <a href=/hang>Hang</a> <a href=/file>File</a> <a href=/gone>Redirect away</a>
      <a href="http://elsewhere.example/x">Elsewhere</a>
      <a href="http://elsewhere.example/x" target=_blank>Elsewhere in a new tab</a>
      <button onclick="window.open('/popup')">Open</button>
      <button onclick="window.open('http://elsewhere.example/')">Open elsewhere</button>
      <button onclick="alert('Mind the gap')">Alert</button>
      <button onclick="out.textContent = confirm('Really?') ? 'yes' : 'no'">Confirm</button>
      <button onclick="out.textContent = prompt('Name?', 'Ada')">Prompt</button>
      <button onclick="while (true);">Loop</button>
      <button onclick="fetch('/data').then(r => r.text()).then(t => out.textContent = t)">Load</button>
      <button onclick="location.href = 'http://elsewhere.example/y'">Leave by script</button>
      <label>Picture <input type=file></label><p id=out></p>""",
    "/item": "<title>Item</title><h1>Item</h1><a href=/>Home</a>",
    "/popup": "<title>Popup</title><p>I popped up</p><button onclick='window.close()'>Close me</button>",
    "/frame": "<title>Frame</title><p>Outside</p><iframe src=/inner title=Inner></iframe>",
    "/inner": "<button onclick=\"this.textContent='pressed'\">Inside</button>",
    "/form": "<title>Form</title><form method=post action=/save><input name=q aria-label=Query><button>Save</button></form>",
    "/search": "<title>Search</title><form action=/found><input name=q aria-label=Query></form>",
    "/unload": "<title>Unload</title><a href=/item>Item</a><input aria-label=Draft><script>onbeforeunload = () => 'no'</script>",
    "/graph": "<title>Graph</title><button onclick=\"ask('query { a }')\">Query</button>"
    "<button onclick=\"ask('mutation { a }')\">Mutate</button>"
    "<script>ask = (query) => fetch('/api/graphql', {method: 'POST', body: JSON.stringify({query})})</script>",
    "/long": "<title>Long</title>" + "".join(f"<p><a href=/item>Row {i}</a></p>" for i in range(400)),
    "/storage": "<title>Storage</title><p id=out></p><script>out.textContent = 'found ' + (localStorage.mark || 'nothing')"
    " + ' and ' + (sessionStorage.mark || 'nothing'); localStorage.mark = sessionStorage.mark = 'a mark'</script>",
}


class Handler(http.server.BaseHTTPRequestHandler):
    """`/who` tells the cookie `user`; `/login?user=…` sets it; POST writes; `/hang` never answers."""

    protocol_version = "HTTP/1.1"
    server: Any

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        site: Site = self.server.site
        site.requests.append((self.command, self.path))
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        path = address.path
        if path in site.down:
            return self.answer("<title>Down</title>", status=site.down[path])
        if path == "/hang":
            site.released.wait(20)
            return self.answer("late")
        if path == "/slow":
            time.sleep(0.4)
            return self.answer("<title>Slow</title><p>At last</p>")
        if path == "/data":
            time.sleep(0.3)
            return self.answer("loaded data")
        if path == "/file":
            return self.answer("a,b", headers={"Content-Disposition": 'attachment; filename="report.csv"'})
        if path == "/gone":
            return self.answer("", status=302, headers={"Location": "http://elsewhere.example/z"})
        if path == "/login":
            return self.answer("in", headers={"Set-Cookie": f"user={query['user']}"})
        if path == "/who":
            cookie = self.headers.get("Cookie", "").split("user=")
            return self.answer(
                f"<title>Who</title><p>You are {cookie[1] if len(cookie) > 1 else 'nobody'}</p>"
            )
        if path == "/found":
            return self.answer(f"<title>Found</title><p>Found {query.get('q', '')}</p>")
        if path not in PAGES:
            return self.answer("<title>Missing</title><p>Missing</p>", status=404)
        return self.answer(PAGES[path])

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.site.requests.append((self.command, self.path))
        self.answer("<title>Saved</title><p>Saved</p>")

    def answer(self, body: str, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        content = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        return None  # a browser that hangs up


class Site:
    """A running site. `down`: status by path instead of a page; `requests`: what was asked for."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler] = Handler) -> None:
        self.requests: list[tuple[str, str]] = []
        self.down: dict[str, int] = {}
        self.released = threading.Event()
        self._server = Server(("127.0.0.1", 0), handler)
        self._server.site = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler] = Handler) -> Iterator[Site]:
    site = Site(handler)
    try:
        yield site
    finally:
        site.close()


def unused_url() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def config(**changes: Any) -> dict[str, Any]:
    """A WebArena task as its file has it."""
    answers = {"exact_match": "42"}
    return {
        "sites": ["shopping"],
        "task_id": 1,
        "require_login": True,
        "storage_state": None,
        "start_url": "__SHOPPING__/",
        "geolocation": None,
        "intent_template": "Find it",
        "instantiation_dict": {},
        "intent": "Find it",
        "require_reset": False,
        "eval": {
            "eval_types": ["string_match"],
            "reference_answers": answers,
            "reference_url": "",
            "program_html": [],
        },
        "intent_template_id": 1,
        **changes,
    }


def task(**changes: Any) -> Task:
    return Task(id="t", goal="Find it", data={"config": config(**changes)})


@dataclass(frozen=True)
class Verdict:
    reward: float
    components: dict[str, float]
    scorer: str = "fake/1"


class Scorer:
    """Right is the answer 42. Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def score(self, config: Any, *, answer: str, page: Any, urls: Any) -> Verdict:
        self.asked.append((answer, page.url))
        right = float(answer == "42")
        return Verdict(right, {"string_match": right})

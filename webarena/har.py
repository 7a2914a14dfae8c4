"""What a browser context asks of its sites, written as an HTTP Archive (HAR 1.2) for scorers that judge by network traffic.

Playwright's own recording ends with its context; contexts are used again here, so an episode's requests are picked up
from events. Pictures, styles, scripts and fonts are left out, bodies of answers kept only where they are JSON.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Request

IGNORED_RESOURCES = frozenset({"image", "stylesheet", "script", "font", "media"})
BODY_LIMIT_BYTES = 2_000_000
DETAILS_TIMEOUT_S = 5.0


class Recorder:
    """Records a context's requests from its making until `stop`, in the order they were sent. `closed`: the context is."""

    def __init__(self, context: BrowserContext) -> None:
        self.closed = False
        self._context = context
        self._requests: list[Request] = []
        self._entries: dict[Request, asyncio.Task[dict[str, Any]]] = {}
        self._listeners = {
            "request": self._sent,
            "requestfinished": self._ended,
            "requestfailed": self._ended,
            "close": self._context_closed,
        }
        for event, listener in self._listeners.items():
            context.on(event, listener)  # type: ignore[call-overload]

    def end(self) -> None:
        """Record no more. A second call does nothing."""
        for event, listener in self._listeners.items():
            self._context.remove_listener(event, listener)
        self._listeners = {}

    async def stop(self) -> dict[str, Any]:
        """The archive. Requests still under way are left out. A second call gives the same."""
        self.end()
        entries = [await self._entries[request] for request in self._requests if request in self._entries]
        return {"log": {"version": "1.2", "creator": {"name": "coevo", "version": "1"}, "entries": entries}}

    def _context_closed(self, _: object) -> None:
        self.closed = True

    def _sent(self, request: Request) -> None:
        if request.resource_type not in IGNORED_RESOURCES:
            self._requests.append(request)

    def _ended(self, request: Request) -> None:
        if request.resource_type not in IGNORED_RESOURCES and request not in self._entries:
            self._entries[request] = asyncio.ensure_future(_entry(request))


def write(archive: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(archive, ensure_ascii=False), encoding="utf-8")


async def _entry(request: Request) -> dict[str, Any]:
    """What is known of a request. What the browser no longer tells, since the page is gone, is left blank."""
    from playwright.async_api import Error

    headers: dict[str, str] = request.headers
    response: dict[str, Any] = {"status": 0, "headers": [], "cookies": [], "content": {}, "redirectURL": ""}
    try:
        async with asyncio.timeout(DETAILS_TIMEOUT_S):
            headers = await request.all_headers()
            response = await _response(request)
    except (Error, TimeoutError):
        pass
    asked: dict[str, Any] = {
        "method": request.method,
        "url": request.url,
        "httpVersion": "HTTP/1.1",
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
        "cookies": [],
        "queryString": [
            {"name": name, "value": value}
            for name, value in parse_qsl(urlsplit(request.url).query, keep_blank_values=True)
        ],
        "headersSize": -1,
        "bodySize": -1,
    }
    if request.post_data_buffer:
        text = request.post_data_buffer.decode("utf-8", errors="replace")
        asked["postData"] = {"mimeType": headers.get("content-type", ""), "text": text}
    return {
        "startedDateTime": "",
        "time": 0,
        "request": asked,
        "response": response,
        "cache": {},
        "timings": {},
    }


async def _response(request: Request) -> dict[str, Any]:
    answer = await request.response()
    onward = request.redirected_to
    if answer is None:
        return {"status": 0, "headers": [], "cookies": [], "content": {}, "redirectURL": ""}
    headers = await answer.headers_array()
    kind = next((entry["value"] for entry in headers if entry["name"].lower() == "content-type"), "")
    content: dict[str, Any] = {"size": -1, "mimeType": kind}
    if "json" in kind and onward is None:
        body = await answer.body()
        if len(body) <= BODY_LIMIT_BYTES:
            content |= {"size": len(body), "text": body.decode("utf-8", errors="replace")}
    return {
        "status": answer.status,
        "statusText": answer.status_text,
        "httpVersion": "HTTP/1.1",
        "headers": [dict(entry) for entry in headers],
        "cookies": [_cookie(entry["value"]) for entry in headers if entry["name"].lower() == "set-cookie"],
        "content": content,
        "redirectURL": onward.url if onward is not None else "",
        "headersSize": -1,
        "bodySize": -1,
    }


def _cookie(header: str) -> dict[str, str]:
    name, _, value = header.split(";", 1)[0].partition("=")
    return {"name": name.strip(), "value": value.strip()}

"""The addresses of an episode's sites: shown to the agent under the sites' names, so that a text does not depend on which
copy of a site an episode got, and kept to those sites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urljoin, urlsplit


class Addresses:
    """Base URLs by site. `http://127.0.0.1:8021/cart` is shown as `http://shopping/cart`, and read back from it."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self.urls = {site: url.rstrip("/") for site, url in urls.items()}
        self.origins = frozenset(origin(url) for url in self.urls.values())
        longest = sorted(self.urls.items(), key=lambda item: -len(item[1]))
        self._names = {url: f"http://{site}" for site, url in longest}
        hosts = {urlsplit(url).netloc: site for site, url in longest if urlsplit(url).port}
        self._names |= hosts
        self._real = _any_of(self._names)
        self._shown = _any_of(f"http://{site}" for site in self.urls)

    def shown(self, text: str) -> str:
        """`text` with the sites' names in place of their addresses."""
        return self._real.sub(lambda match: self._names[match[0]], text)

    def real(self, text: str) -> str:
        """`text` with the sites' addresses in place of their names."""
        return self._shown.sub(lambda match: self.urls[match[0].removeprefix("http://")], text)

    def absolute(self, text: str, current: str) -> str:
        """The address that `text` means on the page `current`: shown or real, with or without scheme, or a path (of the
        first site, on a page that is of none)."""
        text = text.strip()
        first = re.split(r"[/?#]", text, maxsplit=1)[0]
        if first in self.urls:
            return self.urls[first] + text[len(first) :]
        if text.startswith(("/", "?", "#")):
            return urljoin(current if self.allowed(current) else next(iter(self.urls.values())), text)
        if re.match(r"[A-Za-z][\w+.-]*:(?!\d)", text):
            return self.real(text)
        return self.real(f"http://{text}")

    def allowed(self, url: str) -> bool:
        return origin(url) in self.origins

    def site(self, url: str) -> str:
        """The site that serves `url`: the one with the longest base that fits, else one of its origin, else ""."""
        fitting = [
            site
            for site, base in self.urls.items()
            if url == base or url.startswith((f"{base}/", f"{base}?", f"{base}#"))
        ] or [site for site, base in self.urls.items() if origin(base) == origin(url)]
        return max(fitting, key=lambda site: len(self.urls[site]), default="")


def origin(url: str) -> str:
    """Scheme, host and port, as browsers write an origin; "" for what is no address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    default = {"http": 80, "https": 443}.get(parts.scheme)
    shown = "" if port is None or port == default else f":{port}"
    return f"{parts.scheme}://{(parts.hostname or '').lower()}{shown}"


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, texts))
    return re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w.:-])")

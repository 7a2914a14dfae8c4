"""Where webarena keeps what it fetched and built."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$COEVO_CACHE/webarena`, else `$XDG_CACHE_HOME/coevo/webarena`, else `~/.cache/coevo/webarena`. It may not exist yet."""
    if home := os.environ.get("COEVO_CACHE"):
        return Path(home) / "webarena"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coevo" / "webarena"

"""`python -m webarena.install`: find a Chromium, or install one (Playwright's build, else Debian's package)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from coevo.errors import ConfigError
from webarena.browser import INSTALL_HINT, find_chromium

PLAYWRIGHT_TIMEOUT_S = 180.0
APT_TIMEOUT_S = 600.0


def bundled_chromium() -> str:
    """Where Playwright keeps its own Chromium, whether or not it is there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return str(playwright.chromium.executable_path)


def install_chromium() -> str:
    """Path of a Chromium that is there afterwards. Raises `ConfigError` with what was tried."""
    bundled = bundled_chromium()
    try:
        return find_chromium(bundled)
    except ConfigError:
        if os.environ.get("COEVO_CHROMIUM"):
            raise
    tried = []
    for commands, timeout_s in (
        (_playwright(), PLAYWRIGHT_TIMEOUT_S),
        (apt_commands("chromium"), APT_TIMEOUT_S),
    ):
        for command in commands:
            print("+ " + " ".join(command), flush=True)
            tried.append(attempt(command, timeout_s))
        try:
            return find_chromium(bundled)
        except ConfigError:
            continue
    reasons = "; ".join(reason for reason in tried if reason) or "no installer is available here"
    raise ConfigError(f"could not install Chromium: {reasons}", hint=INSTALL_HINT)


def _playwright() -> list[list[str]]:
    return [[sys.executable, "-m", "playwright", "install", "chromium"]]


def apt_commands(package: str) -> list[list[str]]:
    """What installs a Debian package, nothing where there is no apt."""
    if shutil.which("apt-get") is None:
        return []
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    return [[*root, "apt-get", "update", "-qq"], [*root, "apt-get", "install", "-y", "-qq", package]]


def attempt(command: Sequence[str], timeout_s: float) -> str:
    """Runs an installer. Why it failed, "" if it did not."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{' '.join(command)}: {error}"
    if result.returncode == 0:
        return ""
    lines = (result.stderr or result.stdout).strip().splitlines()
    return f"{' '.join(command)}: {lines[-1] if lines else f'exit {result.returncode}'}"


if __name__ == "__main__":
    try:
        print(f"chromium: {install_chromium()}")
    except ConfigError as problem:
        sys.exit(f"error: {problem}")

"""`python -m webarena.sites.install`: find kiwix-serve, the one program of the local arena that pip does not install, or install it."""

from __future__ import annotations

import sys

from coevo.errors import ConfigError
from webarena.install import APT_TIMEOUT_S, apt_commands, attempt
from webarena.sites.wikipedia.kiwix import REMEDY, find_kiwix


def install_kiwix() -> str:
    """Path of a kiwix-serve that is there afterwards. Raises `ConfigError` with what was tried."""
    tried = []
    if find_kiwix() is None:
        for command in apt_commands("kiwix-tools"):
            print("+ " + " ".join(command), flush=True)
            tried.append(attempt(command, APT_TIMEOUT_S))
    found = find_kiwix()
    if found is None:
        reasons = "; ".join(reason for reason in tried if reason) or "no installer is available here"
        raise ConfigError(
            f"could not install kiwix-serve: {reasons}", hint=f"{REMEDY}; the arena runs without it"
        )
    return found


if __name__ == "__main__":
    try:
        print(f"kiwix-serve: {install_kiwix()}")
    except ConfigError as problem:
        sys.exit(f"error: {problem}")

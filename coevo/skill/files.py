"""Writing a skill directory: the document, its reference files, and what came with the skill and is never evolved.

Nothing is lost on the way: a directory that holds anything else, or a document nobody knows, is refused as a whole.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from coevo.errors import SkillError
from coevo.skill.document import FILE_NAME, SkillDocument, read_references

_PART = ".coevo-"  # a file being written; one is left behind when the process dies


def companions(directory: Path) -> dict[str, Path]:
    """What a skill directory holds besides the document, by path within it: scripts, assets, a licence. Links, hidden files and
    caches are left out."""
    return {
        name: path
        for name, path in _others(directory).items()
        if not path.is_symlink()
        and not any(part[0] == "." or part == "__pycache__" for part in name.split("/"))
    }


def export(
    document: SkillDocument,
    parent: str | Path,
    *,
    known: Collection[str] = (),
    source: str | Path | None = None,
) -> Path:
    """Write `document` to `<parent>/<name>/SKILL.md` and return that directory. `source`: the directory of an earlier version,
    whose `companions` are copied along.

    An existing directory is only written to when it holds nothing but such copies and a skill whose content hash is in
    `known` (or is that of `document`): whatever else is there was written by somebody, and would be lost. Raises SkillError.
    """
    document.validate()
    directory, path = Path(parent) / document.name, Path(parent) / document.name / FILE_NAME
    hint = "export to another directory, or move that one away"
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise SkillError(f"{directory} is not a directory of its own", hint=hint)
    if path.is_symlink():
        raise SkillError(f"{path} is a link", hint=hint)
    along = {} if source is None or _same(Path(source), directory) else companions(Path(source))
    if foreign := _foreign(directory, along):
        raise SkillError(
            f"{directory} holds files that coevo did not write: {', '.join(foreign[:5])}", hint=hint
        )
    if path.exists() and not _known(path, {*known, document.content_hash}):
        raise SkillError(
            f"{path} is not a version coevo knows; it was edited or written elsewhere", hint=hint
        )
    for name, origin in along.items():
        _write(directory / name, origin)
    for name, text in document.references.items():
        _write(directory / name, text + "\n")
    _write(path, document.render())
    for name in read_references(directory).keys() - document.references.keys():
        (directory / name).unlink()
    return directory


def _others(directory: Path) -> dict[str, Path]:
    """Files and links that are not the document's, by path within the directory."""
    own = {FILE_NAME, *read_references(directory)}
    found = {path.relative_to(directory).as_posix(): path for path in sorted(directory.rglob("*"))}
    return {
        name: path
        for name, path in found.items()
        if name not in own and (path.is_symlink() or not path.is_dir())
    }


def _foreign(directory: Path, along: Mapping[str, Path]) -> list[str]:
    """What a directory holds that is neither the document's nor equal to a file of `along`."""
    return [
        name
        for name, path in _others(directory).items()
        if not path.name.startswith(_PART)
        and (path.is_symlink() or name not in along or not filecmp.cmp(path, along[name], shallow=False))
    ]


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _known(path: Path, hashes: set[str]) -> bool:
    try:
        return SkillDocument.load(path.parent).content_hash in hashes
    except SkillError:
        return False


def _write(path: Path, content: str | Path) -> None:
    """Replace `path` by a text, or by a copy of a file and its permissions, in one step: a reader sees the old file or the new
    one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_PART)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                if isinstance(content, str):
                    file.write(content)
                    Path(name).chmod(0o644)
                else:
                    shutil.copy(content, name)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SkillError(
            f"cannot write {path}: {error}", hint="check the directory's permissions and space"
        ) from error

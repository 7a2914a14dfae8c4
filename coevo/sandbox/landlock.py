"""Landlock: what of the file system a process may use, enforced by the kernel without privileges (Linux
5.13).

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Sequence

from coevo.sandbox import linux

WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_OWN = READ_DIR | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM
_ON_FILES = WRITE_FILE | READ_FILE | TRUNCATE

_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights over files that a version knows of; those that no rule grants are denied."""
_NETWORK, _SCOPES = 0b11, 0b11
"""Binding and connecting TCP (version 4); abstract sockets and signals out of the sandbox (version 6)."""


class Ruleset:
    """Rules that a process can put on itself for good. Raises OSError where the kernel has no Landlock."""

    def __init__(self) -> None:
        self.version = linux.landlock_create_ruleset(None)
        self._handled = _HANDLED[max(version for version in _HANDLED if version <= self.version)]
        attributes = struct.pack("<Q", self._handled)
        if self.version >= 4:
            attributes += struct.pack("<Q", _NETWORK)
        if self.version >= 6:
            attributes += struct.pack("<Q", _SCOPES)
        self._descriptor = linux.landlock_create_ruleset(attributes)

    def readable(self, paths: Iterable[str], hidden: Sequence[str] = ()) -> None:
        """Files and all below folders may be read, except what is below one of the `hidden` folders."""
        for path in paths:
            inside = [folder for folder in hidden if folder.startswith(path + os.sep)]
            if inside:
                self._allow(path, READ_DIR)
                self.readable((entry.path for entry in os.scandir(path) if entry.path not in hidden), hidden)
            else:
                self._allow(path, READ_FILE | READ_DIR)

    def writable(self, folder: str, devices: Iterable[str]) -> None:
        self._allow(folder, _OWN | _ON_FILES)
        for device in devices:
            self._allow(device, READ_FILE | WRITE_FILE)

    def restrict(self) -> None:
        """Hold this process and its children to the rules; needs no_new_privs."""
        linux.landlock_restrict_self(self._descriptor)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # a link to nowhere
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _ON_FILES
            linux.landlock_add_path(self._descriptor, struct.pack("<Qi", rights & self._handled, descriptor))
        finally:
            os.close(descriptor)

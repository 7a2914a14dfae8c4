"""System calls that Python has no function for, through libc. Errors come as OSError."""

from __future__ import annotations

import ctypes
import os
import platform

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38

_MOUNT_SETATTR, _CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 442, 444, 445, 446
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CAPABILITY_VERSION = 0x20080522

MACHINE = platform.machine()

_libc = ctypes.CDLL(None, use_errno=True)
_THIS_PROCESS = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
_NO_CAPABILITIES = (ctypes.c_uint32 * 6)()


def prctl(option: int, argument: int = 0) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(argument), zero, zero, zero))


def set_filter(program: ctypes.Structure) -> None:
    """Put a seccomp filter on this process for good."""
    mode_filter, zero = ctypes.c_ulong(2), ctypes.c_ulong(0)
    _checked(_libc.prctl(PR_SET_SECCOMP, mode_filter, ctypes.byref(program), zero, zero))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _checked(
        _libc.mount(
            source.encode(),
            os.fsencode(target),
            kind.encode(),
            ctypes.c_ulong(flags),
            options.encode(),
        ),
        target,
    )


def unmount(target: str) -> None:
    """Detach a mount; it goes when nobody uses it any more."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def set_mount_attributes(target: str, attributes: int) -> None:
    """Set attributes on a mount and all below it (Linux 5.12)."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    _syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, ctypes.byref(wanted), size)


def pivot_root(new_root: str, put_old: str) -> None:
    _syscall(_PIVOT_ROOT[MACHINE], os.fsencode(new_root), os.fsencode(put_old))


def drop_capabilities() -> None:
    _checked(_libc.capset(_THIS_PROCESS, _NO_CAPABILITIES))


def landlock_create_ruleset(attributes: bytes | None) -> int:
    """A ruleset's descriptor; the version of Landlock if `attributes` is None."""
    if attributes is None:
        return _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)


def landlock_add_path(ruleset: int, rule: bytes) -> None:
    path_beneath = 1
    _syscall(_ADD_RULE, ruleset, path_beneath, rule, 0)


def landlock_restrict_self(ruleset: int) -> None:
    _syscall(_RESTRICT_SELF, ruleset, 0)


def _syscall(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *words))


def _checked(result: int, path: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return result

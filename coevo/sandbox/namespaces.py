"""Namespaces: no network, no other processes, and a file system with Python and its libraries in it and
little else."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from coevo.sandbox import linux

INNER_ID = 1000
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
OWN_FOLDER = "/tmp/heuristic"
"""The candidate's directory, where the root is one of its own."""
_INODES = 1024

_SYSTEM_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Needed:
    """What Python, its standard library and some packages are made of.

    `readable`: files and folders; `hidden`: folders below them that do not belong to it, but in which
    something readable may lie; `links`: symbolic links to something readable.
    """

    readable: list[str]
    hidden: list[str]
    links: list[str]


def needed_files(packages: Iterable[str]) -> Needed:
    """`packages`: folders of packages. What they need of shared libraries must have been loaded."""
    standard = [path for path in sys.path if os.path.exists(path)]
    system = [path for path in _SYSTEM_LIBRARIES if os.path.exists(path)]
    links = [path for path in system if os.path.islink(path) and os.path.realpath(path) in system]
    readable = {*standard, *system} - set(links)
    for folder in packages:
        readable.update(path for path in (folder, folder + ".libs") if os.path.isdir(path))
    for folder in _library_folders():
        if not any(_within(os.path.realpath(folder), path) for path in readable):
            readable.update(
                entry.path for entry in os.scandir(folder) if ".so" in entry.name and entry.is_file()
            )
    hidden = {os.path.join(path, name) for path in standard for name in _PACKAGE_FOLDERS}
    hidden |= {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return Needed(sorted(readable), sorted(path for path in hidden if os.path.isdir(path)), links)


def separate() -> str:
    """Give this process's children namespaces of their own, and this process all but the process namespace.

    Returns the namespaces' names. Raises OSError where they are not allowed; the process is then of no
    further use.
    """
    user, group = os.geteuid(), os.getegid()
    others = linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    names = "process, network, ipc, uts"
    try:
        linux.unshare(linux.CLONE_NEWUSER | others)
    except OSError:
        if user != 0:
            raise
        linux.unshare(others)  # a superuser who may make all but user namespaces
        return names
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INNER_ID} {user} 1")
    _write("/proc/self/gid_map", f"{INNER_ID} {group} 1")
    return f"user, {names}"


def go_on_in_child(cleanup: Callable[[], None]) -> None:
    """Return in a child of this process; the process itself waits for it, cleans up and ends the same way."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        cleanup()
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)


def change_root(root: str, needed: Needed) -> None:
    """Make a root of what is needed (read-only), some devices, and OWN_FOLDER in memory.

    `root` is an empty directory. Raises OSError where that is not allowed; the process is then of no
    further use.
    """
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=755")
    shown: list[tuple[str, bool]] = []
    for path in sorted({*needed.readable, *needed.hidden}):
        above = [visible for outer, visible in shown if _within(path, outer)]
        visible = bool(above) and above[-1]
        if path in needed.hidden and visible:
            linux.mount("tmpfs", root + path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=1m,mode=755")
            shown.append((path, False))
        elif path not in needed.hidden and not visible:
            _bind(path, root + path)
            shown.append((path, True))
    for link in needed.links:
        os.symlink(os.readlink(link), root + link)
    for device in DEVICES:
        _touch(root + device)
    os.makedirs(root + OWN_FOLDER, exist_ok=True)
    linux.set_mount_attributes(
        root, linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
    )
    for device in DEVICES:
        linux.mount(device, root + device, "", linux.MS_BIND)
    _mount_own_folder(root + OWN_FOLDER, 1 << 20)
    os.chdir(root)
    linux.pivot_root(".", ".")
    linux.unmount(".")
    os.chdir("/")


def renew_own_folder(size: int) -> None:
    """Replace OWN_FOLDER by an empty one that holds at most `size` bytes."""
    linux.unmount(OWN_FOLDER)
    _mount_own_folder(OWN_FOLDER, size)


def _mount_own_folder(path: str, size: int) -> None:
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("tmpfs", path, "tmpfs", flags, f"size={size},nr_inodes={_INODES},mode=700")


def _library_folders() -> set[str]:
    """Where the shared libraries lie that this process has loaded."""
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if "/" in line}
    return {os.path.dirname(path) for path in paths if ".so" in os.path.basename(path)}


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        _touch(target)
    linux.mount(source, target, "", linux.MS_BIND | linux.MS_REC)


def _touch(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a"):
        pass


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)

"""The layers around candidates: which there are on this machine, and putting them on.

Every layer that the machine lacks is left out and named in `layers`; a layer that it has must hold for
every candidate.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Collection, Iterable

from coevo.sandbox import landlock, linux, namespaces, seccomp

OPEN_FILES = 64
OWN_MEMORY = 16 << 20
"""What the sandbox needs for itself in a candidate's address space."""


class Isolation:
    """The layers of one zygote.

    In order: enter_namespaces, enter; then for each candidate prepare, enter_candidate in its process, and
    clean when it has ended. `directory` is an empty directory for the candidates; `without` names layers
    to leave out.
    """

    def __init__(self, directory: str, *, without: Collection[str] = ()) -> None:
        self._directory = self._own = directory
        self._without = without
        self._ruleset: landlock.Ruleset | None = None
        self._filter: seccomp.Filter | None = None
        self._own_size = 0
        self._base_memory = 0
        self.separate = False
        """Whether this is the first process of a process namespace, so that killing all it sees kills no
        other."""
        self.layers = {
            "process": "fresh for each candidate, ended with its descendants",
            "limits": "processor time, memory, file size, open files",
        }

    def enter_namespaces(self, cleanup: Callable[[], None]) -> None:
        """Go on in a child process with its own namespaces, if that is possible; `cleanup` runs outside at
        its end."""
        self._layer("namespaces", lambda: _enter_namespaces(cleanup))
        self.separate = os.getpid() == 1
        if not self.separate:
            with contextlib.suppress(OSError):
                linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)

    def enter(self, packages: Iterable[str]) -> None:
        """Change the root and get the other layers ready. What candidates use of Python must have been
        loaded."""
        self._base_memory = _address_space()
        needed = namespaces.needed_files(packages)
        self._layer("files", lambda: self._change_root(needed))
        self._layer("landlock", lambda: self._prepare_landlock(needed))
        self._layer("seccomp", self._prepare_seccomp)

    def prepare(self, file_size: int) -> None:
        """Make an empty own directory for the next candidate."""
        if self._own == self._directory:
            _empty(self._own)
        elif file_size != self._own_size or os.listdir(self._own):
            namespaces.renew_own_folder(file_size)
            self._own_size = file_size

    def enter_candidate(self, cpu_s: int, memory: int, file_size: int) -> None:
        """Put all layers on this process. Raises OSError if one does not hold; the process must not go on
        then."""
        os.chdir(self._own)
        address_space = self._base_memory + OWN_MEMORY + memory
        for limit, soft, hard in (
            (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),  # a signal, and a second later the end
            (resource.RLIMIT_AS, address_space, address_space),
            (resource.RLIMIT_FSIZE, file_size, file_size),
            (resource.RLIMIT_NOFILE, OPEN_FILES, OPEN_FILES),
            (resource.RLIMIT_NPROC, 0, 0),
            (resource.RLIMIT_CORE, 0, 0),
        ):
            _, most = resource.getrlimit(limit)
            if most != resource.RLIM_INFINITY:
                soft, hard = min(soft, most), min(hard, most)
            resource.setrlimit(limit, (soft, hard))
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        linux.drop_capabilities()
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        if self._ruleset:
            self._ruleset.restrict()
        if self._filter:
            self._filter.restrict(os.getpid())

    def clean(self, pid: int) -> None:
        """Kill what the candidate left running; `pid` is its own process, which has ended."""
        if self.separate:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # reaches this namespace only, and not its first process
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            _end_children()

    def close(self) -> None:
        if self._own == self._directory:
            _empty(self._own)
            os.rmdir(self._own)

    def _layer(self, name: str, put_on: Callable[[], str]) -> None:
        """`put_on` says what the layer is, or raises OSError if it cannot be had."""
        if name in self._without:
            self.layers[name] = "no: left out"
            return
        try:
            self.layers[name] = put_on()
        except OSError as error:
            self.layers[name] = f"no: {error}"

    def _change_root(self, needed: namespaces.Needed) -> str:
        if not self.separate:
            raise OSError("it takes namespaces")

        def change() -> None:
            namespaces.change_root(self._directory, needed)

        _probe(change)
        change()
        self._own = namespaces.OWN_FOLDER
        return "Python and its libraries, read-only, and an own directory in memory"

    def _prepare_landlock(self, needed: namespaces.Needed) -> str:
        ruleset = landlock.Ruleset()
        ruleset.readable(needed.readable, needed.hidden)
        own = self._own if self._own == self._directory else os.path.dirname(self._own)
        ruleset.writable(own, namespaces.DEVICES)
        _probe(ruleset.restrict, unprivileged=True)
        self._ruleset = ruleset
        return f"version {ruleset.version}"

    def _prepare_seccomp(self) -> str:
        calls = seccomp.Filter()
        _probe(lambda: calls.restrict(os.getpid()), unprivileged=True)
        self._filter = calls
        return "system calls for computing, no others"


def _enter_namespaces(cleanup: Callable[[], None]) -> str:
    def probe() -> None:
        namespaces.separate()
        _probe(lambda: None)  # whether there can be processes in there

    _probe(probe)
    names = namespaces.separate()
    namespaces.go_on_in_child(cleanup)
    return names


def _probe(put_on: Callable[[], None], *, unprivileged: bool = False) -> None:
    """Put a layer on a child first, to see whether it can be had. Raises the child's OSError."""
    child = os.fork()
    if not child:
        code = 255
        try:
            if unprivileged:
                linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            put_on()
            code = 0
        except OSError as error:
            code = error.errno or code
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        raise OSError(code, os.strerror(code) if code > 0 else f"died of signal {-code}")


def _end_children() -> None:
    """Kill and reap all children, those of dead children included."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid and not _kill_children():
            return


def _kill_children() -> bool:
    """Whether there is a list of them here."""
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return False
    for child in children:
        os.kill(child, signal.SIGKILL)
    os.waitpid(-1, 0)
    return True


def _empty(folder: str) -> None:
    """Remove all that is in a folder, however deep: it walks down and up again, with names relative to
    where it is."""
    os.chdir(folder)
    path = [("", _remove_files())]
    while path:
        name, folders = path[-1]
        if folders:
            inner = folders.pop()
            os.chmod(inner, 0o700)
            os.chdir(inner)
            path.append((inner, _remove_files()))
        else:
            path.pop()
            if name:
                os.chdir("..")
                os.rmdir(name)
    os.chdir("/")


def _remove_files() -> list[str]:
    """Remove the files and links of this folder; the names of its folders."""
    folders = []
    for entry in list(os.scandir()):
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            os.unlink(entry.name)
    return folders


def _address_space() -> int:
    """Bytes of address space of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

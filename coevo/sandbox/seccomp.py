"""The system calls that a candidate may make, as a seccomp filter: all others fail with EPERM.

What computing needs is allowed. Processes, threads, programs, sockets, signals to others, limits,
priorities, mounts, tracing and memory outside of the address space limit are not.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Sequence

from coevo.sandbox import linux

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_X86_64 = """
read 0 write 1 open 2 close 3 stat 4 fstat 5 lstat 6 poll 7 lseek 8 mmap 9 mprotect 10 munmap 11 brk 12
rt_sigaction 13 rt_sigprocmask 14 rt_sigreturn 15 pread64 17 pwrite64 18 readv 19 writev 20 access 21 pipe 22
select 23 sched_yield 24 mremap 25 mincore 27 madvise 28 dup 32 dup2 33 pause 34 nanosleep 35 getitimer 36
alarm 37 setitimer 38 getpid 39 sendfile 40 exit 60 wait4 61 uname 63 flock 73 fsync 74 fdatasync 75 ftruncate
77 getcwd 79 chdir 80 fchdir 81 rename 82 mkdir 83 rmdir 84 creat 85 link 86 unlink 87 symlink 88 readlink 89
umask 95 gettimeofday 96 getrlimit 97 getrusage 98 sysinfo 99 times 100 getuid 102 getgid 104 geteuid 107
getegid 108 getppid 110 getpgrp 111 getgroups 115 getresuid 118 getresgid 120 getpgid 121 getsid 124
rt_sigtimedwait 128 rt_sigsuspend 130 sigaltstack 131 statfs 137 fstatfs 138 getpriority 140 gettid 186 time
201 futex 202 sched_getaffinity 204 getdents64 217 restart_syscall 219 fadvise64 221 clock_gettime 228
clock_getres 229 clock_nanosleep 230 exit_group 231 waitid 247 openat 257 mkdirat 258 newfstatat 262 unlinkat
263 renameat 264 linkat 265 symlinkat 266 readlinkat 267 faccessat 269 pselect6 270 ppoll 271 set_robust_list
273 get_robust_list 274 fallocate 285 dup3 292 pipe2 293 getcpu 309 renameat2 316 getrandom 318 statx 332 rseq
334 close_range 436 faccessat2 439
"""
_AARCH64 = """
getcwd 17 dup 23 dup3 24 flock 32 mkdirat 34 unlinkat 35 symlinkat 36 linkat 37 renameat 38 statfs 43 fstatfs
44 ftruncate 46 fallocate 47 faccessat 48 chdir 49 fchdir 50 openat 56 close 57 pipe2 59 getdents64 61 lseek
62 read 63 write 64 readv 65 writev 66 pread64 67 pwrite64 68 sendfile 71 pselect6 72 ppoll 73 readlinkat 78
newfstatat 79 fstat 80 fsync 82 fdatasync 83 exit 93 exit_group 94 waitid 95 futex 98 set_robust_list 99
get_robust_list 100 nanosleep 101 getitimer 102 setitimer 103 clock_gettime 113 clock_getres 114
clock_nanosleep 115 sched_getaffinity 123 sched_yield 124 restart_syscall 128 sigaltstack 132 rt_sigsuspend
133 rt_sigaction 134 rt_sigprocmask 135 rt_sigtimedwait 137 rt_sigreturn 139 getpriority 141 getresuid 148
getresgid 150 times 153 getpgid 155 getsid 156 getgroups 158 uname 160 getrlimit 163 getrusage 165 umask 166
getcpu 168 gettimeofday 169 getpid 172 getppid 173 getuid 174 geteuid 175 getgid 176 getegid 177 gettid 178
sysinfo 179 brk 214 munmap 215 mremap 216 mmap 222 fadvise64 223 mprotect 226 mincore 232 madvise 233 wait4
260 renameat2 276 getrandom 278 statx 291 rseq 293 close_range 436 faccessat2 439
"""
_CONDITIONAL = {
    "x86_64": {"ioctl": 16, "fcntl": 72, "kill": 62, "tkill": 200, "tgkill": 234, "prlimit64": 302},
    "aarch64": {"ioctl": 29, "fcntl": 25, "kill": 129, "tkill": 130, "tgkill": 131, "prlimit64": 261},
}
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
"""Duplicate, flags and locks; not the commands that make the kernel send signals to others."""
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Asking whether it is a terminal and how large, bytes waiting, blocking, closing on exec."""

_ALLOW, _KILL, _DENY = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ANY_PID = 0xFFFFFFFF
"""In the place of the process's own number, which is known only after the fork."""

_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """A filter for one process, ready to be put on. Raises OSError on a processor it has no table for."""

    def __init__(self) -> None:
        if linux.MACHINE not in _ARCHITECTURES:
            raise OSError(errno.ENOSYS, f"no table of system calls for {linux.MACHINE}")
        instructions = _program(linux.MACHINE)
        self._own_pid = [
            i for i, (code, *_, value) in enumerate(instructions) if (code, value) == (_EQUAL, _ANY_PID)
        ]
        self._code = bytearray(b"".join(struct.pack("<HBBI", *each) for each in instructions))
        self._lying = (ctypes.c_char * len(self._code)).from_buffer(self._code)
        self._program = _Program(len(instructions), ctypes.addressof(self._lying))

    def restrict(self, pid: int) -> None:
        """Hold this process, whose number is `pid`, to the filter; needs no_new_privs."""
        for index in self._own_pid:
            struct.pack_into("<I", self._code, index * 8 + 4, pid)
        linux.set_filter(self._program)


def allowed(machine: str) -> dict[str, int]:
    """Name and number of every system call that is allowed whatever its arguments are."""
    words = (_X86_64 if machine == "x86_64" else _AARCH64).split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _program(machine: str) -> list[_Instruction]:
    conditional = _CONDITIONAL[machine]
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_if_number(conditional["ioctl"], _if_argument(1, _IOCTL)),
        *_if_number(conditional["fcntl"], _if_argument(1, _FCNTL)),
        *(
            step
            for name in ("kill", "tkill", "tgkill")
            for step in _if_number(conditional[name], _if_argument(0, (_ANY_PID,)))
        ),
        *_if_number(conditional["prlimit64"], _if_reading_limits()),
    ]
    numbers = sorted(allowed(machine).values())
    for index, number in enumerate(numbers):
        program.append((_EQUAL, len(numbers) - index, 0, number))
    program.append((_RETURN, 0, 0, _DENY))
    program.append((_RETURN, 0, 0, _ALLOW))
    return program


def _if_number(number: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(_EQUAL, 0, len(then), number), *then]


def _if_argument(index: int, values: Sequence[int]) -> list[_Instruction]:
    """Allow if the lower half of an argument is one of the values."""
    tests = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [_load(index), *tests, (_RETURN, 0, 0, _DENY), (_RETURN, 0, 0, _ALLOW)]


def _if_reading_limits() -> list[_Instruction]:
    """Allow prlimit64 of the process itself without new limits (argument 2 is no pointer)."""
    return [
        _load(0),
        (_EQUAL, 0, 5, 0),
        _load(2),
        (_EQUAL, 0, 3, 0),
        _load(2, upper=True),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _DENY),
    ]


def _load(index: int, *, upper: bool = False) -> _Instruction:
    return (_LOAD, 0, 0, 16 + 8 * index + 4 * upper)

"""Programs that break, cheat, flood and attack, and how each of them must end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coevo import problem
from coevo.sandbox import Category

SYNTAX, MISSING, SIGNATURE, IMPORT = (
    Category.SYNTAX_ERROR,
    Category.MISSING_FUNCTION,
    Category.WRONG_SIGNATURE,
    Category.IMPORT_ERROR,
)
EXCEPTION, TIMEOUT, CPU, MEMORY, KILLED, FORBIDDEN, BAD_REPLY = (
    Category.EXCEPTION,
    Category.TIMEOUT,
    Category.CPU,
    Category.MEMORY,
    Category.KILLED,
    Category.FORBIDDEN,
    Category.BAD_REPLY,
)

GOOD = "def step(a, b):\n    return float(a.sum()) + b\n"
"""Called with `np.arange(3.0)` and 2: 5.0."""

Expected = Any
"""A category, a set of categories that depend on the machine's layers, or the result of the call."""


def inside(body: str) -> str:
    """`step` with a body."""
    lines = body.strip("\n").splitlines()
    return "\n".join(["def step(a, b):", *("    " + line for line in lines)])


PROGRAMS: list[tuple[str, str, Expected]] = [
    # code that is no program
    ("unclosed", "def step(a, b:\n    return 0", SYNTAX),
    ("prose", "Here is the improved heuristic you asked for:", SYNTAX),
    ("indentation", "def step(a, b):\nreturn 0", SYNTAX),
    ("null bytes", "def step(a, b):\n    return 0\0", SYNTAX),
    ("nested parentheses", "x = " + "(" * 5000 + ")" * 5000 + "\n" + GOOD, {SYNTAX, MEMORY}),
    ("surrogate", "def step(a, b):\n    return '\ud800' and 0", 0),
    ("ten megabytes", "#" + "x" * 10_000_000 + "\n" + GOOD, 5.0),
    (
        "long line of operators",
        "x = 1" + "+1" * 100_000 + "\n" + GOOD,
        {SYNTAX, MEMORY, KILLED, EXCEPTION, 5.0},
    ),
    ("empty", "", MISSING),
    ("await outside", "await x", SYNTAX),
    # the function is not there or not as asked for
    ("two others", "def f(a, b): return 0\ndef g(a, b): return 1", MISSING),
    ("one other", "def f(a, b): return 7", 7),
    ("one other that fits", "def f(a): return 0\ndef g(a, b): return 7", 7),
    ("a number", "step = 3", MISSING),
    ("too few arguments", "def step(a): return 0", SIGNATURE),
    ("too many arguments", "def step(a, b, c): return 0", SIGNATURE),
    ("keyword only", "def step(a, b, *, c): return 0", SIGNATURE),
    ("defaults", "def step(a, b=1, c=2): return c", 2),
    ("any arguments", "def step(*args): return len(args)", 2),
    ("lambda", "step = lambda a, b: 4", 4),
    ("class of that name", "class step:\n    def __init__(self, a, b): pass", BAD_REPLY),
    ("callable object", "class S:\n    def __call__(self, a, b): return 5\nstep = S()", 5),
    ("async", "async def step(a, b): return 0", SIGNATURE),
    ("async generator", "async def step(a, b): yield 0", SIGNATURE),
    ("decorated", "import functools\n@functools.lru_cache\ndef step(*a): return 0", EXCEPTION),
    (
        "wrapped",
        "import functools\ndef d(f):\n    @functools.wraps(f)\n    def g(*a): return 9\n    return g\n@d\n"
        + GOOD,
        9,
    ),
    ("deleted", GOOD + "del step", MISSING),
    # imports
    ("missing package", "import pandas_of_the_future\n" + GOOD, IMPORT),
    ("missing name", "from numpy import no_such_thing\n" + GOOD, IMPORT),
    ("the scorer", "import coevo.problem\n" + GOOD, IMPORT),
    ("the problems", "import ahd\n" + GOOD, IMPORT),
    ("another installed package", "import pytest\n" + GOOD, IMPORT),
    ("late import", inside("import no_such_module"), IMPORT),
    ("standard library", "import math, random, itertools, collections, heapq, statistics\n" + GOOD, 5.0),
    # exceptions
    ("raises", inside("raise ValueError('no')"), EXCEPTION),
    ("at import", "1 / 0", EXCEPTION),
    ("recursion", inside("return step(a, b)"), EXCEPTION),
    ("keyboard interrupt", inside("raise KeyboardInterrupt"), EXCEPTION),
    ("generator exit", inside("raise GeneratorExit"), EXCEPTION),
    ("base exception", "class Odd(BaseException): pass\n" + inside("raise Odd"), EXCEPTION),
    ("syntax error at run time", inside("eval('1 +')"), EXCEPTION),
    (
        "text that raises",
        "class Odd(Exception):\n    def __str__(self): raise self\n" + inside("raise Odd"),
        EXCEPTION,
    ),
    (
        "text that recurses",
        "class Odd(Exception):\n    def __str__(self): return str(self)\n" + inside("raise Odd"),
        EXCEPTION,
    ),
    (
        "text that leaves",
        "import os\nclass Odd(Exception):\n    def __str__(self): os._exit(0)\n" + inside("raise Odd"),
        KILLED,
    ),
    ("huge text", inside("raise ValueError('x' * 50_000_000)"), EXCEPTION),
    ("name that lies", "Odd = type('MemoryError', (Exception,), {})\n" + inside("raise Odd"), EXCEPTION),
    ("assertion", inside("assert b == 3, 'b is not 3'"), EXCEPTION),
    # it never ends, or ends itself
    ("endless loop", inside("while True: pass"), CPU),
    ("endless loop at import", "while True: pass", CPU),
    ("endless in numpy", inside("while True: np.sort(np.arange(1000000)[::-1])"), CPU),
    ("endless generator", "import itertools\n" + inside("return sum(itertools.repeat(0))"), CPU),
    (
        "catches everything",
        inside("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
        CPU,
    ),
    ("backtracking", "import re\n" + inside("return re.match('(a+)+$', 'a' * 60 + 'b')"), CPU),
    ("power tower", inside("return 9 ** 9 ** 9"), {CPU, MEMORY}),
    ("sleep", "import time\n" + inside("time.sleep(100)"), TIMEOUT),
    ("sleep at import", "import time\ntime.sleep(100)", TIMEOUT),
    ("waits for input", inside("import select\nselect.select([], [], [])"), TIMEOUT),
    ("reads its input", inside("return len(input())"), EXCEPTION),
    (
        "ignores signals",
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        + inside("while True: pass"),
        CPU,
    ),
    ("stops itself", "import os\n" + inside("os.kill(os.getpid(), 19)"), TIMEOUT),
    ("pauses", "import signal\n" + inside("signal.pause()"), TIMEOUT),
    ("sys.exit", "import sys\n" + inside("sys.exit(0)"), KILLED),
    ("SystemExit at import", "raise SystemExit", KILLED),
    ("os._exit", "import os\n" + inside("os._exit(0)"), KILLED),
    ("abort", "import os\n" + inside("os.abort()"), KILLED),
    ("segmentation fault", "import ctypes\n" + inside("ctypes.string_at(0)"), KILLED),
    ("kills itself", "import os\n" + inside("os.kill(os.getpid(), 9)"), KILLED),
    (
        "its own alarm",
        "import signal, time\n" + inside("signal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(5)"),
        KILLED,
    ),
    (
        "stack overflow",
        "import sys\nsys.setrecursionlimit(10**9)\n"
        + inside("return sorted([0, 1], key=lambda x: step(a, b))"),
        {KILLED, MEMORY, CPU, EXCEPTION},
    ),
    # memory
    ("eight gigabytes", inside("return len(bytearray(8 << 30))"), MEMORY),
    ("an array of eight gigabytes", inside("return np.ones(1 << 30)"), MEMORY),
    ("many lists", inside("x = []\nwhile True: x.append(list(range(10000)))"), {MEMORY, CPU}),
    ("a long string", inside("x = 'x'\nwhile True: x += x"), MEMORY),
    ("mmap", "import mmap\n" + inside("return len(mmap.mmap(-1, 8 << 30))"), MEMORY),
    (
        "catches the lack",
        inside(
            "x = []\ntry:\n    while True: x.append(bytearray(1 << 24))\nexcept MemoryError: return len(x) < 36"
        ),
        True,
    ),
    (
        "raises its limit",
        "import resource\n" + inside("resource.setrlimit(resource.RLIMIT_AS, (-1, -1))"),
        EXCEPTION,
    ),
    (
        "more processor time",
        "import resource\n" + inside("resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))"),
        EXCEPTION,
    ),
    # processes and threads
    ("fork bomb", "import os\nwhile True: os.fork()", FORBIDDEN),
    (
        "patient fork bomb",
        "import os\n"
        + inside("n = 0\nfor _ in range(1000):\n    try: os.fork()\n    except OSError: n += 1\nreturn n"),
        1000,
    ),
    ("thread", "import threading\n" + inside("threading.Thread(target=print).start()"), FORBIDDEN),
    (
        "thread bomb",
        "import threading\n" + inside("while True: threading.Thread(target=step, args=(a, b)).start()"),
        FORBIDDEN,
    ),
    (
        "executor",
        "import concurrent.futures as c\n" + inside("return c.ThreadPoolExecutor(2).submit(int).result()"),
        FORBIDDEN,
    ),
    ("subprocess", "import subprocess\n" + inside("subprocess.run(['ls'])"), FORBIDDEN),
    ("shell", "import os\n" + inside("return os.system('true') != 0"), True),
    ("exec", "import os\n" + inside("os.execv('/bin/sh', ['sh'])"), FORBIDDEN),
    ("exec itself", "import os, sys\n" + inside("os.execv(sys.executable, ['python'])"), FORBIDDEN),
    (
        "multiprocessing",
        "import multiprocessing as m\n" + inside("p = m.Process(target=print)\np.start()"),
        FORBIDDEN,
    ),
    ("spawn", "import os\n" + inside("os.posix_spawn('/bin/true', ['true'], {})"), FORBIDDEN),
    ("kills its parent", "import os\n" + inside("os.kill(os.getppid(), 9)"), FORBIDDEN),
    ("kills all", "import os\n" + inside("os.kill(-1, 9)"), FORBIDDEN),
    ("kills its group", "import os\n" + inside("os.killpg(0, 9)"), FORBIDDEN),
    ("leaves its session", "import os\n" + inside("os.setsid()"), FORBIDDEN),
    ("nice", "import os\n" + inside("os.nice(-5)"), FORBIDDEN),
    (
        "real time",
        "import os\n" + inside("os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))"),
        FORBIDDEN,
    ),
    ("another user", "import os\n" + inside("os.setuid(0)"), FORBIDDEN),
    ("chroot", "import os\n" + inside("os.chroot('.')"), FORBIDDEN),
    (
        "mount",
        "import ctypes\n" + inside("return ctypes.CDLL(None).mount(b'none', b'.', b'tmpfs', 0, None)"),
        -1,
    ),
    ("unshare", "import ctypes\n" + inside("return ctypes.CDLL(None).unshare(0x10000000)"), -1),
    ("ptrace", "import ctypes\n" + inside("return ctypes.CDLL(None).ptrace(16, 1, 0, 0)"), -1),
    ("prctl", "import ctypes\n" + inside("return ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)"), -1),
    ("memory file", "import os\n" + inside("os.memfd_create('x')"), FORBIDDEN),
    ("signals by owner", "import fcntl\n" + inside("fcntl.fcntl(1, 8, 1)"), FORBIDDEN),
    ("reads another's memory", inside("return open('/proc/1/mem', 'rb').read(1)"), FORBIDDEN),
    # network
    ("socket", "import socket\n" + inside("socket.socket()"), FORBIDDEN),
    ("connection", "import socket\n" + inside("socket.create_connection(('127.0.0.1', 80), 1)"), FORBIDDEN),
    ("name lookup", "import socket\n" + inside("socket.gethostbyname('example.org')"), FORBIDDEN),
    ("download", "import urllib.request as u\n" + inside("u.urlopen('http://127.0.0.1/')"), FORBIDDEN),
    ("local socket", "import socket\n" + inside("socket.socket(socket.AF_UNIX)"), FORBIDDEN),
    ("event loop", "import asyncio\n" + inside("return asyncio.run(asyncio.sleep(0, 1))"), FORBIDDEN),
    # files and the environment
    ("environment", "import os\n" + inside("return len(os.environ)"), 0),
    ("arguments", "import sys\n" + inside("return len(' '.join(sys.argv + sys.orig_argv[1:])) < 10"), True),
    ("passwords", inside("return len(open('/etc/passwd').read())"), FORBIDDEN),
    ("home", "import os\n" + inside("return len(os.listdir('/root'))"), FORBIDDEN),
    ("root", "import os\n" + inside("return len(os.listdir('/'))"), FORBIDDEN),
    ("processes", "import os\n" + inside("return len(os.listdir('/proc'))"), FORBIDDEN),
    ("this file", inside(f"return len(open({__file__!r}).read())"), FORBIDDEN),
    ("another package's file", inside(f"open({pytest.__file__!r})"), FORBIDDEN),
    ("a file of coevo", inside(f"open({problem.__file__!r})"), FORBIDDEN),
    ("writes outside", inside("open('/tmp/evil', 'w').write('x')"), FORBIDDEN),
    ("writes to a library", inside("open(np.__file__, 'a').write('x')"), FORBIDDEN),
    ("makes a folder outside", "import os\n" + inside("os.mkdir('/var/evil')"), FORBIDDEN),
    ("climbs out", inside("return len(open('../../../../../../etc/passwd').read())"), {FORBIDDEN, EXCEPTION}),
    (
        "link to a file",
        "import os\n" + inside("os.symlink('/etc/passwd', 'x')\nreturn len(open('x').read())"),
        {FORBIDDEN, EXCEPTION},
    ),
    (
        "link to a folder",
        "import os\n" + inside("os.symlink('/', 'x')\nreturn len(os.listdir('x'))"),
        {FORBIDDEN, EXCEPTION},
    ),
    ("hard link", "import os\n" + inside("os.link('/etc/passwd', 'x')"), FORBIDDEN),
    ("device", "import os\n" + inside("os.mknod('x', 0o60600, 0)"), FORBIDDEN),
    ("changes modes", "import os\n" + inside("os.chmod('.', 0o777)"), FORBIDDEN),
    ("a large file", inside("open('x', 'wb').write(bytes(100 << 20))"), FORBIDDEN),
    ("its own files", inside("open('x', 'w').write('17')\nreturn int(open('x').read())"), 17),
    ("files of others", "import os\n" + inside("return len(os.listdir('.'))"), 0),
    (
        "deep folders",
        "import os\n"
        + inside(
            "n = 0\ntry:\n    while n < 1200:\n        os.mkdir('d')\n        os.chdir('d')\n        n += 1\nexcept OSError: pass\nreturn n > 10"
        ),
        True,
    ),
    # what it prints
    ("prints much", inside("for _ in range(20000): print('x' * 1000)\nreturn 1"), 1),
    ("floods its output", "import os\n" + inside("while True: os.write(1, b'x' * 65536)"), {EXCEPTION, CPU}),
    ("prints to closed output", "import os\n" + inside("os.close(1)\nprint('x')"), EXCEPTION),
    # the channel
    ("closes everything", "import os\n" + inside("os.closerange(0, 100)\nreturn 1"), KILLED),
    (
        "writes everywhere",
        "import os\n"
        + inside(
            "for n in range(60):\n    try: os.write(n, b'garbage' * 100)\n    except OSError: pass\nreturn 1"
        ),
        BAD_REPLY,
    ),
    (
        "closes its channel and goes on",
        "import os\n" + inside("os.closerange(3, 60)\nwhile True: pass"),
        KILLED,
    ),
    ("reads its channel", "import os\n" + inside("os.read(3, 100)"), TIMEOUT),
    ("half a header", "import os, time\n" + inside("os.write(3, b'cvo1')\ntime.sleep(60)"), TIMEOUT),
    (
        "a header of a huge reply",
        "import os, struct\n" + inside("os.write(3, struct.pack('<4sIQ', b'cvo1', 4, 1 << 60))\nreturn 1"),
        BAD_REPLY,
    ),
    (
        "a reply of its own making",
        "import os, struct\n"
        + inside("os.write(3, struct.pack('<4sIQ', b'cvo1', 4, 8) + bytes(8))\nreturn 1"),
        BAD_REPLY,
    ),
    (
        "a failure of its own making",
        "import sys\n"
        + inside(
            "f = sys._getframe()\nwhile 'wire' not in f.f_globals: f = f.f_back\ndef d(error): return ('implausible', 'X', 'x', 1)\nf.f_globals['describe'] = d\nraise ValueError"
        ),
        BAD_REPLY,
    ),
    (
        "a patched encoder",
        "import sys\n"
        + inside(
            "f = sys._getframe()\nwhile 'wire' not in f.f_globals: f = f.f_back\nf.f_globals['wire'].Writer.frame = lambda self, kind: b'?' * 64\nreturn 1"
        ),
        BAD_REPLY,
    ),
    # replies that are no plain data
    ("dictionary", inside("return {}"), BAD_REPLY),
    ("set", inside("return {1}"), BAD_REPLY),
    ("bytes", inside("return b'x'"), BAD_REPLY),
    ("complex", inside("return 1j"), BAD_REPLY),
    ("complex array", inside("return np.ones(2) * 1j"), BAD_REPLY),
    ("array of objects", inside("return np.array([{}, []], dtype=object)"), BAD_REPLY),
    ("array of strings", inside("return np.array(['x'])"), BAD_REPLY),
    ("dates", inside("return np.array(['2020-01-01'], dtype='M8[D]')"), BAD_REPLY),
    ("records", inside("return np.zeros(2, dtype='i4,f8')"), BAD_REPLY),
    ("generator", inside("yield 1"), BAD_REPLY),
    ("itself", inside("return step"), BAD_REPLY),
    ("coroutine", inside("async def f(): pass\nreturn f()"), BAD_REPLY),
    ("module", inside("return np"), BAD_REPLY),
    (
        "reduce",
        "import os\nclass R:\n    def __reduce__(self): return (os.system, ('true',))\n"
        + inside("return R()"),
        BAD_REPLY,
    ),
    ("list of itself", inside("x = []\nx.append(x)\nreturn x"), BAD_REPLY),
    ("integer of a megabyte", inside("return 1 << 8_000_000"), BAD_REPLY),
    ("huge array", inside("return np.zeros(4_000_000)"), BAD_REPLY),
    ("huge list", inside("return [None] * 5_000_000"), BAD_REPLY),
    ("huge string", inside("return 'x' * 50_000_000"), BAD_REPLY),
    (
        "list subclass that lies",
        "class L(list):\n    def __len__(self): return 1 << 40\n" + inside("return L()"),
        {BAD_REPLY, EXCEPTION, MEMORY},
    ),
    (
        "array subclass",
        "class A(np.ndarray):\n    def __array__(self, *a, **k): return np.array([{}], dtype=object)\n"
        + inside("return a.view(A)"),
        np.arange(3.0),
    ),
    (
        "type that is not hashable",
        "class M(type):\n    __hash__ = None\nclass X(metaclass=M): pass\n" + inside("return X()"),
        {BAD_REPLY, EXCEPTION},
    ),
    # replies that are plain data; whether they are decisions is for the problem to say
    ("nothing", inside("pass"), None),
    ("NaN", inside("return float('nan')"), float("nan")),
    ("infinity", inside("return np.inf"), float("inf")),
    ("string", inside("return 'x'"), "x"),
    ("lone surrogate", inside(r"return '\ud800'"), "?"),
    ("numpy integer", inside("return np.int64(3)"), 3),
    ("numpy boolean", inside("return a[0] == 0"), True),
    ("large integer", inside("return 1 << 200"), 1 << 200),
    ("nested", inside("return [(1, 2.5), ('x', None)]"), [(1, 2.5), ("x", None)]),
    ("array of another shape", inside("return np.zeros((2, 0, 3))"), np.zeros((2, 0, 3))),
    ("half precision", inside("return np.float16([1.5])"), np.float16([1.5])),
    ("long double", inside("return np.longdouble([1.5])"), np.array([1.5])),
    ("other byte order", inside("return np.array([1, 2], dtype='>i4')"), np.array([1, 2], dtype=np.int32)),
    ("transposed", inside("return np.arange(6).reshape(2, 3).T"), np.arange(6).reshape(2, 3).T),
    ("masked", inside("return np.ma.masked_equal(a, 1)"), np.arange(3.0)),
    ("flag", "import enum\nclass E(enum.IntEnum):\n    A = 4\n" + inside("return E.A"), 4),
    # cheating where there is nothing to cheat
    (
        "patches numpy",
        "np.average = np.mean = np.sum = lambda *a, **k: -1e9\n" + inside("return int(np.average(a))"),
        -1_000_000_000,
    ),
    ("patches an array's method", "np.ndarray.sum = lambda self: -1e9\n" + GOOD, EXCEPTION),
    (
        "patches builtins",
        "import builtins\nbuiltins.len = builtins.sum = lambda *a: -1\n" + inside("return len(a)"),
        {-1, KILLED, BAD_REPLY, EXCEPTION},
    ),
    (
        "breaks builtins",
        "import builtins\nfor n in ('type', 'isinstance', 'map', 'set', 'list', 'int'): setattr(builtins, n, None)\n"
        + inside("return 1"),
        {EXCEPTION, KILLED, BAD_REPLY, 1},
    ),
    (
        "looks for the scorer in frames",
        "import sys\n"
        + inside(
            "f, names = sys._getframe(), []\nwhile f:\n    names += [n for n in f.f_globals if 'problem' in n or 'objective' in n or 'evaluate' in n]\n    f = f.f_back\nreturn len(names)"
        ),
        0,
    ),
    (
        "looks for the scorer in memory",
        "import gc\n"
        + inside(
            "return sum(1 for o in gc.get_objects() if type(o).__name__ in ('Problem', 'Verdict', 'Sandbox', 'Candidate'))"
        ),
        0,
    ),
    (
        "looks for the scorer in modules",
        "import sys\n"
        + inside(
            "return sum(1 for m in sys.modules if m.split('.')[0] in ('coevo', 'ahd', 'webarena', 'torch'))"
        ),
        0,
    ),
    ("unpatches its sandbox", "import sys\nsys.meta_path.clear()\n" + GOOD, 5.0),
    ("changes what it was given", inside("a[:] = -1\nreturn 0"), 0),
    ("grows what it was given", inside("b += 1\nreturn b"), 3),
]

"""What a worker, its zygote and candidates say to each other."""

from __future__ import annotations

import struct

START, END = b"S", b"E"
REQUEST = struct.Struct("<cQQQd")
"""A request; for START processor seconds, bytes of memory and bytes of a file; for END seconds of grace
before the kill."""
REPORT = struct.Struct("<I")
"""Length of the JSON object that follows: the zygote's layers when it is ready, then one report for each
START."""

MEBI = 1 << 20

OUT_OF_MEMORY = 86
"""Exit status of a candidate without the memory to say so."""
EXITED = "exited"
"""In the place of a category: the code asked for the end of its process."""

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Environment in which numpy and scipy start no threads."""

"""Calls in a process that has no memory left: they fail like any other call, and the process goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbnns import engines

SCRIPT = """
import ctypes, os, resource, sys, threading
import numpy as np
import openbnns as bn
from openbnns import Shape
from openbnns.capi import *

w, x, y = np.ones((8, 8), np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
filter = BNNSFilterCreateLayerFullyConnected(BNNSLayerParametersFullyConnected(
    i_desc=Shape.vector(8).descriptor(), o_desc=Shape.vector(8).descriptor(),
    w_desc=Shape.matrix_row_major(8, 8).descriptor(data=w),
))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]


def child(smallest):
    # With 8: every byte is taken; with 4096: there is room for small objects.
    used = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used, used))
    size = 1 << 20
    while size >= smallest:
        while libc.malloc(size):
            pass
        size //= 2
    return 0 if BNNSFilterApply(filter, x, y) == 0 else 10


def fork(smallest):
    np.asarray(x, np.float64)  # NumPy 2.0 and 2.1 have thread-local data, too, which a thread's first conversion allocates
    pid = os.fork()
    if pid == 0:
        code = 13
        try:
            code = child(smallest)
        except MemoryError:
            code = 11
        except RuntimeError:  # that of Python, which has no memory for a lock
            code = 12
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


codes = []
for smallest in (8, 16, 32, 64, 256, 1024, 4096, 65536):
    fork(smallest)
    thread = threading.Thread(target=fork, args=(smallest,))  # a thread that has not called the core before
    thread.start()
    thread.join()
print(*codes)
"""


@pytest.mark.skipif(engines._core is None, reason="needs the compiled core")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to read the memory in use")
def test_the_first_call_of_a_child_without_memory() -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
    )
    assert result.returncode == 0, result.stderr
    codes = [int(code) for code in result.stdout.split()]
    assert len(codes) == 16
    assert set(codes) <= {0, 10, 11, 12}, (codes, result.stderr)  # 127: the C library has ended the process
    assert codes[-2:] == [0, 0]


@pytest.mark.skipif(engines._core is None, reason="needs the compiled core")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads an ELF file")
def test_the_core_has_no_thread_local_data() -> None:
    """The C library makes room for such data at the first access of each thread, and ends the process if there is none.

    A C++ library that is linked into the module, as in wheels, brings its counter of exceptions, a pointer and a number. That
    is the only data that ``prepare_exceptions`` in core/runtime/per_thread.h allocates in time, wherever it lies.
    """
    image = Path(engines._core.__file__).read_bytes()
    start, size, count = (int.from_bytes(image[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
    headers = [image[start + i * size :][:size] for i in range(count)]
    kinds = [int.from_bytes(header[:4], "little") for header in headers]
    assert 1 in kinds  # PT_LOAD
    thread_local = sum(int.from_bytes(h[40:48], "little") for h, kind in zip(headers, kinds, strict=True) if kind == 7)
    assert thread_local <= (0 if b"libstdc++.so" in image else 16)  # bytes in PT_TLS

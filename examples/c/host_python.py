"""A host that has Python already, this one, loads the C library: both use one interpreter.

    python host_python.py [path of libopenbnns.so]

The library takes the interpreter that it finds in the process, of the environment that it is installed in or of another
one of the same version; in the latter it imports the ``openbnns`` that it lies in. ``ctypes.CDLL`` lets go of Python's lock
during a call, ``ctypes.PyDLL`` keeps it; the library works with both.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

FLOAT32 = 0x10020
POINTS = [(0.0, 0.0), (3.0, 4.0), (0.0, 1.0), (6.0, 8.0)]


def load(kind: Callable[[str], Any], path: str) -> Any:
    """The library, with the types of the functions that are used here."""
    library = kind(path)
    library.BNNSCreateNearestNeighbors.restype = ctypes.c_void_p
    library.BNNSCreateNearestNeighbors.argtypes = [ctypes.c_uint] * 4 + [ctypes.c_void_p]
    library.BNNSNearestNeighborsLoad.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p]
    library.BNNSNearestNeighborsGetInfo.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    library.BNNSDestroyNearestNeighbors.argtypes = [ctypes.c_void_p]
    library.openbnns_last_error.restype = ctypes.c_char_p
    library.openbnns_version.restype = ctypes.c_char_p
    return library


def neighbours(library: Any, sample: int) -> list[tuple[int, float]]:
    """The two stored points nearest to one of them, and their distances."""
    store = library.BNNSCreateNearestNeighbors(len(POINTS), 2, 2, FLOAT32, None)
    points = (ctypes.c_float * 8)(*[number for point in POINTS for number in point])
    indices, distances = (ctypes.c_int * 2)(), (ctypes.c_float * 2)()
    try:
        for status in (
            library.BNNSNearestNeighborsLoad(store, len(POINTS), points),
            library.BNNSNearestNeighborsGetInfo(store, sample, indices, distances),
        ):
            if status != 0:
                raise RuntimeError(library.openbnns_last_error().decode())
    finally:
        library.BNNSDestroyNearestNeighbors(store)
    return list(zip(indices, distances, strict=True))


def check(library: Any) -> None:
    """Numbers, and messages that belong to their threads."""
    assert neighbours(library, 3) == [(3, 0.0), (1, 5.0)]
    assert library.BNNSFilterApply(None, None, None) == -1
    message = library.openbnns_last_error().decode()
    assert message.startswith("BNNSFilterApply: filter is NULL."), message

    import openbnns  # the one that the library uses

    assert openbnns.__version__ == library.openbnns_version().decode()
    assert openbnns.last_error() == message  # one interpreter, so one message of this thread

    seen: list[bytes | None] = []
    thread = threading.Thread(target=lambda: seen.append(library.openbnns_last_error()))
    thread.start()
    thread.join()
    assert seen == [None], seen


def main() -> int:
    if len(sys.argv) > 1:
        path = sys.argv[1]
    else:
        from openbnns.clib import flags

        path = str(flags.require_library())
    for kind in (ctypes.CDLL, ctypes.PyDLL):
        check(load(kind, path))
    import openbnns

    print(f"Python {sys.version.split()[0]} and the C library share openbnns {openbnns.__version__}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

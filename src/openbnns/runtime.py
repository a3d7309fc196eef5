"""Threads, accuracy and what the installation can do."""

from __future__ import annotations

import os
import sys
from typing import Literal

import numpy as np

from . import engines
from .engines import accuracy as get_accuracy
from .engines import current as current_engine
from .engines import engine

__all__ = [
    "current_engine", "engine", "get_accuracy", "get_num_threads", "set_accuracy", "set_num_threads", "show_config",
]  # fmt: skip

_MOST_THREADS = 1 << 16


def set_num_threads(count: int) -> None:
    """Limit the worker threads of the native engine; 0 restores the automatic choice.

    The automatic choice is ``OPENBNNS_NUM_THREADS`` if set, else the cores that affinity and cgroup quota grant.
    A filter created with ``n_threads`` keeps its own number. Results do not depend on the number of threads.

    >>> import openbnns as bn
    >>> bn.set_num_threads(1)
    >>> bn.get_num_threads()
    1
    >>> bn.set_num_threads(0)
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"set_num_threads: count must be an integer, not {type(count).__name__}.")
    if count < 0:
        raise ValueError(f"set_num_threads: count is {count}. Pass at least 1, or 0 for the automatic choice.")
    if count > _MOST_THREADS:
        raise ValueError(
            f"set_num_threads: count is {count}, more than any machine has. Pass the number of cores, or 0 for the automatic "
            "choice."
        )
    if engines._core is not None:
        engines._core.set_max_threads(count)


def get_num_threads() -> int:
    """Worker threads that the native engine may use.

    >>> import openbnns as bn
    >>> bn.get_num_threads() >= 1
    True
    """
    return int(engines._core.max_threads()) if engines._core is not None else 1


def set_accuracy(accuracy: Literal["fast", "exact"]) -> None:
    """Choose between speed and small rounding errors, for filters created from now on.

    ``"fast"``, the default, lets convolutions save multiplications (Winograd's method), with rounding errors several times
    those of plain sums. ``"exact"`` uses plain sums only: sums of small integers are exact, forward and in all gradients,
    and an infinity or NaN reaches only the outputs that depend on it. Filters keep the accuracy that was set when they were
    created; networks of ``openbnns.nn`` adopt a new setting at their next call. ``OPENBNNS_ACCURACY`` sets the accuracy at
    import. The reference engine always computes in float64.

    >>> import openbnns as bn
    >>> bn.set_accuracy("exact")
    >>> bn.get_accuracy()
    'exact'
    >>> bn.set_accuracy("fast")
    """
    engines.select_accuracy(accuracy)


def config() -> dict[str, str]:
    """The output of :func:`show_config`, as a dictionary."""
    import platform  # here, so that importing the package stays quick

    from . import __version__, compat

    core = engines._core
    return {
        "openbnns": __version__,
        "engine": engines.current(),
        "instruction set": core.instruction_set() if core is not None else "none (no compiled core)",
        "instructions": _instructions(),
        "AMX": _amx(),
        "caches": _caches(),
        "accuracy": engines.accuracy(),
        "threads": str(get_num_threads()),
        "compat": compat.in_force(),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "machine": platform.machine(),
        "OPENBNNS_ACCURACY": os.environ.get("OPENBNNS_ACCURACY", "(not set)"),
        "OPENBNNS_COMPAT": os.environ.get("OPENBNNS_COMPAT", "(not set)"),
        "OPENBNNS_ENGINE": os.environ.get("OPENBNNS_ENGINE", "(not set)"),
        "OPENBNNS_ISA": os.environ.get("OPENBNNS_ISA", "(not set)"),
        "OPENBNNS_MEMORY_LIMIT": os.environ.get("OPENBNNS_MEMORY_LIMIT", "(not set)"),
        "OPENBNNS_STRICT": os.environ.get("OPENBNNS_STRICT", "(not set)"),
        "OPENBNNS_NUM_THREADS": os.environ.get("OPENBNNS_NUM_THREADS", "(not set)"),
    }


def _instructions() -> str:
    """The instructions for products that the CPU has."""
    core = engines._core
    if core is None:
        return "unknown (no compiled core)"
    return ", ".join(core.cpu_instructions()) or "those of every CPU of its kind"


def _amx() -> str:
    """The state of the matrix unit: whether the CPU has it, the system permits it, and this process uses it."""
    core = engines._core
    if core is None:
        return "unknown (no compiled core)"
    if "AMX" not in core.cpu_instructions():
        return "not in this CPU"
    if core.instruction_set() == "amx":
        return "in use"
    return "off; OPENBNNS_ISA=amx uses it" if core.system_has_amx() else "the system does not permit it"


def _caches() -> str:
    """The sizes of the caches of a core, data only, and of the one that it shares."""
    sizes = [] if engines._core is None else engines._core.cache_bytes()
    known = [f"L{level} {size // 1024:,} KB" for level, size in enumerate(sizes, 1) if size]
    return ", ".join(known) or "unknown"


def show_config() -> None:
    """Print versions, engine, instruction sets, caches, accuracy, threads and environment variables in force.

    >>> import openbnns as bn
    >>> bn.show_config()  # doctest: +ELLIPSIS
    openbnns ...
    engine ...
    ...
    """
    for name, value in config().items():
        print(f"{name:22s} {value}")

"""How much memory does a layer take beyond the caller's buffers?

For every shape of the other benchmarks a fresh interpreter touches the buffers, then creates the filter and runs one
forward and one backward call. The peak of resident memory during that, less what was resident before, is the figure.
Pages of files, such as the code of the library itself, are shared between processes and do not count.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import activation
import arithmetic
import attention
import convolution
import fully_connected
from cases import Case
from harness import Figure, Settings

LIMIT = 64.0  # MB
LONG_LIMIT = 300.0  # MB, for attention over thousands of positions


def all_cases() -> list[Case]:
    cases = [case for module in (convolution, fully_connected, activation, arithmetic) for case in module.cases()]
    return [*cases, attention.long_case()]


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    return {f"memory/{case.name}": partial(_figure, case=case) for case in all_cases()}


def _figure(settings: Settings, *, case: Case) -> Figure:
    limit = LONG_LIMIT if case.name == attention.long_case().name else LIMIT
    command = [sys.executable, __file__, case.name, str(settings.threads)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
        return Figure(f"memory/{case.name}", float("inf"), "MB", limit, at_most=True, note=reason)
    extra, buffers = (float(v) / 1e6 for v in run.stdout.split())
    return Figure(f"memory/{case.name}", extra, "MB", limit, at_most=True, note=f"buffers {buffers:.1f} MB")


def measure(case: Case) -> tuple[int, int]:
    """(bytes beyond the buffers at the peak, bytes of the buffers) of one forward and backward call."""
    arrays = case.arrays()
    before, files = _reset_peak(), _file_pages()
    calls = case.calls(arrays)
    if calls.forward() != 0 or calls.backward() != 0:
        raise RuntimeError("a call failed")
    return _peak() - before - (_file_pages() - files), sum(a.nbytes for a in arrays.values())


def _reset_peak() -> int:
    """Forget the peak so far, where the system allows it; the bytes that count as resident before."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _file_pages() -> int:
    try:
        return _status("RssFile")
    except OSError:
        return 0


def _status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field + ":")).split()[1]) * 1024


if __name__ == "__main__":
    import openbnns

    openbnns.set_num_threads(int(sys.argv[2]))
    print(*measure(next(case for case in all_cases() if case.name == sys.argv[1])))

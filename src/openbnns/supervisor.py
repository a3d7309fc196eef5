"""The parent of a rank of an MPI job, which says what has ended it: ``mpiexec -n 4 python -m openbnns.supervisor train.py``.

Nobody else can: a process that is killed says nothing, and launchers kill the other ranks at once, so that they say nothing
either. Launchers themselves name a process and a host, but no rank. ``openbnns train`` has a supervisor without asking.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_RANK_NAMES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_TOLD = {
    signal.SIGKILL: ", by a user, or by the system because memory ran out",
    signal.SIGBUS: ", perhaps because a mapped file was cut short or its disk has failed",
}
_MARK = "OPENBNNS_SUPERVISED"  # in the environment of a rank
_PR_SET_PDEATHSIG = 1


def is_supervised() -> bool:
    """True if this process has a supervisor."""
    return _MARK in os.environ


def supervise(command: Sequence[str]) -> int:
    """Run a rank, pass signals on to it, and say so if another signal ends it; gives the exit code."""
    environment = {**os.environ, _MARK: "1"}
    # Open files are inherited, as the connection to the launcher is one of them.
    process = subprocess.Popen(command, close_fds=False, env=environment, preexec_fn=_follow)

    def pass_on(number: int, frame: Any) -> None:
        process.send_signal(number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    code = process.wait()
    if code >= 0:
        return code
    if -code != signal.SIGINT:  # whose traceback Python has printed
        rank = next((os.environ[name] for name in _RANK_NAMES if name in os.environ), "0")
        ended = signal.Signals(-code)
        why = f"Process {process.pid} was ended by {ended.name}{_TOLD.get(ended, '')}."
        print(f"Rank {rank} on {platform.node()} failed. {why} This ends all ranks.", file=sys.stderr, flush=True)
    return 128 - code


def _follow() -> None:
    """Let a rank end with its parent, which launchers kill; and get signals from the parent alone, not once more from others."""
    os.setpgid(0, 0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: mpiexec -n RANKS python -m openbnns.supervisor PROGRAM.py [ARGUMENT ...]")
    sys.exit(supervise([sys.executable, *sys.argv[1:]]))

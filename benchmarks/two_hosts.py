"""Two test hosts on this machine: network namespaces, joined by a link with a limit. Needs root, iproute2 and MPICH.

``python benchmarks/two_hosts.py COMMAND ...`` runs a command on two ranks, one on each host, e.g. with
``python benchmarks/mpi.py overlap``.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import sleep

BYTES_PER_SECOND = 1_000_000_000
_LINK, _ADDRESSES = "eth0", ("10.213.77.1", "10.213.77.2")
# MPICH speaks through UCX or libfabric, both of which find shared memory if they are let.
_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": _LINK, "FI_PROVIDER": "tcp"}
_LAUNCHER = """#!/bin/sh
# What mpiexec starts in place of ssh: a host, and a command for it.
[ "$1" = -x ] && shift
host=$1
shift
exec ip netns exec "%s-$host" sh -c "$*"
"""


def _call(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def two_hosts(rate: int = BYTES_PER_SECOND) -> Iterator[list[str]]:
    """Two hosts, each of which sends at most ``rate`` bytes per second; gives the start of a command that runs on both."""
    name = f"openbnns{os.getpid()}"
    spaces = [f"{name}-{address}" for address in _ADDRESSES]
    with tempfile.TemporaryDirectory() as folder:
        launcher = Path(folder) / "launcher"
        launcher.write_text(_LAUNCHER % name)
        launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
        try:
            for space in spaces:
                _call("ip", "netns", "add", space)
            _call("ip", "link", "add", _LINK, "netns", spaces[0], "type", "veth", "peer", _LINK, "netns", spaces[1])
            for space, address in zip(spaces, _ADDRESSES, strict=True):
                _call("ip", "-n", space, "link", "set", "lo", "up")
                _call("ip", "-n", space, "address", "add", f"{address}/24", "dev", _LINK)
                _call("ip", "-n", space, "link", "set", _LINK, "up")
                limit = f"{8 * rate}bit", "burst", "128kb", "latency", "50ms"
                _call("tc", "-n", space, "qdisc", "add", "dev", _LINK, "root", "tbf", "rate", *limit)
            for space in spaces:
                while "state UP" not in _call("ip", "-n", space, "link", "show", _LINK):
                    sleep(0.05)  # the system takes up to a second to notice
            yield [
                *("ip", "netns", "exec", spaces[0], _mpiexec(), "-hosts", ",".join(_ADDRESSES), "-n", "2", "-ppn", "1"),
                *("-localhost", _ADDRESSES[0], "-launcher", "ssh", "-launcher-exec", str(launcher)),
                *(word for name, value in _TCP.items() for word in ("-genv", name, value)),
            ]
        finally:
            for space in spaces:
                subprocess.run(["ip", "netns", "delete", space], capture_output=True)


def _mpiexec() -> str:
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec") or "mpiexec"


@cache
def available() -> bool:
    """True if this process may make hosts, and has the mpiexec of MPICH."""
    try:
        version = subprocess.run([_mpiexec(), "--version"], capture_output=True, text=True).stdout
        with two_hosts():
            return "HYDRA" in version
    except (OSError, subprocess.CalledProcessError):
        return False


if __name__ == "__main__":
    with two_hosts() as start:
        sys.exit(subprocess.run([*start, *sys.argv[1:]]).returncode)

"""Several hosts with a slow network, on one machine: network namespaces, joined by a switch that delays packets.

Every host has a tunnel device (/dev/net/tun). The switch is a process that reads packets from one and writes them to another
once a link of this rate and latency would have delivered them. Needs root and Linux; MPICH's mpiexec starts ranks there.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

_PREFIX, _NETWORK = "openbnns-host", "10.93.7"
_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x1001
_MTU = 65000  # large packets, so that few of them have to be moved
_WINDOW = 2 << 20  # bytes on their way per connection: what a switch would buffer, not all memory there is
# MPICH would find out that the hosts are one machine, and use its memory.
_TCP = ("-genv", "MPIR_CVAR_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp", "-genv", "MPIR_CVAR_NOLOCAL", "1")


@dataclass(frozen=True)
class Link:
    """From a host to the switch and on to another: bytes per second each way, seconds from end to end."""

    rate: float
    latency: float

    def __str__(self) -> str:
        return f"{self.rate * 8e-9:g} Gbit/s, {self.latency * 1e3:g} ms"


def available() -> bool:
    """True if this process may make network namespaces and tunnels."""
    return sys.platform == "linux" and os.geteuid() == 0 and os.access("/dev/net/tun", os.W_OK)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def hosts(count: int, link: Link) -> Iterator[list[str]]:
    """So many hosts that are joined by such links; gives the words that start a command with one rank on each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tunnels = [_host(i + 1, stack) for i in range(count)]
        numbers = [str(tunnel) for tunnel in tunnels]
        command = [sys.executable, __file__, str(link.rate), str(link.latency), *numbers]
        switch = subprocess.Popen(command, pass_fds=tunnels)
        stack.callback(switch.wait)
        stack.callback(switch.terminate)
        launcher = folder / "launcher"  # in place of ssh: [-x] address command
        launcher.write_text(
            f'#!/bin/sh\n[ "$1" = -x ] && shift\nhost=$1; shift\nexec ip netns exec {_PREFIX}${{host##*.}} sh -c "$*"\n'
        )
        launcher.chmod(0o755)
        addresses = ",".join(f"{_NETWORK}.{i + 1}" for i in range(count))
        yield [
            "ip", "netns", "exec", f"{_PREFIX}1", _mpiexec(), "-launcher", "ssh", "-launcher-exec", str(launcher), "-hosts",
            addresses, "-localhost", f"{_NETWORK}.1", "-n", str(count), "-ppn", "1", *_TCP,
        ]  # fmt: skip


def _mpiexec() -> str:
    from mpi import mpiexec

    return mpiexec()


def _host(number: int, stack: ExitStack) -> int:
    """Make a namespace with a tunnel; gives the end of the tunnel that is outside."""
    name, device = f"{_PREFIX}{number}", f"obn{number}"
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "del", name)
    tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, tunnel)
    fcntl.ioctl(tunnel, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _TUN_WITHOUT_HEADER))
    os.set_inheritable(tunnel, True)
    _run("ip", "link", "set", device, "netns", name)
    inside = ("ip", "netns", "exec", name)
    for field in ("tcp_rmem", "tcp_wmem"):
        _run(*inside, "sysctl", "-qw", f"net.ipv4.{field}=4096 {_WINDOW // 4} {_WINDOW}")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "addr", "add", f"{_NETWORK}.{number}/24", "dev", device)
    _run(*inside, "ip", "link", "set", device, "mtu", str(_MTU), "txqueuelen", "2000", "up")
    return tunnel


def switch(link: Link, tunnels: Sequence[int]) -> None:
    """Move packets between the hosts, for ever. A packet occupies its way out of a host, then the way into another."""
    leaving, entering = [0.0] * len(tunnels), [0.0] * len(tunnels)  # until when the ways are occupied
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    places = {tunnel: i for i, tunnel in enumerate(tunnels)}
    while True:
        rest = max(waiting[0][0] - perf_counter(), 0.0) if waiting else None
        for tunnel in select.select(tunnels, [], [], rest)[0]:
            packet = os.read(tunnel, _MTU + 100)
            target = packet[19] - 1  # of an IPv4 header
            if packet[0] >> 4 != 4 or not 0 <= target < len(tunnels):
                continue
            source, length = places[tunnel], len(packet) / link.rate
            leaving[source] = max(leaving[source], perf_counter()) + length
            entering[target] = max(entering[target] + length, leaving[source] + link.latency)
            count += 1
            heapq.heappush(waiting, (entering[target], count, target, packet))
        now = perf_counter()
        while waiting and waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(waiting)
            os.write(tunnels[target], packet)


if __name__ == "__main__":
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(2))  # it sleeps most of the time, and must not be late
    switch(Link(float(sys.argv[1]), float(sys.argv[2])), [int(number) for number in sys.argv[3:]])

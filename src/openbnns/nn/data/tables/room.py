"""How much memory there is for data, and where what has no room in it goes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from ...files import memory_limit

_SHARE = 0.4  # of the free memory that a table may take: its parts are copied out of it, and the network needs some too
_GROUPS = Path("/sys/fs/cgroup")


def for_data(stream: bool | None, limit: int | None) -> int | None:
    """The bytes that a table may take in memory: 0 if it is to be streamed, any number (None) if it is not to be.

    Otherwise what is free decides, or the ``limit`` for data in memory, if one is given.
    """
    if stream is not None:
        return 0 if stream else None
    free = free_memory()
    found = None if free is None else int(_SHARE * free)
    return max(1, min((size for size in (found, limit) if size is not None), default=2**62))


def for_table(path: Path, stream: bool | None, limit: int | None) -> int | None:
    """The same for the table in a file; a compressed one takes a share of what files may ask for, however much is free."""
    found = for_data(stream, limit)
    if stream is None and limit is None and found is not None and path.suffix.lower() == ".gz":
        found = min(found, int(_SHARE * memory_limit.limit(path.stat().st_size)))
    return found


def free_memory() -> int | None:
    """The bytes that this process can still take, None if the system does not say."""
    return min((max(0, size) for size in (*_of_system(), *_of_groups(), *_of_process())), default=None)


def _of_system() -> Iterator[int]:
    for line in _text(Path("/proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            yield 1024 * int(value.split()[0])


def _of_groups() -> Iterator[int]:
    """What the limits of containers and services leave: cgroups of the second and the first version."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            folder, names = _GROUPS / path.lstrip("/"), ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            folder, names = _GROUPS / "memory" / path.lstrip("/"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        for level in (folder, *folder.parents):
            most, used = (_text(level / name).strip() for name in names)
            if most.isdigit() and used.isdigit():
                yield int(most) - int(used)


def _of_process() -> Iterator[int]:
    """What ``ulimit`` leaves."""
    pages = _text(Path("/proc/self/statm")).split()
    if len(pages) < 6:
        return
    resource = import_module("resource")
    for what, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most = resource.getrlimit(what)[0]
        if most != resource.RLIM_INFINITY:
            yield most - int(used) * resource.getpagesize()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def folder() -> str:
    """For temporary files that may be large: TMPDIR, else /var/tmp, because /tmp is memory on many systems."""
    return tempfile.gettempdir() if os.environ.get("TMPDIR") or not os.path.isdir("/var/tmp") else "/var/tmp"

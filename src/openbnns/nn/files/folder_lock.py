"""One trainer per folder: a lock file with the process and the host of its owner.

The owner keeps the file locked (``flock``), which the system undoes when the process ends, however it ends. So on one host
a lock without an owner is known to be stale and is taken over. The state of a process on another host, which shares the
folder over a network, is unknown; its lock is taken over only on demand (``force``), and never while the file is locked.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAME = "trainer.lock"


class FolderInUse(RuntimeError):
    """Another trainer writes to the folder; the message names its process and host."""


@contextmanager
def locked(folder: Path, *, force: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a folder; raises FolderInUse if it belongs to another trainer."""
    path = folder / NAME
    handle = _open(path)
    try:
        _take(handle, path, force, say)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    """The lock file, locked where the file system can."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if _is_locked(handle):
                raise FolderInUse(_refusal(path, _owner(handle) or {}))
            # The owner before may have removed the file between the two calls; then this one locks nothing.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _is_locked(handle: int) -> bool:
    """Lock the file; True if another trainer has done so already."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return False
    except OSError as error:  # any other reason: the file system has no locks, and the process number must do
        return error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    return False


def _take(handle: int, path: Path, force: bool, say: Callable[[str], None]) -> None:
    """Make this process the owner, unless the previous one may still be running."""
    here, owner = platform.node(), _owner(handle)
    if owner is not None:
        if owner.get("host") == here:
            if _is_alive(owner.get("process")) and not _can_lock(handle):
                raise FolderInUse(_refusal(path, owner))
        elif not force:
            raise FolderInUse(
                f"{path.parent}: {_named(owner)} is training there, as far as can be told from here. If it has ended, take "
                f"over with --force (in Python nn.Trainer(..., force=True)), or remove {path}."
            )
        say(f"{path.parent}: taking over from {_named(owner)}, which has ended.")
    mine = {"process": os.getpid(), "host": here, "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(mine).encode(), 0)


def _can_lock(handle: int) -> bool:
    """True if the file system supports locks and this process now holds the one of the file."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _owner(handle: int) -> dict[str, Any] | None:
    """The owner that the file names; ``None`` if it is new."""
    text = os.pread(handle, 4096, 0)
    if not text:
        return None
    try:
        owner = json.loads(text)
    except (ValueError, RecursionError):
        owner = None
    return owner if isinstance(owner, dict) else {}


def _named(owner: dict[str, Any]) -> str:
    process, host, since = (owner.get(name, "unknown") for name in ("process", "host", "since"))
    return f"process {process} on host {host} (since {since})"


def _refusal(path: Path, owner: dict[str, Any]) -> str:
    return f"{path.parent}: {_named(owner)} is training there. Wait until it ends, stop it, or choose another folder."


def _is_alive(process: Any) -> bool:
    if not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True

"""One trainer per folder: a file that its owner keeps locked, and that names the process and the host of the owner.

The system unlocks it when the process ends, however it ends. On another host, or where files cannot be locked, whether the
owner still runs is unknown: its lock is taken over only on demand (``force``), and never while the file is locked.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "trainer.lock"


class FolderInUse(RuntimeError):
    """Another trainer writes to the folder; the message names its process and host."""


@contextmanager
def locked(folder: Path, *, force: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a folder; raises FolderInUse if it belongs to another trainer."""
    path, here = folder / NAME, platform.node()
    handle, is_locked = _open(path)
    try:
        owner = _owner(handle)
        if owner and not force and not (is_locked and f" on host {here} " in owner):
            raise FolderInUse(
                f"{folder}: {owner} is training there, as far as can be told from here. If it has ended, take over with "
                f"--force (in Python nn.Trainer(..., force=True)), or remove {path}."
            )
        if owner:
            say(f"{folder}: taking over from {owner}, which has ended.")
        os.ftruncate(handle, 0)
        own = f"process {os.getpid()} on host {here} (since {time.strftime('%Y-%m-%d %H:%M:%S')})"
        os.pwrite(handle, own.encode(), 0)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def _open(path: Path) -> tuple[int, bool]:
    """The lock file, and False where files cannot be locked."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The owner before may have removed the file between the two calls; then this one locks nothing.
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle, True
        except FileNotFoundError:
            pass
        except (BlockingIOError, PermissionError):
            owner = _owner(handle) or "another process"
            os.close(handle)
            raise FolderInUse(
                f"{path.parent}: {owner} is training there. Wait until it ends, stop it, or choose another folder."
            ) from None
        except (ImportError, OSError):
            return handle, False
        os.close(handle)


def _owner(handle: int) -> str:
    """The owner that the file names; empty if it is new."""
    return os.pread(handle, 200, 0).decode(errors="replace")

"""The machine and the versions that a run was computed with."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from .runtime import config


def describe() -> dict[str, str]:
    """Processor, memory, system and versions, by name; what a system does not tell is left out."""
    settings = config()
    told = {
        "processor": _processor(),
        "cores": str(os.cpu_count() or ""),
        "threads used": settings["threads"],
        "instruction set": settings["instruction set"],
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "openbnns": settings["openbnns"],
        "engine": settings["engine"],
        "accuracy": settings["accuracy"],
        "Python": settings["python"],
        "NumPy": settings["numpy"],
    }
    return {name: value for name, value in told.items() if value}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip().lower() in ("model name", "hardware", "cpu model"):
            return value.strip()
    return platform.processor()


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return ""
    return f"{size / 2**30:.1f} GiB"

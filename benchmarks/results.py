"""Results of one machine with one instruction set: a JSON file, which later runs add to."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import time
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import openbnns
from openbnns._machine import describe
from openbnns.cli.bench import HOW

PARTS = ("cases", "figures", "sweep")
PEERS = ("torch", "jax", "onnxruntime")
SAME = ("processor", "cores", "instruction set", "note")
"""The facts that all results in one file have in common."""


@dataclass
class Results:
    """Records of cases (an operation against PyTorch), figures (single numbers, whole networks) and points of the sweep."""

    about: dict[str, str]
    cases: list[dict[str, Any]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    sweep: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Results:
        content = json.loads(path.read_text())
        return cls(content["about"], *(content.get(part, []) for part in PARTS))

    def joined(self, earlier: Results) -> Results:
        """These, and what an earlier run on the same machine measured beside them."""
        for name in SAME:
            here, there = self.about.get(name, ""), earlier.about.get(name, "")
            if here != there:
                raise ValueError(f"the file is about another machine: its {name} is {there!r}, here it is {here!r}.")
        both = Results(earlier.about | self.about)
        for part in PARTS:
            new, old = getattr(self, part), getattr(earlier, part)
            known = {_key(record): record for record in old} | {_key(record): record for record in new}
            getattr(both, part).extend(known.values())
        return both

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"about": self.about, **{part: [_finite(r) for r in getattr(self, part)] for part in PARTS}}
        path.write_text(json.dumps(content, indent=1) + "\n")

    @property
    def title(self) -> str:
        """The machine in a few words."""
        words = [self.about["processor"], self.about["instruction set"]]
        return ", ".join([*words, self.about["note"]] if self.about.get("note") else words)


def _key(record: dict[str, Any]) -> tuple[str, int]:
    return record["name"], record.get("threads", 0)


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """With null for numbers that JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in record.items()
    }


def about(note: str = "") -> dict[str, str]:
    """Machine and versions; some figures need no PyTorch."""
    machine = describe()
    told = {
        name: machine[name] for name in ("processor", "cores", "instruction set", "memory", "system") if name in machine
    }
    packages = {name: metadata.version(name) if find_spec(name) else "none" for name in PEERS}
    return told | {
        "note": "; ".join(filter(None, [_limited(machine["instruction set"]), note])),
        "openbnns": openbnns.__version__,
        **packages,
        "numpy": machine["NumPy"],
        "python": machine["Python"],
        "peak": HOW,
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _limited(used: str) -> str:
    """A note if the processor could do more than was allowed."""
    asked = os.environ.get("OPENBNNS_ISA", "")
    if used != asked or used == "avx512" or "avx512f" not in _flags():
        return ""
    return f"limited to {used} on a processor that has AVX-512"


def _flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    return {flag for line in lines if line.startswith("flags") for flag in line.split()}


def file_name(about: dict[str, str]) -> str:
    """The name of the file for a machine and its instruction set, such as ``intel-xeon-2.80ghz-avx512``."""
    words = re.findall(r"[a-z0-9.]+", about["processor"].lower()) or [platform.machine()]
    kept = [word for word in words if word not in ("r", "tm", "cpu", "processor")]
    return "-".join([*kept, about["instruction set"]])

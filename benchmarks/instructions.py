"""Measures without the newest instructions of this processor, on all sides."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--isa", choices=["avx2"], help="the newest instructions that all sides may use")


def is_limited(isa: str | None) -> bool:
    """True if this process has no more than the instructions that ``--isa`` names."""
    return isa is None or os.environ.get("OPENBNNS_ISA") == isa


def restart(isa: str) -> int:
    """The same command in a process that has the variables of all sides set before it loads them.

    PyTorch keeps compiled code without noting for which instructions, hence a cache of its own.
    """
    own = {
        "OPENBNNS_ISA": isa, "ATEN_CPU_CAPABILITY": isa, "ONEDNN_MAX_CPU_ISA": isa.upper(),
        "MKL_ENABLE_INSTRUCTIONS": isa.upper(), "OPENBLAS_CORETYPE": "Haswell",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={isa.upper()}".strip(),
        "TORCHINDUCTOR_CACHE_DIR": str(Path(tempfile.gettempdir(), f"openbnns_bench_{isa}")),
    }  # fmt: skip
    return subprocess.run([sys.executable, *sys.argv], env=os.environ | own).returncode

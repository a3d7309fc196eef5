"""Random hostile calls of the C library (``fuzz_c.py``) in a process of their own: always the same ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_hostile_calls() -> None:
    script = Path(__file__).parents[1] / "fuzz_c.py"
    run = subprocess.run(
        [sys.executable, script, "--seed", "1", "--calls", "2500"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    *_, made, _, refused, _ = run.stdout.replace(",", "").split()
    assert 0.2 * int(made) < int(refused) < 0.8 * int(made)

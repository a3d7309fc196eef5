"""Starting MPI jobs from tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import openbnns

HERE = Path(__file__).resolve().parent
SECONDS = 300  # ranks share two cores with other tests


def mpiexec() -> str:
    """The mpiexec of Python's environment, or else of the machine."""
    beside = Path(sys.executable).with_name("mpiexec")
    program = str(beside) if beside.exists() else shutil.which("mpiexec")
    assert program, "mpi4py is installed, but there is no mpiexec: pip install mpich"
    return program


def start(ranks: int, program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a job of so many ranks that runs a file beside this one."""
    package = str(Path(openbnns.__file__).resolve().parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    command = [mpiexec(), "-n", str(ranks), sys.executable, str(HERE / program), *arguments]
    settings = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=settings)


def finish(job: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Wait for the end of a job, which may have failed."""
    try:
        out, err = job.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        raise
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def run(ranks: int, program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A whole job; it may fail."""
    return finish(start(ranks, program, *arguments, **options))


def train(ranks: int, folder: Path, told: dict[str, Any] | None = None, **environment: str) -> dict[str, Any]:
    """The files that ``train.py`` leaves behind."""
    path = folder / f"results-{ranks}.npz"
    done = run(ranks, "train.py", str(path), json.dumps(told or {}), **environment)
    assert done.returncode == 0, f"{ranks} ranks: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    with np.load(path) as archive:
        return dict(archive)


def differing(one: dict[str, Any], other: dict[str, Any], prefix: str = "") -> list[str]:
    """The names of arrays that are not bitwise the same."""
    assert set(one) == set(other)
    return [n for n in one if n.startswith(prefix) and one[n].tobytes() != other[n].tobytes()]

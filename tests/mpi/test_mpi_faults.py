"""Faults of one rank end, or stop, all of them in time; a run goes on from there on any number of ranks."""

from __future__ import annotations

import json
import platform
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpi.jobs import finish, run, start

HOST = re.escape(platform.node())
PROMISED = 10  # seconds
STEPS = 3  # in an epoch of fault.py


class Chain:
    """Jobs that go on from each other's checkpoints, each with another fate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def job(self, ranks: int, **told: Any) -> subprocess.CompletedProcess[str]:
        done = run(ranks, "fault.py", str(self.folder), json.dumps(told))
        if "what" in told:
            took = time.time() - float((self.folder / "time").read_text())
            assert done.returncode != 0, f"{told}: nothing happened\n{done.stdout}\n{done.stderr}"
            assert took < PROMISED, f"{told}: the job ended after {took:.1f} s"
        else:
            assert done.returncode == 0, done.stderr
        return done

    def weights(self) -> dict[str, Any]:
        with np.load(self.folder / "weights.npz") as archive:
            return dict(archive)

    def latest(self) -> str:
        return max(path.name for path in (self.folder / "run").glob("checkpoint-*"))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The weights of one rank that nothing happens to."""
    chain = Chain(tmp_path_factory.mktemp("whole"))
    chain.job(1)
    return chain.weights()


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return set(one) == set(other) and all(one[name].tobytes() == other[name].tobytes() for name in one)


KILLS = [
    (4, 0, "checkpoint"), (4, 1, "exchange"), (4, 2, "step"), (4, 3, "checkpoint"), (3, 0, "exchange"), (3, 1, "checkpoint"),
    (3, 2, "exchange"), (2, 0, "step"), (2, 1, "exchange"),
]  # fmt: skip


def test_a_run_of_which_a_rank_was_killed_goes_on_from_a_whole_checkpoint(
    tmp_path: Path, uninterrupted: dict[str, Any]
) -> None:
    """Every rank of 2, 3 and 4 in turn: while it computes, sends, and when a checkpoint is being written."""
    chain = Chain(tmp_path)
    for number, (ranks, rank, when) in enumerate(KILLS):
        epoch = number + 2  # in every job one more is done
        chain.job(ranks, rank=rank, what="SIGKILL", when=when, epoch=epoch)
        assert chain.latest() == f"checkpoint-{STEPS * (epoch - 1):09d}.safetensors"
    chain.job(3)
    assert same(chain.weights(), uninterrupted)
    assert not list((tmp_path / "run").glob(".*"))


def test_a_launcher_names_a_process_and_the_run_says_whose_it_is(tmp_path: Path) -> None:
    """The other ranks are killed at once, and cannot say anything."""
    done = Chain(tmp_path).job(2, rank=1, what="SIGKILL", when="step", epoch=2)
    ranks = re.search(rf"Ranks: 0, 1 on {HOST} \(process \d+, (\d+)\)", done.stdout)
    assert ranks and re.search(rf"PID {ranks[1]} RUNNING AT {HOST}", done.stdout + done.stderr)


FAILURES = {
    "step": ("raise", r"failed:\nTraceback(.|\n)*OSError: the disk is full"),
    "read": ("raise", r"failed:\nTraceback(.|\n)*OSError: the disk is full"),
    "outside": ("missing", r"failed:\nTraceback(.|\n)*DataError: .*nowhere.npy: cannot be read as .npy \(No such file"),
    "leaves": ("exit", r"failed:\nTraceback(.|\n)*SystemExit: 0"),
}
WHEN = {"leaves": "step"}


@pytest.mark.parametrize("name", FAILURES)
def test_a_rank_that_fails_ends_all_others(name: str, tmp_path: Path) -> None:
    """In a callback, reading data, between two calls of fit; or leaving without an error."""
    what, message = FAILURES[name]
    done = Chain(tmp_path).job(3, rank=1, what=what, when=WHEN.get(name, name), epoch=2)
    told = re.findall(r"^Rank .*$", done.stderr, re.MULTILINE)
    assert len(told) == 1 and re.search(rf"Rank 1 on {HOST} {message}", done.stderr), done.stderr
    assert not (tmp_path / "weights.npz").exists()


def test_signals_stop_all_ranks_at_the_same_step(tmp_path: Path, uninterrupted: dict[str, Any]) -> None:
    """SIGTERM to each of three ranks in turn, as schedulers send it; then SIGINT to the launcher, as a terminal does."""
    chain = Chain(tmp_path)
    for rank in range(3):
        done = chain.job(3, rank=rank, what="SIGTERM", when="step", epoch=rank + 1)
        told = re.findall(r"Interrupted: Stopped by SIGTERM in epoch \d+. Go on from \S+(checkpoint-\S+)", done.stderr)
        assert told == [chain.latest()], done.stderr
        assert chain.latest() == f"checkpoint-{STEPS * rank + 2:09d}.safetensors"
    job = start(2, "fault.py", str(tmp_path), json.dumps({"started": True, "pause": 0.05}))
    while not (tmp_path / "started").exists() and job.poll() is None:
        time.sleep(0.05)
    job.send_signal(signal.SIGINT)
    began = time.time()
    done = finish(job)
    assert time.time() - began < PROMISED
    assert re.findall(r"Interrupted: Stopped by SIGINT .* Go on from \S+(checkpoint-\S+)", done.stderr) == [
        chain.latest()
    ]
    chain.job(2)
    assert same(chain.weights(), uninterrupted)


def test_data_larger_than_memory(tmp_path: Path) -> None:
    """The file has 256 MiB; a process may take 192 more than it has before it reads any. Alone, and on two ranks."""
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (2048, 32768))
    array[::16, ::64] = np.random.RandomState(0).standard_normal((128, 512))
    del array
    for ranks, arguments in ((1, []), (2, ["distributed"])):
        done = run(ranks, "larger_than_memory.py", str(tmp_path / "x.npy"), *arguments)
        assert done.returncode == 0, done.stderr
        weights = re.findall(r"[0-9a-f]{64}", done.stdout)
        assert len(weights) == ranks and len(set(weights)) == 1

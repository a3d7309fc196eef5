"""``mpiexec -n N openbnns ...``: one result, one voice, one exit code."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import openbnns
from mpi.jobs import SECONDS, mpiexec

PACKAGE = str(Path(openbnns.__file__).resolve().parents[1])
OPENBNNS = [sys.executable, "-m", "openbnns"]


def settings(**more: str) -> dict[str, str]:
    path = os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **more}


def call(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = settings(**environment)
    return subprocess.run(list(command), capture_output=True, text=True, timeout=SECONDS, env=environ)


def job(ranks: int, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return call(mpiexec(), "-n", str(ranks), *OPENBNNS, *arguments, **environment)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small ones for the CNN, which has batch normalization and dropout."""
    path = tmp_path_factory.mktemp("data") / "images.npz"
    random = np.random.RandomState(0)
    y = random.randint(0, 3, 150)
    np.savez(path, x=(random.standard_normal((150, 1, 8, 8)) + y[:, None, None, None]).astype(np.float32), y=y)
    return path


def test_any_number_of_ranks_writes_the_same_model(images: Path, tmp_path: Path) -> None:
    """And so does one process with --distributed; rank 0 alone prints and writes."""
    common = [
        "train",
        "--data",
        str(images),
        "--epochs",
        "2",
        "--batch-size",
        "36",
        "--shards",
        "6",
        "--clip-norm",
        "1",
    ]
    one = call(*OPENBNNS, *common, "--no-report", "--distributed", "--out", str(tmp_path / "alone"))
    assert one.returncode == 0, one.stderr
    assert re.search(r"^1 rank on 1 host, \d+ threads?; every batch is cut into 6 shards$", one.stdout, re.MULTILINE)
    model = (tmp_path / "alone/model.safetensors").read_bytes()
    for ranks, more in ((1, ["--no-report"]), (3, ["--no-report"]), (2, [])):
        out = tmp_path / str(ranks)
        done = job(ranks, *common, *more, "--out", str(out))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Training cnn") == done.stdout.count("epoch 2/2") == done.stdout.count("Written:") == 1
        assert (out / "model.safetensors").read_bytes() == model, f"{ranks} ranks"
        assert not (out / "trainer.lock").exists()
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert f"2 ranks on 1 host, {threads} thread" in done.stdout
    report = (tmp_path / "2/report.html").read_text()
    assert f"mpiexec -n 2 openbnns train {images} --model" in report and "--shards 6" in report


def test_what_all_ranks_refuse_is_said_once(images: Path, tmp_path: Path) -> None:
    common = ["train", "--data", str(images), "--out", str(tmp_path), "--epochs", "1"]
    for arguments, message in [
        (["--shards", "1"], r"openbnns train: Trainer.fit: 1 shards cannot be shared by 2 ranks. Use fewer ranks"),
        (["--data", "nothing.npz"], r"openbnns train: .*nothing.npz"),
    ]:
        done = job(2, *common, *arguments)
        assert done.returncode == 2, (arguments, done.returncode, done.stderr)
        assert len(re.findall(message, done.stderr)) == 1, done.stderr
        assert done.stdout == "" or "Training" in done.stdout


def test_what_one_rank_cannot_read_is_said_once_with_its_name(images: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    arguments = [*OPENBNNS, "train", "--data", images.name, "--epochs", "1", "--out", str(tmp_path / "out")]
    for folders, rank in (((images.parent, tmp_path / "empty"), 1), ((tmp_path / "empty", images.parent), 0)):
        words = [[*(("-n", "1", "-wdir", str(folder))), *arguments] for folder in folders]
        done = call(mpiexec(), *words[0], ":", *words[1])
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert len(re.findall(rf"^openbnns train: Rank {rank} on \S+?: .*images.npz", done.stderr, re.MULTILINE)) == 1
        assert done.stderr.count("openbnns train:") == 1 and "Traceback" not in done.stderr, done.stderr


def test_a_run_that_was_interrupted_names_the_command_to_go_on_with(images: Path, tmp_path: Path) -> None:
    words = ["train", "--data", str(images), "--epochs", "12", "--no-report", "--out"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert call(*OPENBNNS, *words, str(whole), "--distributed", "--quiet").returncode == 0
    command = [mpiexec(), "-n", "2", *OPENBNNS, *words, str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=settings(PYTHONUNBUFFERED="1")
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("epoch  1/12"):
                process.send_signal(signal.SIGINT)
                break
        _, told = process.communicate(timeout=SECONDS)
    if (
        "Open MPI" in call(mpiexec(), "--version").stdout
    ):  # it kills its ranks; the checkpoint of the last epoch is there
        assert process.returncode != 0
    else:
        assert len(re.findall("openbnns train: Stopped by SIGINT (?:in|after) epoch", told)) == 1, told
        again = f"To continue: mpiexec -n 2 openbnns {' '.join(words)} {out} --resume\n"
        assert told.count("To continue:") == 1 and again in told, told
        assert process.returncode == 130, told
    done = call(*OPENBNNS, *words, str(out), "--distributed", "--resume", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_info_describes_all_ranks_in_one_table() -> None:
    cores = len(os.sched_getaffinity(0))
    done = job(2, "info", "--mpi", OPENBNNS_NUM_THREADS=str(cores))
    assert done.returncode == 0, done.stderr
    row = rf"\S+ +[\d,-]+ +{cores} +{os.cpu_count()} +{cores}\n"
    assert re.search(rf"^rank +host.*\n[ -]+\n0 +{row}1 +{row}", done.stdout, re.MULTILINE), done.stdout
    assert re.match(r"MPI +\S.*, MPI \d\.\d, mpi4py \d", done.stdout) and done.stdout.count("layout") == 1
    assert done.stdout.count(f"ranks 0 and 1 run {2 * cores} threads on {cores} core") == 1

"""The folder of a run: damaged and forged checkpoints, one trainer at a time, what killed writes leave behind."""

from __future__ import annotations

import json
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.files import safetensors as weights
from openbnns.nn import checkpoints
from openbnns.nn.checkpoints import CheckpointError
from openbnns.nn.files import folder_lock as _folder_lock
from training_runs import copy, fit, mlp

EPOCHS = 4


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("begun") / "run"
    return folder, fit(folder, EPOCHS, early_stopping=9)


# Damaged and forged.


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """Change state or arrays of a checkpoint, with a checksum that is right."""
    checkpoint = checkpoints.read(path)
    change(checkpoint.state, checkpoint.arrays)
    state = json.dumps(checkpoint.state)
    metadata = {"format": checkpoints.FORMAT, "state": state, "sha256": checkpoints._checksum(checkpoint.arrays, state)}
    path.write_bytes(weights.encode(checkpoint.arrays, metadata))


def header_of(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the header of a file as text."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = change(data[8 : 8 + length])
    path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + length :])


def as_state(text: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        checkpoint = checkpoints.read(path)
        metadata = {
            "format": checkpoints.FORMAT,
            "state": text,
            "sha256": checkpoints._checksum(checkpoint.arrays, text),
        }
        path.write_bytes(weights.encode(checkpoint.arrays, metadata))

    return change


def state_with(**values: Any) -> Callable[[Path], None]:
    return lambda path: rewrite(path, lambda state, arrays: state.update(values))


def settings_with(**values: Any) -> Callable[[Path], None]:
    named = {name.replace("_", " "): value for name, value in values.items()}
    return lambda path: rewrite(path, lambda state, arrays: state["settings"].update(named))


def arrays_with(**arrays: np.ndarray) -> Callable[[Path], None]:
    named = {name.replace("__", "."): array for name, array in arrays.items()}
    return lambda path: rewrite(path, lambda state, own: own.update(named))


def drop(name: str) -> Callable[[Path], None]:
    return lambda path: rewrite(path, lambda state, arrays: state.pop(name))


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "empty": lambda path: path.write_bytes(b""),
    "a bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "a pipe": as_pipe,
    "infinite shape": lambda path: header_of(path, lambda h: h.replace(b'"shape":[16,2]', b'"shape":[Infinity]')),
    "deep header": lambda path: header_of(path, lambda h: h[:-1].rstrip(b" }") + b',"x":' + b"[" * 100_000),
    "rank": lambda path: header_of(path, lambda h: h.replace(b'"shape":[16]', b'"shape":[' + b"1," * 99 + b"16]")),
    "metadata": lambda path: header_of(path, lambda h: b'{"__metadata__":[1],' + h[h.index(b'"network') :]),
    "deep state": as_state("[" * 100_000),
    "state of text": as_state('"x"'),
    "state is a list": as_state("[]"),
    "state is not JSON": as_state("{"),
    "no epoch": drop("epoch"),
    "no settings": drop("settings"),
    "no history": drop("history"),
    "negative epoch": state_with(epoch=-1),
    "epoch of text": state_with(epoch="4"),
    "epoch of infinity": state_with(epoch=float("inf")),
    "huge epoch": state_with(epoch=10**30),
    "huge batch": state_with(batch=10**6),
    "sums": state_with(sums=[]),
    "other sums": state_with(sums={"losses": ["0"], "weights": [0]}),
    "sums of nothing": state_with(sums={"losses": 0}),
    "best value": state_with(best_value="low"),
    "callbacks": state_with(callbacks=3),
    "metrics between epochs": arrays_with(metric__accuracy__counts=np.zeros(2, np.int64)),
    "accumulation": settings_with(gradient_accumulation=0),
    "waited": state_with(waited=None),
    "history of numbers": state_with(history=[1, 2, 3, 4]),
    "history without records": state_with(history=[{}] * EPOCHS),
    "settings": state_with(settings=[]),
    "epochs": settings_with(epochs="4"),
    "batch size 0": settings_with(batch_size=0),
    "training data": settings_with(training_data={}),
    "validation data": settings_with(validation_data=3),
    "schedule": settings_with(schedule={"steps": 1}),
    "optimizer": settings_with(optimizer=None),
    "layers": settings_with(layers=7),
    "arrays": settings_with(arrays={"network.0.weight": 3}),
    "steps": arrays_with(optimizer__steps=np.zeros(3, np.int64)),
    "more arrays": arrays_with(network__other=np.zeros(3)),
    "shape": arrays_with(network__0__weight=np.zeros((2, 16), np.float32)),
    "type": arrays_with(network__0__weight=np.zeros((16, 2))),
    "best": arrays_with(best__0__weight=np.zeros((2, 16), np.float32)),
    "best of nothing": arrays_with(best__x=np.zeros(1)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_no_run_writes_is_passed_over(begun: tuple[Path, np.ndarray], tmp_path: Path, damage: str) -> None:
    folder, said = copy(begun[0], tmp_path / "run"), []
    newest, before = checkpoints.list_files(folder)
    DAMAGE[damage](newest)
    again = fit(folder, EPOCHS, True, early_stopping=9, said=said)
    assert said[0].startswith(f"Skipping a damaged checkpoint. {newest}"), said
    assert "Resuming at epoch 4" in said[1]
    np.testing.assert_array_equal(again, begun[1])
    # It no longer counts: the good ones are both there.
    assert checkpoints.list_files(folder) == [newest, before]
    assert (folder / (newest.name + checkpoints.DAMAGED)).exists()
    for path in (newest, before):
        checkpoints.read(path)


def test_damaged_files_do_not_displace_good_ones(tmp_path: Path) -> None:
    """Damaged files of later steps would otherwise count as the latest, and every new one would be deleted."""
    fit(tmp_path, 2)
    for step in (900, 901):
        (tmp_path / f"checkpoint-{step:09d}.safetensors").write_bytes(b"nonsense")
    fit(tmp_path, 4, True)
    assert [checkpoints.step_of(path) for path in checkpoints.list_files(tmp_path)] == [24, 18]
    assert len(list(tmp_path.glob("*.damaged"))) == 2


def test_a_checkpoint_under_another_name(begun: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    folder, said = copy(begun[0], tmp_path / "run"), []
    newest = checkpoints.list_files(folder)[0]
    (folder / "checkpoint-000000999.safetensors").write_bytes(newest.read_bytes())
    fit(folder, EPOCHS, True, early_stopping=9, said=said)
    assert "its step is not that of its name" in said[0] and "nothing to do" in said[1]


def test_if_all_are_damaged_they_stay(tmp_path: Path) -> None:
    fit(tmp_path, 2)
    for path in checkpoints.list_files(tmp_path):
        path.write_bytes(b"nonsense")
    names = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):  # the second time must not start from the beginning, either
        with pytest.raises(CheckpointError, match="all 2 checkpoints are damaged"):
            fit(tmp_path, 2, True)
    assert {path.name for path in tmp_path.iterdir()} == names


# One trainer at a time.

OWNER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from openbnns.nn.files.folder_lock import locked
with locked(Path({folder!r}), force=False, say=print):
    print("locked", flush=True)
    time.sleep(100)
"""


def owner(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of a folder."""
    text = OWNER.format(tests=str(Path(__file__).parents[1]), folder=str(folder))
    process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "locked\n"
    return process


def test_a_second_trainer_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.RandomState(0).standard_normal((40, 2))
    np.savez(tmp_path / "a.npz", x=x, y=(x[:, 0] > 0).astype(int))
    folder = tmp_path / "run"
    folder.mkdir()
    process = owner(folder)
    try:
        who = f"process {process.pid} on host {platform.node()} "
        for force in (False, True):  # force does not take over from the living
            with pytest.raises(_folder_lock.FolderInUse, match=f"{who}.* is training there"):
                fit(folder, 2, force=force)
        arguments = ["--data", str(tmp_path / "a.npz"), "--epochs", "1", "--out", str(folder), "--force"]
        assert cli.main(["train", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert who in line and "choose another folder" in line
        assert [path.name for path in folder.iterdir()] == [_folder_lock.NAME]
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    said: list[str] = []
    fit(folder, 2, said=said)  # the killed one is known to have ended
    assert said[0].startswith(f"{folder}: taking over from {who}") and said[0].endswith("which has ended.")
    assert not (folder / _folder_lock.NAME).exists()


def test_a_second_trainer_of_this_process_is_refused(tmp_path: Path) -> None:
    with (
        _folder_lock.locked(tmp_path, force=False, say=print),
        pytest.raises(_folder_lock.FolderInUse, match=f"process {os.getpid()} "),
    ):
        fit(tmp_path, 2)
    fit(tmp_path, 2)


@pytest.mark.parametrize("content", ["process 3 on host elsewhere (since today)", "nonsense", "[" * 5000])
def test_of_another_host_one_cannot_tell(tmp_path: Path, content: str) -> None:
    (tmp_path / _folder_lock.NAME).write_text(content)
    with pytest.raises(_folder_lock.FolderInUse, match=r"If it has ended, take over with --force .*or remove .*lock"):
        fit(tmp_path, 2)
    assert (tmp_path / _folder_lock.NAME).read_text() == content
    assert not checkpoints.list_files(tmp_path)
    fit(tmp_path, 2, force=True)
    assert len(checkpoints.list_files(tmp_path)) == 2


def test_where_files_cannot_be_locked_one_cannot_tell_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def unsupported(*arguments: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with (
        _folder_lock.locked(tmp_path, force=False, say=print),
        pytest.raises(_folder_lock.FolderInUse, match=f"process {os.getpid()} .*take over with --force"),
    ):
        fit(tmp_path, 2)
    fit(tmp_path, 2)
    (tmp_path / _folder_lock.NAME).write_text(f"process 3 on host {platform.node()} (since today)")
    fit(tmp_path, 3, force=True)


def test_many_trainers_at_once_give_one_run(tmp_path: Path) -> None:
    """Trainers that start together train one at a time; none deletes what another wrote."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from pathlib import Path\nfrom training_runs import fit\nfrom openbnns.nn.files.folder_lock import FolderInUse\n"
        f"try:\n    fit(Path({str(tmp_path)!r}), 60, True)\nexcept FolderInUse:\n    sys.exit(3)\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    codes = [process.wait(120) for process in processes]
    assert codes.count(0) >= 1 and set(codes) <= {0, 3}
    assert [checkpoints.step_of(path) for path in checkpoints.list_files(tmp_path)] == [360, 354]


def test_a_failed_run_leaves_the_folder_free(tmp_path: Path) -> None:
    with pytest.raises(nn.Diverged):
        fit(tmp_path, 4, optimizer=nn.SGD(1e30), net=mlp(nn.ReLU()))
    assert not (tmp_path / _folder_lock.NAME).exists()
    fit(tmp_path, 1)


# What killed writes leave behind.


def test_parts_of_killed_writes_are_removed(tmp_path: Path) -> None:
    ours = [
        ".checkpoint-000000006.safetensors.abcd1_x9.part", ".history.json.abcdefgh.part",
        ".model.safetensors.zzzzzzzz.part", ".report.html.00000000.part",
    ]  # fmt: skip
    others = [
        ".notes.txt.abcdefgh.part",
        "download.part",
        ".checkpoint-6.safetensors.abcdefgh.part",
        ".history.json.part",
    ]
    for name in (*ours, *others):
        (tmp_path / name).write_bytes(b"x")
    with _folder_lock.locked(tmp_path, force=False, say=print):  # another trainer may be writing them
        with pytest.raises(_folder_lock.FolderInUse):
            fit(tmp_path, 1)
        assert all((tmp_path / name).exists() for name in (*ours, *others))
    fit(tmp_path, 1)
    assert not any((tmp_path / name).exists() for name in ours)
    assert all((tmp_path / name).exists() for name in others)


KILLED_WHILE_WRITING = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from training_runs import fit
keep, count = os.replace, [0]
def replace(source, target):
    count[0] += 1
    if count[0] == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    keep(source, target)
os.replace = replace
fit(Path({folder!r}), 4)
"""


def test_killed_in_the_middle_of_a_write(tmp_path: Path) -> None:
    text = KILLED_WHILE_WRITING.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path / "run"))
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == -signal.SIGKILL
    assert len(list((tmp_path / "run").glob(".*.part"))) == 1
    whole = fit(tmp_path / "whole", 4)
    np.testing.assert_array_equal(fit(tmp_path / "run", 4, True), whole)
    assert not list((tmp_path / "run").glob(".*.part"))


def test_files_and_folder_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name must reach the disk after its contents."""
    done: list[str] = []
    flush, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        done.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        flush(handle)

    def rename(source: Any, target: Any) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", rename)
    weights.write_atomically(tmp_path / "a", b"x")
    assert done == ["file", "rename", "folder"]
    assert (tmp_path / "a").read_bytes() == b"x" and time.time() - (tmp_path / "a").stat().st_mtime < 60

"""The command line without MPI, and where MPI is not what it should be. Jobs of several ranks are in mpi/."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openbnns import cli
from openbnns._elsewhere import OPTIONS
from openbnns.cli.launcher import Launch, launched
from openbnns.cli.rank_layout import RankPlace, in_words, warnings


def test_launchers_are_known_by_their_environment() -> None:
    mpich = {"PMI_RANK": "1", "PMI_SIZE": "4"}
    assert launched(mpich) == (1, 4, "mpiexec")
    assert launched({"PMI_RANK": "0", "PMI_SIZE": "1"}) == (0, 1, "mpiexec")
    openmpi = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", "PMIX_RANK": "2"}
    assert launched(openmpi) == (2, 3, "mpiexec")
    step = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}
    for pmi in ({}, {"PMI_RANK": "5", "PMI_SIZE": "8"}, {"PMIX_RANK": "5"}):
        assert launched({**step, **pmi}) == (5, 8, "srun"), pmi
    # mpiexec that was itself started by srun on two nodes
    below = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    assert launched({**below, **mpich, "MPI_LOCALNRANKS": "2"}) == (1, 4, "mpiexec")
    assert launched({**below, **openmpi}) == (2, 3, "mpiexec")
    # a batch script, and a shell within a job
    assert launched({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) is None
    shell = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    assert launched(shell) is None and launched({**shell, "PMI_RANK": "0", "PMI_SIZE": "1"}) is None
    assert launched({}) is None
    assert Launch(0, 4, "srun").command == "srun -n 4"


def train(tmp_path: Path, *arguments: str) -> int:
    return cli.main(["train", "--epochs", "1", "--no-report", "--out", str(tmp_path), *arguments])


@pytest.mark.parametrize("rank", (0, 1))
def test_mpi4py_that_is_missing_is_told_once(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    monkeypatch.setenv("PMI_RANK", str(rank))
    monkeypatch.setenv("PMI_SIZE", "2")
    for call in (lambda: train(tmp_path), lambda: cli.main(["info", "--mpi"])):
        assert call() == 2
        told = capsys.readouterr()
        assert told.out == ""
        if rank:
            assert told.err == ""
        else:
            assert "mpiexec -n 2 starts ranks of an MPI job, which needs mpi4py and an MPI library." in told.err
            assert 'Run: pip install "openbnns[mpi]" mpich' in told.err
    with pytest.raises(SystemExit) as left:
        train(tmp_path, "--shards", "none")
    assert left.value.code == 2 and ("--shards" in capsys.readouterr().err) == (rank == 0)
    assert not list(tmp_path.iterdir())


def test_an_mpi_that_is_not_the_launchers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else every process would train by itself."""
    world = SimpleNamespace(Get_size=lambda: 1)
    library = SimpleNamespace(COMM_WORLD=world, get_vendor=lambda: ("Open MPI", (5, 0, 8)))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", library)  # type: ignore[arg-type]
    monkeypatch.setenv("PMI_SIZE", "4")
    for rank in (0, 3):
        monkeypatch.setenv("PMI_RANK", str(rank))
        assert train(tmp_path) == 2
        told = capsys.readouterr().err
        expected = "mpiexec has started 4 processes, but the MPI library of mpi4py (Open MPI 5.0.8) knows"
        assert (expected in told) == (rank == 0) and (told == "") == (rank == 3)


def test_a_launched_process_can_train_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", None)
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert train(tmp_path, "--no-distributed", "--model", "mlp") == 0
    assert "Test accuracy" in capsys.readouterr().out


def test_options_for_ranks_need_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(tmp_path, "--shards", "8", "--sync-batch-norm") == 2
    assert (
        "--shards, --sync-batch-norm are for training on several ranks. Start them by mpiexec"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("name", [*OPTIONS])
def test_options_that_left_are_refused_with_what_to_do(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        ["predict", "model.safetensors", "x.csv"] if name == "--keep" else ["train", "digits"]
    )  # which keeps epochs
    for words in ([name], [name, "value"], [f"{name}=value"]):
        with pytest.raises(SystemExit) as left:
            cli.main([*command, *words])
        assert left.value.code == 2
        assert f"{name} is not an option. {OPTIONS[name]}" in capsys.readouterr().err


def test_info_describes_one_rank_without_a_launcher(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # type: ignore[arg-type]
    assert cli.main(["info", "--mpi"]) == 0
    told = capsys.readouterr().out
    assert 'pip install "openbnns[mpi]"' in told and "\n0 " in told and "\n1 " not in told
    assert "not started by mpiexec or srun" in told


def places(*given: tuple[str, set[int], int]) -> list[Any]:
    return [RankPlace(host, frozenset(cores), 8, threads) for host, cores, threads in given]


def test_too_many_threads_are_found() -> None:
    everything = set(range(8))
    fine = places(("a", everything, 4), ("a", everything, 4), ("b", everything, 8))
    assert warnings(fine) == [] and in_words(fine) == "3 ranks on 2 hosts, 4 to 8 threads each"
    (line,) = warnings(places(("a", everything, 8), ("a", everything, 4), ("b", everything, 8)))
    assert line.startswith("a: ranks 0 and 1 run 12 threads on 8 cores.")
    # bound to cores of their own, of which some overlap by way of others
    bound = places(*(("a", {i, i + 1}, 2) for i in range(0, 8, 2)))
    assert warnings(bound) == []
    (line,) = warnings(places(("a", {0, 1}, 2), ("a", {2, 3, 4}, 3), ("a", {1, 2}, 2), ("a", {5, 6, 7}, 3)))
    assert line.startswith("a: ranks 0-2 run 7 threads on 5 cores.")
    (line,) = warnings(places(("a", {0, 1}, 2)))
    assert line.startswith("a: its ranks may use 2 of 8 cores.")

"""The launcher of an MPI job that has started this process, read from the environment, without MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Launch(NamedTuple):
    """The number of this process, the number of all processes of the job, and the program that has started them."""

    rank: int
    size: int
    program: str

    @property
    def command(self) -> str:
        """The command that starts the same number of processes."""
        return f"{self.program} -n {self.size}"


# The variables with rank and size, by launcher. Those of Open MPI come first: it sets PMIX_RANK as well.
_MPIEXEC = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, MVAPICH, MS-MPI; srun --mpi=pmi2
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),  # srun --mpi=pmix
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun with another kind of PMI, or with none: then MPI tells
)
_OF_MPIEXEC = ("OMPI_COMM_WORLD_RANK", "MPI_LOCALNRANKS")  # mpiexec may itself have been started by srun


def launched(environment: Mapping[str, str] = os.environ) -> Launch | None:
    """The launch of this process, None if it was started by itself.

    ``mpiexec -n 1`` counts; one task of srun does not, as shells within jobs are such tasks.

    >>> launched({"PMI_RANK": "1", "PMI_SIZE": "4"})
    Launch(rank=1, size=4, program='mpiexec')
    >>> launched({"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "8"})
    Launch(rank=0, size=8, program='srun')
    >>> launched({"HOME": "/root"})
    """
    by_slurm = "SLURM_STEP_NUM_TASKS" in environment and not any(name in environment for name in _OF_MPIEXEC)
    for names in _MPIEXEC:
        rank, size = (environment.get(name, "") for name in names)
        if rank.isdigit() and size.isdigit():
            if by_slurm and int(size) == 1:
                return None
            return Launch(int(rank), int(size), "srun" if by_slurm else "mpiexec")
    return None


def speaks() -> bool:
    """True for the process that prints what all processes of a job would print."""
    launch = launched()
    return launch is None or launch.rank == 0

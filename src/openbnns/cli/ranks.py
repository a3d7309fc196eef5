"""Commands that run on all ranks of an MPI job: their options, and their errors."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from .arguments import UNUSABLE, UNUSABLE_ERRORS, count, given_options
from .launcher import Launch, launched

if TYPE_CHECKING:
    from ..distributed import Communicator

_Result = TypeVar("_Result")
_TITLE = "several ranks"  # of the group of options


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options of training on several ranks."""
    group = parser.add_argument_group(
        _TITLE, 'Under mpiexec or srun all ranks train one network. Needs pip install "openbnns[mpi]".'
    )
    group.add_argument(
        "--distributed", action=argparse.BooleanOptionalAction, default=None,
        help="train on all ranks of an MPI job (default: under mpiexec or srun); by itself this is one rank, with the result "
        "of any number",
    )  # fmt: skip
    group.add_argument(
        "--shards", type=count, default=None, metavar="N",
        help="parts that every batch is cut into, at least one per rank; the result depends on it (default: 16)",
    )  # fmt: skip
    group.add_argument(
        "--sync-batch-norm",
        action="store_true",
        help="statistics of batch normalization over whole batches, not shards",
    )


class Ranks:
    """The ranks that run a command, or one process by itself."""

    def __init__(self, comm: Communicator | None, launch: Launch | None) -> None:
        self.comm, self._launch = comm, launch
        self.first = comm is None or comm.rank == 0  # the only one that prints and writes

    def preparing(self) -> AbstractContextManager[None]:
        """Do something on every rank by itself: if it fails on one, it fails on all."""
        return nullcontext() if self.comm is None else self.comm.preparing()

    def once(self, function: Callable[[], _Result]) -> _Result:
        """Do something on rank 0, while all others wait."""
        return function() if self.comm is None else self.comm.once(function)

    def trainer_options(self, options: argparse.Namespace) -> dict[str, Any]:
        """Arguments of the trainer about ranks."""
        if self.comm is None:
            return {}
        shards = {} if options.shards is None else {"shards": options.shards}
        return {"distributed": self.comm, "sync_batch_norm": options.sync_batch_norm, **shards}

    def describe(self) -> str:
        """Ranks, hosts and threads in words, "" for one process by itself; collective."""
        if self.comm is None:
            return ""
        from .rank_layout import in_words, own_place

        self._layout = in_words(self.comm.gather(own_place()))
        return self._layout

    def settings(self, options: argparse.Namespace) -> dict[str, str]:
        """The ranks and their options, for the report."""
        if self.comm is None:
            return {}
        return {"ranks": self._layout, "options for ranks": shlex.join(_given(options)) or "none"}

    def start(self, command: str, options: argparse.Namespace) -> str:
        """A command line with the launcher and the options of these ranks."""
        line = " ".join([command, *map(shlex.quote, _given(options))])
        if self.comm is None or self._launch is None:
            return line
        return f"{self._launch.command} {line}"

    def again(self, options: argparse.Namespace, *more: str) -> str:
        """The command as it was given, with the launcher, and with ``more`` options."""
        words = list(options.command_line)
        line = shlex.join(["openbnns", *words, *(word for word in more if word not in words)])
        return line if self.comm is None or self._launch is None else f"{self._launch.command} {line}"


def _given(options: argparse.Namespace) -> list[str]:
    """The options for ranks that were given, as words of a command line."""
    said = given_options(options, _TITLE, () if options.distributed else ("distributed",))
    return [word for words in said.values() for word in words]


def run(options: argparse.Namespace, work: Callable[[Ranks], int]) -> int:
    """Do the work of a command on all ranks, or in this process alone. An error is raised on rank 0, to be printed once.

    ``work`` may raise errors of all ranks (:meth:`Ranks.preparing`, :meth:`Ranks.once`, a trainer); any other error ends
    the job.
    """
    launch = launched()
    if not (options.distributed or (options.distributed is None and launch is not None)):
        needless = [word for word in _given(options) if word.startswith("--")]
        if needless:
            raise ValueError(
                f"{', '.join(needless)} {'is' if len(needless) == 1 else 'are'} for training on several ranks. Start them by "
                "mpiexec -n 4 openbnns train ..., or add --distributed."
            )
        return work(Ranks(None, None))
    try:
        comm = connect(launch)
    except UNUSABLE_ERRORS:
        if launch is None or launch.rank == 0:  # the others fail for the same reason
            raise
        return UNUSABLE
    return _together(comm, lambda: work(Ranks(comm, launch)))


def connect(launch: Launch | None) -> Communicator:
    """All ranks of the job; an error where there is no MPI, or not that of the launcher."""
    from ..distributed import Communicator

    started = "--distributed" if launch is None else f"{launch.command} starts ranks of an MPI job, which"
    try:
        mpi = import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # which one depends on what is missing
        raise RuntimeError(
            f'{started} needs mpi4py and an MPI library. Run: pip install "openbnns[mpi]" mpich (or install mpi4py for the MPI '
            f"of your cluster). To train without MPI, add --no-distributed. ({error})"
        ) from None
    size = int(mpi.COMM_WORLD.Get_size())
    if launch is not None and launch.size > 1 and size == 1:
        raise RuntimeError(
            f"{launch.program} has started {launch.size} processes, but the MPI library of mpi4py ({library_name(mpi)}) knows "
            "of one rank. Use the mpiexec of that library, with srun its --mpi=pmi2 or --mpi=pmix, or install mpi4py for the "
            "MPI of the launcher."
        )
    return Communicator()


def library_name(mpi: Any) -> str:
    """An MPI library and its version, cut out of its description, which may be a page of text."""
    name, version = mpi.get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def _together(comm: Communicator, work: Callable[[], int]) -> int:
    from ..distributed import RankError

    error: BaseException | None = None
    code = UNUSABLE
    try:
        with comm.running():
            code = work()
    except UNUSABLE_ERRORS as caught:
        error = caught
    told = comm.gather(None if error is None or isinstance(error, RankError) else str(error))
    if error is None or comm.rank:
        return code
    own = {rank: text for rank, text in enumerate(told) if text is not None}
    if not own or (len(own) == comm.size and len(set(own.values())) == 1):
        raise error
    raise RankError(" ".join(f"Rank {rank} on {comm.hosts[rank]}: {text}" for rank, text in own.items()))

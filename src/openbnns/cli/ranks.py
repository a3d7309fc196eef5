"""Commands that run on all ranks of an MPI job: their options, and their errors."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..supervisor import is_supervised, supervise
from .arguments import UNUSABLE, UNUSABLE_ERRORS, byte_limit, count, given_options
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
    group.add_argument(
        "--no-deterministic", action="store_true",
        help="leave the sum over ranks to MPI: the last digits then depend on the number of ranks",
    )  # fmt: skip
    group.add_argument(
        "--transport", choices=("float32", "bfloat16"), default=None,
        help="type in which gradients are sent; bfloat16 halves the traffic, and rounds (default: float32)",
    )  # fmt: skip
    group.add_argument(
        "--shard-optimizer", action="store_true", help="every rank keeps only its part of the state of the optimizer"
    )
    group.add_argument(
        "--bucket-bytes", type=byte_limit, default=None, metavar="BYTES",
        help="size of the pieces that gradients are sent in, such as 4M (default: an eighth, from 256K to 16M)",
    )  # fmt: skip
    group.add_argument(
        "--no-shared-memory", action="store_true", help="let ranks of one host send messages, as those of several do"
    )
    group.add_argument(
        "--no-overlap", action="store_true", help="send gradients after the backward pass, not while it still runs"
    )
    group.add_argument(
        "--baseline", default=None, metavar="FILE",
        help="history.json of the same training on one rank, against which the report measures the speed",
    )  # fmt: skip


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
        from ..distributed.rank_layout import in_words

        self._layout = in_words(self.comm.places())
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


def read_baseline(options: argparse.Namespace) -> list[dict[str, Any]] | None:
    """The history of a run on one rank."""
    if options.baseline is None:
        return None
    try:
        history = json.loads(Path(options.baseline).read_text())
    except ValueError as error:
        raise ValueError(f"--baseline {options.baseline} is not a history.json: {error}") from None
    if not isinstance(history, list) or not all(isinstance(r, dict) and "seconds" in r for r in history) or not history:
        raise ValueError(f"--baseline {options.baseline} is not a history.json, which has a record for every epoch.")
    return history


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
    if launch is not None and launch.size > 1 and not is_supervised() and options.command_line == sys.argv[1:]:
        return supervise([sys.executable, "-m", "openbnns", *options.command_line])
    try:
        comm = connect(launch, **_communication(options))
    except UNUSABLE_ERRORS:
        if launch is None or launch.rank == 0:  # the others fail for the same reason
            raise
        return UNUSABLE
    return _together(comm, lambda: work(Ranks(comm, launch)))


def _communication(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "deterministic": not options.no_deterministic, "transport": options.transport or "float32",
        "shard_optimizer": options.shard_optimizer, "bucket_bytes": options.bucket_bytes,
        "shared_memory": False if options.no_shared_memory else None, "overlap": not options.no_overlap,
    }  # fmt: skip


def connect(launch: Launch | None, **options: Any) -> Communicator:
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
    return Communicator(**options)


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

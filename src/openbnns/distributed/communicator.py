"""The ranks of an MPI job as a trainer sees them. mpi4py is imported when the first communicator is made, never before."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from time import sleep
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import runtime
from .._elsewhere import COMMUNICATION
from .._spelling import elsewhere, spelled
from ..graph.tensor import Array

_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=BaseException)

_LAST_WORDS = 0.2  # seconds for what was printed to get out, as launchers end with the job
_SAME = "Give all ranks the same."


class RankError(RuntimeError):
    """A failure on a rank; the message names rank, host and cause.

    >>> from openbnns import nn
    >>> issubclass(nn.distributed.RankError, RuntimeError)
    True
    """


def own_cores() -> frozenset[int]:
    """The cores that this process may use; all of them where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


class Communicator:
    """Ranks that train one network together, and how they exchange gradients.

    ``comm`` is a communicator of mpi4py, all ranks of the job unless given. Making one is collective: every rank does it.
    From then on a rank that fails ends all others.
    """

    _whole: ClassVar[Communicator | None] = None  # the communicator of trainers that are given True
    _shared: ClassVar[BaseException | None] = None  # the latest error that all ranks have raised
    _culprit: ClassVar[int | None] = None  # the rank that it happened to, if not to all
    _handles = False  # whether uncaught errors are handled here

    @spelled
    @elsewhere(**COMMUNICATION)
    def __init__(self, comm: Any = None) -> None:
        who = "distributed.Communicator"
        try:
            self.mpi: Any = import_module("mpi4py.MPI")
        except ImportError as error:
            raise ImportError(
                'Trainer: distributed needs mpi4py and an MPI library. Install them, e.g. by pip install "openbnns[mpi]" '
                f"mpich. ({error})"
            ) from None
        whole = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(whole, self.mpi.Intracomm):
            raise TypeError(f"{who}: comm must be a communicator of mpi4py, not {type(whole).__name__}.")
        self.rank, self.size = int(whole.Get_rank()), int(whole.Get_size())
        self.messages = whole.Dup()
        processes = self.messages.allgather((platform.node(), os.getpid()))
        self.hosts: list[str] = [host for host, _ in processes]
        self.processes: list[int] = [process for _, process in processes]
        self._share_cores()
        if self.size > 1 and not Communicator._handles:
            Communicator._handles, sys.excepthook = True, self._handling(sys.excepthook)

    @classmethod
    def of(cls, given: Any) -> Communicator | None:
        """The communicator for a trainer's argument ``distributed``."""
        if given is None or given is False:
            return None
        if isinstance(given, Communicator):
            return given
        if given is not True:
            return cls(given)
        if Communicator._whole is None:  # MPI has only so many communicators
            Communicator._whole = cls()
        return Communicator._whole

    def _share_cores(self) -> None:
        """Share the cores of a host among its ranks, unless the number of threads was set."""
        own = platform.node(), own_cores()
        sharing = self.messages.allgather(own).count(own)
        threads = runtime.get_num_threads()
        if sharing > 1 and not os.environ.get("OPENBNNS_NUM_THREADS"):
            runtime.set_num_threads(0)
            granted = runtime.get_num_threads()  # threads for all of them together, by affinity and quota
            runtime.set_num_threads(min(threads, max(1, granted // sharing)))

    def described(self) -> str:
        """The host and process of every rank, as text: launchers name processes, not ranks."""
        hosts: dict[str, list[int]] = {}
        for rank, host in enumerate(self.hosts):
            hosts.setdefault(host, []).append(rank)
        told = (
            f"{', '.join(map(str, ranks))} on {host} (process {', '.join(str(self.processes[rank]) for rank in ranks)})"
            for host, ranks in hosts.items()
        )
        return f"Ranks: {'; '.join(told)}."

    # Small messages.

    def once(self, function: Callable[[], _Result]) -> _Result:
        """The result of a function that only rank 0 calls; its exceptions are raised on all ranks."""
        outcome: Any = None
        if self.rank == 0:
            try:
                outcome = True, function()
            except Exception as error:
                if self.size == 1:
                    raise
                outcome = False, error
        done, value = self.messages.bcast(outcome)
        if not done:
            raise self.shared(value)
        result: _Result = value
        return result

    def gather(self, value: _Result) -> list[_Result]:
        """The values of all ranks, on all of them."""
        gathered: list[_Result] = self.messages.allgather(value)
        return gathered

    def gather_rows(self, own: Array, counts: list[int]) -> Array:
        """Rows of float64 of all ranks, one below the other; every rank has ``counts[rank]`` of them."""
        if self.size == 1:
            return own
        width = own.shape[1]
        rows = np.empty((sum(counts), width))
        sizes = [count * width for count in counts]
        self.messages.Allgatherv(np.ascontiguousarray(own), [rows, sizes])
        return rows

    # Errors.

    def compare(self, facts: Mapping[str, Any], who: str = "Trainer.fit:", cure: str = _SAME) -> None:
        """Raise an error on all ranks for facts that differ between them; ``facts`` are plain JSON by name."""
        texts = {n: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest() for n, value in facts.items()}
        first, *others = self.gather(texts)
        for rank, other in enumerate(others, 1):
            differing = [name for name in {**first, **other} if other.get(name) != first.get(name)]
            if differing:
                raise self.shared(
                    RankError(
                        f"{who} rank {rank} on {self.hosts[rank]} differs from rank 0 on {self.hosts[0]} in "
                        f"{', '.join(differing)}. {cure}"
                    )
                )

    def shared(self, error: _Error, culprit: int | None = None) -> _Error:
        """Note an error that all ranks raise, so that none has to end the others. If it is not caught, one of them prints it."""
        Communicator._shared, Communicator._culprit = error, culprit
        return error

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """A block that ranks run by themselves, without messages. If one fails, all do: the others name it and its host."""
        error: Exception | None = None
        try:
            yield
        except Exception as caught:
            error = caught
        everyone = self.messages.allgather(None if error is None else f"{type(error).__name__}: {error}")
        failed = [rank for rank, text in enumerate(everyone) if text is not None]
        culprit = failed[0] if 0 < len(failed) < self.size else None
        if error is not None:
            raise self.shared(error, culprit)
        if failed:
            told = RankError(f"Rank {failed[0]} on {self.hosts[failed[0]]} failed. {everyone[failed[0]]}")
            raise self.shared(told, culprit)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that ranks run together. A rank that fails alone ends all others, which wait for it."""
        try:
            yield
            self.messages.Barrier()  # so that none leaves, and perhaps ends its program, while others still need it
        except BaseException as error:
            if self.size > 1 and error is not self._shared:
                self.abort(error)
            raise

    def abort(self, error: BaseException) -> None:
        """End all ranks, because this one cannot go on: the others wait for it and would do so for ever."""
        sys.stdout.flush()
        print(f"Rank {self.rank} on {self.hosts[self.rank]} failed:", file=sys.stderr)
        traceback.print_exception(error)
        sys.stderr.flush()
        sleep(_LAST_WORDS)
        self.messages.Abort(1)

    def _handling(self, before: Callable[..., Any]) -> Callable[..., Any]:
        """A handler of uncaught errors: those that all ranks share are printed once, others end all ranks."""

        def handle(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            met: BaseException | None = error
            while met is not None and met is not self._shared:
                met = met.__cause__ or met.__context__
            if met is None:
                self.abort(error)
            elif self.rank == (self._culprit or 0):
                if self._culprit is not None:
                    print(
                        f"Rank {self.rank} on {self.hosts[self.rank]} failed, and with it all ranks:", file=sys.stderr
                    )
                before(kind, error, trace)

        return handle

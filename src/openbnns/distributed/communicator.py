"""The ranks of an MPI job as a trainer sees them. mpi4py is imported when the first communicator is made, never before."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter, sleep
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from .. import runtime
from ..graph.checks import whole_number
from ..graph.tensor import Array
from ..nn.batches import Span, cut
from .rank_layout import RankPlace, own_cores, own_place
from .tree_sums import BLOCK
from .watchdog import Watch


class Group:
    """Ranks of a communicator of mpi4py. Making one is collective."""

    def __init__(self, mpi: Any, comm: Any, per_host: int = 1) -> None:
        """``per_host`` is how many consecutive ranks are on each host, if their chunks shall lie together."""
        self.mpi = mpi
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self._per_host = per_host
        # Collectives on one communicator must begin in the same order on all ranks; those of buckets begin when they can.
        self.chunks, self.gathers = comm.Dup(), comm.Dup()
        self.closed: list[Any] = []  # windows that are only kept because there are views of them

    def chunks_of(self, size: int) -> list[Span]:
        """The parts of a bucket of this size, by rank; sizes are multiples of ``BLOCK``."""
        return [(BLOCK * start, BLOCK * stop) for start, stop in cut_for(self.size, self._per_host, size // BLOCK)]


def cut_for(ranks: int, per_host: int, count: int) -> list[Span]:
    """Spans of ``count`` things for ranks on hosts: first for the numbers of ranks on their hosts, and then for the hosts.

    >>> cut_for(4, 2, 100)
    [(0, 25), (50, 75), (25, 50), (75, 100)]
    """
    spans = [(0, 0)] * ranks
    for number, (start, stop) in enumerate(cut(count, per_host)):
        for host, (first, last) in enumerate(cut(stop - start, ranks // per_host)):
            spans[host * per_host + number] = start + first, start + last
    return spans


def ranks_per_host(places: Sequence[Span]) -> int:
    """From (first rank of its host, number of ranks there) of every rank: how many all hosts have; 1 if they are not alike.

    Ranks that share a host count only if they are consecutive.

    >>> ranks_per_host([(0, 2), (0, 2), (2, 2), (2, 2)])
    2
    >>> ranks_per_host([(0, 2), (1, 2), (0, 2), (1, 2)])
    1
    >>> ranks_per_host([(0, 2), (0, 2), (2, 1)])
    1
    """
    count = places[0][1]
    alike = all(place == (rank // count * count, count) for rank, place in enumerate(places))
    return count if alike else 1


_Result = TypeVar("_Result")
_Error = TypeVar("_Error", bound=BaseException)

_LAST_WORDS = 0.2  # seconds for what was printed to get out, as launchers end with the job
_SAME = "Give all ranks the same."
_ITEM = 4  # bytes of a gradient
_SHARE, _SMALLEST, _LARGEST = 8, 1 << 18, 1 << 24  # buckets, unless told otherwise: how many, and their bytes


class RankError(RuntimeError):
    """A failure on a rank; the message names rank, host and cause.

    >>> from openbnns import nn
    >>> issubclass(nn.distributed.RankError, RuntimeError)
    True
    """


def _mpi() -> Any:
    try:
        return import_module("mpi4py.MPI")
    except ImportError as error:
        raise ImportError(
            'Trainer: distributed needs mpi4py and an MPI library. Install them, e.g. by pip install "openbnns[mpi]" mpich. '
            f"({error})"
        ) from None


class Communicator:
    """Ranks that train one network together, and how they exchange gradients.

    ``comm`` is a communicator of mpi4py, all ranks of the job unless given. Making one is collective: every rank does it.
    The options are on the page docs/distributed.md; all ranks give the same. From then on a rank that fails ends all others.
    """

    _whole: ClassVar[Communicator | None] = None  # the communicator of trainers that are given True
    _shared: ClassVar[BaseException | None] = None  # the latest error that all ranks have raised
    _culprit: ClassVar[int | None] = None  # the rank that it happened to, if not to all
    _handles = False  # whether uncaught errors are handled here

    def __init__(
        self,
        comm: Any = None,
        *,
        deterministic: bool = True,
        transport: Literal["float32", "bfloat16"] = "float32",
        shard_optimizer: bool = False,
        bucket_bytes: int | None = None,
        shared_memory: bool | None = None,
        overlap: bool = True,
        silence_limit: float = 6.0,
    ) -> None:
        who = "distributed.Communicator"
        if transport not in ("float32", "bfloat16"):
            raise ValueError(f"{who}: transport is {transport!r}. Use 'float32' or 'bfloat16'.")
        if not deterministic and (transport != "float32" or shard_optimizer):
            raise ValueError(
                f"{who}: deterministic=False leaves the sum to MPI's all-reduce, which knows neither bfloat16 nor chunks of "
                "optimizers. Leave transport and shard_optimizer out."
            )
        if shared_memory and (not deterministic or transport != "float32"):
            raise ValueError(
                f"{who}: shared_memory=True sums float32 where it lies, so it goes with neither deterministic=False nor "
                "transport='bfloat16'. Leave one of them out."
            )
        self.deterministic, self.transport, self.shard_optimizer = bool(deterministic), transport, bool(shard_optimizer)
        self.shared_memory, self.overlap = shared_memory, bool(overlap)
        self.bucket_bytes = None if bucket_bytes is None else whole_number(bucket_bytes, f"{who}: bucket_bytes", 1)
        if not silence_limit >= 0:
            raise ValueError(f"{who}: silence_limit is {silence_limit}. Give seconds, or 0 for no limit.")
        self.mpi = _mpi()
        whole = self.mpi.COMM_WORLD if comm is None else comm
        if not isinstance(whole, self.mpi.Intracomm):
            raise TypeError(f"{who}: comm must be a communicator of mpi4py, not {type(whole).__name__}.")
        self.rank, self.size = int(whole.Get_rank()), int(whole.Get_size())
        self._control = whole.Dup()
        processes = self._control.allgather((platform.node(), os.getpid()))
        self.hosts: list[str] = [host for host, _ in processes]
        self.processes: list[int] = [process for _, process in processes]
        self._group()
        if shared_memory and self.host.size == 1 < self.size:
            raise ValueError(
                f"{who}: shared_memory=True, but hosts do not have the same number of consecutive ranks, two or more: the ranks "
                f"are on {', '.join(self.hosts)}. Leave shared_memory out."
            )
        self.threads = self._share_cores()
        self.seconds = 0.0  # how long this rank has waited in messages of a step, but for gradients on their way
        if self.size > 1 and not Communicator._handles:
            Communicator._handles, sys.excepthook = True, self._handling(sys.excepthook)
        self._watch = Watch(whole.Dup(), self.mpi, silence_limit, self._end_for)

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

    def _share_cores(self) -> int:
        """Share the cores of a host among its ranks, unless the number of threads was set."""
        own = platform.node(), own_cores()
        sharing = self._control.allgather(own).count(own)
        threads = runtime.get_num_threads()
        if sharing > 1 and not os.environ.get("OPENBNNS_NUM_THREADS"):
            runtime.set_num_threads(0)
            granted = runtime.get_num_threads()  # threads for all of them together, by affinity and quota
            threads = min(threads, max(1, granted // sharing))
            runtime.set_num_threads(threads)
        return threads

    def _neighbours(self) -> Any:
        """The ranks that share memory with this one."""
        return self._control.Split_type(self.mpi.COMM_TYPE_SHARED)

    def _group(self) -> None:
        near = self._neighbours()
        places = self._control.allgather((near.allreduce(self.rank, self.mpi.MIN), int(near.Get_size())))
        near.Free()
        count = ranks_per_host(places)
        self.everyone = Group(self.mpi, self._control, count)
        host, across = self._control.Split(self.rank // count), self._control.Split(self.rank % count)
        self.host, self.across = Group(self.mpi, host), Group(self.mpi, across)
        host.Free()
        across.Free()

    def places(self) -> list[RankPlace]:
        """The places of all ranks, with their numbers of threads; collective."""
        return self.gather(own_place())

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

    def __repr__(self) -> str:
        return f"Communicator(rank {self.rank} of {self.size})"

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
        done, value = self._control.bcast(outcome)
        if not done:
            raise self.shared(value)
        result: _Result = value
        return result

    def gather(self, value: _Result) -> list[_Result]:
        """The values of all ranks, on all of them."""
        gathered: list[_Result] = self._control.allgather(value)
        return gathered

    def gather_first(self, value: _Result) -> list[_Result]:
        """The values of all ranks, on rank 0 alone; elsewhere an empty list."""
        return self._control.gather(value) or []

    def gather_rows(self, own: Array, counts: list[int]) -> Array:
        """Rows of float64 of all ranks, one below the other; every rank has ``counts[rank]`` of them."""
        if self.size == 1:
            return own
        width = own.shape[1]
        rows = np.empty((sum(counts), width))
        sizes = [count * width for count in counts]
        began = perf_counter()
        self._control.Allgatherv(np.ascontiguousarray(own), [rows, sizes])
        self.seconds += perf_counter() - began
        return rows

    def buckets_of(self, size: int, cuts: Sequence[int] = ()) -> list[Span]:
        """A vector of so many elements, a multiple of ``BLOCK``, in buckets, which end at ``cuts`` where these are near."""
        usual = min(max(_ITEM * size // _SHARE, _SMALLEST), _LARGEST)
        elements = max(1, (self.bucket_bytes or usual) // (_ITEM * BLOCK)) * BLOCK
        buckets, start = [], 0
        for end in (*cuts, size):
            while end - start > 2 * elements or (end == size and end - start > elements):
                buckets.append((start, start + elements))
                start += elements
            if end - start >= elements or (end == size and start < size):
                buckets.append((start, end))
                start = end
        return buckets

    def gather_chunks(self, vector: Array, buckets: Sequence[Span]) -> None:
        """Give all ranks the chunks that each has of every bucket of a vector, in place."""
        requests = []
        for start, stop in buckets if self.size > 1 else ():
            chunks = self.everyone.chunks_of(stop - start)
            sizes, places = [last - first for first, last in chunks], [first for first, _ in chunks]
            whole = [vector[start:stop], sizes, places, self.mpi.FLOAT]
            requests.append(self.everyone.gathers.Iallgatherv(self.mpi.IN_PLACE, whole))
        began = perf_counter()
        self.mpi.Request.Waitall(requests)
        self.seconds += perf_counter() - began

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
        self._watch.need(False)
        return error

    def is_shared(self, error: BaseException) -> bool:
        """True if all ranks raise this error."""
        return error is self._shared

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """A block that ranks run by themselves, without messages. If one fails, all do: the others name it and its host."""
        error: Exception | None = None
        try:
            yield
        except Exception as caught:
            error = caught
        self._watch.need(True)
        everyone = self._control.allgather(None if error is None else f"{type(error).__name__}: {error}")
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
        self._watch.need(True)
        try:
            yield
            self._control.Barrier()  # so that none leaves, and perhaps ends its program, while others still need it
        except BaseException as error:
            if self.size > 1 and error is not self._shared:
                self.abort(error)
            raise
        finally:
            self._watch.need(False)

    def abort(self, error: BaseException) -> None:
        """End all ranks, because this one cannot go on: the others wait for it and would do so for ever."""
        sys.stdout.flush()
        print(f"Rank {self.rank} on {self.hosts[self.rank]} failed:", file=sys.stderr)
        traceback.print_exception(error)
        self._end()

    def _end_for(self, rank: int, why: str) -> None:
        """End all ranks because of one that cannot do so itself."""
        sys.stdout.flush()
        print(f"Rank {rank} on {self.hosts[rank]} failed. {why} This ends all ranks.", file=sys.stderr)
        self._end()

    def _end(self) -> None:
        sys.stderr.flush()
        sleep(_LAST_WORDS)
        self._control.Abort(1)

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

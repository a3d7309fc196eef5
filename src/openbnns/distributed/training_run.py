"""A training run on several ranks."""

from __future__ import annotations

import hashlib
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..graph.tensor import Array
from ..nn.batches import BatchParts, BatchStream
from ..nn.run_checkpoints import settings
from ..nn.training_run import Diverged, Interrupted, Run, StopRequest, first_not_finite, used_parameters
from .communicator import Communicator
from .shard_metrics import ShardMetrics, measure
from .shards import Shards
from .training_step import ShardedObjective

if TYPE_CHECKING:
    from ..nn.trainer import Trainer

_Result = TypeVar("_Result")

_PROGRAMS_KEPT = 8  # sizes of shards of two sizes of batches, and of batches of validation


class DistributedRun(Run):
    """One call of fit on all ranks. What differs from rank to rank is the shards; all else they do alike."""

    measures: ShardMetrics

    def __init__(self, trainer: Trainer, feed: BatchStream, *more: Any) -> None:
        comm = trainer.distributed
        assert comm is not None
        self.comm: Communicator = comm
        self.shards = Shards(trainer.shards, comm.size, comm.rank)
        super().__init__(trainer, feed, *more)
        self._accumulation = None
        self._signals = StopRequest()
        self._arrived = 0  # a signal at any rank
        self._compare()
        self._asks = any(comm.gather(bool(self.step_callbacks)))  # callbacks of any rank, at every step
        self._sharded = ShardedObjective(trainer, comm, self.shards)
        if comm.size > 1:
            trainer.say(comm.described())

    def _compare(self) -> None:
        """Find out before the first step whether a rank has other settings, data, weights or another version."""
        from .. import __version__

        digest = hashlib.sha256()
        for array in self.trainer.network.state_dict().values():
            digest.update(np.ascontiguousarray(array).tobytes())
        own = {"version": __version__, "weights": digest.hexdigest(), **(self.settings or settings(self))}
        self.comm.compare(own)

    def confirm(self, arrays: Mapping[str, Array]) -> None:
        digest = hashlib.blake2b(digest_size=16)
        for name, array in arrays.items():
            if name.startswith("network."):
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        self.comm.compare(
            {"step": self.step, "weights": digest.hexdigest()},
            "Trainer.fit: no checkpoint is written, because",
            "Let callbacks change weights on all ranks alike; if none does, that host may compute wrong.",
        )

    def new_measures(self) -> ShardMetrics:
        return ShardMetrics(self.trainer.metrics, self.objective, self.comm, self.shards)

    def once(self, function: Callable[[], _Result]) -> _Result:
        return self.comm.once(function)

    def go(self, stop: StopRequest) -> None:
        self._signals = stop
        try:
            super().go(StopRequest())
        except Interrupted as error:
            self.comm.shared(error)
            raise

    def agree(self, stop: StopRequest) -> None:
        """Share requests to stop: signals come with the losses of a step, but those of callbacks have to be asked for."""
        if self._arrived:
            stop.requested, stop.signal_name = True, signal.Signals(self._arrived).name
        trainer = self.trainer
        if self._asks or not self.batch:
            said = next((reason for reason in self.comm.gather(trainer._stop_reason) if reason is not None), None)
            trainer._stop_reason = said if trainer._stop_reason is None else trainer._stop_reason

    def _batches(self) -> Iterator[Any]:
        return self.feed.parts(self.epoch, self.batch, lambda _, samples: self.shards.own_of_batch(samples))

    def _validate(self, validation: BatchStream) -> dict[str, float]:
        return measure(self.objective, self.trainer.metrics, validation, self.comm, self.shards)

    def _train_step(self, batches: Iterator[Any]) -> tuple[float, int]:
        trainer, objective, seconds = self.trainer, self.objective, self.objective.seconds
        count = min(self.accumulate, self.batches - self.batch)
        step = self.step
        trainer.optimizer.learning_rate = trainer.base_learning_rate * trainer.schedule(step, self.epochs * self.steps)
        self._sharded.refresh()
        began = perf_counter()
        given: list[BatchParts] = [next(batches) for _ in range(count)]
        seconds["data"] += perf_counter() - began
        signal_number = signal.Signals[self._signals.signal_name] if self._signals.requested else 0
        losses = self._sharded.run(given, trainer.seed, step * self.accumulate, self.measures, signal_number)
        self._arrived = losses.flag
        weights = [losses.samples if one.is_sum else t for one, t in zip(objective.losses, losses.totals, strict=True)]
        objective.values[:], objective.divisors[:] = losses.values, weights
        loss = sum(share * value for share, value in zip(objective.shares, losses.values, strict=True))
        if not math.isfinite(loss):
            raise self.comm.shared(Diverged(self.divergence(loss, step, self._where(given))))
        self.measures.losses.add(objective)
        began = perf_counter()
        trainer.optimizer.step()
        seconds["step"] += perf_counter() - began
        self.batch += count
        return loss, losses.samples

    def _where(self, given: list[BatchParts]) -> str:
        """The place where numbers of these batches are not finite, from the first rank that knows it. Collective."""
        batch = next((batch for parts in given for batch in parts.batches if batch is not None), None)
        own = ""
        if batch is not None:
            own = first_not_finite(self.trainer.network, self.objective.bound(batch.shapes, training=True).program)
        return next((text for text in self.comm.gather(own) if text), "")

    def _require_finite(self) -> None:
        if not all(np.isfinite(p.data).all() for p in used_parameters(self.trainer.network).values()):
            raise self.comm.shared(Diverged(self.divergence(math.nan, self.step - 1, self._where([]))))


def check_shards(trainer: Trainer, feed: BatchStream) -> None:
    """Refuse batches that cannot be shared out, before the first step."""
    comm, count, sizes = trainer.distributed, trainer.shards, feed.source.sizes
    assert comm is not None
    who = "Trainer.fit"
    if count < comm.size:
        raise ValueError(
            f"{who}: {count} shards cannot be shared by {comm.size} ranks. Use fewer ranks, or at least shards={comm.size}, "
            "which makes it another run."
        )
    if sizes[0] < comm.size:
        raise ValueError(
            f"{who}: batches of {sizes[0]} samples cannot be shared by {comm.size} ranks, some of which would have nothing to "
            "do. Use fewer ranks, or a larger batch_size if there are more samples."
        )
    network = trainer.network
    network._programs_kept = _PROGRAMS_KEPT
    parts = [min(sizes)] if trainer.sync_batch_norm else Shards(count).sizes(sizes)
    for samples in parts:
        try:
            network.program(samples, training=True)
        except ValueError as error:
            raise ValueError(
                f"{who}: batches of {' and '.join(map(str, dict.fromkeys(sizes)))} samples in {count} shards leave {samples} for "
                f"some shards, which is too small. {error} Choose fewer shards, another batch_size, or sync_batch_norm=True."
            ) from None

"""A training run on several ranks."""

from __future__ import annotations

import hashlib
import math
import signal
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import runtime
from ..graph.tensor import Array
from ..nn.batches import BatchParts, BatchStream
from ..nn.callbacks import Best
from ..nn.run_checkpoints import settings
from ..nn.training_run import Diverged, Interrupted, Run, StopRequest, first_not_finite, used_parameters
from .communicator import Communicator
from .shard_metrics import ShardMetrics, measure
from .sharded_optimizer import ShardedOptimizer
from .shards import Shards
from .training_step import ShardedObjective

if TYPE_CHECKING:
    from ..nn.trainer import Trainer

_Result = TypeVar("_Result")

_NOTED_SHARE, _NOTED_SECONDS = 0.25, 0.5  # how long others wait, of what ranks compute, before this is said
_PROGRAMS_KEPT = 8  # sizes of shards of two sizes of batches, and of batches of validation


class StepTimes:
    """The time of steps: ``steps`` is that of this rank, ``blocked`` how long each rank had to wait.

    ``transfer`` is the part of it for which no rank was to blame: in every step, what the rank was blocked for that was blocked
    least, as it had come last.
    """

    def __init__(self, ranks: int) -> None:
        self.steps, self.transfer, self.blocked = 0.0, 0.0, np.zeros(ranks)

    def add(self, seconds: float, blocked: Array) -> None:
        self.steps += seconds
        self.transfer += float(blocked.min())
        self.blocked += blocked


class DistributedRun(Run):
    """One call of fit on all ranks. What differs from rank to rank is the shards; all else they do alike."""

    measures: ShardMetrics

    def __init__(
        self,
        trainer: Trainer,
        feed: BatchStream,
        validation: BatchStream | None,
        epochs: int,
        callbacks: list[Any],
        best: Best,
    ) -> None:
        comm = trainer.distributed
        assert comm is not None
        self.comm: Communicator = comm
        self.shards = Shards(trainer.shards, comm.size, comm.rank)
        super().__init__(trainer, feed, validation, epochs, callbacks, best)
        self._accumulation = None
        self._signals = StopRequest()
        self._arrived = 0  # a signal at any rank
        self._compare()
        self._asks = any(comm.gather(bool(self.step_callbacks)))  # callbacks of any rank, at every step
        self._times = StepTimes(comm.size)
        self._slow: set[int] = set()  # ranks of which this was said
        self._sharded = ShardedObjective(
            trainer.network,
            trainer.objective,
            trainer.optimizer,
            comm,
            self.shards,
            synchronized=trainer.sync_batch_norm,
        )
        self._optimizer: ShardedOptimizer | None = None
        self._share_optimizer()
        if comm.size > 1:
            trainer.say(comm.described())

    def _share_optimizer(self) -> None:
        """Begin, or begin anew, to keep only a part of the accumulators, if that is wanted."""
        if self.comm.shard_optimizer and self.comm.size > 1:
            self._give_back()
            parts = self._sharded
            self._optimizer = ShardedOptimizer(self.trainer.optimizer, parts.gradients, self.comm, parts.exchange.own)

    def optimizer_state(self) -> dict[str, Array]:
        return super().optimizer_state() if self._optimizer is None else self._optimizer.state_dict()

    def load_optimizer_state(self, state: dict[str, Array]) -> None:
        if self._optimizer is None:
            super().load_optimizer_state(state)
        else:
            self._optimizer.load_state_dict(state)

    def _more(self) -> dict[str, Any]:
        """The time of every rank in the steps of this epoch, by kind; together it is the time of the steps."""
        blocked, transfer = self._times.blocked, self._times.transfer
        own = self._times.steps, self._sharded.exchange_seconds, runtime.get_num_threads()
        self._times, self._sharded.exchange_seconds = StepTimes(self.comm.size), 0.0
        steps, worked, threads = self.comm.gather_rows(np.array([own]), [1] * self.comm.size).T
        self._sharded.take_blocked()  # time between epochs is not part of a step
        columns = {
            "computed_seconds": np.maximum(steps - worked - blocked, 0.0),
            "waited_seconds": blocked - transfer,
            "sent_seconds": worked + transfer,
        }
        record: dict[str, Any] = {name: np.round(column, 6).tolist() for name, column in columns.items()}
        self._name_slow_rank(record["computed_seconds"], record["waited_seconds"])
        return {"ranks": {**record, "hosts": self.comm.hosts, "threads": threads.astype(int).tolist()}}

    def _name_slow_rank(self, computed: list[float], waited: list[float]) -> None:
        """Say, once for each, which rank the others wait for, if they do so for a good part of an epoch."""
        slow = int(np.argmin(waited))
        longer = min((seconds - waited[slow] for rank, seconds in enumerate(waited) if rank != slow), default=0.0)
        if slow in self._slow or longer < max(_NOTED_SHARE * np.mean(computed), _NOTED_SECONDS):
            return
        self._slow.add(slow)
        self.trainer.say(
            f"Rank {slow} on {self.comm.hosts[slow]} is slow: in epoch {self.epoch + 1} every other rank waited {longer:.1f} s "
            "longer than it did."
        )

    def _gradient_norms(self) -> dict[str, float]:
        own = super()._gradient_norms()
        if self._optimizer is not None:
            norms = dict(zip(self._sharded.gradients.parameters, self._optimizer.gradient_norms(), strict=True))
            own |= {n: norms[p] for n, p in used_parameters(self.trainer.network).items() if p in norms}
        return own

    def _compare(self) -> None:
        """Find out before the first step whether a rank has other settings, data, weights or another version."""
        from .. import __version__

        digest = hashlib.sha256()
        for array in self.trainer.network.state_dict().values():
            digest.update(np.ascontiguousarray(array).tobytes())
        own = {"version": __version__, "weights": digest.hexdigest(), **(self.settings or settings(self))}
        options = self.comm
        own["communication"] = [
            options.deterministic, options.transport, options.shard_optimizer, options.bucket_bytes, options.shared_memory,
        ]  # fmt: skip
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
        optimizer = self.trainer.optimizer
        try:
            optimizer.measure_norm_with(self._sharded.gradients.norm)
            super().go(StopRequest())
        except BaseException as error:
            if isinstance(error, Interrupted):
                self.comm.shared(error)
                self._give_back()
            if self.comm.is_shared(error):
                self._sharded.close()
            raise
        finally:
            optimizer.measure_norm_with(None)
        self._give_back()
        self._sharded.close()

    def _give_back(self) -> None:
        if self._optimizer is not None:
            self._optimizer.finish()
            self._optimizer = None

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
        step, step_began = self.step, perf_counter()
        trainer.optimizer.learning_rate = trainer.base_learning_rate * trainer.schedule(step, self.epochs * self.steps)
        if self._sharded.refresh():
            trainer.optimizer.measure_norm_with(self._sharded.gradients.norm)
            self._share_optimizer()
        began = perf_counter()
        given: list[BatchParts] = [next(batches) for _ in range(count)]
        seconds["data"] += perf_counter() - began
        signal_number = signal.Signals[self._signals.signal_name] if self._signals.requested else 0
        losses = self._sharded.run(given, trainer.seed, step * self.accumulate, self.measures, signal_number)
        self._arrived = losses.flag
        objective.values[:], objective.divisors[:] = losses.values, self._weights(losses.totals, losses.samples)
        loss = sum(share * value for share, value in zip(objective.shares, losses.values, strict=True))
        if not math.isfinite(loss):
            self._sharded.statistics.undo()
            raise self.comm.shared(Diverged(self._divergence(given, loss, step)))
        self.measures.losses.add(objective)
        began = perf_counter()
        (self._optimizer or trainer.optimizer).step()
        seconds["step"] += perf_counter() - began
        self._times.add(perf_counter() - step_began, losses.blocked)
        self.batch += count
        return loss, losses.samples

    def _weights(self, totals: list[float], samples: int) -> list[float]:
        """The weights by which the losses of steps are averaged."""
        return [samples if loss.is_sum else total for loss, total in zip(self.objective.losses, totals, strict=True)]

    def _divergence(self, given: list[BatchParts], loss: float, step: int) -> str:
        """The message about a divergence, with its place from the first rank that knows it."""
        batch = next((batch for parts in given for batch in parts.batches if batch is not None), None)
        own = ""
        if batch is not None:
            own = first_not_finite(self.trainer.network, self.objective.bound(batch.shapes, training=True).program)
        told = next((text for text in self.comm.gather(own) if text), "")
        return (
            f"The loss became {loss} in epoch {self.epoch + 1}, step {step + 1}.{told} Use a smaller learning rate, clip_norm, "
            "or look at the data."
        )

    def _require_finite(self) -> None:
        if not all(np.isfinite(p.data).all() for p in used_parameters(self.trainer.network).values()):
            raise self.comm.shared(Diverged(self._divergence([], math.nan, self.step - 1)))


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

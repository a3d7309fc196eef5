"""One training run: its epochs and steps, from wherever it begins.

The order of the samples in an epoch follows from the seed and the number of the epoch alone, and so does everything else
that is random. A run that was stopped, or killed, and resumed therefore ends with bitwise the weights of one that was not.
"""

from __future__ import annotations

import json
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..files.safetensors import write_atomically
from ..graph.parameter import Parameter
from ..graph.program import Program
from ..graph.tensor import Array
from . import checkpoints
from .batches import Batch, BatchStream
from .callbacks import Best, having
from .compiled_step import NotFinite, WholeStep
from .epoch_metrics import EpochMetrics
from .history import History
from .module import Module
from .names import step_names
from .objective import PHASES, Bound
from .progress import Progress
from .run_checkpoints import save, settings
from .utils import total_norm

if TYPE_CHECKING:
    from .trainer import Trainer


class StopRequest:
    """A request to stop: set once a signal has arrived, with the signal's name."""

    requested = False
    signal_name = ""


@contextmanager
def deferred_signals() -> Iterator[StopRequest]:
    """SIGINT and SIGTERM wait for the end of a step; a second SIGINT does not."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: Any) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested, stop.signal_name = True, signal.Signals(number).name

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_Result = TypeVar("_Result")
_RISE = 1000.0  # a loss this many times the first one means divergence
_LOW = 10.0  # a loss below this never means divergence


class Diverged(ArithmeticError):
    """The loss is no longer a number, or has risen by orders of magnitude; the message names the step and the layer.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.float32([[1], [2]])
    >>> trainer = nn.Trainer(nn.Linear(1), "mse", nn.SGD(1e20), quiet=True, seed=0)
    >>> try:
    ...     trainer.fit(x, x, epochs=9)
    ... except nn.Diverged as error:
    ...     print(str(error).split(" in ")[0])
    The loss became inf
    """


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop by a signal; the message names the checkpoint to go on from.

    >>> from openbnns import nn
    >>> issubclass(nn.Interrupted, KeyboardInterrupt)  # passes through `except Exception`
    True
    """


class Accumulation:
    """Gradients of several batches, averaged by their samples, as if they were one batch."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self._parameters = parameters
        self._sums: list[Array] = []
        self._weight = 0.0

    def add(self, weight: float) -> None:
        """Add the gradients that were just computed, with this weight."""
        trained = [p for p in self._parameters if p.used and p.requires_grad]
        if not self._weight:
            self._sums = [p.grad * np.float32(weight) for p in trained]
        else:
            for total, parameter in zip(self._sums, trained, strict=True):
                total += parameter.grad * np.float32(weight)
        self._weight += weight

    def finish(self, *, mean: bool) -> None:
        """Store the result where the optimizer reads it, and start over."""
        trained = [p for p in self._parameters if p.used and p.requires_grad]
        factor = np.float32(1 / self._weight if mean and self._weight else 1.0)
        for total, parameter in zip(self._sums, trained, strict=True):
            np.multiply(total, factor, out=parameter.grad)
        self._weight = 0.0


class Run:
    """One call of fit. ``epoch`` and ``batch`` are how many of them are done, the latter in the current epoch."""

    def __init__(
        self,
        trainer: Trainer,
        feed: BatchStream,
        validation: BatchStream | None,
        epochs: int,
        callbacks: list[Any],
        best: Best,
    ) -> None:
        self.trainer, self.feed, self.validation, self.epochs, self.callbacks = (
            trainer,
            feed,
            validation,
            epochs,
            callbacks,
        )
        self.objective = trainer.objective
        self.accumulate = trainer.accumulate
        self.batches = feed.source.batches
        self.steps = -(-self.batches // self.accumulate)  # steps of the optimizer in an epoch
        self.epoch = self.batch = 0
        self.measures = self.new_measures()
        self.best, self.best_weights = best, {} if best.keeps else None
        self._first_loss: float | None = None
        self.begins = True  # no checkpoint of this run is in the folder yet
        self.settings = {} if trainer.out is None else settings(self)
        self.step_callbacks, self.epoch_callbacks, self.end_callbacks = (
            having(callbacks, f"on_{when}") for when in ("step", "epoch", "end")
        )
        self._accumulation = Accumulation(trainer.optimizer.parameters) if self.accumulate > 1 else None
        self._whole_steps: dict[Bound, WholeStep] = {}  # by size of batch
        trainer.history = History()

    def new_measures(self) -> EpochMetrics:
        """New measures for the metrics of an epoch."""
        return EpochMetrics(self.trainer.metrics, self.objective)

    def once(self, function: Callable[[], _Result]) -> _Result:
        """The result of a function that only one process of a run may call."""
        return function()

    def confirm(self, arrays: Mapping[str, Array]) -> None:
        """Make sure that all processes of a run would write this checkpoint."""

    def agree(self, stop: StopRequest) -> None:
        """Tell all processes of a run that one of them wants to stop."""

    def _batches(self) -> Iterator[Any]:
        """The rest of the epoch."""
        return self.feed.epoch(self.epoch, self.batch)

    def _validate(self, validation: BatchStream) -> dict[str, float]:
        return self.trainer._measure(validation)

    best_weights: dict[str, Array] | None
    """The weights of the best epoch; empty if there is none yet, None if they are not kept."""

    @property
    def step(self) -> int:
        """The number of steps that the optimizer has made."""
        return self.epoch * self.steps + -(-self.batch // self.accumulate)

    @property
    def done(self) -> bool:
        return self.epoch >= self.epochs or self.best.ended

    def go(self, stop: StopRequest) -> None:
        trainer = self.trainer
        trainer._stop_reason, self._began = None, not self.done
        with Progress(self.epochs, self.steps, self.step, quiet=trainer.quiet, say=trainer.say) as progress:
            while not self.done and trainer._stop_reason is None:
                began = perf_counter()
                self.objective.seconds = dict.fromkeys(PHASES, 0.0)
                self._run_epoch(progress, stop)
                if self.batch == self.batches:
                    self._end_epoch(perf_counter() - began, progress)
                    self.agree(stop)
                if stop.requested:
                    self._interrupt(stop.signal_name)
        self._finish()

    def _finish(self) -> None:
        """Say why the run ended, put back the best weights."""
        trainer = self.trainer
        trainer.history.chosen_epoch = len(trainer.history)
        if trainer._stop_reason is not None:
            if self.batch and trainer.out is not None:
                save(self)
            where = f"in epoch {self.epoch + 1}, step {self.step}" if self.batch else f"after epoch {self.epoch}"
            trainer.say(f"Stopped {where}: {trainer._stop_reason}.")
        elif self.best.ended and self.epoch < self.epochs and self._began:
            trainer.say(self.best.reason(self.epoch))
        if self.best_weights:
            trainer.network.load_state_dict(self.best_weights)
            trainer.history.chosen_epoch -= self.best.waited
            extreme = "lowest" if self.best.lower else "highest"
            trainer.say(
                f"The weights are those of epoch {trainer.chosen_epoch}: it has the {extreme} {self.best.words}."
            )
        for call in self.end_callbacks:
            call(trainer, trainer.history)

    # Steps.

    def _run_epoch(self, progress: Progress, stop: StopRequest) -> None:
        trainer = self.trainer
        with closing(self._batches()) as batches:  # type: ignore[type-var]
            while self.batch < self.batches:
                loss, samples = self._train_step(batches)
                if self._first_loss is None:
                    self._first_loss = loss
                rate = trainer.optimizer.learning_rate
                progress.advance(samples, rate=rate, measured=self.measures.so_far)
                if self.step_callbacks:
                    told = {
                        "epoch": self.epoch + 1,
                        "step": self.step,
                        "loss": loss,
                        "learning_rate": rate,
                        "samples": samples,
                    }
                    for call in self.step_callbacks:
                        call(trainer, told)
                self.agree(stop)
                if stop.requested or trainer._stop_reason is not None:
                    break
            if self.batch == self.batches:
                next(batches, None)  # a remainder is an error: it would never be trained on

    def _train_step(self, batches: Iterator[Any]) -> tuple[float, int]:
        """One step of the optimizer, over one batch or several; gives their loss and number of samples."""
        trainer, objective, seconds = self.trainer, self.objective, self.objective.seconds
        count = min(self.accumulate, self.batches - self.batch)
        step = self.step
        trainer.optimizer.learning_rate = trainer.base_learning_rate * trainer.schedule(step, self.epochs * self.steps)
        if self._accumulation is None:
            return self._whole_step(batches, step)
        total, samples = 0.0, 0
        for i in range(count):
            batch = self._next(batches)
            program, loss = objective.forward(batch, training=True, seed=(trainer.seed, step * self.accumulate + i))
            if not math.isfinite(loss):
                raise Diverged(self.divergence(loss, step, first_not_finite(trainer.network, program)))
            self.measures.add(objective, batch)
            objective.backward(program)
            total, samples = total + loss * batch.size, samples + batch.size
            self._accumulation.add(self._weight(batch))
        began = perf_counter()
        self._accumulation.finish(mean=self._means)
        trainer.optimizer.step()
        seconds["step"] += perf_counter() - began
        self.batch += count
        return total / samples, samples

    def _whole_step(self, batches: Iterator[Any], step: int) -> tuple[float, int]:
        """One step over one batch."""
        batch = self._next(batches)
        bound = self.objective.bound(batch.shapes, training=True)
        if bound not in self._whole_steps:
            kept = self.objective.all_bound()
            self._whole_steps = {known: whole for known, whole in self._whole_steps.items() if known in kept}
            self._whole_steps[bound] = WholeStep(self.objective, bound, self.trainer.optimizer, finite=True)
        try:
            loss = self._whole_steps[bound].run(batch, (self.trainer.seed, step))
        except NotFinite as error:
            where = first_not_finite(self.trainer.network, error.program)
            raise Diverged(self.divergence(error.loss, step, where)) from None
        self.measures.add(self.objective, batch)
        self.batch += 1
        return loss, batch.size

    def _next(self, batches: Iterator[Any]) -> Any:
        began = perf_counter()
        batch = next(batches)
        self.objective.seconds["data"] += perf_counter() - began
        return batch

    @property
    def _means(self) -> bool:
        """True if the loss of several batches is the mean of theirs, not their sum."""
        return not all(loss.is_sum for loss in self.objective.losses)

    def _weight(self, batch: Batch) -> float:
        """The weight of a batch's gradients among those of several batches."""
        if not self._means:
            return 1.0
        return self.objective.divisors[0] if len(self.objective.divisors) == 1 else batch.size

    def divergence(self, loss: float, step: int, where: str) -> str:
        """The message about a divergence; ``where`` is a sentence about the first value that is not finite."""
        files = [] if self.trainer.out is None else checkpoints.list_files(self.trainer.out)
        kept = f" The last good checkpoint is {files[0]}." if files else ""
        return (
            f"The loss became {loss} in epoch {self.epoch + 1}, step {step + 1}.{where} Use a smaller learning rate, "
            f"clip_norm, or look at the data.{kept}"
        )

    # Ends of epochs.

    def _end_epoch(self, seconds: float, progress: Progress) -> None:
        trainer = self.trainer
        self._require_finite()
        record: dict[str, Any] = {
            "epoch": self.epoch + 1,
            "step": self.step,
            "learning_rate": trainer.optimizer.learning_rate,
        }
        record |= self.measures.values()
        if self.validation is not None:
            began, forward = perf_counter(), self.objective.seconds["forward"]
            measured = self._validate(self.validation)
            self.objective.seconds |= {"validation": perf_counter() - began, "forward": forward}
            record |= {f"validation_{name}": value for name, value in measured.items()}
        record["seconds"] = round(seconds, 3)
        record["phase_seconds"] = {name: round(value, 6) for name, value in self.objective.seconds.items()}
        record["gradient_norms"] = self._gradient_norms()
        record["weight_norms"] = {
            name: total_norm([p.data]) for name, p in used_parameters(self.trainer.network).items()
        }
        trainer.history.append(record)
        self._require_bounded(float(record["loss"]))
        if self.best.stopping is not None and self.best.take(record) and self.best.keeps:
            self.best_weights = {name: array.copy() for name, array in trainer.network.state_dict().items()}
        self.epoch, self.batch = self.epoch + 1, 0
        self.measures = self.new_measures()
        for call in self.epoch_callbacks:
            call(trainer, record)
        if trainer.out is not None:
            save(self)
            path, written = trainer.out / checkpoints.HISTORY, json.dumps(trainer.history, indent=1).encode()
            self.once(lambda: write_atomically(path, written))
        progress.end_epoch(record, self.epochs)

    def _gradient_norms(self) -> dict[str, float]:
        return {
            name: float(np.linalg.norm(p.grad)) if p.requires_grad else 0.0
            for name, p in used_parameters(self.trainer.network).items()
        }

    def _require_finite(self) -> None:
        network = self.trainer.network
        if not all(np.isfinite(p.data).all() for p in used_parameters(network).values()):
            program = self.objective.bound(self.feed.first.shapes, training=True).program
            raise Diverged(self.divergence(math.nan, self.step - 1, first_not_finite(network, program)))

    def _require_bounded(self, loss: float) -> None:
        """Refuse a loss that has risen by orders of magnitude since the first step: it will not come back."""
        first = self._first_loss
        if first is not None and loss > max(_LOW, _RISE * first):
            raise Diverged(
                f"The loss rose from {first:.4g} in the first step to {loss:.4g} in epoch {self.epoch + 1}. Use a smaller "
                "learning rate, clip_norm, or look at the data."
            )

    def _interrupt(self, name: str) -> None:
        where = f"in epoch {self.epoch + 1}" if self.batch else f"after epoch {self.epoch}"
        if self.trainer.out is None:
            raise Interrupted(f"Stopped by {name} {where}. Nothing was saved, as there is no out folder.")
        path = save(self)
        raise Interrupted(f"Stopped by {name} {where}. Go on from {path} with resume.")


def used_parameters(network: Module) -> dict[str, Parameter]:
    """The parameters that ``forward`` uses; those of layers that it never calls are left out."""
    return {name: p for name, p in network.named_parameters() if p.used}


def first_not_finite(network: Module, program: Program) -> str:
    """A sentence about the first parameter or layer whose values are not finite."""
    for name, parameter in used_parameters(network).items():
        if not np.isfinite(parameter.data).all():
            return f" The parameter {name} is no longer finite."
    operation = program.first_not_finite()
    if operation is None:
        return ""
    number = next(i for i, one in enumerate(program.graph.operations) if one is operation)
    path, kind = step_names(network, program.graph.operations)[number]
    return f" The first layer whose output is not finite is {path} ({kind})."

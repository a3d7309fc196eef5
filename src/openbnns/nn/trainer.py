"""Training: batches, steps, validation, checkpoints.

The order of the samples in an epoch follows from the seed and the number of the epoch alone, and so does everything else
that is random. A run that was stopped, or killed, and resumed therefore ends with bitwise the weights of one that was not.
"""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import GradientClipping
from . import checkpoints, losses, optimizers, schedules
from ._choose import choose, seed_number, whole_number
from ._graph import Array
from ._program import Program
from .checkpoints import Checkpoint, CheckpointError
from .data import check
from .losses import BoundLoss, Loss
from .module import Module
from .optimizers import Optimizer
from .parameter import Mismatch
from .progress import Progress
from .schedules import Schedule
from .weights import write_atomically

Metric = Callable[[Array, Array], float]
"""(outputs, targets) of some samples -> their mean."""


class Diverged(ArithmeticError):
    """The loss is no longer a number; the message names the step and the layer.

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


def accuracy(outputs: Array, targets: Array) -> float:
    """Share of samples whose largest score is that of their class: a number, or the most probable one."""
    wanted = targets.argmax(axis=-1) if targets.ndim == outputs.ndim else targets
    return float(np.mean(outputs.argmax(axis=-1) == wanted))


class Trainer:
    """Trains a network.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.random.RandomState(0).standard_normal((256, 2)).astype(np.float32)
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    >>> net = nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Linear(2))
    >>> history = nn.Trainer(net, "cross_entropy", nn.Adam(0.02), seed=1, quiet=True).fit(x, y, epochs=30)
    >>> history[-1]["accuracy"] > 0.9
    True

    ``loss`` and ``optimizer`` are objects or names (cross_entropy, mse, ...; adam, adamw, sgd, rmsprop). ``schedule``
    changes the learning rate over the run. ``clip_norm`` limits the norm of all gradients together. ``early_stopping``
    ends after that many epochs without a lower validation loss and goes back to the best weights. With a folder ``out``
    a checkpoint is written after every epoch, and when SIGINT or SIGTERM arrives.
    """

    def __init__(
        self,
        network: Module,
        loss: Loss | str = "cross_entropy",
        optimizer: Optimizer | str = "adam",
        *,
        schedule: Schedule | str | None = None,
        batch_size: int = 32,
        clip_norm: float | None = None,
        early_stopping: int | None = None,
        metrics: Mapping[str, Metric] | None = None,
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        quiet: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        if not isinstance(network, Module):
            raise TypeError(f"Trainer: network must be an openbnns.nn.Module, not {type(network).__name__}.")
        self.network = network
        self.loss: Loss = choose(loss, losses.NAMED, Loss, "Trainer: loss")
        self.optimizer: Optimizer = choose(optimizer, optimizers.NAMED, Optimizer, "Trainer: optimizer")
        self.schedule: Schedule = choose(schedule or "constant", schedules.NAMED, None, "Trainer: schedule")
        self.batch_size = whole_number(batch_size, "Trainer: batch_size", 1)
        self.seed, self.early_stopping = seed_number(seed, "Trainer: seed"), early_stopping
        if clip_norm is not None:
            if not clip_norm > 0:
                raise ValueError(f"Trainer: clip_norm is {clip_norm}. It must be above 0.")
            self.optimizer.clip(GradientClipping.by_global_norm(threshold=float(clip_norm)))
        self.metrics: dict[str, Metric] = dict(metrics or {})
        if metrics is None and self.loss.classes:
            self.metrics["accuracy"] = accuracy
        self.out = None if out is None else Path(out)
        self.quiet = quiet
        self._say: Callable[[str], None] = (lambda text: None) if quiet else say
        self.history: list[dict[str, Any]] = []
        self._bound: dict[int, BoundLoss] = {}
        self._base_rate = self.optimizer.learning_rate

    # Fitting.

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        epochs: int = 10,
        validation: tuple[Any, Any] | None = None,
        resume: bool = False,
    ) -> list[dict[str, Any]]:
        """Train for so many epochs in all; gives the history, one record per epoch.

        ``resume`` goes on from the latest whole checkpoint in ``out``, or starts if there is none.
        """
        epochs = whole_number(epochs, "Trainer.fit: epochs", 1)
        x, y = check(x, y, "Trainer.fit")
        if validation is not None and (not isinstance(validation, (tuple, list)) or len(validation) != 2):
            raise TypeError("Trainer.fit: validation must be a pair (x, y) of samples and targets.")
        tested = None if validation is None else check(*validation, "Trainer.fit, validation")
        self._prepare(x, y, tested)
        run = _Run(self, x, y, tested, epochs)
        if resume:
            run.load()
        with _deferred_signals() as stop:
            run.go(stop)
        return self.history

    def _prepare(self, x: Array, y: Array, tested: tuple[Array, Array] | None) -> None:
        """Everything that can be wrong is found here, before the first step."""
        self._check_targets(x, y)
        if tested is not None:
            if tested[0].shape[1:] != x.shape[1:]:
                raise ValueError(
                    f"Trainer.fit: validation samples are {tested[0].shape[1:]}, training samples {x.shape[1:]}. Pass both "
                    "in the same shape."
                )
            self._check_targets(*tested)
        if self.optimizer.parameters != list(self.network.parameters()):
            self.optimizer.attach(self.network.parameters())
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            if not os.access(self.out, os.W_OK):
                raise PermissionError(f"{self.out}: the folder is not writable. Choose another one.")

    def _check_targets(self, x: Array, y: Array) -> None:
        """Refuse targets that do not fit what the network gives for these samples."""
        self.network.build(x.shape[1:], seed=self.seed)
        assert self.network._graph is not None and self.network._graph.output is not None
        self.loss.check((len(y), *self.network._graph.output.shape), y)

    def _parts(self, batch: int, training: bool) -> tuple[Program, BoundLoss]:
        program = self.network.program(batch, training=training)
        bound = self._bound.get(id(program))
        if bound is None or bound.program is not program:
            bound = self.loss.bind(program.output, program.output_gradient if training else None)
            bound.program = program
            self._bound = {key: b for key, b in self._bound.items() if b.program in self.network._programs.values()}
            self._bound[id(program)] = bound
        return program, bound

    # Using.

    def predict(self, x: Any, batch_size: int = 256) -> Array:
        """The outputs of the network in inference mode."""
        samples = np.asarray(x)
        if samples.ndim < 1 or not len(samples):
            raise ValueError(f"Trainer.predict: there are no samples (x has shape {samples.shape}). Pass at least one.")
        self.network.build(samples.shape[1:], seed=self.seed)
        results = []
        for start in range(0, len(samples), batch_size):
            part = samples[start : start + batch_size]
            program = self.network.program(len(part), training=False)
            program.fill(0, part)
            results.append(program.forward().copy())
        return np.concatenate(results)

    def evaluate(self, x: Any, y: Any, batch_size: int = 256) -> dict[str, float]:
        """Loss and metrics in inference mode."""
        samples, targets = check(x, y, "Trainer.evaluate")
        self._check_targets(samples, targets)
        totals = dict.fromkeys(["loss", *self.metrics], 0.0)
        for start in range(0, len(samples), batch_size):
            part, wanted = samples[start : start + batch_size], targets[start : start + batch_size]
            program, bound = self._parts(len(part), training=False)
            program.fill(0, part)
            program.forward()
            bound.take(wanted)
            totals["loss"] += bound.run() * len(part)
            for name, metric in self.metrics.items():
                totals[name] += metric(program.output, wanted) * len(part)
        return {name: total / len(samples) for name, total in totals.items()}


class _Run:
    """One call of fit."""

    def __init__(self, trainer: Trainer, x: Array, y: Array, tested: tuple[Array, Array] | None, epochs: int) -> None:
        self.trainer, self.x, self.y, self.tested, self.epochs = trainer, x, y, tested, epochs
        self.batches = -(-len(x) // trainer.batch_size)
        self.epoch = self.batch = 0
        self.sums = dict.fromkeys(["loss", *trainer.metrics], 0.0)
        self.best: dict[str, Array] | None = None
        self.best_loss, self.waited = math.inf, 0
        self.begins = True  # no checkpoint of this run is in the folder yet
        trainer.history = []

    @property
    def step(self) -> int:
        return self.epoch * self.batches + self.batch

    def go(self, stop: _StopRequest) -> None:
        trainer = self.trainer
        total = self.epochs * self.batches
        with Progress(total, self.step, quiet=trainer.quiet, say=trainer._say) as progress:
            while self.epoch < self.epochs and not self._stopped_early():
                began = time.perf_counter()
                self._run_epoch(progress, stop)
                self._end_epoch(time.perf_counter() - began, progress)
        if self.best is not None and trainer.early_stopping is not None:
            trainer.network.load_state_dict(self.best)

    def _stopped_early(self) -> bool:
        patience = self.trainer.early_stopping
        return patience is not None and self.waited >= patience

    # Steps.

    def _run_epoch(self, progress: Progress, stop: _StopRequest) -> None:
        trainer = self.trainer
        # RandomState, because its streams never change between versions of NumPy.
        order = np.random.RandomState([trainer.seed, self.epoch]).permutation(len(self.x))
        size = trainer.batch_size
        while self.batch < self.batches:
            chosen = order[self.batch * size : (self.batch + 1) * size]
            loss = self._train_step(chosen)
            self.batch += 1
            progress.advance(self.epoch, loss, len(chosen))
            if stop.requested:
                self._interrupt(stop.signal_name)

    def _train_step(self, chosen: Array) -> float:
        trainer = self.trainer
        program, bound = trainer._parts(len(chosen), training=True)
        trainer.optimizer.learning_rate = trainer._base_rate * trainer.schedule(self.step, self.epochs * self.batches)
        program.seed(trainer.seed, self.step)
        program.fill(0, self.x[chosen])
        targets = self.y[chosen]
        program.forward()
        bound.take(targets)
        loss = bound.run()
        if not math.isfinite(loss):
            raise Diverged(self._diagnosis(program, loss))
        for name, metric in trainer.metrics.items():
            self.sums[name] += metric(program.output, targets) * len(chosen)
        self.sums["loss"] += loss * len(chosen)
        program.backward()
        trainer.optimizer.step()
        return loss

    def _diagnosis(self, program: Program, loss: float) -> str:
        """Where the numbers went wrong: the first parameter or layer whose values are not finite."""
        where = ""
        for name, parameter in self.trainer.network.named_parameters():
            if not np.isfinite(parameter.data).all():
                where = f" The parameter {name} is no longer finite."
                break
        else:
            layer = program.first_not_finite(self.trainer.network)
            if layer:
                where = f" The first layer whose output is not finite is {layer}."
        files = [] if self.trainer.out is None else checkpoints.list_files(self.trainer.out)
        kept = f" The last good checkpoint is {files[0]}." if files else ""
        return (
            f"The loss became {loss} in epoch {self.epoch + 1}, step {self.step + 1}.{where} Use a smaller learning rate, "
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
        record |= {name: total / len(self.x) for name, total in self.sums.items()}
        if self.tested is not None:
            record |= {f"validation_{name}": value for name, value in trainer.evaluate(*self.tested).items()}
        record["seconds"] = round(seconds, 3)
        record["gradient_norms"] = {
            name: float(np.linalg.norm(p.grad)) for name, p in trainer.network.named_parameters()
        }
        trainer.history.append(record)
        self._keep_best(record.get("validation_loss", record["loss"]))
        self.epoch, self.batch = self.epoch + 1, 0
        self.sums = dict.fromkeys(self.sums, 0.0)
        if trainer.out is not None:
            self.save()
            write_atomically(trainer.out / "history.json", json.dumps(trainer.history, indent=1).encode())
        progress.end_epoch(record, self.epochs)

    def _require_finite(self) -> None:
        for parameter in self.trainer.network.parameters():
            if not np.isfinite(parameter.data).all():
                program, _ = self.trainer._parts(min(self.trainer.batch_size, len(self.x)), training=True)
                self.batch -= 1
                raise Diverged(self._diagnosis(program, math.nan))

    def _keep_best(self, loss: float) -> None:
        if self.trainer.early_stopping is None:
            return
        if loss < self.best_loss:
            self.best_loss, self.waited = loss, 0
            self.best = {name: array.copy() for name, array in self.trainer.network.state_dict().items()}
        else:
            self.waited += 1

    # Checkpoints.

    def _identity(self) -> dict[str, Any]:
        """What must agree for a run to be the continuation of another."""
        trainer = self.trainer
        return {
            "network": {name: list(array.shape) for name, array in trainer.network.state_dict().items()},
            "optimizer": type(trainer.optimizer).__name__,
            "batch_size": trainer.batch_size,
            "seed": trainer.seed,
            "samples": len(self.x),
        }

    def save(self) -> Path:
        trainer = self.trainer
        assert trainer.out is not None
        arrays = {f"network.{name}": array for name, array in trainer.network.state_dict().items()}
        arrays |= {f"optimizer.{name}": array for name, array in trainer.optimizer.state_dict().items()}
        if self.best is not None:
            arrays |= {f"best.{name}": array for name, array in self.best.items()}
        state = {
            "identity": self._identity(),
            "epoch": self.epoch,
            "batch": self.batch,
            "sums": self.sums,
            "best_loss": None if math.isinf(self.best_loss) else self.best_loss,
            "waited": self.waited,
            "history": trainer.history,
        }
        if self.begins and checkpoints.set_aside(trainer.out):
            trainer._say(
                f"{trainer.out}: the checkpoints of an earlier run are now in {trainer.out / checkpoints.EARLIER}."
            )
        self.begins = False
        return checkpoints.save(trainer.out, self.step, Checkpoint(arrays, state))

    def load(self) -> None:
        trainer = self.trainer
        if trainer.out is None:
            raise CheckpointError(
                "Trainer.fit: resume needs the folder of the checkpoints. Give the Trainer out=FOLDER."
            )
        found = checkpoints.latest(trainer.out, trainer._say)
        if found is None:
            trainer._say(f"{trainer.out}: no checkpoint yet, starting from the beginning.")
            return
        self._check_identity(found.state["identity"])
        self.begins = False
        try:
            trainer.network.load_state_dict(found.part("network"))
            trainer.optimizer.load_state_dict(found.part("optimizer"))
        except (Mismatch, ValueError) as error:
            raise CheckpointError(f"{trainer.out}: the checkpoint does not fit. {error}") from None
        state = found.state
        self.epoch, self.batch, self.sums, self.waited = state["epoch"], state["batch"], state["sums"], state["waited"]
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
        self.best = found.part("best") or None
        trainer.history = state["history"]
        trainer._say(f"Resuming at epoch {self.epoch + 1}, step {self.step + 1}.")

    def _check_identity(self, theirs: dict[str, Any]) -> None:
        ours = json.loads(json.dumps(self._identity()))
        different = [
            f"  {name}: {theirs.get(name)!r} in the checkpoint, {value!r} now"
            for name, value in ours.items()
            if name != "network" and theirs.get(name) != value
        ]
        network = theirs.get("network", {})
        different += [
            f"  network, {name}: shape {network.get(name, 'none')} in the checkpoint, {ours['network'].get(name, 'none')} now"
            for name in sorted({*network, *ours["network"]})
            if network.get(name) != ours["network"].get(name)
        ]
        if different:
            raise CheckpointError(
                f"{self.trainer.out}: the checkpoint belongs to another run:\n"
                + "\n".join(different)
                + "\nUse the same "
                "settings, or another folder."
            )

    def _interrupt(self, name: str) -> None:
        if self.trainer.out is None:
            raise Interrupted(
                f"Stopped by {name} in epoch {self.epoch + 1}. Nothing was saved, as there is no out folder."
            )
        path = self.save()
        raise Interrupted(f"Stopped by {name} in epoch {self.epoch + 1}. Go on from {path} with resume.")


class _StopRequest:
    requested = False
    signal_name = ""


@contextmanager
def _deferred_signals() -> Iterator[_StopRequest]:
    """SIGINT and SIGTERM wait for the end of a step; a second SIGINT does not."""
    stop = _StopRequest()
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

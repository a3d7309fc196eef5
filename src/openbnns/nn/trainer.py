"""Training: batches, steps, validation, checkpoints.

The order of the samples in an epoch follows from the seed and the number of the epoch alone, and so does everything else
that is random. A run that was stopped, or killed, and resumed therefore ends with bitwise the weights of one that was not.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from .. import GradientClipping, engines
from .._spelling import spelled
from . import checkpoints, losses, optimizers, schedules
from ._folder_lock import locked
from ._program import Program
from ._resume import differences, examine, refuse_or_say, settings
from ._signals import StopRequest, deferred_signals
from ._value import Array
from .checkpoints import Checkpoint, CheckpointError
from .choose import choose, seed_number, whole_number
from .data import check
from .losses import BoundLoss, Loss
from .module import Module
from .optimizers import Optimizer
from .parameter import Mismatch, Parameter
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


def share_correct(outputs: Array, targets: Array, axis: int = 1) -> float:
    """Share of samples whose largest score is that of their class: a number, or the most probable one.

    ``axis`` is the one that lists the classes; all others are counted as samples.
    """
    wanted = targets.argmax(axis) if targets.ndim == outputs.ndim else targets
    return float(np.mean(outputs.argmax(axis) == wanted))


def _used_parameters(network: Module) -> dict[str, Parameter]:
    """Those of the layers that take part; one that ``forward`` never calls has none."""
    return {name: p for name, p in network.named_parameters() if p.used}


def _metrics(metrics: Any) -> dict[str, Metric]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(
            "Trainer: metrics must be a dictionary of functions (outputs, targets) -> number by name, such as {'mae': lambda "
            f"outputs, targets: abs(outputs - targets).mean()}}, not {metrics!r}. Accuracy is there without asking."
        )
    for name, metric in metrics.items():
        if not isinstance(name, str) or not callable(metric):
            raise TypeError(
                f"Trainer: metrics[{name!r}] is {metric!r}, but it is called with (outputs, targets). Pass a function by name."
            )
    return dict(metrics)


def _folder(out: Path) -> Path:
    """Refuse a folder that cannot be made because a file is in its place, before anything is computed."""
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise NotADirectoryError(f"Trainer: {place} is a file, but out is a folder. Give another name.")
            break
    return out


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
    a checkpoint is written after every epoch, and when SIGINT or SIGTERM arrives; the folder belongs to one trainer at a
    time. ``force`` takes it over from a process on another host, of which one cannot tell whether it has ended. ``accuracy`` is
    that of the network: "fast", "exact", or whatever ``openbnns.set_accuracy`` has chosen.
    """

    @spelled
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
        force: bool = False,
        quiet: bool = False,
        say: Callable[[str], None] = print,
        accuracy: str | None = None,
    ) -> None:
        if not isinstance(network, Module):
            raise TypeError(f"Trainer: network must be an openbnns.nn.Module, not {type(network).__name__}.")
        self.network = network
        if accuracy is not None:
            network._accuracy = engines.check_accuracy(accuracy, "Trainer")
        self.loss: Loss = choose(loss, losses.NAMED, Loss, "Trainer: loss")
        self.optimizer: Optimizer = choose(optimizer, optimizers.NAMED, Optimizer, "Trainer: optimizer")
        schedule = schedule or "constant"
        self.schedule: Schedule = choose(schedule, schedules.NAMED, None, "Trainer: schedule")
        self._schedule_name = (
            schedule if isinstance(schedule, str) else getattr(schedule, "__qualname__", type(schedule).__name__)
        )
        self.batch_size = whole_number(batch_size, "Trainer: batch_size", 1)
        self.seed, self.early_stopping = seed_number(seed, "Trainer: seed"), early_stopping
        if clip_norm is not None:
            if not clip_norm > 0:
                raise ValueError(f"Trainer: clip_norm is {clip_norm}. It must be above 0.")
            self.optimizer.clip(GradientClipping.by_global_norm(threshold=float(clip_norm)))
        self.metrics: dict[str, Metric] = _metrics(metrics)
        if metrics is None and self.loss.classes:
            self.metrics["accuracy"] = lambda y, t: share_correct(y, t, self.loss.class_axis(y.ndim) or 1)
        self.out = None if out is None else _folder(Path(out))
        self._force = force
        self.quiet = quiet
        self._say: Callable[[str], None] = (lambda text: None) if quiet else say
        self.history: list[dict[str, Any]] = []
        self.chosen_epoch = 0  # whose weights the network has after fit
        self._bound: dict[int, BoundLoss] = {}
        self._base_rate = self.optimizer.learning_rate

    # Fitting.

    @spelled
    def fit(
        self,
        x: Any,
        y: Any,
        *,
        epochs: int = 10,
        validation: tuple[Any, Any] | None = None,
        resume: bool | str = False,
    ) -> list[dict[str, Any]]:
        """Train for so many epochs in all; gives the history, one record per epoch.

        ``validation`` is measured after every epoch, and early stopping selects by it. So do not call it test data: keep
        other samples for :meth:`evaluate` at the end.

        ``resume=True`` goes on from the latest whole checkpoint in ``out``, or starts if there is none. A checkpoint of
        other settings or other data is refused with a list of what differs, but for the number of epochs, which may
        change if the learning rate does not depend on it. ``resume="override"`` goes on with the settings of this trainer
        all the same, from the weights of the checkpoint, and says what that means.
        """
        if resume not in (True, False, "override"):
            raise ValueError(f"Trainer.fit: resume is {resume!r}. Use True, False or 'override'.")
        epochs = whole_number(epochs, "Trainer.fit: epochs", 1)
        x, y = check(x, y, "Trainer.fit")
        if validation is not None and (not isinstance(validation, (tuple, list)) or len(validation) != 2):
            raise TypeError("Trainer.fit: validation must be a pair (x, y) of samples and targets.")
        tested = None if validation is None else check(*validation, "Trainer.fit, validation")
        if tested is None and self.early_stopping is not None:
            raise ValueError(
                "Trainer.fit: early_stopping selects by the validation loss, but there is no validation data. Pass "
                "validation=(x, y) with samples that are not trained on, or leave early_stopping out."
            )
        if resume and self.out is None:
            raise CheckpointError(
                "Trainer.fit: resume needs the folder of the checkpoints. Give the Trainer out=FOLDER."
            )
        self._prepare(x, y, tested)
        self._note(x, y, tested)
        with ExitStack() as held:
            if self.out is not None:
                held.enter_context(locked(self.out, force=self._force, say=self._say))
                checkpoints.remove_litter(self.out)
            run = _Run(self, x, y, tested, epochs)
            if resume:
                run.load(override=resume == "override")
            with deferred_signals() as stop:
                run.go(stop)
        return self.history

    def _note(self, x: Array, y: Array, tested: tuple[Array, Array] | None) -> None:
        """Say what makes good numbers worthless."""
        if self.loss.classes and y.dtype.kind in "iu" and y.size > 1 and (y == y.flat[0]).all():
            self._say(f"All {len(y)} training samples have class {y.flat[0]}: there is nothing to tell apart.")
        if tested is not None and x.shape == tested[0].shape and np.array_equal(x, tested[0]):
            self._say("The validation samples are the training samples, so they do not show how others would fare.")

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
        self.optimizer.attach_network(self.network.parameters())
        if not any(p.requires_grad for p in self.optimizer.parameters):
            raise ValueError(
                "Trainer.fit: nothing would be trained, because requires_grad is False for every parameter of the optimizer. "
                "Set it to True for those to train, or call requires_grad_() of a module."
            )
        rest = len(x) % self.batch_size
        self.network.program(min(len(x), self.batch_size), training=True)
        try:
            self.network.program(rest or self.batch_size, training=True)
        except ValueError as error:
            raise ValueError(
                f"Trainer.fit: {len(x)} samples in batches of {self.batch_size} leave {rest} for the last one, which does not "
                f"do. {error} Choose another batch_size."
            ) from None
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            if not os.access(self.out, os.W_OK):
                raise PermissionError(f"{self.out}: the folder is not writable. Choose another one.")

    def _check_targets(self, x: Array, y: Array) -> None:
        """Refuse targets that do not fit what the network gives for these samples."""
        self.network.build(x.shape[1:], seed=self.seed)
        assert self.network._graph is not None
        self.loss.check((len(y), *self.network._graph.output.sample), y)

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

    @spelled
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

    @spelled
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


def _of_optimizer(settings: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Its kind and the arrays of its state."""
    arrays = {name: entry for name, entry in settings["arrays"].items() if name.startswith("optimizer.")}
    return settings["optimizer"].get("name"), arrays


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
        self.settings = {} if trainer.out is None else settings(trainer, x, y, tested, epochs)
        trainer.history = []

    @property
    def step(self) -> int:
        return self.epoch * self.batches + self.batch

    def go(self, stop: StopRequest) -> None:
        trainer = self.trainer
        total = self.epochs * self.batches
        with Progress(total, self.step, quiet=trainer.quiet, say=trainer._say) as progress:
            while self.epoch < self.epochs and not self._stopped_early():
                began = time.perf_counter()
                self._run_epoch(progress, stop)
                self._end_epoch(time.perf_counter() - began, progress)
        trainer.chosen_epoch = len(trainer.history)
        if self.best is not None and trainer.early_stopping is not None:
            trainer.network.load_state_dict(self.best)
            trainer.chosen_epoch -= self.waited
            trainer._say(f"The weights are those of epoch {trainer.chosen_epoch}: it has the lowest validation loss.")

    def _stopped_early(self) -> bool:
        patience = self.trainer.early_stopping
        return patience is not None and self.waited >= patience

    # Steps.

    def _run_epoch(self, progress: Progress, stop: StopRequest) -> None:
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
        for name, parameter in _used_parameters(self.trainer.network).items():
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
            name: float(np.linalg.norm(p.grad)) if p.requires_grad else 0.0
            for name, p in _used_parameters(trainer.network).items()
        }
        trainer.history.append(record)
        self._keep_best(record)
        self.epoch, self.batch = self.epoch + 1, 0
        self.sums = dict.fromkeys(self.sums, 0.0)
        if trainer.out is not None:
            self.save()
            write_atomically(trainer.out / "history.json", json.dumps(trainer.history, indent=1).encode())
        progress.end_epoch(record, self.epochs)

    def _require_finite(self) -> None:
        for parameter in _used_parameters(self.trainer.network).values():
            if not np.isfinite(parameter.data).all():
                program, _ = self.trainer._parts(min(self.trainer.batch_size, len(self.x)), training=True)
                self.batch -= 1
                raise Diverged(self._diagnosis(program, math.nan))

    def _keep_best(self, record: dict[str, Any]) -> None:
        if self.trainer.early_stopping is None:
            return
        loss = record["validation_loss"]
        if loss < self.best_loss:
            self.best_loss, self.waited = loss, 0
            self.best = {name: array.copy() for name, array in self.trainer.network.state_dict().items()}
        else:
            self.waited += 1

    # Checkpoints.

    def save(self) -> Path:
        trainer = self.trainer
        assert trainer.out is not None
        arrays = {f"network.{name}": array for name, array in trainer.network.state_dict().items()}
        arrays |= {f"optimizer.{name}": array for name, array in trainer.optimizer.state_dict().items()}
        if self.best is not None:
            arrays |= {f"best.{name}": array for name, array in self.best.items()}
        state = {
            "settings": self.settings,
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

    def load(self, *, override: bool) -> None:
        trainer = self.trainer
        assert trainer.out is not None
        ours = self.settings
        found = checkpoints.latest(trainer.out, trainer._say, lambda path, found: examine(path, found, ours))
        if found is None:
            trainer._say(f"{trainer.out}: no checkpoint yet, starting from the beginning.")
            return
        told = differences(found, ours, trainer.schedule)
        if told:
            refuse_or_say(trainer.out, told, override, trainer._say)
        self._take(found, told)
        if self.epoch >= self.epochs or self._stopped_early():
            trainer._say(f"{trainer.out}: nothing to do, {self._why_done()}.")
            return
        if found.state["settings"]["epochs"] != self.epochs:
            trainer._say(f"Training for {self.epochs} epochs in all instead of {found.state['settings']['epochs']}.")
        if found.state["settings"]["instruction set"] != ours["instruction set"]:
            trainer._say(
                f"This CPU computes with {ours['instruction set']}, that of the checkpoint with "
                f"{found.state['settings']['instruction set']}: the last digits will differ from an uninterrupted run."
            )
        trainer._say(f"Resuming at epoch {self.epoch + 1}, step {self.step + 1}.")

    def _why_done(self) -> str:
        done = f"{self.epoch} epoch{'s are' if self.epoch != 1 else ' is'} done"
        if self._stopped_early():
            return f"{done} and training stopped early"
        return done if self.epoch == self.epochs else f"{done} already and {self.epochs} were asked for"

    def _take(self, found: Checkpoint, told: dict[str, str]) -> None:
        """Take over the state of a checkpoint, but for what the settings that differ make meaningless."""
        trainer, state = self.trainer, found.state
        try:
            trainer.network.load_state_dict(found.part("network"))
            if "not trained" in told or _of_optimizer(state["settings"]) != _of_optimizer(self.settings):
                trainer._say("The optimizer starts anew: its state belongs to another one or to other parameters.")
            else:
                trainer.optimizer.load_state_dict(found.part("optimizer"))
        except (Mismatch, ValueError) as error:
            raise CheckpointError(f"{trainer.out}: the checkpoint does not fit. {error}") from None
        self.begins = bool(told)
        self.epoch, trainer.history = state["epoch"], state["history"]
        if not {"batch size", "seed", "training data", "metrics", "loss"} & set(told):
            self.batch, self.sums = state["batch"], state["sums"]
        elif state["batch"]:
            trainer._say(f"Epoch {self.epoch + 1} starts again: the samples or their order differ.")
        if not {"validation data", "loss"} & set(told):
            self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
            self.best, self.waited = found.part("best") or None, state["waited"]
        elif state["best_loss"] is not None:
            trainer._say("The best epoch so far no longer counts: its loss was another one.")

    def _interrupt(self, name: str) -> None:
        if self.trainer.out is None:
            raise Interrupted(
                f"Stopped by {name} in epoch {self.epoch + 1}. Nothing was saved, as there is no out folder."
            )
        path = self.save()
        raise Interrupted(f"Stopped by {name} in epoch {self.epoch + 1}. Go on from {path} with resume.")

"""Training of networks: settings, data and results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .. import GradientClipping
from .._listing import Listed
from .._spelling import elsewhere, spelled
from ..graph.checks import whole_number
from ..graph.seeds import seed_number
from ..graph.tensor import Array
from . import callbacks as _callbacks
from . import checkpoints, optimizers, schedules, turns
from . import metrics as _metrics
from . import transforms as _transforms
from .arguments import choose
from .batches import ArraySource, BatchStream, IterableSource, Source, check_weights
from .callbacks import Best, EarlyStopping
from .checkpoints import CheckpointError
from .data.dataset import Batches
from .data.sources import Rows
from .data.splitting import split_rows
from .epoch_metrics import check_metrics, default_metrics, measure
from .files.folder_lock import locked
from .history import History
from .losses import Loss, LossName
from .metrics import Metric, MetricName
from .module import Module, nested
from .nested_arrays import Key, joined, keys_of, label, parts_of
from .objective import ClassWeights, Objective, arrange, check_targets, listed, output_keys, read_losses, read_shares
from .optimizers import Optimizer, OptimizerName
from .recording import recorded_graph
from .run_checkpoints import load
from .schedules import Schedule, ScheduleName
from .training_run import Diverged, Interrupted, Run, deferred_signals
from .transforms import Draws

EVALUATED = 256  # samples at a time


__all__ = ["Diverged", "Interrupted", "Trainer"]


def _folder(out: Path) -> Path:
    """Refuse a folder that cannot be made because a file is in its place, before anything is computed."""
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir():
                raise NotADirectoryError(f"Trainer: {place} is a file, but out is a folder. Give another name.")
            break
    return out


def _make_folder(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise PermissionError(f"{out}: the folder is not writable. Choose another one.")


AnyLoss = Loss | LossName | Callable[..., Any]
"""An object, a name, or a function of the output and the targets."""


class Trainer(Listed):
    """Training of a network.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x = np.random.RandomState(0).standard_normal((256, 2)).astype(np.float32)
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    >>> net = nn.Sequential(nn.Linear(16), nn.Tanh(), nn.Linear(2))
    >>> history = nn.Trainer(net, "cross_entropy", nn.Adam(0.02), seed=1, quiet=True).fit(x, y, epochs=30)
    >>> history[-1]["accuracy"] > 0.9
    True

    ``loss`` and ``optimizer`` are objects or names (cross_entropy, mse, ...; adam, adamw, sgd, rmsprop); a loss may be a function
    of the outputs and the targets as values, too (:class:`FunctionLoss`), whatever their number and structure. Else a network
    with several outputs has a tuple or a dictionary of losses, one for each; their sum is trained on, times ``loss_weights``.
    ``schedule`` changes the learning rate over the run. ``accumulate`` takes the gradients of so many batches for one step.
    ``clip_norm`` limits the norm of all gradients together. ``early_stopping`` ends after that many epochs without a lower
    validation loss and goes back to the best weights; :class:`EarlyStopping` does so by any metric, and
    ``EarlyStopping(None)`` trains all epochs. Without it the weights are those of the last epoch. ``metrics`` are names
    (``["f1", "auc"]``), objects of ``nn.metrics``, or functions (outputs, targets) -> number by name; accuracy is there without
    asking if there are classes. ``read_ahead`` is how many batches a thread prepares in advance: 2 for iterables and
    memory-mapped arrays, 0 for others, unless given.

    With a folder ``out`` a checkpoint is written after every epoch, and when SIGINT or SIGTERM arrives; the folder belongs to
    one trainer at a time. ``force`` takes it over from a process on another host, of which one cannot tell whether it has ended.
    ``accuracy`` is that of the network: "fast", "exact", or whatever ``openbnns.set_accuracy`` has chosen. So is ``precision``:
    with "bfloat16", matrix products multiply numbers rounded to bfloat16, forward and backward, and add them up in float32,
    which takes about half the time; weights and everything else stay float32 (docs/trainer.md).

    ``distributed=True`` trains on all ranks of an MPI job, each with its part of the ``shards`` that every batch is cut into:
    with bitwise the same result on any number of ranks (docs/distributed.md). A communicator of mpi4py takes some of the ranks.
    ``sync_batch_norm`` normalizes by the statistics of whole batches, not of shards.
    """

    @spelled
    @elsewhere(
        epochs="Pass it to fit(x, y, epochs=...).",
        lr="Give the optimizer a learning rate: nn.Adam(1e-3).",
        learning_rate="Give the optimizer a learning rate: nn.Adam(1e-3).",
        callbacks="Pass them to fit(x, y, callbacks=...).",
        validation="Pass it to fit(x, y, validation=...).",
        transforms="Pass them to fit(x, y, transforms=...).",
    )
    def __init__(
        self,
        network: Module,
        loss: AnyLoss | Sequence[AnyLoss] | Mapping[str, AnyLoss] = "cross_entropy",
        optimizer: Optimizer | OptimizerName = "adam",
        *,
        schedule: Schedule | ScheduleName | None = None,
        batch_size: int = 32,
        accumulate: int = 1,
        clip_norm: float | None = None,
        early_stopping: int | EarlyStopping | None = None,
        metrics: MetricName | Metric | Sequence[MetricName | Metric] | Mapping[str, Any] | None = None,
        loss_weights: Sequence[float] | Mapping[str, float] | None = None,
        read_ahead: int | None = None,
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        force: bool = False,
        quiet: bool = False,
        say: Callable[[str], None] = print,
        accuracy: Literal["fast", "exact"] | None = None,
        precision: Literal["float32", "bfloat16"] | None = None,
        distributed: Any = None,
        shards: int = 16,
        sync_batch_norm: bool = False,
    ) -> None:
        if not isinstance(network, Module):
            made = isinstance(network, type) and issubclass(network, Module)
            got = f"the class {network.__name__}. Call it" if made else type(network).__name__
            raise TypeError(f"Trainer: network must be an openbnns.nn.Module, not {got}.")
        self.network = network
        network._compute_with("Trainer", accuracy, precision)
        keys, losses = read_losses(loss)
        self.loss: Any = joined(keys, losses)
        self.loss_weights = loss_weights
        self.objective = Objective(network, losses, read_shares(loss_weights, keys), keys)
        self.optimizer: Optimizer = choose(optimizer, optimizers.NAMED, Optimizer, "Trainer: optimizer")
        schedule = schedule or "constant"
        self.schedule: Schedule = choose(schedule, schedules.NAMED, None, "Trainer: schedule")
        self._schedule_name = (
            schedule if isinstance(schedule, str) else getattr(schedule, "__qualname__", type(schedule).__name__)
        )
        self.batch_size = whole_number(batch_size, "Trainer: batch_size", 1)
        network._require_samples(self.batch_size, "Trainer")
        self.accumulate = whole_number(accumulate, "Trainer: accumulate", 1)
        self.read_ahead = None if read_ahead is None else whole_number(read_ahead, "Trainer: read_ahead", 0)
        self.seed = seed_number(seed, "Trainer: seed")
        if not isinstance(early_stopping, (EarlyStopping, type(None))):
            early_stopping = EarlyStopping(whole_number(early_stopping, "Trainer: early_stopping", 1))
        self.early_stopping: EarlyStopping | None = early_stopping
        if clip_norm is not None:
            if not clip_norm > 0:
                raise ValueError(f"Trainer: clip_norm is {clip_norm}. It must be above 0.")
            self.optimizer.clip(GradientClipping.by_global_norm(threshold=float(clip_norm)))
        self.metrics: dict[str, Metric] = _metrics.by_name(metrics)
        if metrics is None:
            self.metrics = default_metrics(losses, keys)
        if not self.objective.joint:
            check_metrics(self.metrics, losses, keys, keys)
        self.out = None if out is None else _folder(Path(out))
        self._force = force
        self.shards = whole_number(shards, "Trainer: shards", 1)
        self.sync_batch_norm = bool(sync_batch_norm)
        self.distributed = None if distributed is None or distributed is False else _communicator(distributed)
        if self.distributed is None and self.sync_batch_norm:
            raise ValueError("Trainer: sync_batch_norm is for shards of a batch. Give distributed=True, too.")
        # The first process alone writes files and messages.
        self._is_first = self.distributed is None or self.distributed.rank == 0
        self.quiet = quiet or not self._is_first
        self.say: Callable[[str], None] = (lambda text: None) if self.quiet else say
        self.history = History()
        self.transforms: list[
            _transforms.TransformFunction
        ] = []  # transforms of fit, which evaluate and predict apply as well
        self._validation_split: float | None = None
        self._stop_reason: str | None = None
        self.base_learning_rate = self.optimizer.learning_rate

    def __repr__(self) -> str:
        parts = {"network": repr(self.network), "loss": repr(self.loss), "optimizer": repr(self.optimizer)}
        parts |= {"schedule": self._schedule_name, "batch_size": str(self.batch_size), "seed": str(self.seed)}
        if self.metrics:
            parts["metrics"] = ", ".join(self.metrics)
        return nested("Trainer", f"epochs done: {len(self.history)}" if self.history else "", parts.items())

    @property
    def chosen_epoch(self) -> int:
        """The epoch whose weights the network has after ``fit``, from 1 on: the best by ``early_stopping``, else the last."""
        return self.history.chosen_epoch

    # Fitting.

    @spelled
    @elsewhere(
        batch_size="Pass it to Trainer(..., batch_size=...).",
        lr="Give the optimizer a learning rate: nn.Adam(1e-3).",
        metrics="Pass them to Trainer(..., metrics=...).",
        verbose="Say Trainer(..., quiet=True) for silence.",
        shuffle="Samples are shuffled by the seed of the trainer; an iterable of batches keeps its order.",
    )
    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int = 10,
        validation: tuple[Any, ...] | Iterable[Any] | None = None,
        validation_split: float | None = None,
        resume: bool | Literal["override"] = False,
        class_weights: Mapping[int, float] | Sequence[float] | Array | Literal["balanced"] | None = None,
        sample_weights: Any = None,
        transforms: _transforms.TransformFunction | Sequence[_transforms.TransformFunction] | None = None,
        callbacks: Any = None,
    ) -> History:
        """Train for so many epochs in all; gives the history, one record per epoch.

        ``x`` and ``y`` are arrays with one entry per sample, in memory or memory-mapped (``np.load(..., mmap_mode="r")``), rows
        that are read from files as they are needed (``nn.sources``), or
        tuples or dictionaries of arrays if the network has several inputs or outputs; samples in a dictionary have the names
        of the arguments of ``forward``. Without ``y``, ``x`` gives batches (x, y) or (x, y, sample_weights): a list, an object
        that can be iterated anew for every epoch, such as a torch ``DataLoader``, or a function that is called for every epoch,
        with its number from 0 if it takes one, and gives an iterator. For a run to be resumable it must give the same batches
        for the same epoch. If the loss is a function of the outputs alone, ``y`` is left out; an autoencoder has its samples as
        targets, ``fit(x, x)``.

        ``validation`` is measured after every epoch, and early stopping selects by it. So do not call it test data: keep
        other samples for :meth:`evaluate` at the end. It is (x, y), (x, y, sample_weights) or an iterable of batches;
        ``validation_split=0.2`` takes that share of the samples, about the same of each class, chosen by the seed.

        ``class_weights`` are what samples of each class count: numbers, a dictionary by class, or "balanced".
        ``sample_weights`` are one number per sample. The loss is then the weighted mean; metrics do not know of weights.
        ``transforms`` (``nn.transforms``) change batches, ``callbacks`` (:class:`Callback`) run own code at steps and epochs.

        ``resume=True`` goes on from the latest whole checkpoint in ``out``, or starts if there is none. A checkpoint of
        other settings or other data is refused with a list of what differs, but for the number of epochs, which may
        change if the learning rate does not depend on it. ``resume="override"`` goes on with the settings of this trainer
        all the same, from the weights of the checkpoint, and says what that means.
        """
        with turns.taken(self.network.modules(), "Trainer.fit"):
            return self._fit(
                x, y, epochs, validation, validation_split, resume, class_weights, sample_weights, transforms, callbacks
            )

    def _fit(
        self, x: Any, y: Any, epochs: int, validation: Any, validation_split: float | None, resume: bool | str,
        class_weights: Any, sample_weights: Any, transforms: Any, callbacks: Any,
    ) -> History:  # fmt: skip
        with self._preparing():
            if resume not in (True, False, "override"):
                raise ValueError(f"Trainer.fit: resume is {resume!r}. Use True, False or 'override'.")
            epochs = whole_number(epochs, "Trainer.fit: epochs", 1)
            if resume and self.out is None:
                raise CheckpointError(
                    "Trainer.fit: resume needs the folder of the checkpoints. Give the Trainer out=FOLDER."
                )
            listening = _callbacks.check(callbacks)
            if isinstance(self.schedule, schedules.ReduceLROnPlateau):  # it follows what is measured
                self.schedule.reset()
                listening.append(self.schedule)
            changes = _transforms.check(transforms)
            source = self._source(x, y, sample_weights, "Trainer.fit", batch_size=self.batch_size, seed=self.seed)
            source, tested = self._validation(source, validation, validation_split)
            best = self._best(tested is not None)
            self.transforms, self._validation_split = changes, validation_split
            feed = BatchStream(source, changes, seed=self.seed, training=True, ahead=self.read_ahead)
            self._prepare(feed)
            held_out = None if tested is None else self._evaluation_feed(tested, "Trainer.fit: validation", feed)
            self._note(source, tested)
            self.objective.class_weights = (
                None
                if class_weights is None
                else ClassWeights(class_weights, self.objective.losses, self._output_shapes(1), source)
            )
        with self._running(), ExitStack() as held:
            if self.distributed is not None:  # what ranks do together follows from these
                asked = {"out": self.out is not None, "resume": resume, "validation": tested is not None}
                self.distributed.compare(asked)
            if self.out is not None:
                self._once(partial(self._take_folder, self.out, held))
            with self._preparing():
                run = self._run(feed, held_out, epochs, listening, best)
                if resume:
                    load(run, override=resume == "override")
            with deferred_signals() as stop:
                run.go(stop)
        return self.history

    def _preparing(self) -> AbstractContextManager[None]:
        return nullcontext() if self.distributed is None else self.distributed.preparing()

    def _running(self) -> AbstractContextManager[None]:
        return nullcontext() if self.distributed is None else self.distributed.running()

    def _once(self, function: Callable[[], None]) -> None:
        """Call a function that only one process of a run may call."""
        if self.distributed is None:
            function()
        else:
            self.distributed.once(function)

    def _take_folder(self, out: Path, held: ExitStack) -> None:
        _make_folder(out)
        held.enter_context(locked(out, force=self._force, say=self.say))
        checkpoints.remove_litter(out)

    def _run(self, feed: BatchStream, held_out: BatchStream | None, epochs: int, called: list[Any], best: Best) -> Run:
        if self.distributed is None:
            return Run(self, feed, held_out, epochs, called, best)
        return _distributed_run(self, feed, held_out, epochs, called, best)

    def stop(self, reason: str = "a callback asked for it") -> None:
        """End the run after this step or epoch; for callbacks. Finished work is kept, and ``resume=True`` continues from
        there."""
        self._stop_reason = str(reason)

    def _prepare(self, feed: BatchStream) -> None:
        """Check everything that can be wrong, before the first step."""
        self._fit_network(feed, "Trainer.fit", training=True)
        self.optimizer.attach_network(self.network.parameters())
        if not any(p.requires_grad for p in self.optimizer.parameters):
            raise ValueError(
                "Trainer.fit: nothing would be trained, because requires_grad is False for every parameter of the optimizer. "
                "Set it to True for those to train, or call requires_grad_() of a module."
            )
        usual, *others = feed.source.sizes
        if self.distributed is not None:
            _check_shards(self, feed)
        else:
            self.network.program(usual, training=True)
            for rest in others:
                try:
                    self.network.program(rest, training=True)
                except ValueError as error:
                    raise ValueError(
                        f"Trainer.fit: {(feed.source.batches - 1) * usual + rest} samples in batches of {usual} leave {rest} for "
                        f"the last one, which is too small. {error} Choose another batch_size."
                    ) from None
        if self.out is not None and self.distributed is None:
            _make_folder(self.out)

    # Checks of data and losses.

    def _source(self, x: Any, y: Any, weights: Any, who: str, *, batch_size: int, seed: int | None) -> Source:
        """The source of batches, in the order of the data if there is no seed."""
        if y is None:
            if hasattr(x, "dtype") or keys_of(x) != [None]:
                if self.objective.needs_targets:
                    raise TypeError(
                        f"{who}: y is missing. Pass samples and targets, x and y, or an iterable of batches (x, y). An "
                        "autoencoder has its samples as targets: pass them twice. A loss that needs no targets is a function "
                        "of one argument, the outputs."
                    )
            elif weights is not None:
                raise TypeError(
                    f"{who}: sample_weights belong to arrays. Let the iterable give batches (x, y, sample_weights)."
                )
            else:
                return IterableSource(x, who, seed=self.seed, say=self.say, targets=self.objective.needs_targets)
        shards = 1 if self.distributed is None else self.shards
        source = ArraySource(x, y, who, batch_size=batch_size, seed=seed, shards=shards)
        if weights is not None:
            source.weights = check_weights(weights, source.samples, who)
        return source

    def _validation(self, source: Source, given: Any, share: float | None) -> tuple[Source, Source | None]:
        """The sources of the batches to train on and of those to validate with."""
        if share is not None:
            if given is not None:
                raise TypeError("Trainer.fit: validation and validation_split exclude each other. Give one of them.")
            if not isinstance(source, ArraySource):
                raise TypeError(
                    "Trainer.fit: validation_split takes samples out of arrays. For an iterable of batches, pass other batches "
                    "as validation."
                )
            has_classes = source.y and source.y[0].ndim < 3
            classes = source.y[0] if has_classes else np.full(source.samples, 0.5)  # which are not class numbers
            chosen, rest = split_rows(classes, share, self.seed, "Trainer.fit: validation_split")
            tested = source.part(chosen, shuffled=False, batch_size=EVALUATED)
            return source.part(rest, shuffled=True, batch_size=self.batch_size), tested
        if given is None:
            return source, None
        who = "Trainer.fit, validation"
        if _are_batches(given):
            return source, self._source(given, None, None, who, batch_size=0, seed=None)
        if not self.objective.needs_targets and (hasattr(given, "dtype") or isinstance(given, Mapping)):
            given = (given, None)
        if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
            raise TypeError(
                "Trainer.fit: validation must be a pair (x, y) of samples and targets, or an iterable of batches."
            )
        weights = given[2] if len(given) == 3 else None
        return source, self._source(given[0], given[1], weights, who, batch_size=EVALUATED, seed=None)

    def _best(self, validated: bool) -> Best:
        stopping = self.early_stopping
        if stopping is None:
            return Best(None, True)
        names = (
            ["loss"]
            if self.objective.keys == [None]
            else ["loss", *(f"loss_{label(key)}" for key in self.objective.keys)]
        )
        return Best(stopping, stopping.lower_is_better(self.metrics, validated=validated, losses=names))

    def _note(self, source: Source, tested: Source | None) -> None:
        """Warn if results would mean nothing: one class only, or validation equal to training."""
        if not isinstance(source, ArraySource) or not source.checked or source.rows is not None:
            return
        y = source.y[0] if source.y else np.empty(0)
        if self.objective.losses[0].classes and y.dtype.kind in "iu" and y.size > 1 and (y == y.flat[0]).all():
            self.say(f"All {len(y)} training samples have the same class: there is nothing to tell apart.")
        if not isinstance(tested, ArraySource) or not tested.checked:
            return
        if all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(source.x, tested.x, strict=True)):
            self.say(
                "The validation samples are the training samples, so they do not show how well it does on new ones."
            )

    def _fit_network(self, feed: BatchStream, who: str, *, training: bool = False) -> None:
        """Build the network for these samples, and refuse targets that do not fit what it gives for them."""
        inputs = arrange(self.network, feed.x_keys, who)
        self.network.build(*(feed.first.x[i].shape[1:] for i in inputs), seed=self.seed)
        keys = output_keys(self.network)
        if self.objective.joint:
            feed.arrange(inputs, self._joint_targets(feed, keys, who, training))
            return
        if keys != self.objective.keys:
            if not self.objective.is_for(keys):
                raise ValueError(
                    f"Trainer: the network gives {listed(keys)}, but loss is {self.loss!r}. Pass one loss for each output, "
                    f"{'in a dictionary by name' if isinstance(keys[0], str) else 'in a tuple'}."
                )
            self.objective = self.objective.ordered(keys)
        feed.arrange(inputs, check_targets(feed.y_keys, keys, who))

        def check(batch: Any) -> None:
            for loss, shape, y in zip(self.objective.losses, self._output_shapes(batch.size), batch.y, strict=True):
                loss.check(shape, y)

        feed.require(check)

    def _joint_targets(self, feed: BatchStream, keys: list[Key], who: str, training: bool) -> list[int]:
        """The order of the parts of the targets, which the loss takes in any structure, but always in the same one."""
        if feed.first.weights is not None:
            raise ValueError(
                f"{who}: sample_weights cannot be put into a loss function. Pass them as a part of y, and use them in it."
            )
        objective = self.objective
        used = getattr(objective.losses[0], "takes_targets", True) or self.metrics
        if feed.y_keys and not used:
            raise ValueError(
                f"{who}: y is given, but {objective.losses[0]!r} takes the outputs alone, and there are no metrics. Leave y "
                "out, or give the function a second argument."
            )
        if training or not self.history:
            objective.expect_targets(feed.y_keys)
        check_metrics(self.metrics, None, keys, objective.target_keys)
        return check_targets(feed.y_keys, objective.target_keys, who, "samples to train on had")

    def _output_shapes(self, samples: int) -> list[tuple[int, ...]]:
        """The shapes of the outputs for so many samples like those that the network was built with."""
        graph = recorded_graph(self.network)
        sizes = graph.sizes_for(samples)
        return [value.concrete(sizes) for value in graph.outputs]

    def _evaluation_feed(self, source: Source, who: str, trained: BatchStream | None = None) -> BatchStream:
        feed = BatchStream(source, self.transforms, seed=self.seed, training=False, ahead=self.read_ahead)
        if trained is not None and set(feed.shapes) == set(trained.shapes) and feed.shapes != trained.shapes:
            told = [next(iter(f.shapes.values())) if len(f.shapes) == 1 else f.shapes for f in (feed, trained)]
            raise ValueError(
                f"Trainer.fit: validation samples are {told[0]}, training samples {told[1]}. Pass both in the same shape."
            )
        self._fit_network(feed, who)
        return feed

    # Using.

    @spelled
    def predict(self, x: Any, batch_size: int = EVALUATED) -> Any:
        """The outputs of the network in inference mode, as its ``forward`` gives them: an array, or several."""
        keys, parts = keys_of(x), [a if isinstance(a, Rows) else np.asarray(a) for a in parts_of(x)]
        if parts[0].ndim < 1 or not len(parts[0]):
            raise ValueError(
                f"Trainer.predict: there are no samples (x has shape {parts[0].shape}). Pass at least one."
            )
        if any(len(array) != len(parts[0]) for array in parts):
            raise ValueError(
                f"Trainer.predict: the parts of x have {[len(a) for a in parts]} samples. Pass the same number of each."
            )
        results = []
        for start in range(0, len(parts[0]), batch_size):
            samples = joined(keys, [array[start : start + batch_size] for array in parts])
            arrays = parts_of(self._evaluated(samples, start))
            arrays = [np.asarray(arrays[i]) for i in arrange(self.network, keys, "Trainer.predict")]
            self.network.build(*(array.shape[1:] for array in arrays), seed=self.seed)
            results.append(self.network._infer(arrays))
        outputs = zip(*(arrays for _, arrays in results), strict=True)
        return results[0][0].fill(np.concatenate(parts) for parts in outputs)

    def _evaluated(self, samples: Any, start: int) -> Any:
        """Samples transformed as for evaluation."""
        if not self.transforms:
            return samples
        numbers = np.arange(start, start + len(parts_of(samples)[0]))
        draws = [Draws(self.seed, 0, numbers, stream=i, training=False) for i in range(len(self.transforms))]
        return _transforms.apply(self.transforms, samples, None, draws.__getitem__)[0]

    @spelled
    def evaluate(
        self, x: Any, y: Any = None, batch_size: int = EVALUATED, *, sample_weights: Any = None
    ) -> dict[str, float]:
        """Loss and metrics in inference mode; ``x`` and ``y`` as for :meth:`fit`."""
        source = self._source(x, y, sample_weights, "Trainer.evaluate", batch_size=batch_size, seed=None)
        return self._measure(self._evaluation_feed(source, "Trainer.evaluate"))

    def _measure(self, feed: BatchStream) -> dict[str, float]:
        return measure(self.objective, self.metrics, feed)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from .._elsewhere import NAMES

            hint = f" {NAMES[name]}" if name in NAMES else ""
            raise AttributeError(f"Trainer has no attribute {name!r}.{hint}")


def _are_batches(given: Any) -> bool:
    """True for an iterable of batches, as opposed to a pair of arrays."""
    if isinstance(given, tuple) or hasattr(given, "dtype") or isinstance(given, Mapping):
        return False
    if isinstance(given, list):
        return (
            bool(given)
            and all(isinstance(batch, (tuple, list)) and len(batch) in (2, 3) for batch in given)
            and all(hasattr(parts_of(batch[0])[0], "shape") for batch in given)
        )
    return callable(given) or hasattr(given, "__iter__") or isinstance(given, Batches)


# Training on several ranks, which is in a package above this one.


def _communicator(given: Any) -> Any:
    """The ranks that train together; None for a process alone."""
    from ..distributed import Communicator

    return Communicator.of(given)


def _check_shards(trainer: Trainer, feed: BatchStream) -> None:
    """Refuse shards that are too few, or too small."""
    from ..distributed.training_run import check_shards

    check_shards(trainer, feed)


def _distributed_run(*arguments: Any) -> Run:
    """A run on several ranks."""
    from ..distributed.training_run import DistributedRun

    return DistributedRun(*arguments)

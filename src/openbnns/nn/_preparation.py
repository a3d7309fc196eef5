"""Preparation of training and evaluation: sources of batches, and checks that data and losses fit the network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._listing import Listed
from . import transforms as _transforms
from ._outputs import arrange, check_targets, output_keys
from .batch_stream import Feed
from .batches import ArraySource, IterableSource, Source, check_weights
from .callbacks import Best, EarlyStopping
from .data.dataset import Batches, split_rows
from .history import History
from .loss_arguments import listed
from .losses import FunctionLoss, Loss
from .metrics import Metric
from .module import Module
from .nested_arrays import Key, keys_of, label, parts_of
from .recording import recorded_graph
from .run_metrics import check_metrics
from .training_passes import Passes

EVALUATED = 256  # samples at a time


class Preparation(Listed):
    """The preparation of samples, targets and losses for a trainer."""

    network: Module
    loss: Any
    metrics: dict[str, Metric]
    batch_size: int
    read_ahead: int | None
    seed: int
    early_stopping: EarlyStopping | None
    history: History
    transforms: list[_transforms.Function]
    _losses: list[Loss]
    _loss_keys: list[Key]
    _shares: list[float]
    _passes: Passes
    shards: int
    distributed: Any
    _say: Callable[[str], None]

    def _source(self, x: Any, y: Any, weights: Any, who: str, *, batch_size: int, seed: int | None) -> Source:
        """The source of batches, in the order of the data if there is no seed."""
        if y is None:
            if hasattr(x, "dtype") or keys_of(x) != [None]:
                if self._needs_targets:
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
                return IterableSource(x, who, seed=self.seed, say=self._say, targets=self._needs_targets)
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
        if not self._needs_targets and (hasattr(given, "dtype") or isinstance(given, Mapping)):
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
        names = ["loss"] if self._loss_keys == [None] else ["loss", *(f"loss_{label(key)}" for key in self._loss_keys)]
        return Best(stopping, stopping.lower_is_better(self.metrics, validated=validated, losses=names))

    def _note(self, source: Source, tested: Source | None) -> None:
        """Warn if results would mean nothing: one class only, or validation equal to training."""
        if not isinstance(source, ArraySource) or not source.checked or source.rows is not None:
            return
        y = source.y[0] if source.y else np.empty(0)
        if self._losses[0].classes and y.dtype.kind in "iu" and y.size > 1 and (y == y.flat[0]).all():
            self._say(f"All {len(y)} training samples have the same class: there is nothing to tell apart.")
        if not isinstance(tested, ArraySource) or not tested.checked:
            return
        if all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(source.x, tested.x, strict=True)):
            self._say("The validation samples are the training samples, so they do not show how others would fare.")

    def _fit_network(self, feed: Feed, who: str, *, training: bool = False) -> None:
        """Build the network for these samples, and refuse targets that do not fit what it gives for them."""
        inputs = arrange(self.network, feed.x_keys, who)
        self.network.build(*(feed.first.x[i].shape[1:] for i in inputs), seed=self.seed)
        keys = output_keys(self.network)
        if self._joint:
            feed.arrange(inputs, self._joint_targets(feed, keys, who, training))
            return
        if keys != self._loss_keys:
            self._order_losses(keys)
        feed.arrange(inputs, check_targets(feed.y_keys, keys, who))

        def check(batch: Any) -> None:
            for loss, shape, y in zip(self._losses, self._output_shapes(batch.size), batch.y, strict=True):
                loss.check(shape, y)

        feed.require(check)

    @property
    def _joint(self) -> bool:
        """True if one function is the loss of all outputs together."""
        return self._loss_keys == [None] and isinstance(self._losses[0], FunctionLoss)

    @property
    def _needs_targets(self) -> bool:
        return not self._joint or bool(getattr(self._losses[0], "needs_targets", True))

    def _joint_targets(self, feed: Feed, keys: list[Key], who: str, training: bool) -> list[int]:
        """The order of the parts of the targets, which the loss takes in any structure, but always in the same one."""
        if feed.first.weights is not None:
            raise ValueError(
                f"{who}: sample_weights cannot be put into a loss function. Pass them as a part of y, and use them in it."
            )
        used = getattr(self._losses[0], "takes_targets", True) or self.metrics
        if feed.y_keys and not used:
            raise ValueError(
                f"{who}: y is given, but {self._losses[0]!r} takes the outputs alone, and there are no metrics. Leave y out, or "
                "give the function a second argument."
            )
        passes = self._passes
        if training or not self.history:
            passes.expect_targets(feed.y_keys)
        check_metrics(self.metrics, None, keys, passes.target_keys)
        return check_targets(feed.y_keys, passes.target_keys, who, "samples to train on had")

    def _order_losses(self, keys: list[Key]) -> None:
        """Bring the losses into the order of the outputs of the network, or raise an error that says why not."""
        if set(map(str, keys)) != set(map(str, self._loss_keys)) or len(keys) != len(self._loss_keys):
            raise ValueError(
                f"Trainer: the network gives {listed(keys)}, but loss is {self.loss!r}. Pass one loss for each output, "
                f"{'in a dictionary by name' if isinstance(keys[0], str) else 'in a tuple'}."
            )
        order = [self._loss_keys.index(key) for key in keys]
        self._loss_keys, self._losses = keys, [self._losses[i] for i in order]
        self._shares = [self._shares[i] for i in order]
        self._passes = Passes(self.network, self._losses, self._shares, keys)

    def _output_shapes(self, samples: int) -> list[tuple[int, ...]]:
        """The shapes of the outputs for so many samples like those that the network was built with."""
        graph = recorded_graph(self.network)
        assert graph is not None
        sizes = graph.sizes_for(samples)
        return [value.concrete(sizes) for value in graph.outputs]

    def _evaluation_feed(self, source: Source, who: str, trained: Feed | None = None) -> Feed:
        feed = Feed(source, self.transforms, seed=self.seed, training=False, ahead=self.read_ahead)
        if trained is not None and set(feed.shapes) == set(trained.shapes) and feed.shapes != trained.shapes:
            told = [next(iter(f.shapes.values())) if len(f.shapes) == 1 else f.shapes for f in (feed, trained)]
            raise ValueError(
                f"Trainer.fit: validation samples are {told[0]}, training samples {told[1]}. Pass both in the same shape."
            )
        self._fit_network(feed, who)
        return feed


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

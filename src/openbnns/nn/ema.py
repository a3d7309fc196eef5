"""A moving average of the weights of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import RegularizationFunction, SGDMomentumOptimizer
from .._spelling import spelled
from ..graph.parameter import Parameter
from ..graph.tensor import Array
from .module import Module


class EMA:
    """Averages the weights over the steps: average = decay average + (1 - decay) weight, at every ``update()``.

    Averaged weights are often better than the last ones. Only parameters are averaged: running statistics stay as they are.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Linear(1, 1, bias=False).build((1,), seed=0)
    >>> net.weight.data[...] = 0
    >>> ema = nn.EMA(net, decay=0.75)  # the average starts with the weights as they are
    >>> net.weight.data[...] = 8
    >>> ema.update()  # after every step of the optimizer
    >>> with ema.applied():  # evaluate or save
    ...     net.weight.data.item()
    2.0
    >>> net.weight.data.item()
    8.0
    """

    @spelled
    def __init__(self, network: Module, decay: float = 0.999) -> None:
        if not isinstance(network, Module):
            raise TypeError(f"EMA: network must be an openbnns.nn.Module, not {type(network).__name__}.")
        if isinstance(decay, bool) or not isinstance(decay, (int, float)):
            raise TypeError(f"EMA: decay must be a number, not {decay!r}.")
        if not 0.0 <= decay < 1.0:
            raise ValueError(f"EMA: decay is {decay}. It must be at least 0 and below 1, such as 0.999.")
        self.network, self.decay, self.updates = network, float(decay), 0
        # A step of gradient descent on (average - weight)² / 2 is an update: one native call for all parameters.
        self._rule = SGDMomentumOptimizer(
            learning_rate=1.0 - self.decay, gradient_scale=-1.0, regularization_scale=1.0,
            regularization_function=RegularizationFunction.L2,
        )  # fmt: skip
        self._averages: dict[str, tuple[Parameter, Array]] = {}
        self._is_applied = False
        self._begin("EMA")

    def _begin(self, who: str) -> None:
        """Start from the weights of a network that was built by now."""
        parameters = {name: p for name, p in self.network.named_parameters() if p.used}
        if not self._averages:
            self._averages = {name: (p, p.data.copy()) for name, p in parameters.items()}
        elif {name: id(p) for name, p in parameters.items()} != {
            name: id(p) for name, (p, _) in self._averages.items()
        }:
            raise RuntimeError(f"{who}: parameters of the network have been added or replaced. Make a new EMA.")

    def update(self) -> None:
        """Update the averages with the current weights."""
        if self._is_applied:
            raise RuntimeError("EMA.update: the averages are in the network now. Leave the block of applied() first.")
        weights, averages = self._arrays("EMA.update")
        self._rule.step(parameters=averages, gradients=weights)
        self.updates += 1

    def on_step(self, trainer: Any, step: Any) -> None:
        """Update after every step of a trainer: ``fit(..., callbacks=[ema])``. The averages are part of its checkpoints."""
        self.update()

    def _arrays(self, who: str) -> tuple[list[Array], list[Array]]:
        """Weights and averages."""
        self._begin(who)
        if not self._averages:
            raise RuntimeError(f"{who}: the network has no weights yet. Call build(sample_shape) first.")
        return [p.data for p, _ in self._averages.values()], [average for _, average in self._averages.values()]

    @contextmanager
    def applied(self) -> Iterator[Module]:
        """The network with the averages in it, for as long as the block runs."""
        if self._is_applied:
            raise RuntimeError("EMA.applied: the averages are in the network already.")
        weights, averages = self._arrays("EMA.applied")
        aside, self._is_applied = [array.copy() for array in weights], True
        try:
            for array, average in zip(weights, averages, strict=True):
                array[...] = average
            yield self.network
        finally:
            for (parameter, _), own in zip(self._averages.values(), aside, strict=True):
                parameter.data[...] = own
            self._is_applied = False

    def state_dict(self) -> dict[str, Array]:
        """The averages by the names of the parameters, and the number of updates."""
        self._arrays("EMA.state_dict")
        averages = {f"average.{name}": average for name, (_, average) in self._averages.items()}
        return {**averages, "updates": np.array([self.updates])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load such a state; nothing is changed if it does not fit."""
        own = self.state_dict()
        wrong = sorted(set(own) ^ set(state)) + [n for n in own if n in state and own[n].shape != np.shape(state[n])]
        if wrong:
            raise ValueError(f"EMA: the state does not fit the network: {', '.join(wrong)}. It belongs to another one.")
        for name, (_, average) in self._averages.items():
            average[...] = state[f"average.{name}"]
        self.updates = int(state["updates"][0])

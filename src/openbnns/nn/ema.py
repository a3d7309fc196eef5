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

    Averaged weights are often better than the last ones. ``apply()`` puts them into the network and ``restore()`` takes
    them out again; ``with ema.applied():`` does both. Only parameters are averaged: running statistics stay as they are. An
    update is one native call for all parameters.

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
        # A step of gradient descent on (average - weight)² / 2 is an update.
        self._rule = SGDMomentumOptimizer(
            learning_rate=1.0 - self.decay, gradient_scale=-1.0, regularization_scale=1.0,
            regularization_function=RegularizationFunction.L2,
        )  # fmt: skip
        self._parameters: dict[str, Parameter] = {}
        self._averages: dict[str, Array] = {}
        self._aside: list[Array] | None = None  # the weights themselves, while the averages are in their place
        self._take_parameters("EMA")

    def _take_parameters(self, who: str) -> None:
        """Start from the current weights, as soon as there are any."""
        parameters = {name: p for name, p in self.network.named_parameters() if p.used}
        if not self._averages:
            self._parameters = parameters
            self._averages = {name: p.data.copy() for name, p in parameters.items()}
        elif {n: id(p) for n, p in parameters.items()} != {n: id(p) for n, p in self._parameters.items()}:
            raise RuntimeError(
                f"{who}: parameters of the network have been added or replaced, so their average is not known. Make a new EMA."
            )

    def _require_averages(self, who: str) -> None:
        self._take_parameters(who)
        if not self._averages:
            raise RuntimeError(
                f"{who}: the network has no weights yet. Call build(sample_shape), or run one batch, first."
            )

    def update(self) -> None:
        """Update the averages with the current weights."""
        if self._aside is not None:
            raise RuntimeError("EMA.update: the averages are in the network now. Call restore() first.")
        self._require_averages("EMA.update")
        weights = [p.data for p in self._parameters.values()]
        self._rule.step(parameters=list(self._averages.values()), gradients=weights)
        self.updates += 1

    def on_step(self, trainer: Any, step: Any) -> None:
        """Update after every step of a trainer: ``fit(..., callbacks=[ema])``. The averages are part of its checkpoints."""
        self.update()

    def apply(self) -> None:
        """Put the averages into the network; its own weights are kept for ``restore()``."""
        if self._aside is not None:
            raise RuntimeError("EMA.apply: the averages are in the network already. Call restore() first.")
        self._require_averages("EMA.apply")
        self._aside = [p.data.copy() for p in self._parameters.values()]
        for name, parameter in self._parameters.items():
            parameter.data[...] = self._averages[name]

    def restore(self) -> None:
        """Put the weights back that the network had before ``apply()``."""
        if self._aside is None:
            raise RuntimeError("EMA.restore: the averages are not in the network. Call apply() first.")
        for parameter, weights in zip(self._parameters.values(), self._aside, strict=True):
            parameter.data[...] = weights
        self._aside = None

    @contextmanager
    def applied(self) -> Iterator[Module]:
        """The network with the averages in it, for as long as the block runs."""
        self.apply()
        try:
            yield self.network
        finally:
            self.restore()

    def state_dict(self) -> dict[str, Array]:
        """The averages by the names of the parameters, and the number of updates."""
        self._require_averages("EMA.state_dict")
        return {**{f"average.{name}": a for name, a in self._averages.items()}, "updates": np.array([self.updates])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load such a state; nothing is changed if it does not fit."""
        own = self.state_dict()
        given = {name: np.asarray(array) for name, array in state.items()}
        wrong = sorted(set(own) ^ set(given)) + [n for n in own if n in given and own[n].shape != given[n].shape]
        if wrong:
            raise ValueError(f"EMA: the state does not fit the network: {', '.join(wrong)}. It belongs to another one.")
        for name, average in self._averages.items():
            average[...] = given[f"average.{name}"]
        self.updates = int(given["updates"][0])

    def __repr__(self) -> str:
        return f"EMA({type(self.network).__name__}, decay={self.decay:g}, updates={self.updates})"

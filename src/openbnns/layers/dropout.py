"""Dropout layers."""

from __future__ import annotations

from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersDropout
from ..filters.dropout import Dropout
from ._ports import describe_sample, struct_of
from .base import UnaryLayer

__all__ = ["DropoutLayer"]


class DropoutLayer(UnaryLayer):
    """y = x · mask / (1 - rate), the mask being 1 with probability 1 - rate; backward gives dx = dy · mask / (1 - rate).

    Every ``apply`` draws a new mask, and ``apply_backward`` uses the latest one; ``input`` and ``output`` may be left out
    there. Equal seeds give equal masks, on every machine and for any number of threads; seed 0 is a new one each time.
    There is no switch for inference: leave the layer out then.

    ``input`` and ``output`` are shapes, descriptors or arrays, as for :class:`ActivationLayer`; left out, ``output`` is
    like the input. The bits of ``control`` name axes along which one decision is shared: bit 0, 1, 2 those of
    ``size[0]``, ``size[1]``, ``size[2]`` (width, height and channels of an image), bit 3 the batch. ``control=0b0011``
    drops whole planes of an image.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = DropoutLayer(input=np.ones((2, 4), np.float32), rate=0.5, seed=7)
    >>> y = layer.apply(np.ones((2, 4), np.float32))
    >>> sorted(set(y.ravel().tolist()))
    [0.0, 2.0]
    >>> bool((layer.apply_backward(output_gradient=np.ones((2, 4), np.float32)).input == y).all())
    True
    """

    _filter: Dropout

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        rate: float,
        seed: int = 0,
        control: int = 0,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Dropout:
            x = describe_sample(input, f"{who}: input")
            y = x if output is None else describe_sample(output, f"{who}: output")
            parameters = struct_of(
                BNNSLayerParametersDropout, who, i_desc=x, o_desc=y, rate=rate, seed=seed, control=control
            )
            return Dropout(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input, "output": self._filter.output, "rate": rate, "seed": seed or None,
            "control": control or None,
        }  # fmt: skip

    @property
    def draws(self) -> int:
        """Forward calls so far. The next mask follows from the seed and this number, so setting it repeats a mask."""
        return self._filter.draws

    @draws.setter
    def draws(self, number: int) -> None:
        self._filter.draws = number

"""A layer with weights, the normalization behind it and a pooling behind that, as one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ... import FusedParametersLayer, Shape
from ...errors import LayerApplyError
from ...filters.fused_pooling import PooledCalls, pooled_calls
from ...layers import FusedNormalizationParameters, skip
from .._graph import Call, Operation
from .._value import Array
from ._base import IN_PLACE, ActivatedOperation, wanted
from ._window import image_shape
from .normalization import Normalization, phase
from .pooling import Pooling

_SMALL_PLANE = 128  # pixels; normalizations of smaller images have no form that pools


class NormalizedOperation(ActivatedOperation):
    """An operation with weights that takes over a normalization, an activation behind that and a pooling at the end."""

    normalization: Normalization | None = None
    pooling: PooledChain | None = None
    weight: Any
    bias: Any
    layer: Any

    def fuse(self, following: Operation) -> bool:
        if (
            isinstance(following, Normalization)
            and self.normalization is None
            and self.activation.case == "identity"
            and following.takes_whole_samples
            and following.inputs[0].sample == self.output.sample
        ):
            self.normalization = following
            self.parameters = [p for p in (self.weight, self.bias, following.beta, following.gamma) if p is not None]
            return True
        if isinstance(following, Pooling) and self.normalization is not None and self._takes_pooling(following):
            self.pooling = PooledChain(self, following)
            self.keeps_output = False
            return True
        return self.pooling is None and super().fuse(following)

    def _takes_pooling(self, pooling: Pooling) -> bool:
        """The maximum of 2 x 2 pixels side by side, after a batch normalization of images with ReLU or nothing."""
        n = self.normalization
        assert n is not None
        _, height, width = image_shape(pooling.inputs[0].sample)
        return (
            self.pooling is None
            and n.type.case == "batch"
            and self.activation.case in ("identity", "rectified_linear")
            and pooling.inputs[0].sample == self.output.sample
            and min(height, width) >= 2
            and height * width >= _SMALL_PLANE
            and pooling.is_pairs
        )

    def fused_parameters(self) -> Any:
        """The layer in front, as a part of a fused layer."""
        raise NotImplementedError

    def prepare_fused(self, input: Shape, output: Shape) -> None:
        n = self.normalization
        assert n is not None
        self.layer = FusedParametersLayer(
            input=input,
            output=output,
            fused_layer_parameters=[
                self.fused_parameters(),
                FusedNormalizationParameters(
                    type=n.type,
                    beta=None if n.beta is None else n.beta.data.reshape(-1),
                    gamma=None if n.gamma is None else n.gamma.data.reshape(-1),
                    momentum=n.momentum,
                    epsilon=n.epsilon,
                    activation=self.activation,
                ),
            ],
            filter_parameters=IN_PLACE,
        )
        if self.pooling is not None:
            self.pooling.prepare(self.layer)

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        if self.normalization is None:
            return partial(self.layer.apply, x[0], y)
        self.normalization.require_spread(len(x[0]), training)
        if self.pooling is not None:
            return self.pooling.forward(x[0], y, training)
        return partial(self.layer.apply, x[0], y, phase=phase(training))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        result = y if self.keeps_output else None
        if self.normalization is None:
            return partial(self.layer.apply_backward, x[0], result, dy, wanted(dx[0]), *map(wanted, dp))
        if self.pooling is not None:
            return self.pooling.backward(x[0], dy, dx[0], dp)
        return self.unpooled_backward(x, result, dy, dx, dp)

    def unpooled_backward(
        self, x: list[Array], y: Array | None, dy: Array, dx: list[Array | None], dp: list[Array | None]
    ) -> Call:
        """The backward pass of the layer itself, on what it gives before any pooling."""
        assert self.normalization is not None
        given = iter(dp)
        slots = (self.weight, self.bias, self.normalization.beta, self.normalization.gamma)
        gradients = [skip if slot is None else wanted(next(given)) for slot in slots]
        return partial(
            self.layer.apply_backward,
            input=x[0],
            output=y,
            output_gradient=dy,
            generating_input_gradient=wanted(dx[0]),
            generating_parameter_gradients=gradients,
        )


class PooledChain:
    """An operation with a normalization, and the pooling behind it.

    One plan runs both and never has the unpooled images in memory. Where it cannot, on the reference engine, the two
    layers run one after the other, with images of their own.
    """

    calls: PooledCalls | None = None

    def __init__(self, operation: NormalizedOperation, pooling: Pooling) -> None:
        self.operation, self.pooling = operation, pooling
        self._images: list[Array] = []  # the unpooled ones and their gradients, if the layers run by themselves

    @property
    def unpooled_shape(self) -> tuple[int, ...]:
        return self.pooling.inputs[0].sample

    def prepare(self, layer: Any) -> None:
        self.pooling.prepare()
        self.calls = pooled_calls(layer.bnns_filter)

    def forward(self, x: Array, y: Array, training: bool) -> Call:
        return partial(self._run, len(y), x, y, training)

    def _run(self, batch: int, x: Array, y: Array, training: bool) -> None:
        if self.calls is not None:
            if (self.calls.training if training else self.calls.inference)(batch, x, y) == 0:
                return
            if training:
                self.calls.plan.forget()  # it is not what the backward pass goes back from
        z, _ = self._unpooled(batch, x.dtype)
        self.operation.layer.apply(x, z, phase=phase(training))
        self.pooling.layer.apply(z, y)

    def backward(self, x: Array, dy: Array, dx: Array | None, dp: list[Array | None]) -> Call:
        return partial(self._run_backward, len(dy), x, dy, dx, dp)

    def _run_backward(self, batch: int, x: Array, dy: Array, dx: Array | None, dp: list[Array | None]) -> None:
        if self.calls is not None:
            if self.calls.backward(batch, x, dy, dx, *dp) == 0:
                return
            if self.calls.plan.trained_batch() > 0:
                raise LayerApplyError(
                    f"{type(self.operation).__name__}, normalization and pooling as one: the latest training forward was of "
                    f"another batch, or on another engine, than this backward call of {batch} samples. Run both on the same "
                    "batch and engine."
                )
        z, dz = self._unpooled(batch, x.dtype)
        self.pooling.layer.apply_backward(z, None, dy, dz)
        self.operation.unpooled_backward([x], z, dz, [dx], dp)()

    def _unpooled(self, batch: int, kind: np.dtype[Any]) -> list[Array]:
        if not self._images or len(self._images[0]) != batch:
            self._images = [np.empty((batch, *self.unpooled_shape), kind) for _ in range(2)]
        return self._images

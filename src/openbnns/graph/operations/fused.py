"""A layer with weights fused with the normalization and the pooling that follow it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ... import FusedParametersLayer, Shape
from ...filters.base import DB, DW, DX, DY, X, Y
from ...filters.fused import BOUNDARY, BOUNDARY_GRADIENT, DBETA, DGAMMA
from ...layers import FusedNormalizationParameters, skip
from ..calls import Call, Calls, NumpyCall, PlanCall, in_turn
from ..operation import Operation
from ..parameter import Parameter
from ..sizes import is_plain, is_same_shape, number_of
from ..tensor import Array, Tensor
from .activation import ActivatedOperation
from .base import IN_PLACE, Sizes, wanted
from .keeping_plan import CHEAP, KeepingPlan
from .normalization import Normalization, phase
from .pooling import Pooling
from .window import image_shape

_SMALL_PLANE = 128  # pixels; normalizations of smaller images have no form that pools
_PARAMETER_GRADIENTS = (DW, DB, DBETA, DGAMMA)


class MadeLayer(NamedTuple):
    """A layer for certain sizes; with a normalization, its plan on memory of the network as well."""

    layer: Any
    plan: KeepingPlan | None = None


class NormalizedOperation(ActivatedOperation):
    """An operation with weights, fused with a normalization, an activation after it and a pooling at the end.

    With a normalization, what lies between the two is kept, and a result that is cheap is computed again where it is needed.

    ``weight`` and ``bias`` are parameters, or with ``computed`` values: inputs behind the first, which the layer reads where they
    lie. Those of a program are its own, and so are the layers on them.
    """

    normalization: Normalization | None = None
    pooling: PooledChain | None = None
    weight: Any
    bias: Any
    output_axis = 0  # the axis of the weights that counts outputs

    @property
    def computed(self) -> bool:
        return isinstance(self.weight, Tensor)

    def make(self, x: Sizes, y: Sizes, weights: Array, bias: Array | None) -> MadeLayer:
        """The layer from arrays of one shape to those of another."""
        raise NotImplementedError

    def layer_for(self, x: list[Array], y: Array) -> MadeLayer:
        """The layer for these arrays, whose first axis counts samples."""
        samples = x[0].shape[1:], y.shape[1:]
        if self.computed:
            return self.make(x[0].shape, y.shape, x[1], x[2] if len(x) > 2 else None)
        made: MadeLayer = self.made(samples, lambda: self.make(x[0].shape, y.shape, *self.folded()))
        return made

    def fuse(self, following: Operation) -> bool:
        if (
            isinstance(following, Normalization)
            and not self.computed
            and not following.computed
            and self.normalization is None
            and self.activation.case == "identity"
            and following.takes_whole_samples
            and is_same_shape(following.inputs[0].shape, self.output.shape)
        ):
            self.normalization, self.trains = following, following.trains  # only the mode of the normalization matters
            own = (self.weight, self.bias, *following.parameters)
            self.parameters = [p for p in own if isinstance(p, Parameter)]
            self.repeatable = True
            return True
        if isinstance(following, Pooling) and self.normalization is not None and self._takes_pooling(following):
            self.pooling = PooledChain(self, following)
            self.repeatable = self.keeps_output = False
            return True
        if self.pooling is not None or not super().fuse(following):
            return False
        cheap = self.normalization is not None and self.activation.case in CHEAP
        self.keeps_output, self.repeatable = not cheap, cheap
        return True

    def _takes_pooling(self, pooling: Pooling) -> bool:
        """The maximum of 2 x 2 pixels side by side, after a batch normalization of images with ReLU or nothing."""
        n = self.normalization
        assert n is not None
        _, height, width = map(number_of, image_shape(pooling.inputs[0].shape[1:]))
        return (
            self.pooling is None
            and not self.folds
            and n.type.case == "batch"
            and self.activation.case in ("identity", "rectified_linear")
            and is_same_shape(pooling.inputs[0].shape, self.output.shape)
            and is_plain(self.output.shape[1:])
            and min(height, width) >= 2
            and height * width >= _SMALL_PLANE
            and pooling.is_pairs
        )

    @property
    def folds(self) -> bool:
        """True if the normalization is folded into the weights: with fixed statistics it is a factor and a summand."""
        n = self.normalization
        return self.output.graph.frozen and n is not None and n.type.case == "batch" and n.type.moving_mean is not None

    def folded(self) -> tuple[Array, Array | None]:
        """Weights and bias; with the normalization in them if it is to be."""
        weight, bias = self.weight.array, None if self.bias is None else self.bias.array
        if not self.folds:
            return weight, bias
        n = self.normalization
        assert n is not None
        mean, variance = (np.asarray(a, np.float64).reshape(-1) for a in (n.type.moving_mean, n.type.moving_variance))
        factor = 1 / np.sqrt(variance + n.epsilon)
        if n.gamma is not None:
            factor *= n.gamma.array.reshape(-1)
        shift = (-mean if bias is None else bias - mean) * factor
        if n.beta is not None:
            shift += n.beta.array.reshape(-1)
        spread = factor.reshape(-1, *(1,) * (weight.ndim - 1 - self.output_axis))
        return (weight * spread).astype(weight.dtype), shift.astype(weight.dtype)

    def fused_parameters(self) -> Any:
        """The layer in front, as a part of a fused layer."""
        raise NotImplementedError

    def make_fused(self, input: Shape, output: Shape) -> MadeLayer:
        n = self.normalization
        assert n is not None
        layer = FusedParametersLayer(
            input=input,
            output=output,
            fused_layer_parameters=[
                self.fused_parameters(),
                FusedNormalizationParameters(
                    type=n.type,
                    beta=None if n.beta is None else n.beta.array.reshape(-1),
                    gamma=None if n.gamma is None else n.gamma.array.reshape(-1),
                    momentum=n.momentum,
                    epsilon=n.epsilon,
                    activation=self.activation,
                ),
            ],
            filter_parameters=IN_PLACE,
        )
        own = [*(p.array for p in self.parameters), n.type.moving_mean, n.type.moving_variance]
        pooled = self.pooling is not None
        parts = f"normalization{' and pooling' * pooled} as one"
        return MadeLayer(layer, KeepingPlan(f"{type(self).__name__}, {parts}", layer, own, BOUNDARY, pooled=pooled))

    def kept_size(self, sizes: Mapping[str, int]) -> int:
        return 0 if self.normalization is None else self._boundary_size(sizes)

    def scratch_size(self, sizes: Mapping[str, int], backward: bool) -> int:
        return self._boundary_size(sizes) if backward and self.normalization is not None else 0

    def _boundary_size(self, sizes: Mapping[str, int]) -> int:
        """The numbers that the layer in front gives."""
        pooling = self.pooling
        return math.prod(self.output.concrete(sizes) if pooling is None else pooling.unpooled_shape(sizes))

    def reads_where_told(self) -> bool:
        return True

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        made = self.layer_for(x, y)
        if self.normalization is None or self.folds:
            call = PlanCall(made.layer.apply, x[0], y)
            # A native list may keep what it makes of weights as long as no parameter changes.
            weights = self.weight.storage if self.computed else None
            lasting = weights is None or weights.leaf is not None or weights in self.settled
            return call if lasting else NumpyCall(call)
        self.normalization.bound_sizes = self.bound_sizes
        self.normalization.require_spread(len(x[0]), training)
        pooling, apply = self.pooling, PlanCall(made.layer.apply, x[0], y, phase=phase(training))
        if pooling is None and not training:
            return apply

        if pooling is None:
            by_layer: Callable[[], Call] = lambda: apply  # noqa: E731
        else:
            pooling.images = []
            by_layer = partial(pooling.forward_by_layers, made.layer, pooling.images, x[0], y, training)

        tensors = {X: x[0], Y: y, BOUNDARY: self.kept.reshape(len(y), -1) if training else None}
        assert made.plan is not None
        return made.plan.forward(tensors, by_layer, training)

    def repeat(self, x: list[Array], y: Array) -> Calls:
        plan = self.layer_for(x, y).plan
        assert plan is not None
        return plan.repeat({Y: y, BOUNDARY: self.kept.reshape(len(y), -1)})

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Calls:
        made = self.layer_for(x, dy)
        if self.computed:
            dp = dx[1:]
        if self.normalization is None:
            result = y if self.keeps_output else None
            return PlanCall(made.layer.apply_backward, x[0], result, dy, wanted(dx[0]), *map(wanted, dp))
        gradients = self._by_slot(dp)
        tensors = {X: x[0], Y: y if self.keeps_output else None, DY: dy, DX: dx[0]}
        tensors |= dict(zip(_PARAMETER_GRADIENTS, gradients, strict=True))
        tensors |= {BOUNDARY: self.kept.reshape(len(dy), -1), BOUNDARY_GRADIENT: self.scratch.reshape(len(dy), -1)}
        chain: Callable[..., Call] = partial(self.backward_by_layer, made.layer)
        if self.pooling is not None:
            chain = partial(self.pooling.backward_by_layers, made.layer, self.pooling.images)
        by_layer = partial(chain, x[0], dy, dx[0], gradients)
        assert made.plan is not None
        return made.plan.backward(tensors, _PARAMETER_GRADIENTS, by_layer)

    def _by_slot(self, dp: Sequence[Array | None]) -> list[Array | None]:
        """The gradients of weights, bias, beta and gamma; None for those that the layer lacks."""
        assert self.normalization is not None
        given = iter(dp)
        slots = (self.weight, self.bias, self.normalization.beta, self.normalization.gamma)
        return [None if slot is None else next(given) for slot in slots]

    def backward_by_layer(
        self, layer: Any, x: Array, dy: Array, dx: Array | None, gradients: list[Array | None], y: Array
    ) -> Call:
        """The backward pass of the layer by itself, from what it gave before any pooling."""
        return PlanCall(
            layer.apply_backward,
            input=x,
            output=y,
            output_gradient=dy,
            generating_input_gradient=wanted(dx),
            generating_parameter_gradients=[skip if gradient is None else gradient for gradient in gradients],
        )


class PooledChain:
    """An operation with a normalization, and the pooling behind it.

    One plan runs both and never has the unpooled images in memory. Where it cannot, on the reference engine, the two
    layers run one after the other, with images of their own.
    """

    def __init__(self, operation: NormalizedOperation, pooling: Pooling) -> None:
        self.operation, self.pooling = operation, pooling
        # Belong to the program being made: the unpooled images and their gradients, if there are any.
        self.images: list[Array] = []

    def unpooled_shape(self, sizes: Mapping[str, int]) -> Sizes:
        return self.pooling.inputs[0].concrete(sizes)

    def forward_by_layers(self, layer: Any, images: list[Array], x: Array, y: Array, training: bool) -> Call:
        z, _ = self._unpooled(images, len(y), x.dtype)
        normalize = PlanCall(layer.apply, x, z, phase=phase(training))
        return NumpyCall(in_turn, [normalize, PlanCall(self.pooling.layer_for(z, y).apply, z, y)])

    def backward_by_layers(
        self,
        layer: Any,
        images: list[Array],
        x: Array,
        dy: Array,
        dx: Array | None,
        gradients: list[Array | None],
        y: Array,
    ) -> Call:
        z, dz = self._unpooled(images, len(dy), x.dtype)
        spread = PlanCall(self.pooling.layer_for(z, dy).apply_backward, z, None, dy, dz)
        return NumpyCall(in_turn, [spread, self.operation.backward_by_layer(layer, x, dz, dx, gradients, z)])

    def _unpooled(self, images: list[Array], batch: int, kind: np.dtype[Any]) -> list[Array]:
        if not images:
            sample = map(number_of, self.pooling.inputs[0].shape[1:])
            shape = (batch, *sample)
            images += [np.empty(shape, kind) for _ in range(2)]
        return images

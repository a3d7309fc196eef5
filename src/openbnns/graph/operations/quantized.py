"""Operations on unsigned bytes with a scale and a zero point, in place of those on float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ... import ActivationFunction, ConvolutionLayer, FullyConnectedLayer, Shape, engines
from ...abi.enums import BNNSDataType
from ...abi.structs import BNNSNDArrayDescriptor
from ...tensors.stored import native_uint8
from ..calls import Calls, NumpyCall, PlanCall
from ..operation import Operation
from ..tensor import FLOAT32, Array, Tensor
from .activation import IDENTITY
from .convolution import Convolution
from .node import Node
from .pooling import Pooling
from .products import Linear, MatrixProduct
from .window import as_images, image_shape

UINT8: np.dtype[Any] = np.dtype(np.uint8)
_STEPS = 255  # between the least and the largest byte
_LARGEST_WEIGHT = 127
_SCALE_BITS = 16  # of scales: their products with bytes are exact in float32


@dataclass(frozen=True)
class Scaling:
    """The numbers that bytes stand for: ``scale * (byte - zero_point)``.

    The scale has 16 bits, so that 0 and all other bytes stand for numbers of float32 exactly.
    """

    scale: float
    zero_point: int

    @classmethod
    def of(cls, low: float, high: float) -> Scaling:
        """The bytes for numbers from ``low`` to ``high``, and for 0.

        >>> from openbnns.graph.operations.quantized import Scaling
        >>> Scaling.of(-1.0, 3.0).zero_point, Scaling.of(0.0, 255.0)
        (64, Scaling(scale=1.0, zero_point=0))
        """
        low, high = min(low, 0.0), max(high, 0.0)
        fraction, exponent = math.frexp(max((high - low) / _STEPS, 1e-30))
        scale = math.ldexp(math.ceil(math.ldexp(fraction, _SCALE_BITS)), exponent - _SCALE_BITS)
        return cls(scale, int(np.clip(np.rint(-low / scale), 0, _STEPS)))

    @property
    def bias(self) -> float:
        """The number that byte 0 stands for."""
        return -self.scale * self.zero_point

    def described(self, shape: Shape) -> BNNSNDArrayDescriptor:
        """The descriptor of such bytes."""
        descriptor = shape.descriptor(BNNSDataType.BNNSDataTypeUInt8)
        descriptor.data_scale, descriptor.data_bias = self.scale, self.bias
        return descriptor

    def encode(self, values: Array) -> Array:
        """Bytes for numbers, to the nearest, ties to even; 0 for NaN."""
        with np.errstate(invalid="ignore"):
            steps = np.rint((values.astype(np.float64) - self.bias) / self.scale)
        stored: Array = np.clip(np.nan_to_num(steps), 0, _STEPS).astype(np.uint8)
        return stored

    def decode(self, stored: Array) -> Array:
        """Numbers for bytes."""
        return (self.scale * stored.astype(np.float64) + self.bias).astype(np.float32)


def quantized_weights(weights: Array) -> tuple[Array, Array]:
    """Weights as int8, and a scale for each index of the first axis: the largest number of it becomes 127 or -127."""
    rows = np.abs(weights.reshape(len(weights), -1))
    scales = (rows.max(1, initial=0) / np.float32(_LARGEST_WEIGHT)).astype(np.float32)
    scales[scales < np.finfo(np.float32).tiny] = 1
    shaped = scales.reshape(-1, *(1,) * (weights.ndim - 1)).astype(np.float64)
    return np.clip(np.rint(weights / shaped), -_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int8), scales


class ToBytes(Operation):
    """Float32 as bytes."""

    is_pure = True

    def __init__(self, x: Tensor, scaling: Scaling) -> None:
        self.scaling = scaling
        super().__init__([x], Tensor(x.graph, x.shape, UINT8))

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return _converting(y, x[0], self.scaling)


class FromBytes(Operation):
    """Bytes as float32, in ``y``."""

    is_pure = True

    def __init__(self, x: Tensor, scaling: Scaling, y: Tensor) -> None:
        self.scaling = scaling
        super().__init__([x], y)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        return _converting(y, x[0], self.scaling)


def _converting(target: Array, source: Array, scaling: Scaling) -> Calls:
    if engines._core is not None and source.flags.c_contiguous:
        return PlanCall(engines._core.convert_array, target, source, native_uint8(scaling.scale, scaling.bias))
    convert = scaling.encode if target.dtype == UINT8 else scaling.decode

    def call() -> None:
        target[...] = convert(source)

    return NumpyCall(call)


class QuantizedOperation(Operation):
    """Products of bytes and int8 weights, with a scale for each output, to bytes or float32.

    Weights of int8 are taken as they are, others are rounded to such. Sums are exact. Bias, activation and the scaling of the
    result follow in the same pass. Of bytes whose least stands for 0, ReLU is what saturation does anyway.
    """

    def __init__(
        self, x: Tensor, scaling: Scaling, y: Tensor, result: Scaling | None, weights: Array, bias: Array | None,
        activation: ActivationFunction,
    ) -> None:  # fmt: skip
        if weights.dtype == np.int8:
            self.weights, self.weights_scales = weights, np.ones(len(weights), FLOAT32)
        else:
            self.weights, self.weights_scales = quantized_weights(weights)
        self.bias = None if bias is None else bias.copy()
        self.scaling, self.result = scaling, result  # of the input, and of the output unless it is float32
        saturates = result is not None and result.zero_point == 0 and activation.case in ("rectified_linear", "relu6")
        self.activation = IDENTITY if saturates else activation
        super().__init__([x], y)

    def _result(self, shape: Shape) -> BNNSNDArrayDescriptor:
        return shape.descriptor() if self.result is None else self.result.described(shape)


class QuantizedLinear(QuantizedOperation):
    """A fully connected layer, or a product with a constant matrix."""

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        outputs, inputs = self.weights.shape
        layer = self.made((), self._make)
        return PlanCall(layer.apply, x[0].reshape(-1, inputs), y.reshape(-1, outputs))

    def _make(self) -> FullyConnectedLayer:
        outputs, inputs = self.weights.shape
        return FullyConnectedLayer(
            input=self.scaling.described(Shape.vector(inputs)), output=self._result(Shape.vector(outputs)),
            weights=self.weights, weights_scales=self.weights_scales, bias=self.bias, activation=self.activation,
        )  # fmt: skip


class QuantizedConvolution(QuantizedOperation):
    """A convolution; ``options`` are those of its layer."""

    def __init__(self, *given: Any, options: dict[str, Any]) -> None:
        self.options = options
        super().__init__(*given)
        if self.weights.ndim == 3:
            self.weights = self.weights[:, :, None, :]

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        images, results = as_images(x[0]), as_images(y)
        sizes = images.shape[1:], results.shape[1:]
        return PlanCall(self.made(sizes, lambda: self._make(*sizes)).apply, images, results)

    def _make(self, x: tuple[int, ...], y: tuple[int, ...]) -> ConvolutionLayer:
        return ConvolutionLayer(
            input=self.scaling.described(Shape.image_chw(*x[::-1])), output=self._result(Shape.image_chw(*y[::-1])),
            weights=self.weights, weights_scales=self.weights_scales, bias=self.bias, activation=self.activation,
            **self.options,
        )  # fmt: skip


class SumOfBytes(Operation):
    """a + b, with ReLU if the result has zero point 0; scales of operands in units of the result's are rounded to 16 bits."""

    def __init__(self, a: Tensor, b: Tensor, scalings: tuple[Scaling, Scaling], y: Tensor, result: Scaling) -> None:
        self.factors = [_rounded(s.scale / result.scale) for s in scalings]
        zero_points = sum(factor * s.zero_point for factor, s in zip(self.factors, scalings, strict=True))
        self.term = float(np.float32(result.zero_point - zero_points))
        super().__init__([a, b], y)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        if engines._core is not None:
            return PlanCall(engines._core.add_bytes, y, *x, *self.factors, self.term)
        return NumpyCall(self._add, x, y)

    def _add(self, x: list[Array], y: Array) -> None:
        a, b = (np.float32(f) * operand.astype(np.float32) for f, operand in zip(self.factors, x, strict=True))
        y[...] = np.clip(np.rint(b + (a + np.float32(self.term))), 0, _STEPS)


def _rounded(factor: float) -> float:
    fraction, exponent = math.frexp(factor)
    return math.ldexp(round(math.ldexp(fraction, _SCALE_BITS)), exponent - _SCALE_BITS)


class PoolingOfBytes(Operation):
    """The largest of each window, on bytes."""

    def __init__(self, x: Tensor, y: Tensor, pooling: Pooling) -> None:
        self.window = pooling.window
        super().__init__([x], y)

    def forward(self, x: list[Array], y: Array, training: bool) -> Calls:
        (n, c, height, width), results = as_images(x[0]).shape, as_images(y).shape
        (kernel_x, kernel_y), (stride_x, stride_y) = self.window.kernel_size, self.window.strides
        up, left = (
            edges[0] for edges in (((0, 0), *self.window.edges) if len(self.window.edges) == 1 else self.window.edges)
        )
        sizes = [n * c, height, width, *results[2:], kernel_y, kernel_x, stride_y, stride_x, up, left]
        if engines._core is not None:
            return PlanCall(engines._core.pool_bytes, y, x[0], sizes)
        return NumpyCall(_pool, as_images(y), as_images(x[0]), sizes)


def _pool(y: Array, x: Array, sizes: list[int]) -> None:
    _, height, width, rows, columns, kernel_y, kernel_x, stride_y, stride_x, up, left = sizes
    down, right = ((n - 1) * s + k for n, s, k in ((rows, stride_y, kernel_y), (columns, stride_x, kernel_x)))
    padded = np.zeros((*x.shape[:2], max(down, up + height), max(right, left + width)), np.uint8)
    padded[:, :, up : up + height, left : left + width] = x
    y[...] = 0
    for ky in range(kernel_y):
        for kx in range(kernel_x):
            part = padded[
                :, :, ky : ky + (rows - 1) * stride_y + 1 : stride_y, kx : kx + (columns - 1) * stride_x + 1 : stride_x
            ]
            np.maximum(y, part, out=y)


def weights_of(operation: Operation) -> tuple[Array, Array | None] | None:
    """Weights, outputs first, and bias of an operation that bytes can take the place of; None of any other."""
    if isinstance(operation, MatrixProduct):
        a, b = operation.inputs
        leaf = b.storage.leaf
        array = leaf if isinstance(leaf, np.ndarray) else getattr(leaf, "array", None)
        if operation.transposed[0] or a.dtype != FLOAT32 or array is None or b.ndim != 2 or a.ndim < 2:
            return None
        matrix = array.reshape(cast(tuple[int, ...], b.shape))
        weights = matrix if operation.transposed[1] else matrix.T
        return np.ascontiguousarray(weights * np.float32(operation.alpha)), None
    if not isinstance(operation, (Linear, Convolution)) or operation.computed or operation.pooling is not None:
        return None
    if operation.normalization is not None and not operation.folds:
        return None
    if isinstance(operation, Convolution) and operation.output_axis != 0:
        return None
    weights, bias = operation.folded()
    return weights, bias


def is_sum(operation: Operation) -> bool:
    """True for a + b of tensors of one shape, alone or with ReLU behind it."""
    return (
        isinstance(operation, Node)
        and operation.name == "add"
        and operation.activation.case in ("identity", "rectified_linear")
        and all(x.dtype == FLOAT32 and x.shape == operation.output.shape for x in operation.inputs)
    )


def is_largest(operation: Operation) -> bool:
    """True for the largest of windows, without dilation and none outside the image."""
    if not isinstance(operation, Pooling) or operation.case != "max":
        return False
    window = operation.window
    if any(d != 1 for d in window.dilation) or any(
        max(e) >= k for e, k in zip(window.edges, window.kernel, strict=True)
    ):
        return False
    sizes = [*zip(operation.inputs[0].shape[2:], operation.output.shape[2:], strict=True)]
    return all(
        isinstance(n, int) and isinstance(m, int) and (m - 1) * s - e[0] < n
        for (n, m), s, e in zip(sizes, window.stride, window.edges, strict=True)
    )


__all__ = [
    "FromBytes", "PoolingOfBytes", "QuantizedConvolution", "QuantizedLinear", "QuantizedOperation", "Scaling", "SumOfBytes",
    "ToBytes", "image_shape", "is_largest", "is_sum", "quantized_weights", "weights_of",
]  # fmt: skip

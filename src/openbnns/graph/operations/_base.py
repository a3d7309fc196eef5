"""The base of operations on layers with parameters, and calls that copy, clear and add arrays."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from ... import ActivationFunction, ArithmeticBinaryFunction, BinaryArithmeticLayer, Shape, engines
from ...capi import BNNSFilterParameters, BNNSFlagsUseClientPtr
from ...layers import skip
from ..calls import Call, NumpyCall, PlanCall
from ..operation import Operation
from ..sizes import is_same_shape
from ..tensor import Array

IN_PLACE = BNNSFilterParameters(flags=BNNSFlagsUseClientPtr)
"""Layers read the parameters where training changes them."""

IDENTITY = ActivationFunction.identity()

# Elementwise functions whose derivative follows from their result, so that a layer in front can take them over.
FUSABLE = {
    "rectified_linear", "leaky_rectified_linear", "sigmoid", "log_sigmoid", "tanh", "linear", "linear_with_bias", "clamp",
    "hard_sigmoid", "softplus", "softsign", "elu", "selu", "celu", "hard_shrink", "soft_shrink", "relu6",
}  # fmt: skip


def can_fuse(function: ActivationFunction) -> bool:
    """True if a function may be fused into the layer before it in training."""
    if function.case in ("leaky_rectified_linear", "elu", "celu"):
        return function.alpha > 0
    return function.case in FUSABLE


def draw_number(seed: int, step: int, index: int) -> int:
    """The number of the random draw that operation ``index`` of a network makes at a step."""
    return (zlib.crc32(f"{seed} {index}".encode()) << 31) + step


def wanted(gradient: Array | None) -> Any:
    """A gradient argument of a layer: the array to write, or ``skip``."""
    return skip if gradient is None else gradient


def copying(target: Array, source: Array) -> Call:
    """A call that copies one array into another, which must not overlap."""
    same = target.shape == source.shape and target.dtype == source.dtype
    if same and source.flags.aligned and engines._core is not None:
        return PlanCall(engines._core.copy_array, target, source)
    return NumpyCall(np.copyto, target, source)


def clearing(target: Array) -> Call:
    """A call that sets an array to zero."""
    return copying(target, np.broadcast_to(np.zeros(1, target.dtype), target.shape))


def adding(target: Array, a: Array, b: Array) -> Call:
    """A call that stores the sum of two arrays of the same size; ``target`` may be one of them."""
    layer = BinaryArithmeticLayer(
        function=ArithmeticBinaryFunction.ADD, input_a=(n := Shape.vector(target.size)), input_b=n, output=n
    )
    return PlanCall(layer.apply, a.reshape(1, -1), b.reshape(1, -1), target.reshape(1, -1))


def rows(array: Array | None, width: int) -> Any:
    """The array as (rows, width), on the same memory; ``skip`` for none."""
    return skip if array is None else array.reshape(-1, width)


class ActivatedOperation(Operation):
    """An operation whose layer can end in an activation."""

    activation = IDENTITY

    def fuse(self, following: Operation) -> bool:
        from .activation import Activation

        if (
            isinstance(following, Activation)
            and self.activation is IDENTITY
            and can_fuse(following.function)
            and is_same_shape(following.inputs[0].shape, self.output.shape)
        ):
            self.activation = following.function
            self.keeps_output = True
            return True
        return False

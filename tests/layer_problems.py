"""Small layers of the Python face, and comparison of their results."""

from typing import Any

import numpy as np

import openbnns as ob
from helpers import numbers
from openbnns.capi import (
    BNNSNDArrayDescriptor,
)

Array = np.ndarray[Any, Any]


def close(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    assert got.shape == np.shape(wanted)
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def dense(inputs: int = 6, outputs: int = 4, **options: Any) -> tuple[ob.FullyConnectedLayer, Array, Array]:
    w, b = numbers(outputs, inputs), numbers(outputs, seed=1)
    return ob.FullyConnectedLayer(weights=w, bias=b, **options), w, b


def image_layer(**options: Any) -> ob.ConvolutionLayer:
    arguments = {"input": ob.Shape.image_chw(8, 8, 3), "weights": numbers(4, 3, 3, 3)} | options
    return ob.ConvolutionLayer(**arguments)


def described(shape: ob.Shape, data: Any, **options: Any) -> BNNSNDArrayDescriptor:
    descriptor = shape.descriptor(data=data)
    for name, value in options.items():
        setattr(descriptor, name, value)
    return descriptor

"""Helpers of tests of layers on Float16, BFloat16 and bytes: element types, random elements, no conversion in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from helpers import BFLOAT16, FLOAT16, FLOAT32, INT8, INT32, UINT8, Array, Tensor
from openbnns.tensors import staging

HALVES = {"Float16": FLOAT16, "BFloat16": BFLOAT16}

# input, weights, bias (or none), output
FLOATS = (
    (FLOAT16, FLOAT16, FLOAT16, FLOAT16),
    (BFLOAT16, BFLOAT16, BFLOAT16, BFLOAT16),
    (FLOAT16, FLOAT16, None, FLOAT32),
    (FLOAT32, BFLOAT16, FLOAT32, FLOAT32),
    (FLOAT32, FLOAT32, None, FLOAT16),
    (BFLOAT16, FLOAT16, FLOAT32, FLOAT32),
    (FLOAT32, INT8, FLOAT32, FLOAT32),
    (UINT8, FLOAT16, INT32, BFLOAT16),
)
BYTES = ((INT8, INT8), (UINT8, INT8), (INT8, UINT8), (UINT8, UINT8))


def stored(rng: np.random.Generator, tensor: Tensor, *shape: int) -> Array:
    """Random stored elements, integers of the whole range among them."""
    if tensor.is_integer:
        limits = np.iinfo(tensor.dtype)
        low, high = max(limits.min, -9999), min(limits.max, 9999)
        elements = rng.integers(low, high, shape, endpoint=True).astype(tensor.dtype)
        elements.flat[:1] = low
        return elements
    return tensor.encode(rng.standard_normal(shape).astype(np.float32))


@contextmanager
def nothing_converted_in_python(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a tensor was converted in Python")

    with monkeypatch.context() as patched:
        patched.setattr(staging, "decode", refuse)
        patched.setattr(staging, "encode", refuse)
        yield


def names(types: Any) -> str:
    return "-".join("none" if t is None else t.name.removeprefix("BNNSDataType") for t in types)

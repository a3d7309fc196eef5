"""Forward results of the native engine against the reference engine, for every case and at the edges of number ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import activation, arithmetic, convolution, fully_connected, legacy, transposed_convolution
from cases._base import Act, Case, UnaryCase, created, native, parameters, reference, succeed
from helpers import (
    BFLOAT16, EPSILON, FLOAT16, FLOAT32, IMAGE, INT8, INT16, INT32, UINT8, Storage, Tensor, assert_bitwise, assert_within,
    image, packed, vector,
)  # fmt: skip

import openbnns
from openbnns import capi

ALL = [
    *fully_connected.CASES, *convolution.CASES, *transposed_convolution.CASES, *activation.CASES, *arithmetic.CASES,
    *legacy.CASES,
]  # fmt: skip


def assert_trustworthy(case: Case, name: str, expected: np.ndarray[Any, Any]) -> None:
    """A comparison of zeros with zeros proves nothing: most results must differ from 0, or the case must say why not."""
    zeros = float(np.mean(expected == 0))
    if name not in case.mostly_zero:
        assert zeros <= 0.75, f"{case.id}: {zeros:.0%} of {name} is zero; choose better values or list it in mostly_zero"


@pytest.mark.parametrize("case", parameters(ALL, "forward_rows"))
def test_forward(case: Any) -> None:
    ours, theirs = native(case), reference(case)
    y, expected = case.y.decode(ours.y), case.y.decode(theirs.y)
    assert_trustworthy(case, "y", expected)
    assert_within(y, expected, case.forward_bound(ours.values, expected), f"{case.id}: y")
    if case.y.data_type != FLOAT32:  # one step of a coarse type is allowed for values near a tie, which are few
        assert np.mean(ours.y != theirs.y) <= 0.03


def test_ids_are_unique() -> None:
    ids = [case.id for case in ALL]
    assert len(ids) == len(set(ids))


def _canonical(case: UnaryCase) -> UnaryCase:
    """The same problem in packed tensors, with the kernel stored straight."""
    w = case.w
    if w is not None and w.layout.name.startswith("BNNSDataLayoutConvolutionWeights"):
        w = Tensor(helpers_oihw(), convolution.kernel_tensor(helpers_oihw(), *channels(case), case.kernel).size)  # type: ignore[attr-defined]
    return replace(case, x=packed(case.x), y=packed(case.y), w=w, gap=0, packed_deltas=False)

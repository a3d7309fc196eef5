"""Rows of a few elements: softmax takes many of them at a time, and copies have no call for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import ActivationFunction, ActivationLayer, Shape, engines

Array = np.ndarray[Any, Any]


def softmax(x: Array, logarithm: bool) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = x.astype(np.float64) - x.max(-1, keepdims=True)
        total = np.exp(shifted).sum(-1, keepdims=True)
        return shifted - np.log(total) if logarithm else np.exp(shifted) / total


@pytest.mark.parametrize("length", range(1, 10))
@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax_of_short_rows(length: int, logarithm: bool) -> None:
    random = np.random.default_rng(length)
    function = ActivationFunction.log_softmax() if logarithm else ActivationFunction.softmax()
    layer = ActivationLayer(function=function, input=Shape((length,)))
    for rows in (1, 5, 16, 37, 9001):
        x = (4 * random.standard_normal((rows, length))).astype(np.float32)
        x[:: rows // 3 + 2, 0] = -np.inf
        x[rows // 2, -1] = np.nan
        results = []
        before = openbnns.get_num_threads()
        try:
            for threads in (1, 2):
                openbnns.set_num_threads(threads)
                results.append(layer.apply(x))
        finally:
            openbnns.set_num_threads(before)
        np.testing.assert_array_equal(*results)
        expected = softmax(x, logarithm)
        np.testing.assert_array_equal(np.isnan(results[0]), np.isnan(expected))
        np.testing.assert_allclose(results[0], expected, rtol=2e-6, atol=1e-6 if logarithm else 1e-37)
        for row in (0, rows // 2, rows - 1):  # the same alone
            np.testing.assert_array_equal(layer.apply(x[row : row + 1]), results[0][row : row + 1])


@pytest.mark.parametrize("seed", range(40))
def test_copies_of_short_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [int(n) for n in random.integers(1, 9, random.integers(1, 4))]
    sizes += [int(random.integers(1, 20))] if seed % 4 else [200, int(random.integers(1, 80))]
    kind = random.choice([np.float32, np.int64, np.uint8])
    whole = random.integers(0, 200, [n + int(random.integers(0, 4)) for n in sizes]).astype(kind)
    source = whole[tuple(slice(m - n, m) for m, n in zip(whole.shape, sizes, strict=True))]
    around = np.zeros([n + int(random.integers(0, 3)) for n in sizes], kind)
    target = around[tuple(slice(0, n) for n in sizes)]
    expected = np.zeros_like(around)
    expected[tuple(slice(0, n) for n in sizes)] = source
    engines._core.copy_array(target, source)
    np.testing.assert_array_equal(around, expected)

"""Fully connected layers with few outputs and many inputs: products that are not packed."""

from __future__ import annotations

import numpy as np
import pytest

import openbnns
from networks import numbers
from openbnns import ActivationFunction, FullyConnectedLayer

RELU = ActivationFunction.rectified_linear()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [1, 2, 3, 10, 11, 12, 13])
@pytest.mark.parametrize(("batch", "inputs"), [(9, 256), (10, 257), (12, 271), (31, 1568), (200, 300), (1050, 1001)])
def test_few_outputs(batch: int, inputs: int, outputs: int, bias: bool) -> None:
    x, w, b = numbers(batch, inputs), numbers(outputs, inputs, seed=1), numbers(outputs, seed=2)
    layer = FullyConnectedLayer(weights=w, bias=b if bias else None, activation=RELU)
    exact = x.astype(np.float64) @ w.T.astype(np.float64) + (b if bias else 0)
    before, results = openbnns.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            openbnns.set_num_threads(threads)
            results.append(layer.apply(x))
    finally:
        openbnns.set_num_threads(before)
    np.testing.assert_allclose(results[0], np.maximum(exact, 0), rtol=1e-5, atol=1e-5 * np.sqrt(inputs))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])

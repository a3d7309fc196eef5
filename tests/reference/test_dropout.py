"""Dropout of the reference engine against its definition."""

import math
import warnings

import numpy as np
import pytest

from differences import assert_gradient, generator, normal
from openbnns.reference import dropout


@pytest.mark.parametrize(
    ("control", "size_axes", "from_slowest", "expected"),
    [
        (0b0000, (3, 2, 1), False, ()),
        (0b0001, (3, 2, 1), False, (3,)),
        (0b0100, (3, 2, 1), False, (1,)),
        (0b0011, (3, 2, 1), False, (2, 3)),
        (0b1000, (3, 2, 1), False, (0,)),
        (0b1111, (3, 2, 1), False, (0, 1, 2, 3)),
        (0b11110000, (3, 2, 1), False, ()),
        (0b0001, (1,), False, (1,)),
        (0b0110, (1,), False, ()),
        (0b1000, (1,), False, (0,)),
        (0b0001, (1, 2, 3), False, (1,)),  # a layout whose size[0] is the slowest axis
        (0b1111, (4, 3, 2, 1), False, (0, 2, 3, 4)),
        (0b11111111, (5, 4, 3, 2, 1), False, (0, 3, 4, 5)),  # the slower axes of a sample have no bit
        (0b0001, (3, 2, 1), True, (0,)),
        (0b0010, (3, 2, 1), True, (1,)),
        (0b1100, (3, 2, 1), True, (2, 3)),
        (0b1111, (1,), True, (0, 1)),
        (0b0001, (1, 2, 3), True, (0,)),
        (0b1111, (4, 3, 2, 1), True, (0, 1, 2, 3)),
        (0b11110000, (3, 2, 1), True, ()),
    ],
)
def test_dropout_control_bits(
    control: int, size_axes: tuple[int, ...], from_slowest: bool, expected: tuple[int, ...]
) -> None:
    assert dropout.shared_axes(control, size_axes, from_slowest) == expected


def test_dropout_reversed_bits_mirror_the_others_on_images() -> None:
    for control in range(16):
        mirrored = int(f"{control:04b}"[::-1], 2)
        assert dropout.shared_axes(control, (3, 2, 1), True) == dropout.shared_axes(mirrored, (3, 2, 1))


@pytest.mark.parametrize("control", range(16))
def test_dropout_by_definition(control: int) -> None:
    shape, rate = (3, 2, 5, 4), 0.3
    axes = dropout.shared_axes(control, (3, 2, 1))
    decisions = dropout.mask_shape(shape, axes)
    uniform, x = generator(100).uniform(0, 1, decisions), normal(101, *shape)
    mask = dropout.mask_from_uniform(uniform, rate)
    assert mask.dtype == np.bool_
    y = dropout.forward(x, mask, rate)
    assert y.shape == shape
    for k in np.ndindex(shape):
        own = tuple(0 if axis in axes else index for axis, index in enumerate(k))
        assert y[k] == (x[k] / 0.7 if uniform[own] >= rate else 0.0)
    assert_gradient(lambda x: dropout.forward(x, mask, rate), lambda v: dropout.backward(v, mask, rate), x)


def test_dropout_keeps_its_share_and_its_mean() -> None:
    uniform = (np.arange(1000) + 0.5) / 1000
    for rate in (0.0, 0.1, 0.5, 0.999):
        mask = dropout.mask_from_uniform(uniform, rate)
        assert np.mean(mask) == pytest.approx(1.0 - rate)
        assert np.mean(dropout.forward(np.ones(1000), mask, rate)) == pytest.approx(1.0)


def test_dropout_at_the_borders() -> None:
    x = np.array([[1.0, np.nan, np.inf, -2.0]])
    everything = dropout.mask_from_uniform(np.zeros((1, 4)), 0.0)  # rate 0 keeps even the smallest number
    np.testing.assert_array_equal(dropout.forward(x, everything, 0.0), x)
    np.testing.assert_array_equal(dropout.mask_from_uniform(np.array([0.25, 0.5, 0.75]), 0.5), [False, True, True])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropped = dropout.forward(x, np.zeros((1, 4), dtype=np.bool_), 0.5)
    np.testing.assert_array_equal(dropped, [[0.0, np.nan, np.nan, 0.0]])
    assert dropout.forward(np.zeros((0, 3)), np.zeros((1, 3), dtype=np.bool_), 0.5).shape == (0, 3)
    for rate in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"probability in \[0, 1\)"):
            dropout.mask_from_uniform(x, rate)

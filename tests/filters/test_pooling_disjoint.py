"""Pooling of small planes and of windows that share no cells: random shapes, ties, NaN and infinities, every option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openbnns as ob
from cases._base import Act
from cases.pooling import PoolingCase, case
from helpers import Array, assert_bitwise, assert_within
from openbnns import compat

FUNCTIONS = ("Max", "AverageCountIncludePadding", "AverageCountExcludePadding", "L2Norm")
ACTIVATIONS = (Act(), Act(), Act("Tanh"), Act("Softmax"))


def random_case(seed: int) -> PoolingCase:
    """Disjoint windows inside the plane, mostly few; of eight cases one has a window over all, perhaps with padding."""
    rng = np.random.default_rng(seed)
    options: dict[str, Any] = {}
    if seed % 8 == 0:
        size = kernel = tuple(int(v) for v in rng.integers(1, 14, 2))
        if rng.integers(2):
            pad = tuple(int(v) for v in rng.integers(0, 3, 4))
            options["pad"] = pad
            kernel = (size[0] + pad[2] + pad[3], size[1] + pad[0] + pad[1])
    else:
        kernel = tuple(int(v) for v in rng.integers(1, 5, 2))
        dilation = tuple(int(v) for v in rng.choice([1, 1, 1, 2, 3], 2))
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        step = tuple(r + int(rng.choice([0, 0, 0, 1, 3])) for r in reach)
        count = rng.integers(1, 50 if seed % 8 == 1 else 8, 2)
        size = tuple(int((n - 1) * s + r + rng.integers(0, s)) for n, s, r in zip(count, step, reach, strict=True))
        options |= {"dilation": dilation, "step": step}
    channels = rng.choice([1, 2, 3] if seed % 8 == 1 else [1, 2, 3, 5, 17, 67])
    return case(
        f"disjoint-{seed}", FUNCTIONS[seed // 8 % 4], int(channels), size, kernel, batch=int(rng.integers(1, 5)),
        bias=bool(rng.integers(2)), gap=int(rng.choice([0, 0, 3])), activation=ACTIVATIONS[rng.integers(4)], **options,
    )  # fmt: skip


def overlapping_case(seed: int) -> PoolingCase:
    """Windows of any kind in small planes of many channels, with indices of all types."""
    rng = np.random.default_rng(seed)
    kernel = tuple(int(v) for v in rng.integers(1, 5, 2))
    dilation = tuple(int(v) for v in rng.choice([1, 1, 1, 2], 2))
    pad = tuple(int(v) for v in rng.integers(0, 3, 4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = tuple(max(r, int(n)) for r, n in zip(reach, rng.integers(2, 24, 2), strict=True))
    function = FUNCTIONS[seed % 3]
    index = str(rng.choice(["", "size_t", "u32", "u64"])) if function == "Max" else ""
    return case(
        f"overlapping-{seed}", function, int(rng.choice([4, 7, 8, 16, 19, 40])), size, kernel, pad=pad, dilation=dilation,
        step=tuple(int(v) for v in rng.integers(1, 4, 2)), batch=int(rng.integers(1, 4)), index=index,
        bias=bool(rng.integers(2)), gap=int(rng.choice([0, 0, 3])), activation=ACTIVATIONS[rng.integers(4)],
    )  # fmt: skip


def difficult(c: PoolingCase, seed: int) -> dict[str, Array]:
    """Values with many ties and, for half of the seeds of Max, with NaN and infinities."""
    values = c.values()
    rng = np.random.default_rng(seed)
    if c.function == "Max":
        values["x"] = np.round(values["x"])
        if c.activation.is_identity and seed % 2:
            odd = rng.choice([np.nan, np.inf, -np.inf], values["x"].shape)
            values["x"] = np.where(rng.random(values["x"].shape) < 0.2, odd, values["x"])
            values["x"][0] = -np.inf
    return values


@pytest.mark.parametrize("seed", range(192))
def test_random_windows(seed: int) -> None:
    """The native engine agrees with the reference, with every number of threads, storing and adding."""
    c = random_case(seed) if seed < 96 else overlapping_case(seed)
    values = difficult(c, seed)
    rng = np.random.default_rng(seed)
    old = {name: np.zeros((c.batch, *c.x.size) if name == "dx" else (1, *c.x.size[2:])) for name in c.gradients}
    old = {name: rng.standard_normal(a.shape).astype(np.float32).astype(np.float64) for name, a in old.items()}
    with compat.using(max_pool_padding_is_zero=bool(seed // 32 % 2)):
        run = c.run(values, 1)
        y = run.forward()
        actual = {name: s.raw() for name, s in run.backward().items()}
        added = {name: s.read() for name, s in run.backward(old=old).items()}
        for threads in (2, 3):
            other = c.run(values, threads)
            assert_bitwise(other.forward(), y, "y")
            for name, storage in other.backward().items():
                assert_bitwise(storage.raw(), actual[name], f"{name} with {threads} threads")
        with ob.engine("reference"):
            expected_run = c.run(values)
            expected = expected_run.forward()
            expected_run.y.elements[expected_run.y.places] = y
            gradients = {name: s.read() for name, s in expected_run.backward().items()}
    finite = {**values, "x": np.nan_to_num(values["x"], posinf=0, neginf=0)}
    assert_within(y, expected, c.forward_bound(finite, np.nan_to_num(expected, posinf=0, neginf=0)), "y")
    bounds = c.backward_bounds(finite, y)
    for name, gradient in gradients.items():
        assert_within(actual[name].astype(np.float64), gradient, bounds[name], name)
        assert_within(
            added[name], gradient + old[name], bounds[name] + 1e-6 * np.abs(old[name]) + 1e-6, f"{name} added"
        )

"""Gradients of what ``nn.from_onnx`` builds from several operations, or in NumPy, by finite differences; and random numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from onnx_networks import INT64, node, write
from openbnns import nn

RANDOM = np.random.RandomState(5)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def case(op: str, order: str, inputs: dict[str, Any], weights: dict[str, Any] | None = None, **attributes: Any) -> Any:
    shown = "-".join([op, *(str(value) for value in attributes.values() if isinstance(value, str))])
    return pytest.param(op, order, inputs, weights or {}, attributes, id=shown)


def between(*shape: int) -> Any:
    """Places between pixels of images of 6 x 5, some of them outside, and none of them near a kink."""
    pixels = RANDOM.randint(-3, 8, shape) + RANDOM.uniform(0.2, 0.8, shape)
    return ((2 * pixels + 1) / np.array([5, 6]) - 1).astype(np.float32)


BOXES = np.float32([[0.3, 0.4, 4.1, 5.3], [1.2, 0.1, 3.3, 2.4], [2.2, 2.1, 4.6, 5.5]])
CASES = [
    *(
        case("GridSample", "x g", {"x": floats(2, 3, 6, 5), "g": between(2, 4, 3, 2)}, mode=mode, padding_mode=edges)
        for mode, edges in (("linear", "zeros"), ("linear", "border"), ("linear", "reflection"))
    ),
    case("GridSample", "x g", {"x": floats(1, 1, 6, 5), "g": between(1, 1, 2, 2)}, mode="cubic", padding_mode="border"),
    case("GridSample", "x g", {"x": floats(2, 3, 6, 5), "g": between(2, 4, 3, 2)}, mode="nearest"),
    *(
        case(
            "RoiAlign", "x b i", {"x": floats(2, 3, 6, 5)}, {"b": BOXES, "i": np.array([1, 0, 1])}, mode=mode,
            output_height=2, output_width=3, sampling_ratio=ratio,
        )
        for mode, ratio in (("avg", 2), ("avg", 0), ("max", 2))
    ),
    case("Det", "x", {"x": floats(4, 3, 3)}),
    case("DFT", "x", {"x": floats(2, 7, 1)}, inverse=0, onesided=1),
    case("DFT", "x", {"x": floats(2, 7, 2)}, inverse=1),
    case("STFT", "x s w", {"x": floats(2, 20, 1)}, {"s": np.int64(3), "w": np.abs(floats(8))}),
    case("ReverseSequence", "x n", {"x": floats(4, 3, 2)}, {"n": np.array([4, 2, 1])}),
    case("CumProd", "x a", {"x": 1 + np.abs(floats(3, 4))}, {"a": np.int64(1)}, exclusive=1, reverse=1),
    case("GatherND", "x i", {"x": floats(2, 3, 4)}, {"i": np.array([[[1], [2], [1]], [[0], [2], [-1]]])}, batch_dims=1),
    case("ScatterND", "x i u", {"x": floats(4, 3), "u": floats(2, 3)}, {"i": np.array([[2], [0]])}),
    case("ScatterND", "x i u", {"x": floats(4, 3), "u": floats(3, 3)}, {"i": np.array([[2], [0], [2]])}, reduction="add"),
    *(
        case(
            "ScatterElements", "x i u", {"x": floats(3, 5), "u": floats(3, 4)},
            {"i": np.array([[0, 4, 4, 1], [2, 2, -3, 0], [1, 3, 0, 4]])}, axis=1, reduction=how,
        )
        for how in ("mul", "max", "min")
    ),
    *(
        case(
            "ScatterND", "x i u", {"x": floats(4, 3, 2), "u": floats(3, 2)}, {"i": np.array([[2, 1], [0, -1], [2, 1]])},
            reduction=how,
        )
        for how in ("mul", "max", "min")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("op", "order", "inputs", "weights", "attributes"), CASES)
def test_gradients(
    op: str, order: str, inputs: dict[str, Any], weights: dict[str, Any], attributes: dict[str, Any], tmp_path: Path
) -> None:
    opset = 26 if op == "CumProd" else 20
    shapes = {name: list(x.shape) for name, x in inputs.items()}
    path = write(tmp_path / "m.onnx", [node(op, order, "y", **attributes)], shapes, ["y"], weights, opset)
    net = nn.from_onnx(path, batch_axis=None)
    assert np.ptp(net(*inputs.values())) > 0
    assert openbnns.gradcheck(net.train(), *inputs.values(), verbose=False).passed


@pytest.mark.parametrize(
    ("how", "places", "u", "dx", "du"), [
        ("mul", [0, 1, 1, 3, 3], [0, 0, 4, 1, 7], [0, 0, 3, 28], [2, 40, 0, 56, 8]),
        ("max", [0, 1, 2, 2, 3], [0, 5, 3, 3, 7], [1, 1, 1, 0], [0, 1, 1, 1, 4]),
        ("min", [0, 1, 2, 2, 3], [0, 5, 3, 3, 7], [0, 1, 1, 4], [1, 1, 1, 1, 0]),
    ],
)  # fmt: skip
def test_gradients_of_scattered_factors_and_bounds(
    how: str, places: Any, u: Any, dx: Any, du: Any, tmp_path: Path
) -> None:
    """A factor of 0 is the only one of its product that has a gradient; entries that are equal share one, as in PyTorch."""
    path = write(
        tmp_path / "m.onnx", [node("ScatterElements", "x i u", "y", axis=0, reduction=how)], {"x": [4], "u": [5]}, ["y"],
        {"i": np.array(places)}, 18,
    )  # fmt: skip
    net = nn.from_onnx(path, batch_axis=None).train()
    net(np.float32([2, 5, 3, 2]), np.float32(u))
    for actual, wanted in zip(net.backward(np.float32([1, 2, 3, 4])), (dx, du), strict=True):
        np.testing.assert_array_equal(actual, np.float32(wanted))


def test_random_numbers(tmp_path: Path) -> None:
    nodes = [
        node("RandomNormal", "", "a", shape=[200, 50], mean=2.0, scale=3.0), node("RandomUniformLike", "x", "b", low=-1.0),
        node("Bernoulli", "x", "c"), node("Log", "p", "q"), node("Multinomial", "q", "d", sample_size=4000),
    ]  # fmt: skip
    shapes: dict[str, Any] = {"x": [100, 70]}
    held = {"p": np.float32([[0.1, 0.6, 0.3], [0.5, 0.5, 0.0]])}
    path = write(tmp_path / "m.onnx", nodes, shapes, ["a", "b", "c", "d"], held, kinds={"d": INT64})
    net, x = nn.from_onnx(path, batch_axis=None), np.full((100, 70), 0.3, np.float32)
    first, (a, b, c, d) = net(x), net(x)
    assert not np.array_equal(first[0], a) and not np.array_equal(first[2], c)
    assert abs(a.mean() - 2) < 0.1 and abs(a.std() - 3) < 0.1 and a.shape == (200, 50)
    assert abs(b.mean()) < 0.03 and b.min() >= -1 and b.max() <= 1 and abs(c.mean() - 0.3) < 0.03
    shares = np.stack([(d == k).mean(1) for k in range(3)], 1)
    np.testing.assert_allclose(shares, held["p"], atol=0.04)

"""The formulas of the documentation as plain loops over logical coordinates, against both engines through the C calls.

Nothing here uses the library's own arithmetic, layouts or broadcasting: what the engines share cannot hide a mistake.
Arrays are in the order of ``size[]``: images (x, y, channel), kernels as their layout lists them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import Act, parameters
from helpers import (
    COLUMN_MAJOR,
    FIRST_MAJOR_2D,
    IOHRWR,
    LAST_MAJOR_2D,
    OIHRWR,
    OIHW,
    PACK32,
    ROW_MAJOR,
    Array,
    assert_within,
    image,
    vector,
)


def check(case: Any, engine: str, y: Array, gradients: dict[str, Array]) -> None:
    """Run the case on an engine and compare with what the formulas gave."""
    values = case.values()
    run = case.run(values)
    with openbnns.engine(engine):
        run.forward()
        results = {name: storage.read() for name, storage in run.backward().items()}
    assert np.isfinite(y).all() and set(results) == set(gradients)
    assert_within(run.y.read(), y, 1.01 * case.forward_bound(values, y), f"{case.id}: y")
    bounds = case.backward_bounds(values, y)
    for name, gradient in gradients.items():
        assert_within(results[name], gradient, 1.01 * bounds[name], f"{case.id}: {name}")


# Fully connected: z(o) = sum_i W(o, i) x(i) + b(o).

MATRICES = [
    fully_connected.case(f"defined-{layout.name.removeprefix('BNNSDataLayout')}", 5, 3, 4, layout)
    for layout in (ROW_MAJOR, COLUMN_MAJOR, FIRST_MAJOR_2D, LAST_MAJOR_2D)
]


@pytest.mark.parametrize("case", parameters(MATRICES, "forward_rows"))
def test_fully_connected(case: Any, engine: str) -> None:
    v = case.values()
    w = v["w"][0].T if case.w.layout == ROW_MAJOR else v["w"][0]  # (o, i); RowMajorMatrix lists columns first
    y, dx, dw = np.zeros((4, 3)), np.zeros((4, 5)), np.zeros((3, 5))
    for n, o in itertools.product(range(4), range(3)):
        y[n, o] = v["b"][0, o] + sum(w[o, i] * v["x"][n, i] for i in range(5))
        for i in range(5):
            dx[n, i] += w[o, i] * v["dy"][n, o]
            dw[o, i] += v["dy"][n, o] * v["x"][n, i]
    stored = dw.T if case.w.layout == ROW_MAJOR else dw
    check(case, engine, y, {"dx": dx, "dw": stored[None], "db": v["dy"].sum(axis=0)[None]})


# Convolution: z(o, x, y) += w(o, i, kx, ky) * in(i, sx*x + dlx*kx - left, sy*y + dly*ky - up).


def taps(case: Any) -> Iterator[tuple[Any, ...]]:
    """(o, i, kx, ky, index of the kernel element) for every tap, group by group."""
    outputs, inputs, group = case.y.size[2], case.x.size[2], case.groups
    for o, i in itertools.product(range(outputs), range(inputs // group)):
        source = o // (outputs // group) * (inputs // group) + i
        for kx, ky in itertools.product(range(case.kernel[1]), range(case.kernel[0])):
            yield o, source, kx, ky, (kx, ky, o, i) if case.w.layout == IOHRWR else (kx, ky, i, o)


def pads(case: Any) -> tuple[int, int]:
    """Left and up."""
    return (case.symmetric[1], case.symmetric[0]) if case.symmetric != (0, 0) else (case.pad[0], case.pad[2])


def meet(case: Any, engine: str, position: Any, small: tuple[int, int], x_is_small: bool) -> None:
    """Sum y and the gradients over every pair of a pixel of the small image and a tap that lands on the large one."""
    v = case.values()
    y = np.zeros(v["dy"].shape) + v["b"][0]
    dx, dw = np.zeros(v["x"].shape), np.zeros(v["w"].shape)
    large = case.y.size if x_is_small else case.x.size
    for o, i, kx, ky, k in taps(case):
        for px, py in itertools.product(range(small[0]), range(small[1])):
            qx, qy = position(px, py, kx, ky)
            if not (0 <= qx < large[0] and 0 <= qy < large[1]):
                continue  # padding is zero
            (ix, iy), (ox, oy) = ((px, py), (qx, qy)) if x_is_small else ((qx, qy), (px, py))
            y[:, ox, oy, o] += v["w"][(0, *k)] * v["x"][:, ix, iy, i]
            dx[:, ix, iy, i] += v["w"][(0, *k)] * v["dy"][:, ox, oy, o]
            dw[(0, *k)] += np.dot(v["dy"][:, ox, oy, o], v["x"][:, ix, iy, i])
    check(case, engine, y, {"dx": dx, "dw": dw, "db": v["dy"].sum(axis=(0, 1, 2))[None]})


_WINDOW = {"step": (2, 1), "dilation": (1, 2), "pad": (2, 0, 1, 3)}  # all four sides and both directions differ

CONVOLUTIONS = [
    convolution.case(f"defined-{layout.name[14:]}", 2, 3, (5, 6), (3, 2), layout=layout, batch=2, **_WINDOW)
    for layout in (OIHW, OIHRWR, IOHRWR, PACK32)
] + [
    convolution.case("defined-groups", 4, 6, (5, 6), (3, 2), groups=2, batch=2, **_WINDOW),
    convolution.case("defined-depthwise", 3, 6, (5, 6), (3, 2), groups=3, batch=2, **_WINDOW),
    convolution.case("defined-symmetric", 2, 3, (4, 5), (2, 3), symmetric=(1, 2), batch=2),
]


@pytest.mark.parametrize("case", parameters(CONVOLUTIONS, "forward_rows"))
def test_convolution(case: Any, engine: str) -> None:
    left, up = pads(case)

    def position(x: int, y: int, kx: int, ky: int) -> tuple[int, int]:
        return case.step[1] * x + case.dilation[1] * kx - left, case.step[0] * y + case.dilation[0] * ky - up

    meet(case, engine, position, case.y.size[:2], x_is_small=False)


# Transposed: z(o, sx*x + dlx*(KW-1-kx) - left, sy*y + dly*(KH-1-ky) - up) += w(o, i, kx, ky) * in(i, x, y).

_SCATTER = {"step": (2, 3), "dilation": (1, 2), "pad": (1, 0, 0, 2)}

TRANSPOSED = [
    transposed_convolution.case(f"defined-{layout.name[14:]}", 2, 3, (3, 4), (3, 2), layout=layout, batch=2, **_SCATTER)
    for layout in (OIHW, OIHRWR, IOHRWR, PACK32)
]


@pytest.mark.parametrize("case", parameters(TRANSPOSED, "forward_rows"))
def test_transposed_convolution(case: Any, engine: str) -> None:
    left, up = pads(case)
    height, width = case.kernel

    def position(x: int, y: int, kx: int, ky: int) -> tuple[int, int]:
        across = case.step[1] * x + case.dilation[1] * (width - 1 - kx) - left
        return across, case.step[0] * y + case.dilation[0] * (height - 1 - ky) - up

    meet(case, engine, position, case.x.size[:2], x_is_small=True)


# Softmax: bit d of axis_flags is the axis of size[d], bit rank the batch; several are taken jointly.


@pytest.mark.covers("act.axis_flags", "act.Softmax.fwd", "act.Softmax.bwd", "act.LogSoftmax.fwd", "act.LogSoftmax.bwd")
@pytest.mark.parametrize("flags", range(16))
def test_softmax_axes(flags: int, engine: str) -> None:
    axes = tuple(k for k, bit in enumerate((8, 1, 2, 4)) if (flags or 1) & bit)
    for name in ("Softmax", "LogSoftmax"):
        case = activation.case(f"defined-{name}", Act(name), image(3, 4, 5), batch=2, axis_flags=flags)
        x, dy = case.values()["x"], case.values()["dy"]
        p = np.exp(x) / np.exp(x).sum(axis=axes, keepdims=True)
        if name == "Softmax":
            check(case, engine, p, {"dx": p * (dy - (dy * p).sum(axis=axes, keepdims=True))})
        else:
            check(case, engine, np.log(p), {"dx": dy - p * dy.sum(axis=axes, keepdims=True)})


@pytest.mark.covers("core.act.fused_from_output")
def test_fused_softmax_runs_along_size_0(engine: str) -> None:
    for case in (
        convolution.case("defined-softmax", 2, 3, (4, 5), (1, 1), batch=2, activation=Act("Softmax")),
        arithmetic.case("defined-softmax", "Add", image(2, 4, 5), image(2, 4, 5), activation=Act("Softmax")),
        fully_connected.case("defined-softmax", 5, 7, 2, activation=Act("Softmax")),
    ):
        run = case.run()
        run.forward()
        assert_within(run.y.read().sum(axis=1), np.ones(run.y.read().sum(axis=1).shape), 1e-6, case.id)


# Arithmetic: roles and broadcasting, with gradients summed over whatever was repeated.

OPERATIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "Add": (lambda a, b: a + b, (lambda a, b: 1.0, lambda a, b: 1.0)),
    "Subtract": (lambda a, b: a - b, (lambda a, b: 1.0, lambda a, b: -1.0)),
    "Multiply": (lambda a, b: a * b, (lambda a, b: b, lambda a, b: a)),
    "Divide": (lambda a, b: a / b, (lambda a, b: 1 / b, lambda a, b: -a / b**2)),
    "Pow": (lambda a, b: a**b, (lambda a, b: b * a ** (b - 1), lambda a, b: a**b * np.log(a))),
    "Maximum": (np.maximum, (lambda a, b: a >= b, lambda a, b: a < b)),
    "Minimum": (np.minimum, (lambda a, b: a <= b, lambda a, b: a > b)),
    "MultiplyAdd": (lambda a, b, c: a * b + c, (lambda a, b, c: b, lambda a, b, c: a, lambda a, b, c: 1.0)),
    "Select": (
        lambda a, b, c: np.where(a != 0, b, c),
        (lambda a, b, c: 0.0, lambda a, b, c: a != 0, lambda a, b, c: a == 0),
    ),
    "Exp": (np.exp, (np.exp,)),
    "Square": (np.square, (lambda a: 2 * a,)),
}

DEFINED = [
    case
    for case in [
        *arithmetic.EVERY_FUNCTION,
        *arithmetic.BROADCAST_EVERY_FUNCTION,
        *arithmetic.ROLES,
        *arithmetic.BROADCASTS[:10],
        *arithmetic.SHARED,
        *arithmetic.MEMORY[:4],
    ]
    if case.function in OPERATIONS and case.activation.is_identity
]


@pytest.mark.parametrize("case", parameters(DEFINED, "backward_rows"))
def test_arithmetic(case: Any, engine: str) -> None:
    v = case.values()
    operands = [v[f"a{i}"] for i in range(case.count)]
    operation, slopes = OPERATIONS[case.function]
    y = np.broadcast_to(operation(*operands), v["dy"].shape).astype(np.float64)
    gradients: dict[str, Array] = {}
    for i, slope in enumerate(slopes):
        name = "da0" if case.shared and i == 1 else f"da{i}"
        if case.roles[i] == arithmetic.C:
            continue
        full = v["dy"] * slope(*operands)
        repeated = tuple(k for k, n in enumerate(operands[i].shape) if n == 1)
        gradients[name] = gradients.get(name, 0.0) + full.sum(axis=repeated, keepdims=True)
    check(case, engine, y, gradients)


def test_arithmetic_of_infinite_zeros(engine: str) -> None:
    """The NoNaN pair: zero wins wherever the second operand is 0, in values and gradients."""
    a, b = np.array([[np.inf, np.nan, 3.0, 4.0]]), np.array([[0.0, 0.0, 0.0, 2.0]])
    for function, y, da, db in [
        ("MultiplyNoNaN", [0, 0, 0, 8], [0, 0, 0, 4], None),
        ("DivideNoNaN", [0, 0, 0, 2], [0, 0, 0, 1], [0, 0, 0, -2]),
    ]:
        run = arithmetic.case("zeros", function, vector(4), vector(4)).run(
            {"a0": a, "a1": b, "dy": np.full((1, 4), 2.0)}
        )
        run.forward()
        gradients = run.backward()
        assert run.y.read().tolist() == [y]
        assert gradients["da0"].read().tolist() == [da]
        if db is not None:
            assert gradients["da1"].read().tolist() == [db]

"""Backward calls from Swift, with random shapes, against the reference engine: float64, from the formulas."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import capi
from swift.classes_in_swift import KEEP, numbers
from swift.swift_tools import PROGRAMS, Module, run

pytest_plugins = ["swift.swift_fixtures"]

Case = tuple[str, int, list[int]]
Array = Any
CASES_OF_EACH = 12


def sizes(kind: str, choose: random.Random) -> list[int]:
    """The numbers of a random case, as programs/calls.swift takes them."""
    batch, channels = choose.randint(1, 5), choose.randint(1, 6)
    height, width = choose.randint(4, 11), choose.randint(4, 11)
    if kind == "convolution":
        kernel = [choose.randint(1, 4), choose.randint(1, 4)]
        return [batch, channels, height, width, choose.randint(1, 7), *kernel, *(choose.randint(1, 2) for _ in range(2)),
                choose.randint(0, 2), choose.randint(0, 2)]  # fmt: skip
    if kind == "pooling":
        return [batch, channels, height, width, choose.randint(1, 4), choose.randint(1, 3), choose.randint(0, 3)]
    if kind == "loss":
        return [batch, choose.randint(2, 13), choose.randint(0, 3)]
    if kind == "fused":
        return [batch + 1, channels, height, width, choose.randint(0, 2)]
    return [
        batch,
        choose.randint(1, 6),
        choose.randint(1, 7),
        choose.randint(1, 9),
        choose.randint(1, 4),
        choose.randint(1, 3),
    ]


def expected(kind: str, seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    """Gradients by the reference engine, under the names that the program prints."""
    yield from {"convolution": convolution, "pooling": pooling, "loss": loss, "fused": fused, "attention": attention}[
        kind
    ](seed, n)


def convolution(seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    batch, channels, height, width, outputs, kh, kw, sx, sy, px, py = n
    layer = bn.ConvolutionLayer(
        input=bn.Shape.image_chw(width, height, channels), weights=numbers(seed + 1, outputs, channels, kh, kw),
        bias=numbers(seed + 2, outputs), stride=(sx, sy), padding=bn.ConvolutionPadding.symmetric(x=px, y=py),
        activation=bn.ActivationFunction.tanh(), filter_parameters=KEEP,
    )  # fmt: skip
    x = numbers(seed, batch, channels, height, width)
    y = layer.apply(x)
    gradients = layer.apply_backward(x, y, numbers(seed + 3, *y.shape))
    yield from (("dx", gradients.input), ("dw", gradients.weights), ("db", gradients.bias))


def pooling(seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    batch, channels, height, width, k, stride, kind = n
    types = (bn.PoolingType.max(), bn.PoolingType.average(count_includes_padding=True), bn.PoolingType.l2_norm())
    layer = bn.PoolingLayer(
        type=types[kind % 3], input=bn.Shape.image_chw(width, height, channels), kernel_size=(k, k), stride=(stride, stride),
        activation=bn.ActivationFunction.sigmoid(),
    )  # fmt: skip
    x = numbers(seed, batch, channels, height, width)
    y = layer.apply(x)
    yield "dx", layer.apply_backward(x, y, numbers(seed + 1, *y.shape)).input


def loss(seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    batch, classes, kind = n
    f = bn.LossFunction
    functions = (
        f.softmax_cross_entropy(label_smoothing=0.1),
        f.huber(huber_delta=0.3),
        f.mean_square_error(),
        f.hinge(),
    )
    layer = bn.LossLayer(
        input=bn.Shape.vector(classes), loss_function=functions[kind], loss_reduction=bn.LossReduction.REDUCTION_MEAN
    )
    x, labels = numbers(seed, batch, classes), numbers(seed + 1, batch, classes)
    yield "dx", layer.apply(x, labels)[1]
    yield "backward", layer.apply_backward(x, labels, numbers(seed + 2, 1)).input


def fused(seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    batch, channels, height, width, kind = n
    f, image = bn.ArithmeticBinaryFunction, bn.Shape.image_chw(width, height, channels)
    layer = bn.FusedParametersLayer(
        input_a=image, input_b=image, output=image,
        fused_layer_parameters=[
            bn.FusedBinaryArithmeticParameters(function=(f.ADD, f.SUBTRACT, f.MULTIPLY)[kind]),
            bn.FusedNormalizationParameters(
                type=bn.NormalizationType.batch(), beta=numbers(seed + 2, channels), gamma=numbers(seed + 3, channels),
                epsilon=1e-2, activation=bn.ActivationFunction.tanh(),
            ),
        ],
        filter_parameters=KEEP,
    )  # fmt: skip
    a, b, dy = (numbers(seed + i, batch, channels, height, width) for i in (0, 1, 4))
    y = layer.apply(a, b, phase=bn.LearningPhase.TRAINING)
    gradients = layer.apply_backward(a, b, y, dy)
    yield from (("da", gradients.input_a), ("db", gradients.input_b))
    yield from (("dbeta", gradients.parameters[0]), ("dgamma", gradients.parameters[1]))


def attention(seed: int, n: list[int]) -> Iterator[tuple[str, Array]]:
    batch, t, s, d, k, h = n

    def described(shape: list[int], data: Array = None) -> Any:
        return bn.Shape(shape).descriptor(data=data)

    def projection(rows: int, weights: Array, bias: Array, target: Array = None) -> Any:
        made = described([rows, d], target)
        if target is not None:
            made.stride = [0, 0, rows * d]
        return capi.BNNSMHAProjectionParameters(
            target_desc=made, weights=described(list(weights.shape), weights), bias=described(list(bias.shape), bias)
        )

    def arrays(first: int | None, output: bool = False) -> tuple[Array, Array]:
        shapes = ((h * k, d), (d,)) if output else ((d, k, h), (k, h))
        if first is None:
            return np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.float32)
        return numbers(first, *shapes[0]), numbers(first + 1, *shapes[1])

    filter = capi.BNNSFilterCreateLayerMultiheadAttention(
        capi.BNNSLayerParametersMultiheadAttention(
            query=projection(t, *arrays(seed)), key=projection(s, *arrays(seed + 2)), value=projection(s, *arrays(seed + 4)),
            output=projection(t, *arrays(seed + 6, True)),
        ), None,
    )  # fmt: skip
    q, key, v = numbers(seed + 8, batch, t, d), numbers(seed + 9, batch, s, d), numbers(seed + 10, batch, s, d)
    y = np.zeros_like(q)
    rows = (q, t * d, key, s * d, None, 0, v, s * d)
    assert capi.BNNSApplyMultiheadAttention(filter, batch, *rows, y, t * d, None, None, None, None, None) == 0
    kept = {name: (*arrays(None), np.zeros_like(x)) for name, x in (("q", q), ("k", key), ("v", v))}
    ow, ob = arrays(None, True)
    dq, dk, dv = (projection(x.shape[1], *kept[name]) for name, x in (("q", q), ("k", key), ("v", v)))
    dout = projection(t, ow, ob, numbers(seed + 11, batch, t, d))
    status = capi.BNNSApplyMultiheadAttentionBackward(
        filter,
        batch,
        q,
        t * d,
        dq,
        key,
        s * d,
        None,
        0,
        dk,
        v,
        s * d,
        dv,
        None,
        None,
        None,
        y,
        t * d,
        dout,
        0,
        None,
        None,
        None,
    )
    assert status == 0, bn.last_error()
    for name, (dw, db, dx) in kept.items():
        yield from ((name, dx), (f"{name}.w", dw), (f"{name}.b", db))
    yield from (("o.w", ow), ("o.b", ob))


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> list[Case]:
    choose = random.Random(20261118)
    kinds = ("convolution", "pooling", "loss", "fused", "attention")
    return [(kind, choose.randrange(2**31), sizes(kind, choose)) for kind in kinds for _ in range(CASES_OF_EACH)]


@pytest.fixture(scope="module")
def printed(module: Module, cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    lines: Path = tmp_path_factory.mktemp("calls") / "cases.txt"
    lines.write_text(
        "\n".join(f"{kind} {i} {seed} {' '.join(map(str, n))}" for i, (kind, seed, n) in enumerate(cases)),
        encoding="utf-8",
    )
    sources = (PROGRAMS / "support.swift", PROGRAMS / "calls.swift")
    program = module.compile(*sources, name="calls", options=("-parse-as-library",))
    output = run(program, lines, cwd=module.folder).stdout.splitlines()
    return {line.split()[0]: np.array(line.split()[1:], np.uint32).view(np.float32) for line in output}


@pytest.mark.parametrize("kind", ["convolution", "pooling", "loss", "fused", "attention"])
def test_gradients_are_those_of_the_formulas(kind: str, cases: list[Case], printed: dict[str, Array]) -> None:
    compared = 0
    with bn.engine("reference"):
        for i, (own, seed, n) in enumerate(cases):
            for name, gradient in expected(own, seed, n) if own == kind else ():
                actual, wanted = printed[f"{i}.{name}"], np.asarray(gradient, np.float32).ravel()
                assert actual.shape == wanted.shape, (kind, n, name)
                bound = 2e-5 * max(1.0, float(np.abs(wanted).max()))
                error = np.abs(actual - wanted).max()
                assert error <= bound, (kind, n, seed, name, error, bound)
                compared += np.count_nonzero(wanted)
    assert compared > 100

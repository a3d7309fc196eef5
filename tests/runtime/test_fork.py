"""Children forked while another thread is inside a filter: they find no lock taken and no state half changed."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import numbers
from openbnns import LearningPhase, NormalizationType, Shape, engines

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
    pytest.mark.skipif(engines._core is None, reason="needs the compiled core"),
]

TRAINING = LearningPhase.TRAINING
FORKS = 20  # of each family: more than 200 in all
Work = Callable[[], list[Any]]


def flat(value: Any) -> list[Any]:
    """All arrays of nested results."""
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in flat(part)]
    return [] if value is None else [value]


def normalization(kind: Any) -> Work:
    x, dy = numbers(8, 16, 24, 24), numbers(8, 16, 24, 24, seed=1)
    layer = bn.NormalizationLayer(
        type=kind, input=Shape.image_chw(24, 24, 16), beta=numbers(16), gamma=numbers(16, seed=2)
    )

    def work() -> list[Any]:
        y = layer.apply(x, phase=TRAINING)
        return flat([y, layer.apply_backward(output=y, output_gradient=dy)])

    return work


def fused(pooled: bool) -> Work:
    x, w = numbers(4, 8, 24, 24), numbers(16, 8, 3, 3, seed=1)
    if pooled:
        net = bn.nn.Sequential(
            bn.nn.Conv2d(8, 16, 3, padding=1), bn.nn.BatchNorm2d(16), bn.nn.ReLU(), bn.nn.MaxPool2d(2)
        )
        net.build((8, 24, 24))
        net.train()
        dy = numbers(4, 16, 12, 12, seed=2)

        def train() -> list[Any]:
            y = net(x).copy()
            net.backward(dy)
            return flat([y, [p.grad.copy() for p in net.parameters()]])

        return train
    layer = bn.FusedConvolutionNormalizationLayer(
        input=Shape.image_chw(24, 24, 8), convolution_weights=w, normalization=NormalizationType.instance(),
        normalization_epsilon=1e-5,
    )  # fmt: skip
    dy = numbers(4, 16, 22, 22, seed=2)

    def work() -> list[Any]:
        y = layer.apply(x, phase=TRAINING)
        return flat([y, layer.apply_backward(input=x, output=y, output_gradient=dy)])

    return work


def dropout() -> Work:
    x = numbers(16, 4096)
    layer = bn.DropoutLayer(input=Shape.vector(4096), rate=0.5, seed=3)

    def work() -> list[Any]:
        y = layer.apply(x)
        dx = layer.apply_backward(output_gradient=x).input
        return [] if np.array_equal(y, dx) else ["the mask of backward is another one"]

    return work


def lstm() -> Work:
    x = numbers(9, 5, 24)
    w, u = numbers(4, 1, 32, 24) / 8, numbers(4, 2, 1, 32, 32, seed=1) / 8
    layer = bn.LSTMLayer(
        input_weights=w, deep_input_weights=numbers(4, 1, 1, 32, 32, seed=2) / 8, hidden_weights=u, dropout=0.1
    )

    def work() -> list[Any]:
        y = layer.apply(x, phase=TRAINING)
        layer.apply_backward(x, output_gradient=np.ones_like(y.output), cache=y.cache)
        return flat(layer.apply(x).output)

    return work


def attention() -> Work:
    x, dy = numbers(4, 12, 32), numbers(4, 12, 32, seed=1)
    layer = bn.MultiheadAttentionLayer(embed_dim=32, num_heads=4, seed=1)

    def work() -> list[Any]:
        y = layer.apply(x, phase=TRAINING)
        return flat([y, layer.apply_backward(output_gradient=dy).query])

    return work


def embedding() -> Work:
    words = numbers(50, 32)
    where = np.random.default_rng(0).integers(0, 50, (16, 20))
    layer, dy = bn.EmbeddingLayer(input=Shape.vector(20), dictionary=words), numbers(16, 20, 32, seed=1)
    return lambda: flat([layer.apply(where), layer.apply_backward(input=where, output_gradient=dy).weights])


def pooling() -> Work:
    x = numbers(8, 16, 24, 24)
    layer = bn.PoolingLayer(
        type=bn.PoolingType.max(), input=Shape.image_chw(24, 24, 16), output=Shape.image_chw(12, 12, 16),
        kernel_size=2, stride=2,
    )  # fmt: skip
    dy = numbers(8, 16, 12, 12, seed=1)

    def work() -> list[Any]:
        y = layer.apply(x)
        return flat([y, layer.apply_backward(input=x, output=y, output_gradient=dy)])

    return work


def convolution() -> Work:
    x, w, dy = numbers(4, 16, 20, 20), numbers(32, 16, 3, 3, seed=1), numbers(4, 32, 18, 18, seed=2)
    layer = bn.ConvolutionLayer(input=Shape.image_chw(20, 20, 16), weights=w, bias=numbers(32))
    return lambda: flat([layer.apply(x), layer.apply_backward(input=x, output_gradient=dy)])


def optimizer() -> Work:
    adam = bn.AdamOptimizer(learning_rate=1e-3)

    def work() -> list[Any]:
        w, g = numbers(64, 300), numbers(64, 300, seed=1)
        m, v = np.zeros_like(w), np.zeros_like(w)
        adam.step([w], [g], [m, v])
        return [w, m, v]

    return work


def random_numbers() -> Work:
    generator = bn.RandomGenerator(seed=5)

    def work() -> list[Any]:
        for _ in range(20):
            generator.fill_normal(np.empty(63, np.float32))
        return []

    return work


def functions() -> Work:
    """Calls without a filter, those that are not known and those that are."""
    turn = iter(range(10**9))

    def work() -> list[Any]:
        n = 2 + next(turn) % 40
        bn.copy(numbers(n, 7), np.empty((n, 7), np.float16))
        bn.apply_matrix_multiplication(numbers(n, 30), numbers(30, n))
        return [bn.copy(numbers(3, 5), np.empty((3, 5), np.float16))]

    return work


FAMILIES: dict[str, Callable[[], Work]] = {
    "batch normalization": lambda: normalization(NormalizationType.batch(np.zeros(16, np.float32), np.ones(16, np.float32))),
    "group normalization": lambda: normalization(NormalizationType.group(4)),
    "fused": lambda: fused(pooled=False), "fused with pooling": lambda: fused(pooled=True), "dropout": dropout,
    "LSTM": lstm, "attention": attention, "embedding": embedding, "pooling": pooling, "convolution": convolution,
    "optimizer": optimizer, "random numbers": random_numbers, "functions": functions,
}  # fmt: skip


def fork(work: Callable[[], bool]) -> int:
    """A child that exits with 0 if the work says so; one that hangs is ended by an alarm."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads: the point here
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        status = 0 if work() else 2
    finally:
        os._exit(status)


def same(results: list[Any], expected: list[Any]) -> bool:
    return len(results) == len(expected) and all(np.array_equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_busy_filter_works_in_forked_children(family: str) -> None:
    work = FAMILIES[family]()
    expected = work()
    done, turns = threading.Event(), 0

    def busy() -> None:
        nonlocal turns
        while not done.is_set():
            work()
            turns += 1

    thread = threading.Thread(target=busy)
    thread.start()
    pause = np.random.default_rng(1)
    try:
        children = []
        for _ in range(FORKS):
            time.sleep(pause.uniform(0, 0.004))
            children.append(fork(lambda: same(work(), expected)))
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    finally:
        done.set()
        thread.join()
    assert codes == [0] * FORKS
    assert turns
    assert same(work(), expected)


def test_what_a_fork_interrupted_is_not_differentiated() -> None:
    """A child forked during a training forward has nothing to differentiate: its backward call is refused."""
    x = numbers(64, 32, 40, 40)
    layer = bn.NormalizationLayer(type=NormalizationType.layer(0), input=Shape.image_chw(40, 40, 32))
    y = layer.apply(x, phase=TRAINING)
    expected = layer.apply_backward(output=y, output_gradient=x).input

    def goes_back() -> bool:
        """Gradients of the forward that was complete, or a message; never anything else."""
        dx = np.full_like(x, 7)
        try:
            layer.apply_backward(output=y, output_gradient=x, generating_input_gradient=dx)
        except bn.LayerApplyError as error:
            refused.set()
            return "training" in str(error) and bool((dx == 7).all())
        return np.array_equal(dx, expected)

    def child() -> bool:
        return goes_back() and same([layer.apply(x, phase=TRAINING)], [y]) and goes_back() and not late()

    def late() -> bool:
        """After its own forward a child may do everything."""
        refused.clear()
        goes_back()
        return refused.is_set()

    refused, done = threading.Event(), threading.Event()

    def busy() -> None:
        while not done.is_set():
            layer.apply(x, phase=TRAINING)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        children = []
        for _ in range(8):
            time.sleep(0.01)
            children.append(fork(child))
        codes = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in children]
    finally:
        done.set()
        thread.join()
    assert codes == [0] * 8

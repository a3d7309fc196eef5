"""Ctrl-C while a kernel runs: the call ends between two pieces of work, and nothing that it left half done is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from openbnns import nn

SOON = 0.5  # seconds; 0.2 is what is promised, on a machine that does nothing else
LONG = 1.0  # seconds that a call would take where the time of the reaction counts
SHORT = 0.4  # and where it does not
LARGE = 200 << 20  # bytes of its input, at most


def in_fresh_process(function: Callable[[], None]) -> None:
    """Signals go to a whole process, so each test has one of its own; it may have been started with SIGINT ignored."""
    setup = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from runtime import test_interrupt"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{setup}; test_interrupt.{function.__name__}()"],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def interrupt_later(seconds: float = 0.1) -> threading.Thread:
    def send() -> None:
        time.sleep(seconds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def interrupt(work: Callable[[], Any], delay: float) -> float:
    """Send SIGINT during a call that takes longer than the delay; seconds from there to KeyboardInterrupt."""
    for _ in range(10):
        finished, thread = False, None
        start = time.perf_counter()
        try:
            thread = interrupt_later(delay)
            work()
            finished = True
            time.sleep(10)  # for the signal
        except KeyboardInterrupt:
            seconds = time.perf_counter() - start - delay
        assert thread is not None
        thread.join()
        if not finished:
            return seconds
        delay /= 2  # the machine has become faster
    raise AssertionError("the call was not interrupted")


def reaction(work: Callable[[], Any]) -> float:
    """Seconds from SIGINT to KeyboardInterrupt; three tries for one within SOON: other programs may hold the processor."""
    seconds = 0.0
    for _ in range(3):
        seconds = interrupt(work, 0.25 * LONG)
        if seconds < SOON:
            break
    return seconds


def repeated(call: Callable[[Any], Any], sample: Any, seconds: float = LONG) -> tuple[Callable[[], Any], Any]:
    """A call on so many copies of a batch that it takes this long, or as fit into moderate memory; and its input."""
    call(sample)
    start = time.perf_counter()
    call(sample)
    copies = 1 + int(min(seconds / max(1e-4, time.perf_counter() - start), LARGE / sample.nbytes))
    x = np.concatenate([sample] * copies)
    return (lambda: call(x)), x


def product() -> tuple[Callable[[Any], Any], Any]:
    layer = bn.FullyConnectedLayer(
        input=bn.Shape.vector(1024), output=bn.Shape.vector(1024), weights=numbers(1024, 1024)
    )
    return layer.apply, numbers(256, 1024)


def image_layer(channels: int, outputs: int, kernel: int, **options: Any) -> bn.ConvolutionLayer:
    return bn.ConvolutionLayer(
        input=bn.Shape.image_chw(40, 40, channels),
        weights=numbers(outputs, channels // options.get("group_count", 1), kernel, kernel),
        **options,
    )


def weights_gradient(layer: bn.ConvolutionLayer) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        shape = layer.apply(x[:1]).shape[1:]
        dy = np.ones((len(x), *shape), np.float32)
        return layer.apply_backward(
            input=x, output_gradient=dy, generating_input_gradient=bn.layers.skip,
            generating_bias_gradient=bn.layers.skip,
        )  # fmt: skip

    return run


def network(*modules: nn.Module, shape: tuple[int, ...]) -> tuple[Callable[[Any], Any], Any]:
    net = nn.Sequential(*modules).build(shape, seed=0).eval()
    return net.run, numbers(16, *shape)


CALLS: dict[str, Callable[[], tuple[Callable[[Any], Any], Any]]] = {
    "product": product,
    "winograd": lambda: (image_layer(32, 32, 3).apply, numbers(8, 32, 40, 40)),
    "winograd weights": lambda: (weights_gradient(image_layer(32, 32, 3)), numbers(8, 32, 40, 40)),
    "direct": lambda: (image_layer(32, 32, 3, dilation_stride=(2, 2)).apply, numbers(8, 32, 40, 40)),
    "direct weights": lambda: (weights_gradient(image_layer(32, 32, 3, dilation_stride=2)), numbers(8, 32, 40, 40)),
    "few channels": lambda: (image_layer(3, 16, 3).apply, numbers(8, 3, 40, 40)),
    "pointwise": lambda: (image_layer(64, 64, 1).apply, numbers(8, 64, 40, 40)),
    "depthwise": lambda: (image_layer(32, 32, 7, group_count=32).apply, numbers(8, 32, 40, 40)),
    "depthwise weights": lambda: (weights_gradient(image_layer(32, 32, 7, group_count=32)), numbers(8, 32, 40, 40)),
    "attention": lambda: network(nn.MultiheadAttention(64, 4), shape=(128, 64)),
    "lstm": lambda: network(nn.LSTM(64), shape=(32, 64)),
    "softmax": lambda: (
        bn.ActivationLayer(function=bn.ActivationFunction.softmax(), input=bn.Shape.vector(1000)).apply,
        numbers(1024, 1000),
    ),
    "pooling": lambda: network(nn.MaxPool2d(7, stride=1), shape=(16, 40, 40)),
}


def check_reactions() -> None:
    slow = {}
    for name, make in CALLS.items():
        work, _ = repeated(*make())
        seconds = reaction(work)
        if seconds > SOON:
            slow[name] = round(seconds, 2)
    assert not slow, slow


def check_results_afterwards() -> None:
    """Calls that were interrupted are right when they run again, with one thread and with several."""
    for threads in (1, 0):
        bn.set_num_threads(threads)
        for name in ("product", "winograd", "winograd weights", "attention", "lstm"):
            call, sample = CALLS[name]()
            expected = np.array(call(sample)[1] if "weights" in name else call(sample))
            work, _ = repeated(call, sample, SHORT)
            interrupt(work, SHORT / 4)
            again = call(sample)
            np.testing.assert_array_equal(again[1] if "weights" in name else again, expected)
    bn.set_num_threads(0)


def normalized() -> bn.FusedConvolutionNormalizationLayer:
    return bn.FusedConvolutionNormalizationLayer(
        input=bn.Shape.image_chw(40, 40, 32),
        convolution_weights=numbers(64, 32, 5, 5),
        normalization=bn.NormalizationType.batch(
            moving_mean=np.zeros(64, np.float32), moving_variance=np.ones(64, np.float32)
        ),
        normalization_epsilon=1e-5,
    )


def check_state_is_dropped() -> None:
    """An interrupted forward in training mode does not count: backward refuses it, and takes the next one."""
    layer, training = normalized(), bn.LearningPhase.TRAINING
    work, x = repeated(lambda x: layer.apply(x, phase=training), numbers(4, 32, 40, 40), SHORT)
    refused = False
    for _ in range(5):  # on a busy machine the signal may arrive before the kernels begin, when the last forward counts
        y = work()
        interrupt(work, SHORT / 4)
        try:
            layer.apply_backward(input=x, output=y, output_gradient=y)
        except bn.LayerApplyError as error:
            assert "training" in str(error)
            refused = True
            break
    assert refused
    part, fresh = x[:4], normalized()
    y, wanted = (made.apply(part, phase=training) for made in (layer, fresh))
    np.testing.assert_array_equal(y, wanted)
    ours, expected = (made.apply_backward(input=part, output=y, output_gradient=y) for made in (layer, fresh))
    np.testing.assert_array_equal(ours.input, expected.input)
    np.testing.assert_array_equal(ours.parameters[0], expected.parameters[0])


def check_handlers() -> None:
    call, sample = product()
    expected = np.array(call(sample))
    work, x = repeated(call, sample)

    def complete(y: Any) -> bool:
        return all(np.array_equal(y[i : i + len(sample)], expected) for i in range(0, len(x), len(sample)))

    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    thread = interrupt_later()
    assert complete(work())  # a handler that returns: the call has its result
    thread.join()
    assert seen == [signal.SIGINT]

    def refuse(number: int, frame: Any) -> None:
        raise OSError("our own")

    signal.signal(signal.SIGINT, refuse)
    thread = interrupt_later()
    with pytest.raises(OSError, match="our own"):
        work()
        time.sleep(1)
    thread.join()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    thread = interrupt_later()
    assert complete(work())
    thread.join()

    signal.signal(signal.SIGINT, before)  # as notebooks do before every cell
    assert reaction(work) < SOON


def check_other_threads() -> None:
    """KeyboardInterrupt is for the main thread; calls of others end in their own time."""
    call, sample = product()
    expected = np.array(call(sample))
    work, _ = repeated(call, sample, SHORT)
    results: list[Any] = []
    other = threading.Thread(target=lambda: results.append(work()))
    other.start()
    thread = interrupt_later()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(10)
    thread.join()
    other.join()
    np.testing.assert_array_equal(results[0][-len(sample) :], expected)


def check_fork() -> None:
    work, _ = repeated(*product())
    assert reaction(work) < SOON
    child = os.fork()
    if child == 0:
        os._exit(0 if reaction(work) < SOON else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def check_networks() -> None:
    """A pass that was interrupted has no backward; the next one is that of a fresh network."""

    def made() -> nn.Module:
        net = nn.Sequential(nn.Conv2d(16, 3), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(8))
        return net.build((8, 16, 16), seed=0)

    net, fresh, small = made(), made(), numbers(8, 8, 16, 16)
    work, _ = repeated(net.run, small, SHORT)
    interrupt(work, SHORT / 4)
    with pytest.raises(RuntimeError, match="there is no forward pass in training mode"):
        net.backward(np.ones((8, 8)))
    net.load_state_dict(fresh.state_dict())  # moving statistics
    ours, wanted = net(small), fresh(small)
    np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_array_equal(net.backward(np.ones_like(ours)), fresh.backward(np.ones_like(ours)))


def check_lstm_cache() -> None:
    """A training cache counts as filled when it is, not before: also one that was filled by an earlier call."""
    layer = bn.LSTMLayer(input_weights=numbers(4, 1, 128, 128), hidden_weights=numbers(4, 1, 1, 128, 128))
    training = bn.LearningPhase.TRAINING
    seconds, steps = 0.0, 64
    while seconds < SHORT:
        steps *= 2
        x = numbers(steps, 64, 128)
        cache = layer.apply(x, phase=training).cache
        start = time.perf_counter()
        layer.apply(x, phase=training, cache=cache)
        seconds = time.perf_counter() - start
    dy = np.ones((steps, 64, 1, 128), np.float32)
    layer.apply_backward(x, output_gradient=dy, cache=cache)
    interrupt(lambda: layer.apply(x, phase=training, cache=cache), SHORT / 4)
    with pytest.raises(bn.LayerApplyError, match="cache"):
        layer.apply_backward(x, output_gradient=dy, cache=cache)


@pytest.mark.parametrize(
    "check",
    [
        check_reactions,
        check_results_afterwards,
        check_state_is_dropped,
        check_handlers,
        check_other_threads,
        check_fork,
        check_networks,
        check_lstm_cache,
    ],
    ids=lambda check: check.__name__,
)
def test_interrupt(check: Callable[[], None]) -> None:
    in_fresh_process(check)

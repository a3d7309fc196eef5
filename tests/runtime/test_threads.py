"""Threads, forks and time: one filter from many threads, work after a fork, memory that does not grow."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from cases import activation, arithmetic, convolution, fully_connected, transposed_convolution
from cases._base import Act, Case, native, parameters
from helpers import vector
from openbnns import FullyConnectedLayer, capi, engines, nn
from openbnns.calls.fast import declined
from openbnns.capi import BNNSFilterParameters, BNNSFlags
from openbnns.graph.seeds import next_seed, undisturbed
from openbnns.tensors.wide import float64_memory

LARGE = [
    fully_connected.case("threads", 256, 192, 64, activation=Act("Tanh")),
    convolution.case("threads", 32, 32, (20, 20), (3, 3), symmetric=(1, 1), batch=4, activation=Act("RectifiedLinear")),
    convolution.case("threads-depthwise", 32, 32, (20, 20), (3, 3), symmetric=(1, 1), groups=32, batch=8),
    transposed_convolution.case("threads", 32, 16, (10, 10), (4, 4), step=(2, 2), symmetric=(1, 1), batch=4),
    activation.case("threads", Act("Sigmoid"), vector(20000), batch=4),
    activation.case("threads-softmax", Act("Softmax"), vector(1000), batch=64),
    arithmetic.case(
        "threads",
        "MultiplyAdd",
        vector(20000),
        vector(20000),
        vector(1),
        batch=4,
        roles=(arithmetic.S, arithmetic.P, arithmetic.P),
    ),
]


@pytest.mark.parametrize("case", parameters(LARGE))
def test_four_threads_share_a_filter(case: Any) -> None:
    """Each thread brings its own memory; every result has the bits of a single-threaded run."""
    expected = native(case)
    shared = case.run(expected.values)
    failures: list[str] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            own = case.run(expected.values)
            own.filter = shared.filter
            start.wait()
            for turn in range(8):
                same = np.array_equal(own.forward(), expected.y)
                for name, storage in own.backward().items():
                    same = same and np.array_equal(storage.read(), expected.gradients[name])
                if not same:
                    failures.append(f"thread {number}, turn {turn}")
        except BaseException as error:  # reported below, where the test can fail
            failures.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def training_layers() -> dict[str, Any]:
    """Layers that keep something from forward to backward."""
    layer_norm, sample = openbnns.NormalizationType.layer(0), openbnns.Shape.vector(6)
    weights = np.eye(6, dtype=np.float32)
    return {
        "normalization": openbnns.NormalizationLayer(type=layer_norm, input=sample),
        "fused": openbnns.FusedFullyConnectedNormalizationLayer(
            input=sample, fully_connected_weights=weights, normalization=layer_norm, normalization_epsilon=1e-5
        ),
    }


@pytest.mark.parametrize("name", training_layers())
def test_a_forward_that_another_thread_has_replaced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward call that finds it gone after all checks is refused, and writes nothing."""
    layer = training_layers()[name]
    x, dx = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32), np.full((4, 6), 7, np.float32)
    y = layer.apply(x, phase=openbnns.LearningPhase.TRAINING)
    filter, check = layer._filter, layer._filter._require_training_forward

    def meanwhile(*arguments: Any) -> Any:
        result = check(*arguments)
        filter.plan.forget()  # as a training forward does first of all
        return result

    monkeypatch.setattr(filter, "_require_training_forward", meanwhile)
    monkeypatch.setattr(filter, "prepare", lambda form: declined)
    with pytest.raises(openbnns.LayerApplyError, match="another thread has begun a training forward"):
        layer.apply_backward(input=x, output=y, output_gradient=x, generating_input_gradient=dx)
    assert (dx == 7).all()


@pytest.mark.parametrize("name", training_layers())
def test_backward_while_another_thread_trains(name: str) -> None:
    """There is a training forward of this batch at any time: a backward call waits for the one that is under way."""
    layer = training_layers()[name]
    x = np.random.default_rng(0).standard_normal((512, 6)).astype(np.float32)
    y = layer.apply(x, phase=openbnns.LearningPhase.TRAINING)
    expected, actual = np.zeros_like(x), np.zeros_like(x)
    layer.apply_backward(input=x, output=y, output_gradient=x, generating_input_gradient=expected)
    stop, failures = threading.Event(), []

    def train() -> None:
        while not stop.is_set():
            layer.apply(x, phase=openbnns.LearningPhase.TRAINING)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(1500):
            try:
                layer.apply_backward(input=x, output=y, output_gradient=x, generating_input_gradient=actual)
            except openbnns.LayerApplyError as error:
                failures.append(str(error))
                continue
            if not np.array_equal(actual, expected):
                failures.append("another result")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, f"{len(failures)}: {failures[0]}"


def test_filters_are_made_and_destroyed_in_threads() -> None:
    """Creation, use and destruction of different filters at once, with the thread limit changing meanwhile."""
    small: list[Any] = [
        fully_connected.case("many", 17, 13, 3), convolution.case("many", 3, 4, (7, 7), (3, 3)),
        activation.case("many", Act("ELU", 1.0), vector(113)), arithmetic.case("many", "Add", vector(113), vector(113)),
    ]  # fmt: skip
    expected = [native(case) for case in small]
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                k = (number + turn) % len(small)
                run = small[k].run(expected[k].values)
                if not np.array_equal(run.forward(), expected[k].y):
                    failures.append(small[k].id)
                run.filter.destroy()
        except BaseException as error:  # reported below
            failures.append(repr(error))

    before = openbnns.get_num_threads()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    try:
        for thread in threads:
            thread.start()
        for count in (1, 2, 3, 4) * 10:
            openbnns.set_num_threads(count)
        for thread in threads:
            thread.join()
    finally:
        openbnns.set_num_threads(before)
    assert not failures


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_thread_limit_does_not_change_results(count: int) -> None:
    before = openbnns.get_num_threads()
    openbnns.set_num_threads(count)
    try:
        assert openbnns.get_num_threads() == count
        for case in LARGE:
            expected = native(case)
            run = case.run(expected.values)
            assert np.array_equal(run.forward(), expected.y)
            for name, storage in run.backward().items():
                assert np.array_equal(storage.read(), expected.gradients[name]), f"{case.id}: {name}"
    finally:
        openbnns.set_num_threads(before)


def moving_layers() -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Layers that cut (16, 23, 29) samples into rows, and the shapes of their results."""
    sample, mode = openbnns.Shape.image_chw(29, 23, 16), openbnns.PaddingMode
    pairs = [(1, 0), (2, 3), (4, 1)]
    layers: dict[str, tuple[Any, tuple[int, ...]]] = {
        name: (openbnns.PaddingLayer(input=sample, mode=m, size=pairs), (21, 28, 30))
        for name, m in (
            ("constant", mode.constant_scalar(2.0)),
            ("reflect", mode.reflect()),
            ("symmetric", mode.symmetric()),
        )
    }
    for method in openbnns.InterpolationMethod:
        for wide, high in ((58, 46), (13, 31), (8, 9)):
            out = openbnns.Shape.image_chw(wide, high, 16)
            layer = openbnns.ResizeLayer(interpolation_method=method, input=sample, output=out)
            layers[f"{method.name} to {wide}x{high}"] = (layer, (16, high, wide))
    return layers


@pytest.mark.parametrize("name", moving_layers())
def test_rows_are_the_same_in_any_thread(name: str) -> None:
    layer, shape = moving_layers()[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((9, 16, 23, 29)).astype(np.float32)
    dy = rng.standard_normal((9, *shape)).astype(np.float32)
    before = openbnns.get_num_threads()
    results = {}
    try:
        for count in (1, 2, 5, 2):
            openbnns.set_num_threads(count)
            results[count] = layer.apply(x), layer.apply_backward(output_gradient=dy).input
            for mine, alone in zip(results[count], results[1], strict=True):
                np.testing.assert_array_equal(mine, alone)
    finally:
        openbnns.set_num_threads(before)
    with openbnns.engine("reference"):
        exact = layer.apply(x), layer.apply_backward(output_gradient=dy).input
    for mine, right in zip(results[1], exact, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("threads", [0, 3])
def test_work_after_a_fork(threads: int) -> None:
    """A child has no worker threads of its parent's pool, yet computes the same; the parent goes on."""
    runs = [(case.run(native(case).values, threads), native(case)) for case in LARGE]
    for run, _ in runs:
        run.forward()

    def same(run: Any, expected: Any) -> bool:
        return np.array_equal(run.forward(), expected.y) and all(
            np.array_equal(storage.read(), expected.gradients[name]) for name, storage in run.backward().items()
        )

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads: the point here
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if all(same(run, expected) for run, expected in runs) else 2
        finally:
            os._exit(status)
    _, result = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(result) == 0
    assert all(same(run, expected) for run, expected in runs)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to read the memory in use")
def test_memory_does_not_grow() -> None:
    """A thousand calls with changing shapes, filters made and dropped: scratch is reused, nothing leaks."""

    def cases(turn: int) -> list[Case]:
        n = turn % 25
        return [
            fully_connected.case("grow", 30 + 7 * n, 60 - n, 1 + n % 7, activation=Act("Tanh")),
            convolution.case("grow", 1 + n % 9, 8 + n, (9 + n, 20 - n % 10), (3, 3), batch=1 + n % 3),
            activation.case("grow", Act("Softmax"), vector(100 + 11 * n), batch=3),
            arithmetic.case(
                "grow", "Multiply", vector(100 + 11 * n), vector(1), batch=3, roles=(arithmetic.S, arithmetic.P)
            ),
        ]

    def turns(first: int, last: int) -> None:
        for turn in range(first, last):
            for case in cases(turn):
                run = case.run()
                run.forward()
                run.backward()

    turns(0, 50)  # every shape has been seen
    gc.collect()
    before = resident_bytes()
    turns(50, 300)
    gc.collect()
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"{grown / 1024:.0f} KiB more after 1000 calls"
    engines._core.release_scratch()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux lists them")
def test_more_threads_than_cores_are_shares_of_work_only() -> None:
    """A filter that asks for 64 threads starts no more than there are cores, and later calls do not wait for them."""
    case = LARGE[1]
    expected, before = native(case), len(list(Path("/proc/self/task").iterdir()))
    layer = openbnns.ConvolutionLayer(
        input=np.ones((4, 32, 20, 20), np.float32),
        weights=np.ones((32, 32, 3, 3), np.float32),
        filter_parameters=capi.BNNSFilterParameters(n_threads=64),
    )
    layer.apply(np.ones((4, 32, 20, 20), np.float32))
    assert len(list(Path("/proc/self/task").iterdir())) <= before + (os.cpu_count() or 1)
    assert np.array_equal(native(case).y, expected.y)


OUT_OF_MEMORY = """
import resource, sys
import numpy as np
from openbnns import *

w = np.ones((128, 128, 4, 4), np.float32)
padding = ConvolutionPadding.symmetric(1, 1)
layer = ConvolutionLayer(input=Shape.image_chw(128, 128, 128), weights=w, stride=(2, 2), padding=padding)
x, y, dw = np.ones((2, 128, 128, 128), np.float32), np.zeros((2, 128, 64, 64), np.float32), np.zeros_like(w)
first = ConvolutionLayer(input=Shape.image_chw(64, 64, 2), weights=w[:64, :2].copy())
first.apply(np.ones((8, 2, 64, 64), np.float32))  # starts the threads
status = open("/proc/self/status").read()
used = 1024 * int(status.split("VmSize:")[1].split()[0])
resource.setrlimit(resource.RLIMIT_AS, (used + 1024 * int(sys.argv[1]), resource.RLIM_INFINITY))
for call in (lambda: layer.apply(x, y), lambda: layer.apply_backward(x, y, y, skip, dw, skip)):
    try:
        call()
    except LayerApplyError as error:
        assert "not enough memory" in str(error), error
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
layer.apply(x, y)
print(y[0, 0, 1, 1], y[1, 127, 0, 0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux to limit memory")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer ends a process without memory")
@pytest.mark.parametrize("room", [1000, 4000, 8000, 14000])
def test_a_thread_without_memory_fails_its_call_only(room: int) -> None:
    """Whichever thread finds no room for its scratch, the call fails when all have come to rest, and the next one works."""
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(room)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2048.0", "1152.0"]


LIVES_TO_THE_END = """
import threading
import numpy as np
from openbnns import FullyConnectedLayer, Shape
layer = FullyConnectedLayer(input=Shape.vector(8), weights=np.ones((8, 8), np.float32))
x = np.ones((1, 8), np.float32)
thread = threading.Thread(target=lambda: layer.apply(x))
thread.start()
thread.join()
print(layer.apply(x)[0, 0])
"""


def test_a_filter_that_lives_to_the_end_of_the_program_ends_silently() -> None:
    done = subprocess.run([sys.executable, "-c", LIVES_TO_THE_END], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "8.0\n", "")


@pytest.mark.parametrize("subject", ["network", "layer"])
def test_a_gradient_check_changes_nothing_in_other_threads(subject: str) -> None:
    """Layers made, applied and trained while another thread checks gradients in float64 are right then and afterwards."""
    ones = np.ones((1, 3), np.float32)
    ended, failures = threading.Event(), list[str]()

    def check() -> None:
        try:
            while not ended.is_set():
                if subject == "network":
                    checked: Any = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
                else:
                    checked = FullyConnectedLayer(weights=ones, bias=np.zeros(1, np.float32))
                engine = None if subject == "network" else "reference"
                openbnns.gradcheck(checked, np.ones((2, 3), np.float32), engine=engine, verbose=False)
        except BaseException as error:  # reported below
            failures.append(repr(error))

    thread = threading.Thread(target=check)
    thread.start()
    made, seen = [], set[tuple[float, str]]()
    try:
        for _ in range(1500):
            layer = FullyConnectedLayer(weights=ones, bias=None)
            made.append(layer)
            seen.add((float(layer.apply(ones)[0, 0]), openbnns.current_engine()))
    finally:
        ended.set()
        thread.join()
    assert not failures
    assert seen == {(3.0, "native")}
    assert {float(layer.apply(ones)[0, 0]) for layer in made} == {3.0}


@pytest.mark.parametrize("flags", [0, BNNSFlags.BNNSFlagsUseClientPtr])
def test_parameters_in_float64_are_refused_on_the_native_engine(flags: int) -> None:
    """Native kernels would read float64 memory as float32."""
    with float64_memory():
        parameters = BNNSFilterParameters(flags=flags)
        layer = FullyConnectedLayer(weights=np.ones((1, 3)), bias=None, filter_parameters=parameters)
        assert layer.apply(np.ones((1, 3)), np.empty((1, 1))).tolist() == [[3]]
    for _ in range(2):
        with pytest.raises(openbnns.LayerApplyError, match="float64_memory, so its parameters are float64"):
            layer.apply(np.ones((1, 3), np.float32))
    with openbnns.engine("reference"):
        assert layer.apply(np.ones((1, 3), np.float32)).tolist() == [[3]]


def test_networks_stay_native_while_another_thread_uses_float64() -> None:
    """Bit for bit the same results, in programs made before the block, in it and used after it."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    x = np.ones((2, 3), np.float32)
    before = net(x)
    started, ended = threading.Event(), threading.Event()

    def block() -> None:
        with float64_memory():
            started.set()
            ended.wait()

    for other in (net, nn.Sequential(*net).eval()):  # one that has run, one that has not
        thread = threading.Thread(target=block)
        thread.start()
        started.wait()
        try:
            for _ in range(5):
                assert engines.is_native()
                np.testing.assert_array_equal(other(x), before)
        finally:
            ended.set()
            thread.join()
        started.clear()
        ended.clear()
        for _ in range(3):
            np.testing.assert_array_equal(other(x), before)


def test_a_draw_in_another_thread_is_not_drawn_again() -> None:
    """Seeds drawn while a block of another thread is undisturbed are not given out once more after it."""
    started, drawn = threading.Event(), threading.Event()

    def block() -> None:
        with undisturbed():
            started.set()
            drawn.wait()

    thread = threading.Thread(target=block)
    thread.start()
    started.wait()
    meanwhile = next_seed()
    drawn.set()
    thread.join()
    assert next_seed() != meanwhile

"""Many threads on everything that threads share: tables of known calls, plans and numbers, contexts, messages, networks.

On a Python without a global lock they are in our code at the same time; on others they take turns as often as Python lets them.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import openbnns as bn
import raw
from cases.contract import ROWS
from helpers import Array
from networks import Net, problem
from openbnns import capi, engines, nn
from openbnns.capi import numbers
from raw import described
from raw_problems import FIELDS, c_fields, optimizer_arrays
from simultaneous import require, together

THREADS = 6

pytestmark = pytest.mark.usefixtures("short_turns")


def hammer(work: Callable[[int], None], meanwhile: Callable[[], None] | None = None) -> None:
    require(together(work, THREADS, meanwhile))


def forget_everything() -> None:
    """Forget known calls, plans and rules, as a change of a setting does."""
    engines._core.forget_calls()
    engines._core.forget_lstm()
    engines._core.forget_optimizers()


LOCKED = "getattr(sys, '_is_gil_enabled', lambda: True)()"
IMPORT = f"import sys, numpy; before = {LOCKED}; import openbnns._core, openbnns.nn; print(before, {LOCKED})"


def test_importing_turns_no_lock_on() -> None:
    """A free-threaded Python takes its global lock back for modules that do not say that they need none."""
    done = subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True)
    before, after = done.stdout.split()
    assert before == after
    assert not done.stderr


def test_filters_of_every_family() -> None:
    """Made, run forward and backward, and dropped, by each thread in an order of its own: the bits of a single thread."""
    rows = [row for row in ROWS if not row.draws]
    expected: dict[str, dict[str, Array]] = {}

    def results(row: object) -> dict[str, Array]:
        trial = row.trial()  # type: ignore[attr-defined]
        outputs = trial.forward().items()  # a cache has addresses in it
        arrays = {f"output {name}": array for name, array in outputs if name != "backprop_cache"}
        if trial.gradients:
            arrays |= {f"gradient {name}": storage.raw() for name, storage in trial.backward().items()}
        return arrays

    for row in rows:
        expected[row.id] = results(row)

    def work(number: int) -> None:
        for row in random.Random(number).sample(rows, len(rows)):
            for name, array in results(row).items():
                np.testing.assert_array_equal(array, expected[row.id][name], f"{row.id}: {name}")

    hammer(work, forget_everything)


def test_a_filter_that_another_thread_destroys() -> None:
    """A call that comes too late fails with a message; one that has begun ends with its result."""
    x = np.random.default_rng(0).standard_normal((16, 40)).astype(np.float32)
    weights = np.random.default_rng(1).standard_normal((30, 40)).astype(np.float32)
    expected = bn.FullyConnectedLayer(weights=weights).apply(x)

    def used() -> capi.BNNSFilter:
        filter = bn.FullyConnectedLayer(weights=weights).bnns_filter
        assert capi.BNNSFilterApplyBatch(filter, 16, x, 0, np.empty((16, 30), np.float32), 0) == 0
        return filter

    current = [used()]

    def work(number: int) -> None:
        y = np.zeros((16, 30), np.float32)
        for _ in range(400):
            filter = current[0]
            by_number = numbers.of_filter("BNNSFilterApplyBatch", filter) if number % 2 else 0
            y[:] = 7
            if by_number and raw.call(by_number, 16, x, 0, y, 0) == 0:
                pass
            elif capi.BNNSFilterApplyBatch(filter, 16, x, 0, y, 0) != 0:
                assert "destroyed" in str(bn.last_error())
                assert (y == 7).all()
                continue
            np.testing.assert_array_equal(y, expected)

    def replace() -> None:
        old, current[0] = current[0], used()
        capi.BNNSFilterDestroy(old)

    hammer(work, replace)


def test_known_calls() -> None:
    """More descriptions than a table keeps, from Python and by number, while all of them are forgotten now and then."""

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        for _ in range(150):
            rows, columns = (int(n) for n in generator.integers(1, 30, 2))
            x, y = generator.standard_normal((rows, columns)).astype(np.float32), np.zeros((columns, rows), np.float32)
            bn.transpose(x, y)
            np.testing.assert_array_equal(y, x.T)
            target = np.zeros_like(x)
            source, into = described(x), described(target)
            if raw.call(numbers.of_function("BNNSCopy"), into, source, None) != 0:
                assert capi.BNNSCopy(into, source, None) == 0, bn.last_error()
            np.testing.assert_array_equal(target, x)

    hammer(work, forget_everything)


@pytest.mark.parametrize(("function", "fields", "roles"), FIELDS)
def test_optimizers(function: int, fields: capi.Struct, roles: int) -> None:
    def steps(by_number: bool) -> list[Array]:
        own, groups = fields.copy(), optimizer_arrays(np.random.default_rng(3), roles)
        given = [len(groups[0]), *([described(array) for array in group] or None for group in groups), None]
        packed = np.frombuffer(c_fields(own), np.uint8)
        for _ in range(20):
            number = numbers.of_function("BNNSOptimizerStep") if by_number else 0
            if not number or raw.call(number, function, packed, *given) != 0:
                assert capi.BNNSOptimizerStep(function, own, *given) == 0, bn.last_error()
        return [array for group in groups for array in group]

    expected = steps(False)

    def work(number: int) -> None:
        for turn in range(5):
            for array, right in zip(steps((number + turn) % 2 == 1), expected, strict=True):
                np.testing.assert_array_equal(array, right)

    hammer(work, forget_everything)


def test_messages_and_strict_blocks() -> None:
    """The latest error and strict mode are a thread's own."""
    x, y = np.ones((2, 5), np.float32), np.zeros((2, 3), np.float32)
    filter = bn.FullyConnectedLayer(weights=np.ones((3, 5), np.float32)).bnns_filter

    def work(number: int) -> None:
        for turn in range(100):
            batch = -1 - number
            assert capi.BNNSFilterApplyBatch(filter, batch, x, 0, y, 0) == -1
            assert str(batch) in str(bn.last_error()), (batch, bn.last_error())
            own = np.zeros((2, 3), np.float32)
            if turn % 3 == number % 3:
                with bn.strict():
                    assert capi.BNNSFilterApplyBatch(filter, 2, x, 5, own, 3) == 0
            else:
                assert capi.BNNSFilterApplyBatch(filter, 2, x, 0, own, 0) == 0
            assert bn.last_error() is None
            assert (own == 5).all()

    before = bn.get_num_threads()
    try:
        hammer(work, lambda: bn.set_num_threads(random.choice([0, 1, 2])))
    finally:
        bn.set_num_threads(before)


def test_networks() -> None:
    """Each thread trains a network of its own; all of them have the same weights in the end, and share one for inference."""
    data, targets = problem()

    def trained() -> dict[str, Array]:
        trainer = nn.Trainer(Net(), "cross_entropy", nn.Adam(0.01), seed=4, quiet=True)
        trainer.fit(data, targets, epochs=3)
        return {name: array.copy() for name, array in trainer.network.state_dict().items()}

    expected = trained()
    net = Net()
    net.build(data.shape[1:])
    net.load_state_dict(expected)
    infer = net.compile_inference(4)
    right = infer(data[:4])

    def work(number: int) -> None:
        for _ in range(4):
            for name, array in trained().items():
                np.testing.assert_array_equal(array, expected[name], name)
            for _ in range(20):
                np.testing.assert_array_equal(infer(data[:4]), right)

    hammer(work, forget_everything)


def test_every_public_object(tmp_path: Path) -> None:
    """Objects that servers share: networks, also compiled or from files, functions, losses and layers, in any order at once."""
    x, labels = np.random.default_rng(0).standard_normal((8, 12)).astype(np.float32), np.arange(8) % 3
    images = np.random.default_rng(1).standard_normal((4, 2, 10, 10)).astype(np.float32)
    sequences = np.random.default_rng(2).standard_normal((3, 5, 6)).astype(np.float32)
    net = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 3))
    net.build((12,), seed=0).eval()
    net.save_model(tmp_path / "model.safetensors", task="classification", classes=["a", "b", "c"])
    loaded = nn.load_model(tmp_path / "model.safetensors")
    infer = net.compile_inference(8)
    seen = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)).build(
        (2, 10, 10), seed=0
    )
    seen.eval()
    recurrent, attention = (
        nn.LSTM(6, 7).build((5, 6), seed=0).eval(),
        nn.MultiheadAttention(6, 2).build(*[(5, 6)] * 3).eval(),
    )
    trainer = nn.Trainer(net, "cross_entropy", quiet=True)
    entropy, squares = nn.CrossEntropyLoss(), nn.FunctionLoss(lambda y, t: ((y - t) ** 2).mean())
    layer = bn.FullyConnectedLayer(weights=np.random.default_rng(3).standard_normal((5, 12)).astype(np.float32))
    F = nn.functional
    calls: list[Callable[[], object]] = [
        lambda: net(x), lambda: net(x[:3]), lambda: net(x.tolist()), lambda: net.predict(x, batch_size=3).values,
        lambda: infer(x), lambda: loaded.predict(x).probabilities, lambda: loaded.predict(x[:5]).labels, lambda: seen(images),
        lambda: recurrent(sequences), lambda: recurrent(sequences[:2])[1][0], lambda: attention(sequences, sequences, sequences),
        lambda: list(trainer.evaluate(x, labels).values()), lambda: trainer.predict(x, batch_size=5),
        lambda: entropy(x[:, :3], labels)[1], lambda: squares(x, 2 * x)[1], lambda: squares(x[:, :4], x[:, 1:5])[0],
        lambda: F.softmax(x, 1), lambda: F.conv2d(images, images[:, :, :3, :3]), lambda: F.layer_norm(x, 12), lambda: F.relu(x),
        lambda: layer.apply(x), lambda: net.state_dict()["0.weight"], lambda: net.summary(), lambda: repr(net),
    ]  # fmt: skip
    expected = [np.array(call()) for call in calls]
    before = bn.get_num_threads()

    def work(number: int) -> None:
        for number_of_call in random.Random(number).choices(range(len(calls)), k=150):
            with bn.strict(number_of_call % 7 == 0):
                got = np.array(calls[number_of_call]())
            np.testing.assert_array_equal(got, expected[number_of_call], f"call {number_of_call}")

    def disturb() -> None:
        bn.set_num_threads(random.choice([0, 1, 2]))
        forget_everything()
        nn.Sequential(nn.Linear(3), nn.ReLU())(x)  # recorded by another thread

    try:
        hammer(work, disturb)
    finally:
        bn.set_num_threads(before)


@pytest.mark.parametrize("first", ["native", "reference"])
def test_blocks_of_threads_that_overlap(first: str) -> None:
    """Whichever ends first, the engine is that of the blocks that are left, and in the end what it was before."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with bn.engine("reference"), bn.strict():
            inside.set()
            assert leave.wait(10)

    thread = threading.Thread(target=other)
    with bn.engine(first):
        thread.start()
        assert inside.wait(10)
        assert bn.current_engine() == "reference"
    assert bn.current_engine() == "reference"
    leave.set()
    thread.join()
    assert bn.current_engine() == "native"
    assert engines._watchers == 0

"""Networks that several threads use at the same time: inference side by side, training by one of them."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import Array
from networks import numbers
from openbnns import nn
from openbnns.graph import recordings as _recordings
from openbnns.graph.program import Program
from openbnns.nn.recording import recording_of
from simultaneous import require, together

THREADS = 4

pytestmark = pytest.mark.usefixtures("short_turns")


class Pair(nn.Module):
    """Two inputs, two outputs, a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(24, 300), nn.Linear(24, 300)

    def forward(self, x: Any, y: Any) -> Any:
        a, b = self.one(x), self.two(y)
        return {"sum": nn.functional.tanh(a + b), "product": a * b}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 300), nn.ReLU(), nn.BatchNorm1d(300), nn.Dropout(0.3), nn.Linear(300, 40))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 24, 24)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "mlp": (mlp, (24,), 1),
    "pooled images": (images, (576,), 1),
    "pair": (Pair, (24,), 2),
    "lstm": (lambda: nn.LSTM(8, 12), (5, 8), 1),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16), (5, 8), 1),
}


def flat(result: Any) -> list[Array]:
    if isinstance(result, dict):
        return list(result.values())
    return [np.asarray(result)]


@pytest.mark.parametrize("how", ["one size", "many sizes", "lists", "predict"])
@pytest.mark.parametrize("name", CASES)
def test_inference_side_by_side(name: str, how: str) -> None:
    """Each thread has its own samples, and gets the bits that one thread alone gets for them."""
    make, sample, count = CASES[name]
    net = make().build(*[sample] * count, seed=1).eval()
    sizes = [3 if how == "one size" else 1 + (i * 5) % 7 for i in range(6 * THREADS)]
    given = [[numbers(size, *sample, seed=10 * i + k) for k in range(count)] for i, size in enumerate(sizes)]
    run: Any = net
    if how == "lists":
        run = lambda *x: net(*(array.tolist() for array in x))  # noqa: E731
    elif how == "predict":
        run = lambda *x: net.predict(x if count > 1 else x[0], batch_size=2).values  # noqa: E731
    expected = [flat(run(*x)) for x in given]
    assert not np.array_equal(expected[0][0], expected[7][0])

    def work(number: int) -> None:
        for _ in range(3):
            for i in range(number, len(given), THREADS):
                for got, wanted in zip(flat(run(*given[i])), expected[i], strict=True):
                    np.testing.assert_array_equal(got, wanted)

    require(together(work, THREADS))


@pytest.mark.parametrize("name", ["pooled images", "lstm"])
def test_inference_side_by_side_on_the_reference_engine(name: str) -> None:
    make, sample, _ = CASES[name]
    net = make().build(sample, seed=1).eval()
    given = [numbers(2, *sample, seed=i) for i in range(2 * THREADS)]
    with bn.engine("reference"):
        expected = [np.asarray(net(x)) for x in given]

        def work(number: int) -> None:
            for i in range(number, len(given), THREADS):
                np.testing.assert_array_equal(np.asarray(net(given[i])), expected[i])

        require(together(work, THREADS))


def test_threads_compute_at_the_same_time() -> None:
    """Both calls are in the middle of the network before either goes on."""
    met = threading.Barrier(2)
    built: list[bool] = []

    class Meeting(nn.Function):
        @staticmethod
        def forward(ctx: Any, x: Array) -> Array:
            if built:  # recording tries it as well
                met.wait(30)
            return x

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return Meeting.apply(x * 2)

    net = Net().build((3,)).eval()
    built.append(True)
    given = [numbers(2, 3, seed=k) for k in range(2)]
    require(together(lambda k: np.testing.assert_array_equal(net(given[k]), 2 * given[k]), 2))


def test_first_calls_build_once() -> None:
    """All threads call a network that was not built before, and one of its parts by itself, which shares its parameters."""
    for seed in range(20):
        nn.manual_seed(seed)
        net = nn.Sequential(nn.Sequential(nn.Linear(30), nn.BatchNorm1d()), nn.Tanh(), nn.Linear(7)).eval()
        results: list[Any] = [None] * THREADS
        x = numbers(4, 9)

        def work(number: int, net: Any = net, results: list[Any] = results, x: Array = x) -> None:
            results[number] = (net if number % 2 else net[0])(x)

        require(together(work, THREADS))
        np.testing.assert_array_equal(results[1], results[3])
        np.testing.assert_array_equal(results[0], results[2])
        np.testing.assert_array_equal(results[1], net(x))
        np.testing.assert_allclose(results[0], x @ net[0][0].weight.data.T + net[0][0].bias.data, rtol=1e-4, atol=1e-5)


def test_programs_that_nobody_runs_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the number of calls, of threads that were there, or of batch sizes."""
    monkeypatch.setattr(_recordings, "_IDLE", 3)
    monkeypatch.setattr(_recordings, "IDLE_BYTES", 0)  # which small programs of more sizes may take
    net = mlp().build((24,), seed=0).eval()

    def work(number: int) -> None:
        for i in range(30):
            net(numbers(1 + i % 6, 24, seed=number))

    require(together(work, 8))
    idle = recording_of(net, False)._idle
    assert len(idle) <= 4
    assert all(1 <= len(programs) <= 3 for programs in idle.values())
    assert all(isinstance(program, Program) for programs in idle.values() for program in programs)


def test_a_call_that_fails_leaves_the_others_right() -> None:
    net = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2)).build((2,), seed=0).eval()
    x = np.array([[1, 2], [4, 0], [3, 3]])
    expected = net(x)

    def work(number: int) -> None:
        for _ in range(30):
            if number % 2:
                with pytest.raises(ValueError, match="rows of a table"):
                    net(x.astype(np.float32))
            else:
                np.testing.assert_array_equal(net(x), expected)

    require(together(work, THREADS))


# Training.


def train(net: nn.Module, number: int, steps: int = 200) -> None:
    loss, sgd = nn.MSELoss(), nn.SGD(net.parameters(), lr=0.01)
    x, y = numbers(4, 24, seed=number), numbers(4, 40, seed=100 + number)
    for _ in range(steps):
        _, gradient = loss(net(x), y)
        net.backward(gradient)
        sgd.step()


REFUSED = (
    r"(?:thread 'worker \d' is training Sequential at this moment|thread 'worker \d' has run the network in training mode since "
    r"this thread did|thread 'worker \d' has overwritten the gradients that this thread computed).*"
    r"A network can be trained by one thread at a time\. For inference call eval\(\) first.*copy\.deepcopy\(network\)"
)


def test_two_threads_that_train_are_told() -> None:
    net = nn.Sequential(nn.Linear(24, 300), nn.ReLU(), nn.Linear(300, 40)).build((24,), seed=0)
    failures = together(lambda number: train(net, number), 2)
    assert failures
    for failure in failures:
        with pytest.raises(RuntimeError, match=REFUSED):
            raise failure
    train(net, 0, 3)  # one thread, after the other ones have ended


def test_copies_train_in_threads() -> None:
    net = nn.Sequential(nn.Linear(24, 30), nn.ReLU(), nn.Linear(30, 40)).build((24,), seed=0)
    twins = [copy.deepcopy(net) for _ in range(THREADS)]
    require(together(lambda number: train(twins[number], 0, 20), THREADS))
    train(net, 0, 20)
    for twin in twins:
        np.testing.assert_array_equal(twin[0].weight.data, net[0].weight.data)  # type: ignore[index]


def in_thread(work: Callable[[], object]) -> BaseException | None:
    def alone(_: int) -> None:
        work()

    failures = together(alone, 1)
    return failures[0] if failures else None


def test_values_that_another_thread_has_overwritten() -> None:
    net = nn.Linear(3, 2).build((3,), seed=0)
    x = numbers(4, 3)
    y = net(x)
    assert in_thread(lambda: net(2 * x)) is None
    with pytest.raises(
        RuntimeError, match=r"Linear\.backward: thread 'worker 0' has run the network in training mode since"
    ):
        net.backward(y)
    net.backward(net(x))
    # A pass of one thread may be gone back through by another one, as long as no other has come in between.
    net(x)
    assert in_thread(lambda: net.backward(y)) is None


def test_gradients_that_another_thread_has_overwritten() -> None:
    net, x = nn.Linear(3, 2).build((3,), seed=0), numbers(4, 3)
    sgd = nn.SGD(net.parameters(), lr=0.1)
    net.backward(net(x))
    assert in_thread(lambda: net.backward(net(2 * x))) is None
    before = net.weight.data.copy()
    with pytest.raises(
        RuntimeError, match=r"SGD\.step: thread 'worker 0' has overwritten the gradients that this thread"
    ):
        sgd.step()
    np.testing.assert_array_equal(net.weight.data, before)
    net.backward(net(x))
    sgd.step()
    # Taking turns is fine, and so is a step that another thread makes.
    assert in_thread(lambda: (net.backward(net(x)), sgd.step())) is None
    net.backward(net(x))
    assert in_thread(sgd.step) is None
    net.backward(net(x))
    sgd.step()


def test_a_trainer_has_the_network_for_itself() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).build((3,), seed=0)
    x, y = numbers(8, 3), numbers(8, 1, seed=1)
    step = net[0].compile_step("mse", "sgd", 8)
    told: list[BaseException | None] = []

    class Other(nn.Callback):
        def on_epoch(self, trainer: Any, record: Any) -> None:
            attempts: list[Callable[[], object]] = [
                lambda: net(x),
                lambda: step(x, numbers(8, 4)),
                lambda: nn.Trainer(net, "mse", quiet=True).fit(x, y, epochs=1),
                lambda: net.predict(x),
            ]
            told.extend(in_thread(attempt) for attempt in attempts)

    nn.Trainer(net, "mse", nn.SGD(0.01), quiet=True).fit(x, y, epochs=1, callbacks=Other())
    for failure, who in zip(told, ["Sequential", "compile_step", r"Trainer\.fit"], strict=False):
        assert isinstance(failure, RuntimeError)
        with pytest.raises(
            RuntimeError, match=rf"{who}: thread 'MainThread' is training (Sequential|Linear) at this moment\."
        ):
            raise failure
    assert told[3] is None
    assert in_thread(lambda: net(x)) is None
    assert "_turn" not in vars(pickle.loads(pickle.dumps(net)))


def test_evaluation_of_one_trainer_by_several_threads() -> None:
    net = mlp().build((24,), seed=3)
    trainer = nn.Trainer(net, "mse", quiet=True)
    parts = [(numbers(30 + k, 24, seed=k), numbers(30 + k, 40, seed=50 + k)) for k in range(THREADS)]
    expected = [trainer.evaluate(x, y, batch_size=8) for x, y in parts]
    outputs = [trainer.predict(x, batch_size=8) for x, _ in parts]

    def work(number: int) -> None:
        x, y = parts[number]
        for _ in range(4):
            assert trainer.evaluate(x, y, batch_size=8) == expected[number]
            np.testing.assert_array_equal(trainer.predict(x, batch_size=8), outputs[number])

    require(together(work, THREADS))


# Settings and weights that change meanwhile.


def test_inference_during_steps_leaves_no_stale_weights() -> None:
    """Another thread packs weights while an optimizer writes them; after the last step they are those of the network."""
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)).build((256,), seed=0).eval()
    x, y = numbers(16, 256), numbers(16, 8, seed=1)
    for round in range(40):
        optimizer = nn.SGD(net.parameters(), lr=0.05)
        step = net.compile_step("mse", optimizer, 16)
        if round % 2:
            for parameter in net.parameters():
                parameter.grad[...] = 0.01 * np.sign(parameter.array)

        def work(number: int, step: Any = step, optimizer: Any = optimizer, by_itself: bool = bool(round % 2)) -> None:
            for _ in range(3):
                if number:
                    net(x)
                elif by_itself:
                    optimizer.step()
                else:
                    step(x, y)

        require(together(work, 2))
        actual = net(x)  # before the test asks for the values of its parameters, which are then read again
        twin = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8)).build((256,)).eval()
        twin.load_state_dict(net.state_dict())
        np.testing.assert_array_equal(actual, twin(x))


def test_weights_packed_in_the_middle_of_a_step_are_packed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8)).build((64,), seed=0).eval()
    x = numbers(16, 64)
    for _ in range(3):
        net(x)
    sgd = nn.SGD(net.parameters(), lr=0.1)
    for parameter in net.parameters():
        parameter.grad[...] = 1
    sgd._refresh()
    (bundle,) = sgd._step_groups
    real, seen = bundle.bnns.step, []

    def interrupted(**given: Any) -> None:
        net(x)
        real(**given)
        seen.append(net(x))  # all is written, but not announced

    monkeypatch.setattr(bundle.bnns, "step", interrupted)
    sgd.step()
    actual = net(x)
    twin = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 8)).build((64,)).eval()
    twin.load_state_dict(net.state_dict())
    assert seen
    np.testing.assert_array_equal(actual, twin(x))


def test_a_change_while_another_network_is_built_is_not_lost() -> None:
    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            begun.set()
            assert changed.wait(10)
            return self.linear(x)

    begun, changed = threading.Event(), threading.Event()
    net = nn.Sequential(nn.LeakyReLU(0.5)).eval()
    x = np.float32([[-4, 4]])
    assert net(x).tolist() == [[-2, 4]]
    other = threading.Thread(target=lambda: Slow().eval()(x))
    other.start()
    assert begun.wait(10)
    net[0].negative_slope = 0.25
    changed.set()
    other.join()
    assert net(x).tolist() == [[-1, 4]]


def test_a_change_while_the_network_itself_is_built_is_not_lost() -> None:
    class Slow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = 2.0

        def forward(self, x: Any) -> Any:
            y = x * self.factor
            begun.set()
            assert changed.wait(10)
            return y

    begun, changed = threading.Event(), threading.Event()
    net, x = Slow().eval(), np.float32([[1, 2]])
    other = threading.Thread(target=net, args=(x,))
    other.start()
    assert begun.wait(10)
    net.factor = 3.0
    changed.set()
    other.join()
    assert net(x).tolist() == [[3, 6]]

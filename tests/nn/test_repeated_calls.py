"""Calls of networks for inference, again and again: on several inputs, on inputs that grow, with weights that change.

Each mechanism that makes the second call cheaper is compared with a new network that has none of it.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from networks import numbers
from openbnns import nn
from openbnns.graph import recordings as _recordings
from openbnns.graph.operations.lstm import _ByLength
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from openbnns.nn.recording import recording_of


class Lookup(nn.Module):
    """Rows of a table by whole numbers, and a number for every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, ids: Any, weights: Any) -> Any:
        return {"rows": self.linear(self.table(ids)) * weights, "weights": weights + 1}


def test_several_inputs_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the same shapes and kinds go to a program at once, also in other widths, layouts and byte orders."""
    net = Lookup().build((5,), (1, 1), seed=0).eval()
    ids, weights = np.array([[1, 8, 0, 2, 2]]), numbers(1, 1, 1)
    expected = net(ids, weights)
    monkeypatch.setattr(nn.Module, "_inputs", lambda *_: pytest.fail("the inputs are checked again"))
    strided = np.repeat(ids, 2, axis=1)[:, ::2]
    for given in (ids, ids.astype(np.int32), ids.astype(np.uint16).astype(np.int16), strided, ids.astype(">i4")):
        for scale in (weights, weights.astype(np.float64), weights.astype(">f4")):
            result = net(given, scale)
            np.testing.assert_array_equal(result["rows"], expected["rows"])
            np.testing.assert_array_equal(result["weights"], expected["weights"])


def test_what_does_not_fit_is_refused_as_before() -> None:
    net = Lookup().build((5,), (1, 1), seed=0).eval()
    ids, weights = np.array([[1, 8, 0, 2, 2]]), numbers(1, 1, 1)
    net(ids, weights)
    with pytest.raises(ValueError, match="takes whole numbers from it"):
        net(ids.astype(np.float32), weights)
    with pytest.raises(ValueError, match="the index 9 at sample 0"):
        net(ids + 1, weights)
    with pytest.raises(ValueError, match="input 1 is complex64"):
        net(ids, weights.astype(np.complex64))
    np.testing.assert_array_equal(net(ids, weights)["weights"], weights + 1)


class Decoder(nn.Module):
    """One step of attention over a past that becomes longer at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Any, keys: Any, values: Any) -> Any:
        keys, values = F.cat([keys, self.key(x)], 1), F.cat([values, self.value(x)], 1)
        return F.softmax(self.query(x) @ keys.transpose(1, 2), -1) @ values, keys, values


def decoded(net: nn.Module, steps: int) -> list[np.ndarray[Any, Any]]:
    keys = values = numbers(1, 1, 8, seed=1)
    results = []
    for step in range(steps):
        y, keys, values = net(numbers(1, 1, 8, seed=2 + step), keys, values)
        results.append(y)
    return results


def test_programs_of_a_growing_past_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second sequence makes no program, and has the results of a network that keeps none."""
    net = Decoder().build((1, 8), (1, 8), (1, 8), seed=0).eval()
    decoded(net, 12)
    again = copy.deepcopy(net)
    made = []
    whole = Program._make
    monkeypatch.setattr(Program, "_make", lambda self, *given: (made.append(self), whole(self, *given))[1])
    results = decoded(net, 12)
    assert not made
    for result, y in zip(results, decoded(again, 12), strict=True):
        np.testing.assert_array_equal(result, y)
    assert made


def test_programs_that_are_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their bytes are bounded, weights that layers have in another form included; a few stay whatever they take."""
    net = nn.Sequential(nn.Linear(100), nn.ReLU(), nn.Linear(3)).build((30,), seed=0).eval()
    recording = recording_of(net, False)

    def run() -> int:
        for count in range(1, 41):
            net(numbers(count, 30))
        return sum(p.kept_bytes for lent in recording._idle.values() for p in lent)

    limit = 300_000
    monkeypatch.setattr(_recordings, "IDLE_BYTES", limit)
    assert limit / 2 < run() <= limit
    assert len(recording._idle) > 4
    assert max(p.kept_bytes for lent in recording._idle.values() for p in lent) > 4 * 30 * 100
    monkeypatch.setattr(_recordings, "IDLE_BYTES", 0)
    run()
    assert len(recording._idle) == 4


@pytest.mark.parametrize("seed", range(12))
def test_an_lstm_of_random_sizes_follows_its_weights(seed: int) -> None:
    """Weights are kept joined or packed from call to call, until they change."""
    random = np.random.RandomState(seed)
    batch, steps, inputs, hidden = (int(random.choice(n)) for n in ((1, 2, 9), (1, 1, 2, 5), (3, 40, 130), (1, 17, 40)))
    net = nn.LSTM(inputs, hidden, bidirectional=bool(seed % 2)).build((steps, inputs), seed=seed).eval()
    x = numbers(batch, steps, inputs, seed=seed)
    for _ in range(3):
        for _ in range(4):
            y, _ = net(x)
        again = copy.deepcopy(net)  # without programs
        np.testing.assert_array_equal(y, again(x)[0])
        for parameter in net.parameters():
            parameter.data = parameter.data + 0.1


class WithLengths(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, lengths: Any) -> Any:
        y, states = self.layer(x, None, lengths=lengths)
        return y, states


@pytest.mark.parametrize("seed", range(6))
def test_an_lstm_over_lengths_equals_one_over_the_part(seed: int) -> None:
    """Lengths that are equal take another path than those that differ; many change in turns."""
    random = np.random.RandomState(seed)
    batch, steps, hidden = (1, 3)[seed % 2], 11, 1 + 16 * (seed % 3)
    net = (
        WithLengths(nn.LSTM(5, hidden, bidirectional=seed > 2, bias=seed != 1)).build((steps, 5), (), seed=seed).eval()
    )
    for run in range(25):
        x = numbers(batch, steps, 5, seed=run)
        lengths = random.randint(1, steps + 1, batch) if run % 3 == 0 else np.full(batch, random.randint(1, steps + 1))
        y, states = net(x, lengths)
        for i, length in enumerate(lengths):
            part, ends = net.layer(x[i : i + 1, :length])
            np.testing.assert_allclose(y[i : i + 1, :length], part, atol=1e-6)
            assert not y[i, length:].any()
            for state, end in zip(states, ends, strict=True):
                np.testing.assert_allclose(
                    np.asarray(state).reshape(len(end), batch, hidden)[:, i], end[:, 0], atol=1e-6
                )
        if run == 12:
            for parameter in net.parameters():
                parameter.data = 0.9 * parameter.data
    with pytest.raises(ValueError, match=f"sample 0 has length {steps + 1}"):
        net(x, np.full(batch, steps + 1))
    with pytest.raises(ValueError, match="sample 0 has length 0"):
        net(x, np.zeros(batch, np.int64))


def test_equal_lengths_run_natively() -> None:
    net = WithLengths(nn.LSTM(5, 7)).build((4, 5), (), seed=0).eval()
    for _ in range(3):
        net(numbers(2, 4, 5), np.array([3, 3]))
    program = recording_of(net, False).idle(((2, 4, 5), (2,)))
    assert program is not None
    runs = [call.func.__self__ for _, calls in program.forward_calls for call in calls if hasattr(call, "func")]
    (run,) = (one for one in runs if isinstance(one, _ByLength))
    (calls,) = run._native.values()
    assert set(calls.kinds()) == {"native"}


class Picking(nn.Module):
    """Entries and elements by whole numbers that are computed, so that other numbers lie there between two runs."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.table = axis, nn.Embedding(50, 3)

    def forward(self, x: Any, places: Any) -> Any:
        order = F.argsort(x, self.axis)
        taken = x[:, places] if self.axis == 1 else x[places]
        rows = self.table(F.argmax(x, 1))
        return F.gather(x, self.axis, order) * 2, taken + 1, rows * 3


@pytest.mark.parametrize("axis", [0, 1])
def test_lookups_run_natively(axis: int) -> None:
    x, places = numbers(4, 5), np.array([3, 1, 0])
    net = Picking(axis)
    net.build((5,), (), seed=0)
    net.eval()
    for seed in range(8):
        x, places = numbers(4, 5, seed=seed), np.random.RandomState(seed).randint(-3, 4, 3) if seed % 2 else places
        gathered, taken, rows = net(x, abs(places))
        np.testing.assert_array_equal(gathered, 2 * np.sort(x, axis))
        np.testing.assert_array_equal(taken, np.take(x, abs(places), axis) + 1)
        np.testing.assert_array_equal(rows, 3 * net.table.weight.data[x.argmax(1)])
    described = net.program(((4, 5), (3,)), training=False).describe()
    kinds = {row[1]: row[3] for row in described.rows if row[1] in ("Take", "TakeAlong", "Embedding")}
    assert kinds == {"Take": "native", "TakeAlong": "native", "Embedding": "native"}


def test_numbers_that_count_from_the_end_and_those_out_of_range() -> None:
    class Rows(nn.Module):
        def forward(self, x: Any, places: Any) -> Any:
            return x[places]

    rows, x = Rows().eval(), numbers(4, 5)
    for places in ([0, 3], [1, 2], [-1, 0], [2, -4], [1, 1], [0, 3]):
        np.testing.assert_array_equal(rows(x, np.array(places)), x[places])
    for places in ([0, 4], [-5, 1]):
        with pytest.raises(IndexError, match="has 4 entries"):
            rows(x, np.array(places))
    np.testing.assert_array_equal(rows(x, np.array([3, 0])), x[[3, 0]])

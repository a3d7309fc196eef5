"""net.profile: rows, names, arithmetic, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from networks import copies, numbers
from openbnns import nn
from openbnns.nn import functional as F

pytestmark = pytest.mark.usefixtures("engine")


def flop(net: nn.Module, *x: Any) -> list[tuple[int, int]]:
    return [(row.forward_flop, row.backward_flop) for row in net.profile(*x, repeats=1).rows]


def test_rows_of_a_training_step(engine: str) -> None:
    net = nn.Sequential(nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(5))
    profile = net.profile(numbers(3, 2, 6, 6), repeats=3)
    first, second = profile.rows
    assert (first.layer, first.computes, first.output) == ("0, 1, 2", "Conv2d + BatchNorm2d + ReLU", (3, 4, 6, 6))
    assert (second.layer, second.computes, second.output) == ("4", "Linear", (3, 5))
    assert first.parameters == 4 * 2 * 9 + 4 + 4 + 4
    assert second.parameter_bytes == 2 * 4 * (5 * 144 + 5)
    assert first.output_bytes == 3 * 4 * 36 * 4
    results = 3 * 4 * 36
    assert first.forward_flop == results * (2 * 2 * 9 + 1 + 8 + 1)
    assert first.backward_flop == results * (2 * 2 * 9 + 1 + 8 + 1)  # the input needs no gradient
    assert second.forward_flop == 15 * (2 * 144 + 1)
    assert second.backward_flop == 15 * (2 * 2 * 144 + 1)
    assert (profile.batch, profile.training, profile.engine, profile.runs) == (3, True, engine, 3)
    assert all(row.forward_ms > 0 and row.backward_ms > 0 for row in profile.rows)
    np.testing.assert_allclose(sum(row.share for row in profile.rows), 1)
    assert profile.forward_ms > 0
    assert profile.backward_ms > 0
    assert profile.planned_bytes > 0
    for row in profile.rows:
        seconds = (row.forward_ms + row.backward_ms) / 1e3
        np.testing.assert_allclose(row.gflops * 1e9 * seconds, row.forward_flop + row.backward_flop)


def test_inference_has_no_backward() -> None:
    net = nn.Sequential(nn.Linear(4), nn.Dropout(0.5), nn.Linear(3)).eval()
    profile = net.profile(numbers(2, 3), repeats=2)
    assert not profile.training
    assert profile.backward_ms == 0
    assert all(row.backward_ms == row.backward_flop == 0 for row in profile.rows)
    text = str(profile)
    assert "inference of 2 samples" in text
    assert "backward" not in text
    assert not net.training


@pytest.mark.parametrize(
    ("net", "shape", "forward"),
    [
        (nn.Conv2d(6, 3, groups=2), (2, 4, 5, 5), 2 * 6 * 9 * (2 * 2 * 9 + 1)),
        (nn.ConvTranspose2d(4, 6, 3, bias=False), (2, 4, 5, 5), 2 * (2 * 4 * 25) * 6 * 9),
        (nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), (2, 4, 5, 5), 2 * (2 * 4 * 25) * 3 * 9),
        (nn.MaxPool2d(2), (2, 3, 4, 4), 2 * 3 * 4 * 4),
        (nn.LayerNorm(7), (2, 7), 2 * 7 * 8),
        (nn.Softmax(dim=1), (2, 7), 2 * 7 * 5),
        (nn.Flatten(), (2, 3, 4), None),
        (nn.RNN(3, 4, batch_first=True), (2, 5, 3), 10 * (2 * 28 + 12)),
    ],
)
def test_arithmetic(net: nn.Module, shape: tuple[int, ...], forward: int | None) -> None:
    counts = [row[0] for row in flop(net, numbers(*shape))]
    assert counts == ([] if forward is None else [forward])


def test_arithmetic_of_products() -> None:
    class Products(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(numbers(4, 6))

        def forward(self, x: Any) -> Any:
            return F.einsum("nij,nkj->nik", (x @ self.weight), x @ self.weight.T.T)

    net = Products()
    profile = net.profile(numbers(2, 3, 4), repeats=1)
    products = [row.forward_flop for row in profile.rows if row.forward_flop]
    assert products == [2 * 2 * 3 * 6 * 4] * 2 + [2 * 2 * 3 * 3 * 6]
    attention = nn.MultiheadAttention(8, 2, batch_first=True)

    class Self(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    ((forward, backward),) = flop(Self(), numbers(2, 5, 8))
    scores = 2 * 2 * 5 * 5
    assert forward == 4 * 2 * 8 * 8 * 10 + 4 * 2 * 25 * 8 + 5 * scores
    assert backward == 4 * 2 * 8 * 8 * 10 + 4 * 2 * 25 * 8 + 5 * scores


def test_names_of_what_users_wrote() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return F.relu(self.one(x)) + x

    net = nn.Sequential(Block(), nn.Linear(2))
    rows = net.profile(numbers(3, 4), repeats=1).rows
    assert [(row.layer, row.computes) for row in rows] == [
        ("0.one, 0.relu", "Linear + relu"), ("0.add", "add"), ("1", "Linear"),
    ]  # fmt: skip


def test_the_network_stays_as_it_was() -> None:
    made = [
        nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.Dropout(0.5), nn.Linear(2)).build((3,), seed=0)
        for _ in range(2)
    ]
    x = numbers(6, 3)
    for one in made:
        one(x)
        one.backward(np.ones((6, 2)))
        one(x)
    net = made[0]
    before, gradients = copies(net), [p.grad.copy() for p in net.parameters()]
    net.profile(numbers(5, 3), repeats=2)
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        np.testing.assert_array_equal(parameter.grad, gradient)
    np.testing.assert_array_equal(*(one.backward(np.ones((6, 2))) for one in made))
    np.testing.assert_array_equal(*(one(x) for one in made))


def test_what_it_shows() -> None:
    net = nn.Sequential(nn.Linear(4), nn.Tanh(), nn.Linear(2))
    profile = net.profile(numbers(3, 5), repeats=2)
    lines = repr(profile).splitlines()
    assert lines[0].startswith("Sequential: a training step of 3 samples")
    assert "forward ms" in lines[1]
    assert "GFLOP/s" in lines[1]
    assert lines[3].startswith("0, 1   Linear + Tanh")
    assert lines[5].startswith("total")
    assert lines[6].startswith("whole passes: forward")
    assert "Linear + Tanh" in profile._repr_html_()
    known = json.loads(json.dumps(profile.to_dict()))
    assert known["rows"][0]["computes"] == "Linear + Tanh"
    assert known["rows"][0]["gflops"] > 0
    assert known["runs"] == 2


def test_several_inputs_and_the_number_of_runs() -> None:
    class Two(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a * b

    profile = Two().profile(numbers(2, 3), numbers(2, 3))
    assert profile.runs >= 5
    assert [row.computes for row in profile.rows] == ["mul"]
    assert profile.rows[0].backward_flop == 0  # nothing is trained


def test_mistakes() -> None:
    net = nn.Linear(2)
    wrong: Any
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match=r"Linear.profile: repeats is"):
            net.profile(numbers(2, 3), repeats=wrong)
    with pytest.raises(TypeError, match=r"pass the inputs of a call"):
        net.profile()
    with pytest.raises(ValueError, match=r"built for"):
        net.build((3,)).profile(numbers(2, 4))

"""gradcheck of networks, Functions and functions of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from function_checks import Applied
from helpers import Array
from networks import Net, copies, numbers
from openbnns import engines, nn
from openbnns.nn import functional as F
from openbnns.nn import gradient_check

pytestmark = pytest.mark.usefixtures("engine")


def check(subject: Any, *given: Any, **options: Any) -> ob.GradientReport:
    return ob.gradcheck(subject, *given, verbose=False, **options)


def passes(subject: Any, *given: Any, **options: Any) -> ob.GradientReport:
    report = check(subject, *given, **options)
    assert report.ok, str(report)
    assert all(row.verdict == "ok" for row in report.rows), str(report)
    return report


class Cube(nn.Function):
    @staticmethod
    def forward(ctx: Any, x: Array) -> Array:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, dy: Array) -> Array:
        (x,) = ctx.saved_tensors
        result: Array = 3 * x**2 * dy
        return result


class WrongCube(Cube):
    @staticmethod
    def backward(ctx: Any, dy: Array) -> Array:
        (x,) = ctx.saved_tensors
        result: Array = 2 * x**2 * dy
        return result


# Networks that are right.


def images(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


NETWORKS: dict[str, tuple[Any, Any]] = {
    "mlp": (lambda: Net(), numbers(5, 4)),
    "cnn": (
        lambda: images(
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 3, groups=1), nn.GELU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3),
        ),
        numbers(3, 2, 12, 12),
    ),
    "pooled chain": (
        lambda: images(nn.Conv2d(3, 3, padding=1), nn.BatchNorm2d(), nn.ReLU(), nn.MaxPool2d(2)), numbers(2, 2, 16, 16),
    ),
    "norms": (
        lambda: images(nn.GroupNorm(2, 4), nn.SiLU(), nn.InstanceNorm2d(4, affine=True), nn.LayerNorm((4, 3, 3))),
        numbers(2, 4, 3, 3),
    ),
    "transposed": (
        lambda: images(
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), nn.LeakyReLU(0.2),
            nn.ConvTranspose2d(6, 4, 2, groups=2), nn.Sigmoid(),
        ),
        numbers(2, 4, 3, 3),
    ),
    "padding and resizing": (
        lambda: images(
            nn.ReflectionPad2d(1), nn.PReLU(4), nn.PixelShuffle(2), nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.ReplicationPad2d(1),
        ),
        numbers(2, 4, 3, 3),
    ),
    "dropout": (lambda: images(nn.Linear(8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(2)), numbers(4, 3)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True), numbers(2, 5, 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_right_networks_pass(name: str) -> None:
    make, x = NETWORKS[name]
    report = passes(make(), x)
    assert {row.verdict for row in report.rows} == {"ok"}
    assert all(row.engine_error is not None and row.engine_error < 1e-3 for row in report.rows), str(report)
    assert max(row.relative_error for row in report.rows) < 1e-6, str(report)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_with_all_their_outputs(kind: Any) -> None:
    net = kind(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    report = passes(net, numbers(2, 5, 3), samples=4)
    assert len(report.rows) == 1 + 16


SEQUENCE = numbers(2, 5, 4)
LAYERS: dict[str, tuple[Any, ...]] = {
    "signals": (nn.Conv1d(4, 6, 3, padding=1, stride=2), numbers(2, 4, 9)),
    "dilated": (nn.Conv2d(4, 4, 3, dilation=2, padding=2, groups=4), numbers(2, 4, 6, 6)),
    "adaptive maximum": (nn.AdaptiveMaxPool2d((3, 2)), numbers(2, 4, 6, 6)),
    "powers": (nn.LPPool2d(2, 2), numbers(2, 4, 6, 6)),
    "averages": (nn.AvgPool2d(3, stride=2, padding=1), numbers(2, 4, 6, 6)),
    "RMS norm": (nn.RMSNorm(6), numbers(2, 6)),
    "norm of signals": (nn.BatchNorm1d(4), numbers(3, 4, 5)),
    "channels": (nn.Sequential(nn.Conv2d(4, 6, 1), nn.Dropout2d(0.5)), numbers(2, 4, 3, 3)),
    "softmax": (nn.Sequential(nn.Softmax(dim=1), nn.LogSoftmax(dim=1)), numbers(2, 4, 3, 3)),
    "LSTM with states": (nn.LSTM(4, 3, batch_first=True), SEQUENCE, (numbers(2, 1, 3), numbers(2, 1, 3, seed=1))),
    "GRU with states": (nn.GRU(4, 3, 2, batch_first=True, dropout=0.2), SEQUENCE, numbers(2, 2, 3)),
    "RNN": (nn.RNN(4, 3, nonlinearity="relu", batch_first=True), SEQUENCE),
    "decoder": (nn.TransformerDecoderLayer(4, 2, 8, batch_first=True), SEQUENCE, numbers(2, 3, 4)),
    "cross attention": (
        nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True, dropout=0.1), SEQUENCE,
        numbers(2, 3, 4), numbers(2, 3, 4, seed=1),
    ),
    "heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True),
        *(numbers(2, 3, 5, 4, seed=seed) for seed in range(3)),
    ),
    "rotary": (nn.RotaryEncoding(), SEQUENCE),
    "loss": (F.cross_entropy, numbers(4, 3), np.array([0, 2, 1, 1])),
    "reductions": (lambda x: x.std(1) + x.logsumexp(1) * x.norm(dim=1) + x.prod(1) + x.amin(1), numbers(3, 4)),
    "picks": (
        lambda x: F.cat([x[:, [2, 0, 0]] * x[:, -1:], x.roll(1, 1).unsqueeze(1).expand(-1, 2, -1).flatten(1)], 1),
        numbers(3, 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_functions(name: str) -> None:
    subject, *given = LAYERS[name]
    report = check(subject, *given, samples=3)
    assert report.ok, str(report)
    assert {row.verdict for row in report.rows} <= {"ok", "integers"}, str(report)


def test_arguments_in_tuples_have_names() -> None:
    report = check(*LAYERS["LSTM with states"], samples=1)
    assert [row.name for row in report.rows][:3] == ["input", "hx[0]", "hx[1]"]


def test_several_inputs_and_outputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(7, 3), nn.Linear(6, 2)

        def forward(self, tokens: Any, weights: Any) -> Any:
            embedded = self.table(tokens) * weights.unsqueeze(2)
            joined = F.cat([embedded.sum(1), embedded.amax(1)], dim=1)
            return {"score": self.head(joined), "best": joined.argmax(1), "norm": joined.norm(dim=1)}

    net = Two()
    tokens = np.random.RandomState(0).randint(0, 7, (4, 5))
    report = check(net, tokens, numbers(4, 5))
    assert report.ok
    verdicts = {row.name: row.verdict for row in report.rows}
    assert verdicts == {
        "tokens": "integers",
        "weights": "ok",
        "table.weight": "ok",
        "head.weight": "ok",
        "head.bias": "ok",
    }
    assert check(net, (tokens, numbers(4, 5))) == report
    assert check(net, {"weights": numbers(4, 5), "tokens": tokens}) == report


def test_tied_unused_and_frozen_parameters() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.spare, self.fixed = nn.Linear(3, 2), nn.Linear(3, 3)
            self.two.weight = self.one.weight
            self.fixed.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.two(F.tanh(self.fixed(self.one(x))))

    report = check(Tied(), numbers(2, 3))
    assert report.ok
    verdicts = {row.name: row.verdict for row in report.rows}
    assert verdicts == {
        "x": "ok", "one.weight = two.weight": "ok", "one.bias": "ok", "two.bias": "ok", "spare.weight": "unused",
        "spare.bias": "unused", "fixed.weight": "frozen", "fixed.bias": "frozen",
    }  # fmt: skip


def test_what_is_detached_is_a_constant() -> None:
    passes(Applied(lambda x: (x * x.detach() + x.detach() ** 2).sum(1)), numbers(3, 4))


# Functions.


def test_functions() -> None:
    x = numbers(3, 4)
    for subject in (Cube, Cube.apply, lambda x: Cube.apply(x) * 2):
        report = passes(subject, x)
        assert [row.name for row in report.rows] == ["x"]
        assert report.rows[0].shape == (3, 4)
        assert report.rows[0].entries == 12


class Scaled(nn.Function):
    """Arrays without a batch axis, an index, and a number that is passed on."""

    @staticmethod
    def forward(ctx: Any, x: Array, weight: Array, rows: Array, power: int) -> tuple[Array, Array]:
        ctx.save_for_backward(x, weight, rows)
        ctx.power = power
        return (x[rows] ** power) @ weight.T, x.sum()

    @staticmethod
    def backward(ctx: Any, dy: Array, ds: Array) -> Any:
        x, weight, rows = ctx.saved_tensors
        dx = np.zeros_like(x)
        np.add.at(dx, rows, ctx.power * x[rows] ** (ctx.power - 1) * (dy @ weight))
        return dx + ds, dy.T @ (x[rows] ** ctx.power), None, None


def test_a_function_with_other_arguments() -> None:
    report = passes(Scaled, numbers(4, 3), numbers(2, 3), np.array([0, 2, 2]), 3)
    assert [row.name for row in report.rows] == ["x", "weight"]


def test_functions_of_values_and_parameters() -> None:
    report = passes(
        lambda x, weight, p: (F.linear(x, weight) ** p).mean(), numbers(4, 3), nn.Parameter(numbers(2, 3)), 2
    )
    assert [row.name for row in report.rows] == ["x", "weight"]
    passes(F.softmax, numbers(3, 5), 1)


def test_a_wrong_backward_is_found_and_named() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.last(WrongCube.apply(F.tanh(self.first(x))))

    report = check(nn.Sequential(nn.Linear(3, 4), Block()), numbers(3, 3))
    assert not report
    assert report.failed == ["input", "0.weight", "0.bias", "1.first.weight", "1.first.bias"]
    assert report.notes == ("wrong backward pass: WrongCube, in 1 (Block)",)
    text = str(report)
    assert "GRADIENTS DISAGREE" in text
    assert "WrongCube" in text
    worst = report.worst
    assert worst is not None
    assert not worst.passed
    assert worst.relative_error > 0.1
    direct = check(WrongCube, numbers(2, 2))
    (row,) = direct.rows
    np.testing.assert_allclose(row.analytic / row.numeric, 2 / 3, rtol=1e-6)
    assert direct.notes == ("wrong backward pass: WrongCube",)


def test_what_has_no_gradient_is_not_blamed() -> None:
    """A table of constants, read at places that a run computes, has no gradient to compare."""
    table = numbers(5, 3)

    def function(x: Any) -> Any:
        return WrongCube.apply(x) * F.index_select(table, 0, F.argmax(x, 1))

    assert check(function, numbers(4, 3)).notes == ("wrong backward pass: WrongCube",)


def test_a_small_mistake_in_one_entry_is_found() -> None:
    class Slip(Cube):
        @staticmethod
        def backward(ctx: Any, dy: Array) -> Array:
            dx = Cube.backward(ctx, dy)
            dx[1, 2] *= 1.001
            return dx

    report = check(Slip, numbers(3, 4))
    assert [row.index for row in report.rows] == [(1, 2)]
    assert not report.ok


def test_a_mistake_outside_of_the_sample_is_found_along_a_direction() -> None:
    class Slip(Cube):
        @staticmethod
        def backward(ctx: Any, dy: Array) -> Array:
            return Cube.backward(ctx, dy) * np.where(np.arange(dy.shape[1]) < 50, 1, 1.01)

    for seed in range(3):
        assert not check(Slip, numbers(20, 100), samples=1, seed=seed).ok


def test_a_function_that_rounds_to_float32_is_refused() -> None:
    class Rounds(Cube):
        @staticmethod
        def forward(ctx: Any, x: Array) -> Array:
            return Cube.forward(ctx, x).astype(np.float32)

    with pytest.raises(TypeError, match=r"Rounds.forward gave float32 .* keep the type of its arguments"):
        check(Rounds, numbers(2, 2))


# Kinks.


def test_kinks_are_no_mistakes() -> None:
    x = numbers(3, 4)
    x[1, 2] = 0
    report = check(F.relu, x)
    assert report.ok
    (row,) = report.rows
    assert row.note == "1 at kinks"
    assert row.verdict == "ok"
    report = check(F.relu, np.zeros((2, 2), np.float32))
    assert [row.verdict for row in report.rows] == ["kink"]
    assert report.ok
    ties = check(lambda x: x.amax(1), np.ones((2, 3), np.float32))
    assert [row.verdict for row in ties.rows] == ["kink"]


def test_a_mistake_beside_a_kink_is_one() -> None:
    class Slope(nn.Function):
        @staticmethod
        def forward(ctx: Any, x: Array) -> Array:
            return np.maximum(x, 0)

        @staticmethod
        def backward(ctx: Any, dy: Array) -> Array:
            return 5 * dy

    assert not check(Slope, np.zeros((2, 2), np.float32)).ok
    near = np.full((2, 2), 3e-6, np.float32)  # closer to the kink than the first step
    passes(F.relu, near)


# What it leaves, what it shows.


def test_the_network_stays_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.Dropout(0.5), nn.Linear(2))
    x = numbers(6, 3)
    net.build((3,), seed=0)
    same = nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.Dropout(0.5), nn.Linear(2)).build((3,), seed=0)
    for one in (net, same):
        one(x)
        one.backward(np.ones((6, 2)))
        one(x)
    before, gradients = copies(net), [p.grad for p in net.parameters()]
    held = [g.copy() for g in gradients]
    assert check(net, numbers(4, 3)).ok
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    for parameter, array, numbers_before in zip(net.parameters(), gradients, held, strict=True):
        assert parameter.grad is array
        np.testing.assert_array_equal(array, numbers_before)
    dx = [one.backward(np.ones((6, 2))) for one in (net, same)]  # of the call before the check
    np.testing.assert_array_equal(*dx)
    np.testing.assert_array_equal(net(x), same(x))  # with the same draws of dropout


def test_an_error_leaves_it_as_it_was_too(engine: str) -> None:
    class Fails(Cube):
        @staticmethod
        def backward(ctx: Any, dy: Array) -> Array:
            raise ZeroDivisionError

    net = nn.Sequential(nn.Linear(3), Applied(Fails.apply))
    x = numbers(2, 3)
    y = net(x)
    with pytest.raises(ZeroDivisionError):
        check(net, x)
    assert engines.current() == engine
    assert all(p.data.dtype == np.float32 for p in net.parameters())
    np.testing.assert_array_equal(net(x), y)


def test_native_gradients_are_compared(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """A backward pass that is wrong in float32 only."""

    class Narrow(Cube):
        @staticmethod
        def backward(ctx: Any, dy: Array) -> Array:
            return Cube.backward(ctx, dy) * (1.1 if dy.dtype == np.float32 else 1.0)

    report = check(Applied(Narrow.apply), numbers(3, 4))
    (row,) = report.rows
    assert not report.ok
    assert row.relative_error < 1e-6
    np.testing.assert_allclose(row.engine_error, 0.1, rtol=1e-4)
    assert f"the {engine} gradient differs" in str(report)
    assert not report.notes


def test_the_table(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    net = nn.Sequential(nn.Linear(4), nn.Tanh(), nn.Linear(2))
    report = ob.gradcheck(net, numbers(3, 5), samples=3)
    printed = capsys.readouterr().out
    assert printed == f"{report}\n"
    lines = printed.splitlines()
    assert lines[0] == f"Sequential in float64 and on the {engine} engine, tolerance 1e-05"
    assert lines[1].split() == f"gradient shape checked worst error at analytic numeric {engine} error verdict".split()
    assert [line.split()[0] for line in lines[3:-1]] == ["input", "0.weight", "0.bias", "2.weight", "2.bias"]
    assert lines[-1] == "all gradients agree"
    assert repr(report).startswith("<GradientReport of Sequential in float64")
    page = replace(report, printed=False)._repr_html_() or ""
    assert "<table" in page
    assert "2.weight" in page
    assert check(net, numbers(3, 5), samples=3) == report
    assert check(net, numbers(3, 5), samples=3, seed=1) != report


def test_of_many_tensors_the_worst_are_shown() -> None:
    net = nn.Sequential(*(nn.Linear(2, 2) for _ in range(15)))
    report = check(net, numbers(2, 2), samples=1)
    text = str(report)
    assert "and 7 more with smaller errors" in text
    assert report.worst is not None
    assert report.worst.name in text.splitlines()[3]


def test_inputs_may_be_drawn() -> None:
    net = nn.Sequential(nn.Linear(3, 2))
    with pytest.raises(ValueError, match=r"Sequential needs inputs"):
        check(net)
    assert check(net.build((3,))).rows[0].shape == (3, 3)


def test_large_networks_are_checked_layer_by_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_check, "_BUDGET", 1e3)

    def net(function: Any) -> nn.Module:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
                self.two.weight = self.one.weight
                self.norm, self.scale = nn.BatchNorm1d(4), nn.Parameter(numbers(4))

            def forward(self, x: Any) -> Any:
                return self.norm(self.two(function(F.dropout(self.one(x), 0.3)) * self.scale)) + self.one(x)

        return Tied()

    report = check(net(Cube.apply), numbers(5, 4))
    assert report.ok, str(report)
    assert [row.name for row in report.rows] == [
        "x", "scale", "one.weight = two.weight", "one.bias", "two.bias", "norm.weight", "norm.bias", "all parameters",
    ]  # fmt: skip
    assert report.notes[0].startswith("a large network")
    assert report.notes[1].startswith("dropout")
    wrong = check(net(WrongCube.apply), numbers(5, 4))
    assert wrong.failed == ["x", "all parameters"]
    assert "wrong backward pass: WrongCube, in Tied" in wrong.notes


def test_large_tensors_take_a_sample() -> None:
    net = nn.Linear(300, 200)
    report = check(net, numbers(2, 300))
    assert {row.name: row.entries for row in report.rows} == {"input": 16, "weight": 16, "bias": 16}


def test_mistakes() -> None:
    net = nn.Linear(3, 2)
    with pytest.raises(RuntimeError, match=r"Linear is in inference mode.*Call train\(\)"):
        check(nn.Linear(3, 2).eval(), numbers(2, 3))

    class Noise(Cube):
        @staticmethod
        def forward(ctx: Any, x: Array) -> Array:
            return Cube.forward(ctx, x) + np.random.default_rng().standard_normal(x.shape)

    with pytest.raises(ValueError, match=r"Noise gives different results for the same inputs"):
        check(Noise, numbers(2, 3))
    with pytest.raises(ValueError, match=r"tolerance is 0.0"):
        check(net, numbers(2, 3), tolerance=0.0)
    with pytest.raises(ValueError, match=r"samples is 0"):
        check(net, numbers(2, 3), samples=0)
    with pytest.raises(ValueError, match=r"inputs have 2, 3 samples"):
        check(lambda a, b: a + b, numbers(2, 3), numbers(3, 3))
    with pytest.raises(ValueError, match=r"pass the arguments of the function"):
        check(Cube)
    with pytest.raises(ValueError, match=r"no array of floats"):
        check(Cube, 3)
    with pytest.raises(ValueError, match=r"gives integers only"):
        check(lambda x: x.argmax(1), numbers(2, 3))
    with pytest.raises(ValueError, match=r"is not finite"):
        check(F.log, np.zeros((2, 2), np.float32))
    with pytest.raises(TypeError, match=r"MSELoss is a loss on arrays.*nn.functional"):
        check(nn.MSELoss(), numbers(2, 3), numbers(2, 3))
    with pytest.raises(TypeError, match=r"<lambda>.forward returned a int"):
        check(lambda x: 3, numbers(2, 3))
    with pytest.raises(TypeError, match=r"is needed, not the class Linear"):
        check(nn.Linear, numbers(2, 3))
    with pytest.raises(ValueError, match=r"built for"):
        check(net.build((3,)), numbers(2, 4))

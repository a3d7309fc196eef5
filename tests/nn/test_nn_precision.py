"""Products in bfloat16: what is rounded, what is not, and where it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from bfloat16_formulas import Spatial, bfloat16, near, rounded
from openbnns import engines, nn
from openbnns.cli import main
from openbnns.nn import functional as F

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _only_where_possible(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU without these products, the tests show that sums of float32 are the only other thing that can happen."""
    if not engines._core.multiplies_bfloat16() and "refused" not in request.node.name:
        monkeypatch.setattr(engines, "check_precision", lambda name, who, *choices: name)
        monkeypatch.setattr(f"{__name__}.rounded", lambda x: np.asarray(x, np.float64))


def close(got: Array, expected: Array) -> bool:
    """Equal but for the rounding of float32 sums."""
    return bool(np.abs(got - expected).max() <= 2e-6 * np.abs(expected).max())


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(64, 33, 17), (9, 400, 31), (130, 1, 64)])
def test_linear(rows: int, inputs: int, outputs: int) -> None:
    rng = np.random.default_rng(1)
    x, dy = (rng.standard_normal((rows, n), dtype=np.float32) for n in (inputs, outputs))
    net = bfloat16(nn.Linear(inputs, outputs)).build((inputs,), seed=2)
    w, b = net.weight.data, net.bias.data
    assert close(net.train()(x), rounded(x) @ rounded(w).T + b)
    assert close(net.backward(dy), rounded(dy) @ rounded(w))
    assert close(net.weight.grad, rounded(dy).T @ rounded(x))
    assert close(net.bias.grad, dy.astype(np.float64).sum(0))


def test_few_rows_are_not_rounded() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((8, 50), dtype=np.float32)
    net = bfloat16(nn.Linear(50, 40)).build((50,), seed=3).eval()
    assert close(net(x), x.astype(np.float64) @ net.weight.data.T.astype(np.float64) + net.bias.data)


class _Products(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return F.matmul(a, b)


@pytest.mark.parametrize("shape", [(3, 20, 30, 40), (2, 65, 9, 129)])
def test_products_of_values(shape: tuple[int, ...]) -> None:
    n, rows, steps, columns = shape
    rng = np.random.default_rng(4)
    a, b, dy = (
        rng.standard_normal(s, dtype=np.float32) for s in ((n, rows, steps), (n, steps, columns), (n, rows, columns))
    )
    net = bfloat16(_Products()).train()
    assert close(net(a, b), rounded(a) @ rounded(b))
    da, db = net.backward(dy)
    assert close(da, rounded(dy) @ rounded(b).swapaxes(1, 2))
    assert close(db, rounded(a).swapaxes(1, 2) @ rounded(dy))


def test_pointwise_convolution() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 12, 13, 17), dtype=np.float32)
    net = bfloat16(nn.Conv2d(12, 19, 1)).build((12, 13, 17), seed=6).train()
    w, b = net.weight.data[:, :, 0, 0], net.bias.data
    y = net(x)
    assert close(y, np.einsum("oc,nchw->nohw", rounded(w), rounded(x)) + b[:, None, None])
    dy = rng.standard_normal(y.shape, dtype=np.float32)
    assert close(net.backward(dy), np.einsum("oc,nohw->nchw", rounded(w), rounded(dy)))


# Convolutions that no transform suits (Winograd): strides, dilations, groups, other kernels, small images.
SPATIAL = [
    Spatial((3, 12, 9, 11), 21, stride=(2, 2), padding=(1, 1)),
    Spatial((2, 37, 4, 4), 40, padding=(1, 1)),
    Spatial((5, 16, 3, 5), 33, padding=(1, 1)),
    Spatial((4, 9, 13, 8), 18, kernel=(1, 1), stride=(2, 2)),
    Spatial((2, 33, 5, 7), 27, kernel=(1, 1)),
    Spatial((3, 11, 14, 10), 17, dilation=(2, 3), padding=(2, 3)),
    Spatial((3, 20, 10, 9), 30, kernel=(2, 5), stride=(1, 3), padding=(1, 2), groups=2),
    Spatial((1, 70, 17, 6), 26, kernel=(7, 1), padding=(3, 0)),
]


@pytest.mark.parametrize("c", SPATIAL)
def test_convolution(c: Spatial) -> None:
    rng = np.random.default_rng(12)
    x = rng.standard_normal(c.x, dtype=np.float32)
    net = c.build()
    y = net(x)
    w, b = net.weight.data, net.bias.data
    dy = rng.standard_normal(y.shape, dtype=np.float32)
    dx = net.backward(dy)
    assert close(y, c.forward(rounded(x), rounded(w), y) + b[:, None, None])
    assert close(dx, c.input_gradient(rounded(dy), rounded(w)))
    assert close(net.weight.grad, c.weights_gradient(rounded(x), rounded(dy), w))
    assert close(net.bias.grad, dy.astype(np.float64).sum((0, 2, 3)))


def test_convolution_under_an_activation_rounds_the_gradient_behind_it() -> None:
    c = Spatial((3, 12, 9, 11), 21, stride=(2, 2), padding=(1, 1))
    rng = np.random.default_rng(13)
    x = rng.standard_normal(c.x, dtype=np.float32)
    net = bfloat16(nn.Sequential(nn.Conv2d(21, 3, stride=2, padding=1), nn.ReLU())).build(c.x[1:], seed=11).train()
    y = net(x)
    dy = rng.standard_normal(y.shape, dtype=np.float32)
    assert close(net.backward(dy), c.input_gradient(rounded(np.where(y > 0, dy, 0)), rounded(net[0].weight.data)))


class _Attention(nn.Module):
    """Attention of a value to another one, or to itself, with a mask or without one."""

    def __init__(self, width: int, heads: int, mask: Array | None) -> None:
        super().__init__()
        self.attention, self.mask = nn.MultiheadAttention(width, heads), mask

    def forward(self, q: Any, k: Any) -> Any:
        return self.attention(q, k, k, attn_mask=self.mask)[0]


@pytest.mark.parametrize("seed", range(20))
def test_attention_projects_in_bfloat16(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heads, (samples, queries, keys) = int(rng.integers(2, 5)), (int(n) for n in rng.integers((3, 9, 3), 30))
    width = heads * int(rng.integers(5, 12))
    mask = np.triu(np.ones((queries, keys), bool), 1) if seed % 2 else None
    x, other = (rng.standard_normal((samples, n, width), dtype=np.float32) for n in (queries, keys))
    net = bfloat16(_Attention(width, heads, mask)).build((queries, width), (keys, width), seed=15).train()
    y = net(x, other)
    weights = {name: p.data for name, p in net.attention.named_parameters()}

    def projected(x: Array, name: str, part: slice) -> Array:
        w, b = weights[f"{name}weight"][part], weights[f"{name}bias"][part].astype(np.float64)
        return rounded(x) @ rounded(w).T + b

    q, k, v = (
        projected(x, "in_proj_", slice(i * width, (i + 1) * width)).reshape(samples, -1, heads, width // heads)
        for i, x in enumerate((x, other, other))
    )
    scores = np.einsum("nqhi,nkhi->nhqk", q, k) / np.sqrt(width // heads)
    scores = np.exp(scores if mask is None else np.where(mask, -np.inf, scores))
    attended = np.einsum("nhqk,nkhi->nqhi", scores / scores.sum(-1, keepdims=True), v).reshape(samples, queries, width)
    # A number on the edge between two of bfloat16 may fall to the other one.
    expected = projected(attended, "out_proj.", slice(None))
    assert (np.abs(y - expected) > 2e-6 * np.abs(expected).max()).mean() <= 0.02 * engines._core.multiplies_bfloat16()
    dy = rng.standard_normal(y.shape, dtype=np.float32)
    net.backward(dy)
    gradient = np.einsum("nto,nti->oi", rounded(dy), rounded(attended))
    assert np.abs(net.attention.out_proj.weight.grad - gradient).max() < 1e-3 * np.abs(gradient).max()


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(70), nn.GELU(), nn.Linear(10)
    )


def _data(samples: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(7)
    return rng.standard_normal((samples, 1, 12, 12), dtype=np.float32), rng.integers(0, 10, samples)


def _trained(precision: str, steps: int = 12) -> tuple[list[float], nn.Module]:
    x, y = _data(48)
    net = _network().build((1, 12, 12), seed=8)
    step = net.compile_step("cross_entropy", nn.Adam(lr=2e-3), len(x), precision=precision)
    return [step(x, y) for _ in range(steps)], net


def test_steps_are_close_to_those_in_float32_and_bitwise_the_same_on_any_threads() -> None:
    exact, _ = _trained("float32")
    runs = []
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        runs.append(_trained("bfloat16")[0])
    bn.set_num_threads(0)
    assert runs[0] == runs[1] == runs[2]
    np.testing.assert_allclose(runs[0], exact, rtol=0.02, atol=0.01)
    assert not engines._core.multiplies_bfloat16() or runs[0] != exact


def test_a_compiled_step_is_the_loop() -> None:
    x, y = _data(48)
    compiled, _ = _trained("bfloat16", 3)
    net = bfloat16(_network().build((1, 12, 12), seed=8)).train()
    loss, optimizer = nn.CrossEntropyLoss(), nn.Adam(net.parameters(), lr=2e-3)
    values = []
    for _ in range(3):
        value, gradient = loss(net(x), y)
        net.backward(gradient)
        optimizer.step()
        values.append(float(value))
    assert values == compiled


def test_inference() -> None:
    x, _ = _data(32)
    net = _network().build((1, 12, 12), seed=9).eval()
    exact = net(x)
    assert np.array_equal(net.compile_inference(32)(x), net.compile_inference(32, precision="float32")(x))
    infer = net.compile_inference(32, precision="bfloat16")
    assert infer.precision == "bfloat16"
    assert np.abs(infer(x) - exact).max() < 0.02 * np.abs(exact).max()
    assert np.array_equal(net(x), exact)  # the network itself stays in float32
    assert np.array_equal(infer(x), bfloat16(net).compile_inference(32)(x))


def test_a_resumed_run_has_the_same_precision(tmp_path: Path) -> None:
    x, y = _data(64)

    def fit(precision: Any, epochs: int, resume: bool) -> Array:
        net = _network()
        trainer = nn.Trainer(net, out=tmp_path / "out", quiet=True, precision=precision)
        trainer.fit(x, y, epochs=epochs, resume=resume)
        return net.state_dict()["6.weight"].copy()

    fit("bfloat16", 1, False)
    resumed = fit("bfloat16", 2, True)
    with pytest.raises(ValueError, match=r"precision.*bfloat16.*float32"):
        fit("float32", 3, True)
    straight = _network()
    nn.Trainer(straight, quiet=True, precision="bfloat16").fit(x, y, epochs=2)
    assert np.array_equal(straight.state_dict()["6.weight"], resumed)


def test_digits_are_learned(tmp_path: Path) -> None:
    assert main(["train", "--epochs", "3", "--precision", "bfloat16", "--quiet", "--out", str(tmp_path / "out")]) == 0


def test_source_code_is_the_same(tmp_path: Path) -> None:
    written = []
    for precision in ("float32", "bfloat16"):
        net = _network().build((1, 12, 12), seed=8)
        net._precision = engines.check_precision(precision, "test")
        net.to_c(tmp_path / precision, training=True, batch_size=16, loss="cross_entropy", optimizer="adam")
        written.append((tmp_path / precision / "network.c").read_text())
    assert written[0] == written[1]


def test_refused_names() -> None:
    net = nn.Linear(2, 2)
    training = "'float32' or 'bfloat16'"
    for make, names in (
        (lambda precision: nn.Trainer(net, precision=precision), training),
        (lambda precision: net.compile_step("mse", "sgd", 2, precision=precision), training),
        (
            lambda precision: net.build((2,)).compile_inference(2, precision=precision),
            "'float32', 'bfloat16' or 'int8'",
        ),
    ):
        with pytest.raises(ValueError, match=rf"there is no precision 'half'. Choose {names}"):
            make("half")
        with pytest.raises(TypeError, match="precision must be a string, not int"):
            make(16)


def test_refused_on_other_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines._core, "multiplies_bfloat16", lambda: False)
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"Trainer: precision 'bfloat16' needs .* Use precision='float32'\."):
        nn.Trainer(net, precision="bfloat16")
    assert nn.Trainer(net, precision="float32").network is net
    monkeypatch.setattr(engines, "_core", None)
    with pytest.raises(ValueError, match="has no compiled core"):
        net.compile_step("mse", "sgd", 2, precision="bfloat16")


NETS = [
    lambda: nn.Sequential(nn.Conv2d(20, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(20)),
    lambda: nn.Sequential(nn.Flatten(), *[layer for _ in range(5) for layer in (nn.Linear(60), nn.ReLU())]),
    lambda: nn.Sequential(nn.Conv2d(24, 3, padding=2, dilation=2), nn.BatchNorm2d(), nn.Flatten(), nn.Linear(9)),
]


@pytest.mark.parametrize("make", NETS)
def test_gradient_checks_allow_for_rounding(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = make().build((17, 9, 9), seed=1), np.random.default_rng(16).standard_normal((9, 17, 9, 9))
    assert bn.gradcheck(net, x, samples=2, verbose=False).notes == ()
    before = [p.data.copy() for p in net.parameters()]
    report = bn.gradcheck(bfloat16(net), x, samples=2, verbose=False)
    assert report.passed and report.notes[0].startswith("products in bfloat16: the native error may be 0.")
    assert all(map(np.array_equal, before, [p.data for p in net.parameters()]))
    program = type(net.program(9, training=True))
    backward = program.backward

    def wrong(self: Any) -> None:
        backward(self)
        if self.trained[0].grad.dtype == np.float32:
            self.trained[0].grad *= 0.4

    monkeypatch.setattr(program, "backward", wrong)
    report = bn.gradcheck(net, x, samples=2, verbose=False)
    assert len(report.failed) == 1 and "native gradient differs" in str(report)


def test_gradient_checks_of_the_reference_engine_know_no_rounding() -> None:
    net = bfloat16(nn.Linear(20)).build((30,), seed=1)
    report = bn.gradcheck(net, np.ones((9, 30)), engine="reference", verbose=False)
    assert report.passed and report.notes == ()


class _Recurrent(nn.Module):
    def __init__(self, kind: str, hidden: int) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(hidden)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


def _unrounded(x: Array) -> Array:
    return np.asarray(x, np.float64)


def _outputs(kind: str, x: Array, p: dict[str, Array], r: Any, r_of_steps: Any) -> Array:
    """Hidden states after each step, from operands of products that are rounded."""
    first = r(x) @ r(p["weight_ih_l0"]).T + p["bias_ih_l0"]
    h = np.zeros((len(x), p["weight_hh_l0"].shape[1]))
    c, states = h, []
    for z in first.swapaxes(0, 1):
        added = r_of_steps(h) @ r_of_steps(p["weight_hh_l0"]).T + p["bias_hh_l0"]
        parts = list(zip(*(np.split(both, len(p["bias_hh_l0"]) // h.shape[1], 1) for both in (z, added)), strict=True))
        if kind == "LSTM":
            i, f, g, o = (a + b for a, b in parts)
            c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            h = _sigmoid(o) * np.tanh(c)
        else:
            reset, update = (_sigmoid(a + b) for a, b in parts[:2])
            h = (1 - update) * np.tanh(parts[2][0] + reset * parts[2][1]) + update * h
        states.append(h)
    return np.stack(states, 1)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("samples", "inputs", "hidden"), [(40, 33, 20), (5, 70, 110), (64, 12, 9), (9, 20, 110), (40, 33, 120)]
)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers(kind: str, samples: int, inputs: int, hidden: int) -> None:
    """Products over all steps are rounded, and those of steps with more than 8 samples and enough hidden units."""
    rng = np.random.default_rng(15)
    x = rng.standard_normal((samples, 7, inputs), dtype=np.float32)
    exact, ours = (_Recurrent(kind, hidden).build((7, inputs), seed=16).train() for _ in range(2))
    plain = exact(x).copy()
    dy = rng.standard_normal(plain.shape, dtype=np.float32)
    dx = exact.backward(dy).copy()
    gradients = [p.grad.copy() for p in exact.parameters()]
    steps_round = samples > 8 and hidden > 100
    parameters = {name: p.data.astype(np.float64) for name, p in exact.layer.named_parameters()}
    expected = _outputs(kind, x, parameters, rounded, rounded if steps_round else _unrounded)
    otherwise = _outputs(kind, x, parameters, rounded, _unrounded if steps_round else rounded)
    unrounded = _outputs(kind, x, parameters, _unrounded, _unrounded)
    assert close(plain, unrounded)
    for threads in (1, 2):
        bn.set_num_threads(threads)
        y = bfloat16(ours)(x)
        assert near(y, expected, otherwise)
        assert np.array_equal(y, plain) == (not engines._core.multiplies_bfloat16())
        for mine, other in zip(
            [ours.backward(dy), *(p.grad for p in ours.parameters())], [dx, *gradients], strict=True
        ):
            assert np.abs(mine - other).max() < 0.02 * np.abs(other).max()
    bn.set_num_threads(0)


def test_lstms_of_both_precisions_do_not_share_what_native_code_knows() -> None:
    x = np.random.default_rng(17).standard_normal((30, 6, 24), dtype=np.float32)
    nets = [_Recurrent("LSTM", 16).build((6, 24), seed=18).eval() for _ in range(2)]
    bfloat16(nets[1])
    first = [net(x).copy() for net in nets]
    assert np.array_equal(*first) == (not engines._core.multiplies_bfloat16())
    for _ in range(4):
        for net, expected in zip(nets, first, strict=True):
            assert np.array_equal(net(x), expected)


class _Optional(nn.Module):
    """A network with arguments of any form: by name, in a dictionary, with None between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(24, 3, padding=1)

    def forward(self, x: Any, other: Any = None, *, scale: float = 1.0) -> Any:
        y = self.layer(x["image"] if isinstance(x, dict) else x)
        return y * scale if other is None else y + other


@pytest.mark.parametrize("training", [False, True])
def test_calls_of_any_form_compute_as_the_network_does(training: bool) -> None:
    x = np.random.default_rng(19).standard_normal((9, 20, 3, 3), dtype=np.float32)
    net = _Optional().build((20, 3, 3), seed=20).train(training)
    plain = net(x).copy()
    assert np.array_equal(net({"image": x}), plain)
    expected = bfloat16(net)(x).copy()
    assert np.array_equal(expected, plain) == (not engines._core.multiplies_bfloat16())
    for y in (net({"image": x}), net(x, None, scale=1.0), net(x=x)):
        assert np.array_equal(y, expected)
    net._compute_with("test", None, "float32")
    assert np.array_equal(net({"image": x}), plain)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_called_on_arrays_compute_as_in_a_network(kind: str) -> None:
    x = np.random.default_rng(21).standard_normal((20, 6, 30), dtype=np.float32)
    alone, inside = getattr(nn, kind)(12).build((6, 30), seed=22).eval(), _Recurrent(kind, 12)
    inside.build((6, 30), seed=22).eval()
    assert np.array_equal(alone(x)[0], inside(x))
    assert np.array_equal(bfloat16(alone)(x)[0], bfloat16(inside)(x))


def test_weights_of_attention_follow_its_precision() -> None:
    x = np.random.default_rng(23).standard_normal((3, 12, 24), dtype=np.float32)
    net = nn.MultiheadAttention(24, 3).build((12, 24), seed=24).eval()
    plain = net(x)[1].copy()
    rounded_weights = bfloat16(net)(x)[1]
    assert np.array_equal(rounded_weights, plain) == (not engines._core.multiplies_bfloat16())
    np.testing.assert_allclose(rounded_weights, plain, atol=0.02)

"""Inference on bytes: what is quantized, what it computes, what it reports, and what is refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
from helpers import numbers
from openbnns import datasets, engines, nn
from openbnns.graph.attention_projections import projections_apart
from openbnns.graph.operations import quantized
from openbnns.graph.operations.quantized import Scaling
from openbnns.graph.program import Program
from openbnns.nn.recording import recorded_graph

Array = NDArray[Any]


@pytest.fixture(autouse=True)
def _without_the_warning_of_slow_cpus(request: pytest.FixtureRequest) -> Any:
    with warnings.catch_warnings():
        if "warned" not in request.node.name:
            warnings.filterwarnings("ignore", "openbnns: precision 'int8'", RuntimeWarning)
        yield


def compiled(net: nn.Module, x: Array, batch: int | None = None, **options: Any) -> Any:
    options = {"float32_layers": "none", **options}
    return net.compile_inference(len(x) if batch is None else batch, precision="int8", calibration=x, **options)


def operations(infer: Any) -> list[Any]:
    return list(infer._program().graph.operations)


def kinds(infer: Any) -> list[str]:
    return [type(operation).__name__ for operation in operations(infer)]


# An independent run of the operations of a quantized graph: integers and float64.


def sums_of(x: Array, w: Array, options: dict[str, Any]) -> Array:
    """Sums of products of integers, channels first, with zeros around the image."""
    if x.ndim == 2:
        return x @ w.T
    fields = options["padding"].bnns_fields
    left, right, up, down = fields["pad"]
    if fields["x_padding"] or fields["y_padding"]:
        left, right, up, down = fields["x_padding"], fields["x_padding"], fields["y_padding"], fields["y_padding"]
    x = np.pad(x, ((0, 0), (0, 0), (up, down), (left, right)))
    (across, along), (wide, high), groups = options["stride"], options["dilation_stride"], options["group_count"]
    rows = (x.shape[2] - high * (w.shape[2] - 1) - 1) // along + 1
    columns = (x.shape[3] - wide * (w.shape[3] - 1) - 1) // across + 1
    y = np.zeros((len(x), len(w), rows, columns), np.int64)
    inputs, outputs = w.shape[1], len(w) // groups
    for g in range(groups):
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                part = x[
                    :,
                    g * inputs : (g + 1) * inputs,
                    i * high : i * high + along * (rows - 1) + 1 : along,
                    j * wide : j * wide + across * (columns - 1) + 1 : across,
                ]
                taps = w[g * outputs : (g + 1) * outputs, :, i, j]
                y[:, g * outputs : (g + 1) * outputs] += np.einsum("nchw,oc->nohw", part, taps)
    return y


def product(op: Any, x: Array) -> Array:
    w = op.weights.astype(np.int64)
    if isinstance(op, quantized.QuantizedLinear):
        shape, x = (*x.shape[:-1], len(w)), x.reshape(-1, x.shape[-1])
    options = getattr(op, "options", {})
    centred = sums_of(x.astype(np.int64) - op.scaling.zero_point, w, options)
    sums, offset = sums_of(x.astype(np.int64), w, options), None
    offset = centred - sums
    spread = (1, -1, *(1,) * (sums.ndim - 2))
    factor = (
        (op.scaling.scale * op.weights_scales.astype(np.float64)).astype(np.float32).astype(np.float64).reshape(spread)
    )
    bias = 0.0 if op.bias is None else op.bias.astype(np.float64).reshape(spread)
    values = factor * sums + (bias + factor * offset)
    if op.activation.case == "rectified_linear":
        values = np.maximum(values.astype(np.float32), 0).astype(np.float64)
    assert op.activation.case in ("identity", "rectified_linear")
    y = values.astype(np.float32) if op.result is None else encoded(op.result, values)
    return y.reshape(shape) if isinstance(op, quantized.QuantizedLinear) else y


def encoded(scaling: Scaling, values: Array) -> Array:
    return np.clip(np.rint((values - scaling.bias) / scaling.scale), 0, 255).astype(np.uint8)


def run(infer: Any, x: Array) -> Array:
    """The same results from NumPy alone, of graphs of the operations that tests here have."""
    graph = infer._program().graph
    known = {graph.inputs[0]: x}
    for op in graph.operations:
        a = [known[v.storage].reshape(v.concrete({"N": len(x)})) for v in op.inputs]
        if isinstance(op, quantized.QuantizedOperation):
            y = product(op, a[0])
        elif isinstance(op, quantized.ToBytes):
            y = encoded(op.scaling, a[0].astype(np.float64))
        elif isinstance(op, quantized.FromBytes):
            y = np.float32(op.scaling.scale * (a[0].astype(np.float64) - op.scaling.zero_point))
        elif isinstance(op, quantized.SumOfBytes):
            f, g = (np.float32(factor) for factor in op.factors)
            y = np.clip(np.rint(g * np.float32(a[1]) + (f * np.float32(a[0]) + np.float32(op.term))), 0, 255).astype(
                np.uint8
            )
        elif isinstance(op, quantized.PoolingOfBytes):
            size, step, ((top, _), _) = op.window.kernel[0], op.window.stride[0], op.window.edges
            z = np.pad(a[0], ((0, 0), (0, 0), (top, size), (top, size)))
            (rows, columns) = op.output.shape[2:]
            y = np.array([[[[z[n, c, i * step : i * step + size, j * step : j * step + size].max() for j in range(columns)]
                            for i in range(rows)] for c in range(z.shape[1])] for n in range(len(z))], np.uint8)  # fmt: skip
        else:
            raise NotImplementedError(type(op).__name__)
        known[op.output] = y
    result = graph.outputs[0]
    return np.array(known[result.storage]).reshape(result.concrete({"N": len(x)}))


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return nn.functional.relu(self.second(self.first(x)) + x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(37, 65), nn.ReLU(), nn.Linear(65, 33), nn.ReLU(), nn.Linear(33, 7))


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 19, 3, padding=1), nn.BatchNorm2d(19), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), Residual(19),
        nn.Conv2d(19, 24, 3, stride=2), nn.ReLU(), nn.Conv2d(24, 24, 3, groups=24), nn.Conv2d(24, 32, 1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5),
    )  # fmt: skip


NETS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [(mlp, (37,)), (images, (3, 27, 25))]


@pytest.mark.parametrize(("make", "sample"), NETS)
@pytest.mark.parametrize("batch", [1, 5, 64])
def test_results_are_those_of_numpy_to_the_last_bit_on_any_threads(
    make: Callable[[], nn.Module], sample: tuple[int, ...], batch: int
) -> None:
    net, x = make().build(sample, seed=1).eval(), numbers(batch, *sample, seed=2)
    infer = compiled(net, numbers(50, *sample, seed=3), batch)
    expected = run(infer, x)
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        for _ in range(3):
            assert np.array_equal(infer(x), expected)
    bn.set_num_threads(0)
    exact = net(x)
    assert np.linalg.norm(expected - exact) < 0.1 * np.linalg.norm(exact)


def test_what_lies_between_products_stays_in_bytes() -> None:
    x = numbers(8, 3, 27, 25)
    infer = compiled(images().build((3, 27, 25), seed=1).eval(), x)
    assert kinds(infer) == [
        "ToBytes", "QuantizedConvolution", "PoolingOfBytes", "QuantizedConvolution", "QuantizedConvolution", "SumOfBytes",
        "QuantizedConvolution", "QuantizedConvolution", "QuantizedConvolution", "PoolingOfBytes", "QuantizedLinear",
    ]  # fmt: skip
    for _ in range(3):
        infer(x)
    assert {row.kind for row in infer._program().timed()} == {"native"}


def test_networks_from_onnx_are_the_same(tmp_path: Path) -> None:
    net, x = images().build((3, 27, 25), seed=1).eval(), numbers(8, 3, 27, 25)
    net.to_onnx(tmp_path / "net.onnx")
    infer, imported = compiled(net, x), compiled(nn.from_onnx(tmp_path / "net.onnx").eval(), x)
    assert kinds(imported) == kinds(infer)
    assert np.array_equal(imported(x), infer(x))


def test_threads_call_side_by_side() -> None:
    infer = compiled(images().build((3, 27, 25), seed=1).eval(), numbers(4, 3, 27, 25))
    batches = [numbers(4, 3, 27, 25, seed=seed) for seed in range(12)]
    expected = [infer(x) for x in batches]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert all(map(np.array_equal, pool.map(infer, batches), expected))


def test_the_reference_engine_gives_nearly_the_same() -> None:
    x = numbers(4, 3, 27, 25)
    infer = compiled(images().build((3, 27, 25), seed=1).eval(), x)
    native = infer(x)
    with bn.engine("reference"):
        np.testing.assert_allclose(infer(x), native, atol=0.01 * np.abs(native).max())


@pytest.mark.parametrize("seed", range(12))
def test_pooling_of_bytes_of_any_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, stride = (int(n) for n in rng.integers(1, 5, 2))
    pad, height, width = int(rng.integers(0, kernel // 2 + 1)), *(int(n) for n in rng.integers(kernel, 40, 2))
    net = nn.Sequential(nn.Conv2d(3, 5, 1), nn.MaxPool2d(kernel, stride, padding=pad), nn.Conv2d(5, 4, 1))
    x = numbers(2, 3, height, width, seed=seed)
    infer = compiled(net.build(x.shape[1:], seed=seed).eval(), x)
    assert kinds(infer)[2] == "PoolingOfBytes"
    assert np.array_equal(infer(x), run(infer, x))


@pytest.mark.parametrize("batch", [1, 7, 17, 33])
def test_small_images_lie_side_by_side(batch: int) -> None:
    layers = [
        nn.Conv2d(20, 33, 3, padding=1), nn.Conv2d(33, 24, 3, stride=2, padding=1), nn.Conv2d(24, 24, (2, 5), padding=(1, 2)),
        nn.Conv2d(24, 40, 3, padding=2, groups=4), nn.Conv2d(40, 16, 2, stride=3),
    ]  # fmt: skip
    net = nn.Sequential(*layers).build((20, 7, 6), seed=batch).eval()
    x = numbers(batch, 20, 7, 6)
    infer = compiled(net, x)
    expected = run(infer, x)
    for threads in (1, 3):
        bn.set_num_threads(threads)
        assert np.array_equal(infer(x), expected)
    bn.set_num_threads(0)


def random_layers(rng: np.random.Generator) -> tuple[nn.Module, tuple[int, ...]]:
    """Convolutions of any geometry with a linear layer behind them, and the shape of a sample."""
    channels, *size = (int(n) for n in rng.integers((1, 6, 6), (30, 24, 24)))
    sample, layers = (channels, *size), []
    for _ in range(int(rng.integers(1, 4))):
        groups = int(rng.choice([n for n in (1, 2, channels) if channels % n == 0]))
        kernel, stride, dilation = (rng.integers(1, top, 2) for top in (6, 4, 3))
        reach = (kernel - 1) * dilation + 1
        padding = rng.integers(0, reach)
        left = [(n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, padding, reach, stride, strict=True)]
        if min(left) < 1:
            continue
        outputs = groups * int(rng.integers(1, 2 + 39 // groups))
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        geometry = {name: tuple(map(int, pair)) for name, pair in options.items()}
        bias = bool(rng.integers(2))
        layers += [nn.Conv2d(channels, outputs, tuple(map(int, kernel)), groups=groups, bias=bias, **geometry)]
        layers += [nn.ReLU()] * int(rng.integers(2))
        size, channels = left, outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(int(rng.integers(1, 40)))), sample


@pytest.mark.parametrize("seed", range(40))
def test_random_convolutions_are_those_of_numpy_to_the_last_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net, sample = random_layers(rng)
    batch = int(rng.choice([1, 2, 3, 7, 9, 16, 33]))
    infer = compiled(net.build(sample, seed=seed).eval(), numbers(20, *sample, seed=seed + 1), batch)
    x = numbers(batch, *sample, seed=seed)
    expected = run(infer, x)
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        assert np.array_equal(infer(x), expected)
    bn.set_num_threads(0)


class Random(nn.Module):
    """Layers on any of the values before them: products, what may lie between them, and what bytes cannot do."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        kinds = rng.choice(["conv", "relu", "add", "add relu", "pool", "sigmoid", "mul", "norm", "twice"], 12)
        self.steps = [(str(kind), *(float(n) for n in rng.random(2))) for kind in ["conv", *kinds, "conv"]]
        self.layers = nn.ModuleList(
            [nn.Conv2d(6, 6, 3, padding=1) if kind == "conv" else nn.BatchNorm2d(6) for kind, *_ in self.steps]
        )

    def forward(self, x: Any) -> Any:
        f, values = nn.functional, [x]
        for (kind, first, second), layer in zip(self.steps, self.layers, strict=True):
            a, b = (values[-1 - int(n * n * len(values))] for n in (first, second))
            made = {
                "conv": lambda a=a, layer=layer: layer(a), "relu": lambda a=a: f.relu(a), "add": lambda a=a, b=b: a + b,
                "add relu": lambda a=a, b=b: f.relu(a + b), "sigmoid": lambda a=a: f.sigmoid(a),
                "pool": lambda a=a: f.max_pool2d(a, 3, 1, 1), "mul": lambda a=a, b=b: a * f.sigmoid(b),
                "norm": lambda a=a, layer=layer: layer(a), "twice": lambda a=a: a + a,
            }  # fmt: skip
            values.append(made[kind]())
        return values[-1], values[len(values) // 2], values[-2].flatten(1)


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_compute_nearly_the_same(seed: int) -> None:
    net = Random(np.random.default_rng(seed)).build((6, 9, 8), seed=seed).eval()
    x = numbers(9, 6, 9, 8, seed=seed)
    infer = compiled(net, x, 4)
    exact = net(x[:4])
    for actual, wanted in zip(infer(x[:4]), exact, strict=True):
        assert actual.shape == wanted.shape
        assert np.linalg.norm(actual - wanted) <= 0.08 * np.linalg.norm(wanted)


def test_other_operations_get_floats() -> None:
    net = nn.Sequential(nn.Linear(30, 20), nn.LayerNorm(20), nn.Linear(20), nn.GELU(), nn.Linear(4)).build(
        (30,), seed=1
    )
    x = numbers(40, 30)
    infer = compiled(net.eval(), x)
    assert kinds(infer) == ["Linear", "ToBytes", "QuantizedLinear", "Activation", "ToBytes", "QuantizedLinear"]
    assert infer.quantization.difference < 0.05
    np.testing.assert_allclose(infer(x), net(x), atol=0.1 * np.abs(net(x)).max())


class Attending(nn.Module):
    """Attention of a value to itself, with a mask, or to another one."""

    def __init__(self, mask: Array | None = None, other: bool = False, **options: Any) -> None:
        super().__init__()
        self.attention, self.mask, self.other = nn.MultiheadAttention(24, 3, **options), mask, other

    def forward(self, x: Any) -> Any:
        y = x * 0.5 if self.other else x
        return self.attention(x, y, y, attn_mask=self.mask)[0]


TAKEN_APART = ["ToBytes", "QuantizedLinear", "AttentionHeads", "ToBytes", "QuantizedLinear"]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"causal": True}, {"bias": False}, {"dropout": 0.3}, {"mask": np.triu(np.ones((7, 7), bool), 1)},
        {"mask": numbers(7, 7, seed=4)},
    ],
)  # fmt: skip
@pytest.mark.parametrize("batch", [1, 9])
def test_projections_of_attention(options: dict[str, Any], batch: int) -> None:
    net, x = Attending(**options).build((7, 24), seed=1).eval(), numbers(batch, 7, 24, seed=2)
    for parameter in net.parameters():
        parameter.data += 0.1 * numbers(*parameter.shape, seed=3)
    expected = net(x).copy()
    graph = recorded_graph(net)
    apart = graph.part(graph.inputs, projections_apart(graph.operations), graph.outputs)
    program = Program(apart, graph.sizes_for(batch), training=False)
    program.fill(0, x)
    program.forward()
    np.testing.assert_allclose(program.output, expected, atol=2e-6 * np.abs(expected).max())
    infer = compiled(net, numbers(50, 7, 24, seed=2), batch)
    assert kinds(infer) == TAKEN_APART
    assert [layer.kind for layer in infer.quantization.layers] == ["MultiheadAttention"]
    quantized_result = infer(x)
    assert np.linalg.norm(quantized_result - expected) < 0.03 * np.linalg.norm(expected)
    for threads in (1, 3):
        bn.set_num_threads(threads)
        assert np.array_equal(infer(x), quantized_result)
    bn.set_num_threads(0)
    assert np.array_equal(net(x), expected)
    assert kinds(compiled(net, x)) == TAKEN_APART


@pytest.mark.parametrize(
    "options",
    [
        {"other": True}, {"add_zero_attn": True}, {"add_bias_kv": True}, {"mask": numbers(3, 7, 7)}
    ],
)  # fmt: skip
def test_other_attention_stays_in_float32(options: dict[str, Any]) -> None:
    net = nn.Sequential(nn.Linear(24), Attending(**options)).build((7, 24), seed=1).eval()
    x = numbers(1, 7, 24)
    infer = compiled(net, x)
    assert "Attention" in kinds(infer) and kinds(infer).count("QuantizedLinear") == 1
    assert np.linalg.norm(infer(x) - net(x)) < 0.03 * np.linalg.norm(net(x))


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = numbers(21, 13, seed=5)

    def forward(self, x: Any) -> Any:
        return x @ self.table


def test_products_with_constant_matrices() -> None:
    net, x = Constant().build((9, 21)).eval(), numbers(6, 9, 21)
    infer = compiled(net, x)
    assert kinds(infer) == ["ToBytes", "QuantizedLinear"]
    assert np.array_equal(infer(x), run(infer, x))
    assert infer.quantization.difference < 0.02


@pytest.mark.parametrize(
    ("choice", "precisions"), [("none", "iii"), ("first", "fii"), ("last", "iif"), ("both", "fif")]
)
def test_ends_that_stay_in_float32(choice: Any, precisions: str) -> None:
    x = numbers(40, 37)
    infer = compiled(mlp().build((37,), seed=1), x, float32_layers=choice)
    assert "".join(layer.precision[0] for layer in infer.quantization.layers) == precisions
    assert kinds(infer).count("Linear") == precisions.count("f")


def test_ends_stay_in_float32_by_themselves_where_accuracy_asks_for_it() -> None:
    net = mlp().build((37,), seed=1)
    x = numbers(60, 37)
    assert {
        layer.precision for layer in net.compile_inference(60, precision="int8", calibration=x).quantization.layers
    } == {"int8"}
    x[:, 0] *= 3e3  # numbers that bytes cannot tell from each other beside these
    net[0].weight.data[:, 0] /= 3e4
    report = net.compile_inference(60, precision="int8", calibration=x).quantization
    assert report.layers[0].precision == "float32"
    worse = net.compile_inference(60, precision="int8", calibration=x, float32_layers="none").quantization
    assert report.difference < 0.05 < worse.difference


def test_the_report() -> None:
    x = numbers(45, 37)
    net = mlp().build((37,), seed=1).eval()
    infer = compiled(net, x)
    report = infer.quantization
    differences = infer(x).astype(np.float64) - net(x)
    assert report.difference == pytest.approx(
        np.sqrt((differences**2).sum() / (net(x).astype(np.float64) ** 2).sum()), rel=1e-3
    )
    assert report.agreement == (infer(x).argmax(1) == net(x).argmax(1)).mean()
    assert report.samples == 45 and report.speedup == report.float32_seconds / report.int8_seconds > 0
    text = str(report.describe())
    assert (
        "0, 1" in text
        and "Linear + ReLU" in text
        and "outputs of 45 samples differ by" in text
        and "times as fast" in text
    )
    assert net.compile_inference(4).quantization is None


def test_accuracy_on_the_digits() -> None:
    x, y, test_x, test_y = datasets.load_digits()
    x, test_x = x.reshape(-1, 1, 8, 8), test_x.reshape(-1, 1, 8, 8)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48),
        nn.ReLU(), nn.Linear(10),
    )  # fmt: skip
    nn.Trainer(net, "cross_entropy", nn.Adam(2e-3), batch_size=64, seed=1, quiet=True).fit(x, y, epochs=12)
    exact = (np.asarray(net.predict(test_x)).argmax(1) == test_y).mean()
    infer = net.compile_inference(len(test_x), precision="int8", calibration=x[:200], float32_layers="none")
    assert exact > 0.9
    assert abs((infer(test_x).argmax(1) == test_y).mean() - exact) <= 0.005


def test_later_changes_of_the_network_are_not_seen_and_builds_follow_calibration(tmp_path: Path) -> None:
    x = numbers(16, 12)
    net = nn.Sequential(nn.Linear(9), nn.ReLU(), nn.Linear(3)).build((12,), seed=1)
    infer = compiled(net, x)
    before = infer(x)
    for parameter in net.parameters():
        parameter.data[...] = 0
    assert np.array_equal(infer(x), before)
    net.save_model(tmp_path / "net.onns")  # holds the network in float32
    assert nn.load_model(tmp_path / "net.onns").parameters


def test_several_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 8), nn.Linear(5, 8)

        def forward(self, a: Any, b: Any) -> Any:
            return nn.functional.relu(self.one(a) + self.two(b))

    a, b = numbers(30, 6), numbers(30, 5, seed=1)
    net = Two().build((6,), (5,))
    infer = net.compile_inference(10, precision="int8", calibration=(a, b), float32_layers="none")
    assert "SumOfBytes" in kinds(infer)
    np.testing.assert_allclose(infer(a[:10], b[:10]), net.eval()(a[:10], b[:10]), atol=0.05)


@pytest.mark.parametrize("size", [1e-44, 1e-38, 1e15])
def test_samples_of_any_size(size: float) -> None:
    x = np.float32(size) * X
    net = mlp().build((37,), seed=1).eval()
    infer = compiled(net, x)
    assert np.linalg.norm(infer(x) - net(x)) <= 0.03 * np.linalg.norm(net(x))


def test_numbers_outside_the_range_become_its_ends_and_nan_the_lower_one() -> None:
    net = mlp().build((37,), seed=1).eval()
    infer = compiled(net, numbers(50, 37, seed=3), 8)
    x, inside = X.copy(), X.copy()
    x[0, 3], inside[0, 3] = np.nan, -100
    x[1, 5], inside[1, 5] = np.inf, 100
    x[2, :7], inside[2, :7] = -3e38, -100
    assert np.array_equal(infer(x), infer(inside))


def test_bytes_are_the_same_however_numbers_lie() -> None:
    x = np.repeat(numbers(30, 2), 2, axis=0)
    x[:4, 0] = np.nan, np.inf, -np.inf, -0.0
    packed, spread = np.zeros((2, *x.shape), np.uint8)
    for target, source in ((packed, x), (spread, np.asfortranarray(x))):
        quantized._converting(target, source, Scaling.of(-1, 1.7))()  # type: ignore[operator]
    assert np.array_equal(packed, spread) and np.array_equal(packed[:3, 0], [0, 255, 0])


def test_scaling_holds_zero_and_its_bytes_exactly() -> None:
    for seed in range(200):
        low, high = np.sort(np.random.default_rng(seed).standard_normal(2) * 10.0 ** (seed % 9 - 4))
        scaling = Scaling.of(low, high)
        values = scaling.scale * (np.arange(256.0) - scaling.zero_point)
        assert np.array_equal(values, values.astype(np.float32)) and np.float32(scaling.bias) == scaling.bias
        assert scaling.decode(np.array([scaling.zero_point], np.uint8))[0] == 0
        assert values[0] <= min(low, 0) + 0.51 * scaling.scale and values[-1] >= max(high, 0) - 0.51 * scaling.scale


X = numbers(8, 37)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({}, ValueError, r"precision 'int8' needs.*calibration is None.*Pass calibration=x"),
        ({"calibration": X[:0]}, ValueError, r"calibration needs samples.*there are none.*Pass a few hundred"),
        ({"calibration": ()}, ValueError, r"calibration needs samples"),
        ({"calibration": 0 * X}, ValueError, r"calibration has nothing but zeros.*Pass samples such as it will run on"),
        ({"calibration": X[:, :5]}, ValueError, r"shape \(5,\) for input 0, but the network takes \(37,\)"),
        ({"calibration": (X, X)}, ValueError, r"calibration has 2 arrays, but the network takes 1 input"),
        ({"calibration": (X, X[:3])}, ValueError, r"the inputs have 8, 3"),
        (
            {"calibration": np.where(np.arange(8)[:, None] == 6, np.nan, X)},
            ValueError,
            r"NaN or infinity, first in sample 6",
        ),
        ({"calibration": np.array(["a"])}, TypeError, r"calibration has <U1.*Pass an array of numbers"),
        ({"calibration": X, "float32_layers": "some"}, ValueError, r"float32_layers is 'some'. Choose 'auto', 'none'"),
        (
            {"calibration": X, "precision": "float32"},
            ValueError,
            r"calibration is for precision='int8', but.*'float32'",
        ),
        ({"calibration": X, "precision": "int4"}, ValueError, r"there is no precision 'int4'. Choose .*'int8'"),
    ],
)
def test_what_is_refused(options: dict[str, Any], error: Any, told: str) -> None:
    with pytest.raises(error, match=r"compile_inference: .*" + told):
        mlp().build((37,)).compile_inference(8, **{"precision": "int8", **options})


def test_networks_without_products_are_refused() -> None:
    with pytest.raises(ValueError, match=r"nothing of Sequential can be computed from bytes.*precision='float32'"):
        compiled(nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)).build((1, 4, 4)), numbers(3, 1, 4, 4))
    with pytest.raises(ValueError, match=r"float32_layers is 'both', which leaves none of the 1 layer"):
        compiled(nn.Linear(4, 2).build((4,)), numbers(3, 4), float32_layers="both")


def test_values_that_are_not_finite_are_refused() -> None:
    net = mlp().build((37,))
    net[0].weight.data[0, 0] = np.inf
    with pytest.raises(
        ValueError, match=r"a value inside the network is not finite on these samples.*Check the weights"
    ):
        compiled(net, X)


def test_training_is_refused() -> None:
    told = r"precision 'int8' is for inference.*Train with one of these, then call net.compile_inference"
    with pytest.raises(ValueError, match="Trainer: " + told):
        nn.Trainer(mlp(), precision="int8")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="compile_step: " + told):
        mlp().build((37,)).compile_step("mse", "sgd", 4, precision="int8")  # type: ignore[arg-type]


def test_slow_cpus_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_core", _WithoutVnni(engines._core))
    with pytest.warns(RuntimeWarning, match=r"precision 'int8' is fast on CPUs.*VNNI.*precision='float32'"):
        compiled(mlp().build((37,)), X)


class _WithoutVnni:
    def __init__(self, core: Any) -> None:
        self._core = core

    def __getattr__(self, name: str) -> Any:
        return (lambda: False) if name == "multiplies_bytes" else getattr(self._core, name)

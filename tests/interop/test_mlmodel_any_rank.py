"""Neural networks of the old kind whose layers take arrays of any rank: they run and are trained as ML programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damaged_files import damaged, read_many
from mlmodel_files import f, layer, numbers, varint, weights
from openbnns import nn
from openbnns.cli import main
from openbnns.coreml import CoreMLError, MLModel
from openbnns.files.safetensors import DamagedFile
from openbnns.interop.coreml.mlmodel import Unsupported

ANY_RANK = f(5, 1) + f(6, 1)


def array_of(name: str, shape: tuple[int, ...]) -> bytes:
    return f(1, name) + f(3, f(5, f(1, b"".join(map(varint, shape))) + f(2, 65568)))


def network(
    inputs: dict[str, tuple[int, ...]], outputs: list[str], *layers: bytes, kind: int = 500, last: bytes = b""
) -> bytes:
    described = b"".join(f(1, array_of(name, shape)) for name, shape in inputs.items())
    described += b"".join(f(10, f(1, name) + f(3, f(5, f(2, 65568)))) for name in outputs)
    if kind == 403:
        described += f(11, outputs[0]) + f(12, outputs[1])
    return f(1, 4) + f(2, described) + f(kind, b"".join(layers) + ANY_RANK + last)


def signed(value: int) -> int:
    return value % 2**64


def packed(*values: int) -> bytes:
    return b"".join(varint(signed(value)) for value in values)


def saved(data: bytes, folder: Path) -> Path:
    (folder / "m.mlmodel").write_bytes(data)
    return folder / "m.mlmodel"


def classifier() -> tuple[bytes, Callable[[np.ndarray], np.ndarray]]:
    """A convolution, a reshape, a product and a softmax; and the scores of a sample by the definition."""
    kernel, bias, inner = numbers(3, 2, 1, 1), numbers(3), numbers(2, 3 * 4 * 5)
    data = network(
        {"x": (1, 2, 4, 5)}, ["label", "odds"],
        layer("c", "x", 100, f(1, 3), f(2, 2), f(20, b"\x01\x01"), f(50, b""), f(70, 1), weights(90, kernel), weights(91, bias)),
        layer("a", "c", 130, f(10, b"")),
        layer("r", "a", 1140, f(1, packed(1, -1))),
        layer("s", "r", 140, f(1, 60), f(2, 2), weights(20, inner)),
        layer("p", "s", 950, f(1, signed(-1))),
        kind=403, last=f(100, f(1, "cat", "dog")) + f(200, "p"),
    )  # fmt: skip

    def scores(x: np.ndarray) -> np.ndarray:
        y = np.einsum("oi,nihw->nohw", kernel[:, :, 0, 0], x) + bias.reshape(3, 1, 1)
        return np.asarray(np.maximum(y, 0).reshape(len(x), -1) @ inner.T)

    return data, scores


def test_a_classifier(tmp_path: Path) -> None:
    data, scores = classifier()
    path, x = saved(data, tmp_path), numbers(1, 2, 4, 5)
    (expected,) = np.exp(scores(x))
    predicted = MLModel(path).predict({"x": x})
    assert list(predicted["odds"]) == ["cat", "dog"]
    np.testing.assert_allclose(list(predicted["odds"].values()), expected / expected.sum(), rtol=1e-5)
    assert predicted["label"] == ("cat", "dog")[expected.argmax()]


def test_a_classifier_is_trained_and_written_as_a_program(tmp_path: Path) -> None:
    data, scores = classifier()
    net, x = nn.from_mlmodel(saved(data, tmp_path)), numbers(1, 2, 4, 5)
    np.testing.assert_allclose(net(x), scores(x), atol=1e-5)
    step = net.train().compile_step("cross_entropy", nn.Adam(0.05), 1)
    losses = [step(x, np.array([1])) for _ in range(30)]
    assert losses[-1] < 0.1
    assert net.eval().predict(x).labels == ["dog"]
    net.to_coreml(tmp_path / "m.mlpackage")
    assert "dog" in MLModel(tmp_path / "m.mlpackage").predict({"x": x}).values()


def test_samples_are_free_where_layers_allow_it(tmp_path: Path) -> None:
    inner = numbers(2, 3)
    layers = layer("s", "x", 140, f(1, 3), f(2, 2), weights(20, inner)), layer("y", "s", 720)
    net = nn.from_mlmodel(saved(network({"x": (1, 3)}, ["y"], *layers), tmp_path))
    x = numbers(5, 3)
    np.testing.assert_allclose(net(x), np.tan(x @ inner.T), rtol=1e-4)


@pytest.mark.parametrize("above", [0, 1])
def test_a_convolution_keeps_the_size(above: int, tmp_path: Path) -> None:
    """Windows of 3 x 3 with strides of 2 need one more row of 4, above or below, and one more column on both sides of 5."""
    kernel, x = numbers(2, 2, 3, 3), numbers(1, 2, 4, 5)
    rows, columns = f(1, above) + f(2, 1 - above), f(1, 1) + f(2, 1)

    def computed(padding: bytes) -> np.ndarray:
        fields = f(1, 2), f(2, 2), f(20, b"\x03\x03"), f(30, b"\x02\x02"), padding, weights(90, kernel)
        # The shape of what it takes is not known before it runs.
        layers = layer("a", "x", 130, f(10, b"")), layer("y", "a", 100, *fields)
        path = saved(network({"x": x.shape}, ["y"], *layers), tmp_path)
        net = nn.from_mlmodel(path)
        assert np.array_equal(net(x), MLModel(path).predict({"x": x})["y"])
        return np.asarray(net(x))

    same = computed(f(51, f(1, above)))
    assert same.shape == (1, 2, 2, 3)
    np.testing.assert_array_equal(same, computed(f(50, f(1, f(10, rows) + f(10, columns)))))


@pytest.mark.parametrize(("space", "order"), [(20, "rgb"), (30, "bgr")])
def test_images_are_scaled_by_the_color(space: int, order: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    described = f(1, f(1, "photo") + f(3, f(4, f(1, 4) + f(2, 3) + f(3, space)))) + f(
        10, f(1, "y") + f(3, f(5, f(2, 65568)))
    )
    scaler = f(2, f(1, "photo") + f(10, f(10, 0.5) + f(20, 1.0) + f(21, 2.0) + f(22, 3.0)))
    data = f(1, 4) + f(2, described) + f(500, scaler + layer("y", "photo", 665) + ANY_RANK)
    pixels = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    y = MLModel(saved(data, tmp_path)).predict({"photo": image.fromarray(pixels)})["y"]
    added = {"r": 3, "g": 2, "b": 1}
    expected = [np.ceil(pixels[..., "rgb".index(c)] * 0.5 + added[c]) for c in order]
    assert np.array_equal(y, np.stack(expected)[None])


def quantized(bits: int, *rules: bytes) -> tuple[bytes, np.ndarray]:
    """Weights of 2 x 8 numbers of a few bits, the first in the highest bits; and these numbers."""
    steps = np.random.default_rng(bits).integers(0, 2**bits, (2, 8))
    spread = (steps[..., None] >> np.arange(bits - 1, -1, -1)) & 1
    held = np.packbits(spread.astype(np.uint8).reshape(-1)).tobytes()
    return f(20, f(30, held) + f(40, f(1, bits) + b"".join(rules))), steps


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("table", [False, True])
def test_quantized_weights(bits: int, table: bool, tmp_path: Path) -> None:
    values, scale, offset = numbers(2**bits), numbers(2), numbers(2)
    rule = f(102, f(1, values.tobytes())) if table else f(101, f(1, scale.tobytes()) + f(2, offset.tobytes()))
    held, steps = quantized(bits, rule)
    expected = values[steps] if table else steps * scale[:, None] + offset[:, None]
    data = network({"x": (8,)}, ["y"], layer("y", "x", 140, f(1, 8), f(2, 2), held))
    x = numbers(8)
    y = MLModel(saved(data, tmp_path)).predict({"x": x})["y"]
    np.testing.assert_allclose(y, expected @ x, atol=1e-4 * 2**bits)


def test_quantized_weights_without_enough_bytes(tmp_path: Path) -> None:
    held = f(20, f(30, b"\x00") + f(40, f(1, 4) + f(101, f(1, b"\x00\x00\x80\x3f"))))
    data = network({"x": (8,)}, ["y"], layer("y", "x", 140, f(1, 8), f(2, 2), held))
    with pytest.raises(DamagedFile, match="there are 1 bytes for 16 numbers of 4 bits"):
        MLModel(saved(data, tmp_path))


def test_loops_and_branches(tmp_path: Path) -> None:
    """A loop whose body gives values the names of earlier ones, as long as a number is small; and one of a known length."""
    doubled = layer("z", "y", 231, f(1, 2.0)) + f(1, f(1, "again") + f(2, "z") + f(3, "y") + f(600, b""))
    grown = f(1, f(1, "y") + f(2, "x") + f(3, "y") + f(600, b""))
    condition = layer("small", "y", 825, f(2, 50.0))
    chosen = f(1, layer("w", "y", 230, f(1, 1.0))) + f(2, layer("w", "y", 230, f(1, -1.0)))
    data = network(
        {"x": (1,)}, ["y", "w"],
        grown,
        f(1, f(1, "l") + f(615, f(2, "small") + f(3, condition) + f(4, doubled))),
        f(1, f(1, "k") + f(615, f(1, 2) + f(4, doubled))),
        layer("large", "y", 830, f(2, 300.0)),
        f(1, f(1, "b") + f(2, "large") + f(605, chosen)),
    )  # fmt: skip
    model = MLModel(saved(data, tmp_path))
    for x, y in ((3.0, 96 * 4), (60.0, 240), (50.0, 200)):
        predicted = model.predict({"x": np.float32([x])})
        assert (predicted["y"].item(), predicted["w"].item()) == (y, y + 1 if y > 300 else y - 1)


@pytest.mark.parametrize(("begin", "end"), [(1, 5), (1, -1), (-3, 0), (-4, -1)])
def test_a_slice_counts_from_either_end(begin: int, end: int, tmp_path: Path) -> None:
    fields = f(1, signed(begin)), f(2, signed(end)), f(3, 2), f(4, 2)
    x = numbers(2, 6)
    y = MLModel(saved(network({"x": x.shape}, ["y"], layer("y", "x", 350, *fields)), tmp_path)).predict({"x": x})["y"]
    assert np.array_equal(y, x[:, begin : end or None : 2])


def test_numbers_that_decide_are_floats(tmp_path: Path) -> None:
    data = network(
        {"x": (3, 4)}, ["y"],
        layer("place", "x", 1025, f(1, 1), f(2, 1)),
        layer("rows", ["x", "place"], 930),
        layer("half", [], 1070, f(1, 1), weights(2, np.float32([0.5]))),
        layer("is", ["rows", "half"], 830),
        layer("y", ["is", "rows", "half"], 1330),
    )  # fmt: skip
    x = np.float32([[0, 2, 1, 0], [3, 0, 0, 0], [0, 0.25, 4, 0]])
    y = MLModel(saved(data, tmp_path)).predict({"x": x})["y"]
    rows = x[x.argmax(1)]
    assert np.array_equal(y, np.where(rows > 0.5, rows, 0.5))


def test_layers_that_are_not_taken_over_are_all_named(tmp_path: Path) -> None:
    data = network(
        {"x": (4,)},
        ["y"],
        layer("a", "x", 961),
        layer("b", "x", 212),
        layer("c", "b", 301),
        layer("y", "x", 1155, f(3, 1)),
    )
    with pytest.raises(Unsupported, match="padding to a given size is not supported") as caught:
        MLModel(saved(data, tmp_path))
    kinds = [(name, kind) for name, kind, _ in caught.value.layers]
    assert kinds == [("a", "type 961"), ("b", "type 212"), ("c", "flatten"), ("y", "constantPad")]


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((layer("z", "x", 140, f(1, 4), f(2, 2), weights(20, numbers(5))),), "there are 5 numbers, but"),
        ((layer("z", "x", 680),), "no layer gives 'y'"),
        ((layer("y", "x", 635, f(1, 1e30)),), r"it gives 1e\+30 numbers"),
        ((layer("y", "x", 120, f(1, 7), f(60, 1)),), "tuple index out of range"),
    ],
)
def test_damaged_networks(layers: tuple[bytes, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile, match=message):
        MLModel(saved(network({"x": (4,)}, ["y"], *layers), tmp_path))


def test_a_thousand_damaged_networks(tmp_path: Path) -> None:
    """Bytes changed, left out and cut: an error that names the file, or a network with other numbers."""
    whole, draw = classifier()[0], np.random.RandomState(3)
    expected: tuple[type[Exception], ...] = DamagedFile, Unsupported, CoreMLError
    outcomes = read_many(tmp_path / "m.mlmodel", lambda _: damaged(whole, draw), nn.from_mlmodel, expected)
    assert outcomes["read"] > 0 and outcomes["DamagedFile"] > 300, outcomes


def test_from_coreml_takes_networks_of_the_older_kind(tmp_path: Path) -> None:
    path, x = saved(classifier()[0], tmp_path), numbers(1, 2, 4, 5)
    np.testing.assert_array_equal(nn.from_coreml(path)(x), nn.from_mlmodel(path)(x))
    with pytest.raises(ValueError, match=r"batch_axis is for ML programs, and .* of the kind neuralNetworkClassifier"):
        nn.from_coreml(path, batch_axis=None)
    with pytest.raises(ValueError, match="function_name is for ML programs"):
        nn.from_coreml(path, function_name="main")


def test_commands_take_them_as_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, x = saved(classifier()[0], tmp_path), numbers(1, 2, 4, 5)
    np.savez(tmp_path / "x.npz", x=x)
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "operations (6): classify 1, conv 1, linear 1, relu 1, reshape 1, softmax 1" in shown
    assert "it is not an ML program, which is all that BNNSGraph takes" in shown
    assert main(["predict", str(path), str(tmp_path / "x.npz")]) == 0
    assert MLModel(path).predict({"x": x})["label"] in capsys.readouterr().out
    assert main(["import", str(path), "-o", str(tmp_path / "m.safetensors")]) == 0
    np.testing.assert_array_equal(nn.load_model(tmp_path / "m.safetensors").eval()(x), nn.from_mlmodel(path)(x))
    assert main(["import", str(path), "--one-sample"]) == 2
    assert "--one-sample is for ONNX models and ML programs" in capsys.readouterr().err
    refused = saved(network({"x": (4,)}, ["y"], layer("y", "x", 212)), tmp_path)
    assert main(["inspect", str(refused)]) == 1
    assert "y (type 212): there is no such layer here" in capsys.readouterr().out


@pytest.mark.peers
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_weights_that_coremltools_quantized(bits: int, tmp_path: Path) -> None:
    from coremltools.models import MLModel as Theirs
    from coremltools.models.neural_network import quantization_utils

    def written(spec: Any, name: str) -> Path:
        (tmp_path / name).write_bytes(spec.SerializeToString())
        return tmp_path / name

    inner = numbers(6, 8)
    builder = built({"x": (2, 8)}, ["y"])
    builder.add_inner_product("y", inner, numbers(6), 8, 6, True, "x", "y")
    spec = quantization_utils.quantize_weights(Theirs(builder.spec, skip_model_load=True), bits).get_spec()
    x = numbers(2, 8)
    y = MLModel(written(spec, "few.mlmodel")).predict({"x": x})["y"]
    if bits < 16:
        quantization_utils._dequantize_nn_spec(spec.neuralNetwork)
    else:
        spec = builder.spec
    expected = MLModel(written(spec, "plain.mlmodel")).predict({"x": x})["y"]
    np.testing.assert_allclose(y, expected, atol=1e-5 if bits < 16 else 1e-2)


def built(inputs: dict[str, tuple[int, ...]], outputs: list[str]) -> Any:
    from coremltools.models import datatypes
    from coremltools.models.neural_network import NeuralNetworkBuilder

    features = [(name, datatypes.Array(*shape)) for name, shape in inputs.items()]
    return NeuralNetworkBuilder(features, [(name, None) for name in outputs], disable_rank5_shape_mapping=True)


def _normalized(x: np.ndarray) -> Any:
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def _softplus(x: np.ndarray) -> Any:
    alpha, beta = np.float32([1, 2]).reshape(2, 1, 1), np.float32([0.5, 2]).reshape(2, 1, 1)
    return alpha * np.log1p(np.exp(beta * x))


# By name: the layer of coremltools' builder, the shapes of its inputs, and its result by the definition.
LAYERS: dict[str, tuple[Callable[[Any], Any], list[tuple[int, ...]], Callable[..., Any]]] = {
    "lower triangle": (lambda b: b.add_lower_triangular("y", "a", "y", -1), [(4, 4)], lambda a: np.tril(a, -1)),
    "lower triangle and more": (lambda b: b.add_lower_triangular("y", "a", "y", 1), [(4, 4)], lambda a: np.tril(a, 1)),
    "upper triangle": (lambda b: b.add_upper_triangular("y", "a", "y", 1), [(4, 4)], lambda a: np.triu(a, 1)),
    "upper triangle and more": (lambda b: b.add_upper_triangular("y", "a", "y", -2), [(4, 4)], lambda a: np.triu(a, -2)),
    "windows": (lambda b: b.add_sliding_windows("y", "a", "y", 0, 2, 2), [(6,)], lambda a: a.reshape(3, 2)),
    "flatten": (lambda b: b.add_flatten_to_2d("y", "a", "y", 2), [(2, 3, 4)], lambda a: a.reshape(6, 4)),
    "broadcast": (
        lambda b: b.add_broadcast_to_static("y", "a", "y", (2, 3, 4)), [(3, 1)], lambda a: np.broadcast_to(a, (2, 3, 4))
    ),
    "broadcast like": (
        lambda b: b.add_broadcast_to_like("y", ["a", "b"], "y"), [(3, 1), (3, 4)], lambda a, b: np.broadcast_to(a, (3, 4))
    ),
    "shape": (lambda b: b.add_get_shape("y", "a", "y"), [(3, 4)], lambda a: a.shape),
    "reshape like": (lambda b: b.add_reshape_like("y", ["a", "b"], "y"), [(3, 4), (2, 6)], lambda a, b: a.reshape(2, 6)),
    "argsort": (lambda b: b.add_argsort("y", "a", "y", 1, descending=True), [(3, 4)], lambda a: np.argsort(-a, 1)),
    "clamped": (
        lambda b: b.add_clamped_relu("y", "a", "y", 0.2, 0.5), [(3, 4)],
        lambda a: np.minimum(np.where(a >= 0, a, np.float32(0.2) * a), 0.5),
    ),
    "normalized": (
        lambda b: b.add_mvn("y", "a", "y", across_channels=False, normalize_variance=True, epsilon=1e-5), [(1, 2, 4, 5)],
        _normalized,
    ),
    "norm": (
        lambda b: b.add_l2_normalize("y", "a", "y", 1e-5), [(1, 2, 4, 5)], lambda a: a / np.sqrt((a * a).sum() + 1e-5)
    ),
    "depth to space": (
        lambda b: b.add_reorganize_data("y", "a", "y", "DEPTH_TO_SPACE", 2), [(1, 8, 2, 3)],
        lambda a: a.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6),
    ),
    "space to depth": (
        lambda b: b.add_reorganize_data("y", "a", "y", "SPACE_TO_DEPTH", 2), [(1, 2, 4, 6)],
        lambda a: a.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
    ),
    "reduce": (lambda b: b.add_reduce("y", "a", "y", "HW", "avg"), [(1, 2, 4, 6)], lambda a: a.mean((2, 3), keepdims=True)),
    "upsample": (lambda b: b.add_upsample("y", 2, 3, "a", "y"), [(1, 2, 4, 6)], lambda a: a.repeat(2, 2).repeat(3, 3)),
    "threshold": (lambda b: b.add_unary("y", "a", "y", "threshold", alpha=0.25), [(3, 4)], lambda a: np.maximum(a, 0.25)),
    "softplus": (
        lambda b: b.add_activation("y", "PARAMETRICSOFTPLUS", "a", "y", [np.float32([1, 2]), np.float32([0.5, 2])]),
        [(1, 2, 3, 3)], _softplus,
    ),
    "slopes": (
        lambda b: b.add_activation("y", "PRELU", "a", "y", np.float32([0.5, 0.25])), [(1, 2, 3, 3)],
        lambda a: np.where(a > 0, a, a * np.float32([0.5, 0.25]).reshape(2, 1, 1)),
    ),
    "scale": (
        lambda b: b.add_scale("y", np.float32([2, 3]), np.float32([1, 0]), True, "a", "y", shape_scale=[2], shape_bias=[2]),
        [(1, 2, 3, 3)], lambda a: a * np.float32([2, 3]).reshape(2, 1, 1) + np.float32([1, 0]).reshape(2, 1, 1),
    ),
    "permute": (lambda b: b.add_permute("y", (0, 2, 3, 1), "a", "y"), [(1, 2, 3, 4)], lambda a: a.transpose(0, 2, 3, 1)),
    "batch of vectors": (lambda b: b.add_flatten("y", 0, "a", "y"), [(2, 2, 3, 4)], lambda a: a.reshape(2, 24, 1, 1)),
}  # fmt: skip


@pytest.mark.peers
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_coremltools_builder(name: str, tmp_path: Path) -> None:
    add, shapes, definition = LAYERS[name]
    given = {key: numbers(*shape) for key, shape in zip("ab", shapes, strict=False)}
    builder = built({key: x.shape for key, x in given.items()}, ["y"])
    add(builder)
    y = MLModel(saved(builder.spec.SerializeToString(), tmp_path)).predict(given)["y"]
    np.testing.assert_allclose(y, definition(*given.values()), atol=1e-5)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.peers
@pytest.mark.parametrize("ways", [1, 2])
def test_lstm_cells_of_coremltools_builder(ways: int, tmp_path: Path) -> None:
    steps, samples, inputs, cells = 4, 2, 3, 5
    shapes = (cells, cells), (cells, inputs), (cells,)
    parts = [tuple([numbers(*shape) for _ in range(4)] for shape in shapes) for _ in range(ways)]
    states = [numbers(1, samples, cells, 1, 1) for _ in range(2 * ways)]
    given = {"x": numbers(steps, samples, inputs, 1, 1)} | {f"s{i}": state for i, state in enumerate(states)}
    outputs = ["y", *(f"e{i}" for i in range(2 * ways))]
    builder = built({key: x.shape for key, x in given.items()}, outputs)
    if ways == 1:
        builder.add_unilstm("l", *parts[0], cells, inputs, list(given), outputs, output_all=True)
    else:
        builder.add_bidirlstm("l", *parts[0], *parts[1], cells, inputs, list(given), outputs, output_all=True)
    predicted = MLModel(saved(builder.spec.SerializeToString(), tmp_path)).predict(given)
    for way, (recurrent, weight, bias) in enumerate(parts):
        h, c = (state[0, ..., 0, 0] for state in states[2 * way : 2 * way + 2])
        for t in range(steps)[:: -1 if way else 1]:
            x = given["x"][t, ..., 0, 0]
            i, forget, o, z = (x @ w.T + h @ u.T + b for w, u, b in zip(weight, recurrent, bias, strict=True))
            c = _sigmoid(forget) * c + _sigmoid(i) * np.tanh(z)
            h = _sigmoid(o) * np.tanh(c)
            y = predicted["y"][t, :, way * cells : (way + 1) * cells, 0, 0]
            np.testing.assert_allclose(y, h, atol=1e-5)
        np.testing.assert_allclose(predicted[f"e{2 * way}"][0, ..., 0, 0], h, atol=1e-5)
        np.testing.assert_allclose(predicted[f"e{2 * way + 1}"][0, ..., 0, 0], c, atol=1e-5)


@pytest.mark.peers
def test_gru_cells_of_coremltools_builder(tmp_path: Path) -> None:
    """With its default, the hard sigmoid; the state is reset before its product."""
    steps, samples, inputs, cells = 4, 2, 3, 5
    recurrent, weight, bias = (
        [numbers(*shape) for _ in range(3)] for shape in ((cells, cells), (cells, inputs), (cells,))
    )
    given = {"x": numbers(steps, samples, inputs, 1, 1), "s": numbers(1, samples, cells, 1, 1)}
    builder = built({key: x.shape for key, x in given.items()}, ["y", "e"])
    builder.add_gru("l", recurrent, weight, bias, cells, inputs, ["x", "s"], ["y", "e"], output_all=True)
    predicted = MLModel(saved(builder.spec.SerializeToString(), tmp_path)).predict(given)
    h = given["s"][0, ..., 0, 0]
    for t in range(steps):
        x = given["x"][t, ..., 0, 0]
        update, reset = (
            np.clip(0.2 * (x @ w.T + h @ u.T + b) + 0.5, 0, 1)
            for w, u, b in zip(weight[:2], recurrent[:2], bias[:2], strict=True)
        )
        h = (1 - update) * np.tanh(x @ weight[2].T + (reset * h) @ recurrent[2].T + bias[2]) + update * h
        np.testing.assert_allclose(predicted["y"][t, ..., 0, 0], h, atol=1e-5)
    np.testing.assert_allclose(predicted["e"][0, ..., 0, 0], h, atol=1e-5)

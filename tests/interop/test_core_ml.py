"""Networks as ML programs, run by MLModel, and read back with coremltools and evaluated in NumPy (``mil_numpy.py``)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mil_numpy
from openbnns import nn
from openbnns.coreml import MLModel
from openbnns.graph.polynomials import Polynomial
from openbnns.graph.sizes import FreeSizes
from openbnns.interop import coreml
from openbnns.interop.coreml.exporting import NotInCoreML
from openbnns.interop.coreml.exporting.package import _limits
from openbnns.nn import functional as F
from openbnns.nn.data.preprocessing import ArrayPreparation, ImagePreparation
from source_networks import NETWORKS

RNG = np.random.default_rng(7)
peers = pytest.mark.peers
PRECISIONS = {"float32": 1e-5, "float16": 1e-2}


def run(path: Path, **inputs: np.ndarray) -> dict[str, Any]:
    """The outputs of a package in NumPy, which those of MLModel must equal."""
    by_numpy, ours, program = mil_numpy.run(path, **inputs), MLModel(path).predict(inputs), coreml.read(path).program
    assert program is not None and by_numpy.keys() == ours.keys()
    types = [str(port.type) for operation in program.functions["main"].walk() for port in operation.outputs]
    tolerance = 2e-2 if any("fp16" in type for type in types) else 1e-4
    for name, expected in by_numpy.items():
        if isinstance(expected, np.ndarray):
            np.testing.assert_allclose(ours[name].reshape(expected.shape), expected, atol=tolerance, rtol=tolerance)
    return by_numpy


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


class Images(nn.Module):
    """Convolutions of all kinds, normalizations, poolings, parts and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
        self.group, self.instance = nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)
        self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1)
        self.apart = nn.ConvTranspose2d(6, 6, 2, groups=3, bias=False)
        self.padded, self.slopes = nn.ReflectionPad2d(1), nn.PReLU(6)
        self.linear, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, x: nn.Value) -> nn.Value:
        x = F.silu(self.group(self.wide(x)))
        x = self.slopes(self.apart(self.up(F.elu(self.instance(x)))))
        x = nn.functional.cat([F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)], 2)
        first, second = F.split(self.padded(x), [5, x.shape[2] - 3], 2)
        joined = first.mean((2, 3)) + second.amax((2, 3)) * 0.5
        return self.norm(self.linear(F.softplus(joined) / 2 - F.sigmoid(joined)))


class Words(nn.Module):
    """A table, attention of several kinds, an LSTM in both directions, a token in front of every sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(9, 6), nn.LSTM(6, 4, bidirectional=True, batch_first=True)
        self.mixed = nn.Linear(8, 24)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)
        self.token = nn.Parameter(numbers(1, 1, 8))

    def forward(self, x: nn.Value) -> nn.Value:
        y, _ = self.lstm(self.table(x))
        y = F.cat([self.token.expand(x.shape[0], -1, -1), y[:, 1:]], 1)
        q, k, v = F.split(self.mixed(y), [8, 8, 8], 2)
        three = [F.permute(part.reshape(part.shape[0], 5, 2, 4), 0, 2, 1, 3) for part in (q, k, v)]
        heads = F.permute(F.scaled_dot_product_attention(*three, is_causal=True), 0, 2, 1, 3)
        y = y + heads.reshape(heads.shape[0], 5, 8)
        y = self.attention(y, y, y, need_weights=False, is_causal=True)[0] + F.log_softmax(y, -1).exp()
        return self.head(F.gelu(y[:, 1::2].mean(1))) + F.matmul(y, F.transpose(y, 1, 2)).sum((1, 2)).reshape(-1, 1)


@peers
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_programs_give_what_networks_give(name: str, precision: str, tmp_path: Path) -> None:
    net, sample = NETWORKS[name]()
    net.build(sample, seed=1)
    net(numbers(4, *sample))  # moves the statistics of batch normalizations
    package = net.to_coreml(tmp_path / "n.mlpackage", precision=precision)
    for batch in (1, 3):  # of any size
        x = numbers(batch, *sample)
        actual = run(package.path, input=x)
        np.testing.assert_allclose(
            actual["output"], net.eval()(x), atol=PRECISIONS[precision], rtol=PRECISIONS[precision]
        )
    program, spec = mil_numpy.load(package.path)
    half = any(var.dtype.__name__ == "fp16" for op in program.functions["main"].operations for var in op.outputs)
    assert half == (precision == "float16")
    size = next(iter(spec.description.input)).type.multiArrayType.shapeRange.sizeRanges[0]
    assert (size.lowerBound, size.upperBound) == (1, 1024)


@peers
def test_programs_of_images(tmp_path: Path) -> None:
    net = Images().build((4, 9, 12), seed=2)
    net(numbers(4, 4, 9, 12))
    package = net.eval().to_coreml(tmp_path / "n.mlpackage")
    x = numbers(2, 4, 9, 12)
    np.testing.assert_allclose(run(package.path, input=x)["output"], net(x), atol=1e-5, rtol=1e-5)
    assert "wide, group: Conv2d + GroupNorm" in package.table() and "conv_transpose" in package.table()


@peers
def test_programs_of_words(tmp_path: Path) -> None:
    net = Words().build((5,), seed=3).eval()
    package = net.to_coreml(tmp_path / "n.mlpackage", batch_size=2)
    x = RNG.integers(0, 9, (2, 5))
    actual = run(package.path, input=x.astype(np.int32))["output"]
    np.testing.assert_allclose(actual, net(x), atol=1e-5, rtol=1e-5)


class Cells(nn.Module):
    """Recurrent layers of one kind, in both directions, with states to begin with and lengths."""

    def __init__(self, kind: str, lengths: bool, states: bool) -> None:
        super().__init__()
        options = {"num_layers": 2, "bidirectional": True}
        made = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}[kind]
        self.cells = made(3, 4, **options, **({"nonlinearity": kind} if made is nn.RNN else {}))
        self.kind, self.lengths, self.states, self.head = kind, lengths, states, nn.Linear(8, 2)
        self.begin = nn.Parameter(numbers(4, 4))

    def forward(self, x: nn.Value, *others: nn.Value) -> nn.Value:
        hx = None if not self.states else (self.begin, others[0]) if self.kind == "lstm" else others[0]
        y, last = self.cells(x, hx, lengths=others[-1] if self.lengths else None)
        ends = [*last[0], *last[1]] if self.kind == "lstm" else [*last]
        return F.cat([F.flatten(self.head(y), 1), *ends], 1)


@peers
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("kind", "lengths", "states"),
    [("gru", False, False), ("gru", True, True), ("lstm", True, True), ("lstm", False, True), ("tanh", True, False),
     ("relu", False, True)],
)  # fmt: skip
def test_programs_of_cells(kind: str, lengths: bool, states: bool, precision: str, tmp_path: Path) -> None:
    net = Cells(kind, lengths, states)
    given = [numbers(3, 5, 3), *([numbers(3, 4, 4)] if states else []), *([np.array([5, 1, 3])] if lengths else [])]
    net(*given)
    package = net.eval().to_coreml(tmp_path / "n.mlpackage", precision=precision)
    assert ("while_loop" in package.table()) == (kind != "lstm" or lengths)
    for batch in (3, 1):
        part = [array[:batch] for array in given]
        named = {f"input_{i}": a.astype(np.int32 if a.dtype == np.int64 else a.dtype) for i, a in enumerate(part)}
        named = named if len(named) > 1 else {"input": part[0]}
        actual, expected = run(package.path, **named)["output"], net(*part)
        tolerance = PRECISIONS[precision]
        np.testing.assert_allclose(actual, expected, atol=tolerance, rtol=tolerance)


class Masked(nn.Module):
    """Attention with a mask of keys, and one of scores, that differ from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2)

    def forward(self, x: nn.Value, keys: nn.Value, scores: nn.Value) -> nn.Value:
        y = self.attention(x, x, x, key_padding_mask=keys, need_weights=False)[0]
        return self.attention(y, y, y, attn_mask=scores, need_weights=False)[0]


@peers
@pytest.mark.parametrize("precision", PRECISIONS)
def test_programs_with_masks(precision: str, tmp_path: Path) -> None:
    net, x = Masked(), numbers(3, 4, 6)
    keys, scores = RNG.integers(0, 2, (3, 4)), RNG.integers(0, 2, (3, 2, 4, 4))
    keys[:, 0], scores[..., 1] = 0, 0  # something to look at is left
    expected = net.eval()(x, keys != 0, scores != 0)
    package = net.to_coreml(tmp_path / "n.mlpackage", precision=precision, batch_size=3)
    given = {"x": x, "keys": keys.astype(np.int32), "scores": scores.astype(np.int32)}
    tolerance = PRECISIONS[precision]
    np.testing.assert_allclose(run(package.path, **given)["output"], expected, atol=tolerance, rtol=tolerance)


@peers
@pytest.mark.parametrize(
    ("layer", "sample"),
    [
        (nn.Upsample(scale_factor=2), (2, 3, 4)), (nn.Upsample((7, 3)), (2, 3, 4)), (nn.Upsample(9), (2, 4)),
        (nn.Upsample((7, 3), mode="bilinear"), (2, 3, 4)), (nn.Upsample((7, 5), mode="bilinear", align_corners=True), (2, 3, 4)),
        (nn.Upsample(9, mode="linear"), (2, 4)), (nn.Upsample(9, mode="linear", align_corners=True), (2, 4)),
        (nn.Upsample((5, 7), mode="bicubic"), (2, 3, 4)), (nn.PixelUnshuffle(2), (2, 4, 6)), (nn.PixelShuffle(2), (8, 3, 2)),
    ],
)  # fmt: skip
def test_programs_that_resize(layer: nn.Module, sample: tuple[int, ...], tmp_path: Path) -> None:
    net = nn.Sequential(layer).build(sample).eval()
    package, x = net.to_coreml(tmp_path / "n.mlpackage"), numbers(2, *sample)
    np.testing.assert_allclose(run(package.path, input=x)["output"], net(x), atol=1e-5, rtol=1e-5)


@peers
@pytest.mark.parametrize(
    "function",
    [
        F.leaky_relu, F.selu, F.celu, F.hardswish, F.hardsigmoid, F.softshrink, F.relu6, F.softsign, F.tanhshrink, F.logsigmoid,
        F.hardtanh, F.mish, lambda x: F.gelu(x, approximate="tanh"), lambda x: x.abs().sqrt() + (x * x + 1).log(),
        lambda x: 1 / (x * x + 1) + x.exp().rsqrt() + x.sin() * x.cos() - x**2,
        lambda x: x.norm(dim=1, keepdim=True) + x.logsumexp(1, keepdim=True) + x.amin(1, keepdim=True),
        lambda x: F.minimum(x, x * 2) + F.erf(F.maximum(-x, x.tanh())),
    ],
)  # fmt: skip
def test_functions(function: object, tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            return function(x)  # type: ignore[operator]

    net = Net().build((6,)).eval()
    x = numbers(3, 6)
    package = net.to_coreml(tmp_path / "n.mlpackage")
    np.testing.assert_allclose(run(package.path, input=x)["output"], net(x), atol=1e-5, rtol=1e-5)


@peers
def test_a_classifier_has_labels_and_prepares_samples(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 3)).build((4,), seed=1)
    samples = numbers(50, 4) * 10 + 3
    card = nn.ModelCard(task="classification", classes=("cat", "dog", "eel"), preparation=ArrayPreparation.fit(samples))
    net.save_model(tmp_path / "m.safetensors", card=card)
    loaded = nn.load_model(tmp_path / "m.safetensors")
    package = loaded.to_coreml(tmp_path / "n.mlpackage")
    _, spec = mil_numpy.load(package.path)
    assert next(iter(spec.description.output)).name == "classLabel"
    assert spec.description.predictedFeatureName == "classLabel"
    assert "standard" in spec.description.metadata.userDefined["openbnns.preparation"].lower()
    for sample in samples[:5]:
        outputs = run(package.path, input=sample[None])
        theirs = loaded.predict(sample[None])
        assert outputs["classLabel"] == theirs.labels[0]
        probabilities = outputs[spec.description.predictedProbabilitiesName]
        np.testing.assert_allclose(list(probabilities.values()), theirs.probabilities[0], atol=1e-6)


@peers
def test_tables(tmp_path: Path) -> None:
    """Columns are prepared inside; the metadata has their names."""
    columns = ArrayPreparation((2,), mean=[3.0, -1.0], std=[2.0, 0.5], columns=["a", "b"])
    net = nn.Sequential(nn.Linear(2, 1)).build((2,), seed=1)
    net.save_model(tmp_path / "m.safetensors", card=nn.ModelCard("regression", ("y",), columns))
    package = net.to_coreml(tmp_path / "n.mlpackage")
    x = numbers(3, 2)
    actual = run(package.path, input=x)["output"]
    expected = np.asarray(net.predict({"b": x[:, 1], "a": x[:, 0]}))
    np.testing.assert_allclose(actual[:, 0], expected, rtol=1e-5, atol=1e-6)
    _, spec = mil_numpy.load(package.path)
    assert spec.description.metadata.userDefined["openbnns.columns"] == "a, b"


@peers
def test_pixels_and_regression(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).build((1, 2, 2), seed=1)
    card = nn.ModelCard(
        task="regression", preparation=ImagePreparation((2, 2), "L"), target_mean=(5.0, -1.0), target_std=(2.0, 3.0)
    )
    net.save_model(tmp_path / "m.safetensors", card=card)
    package = net.to_coreml(tmp_path / "n.mlpackage")
    x = RNG.integers(0, 256, (3, 1, 2, 2)).astype(np.uint8)
    actual = run(package.path, input=x.astype(np.float32))["output"]
    np.testing.assert_allclose(actual, np.asarray(net.predict(x)), rtol=1e-5)


@peers
def test_export_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openbnns.cli import main

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).build((3,), seed=1)
    net.save_model(tmp_path / "model.safetensors")
    assert (
        main(["export", str(tmp_path / "model.safetensors"), "--to", "coreml", "--precision", "float16", "--json"]) == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["written"] == [str(tmp_path / "model.mlpackage")]
    assert said["converted"][0] == {"layer": "0, 1: Linear + ReLU", "becomes": "linear, relu"}
    x = numbers(2, 3)
    actual = run(tmp_path / "model.mlpackage", input=x)["output"]
    np.testing.assert_allclose(actual, net(x), atol=1e-2)


@peers
def test_layers_that_core_ml_has_not_are_all_named(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention, self.norm = (
                nn.MultiheadAttention(4, 2, add_zero_attn=True),
                nn.BatchNorm1d(5, track_running_stats=False),
            )
            self.linear = nn.Linear(4, 2)

        def forward(self, x: nn.Value) -> nn.Value:
            return self.linear(self.norm(self.attention(x, need_weights=False)[0]))

    with pytest.raises(NotInCoreML) as caught:
        Net().build((5, 4)).to_coreml(tmp_path / "n.mlpackage")
    assert [name for name, _ in caught.value.layers] == ["attention: MultiheadAttention", "norm: BatchNorm1d"]
    assert (
        "Leave add_zero_attn out" in str(caught.value)
        and "Use track_running_stats=True" in str(caught.value)
        and not (tmp_path / "n.mlpackage").exists()
    )


def test_bad_arguments(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2)).build((3,))
    with pytest.raises(ValueError, match=r"to_coreml: the name is 'net.mlmodel'.*end it in .mlpackage"):
        net.to_coreml(tmp_path / "net.mlmodel")
    with pytest.raises(ValueError, match=r"to_coreml: precision is 'int8'. Use one of float32, float16"):
        net.to_coreml(tmp_path / "net.mlpackage", precision="int8")
    with pytest.raises(ValueError, match=r"there are 3 classes, but the network gives \(2,\)"):
        net.to_coreml(tmp_path / "net.mlpackage", classes=["a", "b", "c"])
    with pytest.raises(RuntimeError, match="to_coreml: the network is not built"):
        nn.Sequential(nn.Linear(2)).to_coreml(tmp_path / "net.mlpackage")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", [*NETWORKS, "images", "words"])
def test_packages_and_texts_give_what_networks_give(
    name: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "coremltools", None)  # nothing but this package writes and reads
    net, sample = {"images": (Images(), (4, 9, 8)), "words": (Words(), (5,))}.get(name) or NETWORKS[name]()
    x = RNG.integers(0, 9, (3, *sample)) if name == "words" else numbers(3, *sample)
    net.build(sample, seed=1)
    net(x)
    package = net.eval().to_coreml(tmp_path / "n.mlpackage", precision=precision)
    text = coreml.write_compiled(coreml.read(package.path), tmp_path / "n.mlmodelc")
    given = x.astype(np.int32) if name == "words" else x
    for path in (package.path, text):
        actual = MLModel(path).predict({"input": given})["output"]
        np.testing.assert_allclose(actual, net(x), atol=PRECISIONS[precision], rtol=PRECISIONS[precision])


def test_weights_keep_their_names_and_inputs_theirs(tmp_path: Path) -> None:
    text = """program(1.3) { func main<ios17>(tensor<fp32, [1, 2]> sound) {
        tensor<fp32, [2, 2]> kernel = const()[val = tensor<fp32, [2, 2]>([[3, 4], [1, 0]])];
        tensor<fp32, [1, 2]> loudness = linear(x = sound, weight = kernel); } -> (loudness); }"""
    net = nn.from_coreml(coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "a.mlpackage"))
    again = coreml.read(net.to_coreml(tmp_path / "b.mlpackage").path)
    assert again.program is not None
    main = again.program.functions["main"]
    assert [port.name for port in main.inputs] == ["sound"]
    kernel = next(operation for operation in main.walk() if operation.name == "kernel")
    np.testing.assert_array_equal(kernel.attributes["val"].array, [[3, 4], [1, 0]])
    outputs = MLModel(tmp_path / "b.mlpackage").predict({"sound": [[1, 2]]})
    assert {name: y.tolist() for name, y in outputs.items()} == {"loudness": [[11, 1]]}


class Masks(nn.Module):
    """Comparisons, masks, whole numbers and what they find, with a size that is free and enlarged."""

    def forward(self, x: nn.Value) -> nn.Value:
        mask = F.logical_and(x > 0.1, F.logical_not(x.abs() >= 1.5))
        kept = F.where(mask, x, x.floor()) + F.trunc(x * 3) * 0.5 + F.expm1(x * 0.1)
        values, places = F.topk(kept.mean(1), 3, -1)
        gathered = F.gather(kept.mean(1), -1, places) - values * 2
        wide = F.interpolate(kept, scale_factor=2, mode="bilinear")
        tall = F.interpolate(kept, scale_factor=3)
        return F.cumsum(gathered.mean(-1), 1) + wide.amax((1, 3))[:, ::2] * tall.amin((1, 3))[:, ::3]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_masks_and_what_they_find(precision: str, tmp_path: Path) -> None:
    net = Masks().build((2, 5, 6), seed=1).eval()
    path = net.to_coreml(tmp_path / "masks.mlpackage", precision=precision).path
    tolerance = 1e-5 if precision == "float32" else 3e-2
    for count in (1, 4):
        x = numbers(count, 2, 5, 6).astype(np.float16).astype(np.float32)
        np.testing.assert_allclose(MLModel(path).predict({"input": x})["output"], net(x), atol=tolerance)


def test_half_precision_takes_statistics_of_any_size(tmp_path: Path) -> None:
    """Variances from 1e-9 to 1e7, of which neither end is a number in half precision, joined to a convolution and alone."""
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.BatchNorm1d(16)
    net = nn.Sequential(*layers).build((3, 4, 4), seed=1)
    variances = np.float32([1e-9, 1e-3, 1, 1e7])
    net[0].weight.data[...] *= np.sqrt(variances).reshape(-1, 1, 1, 1)
    net[1].running_var[...] = variances
    net[1].running_mean[...] = np.sqrt(variances) / 4
    net[4].running_var[...] = 1e5
    x = np.random.default_rng(1).standard_normal((5, 3, 4, 4)).astype(np.float32)
    path = net.eval().to_coreml(tmp_path / "wide.mlpackage", precision="float16").path
    expected = net(x)
    assert np.mean(expected != 0) > 0.2
    actual = MLModel(path).predict({"input": x})["output"]
    assert np.abs(actual - expected).max() < 2e-2 * np.abs(expected).max()


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_classifier_is_trained_on_its_scores(precision: Any, tmp_path: Path) -> None:
    """The softmax and the choice of a class are left out on the way in, and added on the way out."""
    net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(3)).build((5,), seed=0)
    net.to_coreml(tmp_path / "m.mlpackage", classes=["ant", "bee", "cat"], precision=precision)
    again = nn.from_coreml(tmp_path / "m.mlpackage")
    x = np.random.RandomState(0).standard_normal((7, 5)).astype(np.float32)
    np.testing.assert_allclose(again(x), net(x), atol=1e-6 if precision == "float32" else 1e-2)
    assert again.predict(x).classes == ("ant", "bee", "cat")
    assert again.predict(x).confidence is not None
    labels = again(x).argmax(1)
    nn.Trainer(again, "cross_entropy", nn.SGD(0.1), quiet=True).fit(x, labels, epochs=2)
    again.eval().to_coreml(tmp_path / "again.mlpackage")
    model, sample = MLModel(tmp_path / "again.mlpackage"), x[:1]
    (name,) = model.input_description
    said = model.predict({name: sample})
    scores = np.exp(again(sample)[0])
    np.testing.assert_allclose(list(said["classLabel_probs"].values()), scores / scores.sum(), atol=1e-6)
    assert said["classLabel"] == ["ant", "bee", "cat"][int(scores.argmax())]


@pytest.mark.parametrize("numeric", [True, False])
def test_a_classifier_keeps_its_names_and_classes(numeric: bool, tmp_path: Path) -> None:
    kind, held = ("int64", "[7, -2]") if numeric else ("string", '["ant", "bee"]')
    text = f"""program(1.0) {{ func main<ios15>(tensor<fp32, [1, 2]> x) {{
        tensor<fp32, [2, 2]> w = const()[val = tensor<fp32, [2, 2]>([[1, 2], [3, -1]])];
        tensor<fp32, [1, 2]> odds = linear(x = x, weight = w);
        tensor<int32, []> last = const()[val = tensor<int32, []>(-1)];
        tensor<fp32, [1, 2]> p = softmax(x = odds, axis = last);
        tensor<{kind}, []> kind, dict<tensor<{kind}, []>, tensor<fp64, []>> chances = classify(probabilities = p,
            classes = list<tensor<{kind}, []>, 2>({held.replace("[", "(").replace("]", ")")}));
        }} -> (kind, chances); }}"""
    program = coreml.parse(text)
    first = MLModel(coreml.write_package(coreml.make_model(program), tmp_path / "m.mlpackage"))
    net = nn.from_coreml(tmp_path / "m.mlpackage")
    assert net.predict(np.float32([[1, 0]])).classes == (("7", "-2") if numeric else ("ant", "bee"))
    again = MLModel(net.to_coreml(tmp_path / "again.mlpackage").path)
    for x in np.float32([[[1, 0]], [[0, 1]]]):
        expected, actual = first.predict({"x": x}), again.predict({"x": x})
        assert actual["kind"] == expected["kind"]
        assert actual["chances"] == pytest.approx(expected["chances"], abs=1e-6)
    other = MLModel(net.to_coreml(tmp_path / "other.mlpackage", classes=["up", "down"]).path)
    assert set(other.predict({"x": x})["chances"]) == {"up", "down"}


def test_a_classifier_without_a_softmax_gives_what_its_class_is_chosen_from(tmp_path: Path) -> None:
    text = """program(1.3) { func main<ios17>(tensor<fp32, [1, 3]> x) {
        tensor<fp32, [1, 3]> p = add(x = x, y = x);
        list<string, 3> names = const()[val = list<string, 3>(["a", "b", "c"])];
        string classLabel, dict<string, fp32> classLabel_probs = classify(classes = names, probabilities = p);
        } -> (classLabel, classLabel_probs); }"""
    path = coreml.write_package(coreml.make_model(coreml.parse(text)), tmp_path / "m.mlpackage")
    net, x = nn.from_coreml(path), np.float32([[1, 2, 3], [0, -1, 4]])
    np.testing.assert_array_equal(net(x), 2 * x)
    assert net.model_card is None


# What Core ML has no operation for.


class Spectrum(nn.Module):
    """Transforms of each kind along an axis."""

    def __init__(self, kind: str, axis: int) -> None:
        super().__init__()
        self.kind, self.axis = kind, axis

    def forward(self, x: nn.Value) -> nn.Value:
        if self.kind == "rfft":
            y = F.rfft(x, n=9, dim=self.axis)
        elif self.kind == "irfft":
            return F.irfft(F.rfft(x, dim=self.axis), n=7, dim=self.axis)
        else:
            y = getattr(F, self.kind)(F.rfft(x, dim=1, norm="ortho"), n=4, dim=self.axis)
        return y


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("kind", ["rfft", "irfft", "fft", "ifft"])
def test_transforms_are_products(kind: str, axis: int, tmp_path: Path) -> None:
    network = Spectrum(kind, axis).build((8, 10))
    network.to_coreml(tmp_path / "n.mlpackage")
    for samples in (1, 3):
        x = numbers(samples, 8, 10)
        actual = MLModel(tmp_path / "n.mlpackage").predict({"input": x})["output"]
        np.testing.assert_allclose(actual, network(x), atol=1e-5)


def test_a_transform_of_too_many_entries_is_refused(tmp_path: Path) -> None:
    network = Spectrum("irfft", 1).build((9000, 1))
    with pytest.raises(NotInCoreML, match=r"a transform of 9000 entries would be a matrix of 9000 x 9002"):
        network.to_coreml(tmp_path / "n.mlpackage")


@pytest.mark.parametrize("adds", [False, True])
def test_elements_are_put_in_places(adds: bool, tmp_path: Path) -> None:
    class Put(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            put = F.scatter_add if adds else F.scatter
            return put(
                x, 1, np.array([[2, 0], [1, 1], [3, 0]]) if adds else np.array([[2], [1], [3]]), F.mul(x, 2.0)[:, :2]
            )

    x = numbers(3, 4)
    network = Put()
    expected = network(x)
    if not adds:  # of two columns, one is put
        with pytest.raises(NotInCoreML, match="only a part of what is put is used"):
            network.to_coreml(tmp_path / "n.mlpackage", batch_size=3)
        return
    network.to_coreml(tmp_path / "n.mlpackage", batch_size=3)
    np.testing.assert_allclose(MLModel(tmp_path / "n.mlpackage").predict({"input": x})["output"], expected, atol=1e-6)


def conditional(folder: Path, free: bool) -> Path:
    """An ONNX model whose branches share a weight, and compute with a value that is read again behind them."""
    helper = pytest.importorskip("onnx").helper
    numpy_helper = pytest.importorskip("onnx").numpy_helper
    weight = numpy_helper.from_array(numbers(4, 4), "w")

    def branch(name: str, op: str) -> Any:
        nodes = [helper.make_node("MatMul", ["h", "w"], [f"{name}_m"]), helper.make_node(op, [f"{name}_m"], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, None)])

    nodes = [
        helper.make_node("Tanh", ["x"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "low"], ["up"]),
        helper.make_node("If", ["up"], ["y"], then_branch=branch("a", "Relu"), else_branch=branch("b", "Sigmoid")),
        helper.make_node("MatMul", ["y", "w"], ["again"]),
        helper.make_node("Add", ["again", "h"], ["z"]),
    ]
    shape = ["N" if free else 2, 4]
    graph = helper.make_graph(
        nodes, "conditional", [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("z", 1, shape)],
        [weight, numpy_helper.from_array(np.float32(0), "low")],
    )  # fmt: skip
    path = folder / "conditional.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("free", [False, True])
def test_a_condition_becomes_cond(free: bool, precision: str, tmp_path: Path) -> None:
    network = nn.from_onnx(conditional(tmp_path, free))
    x = np.abs(numbers(2, 4))
    network(x)
    said = str(network.to_coreml(tmp_path / "n.mlpackage", precision=precision))
    assert "cond" in said
    model = MLModel(tmp_path / "n.mlpackage")
    for given in (x, -x):
        np.testing.assert_allclose(model.predict({"x": given})["z"], network(given), atol=PRECISIONS[precision])
    program = coreml.read(tmp_path / "n.mlpackage").program
    assert program is not None
    names = [operation.outputs[0].name for operation in program.functions["main"].walk() if operation.type == "const"]
    assert names.count("w") == 1 and not [name for name in names if name.startswith("w_")]  # one weight for all


def test_sizes_that_a_network_needs_are_limits(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = nn.Parameter(numbers(6, 4))

        def forward(self, x: nn.Value) -> nn.Value:
            return x + self.rows

    network = Table()
    network(numbers(6, 4))
    network.to_coreml(tmp_path / "n.mlpackage")
    with pytest.raises(ValueError, match=r"has shape \(5, 4\), but the program takes \(6, 4\)"):
        MLModel(tmp_path / "n.mlpackage").predict({"input": numbers(5, 4)})


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_cells_run_over_any_number_of_steps(kind: str, direction: str, tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx").helper
    numpy_helper = pytest.importorskip("onnx").numpy_helper
    gates = 3 if kind == "GRU" else 4
    weights = [numpy_helper.from_array(numbers(1, gates * 5, n), name) for name, n in (("w", 3), ("r", 5))]
    options = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(kind, ["x", "w", "r"], ["y", "h"], hidden_size=5, direction=direction, **options)
    graph = helper.make_graph(
        [node], "cells", [helper.make_tensor_value_info("x", 1, ["T", "N", 3])],
        [helper.make_tensor_value_info(name, 1, None) for name in ("y", "h")], weights,
    )  # fmt: skip
    (tmp_path / "n.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    network = nn.from_onnx(tmp_path / "n.onnx", batch_axis=1)
    network.to_coreml(tmp_path / "n.mlpackage")
    model = MLModel(tmp_path / "n.mlpackage")
    for steps, samples in ((4, 2), (1, 3), (7, 1)):
        x = numbers(steps, samples, 3)
        predicted = list(model.predict({"x": x}).values())
        for result, expected in zip(predicted, network(x), strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-5)


def test_limits_follow_from_what_is_required() -> None:
    free = FreeSizes({"N": 4, "T": 6, "U": 2, "V": 3})
    n, t, u, v = (Polynomial.of(name) for name in ("N", "T", "U", "V"))
    assert not free.is_less(Polynomial.of(33), t + t, required=True)  # 2 T is at most 33
    assert not free.is_less(t, Polynomial.of(4), required=True)
    assert free.is_equal(n + Polynomial.of(1), Polynomial.of(5), required=True)  # N is 4, and no longer free
    assert free.is_equal(v + v, n + Polynomial.of(2), required=True)  # so that V is 3
    assert not free.is_equal(t, Polynomial.of(3), required=True)  # one number that T cannot be
    assert not free.is_less(t, u, required=True)  # of two sizes: it limits none of them alone
    assert not free.is_less(u, Polynomial.of(2))
    assert free.without_guards() == {"N": 4, "T": "T", "U": 2, "V": "V"}
    assert _limits(free.guards, free.without_guards()) == {"T": (4, 16), "V": (3, 3)}


def test_a_size_that_a_guard_fixes_is_a_number(tmp_path: Path) -> None:
    class Rows(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            rows = x.reshape((4, -1))
            return F.layer_norm(rows, (int(rows.shape[1]),))

    network, x = Rows(), numbers(2, 4, 6)
    expected = network(x)
    network.to_coreml(tmp_path / "n.mlpackage")
    model = MLModel(tmp_path / "n.mlpackage")
    np.testing.assert_allclose(model.predict({"input": x})["output"], expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"has shape \(3, 4, 6\), but the program takes \(2, 4, 6\)"):
        model.predict({"input": numbers(3, 4, 6)})


def test_entries_are_added_in_places(tmp_path: Path) -> None:
    class Sums(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            return F.index_add(F.mul(x, 0.0), 1, np.array([2, 0, 2, 1]), F.mul(x, x))

    network, x = Sums(), numbers(3, 4, 2)
    expected = network(x)
    network.to_coreml(tmp_path / "n.mlpackage")
    np.testing.assert_allclose(MLModel(tmp_path / "n.mlpackage").predict({"input": x})["output"], expected, atol=1e-6)

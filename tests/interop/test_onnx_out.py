"""Networks written as ONNX files: ONNX computes what they do, names are kept, and the way back leads to the same weights."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_networks import BEYOND_REFERENCE, BOOL, INT64, NETWORKS, as_list, by_reference, make, node, write
from openbnns import cli, nn
from openbnns.nn import functional as F
from openbnns.nn.data.preprocessing import ArrayPreparation
from openbnns.nn.files.layer_file import CannotDescribe
from openbnns.nn.recording import recorded_graph

# Whose layers become several nodes: on the way back they train to the same weights but for rounding.
APPROXIMATE = {"transformer", "attention", "activations", "expressions", "pooling"}


@pytest.mark.parametrize("name", NETWORKS)
def test_files_compute_what_networks_do(name: str, tmp_path: Path) -> None:
    net, samples = make(name)
    path = tmp_path / "model.onnx"
    net.to_onnx(path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for parameter, values in ((n, p.data) for n, p in net.named_parameters()):
        np.testing.assert_array_equal(weights[parameter], values)
    if name not in BEYOND_REFERENCE:
        for actual, expected in zip(by_reference(path, samples), as_list(net(*samples)), strict=True):
            np.testing.assert_allclose(actual, expected, 2e-5, 1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_way_back(name: str, tmp_path: Path) -> None:
    """Weights and outputs are the same, and so are the weights after some steps of training."""
    net, samples = make(name)
    net.to_onnx(tmp_path / "model.onnx")
    again = nn.from_onnx(tmp_path / "model.onnx")
    own, theirs = net.state_dict(), again.state_dict()
    kept = {parameter for parameter, _ in net.named_parameters()}
    assert kept <= set(theirs)
    for parameter in kept:
        np.testing.assert_array_equal(theirs[parameter], own[parameter])
    for actual, expected in zip(as_list(again(*samples)), as_list(net(*samples)), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
    _without_dropout(net), _without_dropout(again)
    for network in (net, again):
        _train(network, samples)
    for parameter, values in net.named_parameters():
        actual = again.state_dict()[parameter]
        if name in APPROXIMATE:
            np.testing.assert_allclose(actual, values.data, 1e-3, 1e-4)
        else:
            np.testing.assert_array_equal(actual, values.data, parameter)


def _without_dropout(net: nn.Module) -> None:
    """Random numbers are drawn by the number of an operation, which may differ."""
    for operation in recorded_graph(net).operations:  # type: ignore[union-attr]
        for option in ("rate", "dropout"):
            if hasattr(operation, option):
                setattr(operation, option, 0.0)
                operation.random = False
                operation.prepare()


def _train(net: nn.Module, samples: list[Any]) -> None:
    if not list(net.parameters()):
        return
    optimizer = nn.SGD(list(net.parameters()), lr=0.05)
    net.train()
    for _ in range(4):
        result = net(*samples)
        if isinstance(result, tuple):
            net.backward(tuple(2 * y / y.size for y in result))
        else:
            net.backward(2 * result / result.size)
        optimizer.step()
    net.eval()


class AcrossSamples(nn.Module):
    """Sizes that are computed with: shapes, scalars, parts and repetitions that depend on how many samples there are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.token = nn.Linear(4, 6), nn.Parameter(np.linspace(-1, 1, 6).astype(np.float32))

    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        y = self.first(x)
        alike = F.softmax(y @ F.transpose(y, 0, 1) / n, dim=0)
        pairs = F.expand(y.reshape(n, 1, 6), n, n, 6).reshape(n * n, 6)
        pairs = pairs + F.expand(self.token, n * n, 6)
        return alike @ y, pairs.reshape(n, 2 * n, 3).sum(1), y.sum() / n


class Functions(nn.Module):
    """Comparisons, order, whole numbers that find and move elements, weights that are computed, transforms."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(np.random.RandomState(1).standard_normal((3, 1, 2, 3)).astype(np.float32))

    def forward(self, x: Any, ids: Any) -> Any:
        images = F.conv2d(x[:, None], self.kernel / self.kernel.norm(), padding=(0, 1))
        order = x.sum((1, 2)).argsort()
        mixed = F.where(x > 0, x.cumsum(1), x % 0.7) + F.scatter_add(
            x, 1, (ids[:, :1, None] % 2).long().expand(-1, 1, 4), x[:, :1]
        )
        counted = F.rfft(x, dim=1) * F.arange(x.shape[0])[:, None, None, None]
        best = x.topk(2, 1)
        edges = F.logaddexp(x, -x) + F.hypot(x, F.sinc(x)) + F.fmod(x, 0.4) + F.frac(x)
        return (
            images.mean((2, 3))[order],
            mixed,
            counted,
            best.values,
            best.indices,
            edges,
            x.gather(2, (ids[:, :5, None] % 4).long()),
        )


def test_functions_of_values(tmp_path: Path) -> None:
    random, net = np.random.RandomState(4), Functions()
    batches = [(random.standard_normal((n, 5, 4)).astype(np.float32), random.randint(0, 9, (n, 6))) for n in (3, 5)]
    net(*batches[0])
    net.eval().to_onnx(tmp_path / "f.onnx")
    for batch in batches:
        given = [array.astype(np.float32) for array in batch]  # nothing looks the integers up
        for actual, expected in zip(by_reference(tmp_path / "f.onnx", given), net(*batch), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


class ByNumber(nn.Module):
    """More than four samples are another network."""

    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] > 4 else x * 3


def test_sizes_are_computed_in_the_file(tmp_path: Path) -> None:
    path, net = tmp_path / "sizes.onnx", AcrossSamples().build((4,), seed=3).eval()
    net.to_onnx(path)
    declared = [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in onnx.load(path).graph.output
    ]
    assert declared == [["N", 6], ["N", 3], []]
    for count in (1, 3, 8):
        x = np.random.RandomState(count).standard_normal((count, 4)).astype(np.float32)
        for actual, expected in zip(by_reference(path, [x]), net(x), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_size_that_forward_has_asked_about_is_fixed(tmp_path: Path) -> None:
    path, net = tmp_path / "fixed.onnx", ByNumber()
    for count in (3, 6):
        x = np.random.RandomState(count).standard_normal((count, 4)).astype(np.float32)
        expected = net(x)
        net = ByNumber()
        net(x)
        net.to_onnx(path)
        (port,) = onnx.load(path).graph.input
        assert [d.dim_value for d in port.type.tensor_type.shape.dim] == [count, 4]
        np.testing.assert_array_equal(by_reference(path, [x])[0], expected)


def test_sizes_that_are_only_checked_stay_free(tmp_path: Path) -> None:
    """Height and width of a network like those that detect objects: convolutions, poolings, a joint of two scales."""

    class Detector(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
            self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)

        def forward(self, x: Any) -> Any:
            large = F.relu(self.first(x))
            return F.cat([large, self.up(self.second(large))], dim=1).mean(dim=1)

    Detector().build((3, 16, 24), seed=0).to_onnx(tmp_path / "m.onnx")
    _free_image(tmp_path / "m.onnx")
    net = nn.from_onnx(tmp_path / "m.onnx")
    net.to_onnx(tmp_path / "again.onnx")
    (port,) = onnx.load(tmp_path / "again.onnx").graph.input
    assert [size.dim_param for size in port.type.tensor_type.shape.dim] == ["N", "", "H", "W"]
    for shape in ((1, 3, 8, 12), (2, 3, 20, 4)):
        x = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(by_reference(tmp_path / "again.onnx", [x])[0], net(x), 1e-5, 1e-5)


def _free_image(path: Path) -> None:
    """Give the last two axes of the only input of a file names in place of numbers."""
    model = onnx.load(path)
    for axis, name in ((2, "H"), (3, "W")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    for port in (*model.graph.output, *model.graph.value_info):
        port.type.tensor_type.ClearField("shape")
    onnx.save(model, path)


@pytest.mark.parametrize("decide", [int, lambda n: 2 if n > 1 else 1], ids=["by its number", "by a comparison"])
def test_a_size_that_is_fixed_has_the_number_of_the_latest_run(decide: Any, tmp_path: Path) -> None:
    class Counting(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * decide(x.shape[0])

    net = Counting().eval()
    for samples in (2, 5):
        net(np.zeros((samples, 3), np.float32))
    net.to_onnx(tmp_path / "m.onnx")
    x = np.ones((5, 3), np.float32)
    np.testing.assert_array_equal(by_reference(tmp_path / "m.onnx", [x])[0], net(x))
    assert onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape.dim[0].dim_value == 5


def test_any_batch_size(tmp_path: Path) -> None:
    net, samples = make("transformer")
    net.to_onnx(tmp_path / "model.onnx")
    for count in (1, 5):
        x = np.repeat(samples[0][:1], count, 0)
        np.testing.assert_allclose(by_reference(tmp_path / "model.onnx", [x])[0], net(x), 1e-5, 1e-5)


def test_preprocessing_and_classes(tmp_path: Path) -> None:
    mean, std = np.array([3.0, 1e4]), np.array([0.5, 20.0])
    raw = (np.random.RandomState(0).standard_normal((6, 2)) * std + mean).astype(np.float32)
    net = nn.Sequential(nn.Linear(2, 3)).build((2,), seed=0)
    prepare = ArrayPreparation((2,), mean=mean, std=std)
    net.save_model(tmp_path / "m.safetensors", card=nn.ModelCard("classification", ("a", "b", "c"), prepare))
    loaded = nn.load_model(tmp_path / "m.safetensors")
    loaded.to_onnx(tmp_path / "model.onnx")
    expected = loaded.predict(raw)
    np.testing.assert_allclose(by_reference(tmp_path / "model.onnx", [raw])[0], expected.outputs, 1e-5, 1e-5)
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(metadata["classes"]) == ["a", "b", "c"] and metadata["task"] == "classification"
    again = nn.from_onnx(tmp_path / "model.onnx")
    assert again.predict(raw).labels.tolist() == expected.labels.tolist()
    loaded.to_onnx(tmp_path / "plain.onnx", preprocessing=False)
    np.testing.assert_allclose(
        by_reference(tmp_path / "plain.onnx", [prepare.apply(raw)])[0], expected.outputs, 1e-5, 1e-5
    )
    assert nn.from_onnx(tmp_path / "plain.onnx").predict(raw).labels.tolist() == expected.labels.tolist()


def test_pixels(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2)).build((1, 5, 5), seed=0)
    net.save_model(tmp_path / "m.safetensors", card=nn.ModelCard(preparation=ArrayPreparation((5, 5), pixels=True)))
    loaded = nn.load_model(tmp_path / "m.safetensors")
    pixels = np.random.RandomState(0).randint(0, 256, (4, 5, 5)).astype(np.uint8)
    loaded.to_onnx(tmp_path / "model.onnx")
    actual = by_reference(tmp_path / "model.onnx", [pixels])[0]
    np.testing.assert_allclose(actual, loaded.predict(pixels).outputs, 1e-5, 1e-6)
    again = nn.from_onnx(tmp_path / "model.onnx")
    np.testing.assert_array_equal(again.predict(pixels).outputs, loaded.predict(pixels).outputs)


def test_columns_are_prepared_by_nodes(tmp_path: Path) -> None:
    """Numbers of any size; their names come back."""
    prepare = ArrayPreparation((2,), mean=[1.7e6, 2.0], std=[4e3, 3.0], columns=["when", "size"])
    net = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2)).build((2,), seed=0)
    net.save_model(tmp_path / "m.safetensors", card=nn.ModelCard("classification", ("yes", "no"), prepare))
    loaded = nn.load_model(tmp_path / "m.safetensors")
    loaded.to_onnx(tmp_path / "model.onnx")
    x = np.array([[1.7e6, 3.5], [1.70001e6, -1.0], [1.69995e6, 20.0]], np.float32)
    expected = loaded.predict(x).outputs
    assert len(np.unique(expected[:, 0])) == len(expected)
    np.testing.assert_allclose(by_reference(tmp_path / "model.onnx", [x])[0], expected, 1e-5, 1e-6)
    again = nn.from_onnx(tmp_path / "model.onnx")
    np.testing.assert_array_equal(again.predict({"size": x[:, 1], "when": x[:, 0]}).outputs, expected)
    again.to_onnx(tmp_path / "again.onnx")
    np.testing.assert_allclose(by_reference(tmp_path / "again.onnx", [x])[0], expected, 1e-5, 1e-6)


def test_predicted_numbers_have_their_units(tmp_path: Path) -> None:
    prepare = ArrayPreparation((3,), mean=[1.0, 2.0, 3.0], std=[1.0, 0.5, 2.0])
    card = nn.ModelCard("regression", ("price", "area"), prepare, target_mean=(1e5, -3.0), target_std=(2e4, 0.1))
    net = nn.Sequential(nn.Linear(3, 2)).build((3,), seed=0)
    net.save_model(tmp_path / "m.safetensors", card=card)
    loaded = nn.load_model(tmp_path / "m.safetensors")
    raw = np.random.RandomState(1).standard_normal((5, 3)).astype(np.float32)
    expected = loaded.predict(raw).values
    loaded.to_onnx(tmp_path / "model.onnx")
    np.testing.assert_allclose(by_reference(tmp_path / "model.onnx", [raw])[0], expected, 1e-5, 1e-6)
    again = nn.from_onnx(tmp_path / "model.onnx")
    np.testing.assert_array_equal(again.predict(raw).values, expected)
    np.testing.assert_array_equal(again(raw), loaded(raw))  # what training starts from


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("[", "bounds of the network is damaged"),
        ('{"middle": "prepared"}', "bounds of the network is damaged"),
        ('{"input": "nowhere"}', "ends at 'nowhere', of which there is no description"),
        ('{"input": "scores"}', "reads|nothing computes|no description"),
    ],
)
def test_bounds_that_lie(bounds: str, message: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2)).build((3,), seed=0)
    prepare = ArrayPreparation((3,), mean=[1.0, 2.0, 3.0], std=[1.0, 0.5, 2.0])
    net.save_model(tmp_path / "m.safetensors", card=nn.ModelCard(preparation=prepare))
    nn.load_model(tmp_path / "m.safetensors").to_onnx(tmp_path / "model.onnx")
    model = onnx.load(tmp_path / "model.onnx")
    for entry in model.metadata_props:
        if entry.key == "openbnns.network":
            entry.value = bounds
    onnx.save(model, tmp_path / "lies.onnx")
    with pytest.raises(nn.onnx.OnnxError, match=message):
        nn.from_onnx(tmp_path / "lies.onnx")


def test_frozen_parameters_stay_frozen(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)).build((3,), seed=0)
    net[0].weight.requires_grad = False
    net.to_onnx(tmp_path / "model.onnx")
    again = nn.from_onnx(tmp_path / "model.onnx")
    assert [name for name, p in again.named_parameters() if not p.requires_grad] == ["0.weight"]


def test_what_cannot_be_written_is_listed(tmp_path: Path) -> None:
    class Cube(nn.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x**3

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0]

    class Cubes(nn.Module):
        def forward(self, x: Any) -> Any:
            return Cube.apply(x) + Cube.apply(F.tanh(x))

    with pytest.raises(
        nn.onnx.Unsupported, match=r"(?s)2 operations cannot be written:.*Cube in Cube: .*NumPy.*Cube in Cube"
    ):
        Cubes().build((3,)).to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match="shape of samples is not known"):
        nn.Sequential(nn.Linear(3)).to_onnx(tmp_path / "model.onnx")


def test_without_onnx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    for call in (lambda: nn.from_onnx("x.onnx"), lambda: nn.Linear(3, 2).build((3,)).to_onnx(tmp_path / "x.onnx")):
        with pytest.raises(ImportError, match=r'needs the package onnx.*pip install "openbnns\[onnx\]"'):
            call()


def test_dropout_of_everything_cannot_be_written(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(1.0), nn.Linear(4, 2)).build((3,), seed=0)
    with pytest.raises(
        nn.onnx.Unsupported, match=r"dropout with p=1 drops everything in training.*set p to 0 before you write"
    ):
        net.to_onnx(tmp_path / "model.onnx")
    net[1].p = 0.0
    net.to_onnx(tmp_path / "model.onnx")


def test_import_refuses_what_no_model_file_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def describe(network: Any) -> Any:
        raise CannotDescribe("the network is too strange")

    nn.Sequential(nn.Linear(3, 2)).build((3,), seed=0).to_onnx(tmp_path / "model.onnx")
    monkeypatch.setattr("openbnns.nn.files.model_file.describe", describe)
    monkeypatch.setattr("openbnns.nn.files.graph_file.describe", describe)
    assert cli.main(["import", str(tmp_path / "model.onnx")]) == 2
    assert re.search(r"model\.onnx: cannot be written as a model file\. .*is too strange", capsys.readouterr().err)
    assert not (tmp_path / "model.safetensors").exists()


def test_numbers_that_become_whole_are_written(tmp_path: Path) -> None:
    """Places that a model computes as numbers, and takes from a table."""
    weight = np.arange(12, dtype=np.float32).reshape(6, 2)
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["places"], to=onnx.TensorProto.INT64),
        onnx.helper.make_node("Gather", ["w", "places"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "graph", [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], [onnx.numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.save(model, tmp_path / "m.onnx")
    net, x = nn.from_onnx(tmp_path / "m.onnx"), np.float32([[0.2, 5.9, 3.5], [1, 2, 4.99]])
    net.to_onnx(tmp_path / "again.onnx")
    np.testing.assert_array_equal(by_reference(tmp_path / "again.onnx", [x])[0], weight[x.astype(int)])
    np.testing.assert_array_equal(nn.from_onnx(tmp_path / "again.onnx")(x), net(x))


_OLD_NODES = {
    "Slice": (9, "int64", {"axes": [1], "starts": [1], "ends": [3]}),
    "Squeeze": (12, "int64", {"axes": [2]}),
    "Unsqueeze": (12, "int64", {"axes": [1]}),
    "Split": (12, "int64", {"axis": 1, "split": [1, 3]}),
    "ReduceSum": (12, "int64", {"axes": [1], "keepdims": 0}),
    "ReduceMax": (17, "int64", {"axes": [1], "keepdims": 0}),
    "Hardmax": (12, "float32", {}),
}


@pytest.mark.parametrize("op", _OLD_NODES)
def test_nodes_of_old_opsets_are_written_in_their_newest_form(op: str, tmp_path: Path) -> None:
    """Whole numbers and masks, which nodes of the file that was read compute: what is an input now was an attribute."""
    opset, dtype, attributes = _OLD_NODES[op]
    x = np.random.RandomState(3).permutation(12).reshape(3, 4, 1).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    outputs = ["y", "z"][: 2 if op == "Split" else 1]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, ["x"], outputs, **attributes)], "graph",
        [onnx.helper.make_tensor_value_info("x", kind, ["N", 4, 1])],
        [onnx.helper.make_tensor_value_info(name, kind, None) for name in outputs],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, tmp_path / "old.onnx")
    net = nn.from_onnx(tmp_path / "old.onnx")
    net.to_onnx(tmp_path / "new.onnx")
    for actual, expected in zip(by_reference(tmp_path / "new.onnx", [x]), as_list(net(x)), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_determinants_are_written(tmp_path: Path) -> None:
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Det", ["x"], ["y"])], "graph",
        [onnx.helper.make_tensor_value_info("x", kind, ["N", 3, 3])], [onnx.helper.make_tensor_value_info("y", kind, ["N"])],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, tmp_path / "read.onnx")
    nn.from_onnx(tmp_path / "read.onnx").to_onnx(tmp_path / "written.onnx")
    x = np.random.RandomState(0).standard_normal((5, 3, 3)).astype(np.float32)
    np.testing.assert_allclose(by_reference(tmp_path / "written.onnx", [x])[0], np.linalg.det(x), 1e-5)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("image", [(6, 9), (15,)])
def test_places_of_maxima_are_written(image: tuple[int, ...], order: int, tmp_path: Path) -> None:
    """For any batch; and values that are put back into an image that is larger than the pooling leaves one."""
    windows = {"kernel_shape": [3] * len(image), "strides": [3] * len(image)}
    nodes = [
        node("MaxPool", "x", "y places", storage_order=order, **windows), node("Neg", "y", "z"),
        node("MaxUnpool", "y places shape" if len(image) == 2 else "y places", "back", **windows),
    ]  # fmt: skip
    weights = {"shape": np.array([3, 2, *(n + 1 for n in image)])}
    kinds = {"places": onnx.TensorProto.INT64}
    outputs = ["z", "places", *([] if order else ["back"])]
    path = write(tmp_path / "read.onnx", nodes[: 3 - order], {"x": ["N", 2, *image]}, outputs, weights, kinds=kinds)
    nn.from_onnx(path).to_onnx(tmp_path / "written.onnx")
    x = np.random.RandomState(0).standard_normal((3, 2, *image)).astype(np.float32)
    for actual, expected in zip(by_reference(tmp_path / "written.onnx", [x]), by_reference(path, [x]), strict=True):
        np.testing.assert_array_equal(actual, expected)


def of_windows_that_hang_over(op: str, x: Any, kernel: int, stride: int) -> Any:
    """A pooling in loops, as onnxruntime has it: windows begin inside of the image, and means are those of what lies in it."""
    counts = [-(-(n - kernel) // stride) + 1 for n in x.shape[2:]]
    counts = [m - ((m - 1) * stride >= n) for m, n in zip(counts, x.shape[2:], strict=True)]
    y = np.empty((*x.shape[:2], *counts))
    for place in np.ndindex(*counts):
        rows, columns = (slice(i * stride, i * stride + kernel) for i in place)
        part = x[:, :, rows, columns].astype(np.float64)
        y[:, :, place[0], place[1]] = part.max((2, 3)) if op == "MaxPool" else part.mean((2, 3))
    return y


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 3)])
def test_windows_that_hang_over_keep_sizes_free(op: str, kernel: int, stride: int, tmp_path: Path) -> None:
    first = tmp_path / "first.onnx"
    options = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "ceil_mode": 1}
    write(first, [node(op, "x", "y", **options)], {"x": ["N", 2, "H", "W"]}, ["y"])
    net = nn.from_onnx(first)
    for size in (8, 9, 10):
        x = np.random.RandomState(size).standard_normal((2, 2, size, size + 1)).astype(np.float32)
        np.testing.assert_allclose(net(x), of_windows_that_hang_over(op, x, kernel, stride), 1e-5, 1e-6)
        net.to_onnx(tmp_path / "again.onnx")
        again = nn.from_onnx(tmp_path / "again.onnx")
        np.testing.assert_allclose(again(x), net(x), 1e-6)
        other = np.random.RandomState(0).standard_normal((1, 2, 13, 7)).astype(np.float32)
        np.testing.assert_allclose(again(other), net(other), 1e-6)


def pooling_of(path: Path) -> dict[str, Any]:
    """The attributes of the only pooling of a file."""
    (pool,) = (step for step in onnx.load(path).graph.node if step.op_type.endswith("Pool"))
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in pool.attribute}


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("image", "pads", "ceil"),
    [
        ((8, 9), [0, 0, 1, 0], None),  # up to the ends of all windows
        (("H", 9), [0, 0, 0, 0], 1),
        (("H", 10), [0, 0, 0, 1], 1),  # also where another axis is free
        (("H", "W"), [0, 0, 0, 0], 1),
    ],
)
def test_windows_that_hang_over_are_written_as_padding_of_known_sizes(
    op: str, image: tuple[Any, Any], pads: list[int], ceil: int | None, tmp_path: Path
) -> None:
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    write(tmp_path / "first.onnx", [node(op, "x", "y", **options)], {"x": ["N", 2, *image]}, ["y"])
    net = nn.from_onnx(tmp_path / "first.onnx")
    x = np.random.RandomState(0).standard_normal((2, 2, *(8 if isinstance(n, str) else n for n in image)))
    expected = of_windows_that_hang_over(op, x.astype(np.float32), 3, 2)
    np.testing.assert_allclose(net(x.astype(np.float32)), expected, 1e-5, 1e-6)
    net.to_onnx(tmp_path / "written.onnx")
    written = pooling_of(tmp_path / "written.onnx")
    assert (written["pads"], written.get("ceil_mode")) == (pads, ceil)
    again = nn.from_onnx(tmp_path / "written.onnx")
    np.testing.assert_allclose(again(x.astype(np.float32)), expected, 1e-5, 1e-6)


def test_windows_that_are_counted_otherwise_for_free_sizes_are_refused(tmp_path: Path) -> None:
    """Sums of windows count the padding, which ends where the last window does."""
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    write(tmp_path / "a.onnx", [node("AveragePool", "x", "y", **options)], {"x": ["N", 2, "H", "W"]}, ["y"])
    net = nn.from_onnx(tmp_path / "a.onnx")
    net(np.zeros((1, 2, 8, 8), np.float32))
    with pytest.raises(
        nn.onnx.Unsupported, match=r"windows that hang over depend on the size of its input\. Use ceil_mode=False"
    ):
        net.to_onnx(tmp_path / "b.onnx")


def finding(op: str) -> tuple[list[Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Nodes whose results have sizes that depend on numbers, with inputs, their types, and weights."""
    taken = [node("Transpose", "p", "q", perm=[1, 0]), node("GatherND", "x q", "v"), node("Mul", "v w", "y")]
    image = {"x": ["N", "T"]}
    if op == "NonZero":
        return [node("Greater", "x zero", "m"), node("NonZero", "m", "p"), *taken], image, {}, {"zero": np.float32(0)}
    if op == "Compress":
        return [node("Compress", "x c", "y", axis=0)], {"x": ["N", "T"], "c": ["N"]}, {"c": BOOL}, {}
    if op == "Unique":
        flat = [node("Floor", "x", "f"), node("Reshape", "f all", "g"), node("Unique", "g", "y i v c", sorted=0)]
        return flat, image, {}, {"all": np.int64([-1])}
    if op == "Range":
        counted = [node("ReduceMax", "x", "m", keepdims=0), node("Range", "zero m w", "y")]
        return counted, image, {}, {"zero": np.float32(0)}
    boxes = {"most": np.int64([4]), "overlap": np.float32([0.5]), "least": np.float32([-0.5])}
    kept = [
        node("Unsqueeze", "x first", "b"), node("Slice", "x first last last", "s"), node("Transpose", "s", "t", perm=[1, 0]),
        node("Unsqueeze", "t first", "u"), node("NonMaxSuppression", "b u most overlap least", "y"),
    ]  # fmt: skip
    return kept, {"x": ["N", 4]}, {"y": INT64}, boxes | {"first": np.int64([0]), "last": np.int64([1])}


@pytest.mark.parametrize("op", ["NonZero", "Compress", "Unique", "Range", "NonMaxSuppression"])
def test_sizes_that_depend_on_numbers_are_written(op: str, tmp_path: Path) -> None:
    """The file finds them for numbers of its own, even if there is nothing to find."""
    nodes, inputs, kinds, weights = finding(op)
    write(tmp_path / "first.onnx", nodes, inputs, ["y"], {"w": np.float32(2), **weights}, kinds=kinds)
    net = nn.from_onnx(tmp_path / "first.onnx")
    random = np.random.RandomState(0)

    def samples(count: int, scale: float = 3) -> list[Any]:
        x = (scale * random.standard_normal((count, 4))).astype(np.float32)
        return [x, np.arange(count) % 3 == 0] if op == "Compress" else [x]

    net(*samples(5))
    net.to_onnx(tmp_path / "again.onnx")
    again = nn.from_onnx(tmp_path / "again.onnx")
    for given in (samples(7), samples(3), samples(6, 0.0)):
        expected = by_reference(tmp_path / "first.onnx", given)[0]
        stored = [x.astype(np.int64) if x.dtype == bool else x for x in given]
        for actual in (net(*given), again(*given), by_reference(tmp_path / "again.onnx", stored)[0]):
            np.testing.assert_allclose(actual, expected, 1e-6)

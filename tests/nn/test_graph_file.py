"""Networks that are written as what they record, and read without any of their classes."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from every_layer import LAYERS, Array, assert_same, samples_for, shapes_of, train
from function_arguments import ARGUMENTS, Draw
from function_checks import Applied, called, listed, split
from networks import numbers
from openbnns import nn
from openbnns.files import safetensors as weights
from openbnns.files.checked_json import ModelError
from openbnns.nn import functional as F
from openbnns.nn.files import graph_file, model_file
from openbnns.nn.files.model_file import KEY


def by_graph(net: nn.Module, path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """A network once more, from what it records, though it could be made from its layers."""

    def refuse(_: Any) -> Any:
        raise model_file.CannotDescribe("it shall not")

    with monkeypatch.context() as patched:
        patched.setattr(model_file, "_description", refuse)
        net.save_model(path)
    return nn.load_model(path)


@pytest.mark.parametrize(
    ("module", "shape"), LAYERS, ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else ""
)
def test_every_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: nn.Module, shape: Any) -> None:
    net = copy.deepcopy(module).build(*shapes_of(shape), seed=3)
    again = by_graph(net, tmp_path / "m.safetensors", monkeypatch)
    assert isinstance(again, graph_file.RecordedNetwork)
    assert_same(net, again, samples_for(net, 3), samples_for(net, 5, 1))


class Functions(nn.Module):
    """Functions of values that are operations of their own, on numbers and on integers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(np.random.RandomState(0).standard_normal((9, 4)).astype(np.float32))
        self.kernel = nn.Parameter(np.random.RandomState(1).standard_normal((3, 1, 2, 3)).astype(np.float32))

    def forward(self, x: Any, ids: Any) -> Any:
        kept, half = ids != 3, ids * 0.5
        rows = F.embedding(ids[:, 1:], self.table.tanh()) * kept[:, 1:, None] + half[:, 1:, None]
        order = x.sum((1, 2)).argsort()
        images = F.conv2d(x[:, None], self.kernel / self.kernel.norm(), padding=(0, 1))
        mixed = F.where(x > 0, x.cumsum(1), x % 0.7) + F.scatter_add(
            x, 1, (ids[:, :1, None] % 2).long().expand(-1, 1, 4), x[:, :1]
        )
        spectrum = F.irfft(F.rfft(x, dim=1), n=x.shape[1], dim=1) * F.arange(x.shape[0])[:, None, None]
        best = x.topk(2, 1)
        return (
            rows,
            images.mean((2, 3))[order],
            mixed + spectrum,
            best.values,
            best.indices,
            F.atan2(x, 1.5).diagonal(0, 1, 2),
        )


def test_functions_of_values(tmp_path: Path) -> None:
    random = np.random.RandomState(4)
    batches = [(random.standard_normal((n, 5, 4)).astype(np.float32), random.randint(0, 9, (n, 6))) for n in (3, 5)]
    net = Functions()
    net(*batches[0])
    net.save_model(tmp_path / "m.safetensors")
    assert_same(net, nn.load_model(tmp_path / "m.safetensors"), *batches)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.body, self.drop = nn.BatchNorm1d(width), nn.Linear(width, width), nn.Dropout(0.4)
        self.gain = nn.Parameter(np.linspace(0.5, 1.5, width).astype(np.float32))

    def forward(self, x: Any) -> Any:
        return x + self.drop(F.gelu(self.body(self.norm(x)))) * self.gain


class Whole(nn.Module):
    """Sizes that are computed with, a shared part, buffers, constants, random numbers, and results in a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.block = nn.Linear(5, 6), Block(6)
        self.again = self.block
        self.unused = nn.Parameter(np.ones(3, np.float32))
        self.register_buffer("mask", np.array([True, False, True, True, False, True]))
        self.table = np.arange(6.0) / 7  # not in the state: a constant of the recording

    def forward(self, x: Any, y: Any) -> Any:
        n = x.shape[0]
        z = self.again(self.block(self.first(x)))
        z = F.where(self.mask, z, 0.0) + self.table + F.randn_like(z)
        alike = F.softmax(z @ F.transpose(z, 0, 1) / n, 1)
        return {"alike": alike @ z, "parts": [z.reshape(2 * n, 3)[1:], (y.sum() / n).reshape(1)]}


class ByMode(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.linear(x) * 2 if self.training else F.tanh(self.linear(x))


class Sequences(nn.Module):
    """Any length, each of which is another recording; more than five steps are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.heads = nn.GRU(4, 6, batch_first=True), nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)

    def forward(self, x: Any) -> Any:
        y = self.heads(self.cells(x)[0])
        for i in range(x.shape[1]):
            y = y + i * y[:, i : i + 1]
        return y.sum(1) if x.shape[1] > 5 else y.mean(1)


class AtLeastThree(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2 if x.shape[0] > 2 else x * 3


class Cube(nn.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x**3

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy


class WithFunction(nn.Module):
    def forward(self, x: Any) -> Any:
        return Cube.apply(x)


def whole(path: Path) -> tuple[nn.Module, nn.Module]:
    net = Whole().build((5,), (2,), seed=1)
    net.block.body.bias.requires_grad = False
    net.save_model(path)
    return net, nn.load_model(path)


def test_own_classes(tmp_path: Path) -> None:
    net, again = whole(tmp_path / "m.safetensors")
    assert_same_when_drawn_alike(net, again)
    assert repr(again) == repr(net) and again.again is again.block and type(again).__name__ == "Whole"
    assert [n for n, p in again.named_parameters() if not p.requires_grad] == ["block.body.bias"]
    assert again.unused.data.tolist() == [1, 1, 1] and again.mask.dtype == np.bool_
    assert again.summary() is None or str(again.summary()) == str(net.summary())
    x, y = numbers(3, 5), numbers(3, 2)
    assert set(again(y=y, x=x)) == {"alike", "parts"}  # inputs have the names that they had
    with pytest.raises(TypeError, match=r"missing a required argument: 'y'.*Inputs are named"):
        again(x, z=y)
    with pytest.raises(NotImplementedError, match="Block: this part of a network was read from a file"):
        again.block(numbers(2, 6))


def assert_same_when_drawn_alike(one: nn.Module, other: nn.Module) -> None:
    for number, count in enumerate((2, 5)):
        x = numbers(count, 5, seed=number), numbers(count, 2)
        (ya, ga, _), (yb, gb, _) = (train(net, x, number) for net in (one, other))
        assert ga.keys() == gb.keys() and len(ga) == 7
        for a, b in [*zip(ya, yb, strict=True), *((ga[n], gb[n]) for n in ga)]:
            np.testing.assert_array_equal(a, b)
    for name, array in one.state_dict().items():
        np.testing.assert_array_equal(array, other.state_dict()[name])


def test_copies_pickles_and_files_of_what_was_read(tmp_path: Path) -> None:
    net, again = whole(tmp_path / "m.safetensors")
    again.save_model(tmp_path / "second.safetensors")
    for other in (
        copy.deepcopy(again),
        pickle.loads(pickle.dumps(again)),
        nn.load_model(tmp_path / "second.safetensors"),
    ):
        assert_same_when_drawn_alike(copy.deepcopy(net), other)
    first, second = (
        json.loads(weights.read(tmp_path / f"{name}.safetensors")[1][KEY])["graph"] for name in ("m", "second")
    )
    assert first == second


def test_buffers_are_read_where_they_lie(tmp_path: Path) -> None:
    _, again = whole(tmp_path / "m.safetensors")
    before = train(again, (numbers(2, 5), numbers(2, 2)), 1)[0]
    again.mask[...] = True
    assert not np.array_equal(before[0], train(again, (numbers(2, 5), numbers(2, 2)), 1)[0][0])


def test_both_modes(tmp_path: Path) -> None:
    net = ByMode().build((3,), seed=2)
    net.save_model(tmp_path / "m.safetensors")
    assert_same(net, nn.load_model(tmp_path / "m.safetensors"), (numbers(2, 3),), (numbers(4, 3),))


def test_parts_in_a_mode_of_their_own(tmp_path: Path) -> None:
    net = nn.Sequential(Block(6), nn.Linear(6, 2)).build((6,), seed=2)
    net.save_model(tmp_path / "m.safetensors")
    again, x = nn.load_model(tmp_path / "m.safetensors"), (numbers(4, 6),)
    for one in (net, again):
        one.train()(*x)
        one[0].norm.eval() if one is net else dict(one.named_modules())["0.norm"].eval()
    modes = [m.training for m in net.modules()]
    assert modes == [m.training for m in again.modules()]
    for one in (net, again):
        assert np.isfinite(one(*x)).all()
    states = [dict(one.state_dict()) for one in (net, again)]
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name])


def test_several_shapes(tmp_path: Path) -> None:
    net = Sequences().build((7, 4), seed=0)
    net(numbers(2, 3, 4))
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    assert_same(net, again, (numbers(2, 7, 4),), (numbers(5, 3, 4),))
    message = (
        r"Sequences: the inputs have shape \(2, 4, 4\), but the file holds the network for \(N, 7, 4\) or \(N, 3, 4\)"
    )
    with pytest.raises(ValueError, match=message):
        again(numbers(2, 4, 4))


def test_guards_and_their_places(tmp_path: Path) -> None:
    net = AtLeastThree()
    net(numbers(4, 2))
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again(numbers(3, 2)), 2 * numbers(3, 2))
    with pytest.raises(
        ValueError, match=r"only if .* at .*test_graph_file\.py:\d+\. Run the network on such inputs before"
    ):
        again(numbers(2, 2))
    net(numbers(1, 2))
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    for count in (1, 2, 3, 9):
        np.testing.assert_array_equal(again(numbers(count, 2)), net(numbers(count, 2)))


def test_a_part_of_another_network(tmp_path: Path) -> None:
    net = Block(6).build((6,), seed=2)
    net.save_model(tmp_path / "m.safetensors")
    larger = nn.Sequential(nn.Linear(4, 6), nn.load_model(tmp_path / "m.safetensors"), nn.Linear(6, 1)).build(
        (4,), seed=1
    )
    trained = nn.Sequential(larger[0], net, larger[2]).build((4,), seed=1)
    x = (numbers(5, 4),)
    for a, b in zip(train(larger, x, 0)[0], train(trained, x, 0)[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_exports(tmp_path: Path) -> None:
    from onnx_networks import by_reference

    net = nn.Sequential(Block(6), nn.Linear(6, 2)).build((6,), seed=2).eval()
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    again.to_onnx(tmp_path / "m.onnx")
    x = numbers(5, 6)
    np.testing.assert_allclose(by_reference(tmp_path / "m.onnx", [x])[0], net(x), rtol=1e-5, atol=1e-6)


def test_functions_of_users_are_refused(tmp_path: Path) -> None:
    net = WithFunction().build((3,))
    with pytest.raises(
        TypeError, match=r"^WithFunction\.save_model: it calls Cube, an nn\.Function, whose code a file cannot"
    ):
        net.save_model(tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


# Files that lie.


def rewritten(path: Path, change: Any) -> Path:
    arrays, metadata = weights.read(path)
    said = json.loads(metadata[KEY])
    change(said["graph"])
    weights.save(path, arrays, {**metadata, KEY: json.dumps(said)})
    return path


def first(graph: Any) -> Any:
    return graph["recordings"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.update(version=2), "written in version 2, .*Install a newer one"),
        (lambda g: g.update(version="1"), "does not say in which version"),
        (lambda g: g.update(recordings=[]), "cannot be recorded"),
        (lambda g: g["parts"].update({"": {"kind": "os.system", "shown": ""}}), "not the name of a class"),
        (lambda g: g["parts"].update({"a.b": {"kind": "A", "shown": ""}}), "cannot be recorded"),
        (lambda g: first(g)["operations"][0].update(type="system"), "KeyError: 'system'"),
        (lambda g: first(g)["operations"][0].update(type="ShapedOperation"), "cannot be recorded"),
        (lambda g: first(g)["operations"][0].update(part="nowhere"), "KeyError: 'nowhere'"),
        (lambda g: first(g)["operations"][0]["arguments"].update(x={"value": 99}), "cannot be recorded"),
        (lambda g: first(g)["operations"][0]["arguments"].update(x={"value": -1}), "cannot be recorded"),
        (lambda g: first(g)["operations"][0]["arguments"].update(weight={"parameter": "no"}), "KeyError: 'no'"),
        (lambda g: first(g)["operations"][0]["arguments"].update(weight={"init__": "no"}), "cannot be recorded"),
        (lambda g: first(g)["outputs"].append({"value": 10**9}), "cannot be recorded"),
        (lambda g: first(g)["inputs"][0].update(shape=[2**40, 2**40]), "cannot be recorded"),
        (lambda g: first(g)["sizes"].clear(), "KeyError: 'N'"),
        (lambda g: first(g)["guards"].append([[[1, ["N"]]], "==", [[1, []]], True, "x"]), "cannot be recorded"),
        (lambda g: first(g).update(structure={"kind": "type", "names": [], "parts": []}), "KeyError: 'type'"),
        (lambda g: g["frozen"].append("nothing"), "KeyError: 'nothing'"),
    ],
)  # fmt: skip
def test_graphs_that_lie(tmp_path: Path, change: Any, message: str) -> None:
    whole(tmp_path / "m.safetensors")
    with pytest.raises(ModelError, match=f"m.safetensors: graph: .*{message}"):
        nn.load_model(rewritten(tmp_path / "m.safetensors", change))


class Images(nn.Module):
    """Windows, norms, a function that is made of others, and an operation with attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.spread = nn.Conv2d(4, 3, padding=1, groups=2), nn.ConvTranspose2d(4, 3, stride=2, groups=2)
        self.norm, self.groups = nn.BatchNorm2d(), nn.GroupNorm(2)

    def forward(self, x: Any) -> Any:
        y = F.max_pool2d(self.norm(F.relu(self.conv(x))), 2)
        z = F.mish(self.groups(F.avg_pool2d(self.spread(y), 3, 2, 1)))
        places = F.argmax(z, 1)
        return F.layer_norm(z, (4, 4)), F.cumsum(F.mul(places, places), 2), F.max_pool2d(z, 2, return_indices=True)[1]


_WINDOW: dict[str, list[Any]] = {
    "kernel": [[3], [3, 0], [3, -1], [3, True], [3, 0.5]], "stride": [[0, 1], [1, "x"], 1], "dilation": [[1, 0], [2**40, 1]],
    "edges": [[[1, 1]], [[1, -1], [0, 0]], [[0, 0], [0, 0, 0]]], "ceil": [1, "x"],
}  # fmt: skip
_DAMAGES: dict[str, dict[str, list[Any]]] = {
    "Convolution": {"groups": [0, 3, 4, True, 0.5], "bias": [7], "extra": [[0], [1, 1]]},
    "GroupedTransposedConvolution": {"groups": [1, 3], "bias": [7], "extra": [None, [2, 0], [0], [0, -1], [0, 0.5]]},
    "Pooling": {"case": ["median", None, 2], "counted": ["x"], "scale": [None, "x"]},
    "MaxPoolingWithIndices": {},
    "Normalization": {"sample": [[], [2], [3, 3], "x", [4, 1, 1], [3, 4, 4]], "epsilon": [None, -1], "momentum": ["x"]},
    "Composite": {"name": ["mash", "glu", 1], "operands": [[], [1], [{"value": 4}] * 2], "attributes": [[["beta", 1]]]},
    "Node": {"name": ["cumsam", "where", "exp", 1], "operands": [[], [1], [{"value": 0}, {"value": 0}, {"value": 0}]],
             "attributes": [[7], ["x"], [2, 2], [True]]},
}  # fmt: skip


@pytest.mark.parametrize("kind", _DAMAGES)
def test_arguments_that_no_function_records_are_refused(tmp_path: Path, kind: str) -> None:
    """When the file is opened, not when the network runs."""
    net = Images().build((4, 6, 6), seed=0)
    net.save_model(tmp_path / "m.safetensors")
    nn.load_model(tmp_path / "m.safetensors")
    arrays, metadata = weights.read(tmp_path / "m.safetensors")
    refused = 0

    def refuse(number: int, name: str, part: Any, value: Any) -> None:
        told = json.loads(metadata[KEY])
        arguments = first(told["graph"])["operations"][number]["arguments"]
        (arguments if part is None else arguments[name]["record"][1])[part or name] = value
        weights.save(tmp_path / "n.safetensors", arrays, {**metadata, KEY: json.dumps(told)})
        with pytest.raises(ModelError, match="graph: the network cannot be recorded from what it says"):
            nn.load_model(tmp_path / "n.safetensors")
            pytest.fail(f"{kind} takes {value!r} as {part or name}")

    for number, operation in enumerate(first(json.loads(metadata[KEY])["graph"])["operations"]):
        if operation["type"] != kind:
            continue
        for name, values in _DAMAGES[kind].items():
            for value in values:
                refuse(number, name, None, {"list": value} if name == "operands" else value)
                refused += 1
        for part, values in _WINDOW.items() if "window" in operation["arguments"] else ():
            for value in values:
                refuse(number, "window", part, value)
                refused += 1
    assert refused >= sum(map(len, _DAMAGES[kind].values()))


def test_a_few_bytes_cannot_ask_for_memory(tmp_path: Path) -> None:
    class Wide(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.expand(x.reshape(x.shape[0], 1, 3), x.shape[0], 4, 3)

    Wide().build((3,)).save_model(tmp_path / "m.safetensors")

    def change(graph: Any) -> None:
        (expand,) = first(graph)["operations"]
        expand["arguments"]["output"]["output"][1] = 2**40

    with pytest.raises(ModelError, match=r"the result .* of a Expand takes .*, more than the limit"):
        nn.load_model(rewritten(tmp_path / "m.safetensors", change))


def places_in(said: Any) -> list[tuple[Any, Any]]:
    """Where something stands in JSON: the table or list, and its key there."""
    places = []
    for key, value in said.items() if isinstance(said, dict) else enumerate(said):
        places.append((said, key))
        if isinstance(value, (dict, list)):
            places += places_in(value)
    return places


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_never_crash(tmp_path: Path, seed: int) -> None:
    """A changed file is refused, or runs, or fails with an error."""
    random = np.random.RandomState(seed)
    nets: list[tuple[nn.Module, tuple[Array, ...]]] = [
        (Whole().build((5,), (2,), seed=1), (numbers(3, 5), numbers(3, 2))),
        (nn.Sequential(Sequences()).build((4, 4), seed=1), (numbers(2, 4, 4),)),
        (nn.Sequential(nn.LSTM(3, 4, batch_first=True), Block(4)), (numbers(2, 4),)),
    ]
    refused = 0
    for net, x in nets[:2]:
        net.save_model(tmp_path / "m.safetensors")
        arrays, metadata = weights.read(tmp_path / "m.safetensors")
        for _ in range(40):
            said = json.loads(metadata[KEY])
            table, key = (places := places_in(said["graph"]["recordings"]))[random.randint(len(places))]
            others = [copy.deepcopy(t[k]) for t, k in (places[i] for i in random.randint(len(places), size=4))]
            new = [None, -1, 0, 1, 7, 2**31, 2**70, "N", "", [], {}, True, 0.5, *others]
            table[key] = new[random.randint(len(new))]
            weights.save(tmp_path / "n.safetensors", arrays, {**metadata, KEY: json.dumps(said)})
            try:
                again = nn.load_model(tmp_path / "n.safetensors")
            except ModelError:
                refused += 1
                continue
            try:
                again(*x)
                again.train()(*x)
            except (
                ValueError,
                TypeError,
                KeyError,
                IndexError,
                AttributeError,
                RuntimeError,
                AssertionError,
                ArithmeticError,
            ):
                pass
    assert refused > 20


@pytest.mark.parametrize("field", ["first", "head", "row", "length", "heads"])
def test_heads_outside_of_their_value_are_refused(tmp_path: Path, field: str) -> None:
    """Native code reads them by their addresses."""

    class Heads(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.scaled_dot_product_attention(x, x, x)

    Heads().build((2, 5, 4)).save_model(tmp_path / "m.safetensors")

    def change(graph: Any) -> None:
        (attention,) = first(graph)["operations"]
        attention["arguments"]["parts"]["list"][1]["record"][1][field] = 10**6

    again = nn.load_model(rewritten(tmp_path / "m.safetensors", change))
    with pytest.raises(ValueError, match=r"attention: .* is not inside the samples|do not fit together"):
        again(numbers(1, 2, 5, 4))


def test_cells_with_weights_of_other_shapes_are_refused(tmp_path: Path) -> None:
    net = nn.Sequential(Sequences()).build((4, 4), seed=1)
    net.save_model(tmp_path / "m.safetensors")

    def change(graph: Any) -> None:
        cells = next(said for said in first(graph)["operations"] if said["type"] == "Recurrent")
        cells["arguments"]["weights"][1] = cells["arguments"]["weights"][0]

    with pytest.raises(ModelError, match=r"gru cells: weights and biases .* do not fit each other"):
        nn.load_model(rewritten(tmp_path / "m.safetensors", change))


# Those whose other arrays have the size of the batch, which stays free in a file.
OF_ONE_BATCH = {"max_unpool1d", "max_unpool2d", "layer_norm", "multi_margin_loss", "multilabel_margin_loss"}
WITHOUT_SAMPLES = {"arange", "full", "one_hot", "ones", "zeros"}


@pytest.mark.parametrize("name", sorted({*ARGUMENTS} - OF_ONE_BATCH - WITHOUT_SAMPLES))
def test_every_function_with_arrays_in_it_is_saved(name: str, tmp_path: Path) -> None:
    """Arrays in a call of ``forward`` are stored: the network of a file gives the same bits, and so does a file of that."""
    args, named = ARGUMENTS[name](Draw(0))
    parts, build = split(args)
    net = Applied(lambda x: called(name, build(args, [x, *parts[1:]]), named))
    assert_saved(net, np.atleast_1d(parts[0]), tmp_path)


def test_rows_of_classes_are_saved(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    assert_saved(Applied(lambda x: F.one_hot(F.argmax(x, -1), 3)), x, tmp_path)


def assert_saved(net: nn.Module, x: Any, folder: Path) -> None:
    expected = listed(net.eval()(x))
    for file in (folder / "first.openbnns", folder / "second.openbnns"):
        net.save_model(file)
        net = nn.load_model(file).eval()
        for y, right in zip(listed(net(x)), expected, strict=True):
            assert y.dtype == right.dtype and y.tobytes() == right.tobytes()


def test_a_file_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    """An array of the batch's size fits no other batch, and the batch is free in a file."""
    args, named = ARGUMENTS["max_unpool1d"](Draw(0))
    parts, build = split(args)
    net = Applied(lambda x: called("max_unpool1d", build(args, [x, *parts[1:]]), named)).eval()
    net(parts[0])
    with pytest.raises(TypeError, match=r"the network cannot be recorded from what it says\. max_unpool.* net\.save"):
        net.save_model(tmp_path / "n.openbnns")
    assert not list(tmp_path.iterdir())

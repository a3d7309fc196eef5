"""Model files: networks come back as they were, and files that are not what they should be are refused with a reason."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from damaged_files import damaged, read_many
from every_layer import LAYERS, flat, samples_for, shapes_of
from openbnns import nn
from openbnns.files import safetensors as weights
from openbnns.nn.data.preprocessing import ArrayPreparation
from openbnns.nn.files import model_file
from openbnns.nn.files.model_file import KEY
from openbnns.nn.models import ModelError


def stored(path: Path) -> dict[str, Any]:
    return json.loads(weights.read(path)[1][KEY])


def rewritten(path: Path, change: Any) -> Path:
    """The file with another description."""
    arrays, metadata = weights.read(path)
    said = json.loads(metadata[KEY])
    change(said)
    weights.save(path, arrays, {**metadata, KEY: json.dumps(said)})
    return path


@pytest.mark.parametrize(
    ("module", "shape"), LAYERS, ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else ""
)
def test_every_layer_comes_back(tmp_path: Path, module: nn.Module, shape: Any) -> None:
    module.build(*shapes_of(shape), seed=3)
    for number, array in enumerate(module.state_dict().values()):
        array += 0.01 * (number + 1)  # buffers, too, have values of their own
    path = tmp_path / "model.safetensors"
    module.save_model(path)
    assert stored(path)["network"] is not None
    again = nn.load_model(path)
    assert repr(again) == repr(module)
    x = samples_for(module)
    module.eval()
    for one, other in zip(flat(module(*x)), flat(again(*x)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_layer_is_in_the_list() -> None:
    from openbnns.nn.files.layer_file import layer_types

    seen = {type(part).__name__ for module, _ in LAYERS for part in module.modules()}
    without_samples = {"MaxUnpool1d", "MaxUnpool2d"}  # which take indices, beside the samples, from a pooling layer
    assert set(layer_types()) - seen == without_samples


def test_long_descriptions_are_refused_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, path = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).build((3,), seed=0), tmp_path / "model.safetensors"
    net.save_model(path)
    size = len(weights.read(path)[1][KEY])
    monkeypatch.setattr(model_file, "_LARGEST_TEXT", size)
    nn.load_model(path)
    net.save_model(path)
    monkeypatch.setattr(model_file, "_LARGEST_TEXT", size - 1)
    with pytest.raises(ModelError, match=r"description has .*, but .* are the most"):
        nn.load_model(path)
    with pytest.raises(ValueError, match=r"description has .*, but .* are the most"):
        net.save_model(path)


def test_shared_frozen_changed_and_replaced_parts(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    net = nn.Sequential(layer, nn.Dropout(0.5), layer, nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(2))
    net[3].weight = layer.weight
    net[5] = nn.Linear(3)
    net.build((4,), seed=1)
    net[0].bias.requires_grad = False
    net[1].p, net[4].momentum = 0.25, 0.9
    path = tmp_path / "model.safetensors"
    drawn = [first_draw(seed=5)]
    nn.manual_seed(5)
    net.save_model(path)
    drawn.append(float(nn.Linear(1, 1).weight.data[0, 0]))
    assert drawn[0] == drawn[1]  # saving draws no random numbers of others
    again = nn.load_model(path)
    assert isinstance(again, nn.Sequential)
    assert again[0] is again[2] and again[3].weight is again[0].weight and again[3].bias is not again[0].bias
    assert (again[1].p, again[4].momentum, again[5].out_features) == (0.25, 0.9, 3)
    assert [n for n, p in again.named_parameters() if not p.requires_grad] == ["0.bias"]
    assert not again.training
    assert sum(p.size for p in again.parameters()) == sum(p.size for p in net.parameters())


def first_draw(seed: int) -> float:
    nn.manual_seed(seed)
    return float(nn.Linear(1, 1).weight.data[0, 0])


class Own(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(width), nn.Linear(2)

    def forward(self, x: Any) -> Any:
        return self.two(self.one(x).tanh())


def test_classes_of_ones_own(tmp_path: Path) -> None:
    net = Own().build((3,), seed=0)
    path = tmp_path / "own.safetensors"
    net.save_model(path, task="classification", classes=["no", "yes"])
    x = np.float32([[1, 2, 3]])
    for again in (nn.load_model(path), nn.load_model(path, network=Own())):
        np.testing.assert_array_equal(again.predict(x).probabilities, net.predict(x).probabilities)
        assert again.predict(x).labels[0] in ("no", "yes")
    with pytest.raises(
        ModelError, match=r"(?s)the network that was passed does not fit.*shape \(4, 3\) given, \(5, 3\) needed"
    ):
        nn.load_model(path, network=Own(5))
    inside = nn.Sequential(nn.Linear(3), Own()).build((3,), seed=0)
    inside.save_model(path)
    np.testing.assert_array_equal(nn.load_model(path)(x), inside.eval()(x))


def test_files_without_a_network_take_one(tmp_path: Path) -> None:
    path = tmp_path / "own.safetensors"
    Own().build((3,), seed=0).save_model(path)
    said = rewritten(path, lambda said: said.pop("graph"))
    with pytest.raises(ModelError, match=r"own\.safetensors: says nothing about the network\. The file is damaged\."):
        nn.load_model(said)
    assert nn.load_model(path, network=Own()).state_dict().keys() == Own().build((3,)).state_dict().keys()


def test_a_layer_that_cannot_be_made_anew_is_written_as_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    net = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
    net[0].linear2 = nn.Sequential(nn.Linear(16, 4), nn.Linear(4, 8))
    net.build((5, 8), seed=0).save_model(path)
    assert stored(path)["network"] is None and stored(path)["graph"]["parts"]
    x = samples_for(net)
    np.testing.assert_array_equal(nn.load_model(path)(*x), net.eval()(*x))
    with pytest.raises(RuntimeError, match=r"save_model: the shape of samples is not known\. Call build"):
        nn.Linear(3, 2).save_model(path)


# What a file says.


def test_the_card_comes_back(tmp_path: Path) -> None:
    prepare = ArrayPreparation((2,), mean=[10.0, 1.0], std=[5.0, 2.0], columns=["size", "age"])
    card = nn.ModelCard(
        "regression",
        ("price",),
        prepare,
        ("price",),
        (100.0,),
        (20.0,),
        training={"epochs": 3},
        split={"seed": 1},
        results={"rmse": 0.5},
    )
    net = nn.Linear(1).build((2,), seed=0)
    path = tmp_path / "m.safetensors"
    net.save_model(path, card=card)
    again = nn.load_model(path)
    kept = again.model_card
    assert kept is not None and kept.preparation is not None and kept.preparation.state() == prepare.state()
    assert (kept.task, kept.classes, kept.target_mean, kept.library) == (
        "regression", ("price",), (100.0,), openbnns.__version__,
    )  # fmt: skip
    assert (kept.training, kept.split, kept.results) == ({"epochs": 3}, {"seed": 1}, {"rmse": 0.5})
    rows = {"age": [3.0, 1.0], "size": [20.0, 10.0]}
    features = prepare.apply(rows)
    np.testing.assert_array_equal(features, [[2, 1], [0, 0]])
    expected = (features @ net.weight.data.T + net.bias.data)[:, 0] * 20 + 100
    np.testing.assert_allclose(again.predict(rows).values, expected, rtol=1e-5)
    again.save_model(path)  # with the card that it has
    assert nn.load_model(path).model_card is not None


def test_ways_to_pass_rows() -> None:
    prepare = ArrayPreparation((2,), columns=["a", "b"])
    expected = [[1, 3], [2, 4]]
    for rows in (
        {"a": [1, 2], "b": [3, 4]},
        {"c": ["x", "y"], "b": np.float32([3, 4]), "a": [1.0, 2]},
        [[1, 3], [2, 4]],
    ):
        np.testing.assert_array_equal(prepare.apply(rows), expected)
    with pytest.raises(nn.data.DataError, match=r"there is no column 'a'\. Did you mean 'A'\? The model takes a, b\."):
        prepare.apply({"A": [1], "b": [2]})
    with pytest.raises(nn.data.DataError, match=r"samples are <U3.*Pass an array of numbers"):
        prepare.apply({"a": ["one"], "b": ["two"]})


def test_a_data_frame_gives_its_columns_by_name() -> None:
    class Frame(dict):  # type: ignore[type-arg]
        """Named columns, as data frames have them: len() counts rows."""

        columns = ("b", "word", "a")

        def __len__(self) -> int:
            return 2

    frame = Frame({"b": np.array([3, 4]), "word": np.array(["x", "y"]), "a": np.array([1, 2])})
    np.testing.assert_array_equal(ArrayPreparation((2,), columns=["a", "b"]).apply(frame), [[1, 3], [2, 4]])


def test_predictions(tmp_path: Path) -> None:
    net = nn.Linear(3, bias=False).build((2,), seed=0)
    net.weight.data[:] = [[1, 0], [0, 1], [-1, -1]]
    x = np.float32([[2, 0], [0, 3]])
    scores = net(x)
    plain = net.predict(x)
    np.testing.assert_array_equal(np.asarray(plain), scores)
    path = tmp_path / "m.safetensors"
    net.save_model(path, task="classification", classes=["a", "b", "c"])
    predictions = nn.load_model(path).predict(x, batch_size=1)
    assert predictions.labels.tolist() == list(predictions) == ["a", "b"]
    assert len(predictions) == 2 and predictions[1] == "b"
    np.testing.assert_allclose(
        predictions.probabilities, np.exp(scores) / np.exp(scores).sum(1, keepdims=True), rtol=1e-5
    )
    assert "a  86.7%" in repr(predictions)
    net.save_model(path, task="multilabel")
    several = nn.load_model(path).predict(x)
    assert several.labels.tolist() == [[True, False, False], [False, True, False]]  # a score of 0 is a no
    np.testing.assert_allclose(several.probabilities, 1 / (1 + np.exp(-scores)), rtol=1e-5)
    assert "\n  a\n  b" in repr(several)
    net.train()
    assert net.training and np.array_equal(net.predict(x).outputs, scores) and net.training
    for bad, message in (
        (np.zeros((0, 2)), "no samples"),
        (np.zeros((2, 3)), "made for 2 inputs, but its input has 3"),
        (x, "batch_size is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            net.predict(bad, batch_size=0 if bad is x else 1)


def test_preparation_of_arrays(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    net = nn.Sequential(nn.Conv2d(1, 1), nn.Flatten()).build((1, 4, 4), seed=0)
    net.save_model(path, card=nn.ModelCard(preparation=ArrayPreparation((4, 4), pixels=True)))
    again = nn.load_model(path)
    x = np.random.RandomState(0).randint(0, 256, (3, 4, 4)).astype(np.uint8)
    np.testing.assert_allclose(again.predict(x).values, net(x[:, None] / np.float32(255)), rtol=1e-6)
    for bad, message in (
        (x / 255, "samples are float64, but the model was trained on pixels of 8 bits"),
        (x[:, :3], r"samples have shape \(3, 3, 4\), but the model was trained on \(N, 4, 4\)"),
        (x[0], r"For one sample pass x\[None\]"),
        (np.array(["a"]), "Pass an array of numbers"),
    ):
        with pytest.raises(nn.data.DataError, match=message):
            again.predict(bad)


# Files that are not what they should be.


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    net = nn.Linear(2).build((3,), seed=0)
    net.save(path)
    with pytest.raises(ModelError, match=r"has 2 arrays of weights, but does not say which network .*load\(path\)"):
        nn.load_model(path)
    other = nn.Linear(2).build((3,), seed=1)
    other.load(path)
    np.testing.assert_array_equal(other.weight.data, net.weight.data)
    net.save_model(path)  # which loads as plain weights, too
    other.load(path)
    nn.Trainer(net, "mse", out=tmp_path / "run", quiet=True).fit(np.ones((4, 3)), np.ones((4, 2)), epochs=1)
    with pytest.raises(ModelError, match="is a checkpoint, not a model"):
        nn.load_model(next((tmp_path / "run").glob("checkpoint-*")))
    for data in (b"", b"not a model at all", b"\x80\x04\x95pickle", struct.pack("<Q", 2**40) + b"{}"):
        path.write_bytes(data)
        with pytest.raises(ModelError, match=r"A model file is what net\.save_model or openbnns train writes"):
            nn.load_model(path)
    with pytest.raises(FileNotFoundError):
        nn.load_model(tmp_path / "none")


def changed(**fields: Any) -> Any:
    return lambda said: said.update(fields)


def in_layers(**fields: Any) -> Any:
    return lambda said: said["network"]["layers"]["layers"][0].update(fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(version=2, library="9.9"), "version 2, written by OpenBNNS 9.9; .*Install a newer one"),
        (changed(version="1"), "does not say in which version"),
        (changed(task="sing"), "task is 'sing', but must be one of classification, multilabel, regression"),
        (changed(classes=[1]), "classes is .*a list of texts"),
        (changed(inputs=[]), "says nothing about the shape of samples"),
        (changed(inputs=[{"shape": [2**40]}]), "shape is .*a list of sizes"),
        (changed(inputs=[{"shape": [4]}]), "weights and layers do not fit each other"),
        (changed(network=[]), "network: is not a table"),
        (changed(network={"layers": {"type": "os.system"}}), "there is no layer 'os.system'"),
        (changed(preparation={"kind": "pickle"}), "kind is 'pickle', but must be one of"),
        (changed(preparation={"kind": "arrays", "shape": [3], "mean": [0, 0], "std": [1, 1]}), "mean is .*a list of 3 numbers"),
        (changed(preparation={"kind": "table", "columns": []}), r"table with words, gaps or dates\..* docs/sklearn\.md shows"),
        (changed(preparation={"kind": "arrays", "shape": [2], "columns": ["a"]}), r"names 1 columns for samples of shape \(2,\)"),
        (changed(preparation={"kind": "arrays", "shape": [1], "mean": [0], "std": [0]}), "std is"),
        (changed(target_mean=[1.0], target_std=[]), "target_std is"),
        (in_layers(out_features=2**31), "out_features is too large"),
        (in_layers(out_features=2**30), "out_features is too large"),
        (in_layers(out_features=9), "do not fit each other.*has shape"),
        (in_layers(out_feature=9), "unknown field 'out_feature'. Did you mean 'out_features'"),
        (in_layers(bias=False), "bias: not in the network"),
        (in_layers(same="7"), "unknown field 'same'"),
        (lambda said: said["network"]["options"].update({"0": {"forward": 1}}), "options has 0.forward"),
        (lambda said: said["network"]["options"].update({"0": {"_in_use": True}}), "options has 0._in_use"),
        (lambda said: said["network"]["options"].update({"7": {"p": 1}}), "options has"),
        (lambda said: said["network"].update(shared=[["0.weight", "nothing"]]), "shared names parameters that are not there"),
        (lambda said: said["network"].update(frozen=["nothing"]), "frozen names a parameter that is not there"),
        (lambda said: said["network"]["layers"]["layers"].append({"same": "9"}), "which is not a module before it"),
        (lambda said: said["network"]["layers"]["layers"].append({"type": "Linear", "out_features": 3}), "has no weights for 3"),
    ],
)  # fmt: skip
def test_descriptions_that_lie(tmp_path: Path, change: Any, message: str) -> None:
    net = nn.Sequential(nn.Linear(4), nn.ReLU(), nn.Linear(2)).build((3,), seed=0)
    net.save_model(tmp_path / "m.safetensors")
    with pytest.raises(ModelError, match=message) as caught:
        nn.load_model(rewritten(tmp_path / "m.safetensors", change))
    assert str(tmp_path) in str(caught.value)


def test_memory_that_a_description_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(said: Any) -> None:
        said["network"]["layers"]["layers"][0]["padding"] = 60000

    path = tmp_path / "m.safetensors"
    nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(1, 1, 1)).build((1, 2, 2), seed=0).save_model(path)
    path = rewritten(path, wider)
    with pytest.raises(
        ModelError, match=r"the result \(1, 120002, 120002\) of a layer for one sample takes 53\.65 GiB.*LIMIT=64G"
    ):
        nn.load_model(path)
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "64G")
    assert nn.load_model(path).built


def test_deep_and_long_descriptions_are_refused(tmp_path: Path) -> None:
    net = nn.Linear(2).build((3,), seed=0)
    path = tmp_path / "m.safetensors"
    net.save_model(path)

    def deep(said: Any) -> None:
        table: Any = {"type": "Linear", "out_features": 2}
        for _ in range(200):
            table = {"type": "Sequential", "layers": [table]}
        said["network"]["layers"] = table

    def long(said: Any) -> None:
        said["network"]["layers"] = {"type": "Sequential", "layers": [{"type": "ReLU"}] * 20_001}

    for change in (deep, long):
        with pytest.raises(ModelError, match="there are more than"):
            nn.load_model(rewritten(path, change))
    arrays = weights.load(path)
    weights.save(path, arrays, {KEY: "[" * 100_000})
    with pytest.raises(ModelError, match="is damaged"):
        nn.load_model(path)


def test_random_damage_never_crashes(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(2, 3), nn.BatchNorm2d(), nn.Flatten(), nn.Linear(2)).build((1, 4, 4), seed=0)
    path = tmp_path / "m.safetensors"
    net.save_model(path, task="classification", classes=["a", "b"])
    whole, draw = path.read_bytes(), np.random.RandomState(0)
    outcomes = read_many(path, lambda _: damaged(whole, draw), nn.load_model, (ModelError, weights.DamagedFile))
    assert outcomes["read"] < 500 < sum(outcomes.values()), outcomes


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    """A table in the place of a model: its text must not be read as the length of a header."""
    table, short = tmp_path / "wine.csv", tmp_path / "short.safetensors"
    table.write_text("alcohol,acid,kind\n1,2,red\n")
    short.write_bytes((100).to_bytes(8, "little") + b'{"weight"')
    with pytest.raises(ValueError, match=r"wine\.csv: is not a safetensors file"):
        nn.load_model(table)
    with pytest.raises(
        ValueError, match=r"header should have 100 bytes, but the file ends before\. The file is truncated"
    ):
        nn.load_model(short)


@pytest.mark.parametrize(
    ("name", "reader"), [("m.onnx", "nn.from_onnx"), ("m.mlmodel", "nn.from_coreml"), ("w.npz", "net.load")]
)
def test_files_of_other_programs_have_other_readers(name: str, reader: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ModelError, match=rf"{name}: .*\. Use {reader}\(path\)\.$"):
        nn.load_model(tmp_path / name)
    (tmp_path / "m.mlpackage").mkdir()
    with pytest.raises(ModelError, match=r"m\.mlpackage: is a folder.*\. Use nn\.from_coreml\(path\)\.$"):
        nn.load_model(tmp_path / "m.mlpackage")

"""From data to a model that someone uses: train, predict, evaluate, export and bench on the command line."""

from __future__ import annotations

import csv
import importlib
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn.models import ModelError
from pages import ROOT

Array = np.ndarray


def run(*arguments: Any) -> int:
    return cli.main([str(a) for a in arguments])


def flowers(path: Path, count: int = 90) -> Path:
    """A table of numbers, whose kind follows from them."""
    draw = random.Random(1)
    lines = ["length,color,weight,kind"]
    for i in range(count):
        kind = ("iris", "rose", "tulip")[i % 3]
        color = {"iris": 1, "rose": 2, "tulip": draw.choice([2, 3])}[kind]
        length = f"{(3 if kind == 'iris' else 9) + draw.gauss(0, 1):.2f}"
        weight = 1000 + (50 if kind == "tulip" else 0) + draw.gauss(0, 8)
        lines.append(f"{length},{color},{weight:.1f},{kind}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with flowers.csv and the model that was trained on it."""
    folder = tmp_path_factory.mktemp("flowers")
    data = flowers(folder / "flowers.csv")
    assert (
        run("train", "--data", data, "--epochs", 40, "--lr", 0.02, "--no-report", "--quiet", "--out", folder / "out")
        == 0
    )
    return folder


def model(trained: Path) -> Path:
    return trained / "out" / "model.safetensors"


def card_of(path: Path) -> nn.ModelCard:
    card = nn.load_model(path).model_card
    assert card is not None
    return card


def test_what_train_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = flowers(tmp_path / "f.csv")
    assert run("train", "--data", data, "--epochs", 1, "--no-report", "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    for piece in (
        "Task: classification of 'kind', because there are words.\n", "Each of the 3 features is standardized",
        "Classes: iris 21 (33.3%)", "Test accuracy: ",
        "(always saying the most common class: ", "Use it: openbnns predict ",
    ):  # fmt: skip
        assert piece in printed, piece
    assert (
        run("train", "--data", data, "--epochs", 1, "--no-report", "--out", tmp_path / "out", "--json", "--force") == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said["task"] == "classification" and said["classes"] == ["iris", "rose", "tulip"]
    assert said["samples"] == {"training": 63, "validation": 9, "test": 18} and 0 <= said["test"]["accuracy"] <= 1


def test_predict(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.csv"
    new.write_text("weight;color;length;extra\n1000;1;3;x\n1050;2;9;y\n998;2;9;z\n1001;3;9;z\n")
    assert run("predict", model(trained), new, "-o", tmp_path / "answers.csv") == 0
    printed = capsys.readouterr()
    assert "4 predictions written to" in printed.out
    with open(tmp_path / "answers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows[:2]] == ["iris", "tulip"]
    for row in rows:
        chances = [float(row[name]) for name in ("iris", "rose", "tulip")]
        assert sum(chances) == pytest.approx(1, abs=1e-5) and float(row["probability"]) == pytest.approx(max(chances))
    assert run("predict", model(trained), new, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["samples"] == 4 and said["columns"][:3] == ["sample", "prediction", "probability"]
    assert run("predict", model(trained), new) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("sample,prediction,probability,iris")
    net = nn.load_model(model(trained))
    predictions = net.predict({"weight": [1000, 1050], "length": [3, 9], "color": [1, 2]})
    assert predictions.labels.tolist() == ["iris", "tulip"]
    assert float(rows[0]["iris"]) == pytest.approx(float(predictions.probabilities[0, 0]), rel=1e-4)


def test_evaluate(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = trained / "flowers.csv"
    scores = {}
    for part in ("all", "test"):
        assert run("evaluate", model(trained), data, "--part", part, "--json") == 0
        scores[part] = json.loads(capsys.readouterr().out)
    assert scores["all"]["samples"] == 90 and scores["test"]["samples"] == 18
    assert scores["all"]["scores"]["accuracy"] > 0.9
    card = card_of(model(trained))
    assert scores["test"]["scores"] == pytest.approx(card.results["test"], rel=1e-4)
    assert run("evaluate", model(trained), data, "--report", tmp_path / "r.html") == 0
    assert "(always saying the most common class: 33.33%)" in capsys.readouterr().out
    page = (tmp_path / "r.html").read_text()
    assert "Evaluation report" in page and 'id="training"' not in page
    other = flowers(tmp_path / "other.csv", 30)
    assert run("evaluate", model(trained), other, "--part", "test") == 2
    assert "takes a part of the data that the model was trained on, which had 90 samples" in capsys.readouterr().err


def test_evaluate_measures_what_was_not_trained_on(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test part of the same data, whatever its file is called."""
    copy = tmp_path / "renamed.csv"
    copy.write_bytes((trained / "flowers.csv").read_bytes())
    assert run("evaluate", model(trained), copy, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["trained_on"] is True and said["not_trained_on"]["samples"] == 18
    card = card_of(model(trained))
    assert said["not_trained_on"]["scores"] == pytest.approx(card.results["test"], rel=1e-4)
    assert run("evaluate", model(trained), copy, "--report", tmp_path / "r.html") == 0
    printed = capsys.readouterr()
    warning = (
        "These include the samples that the model was trained on, so the result is better than it would be on new ones."
    )
    assert warning in printed.err and warning in (tmp_path / "r.html").read_text()
    assert re.search(r"Without the training samples: Accuracy: \d+\.\d+% of 18 samples", printed.out)
    new = [f"{4 + i / 7:.3f},1,{990 + i}.5,iris" for i in range(9)]
    (tmp_path / "new.csv").write_text("\n".join([copy.read_text().splitlines()[0], *new]))
    for arguments in ([copy, "--part", "test"], [copy, "--part", "validation"], [tmp_path / "new.csv"]):
        assert run("evaluate", model(trained), *arguments, "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert said["trained_on"] is False and not any("trained on" in note for note in said["notes"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("length,weight,kind\n1,2,iris\n", "there is no column 'color'. Columns: length, weight, kind."),
        ("length,color,weight\n1,2,2\n", "there is no column 'kind'. Columns: length, color, weight."),
        ("length,color,weight,kind\nlong,2,2,rose\n", "line 2: column 'length' is 'long', which is not a number"),
        ("length,color,weight,kind\n1,2,2,lily\n1,2,2,rose\n", "was not trained on: lily. It knows iris, rose"),
        ("length,color,weight,kind\n1,2,2\n", "line 2: has 3 cells, line 1 has 4"),
    ],
)  # fmt: skip
def test_data_that_do_not_fit_the_model(
    trained: Path, tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert run("evaluate", model(trained), tmp_path / "a.csv") == 2
    assert message in capsys.readouterr().err
    assert run("predict", model(trained), tmp_path) == 2
    assert (
        "the model was trained on a table. Give a .csv or .tsv file, or a .npz or .npy file" in capsys.readouterr().err
    )


def test_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.RandomState(0)
    x = draw.standard_normal((200, 2))
    y = 5000 + 300 * x[:, 0] - 100 * x[:, 1] + 5 * draw.standard_normal(200)
    path = tmp_path / "houses.csv"
    path.write_text("a,b,price\n" + "".join(f"{p:.4f},{q:.4f},{r:.2f}\n" for (p, q), r in zip(x, y, strict=True)))
    arguments = ["--data", path, "--target", "price", "--epochs", 60, "--lr", 0.01, "--out", tmp_path / "out"]
    assert run("train", *arguments) == 0
    assert "Task: regression of 'price', because there are fractions" in capsys.readouterr().out
    saved = tmp_path / "out" / "model.safetensors"
    assert run("evaluate", saved, path, "--part", "test", "--json") == 0
    scores = json.loads(capsys.readouterr().out)["scores"]
    assert scores["rmse"] < 60 and scores["r2"] > 0.95 and scores["baseline_rmse"] > 200
    assert scores == pytest.approx(card_of(saved).results["test"], rel=1e-4)
    predictions = nn.load_model(saved).predict({"a": [0, 1], "b": [0, 0]})
    assert abs(predictions.values[0] - 5000) < 100 and 200 < predictions.values[1] - predictions.values[0] < 400
    assert run("predict", saved, path, "-o", tmp_path / "p.csv", "--quiet") == 0
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "sample,price"


def test_several_labels_and_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.RandomState(0)
    x = draw.standard_normal((120, 3)) * [1, 100, 0.01]
    y = (x / [1, 100, 0.01] > 0).astype(np.int64)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    common = ["--epochs", 30, "--lr", 0.02, "--no-report", "--force", "--out", tmp_path / "out"]
    assert run("train", "--data", tmp_path / "a.npz", *common) == 0
    printed = capsys.readouterr().out
    assert (
        "Task: multilabel, because there are 3 targets of 0 and 1" in printed and "features is standardized" in printed
    )
    saved = tmp_path / "out" / "model.safetensors"
    assert run("evaluate", saved, tmp_path / "a.npz", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["accuracy"] > 0.9
    assert run("evaluate", saved, tmp_path / "a.npz", "--part", "test", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"] == pytest.approx(card_of(saved).results["test"], rel=1e-4)
    np.save(tmp_path / "x.npy", x[:5])
    assert run("predict", saved, tmp_path / "x.npy", "-o", tmp_path / "p.csv") == 0
    head, first, *_ = (tmp_path / "p.csv").read_text().splitlines()
    assert head == "sample,0,1,2,probability of 0,probability of 1,probability of 2"
    assert first.split(",")[1:4] == [str(v) for v in y[0]]
    np.save(tmp_path / "y.npy", y[:, 0])
    np.save(tmp_path / "all.npy", x)
    assert run("train", "--data", tmp_path / "all.npy", "--target", tmp_path / "y.npy", *common, "--quiet") == 0
    assert run("train", "--data", tmp_path / "all.npy", *common, "--quiet") == 2
    assert "has samples but no targets. Pass their file: --target y.npy" in capsys.readouterr().err
    np.save(tmp_path / "bad.npy", np.array([{}], object), allow_pickle=True)
    assert run("predict", saved, tmp_path / "bad.npy") == 2
    assert "holds Python objects, which are never unpickled" in capsys.readouterr().err


def test_parquet_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    assert run("train", tmp_path / "t.parquet", "--out", tmp_path / "out") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "t.parquet: write it as .csv or .npz: pandas.read_parquet(path).to_csv('data.csv', index=False)."
    )


def photos(folder: Path, count: int = 24, size: tuple[int, int] = (16, 16)) -> Path:
    """Dark and bright images, in a folder for each."""
    from PIL import Image

    draw = np.random.RandomState(0)
    for i in range(count):
        name = ("bright", "dark")[i % 2]
        pixels = draw.randint(150, 256, (*size, 3)) if name == "bright" else draw.randint(0, 100, (*size, 3))
        (folder / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.{'png' if i % 4 else 'jpg'}")
    return folder


def test_a_folder_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = photos(tmp_path / "photos"), tmp_path / "out"
    common = ["--epochs", 20, "--batch-size", 4, "--lr", 0.005, "--no-report", "--force", "--out", out]
    assert run("train", "--data", folder, *common) == 0
    printed = capsys.readouterr().out
    assert (
        "Read a folder of 24 images in 2 classes." in printed
        and "Training cnn" in printed
        and "Classes: bright" in printed
    )
    saved = out / "model.safetensors"
    assert run("evaluate", saved, folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["accuracy"] > 0.9
    assert run("predict", saved, folder / "dark" / "1.png", "--json") == 0
    assert json.loads(capsys.readouterr().out)["predictions"][0][1] == "dark"
    assert nn.load_model(saved).predict([folder / "bright" / "0.jpg"]).labels.tolist() == ["bright"]
    photos(tmp_path / "mixed")
    photos(tmp_path / "mixed" / "x", 2, (9, 20))
    for path in (tmp_path / "mixed" / "x" / "dark").iterdir():
        path.rename(tmp_path / "mixed" / "dark" / f"wide-{path.name}")
    assert run("train", "--data", tmp_path / "mixed", *common) == 2
    assert "images have 2 different sizes: " in (said := capsys.readouterr().err) and "--size 64" in said
    assert run("train", "--data", tmp_path / "mixed", *common, "--size", "12x10", "--quiet") == 0
    (folder / "dark" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    assert run("train", "--data", folder, *common) == 2
    assert "broken.png: cannot be read as an image" in (said := capsys.readouterr().err) and "--skip-bad" in said
    assert run("train", "--data", folder, *common, "--skip-bad") == 0
    assert "1 image that cannot be read is left out: " in capsys.readouterr().out
    assert run("predict", saved, folder) == 2
    assert "broken.png" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert run("train", "--data", tmp_path / "empty", *common) == 2
    assert (
        "has no images. Put images (.png, .jpg and the like) of each class into a folder of its own"
        in capsys.readouterr().err
    )


def test_export(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = nn.weights.load(model(trained))
    assert run("export", model(trained), "--to", "npz", "-o", tmp_path / "w.npz") == 0
    assert f"{len(weights)} arrays with" in capsys.readouterr().out
    with np.load(tmp_path / "w.npz") as archive:
        assert set(archive) == set(weights)
        for name, array in weights.items():
            np.testing.assert_array_equal(archive[name], array)
    assert run("export", model(trained), "--to", "safetensors", "-o", tmp_path / "w.safetensors", "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"][0].endswith("w.safetensors")
    with pytest.raises(ModelError, match="does not say which network"):
        nn.load_model(tmp_path / "w.safetensors")
    assert run("export", model(trained), "--to", "safetensors", "-o", model(trained)) == 2
    assert "is the model itself" in capsys.readouterr().err


def test_bench_and_info(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", "mlp", model(trained), "--seconds", 0.01, "--batch-size", 4, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [case["batch_size"] for case in said["cases"]] == [4, 4]
    assert said["peak_gflops"] > 0 and "multiply-adds" in said["peak_measured_by"] and said["machine"]["openbnns"]
    for case in said["cases"]:
        assert case["training_flop"] > case["inference_flop"] > 0
        for kind in ("inference", "training"):
            rate = case[f"{kind}_flop"] / case[f"{kind}_seconds"] / 1e9
            assert case[f"{kind}_share_of_peak"] == pytest.approx(rate / said["peak_gflops"])
    assert run("bench", "mlp", "--seconds", 0.01, "--batch-size", 4) == 0
    peak, head, line = capsys.readouterr().out.splitlines()[:3]
    assert re.fullmatch(r"peak \d+ GFLOP/s: .*multiply-adds.*", peak) and head.endswith("of peak")
    assert re.fullmatch(r"mlp +4 +\d+\.\d+ ms +\d+\.\d% +\d+\.\d+ ms +\d+\.\d%", line)
    assert run("bench", "cn") == 2
    assert "Did you mean 'cnn'?" in capsys.readouterr().err
    assert run("info", model(trained)) == 0
    printed = capsys.readouterr().out
    for piece in ("classification", "iris, rose, tulip", "length, color, weight", "Sequential", "seed"):
        assert piece in printed, piece
    assert run("info", model(trained), "--json") == 0
    assert json.loads(capsys.readouterr().out)["classes"] == ["iris", "rose", "tulip"]
    assert run("info", "--json") == 0
    assert "engine" in json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def networks(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model files of every task and of every ready network."""
    folder, draw = tmp_path_factory.mktemp("networks"), np.random.RandomState(0)
    tasks = {
        "classes": (nn.models.mlp(3), (5,), "classification"), "numbers": (nn.models.mlp(1), (5,), "regression"),
        "labels": (nn.models.mlp(4), (5,), "multilabel"), "images": (nn.models.cnn(3), (1, 8, 8), "classification"),
        "sequences": (nn.models.transformer(3), (6, 8), "classification"),
    }  # fmt: skip
    paths = {"trained": model(trained)}
    for name, (network, shape, task) in tasks.items():
        network.build(shape, seed=1)
        network.train()(draw.standard_normal((16, *shape)).astype(np.float32))  # so that statistics are not 0 and 1
        paths[name] = folder / f"{name}.safetensors"
        network.save_model(paths[name], task=task)
    return paths


@pytest.mark.peers
def test_models_beside_pytorch_and_jax(networks: dict[str, Path]) -> None:
    """In processes of its own: JAX warns of every fork in one that has loaded it, and other tests fork."""
    command = [sys.executable, ROOT / "benchmarks" / "model.py", *networks.values(), "mlp", "transformer"]
    done = subprocess.run(
        [*command, "--batch-size", "4", "--seconds", "0.02"], stdout=subprocess.PIPE, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * (len(networks) + 2)
    for line in lines:
        assert re.search(r": (inference|training) \d+\.\d{3} ms, \d+\.\d\d x PyTorch, \d+\.\d\d x JAX$", line), line


@pytest.mark.peers
def test_networks_that_are_not_the_same_are_not_compared(
    networks: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    model_benchmark = importlib.import_module("model")
    module_of = model_benchmark.torch_counterparts.module_of
    monkeypatch.setattr(
        model_benchmark.torch_counterparts,
        "module_of",
        lambda layer, t: torch.nn.Sigmoid() if isinstance(layer, nn.ReLU) else module_of(layer, t),
    )
    case = model_benchmark.Case(str(networks["classes"]))
    assert model_benchmark.rival("PyTorch", case).startswith("not compared: its outputs differ by")


@pytest.mark.peers
@pytest.mark.parametrize("name", ["trained", "classes", "numbers", "labels", "images", "sequences"])
def test_pytorch_loads_what_is_exported(
    networks: dict[str, Path], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strictly, and to the same outputs."""
    import torch
    from safetensors.torch import load_file

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module_of = importlib.import_module("torch_counterparts").module_of
    path = networks[name]
    assert run("export", path, "--to", "safetensors", "-o", tmp_path / "w.safetensors", "--quiet") == 0
    state = load_file(tmp_path / "w.safetensors")
    network: Any = nn.load_model(path)
    other = torch.nn.Sequential(*(module_of(layer, torch) for layer in network))
    other.load_state_dict(state)
    x = np.random.RandomState(3).standard_normal((7, *nn.files.model_file.input_shapes(network)[0])).astype(np.float32)
    with torch.no_grad():
        wanted = other.eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(network.eval()(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("PIL", ["train", "--data", "photos"]),
        ("onnx", ["export", "MODEL", "--to", "onnx"]),
    ],
)  # fmt: skip
def test_a_package_that_is_missing_is_named_in_one_line(
    package: str, arguments: list[str], trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for kind in ("cat", "dog"):
        (tmp_path / "photos" / kind).mkdir(parents=True)
        (tmp_path / "photos" / kind / "1.png").write_bytes(b"?")
    for name in (package, f"{package}.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.safetensors").write_bytes(model(trained).read_bytes())
    assert run(*("m.safetensors" if word == "MODEL" else word for word in arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install" in line


def test_forms_that_export_does_not_write(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, cure in (
        ("paddle", "Use npz, safetensors, onnx"),
        ("torch", "Use --to safetensors, which safetensors.torch.load_file reads. openbnns export --help"),
        ("keras", "Use --to onnx, or --to npz for the weights. openbnns export --help"),
    ):
        with pytest.raises(SystemExit) as stopped:
            run("export", model(trained), "--to", form)
        assert stopped.value.code == 2
        assert f"invalid choice: {form!r}. {cure}" in capsys.readouterr().err


def idx_folder(folder: Path) -> Path:
    """Images with a bright band in one of three places, in the form of MNIST."""
    folder.mkdir()
    draw = np.random.RandomState(0)
    for part, count in (("train", 90), ("t10k", 30)):
        y = draw.randint(0, 3, count).astype(np.uint8)
        x = draw.randint(0, 60, (count, 6, 6)).astype(np.uint8)
        for image, place in zip(x, y, strict=True):
            image[2 * place : 2 * place + 2] = 220
        head = b"\0\0\x08" + bytes([3]) + b"".join(n.to_bytes(4, "big") for n in x.shape)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + x.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + count.to_bytes(4, "big") + y.tobytes())
    return folder


def test_files_with_parts_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """predict and evaluate take what train takes: those to test with, unless others are asked for."""
    folder = idx_folder(tmp_path / "bands")
    assert run("train", folder, "--model", "mlp", "--epochs", 3, "--out", tmp_path / "run", "--json") == 0
    test = json.loads(capsys.readouterr().out)["test"]
    file = tmp_path / "run" / "model.safetensors"
    for part, count in (("all", 30), ("test", 30), ("validation", 9), ("training", 81)):
        assert run("evaluate", file, folder, "--part", part, "--json") == 0
        said = json.loads(capsys.readouterr().out)
        assert said["samples"] == count
        assert said["trained_on"] is False
        if count == 30:
            assert said["scores"]["accuracy"] == test["accuracy"]
    assert run("evaluate", file, folder) == 0
    assert "these are the test samples of train, test." in capsys.readouterr().err
    assert run("predict", file, folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 30
    draw = np.random.RandomState(0)
    x, y = draw.standard_normal((60, 4)).astype(np.float32), draw.randint(0, 2, 60)
    np.savez(tmp_path / "a.npz", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])
    common = ["--epochs", "1", "--validation-share", "0", "--out", tmp_path / "b", "--quiet"]
    assert run("train", tmp_path / "a.npz", *common) == 0
    for part, count in (("training", 40), ("test", 20)):
        assert run("evaluate", tmp_path / "b" / "model.safetensors", tmp_path / "a.npz", "--part", part, "--json") == 0
        assert json.loads(capsys.readouterr().out)["samples"] == count
    np.savez(tmp_path / "x.npz", x=x)
    assert run("predict", tmp_path / "b" / "model.safetensors", tmp_path / "x.npz", "--quiet") == 0
    assert run("evaluate", tmp_path / "b" / "model.safetensors", tmp_path / "x.npz") == 2
    assert "has samples, but no targets y to compare with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "a.csv", "--modle", "mlp"], "openbnns train: unrecognized arguments: --modle mlp. Did you mean '--model'?"),
        (["trian"], "openbnns: argument COMMAND: invalid choice: 'trian'. Did you mean 'train'? Use train, predict"),
        (["completion", "bash"], "openbnns: argument COMMAND: invalid choice: 'completion'. Use shtab: python -m"),
        (["train", "--epochs", "0"], "openbnns train: argument --epochs: 0 is not at least 1. openbnns train --help shows"),
        (["predict", "m"], "openbnns predict: the following arguments are required: DATA. openbnns predict --help shows"),
    ],
)  # fmt: skip
def test_one_line_about_wrong_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(message)


def test_data_are_an_argument_or_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = flowers(tmp_path / "my flowers.csv", 30)
    common = ["--epochs", "1", "--quiet", "--out", tmp_path / "run"]
    assert run("train", path, *common) == 0
    assert f"openbnns train &#x27;{path}&#x27; --model tabular" in (tmp_path / "run" / "report.html").read_text()
    assert run("train", "--data", path, "--no-report", "--force", *common) == 0
    assert run("train", path, "--data", "digits", *common) == 2
    assert "data are given twice" in capsys.readouterr().err


def test_commands_refuse_what_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flowers(tmp_path / "f.csv", 9)
    (tmp_path / "m.safetensors").write_bytes(b"not a model")
    for command in ("predict", "evaluate"):
        assert run(command, tmp_path / "m.safetensors", tmp_path / "f.csv") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "A model file is what net.save_model or openbnns train writes" in line
        assert run(command, tmp_path / "none", tmp_path / "f.csv") == 2
        assert "none" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", re.findall(r"^    ([a-z][a-z-]+)(?= )", cli.parser_of_all().format_help(), re.MULTILINE)
)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(command, "--help")
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "examples:" in printed and "--quiet" in printed and "--json" in printed
    assert any(
        line.strip().startswith(("openbnns", "cc", "eval", "mpiexec", "swiftc")) for line in printed.splitlines()
    )


def test_help_lists_the_commands() -> None:
    printed = cli.parser_of_all().format_help()
    for name in (
        "train",
        "predict",
        "evaluate",
        "export",
        "import",
        "bench",
        "check",
        "info",
        "c-flags",
        "swift-flags",
    ):
        assert re.search(rf"^    {name}\b", printed, re.MULTILINE), name


def test_the_parser_knows_all_optimizers_and_schedules() -> None:
    """Which it lists itself, because importing them would take too long for --help."""
    from typing import get_args

    from openbnns.cli.train import OPTIMIZERS, SCHEDULES
    from openbnns.nn.optimizers import OptimizerName
    from openbnns.nn.schedules import ScheduleName

    assert get_args(OptimizerName) == OPTIMIZERS and get_args(ScheduleName) == SCHEDULES


def test_files_that_are_no_models(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, message in ((tmp_path / "none", "none: No such file or directory.\n"), (tmp_path, "is a folder. Give")):
        assert run("predict", path, "new.csv") == 2
        assert message in capsys.readouterr().err
    assert run("predict", model(trained), "new.csv", "-o", tmp_path / "x.xlsx") == 2
    assert "x.xlsx: predictions are written as CSV. Give a name that ends in .csv." in capsys.readouterr().err


def test_import_takes_weights_for_a_network(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The weights of another network of the same layers: predictions are those of that network."""
    other = nn.load_model(model(trained))
    draw = np.random.RandomState(5)
    state = {name: a + draw.standard_normal(a.shape).astype(np.float32) / 4 for name, a in other.state_dict().items()}
    other.load_state_dict({name: np.abs(a) if "var" in name else a for name, a in state.items()})
    other.save_model(tmp_path / "other.safetensors")
    weights = tmp_path / "other-weights.npz"
    assert run("export", tmp_path / "other.safetensors", "--to", "npz", "-o", weights, "--quiet") == 0
    capsys.readouterr()
    assert run("import", weights, "--network", model(trained), "-o", tmp_path / "made.safetensors", "--json") == 0
    converted = json.loads(capsys.readouterr().out)["converted"]
    assert [row["array"] for row in converted] == list(other.state_dict())
    made = nn.load_model(tmp_path / "made.safetensors")
    x = np.random.RandomState(1).standard_normal((5, *nn.files.model_file.input_shapes(made)[0])).astype(np.float32)
    np.testing.assert_array_equal(made.eval()(x), other.eval()(x))
    assert made.model_card.classes == other.model_card.classes and made.model_card.preparation is not None
    assert not made.model_card.results and not made.model_card.training and not made.model_card.split
    for command in (("import", weights), ("inspect", weights), ("predict", weights, trained / "flowers.csv")):
        assert run(*command) == 2
        assert "has weights, but not the network that they belong to" in capsys.readouterr().err
    assert run("export", tmp_path / "other.safetensors", "--to", "safetensors", "-o", tmp_path / "w.safetensors") == 0
    made = tmp_path / "same.safetensors"
    assert run("import", tmp_path / "w.safetensors", "--network", model(trained), "-o", made) == 0
    np.testing.assert_array_equal(nn.load_model(made).eval()(x), other.eval()(x))
    capsys.readouterr()
    assert run("import", tmp_path / "m.onnx", "--network", model(trained), "-o", tmp_path / "n.safetensors") == 2
    assert "--network is for files of weights (.npz, .safetensors)" in capsys.readouterr().err


def test_import_takes_ml_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openbnns.interop import coreml

    text = """program(1.3) { func main<ios17>(tensor<fp32, [1, 2]> x) {
        tensor<fp32, [1, 2]> w = const()[val = tensor<fp32, [1, 2]>([[3, 4]])];
        tensor<fp32, [1, 1]> y = linear(x = x, weight = w); } -> (y); }"""
    path = coreml.write_package(coreml.make_model(coreml.parse(text)), f"{tmp_path}/sum.mlpackage")
    assert run("import", path, "-o", tmp_path / "sum.safetensors") == 0
    assert "2 numbers to train" in capsys.readouterr().out
    assert nn.load_model(tmp_path / "sum.safetensors")(np.float32([[1, 1], [0, 2]])).tolist() == [[7.0], [8.0]]
    written = (tmp_path / "sum.safetensors").read_bytes()
    assert run("import", path) == 2
    assert "sum.safetensors is already there" in capsys.readouterr().err
    assert (tmp_path / "sum.safetensors").read_bytes() == written
    assert run("import", path, "--size", "T=3") == 2
    assert "--size and --shape are for ONNX models" in capsys.readouterr().err

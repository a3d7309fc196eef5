"""The command line: what it prints, what it writes, its exit codes."""

from __future__ import annotations

import html
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import cli, nn
from openbnns.nn import models


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def points(tmp_path: Path) -> Path:
    x = np.random.RandomState(0).standard_normal((80, 2)).astype(np.float32)
    np.savez(tmp_path / "points.npz", x=x, y=(x[:, 0] > 0).astype(np.int64))
    return tmp_path / "points.npz"


def test_train_writes_what_it_names(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert run("train", "--data", str(points), "--model", "mlp", "--epochs", "3", "--out", str(out)) == 0
    printed = capsys.readouterr().out
    for line in printed.split("Written:\n")[1].splitlines():
        assert Path(line.split()[0]).exists(), line
    assert "Test accuracy" in printed
    assert "<svg" in (out / "report.html").read_text()
    assert len(json.loads((out / "history.json").read_text())) == 3
    net = models.mlp(2).build((2,))
    assert net.load(out / "model.safetensors") == []


def test_the_model_follows_from_the_data(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.RandomState(0)
    np.savez(tmp_path / "gray.npz", x=random.randint(0, 256, (20, 8, 9)).astype(np.uint8), y=np.arange(20) % 2)
    np.savez(tmp_path / "color.npz", x=random.random_sample((20, 3, 8, 9)), y=np.arange(20) % 2)
    (tmp_path / "named.csv").write_text("".join(f"{i},{-i},{'odd' if i % 2 else 'even'}\n" for i in range(20)))
    common = ["train", "--epochs", "1", "--no-report", "--force", "--out", str(tmp_path / "run"), "--data"]
    for name, model in (("points.npz", "mlp"), ("named.csv", "tabular"), ("gray.npz", "cnn"), ("color.npz", "cnn")):
        assert run(*common, str(tmp_path / name)) == 0
        assert f"Training {model} (" in capsys.readouterr().out
    assert run(*common, str(tmp_path / "named.csv")) == 0
    assert "2 classes: even, odd\n" in capsys.readouterr().out


def test_data_that_a_model_cannot_take(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "last.npz", x=np.zeros((20, 16, 16, 3), np.float32), y=np.arange(20) % 2)
    np.savez(tmp_path / "tiny.npz", x=np.zeros((20, 1, 3, 3), np.float32), y=np.arange(20) % 2)
    for name, model, message in [
        (
            "points.npz",
            "cnn",
            r"--model cnn needs images, but the samples of points.npz have shape (2,). Use --model mlp.",
        ),
        ("last.npz", "cnn", "their channels come last. Store np.moveaxis(x, -1, 1)."),
        ("tiny.npz", "cnn", "--model cnn needs images of at least 4 x 4 pixels, but those of tiny.npz are 3 x 3"),
    ]:
        out = str(tmp_path / "run")
        assert run("train", "--data", str(tmp_path / name), "--model", model, "--epochs", "1", "--out", out) == 2
        assert message in capsys.readouterr().err


def test_too_little_memory_is_reported(
    tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> object:
        raise MemoryError("Unable to allocate 238. GiB")

    monkeypatch.setattr(cli.train, "_network", full)
    assert run("train", "--data", str(points), "--out", str(tmp_path / "run")) == 2
    assert "openbnns train: not enough memory. Unable to allocate 238. GiB" in capsys.readouterr().err


def test_help_tells_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("train", "--help")
    shown = " ".join(capsys.readouterr().out.split())
    for piece in (
        "passes over the data (default: 20, for --model tabular 40)",
        "samples per step (default: 32, for --model tabular 64",
        "(default: cosine)",
        "images by class",
        "x and y",
    ):
        assert piece in shown


def test_the_report_tells_the_whole_command(tmp_path: Path, points: Path) -> None:
    further = ["--weight-decay", "0.01", "--clip-norm", "2.5", "--early-stopping", "7", "--optimizer", "adamw"]
    out = tmp_path / "run"
    assert run("train", "--data", str(points), "--epochs", "1", "--quiet", "--out", str(out), *further) == 0
    page = (out / "report.html").read_text()
    for option, value in zip(further[::2], further[1::2], strict=True):
        assert f"{option} {value}" in page
    assert f"openbnns train {points} --model mlp --epochs 1 " in page


def test_the_command_of_the_report_says_what_the_data_means(tmp_path: Path) -> None:
    lines = "".join(f"{i};{i % 7};{2 * i}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("x;price;y z\n" + lines)
    given = ["--target", "price", "--task", "regression", "--no-standardize", "--memory-limit", "1G"]
    out = tmp_path / "run"
    assert run("train", "--data", str(tmp_path / "t.csv"), "--epochs", "1", "--quiet", "--out", str(out), *given) == 0
    page = html.unescape((out / "report.html").read_text())
    for piece in ("--target price --task regression", "--no-standardize", "--memory-limit 1073741824"):
        assert piece in page, piece


def test_resume_gives_the_same_weights(tmp_path: Path, points: Path) -> None:
    common = ["train", "--data", str(points), "--model", "mlp", "--schedule", "constant", "--no-report", "--quiet"]
    assert run(*common, "--epochs", "4", "--out", str(tmp_path / "a")) == 0
    assert run(*common, "--epochs", "2", "--out", str(tmp_path / "b")) == 0
    assert run(*common, "--epochs", "4", "--out", str(tmp_path / "b"), "--resume") == 0
    one, other = (nn.weights.load(tmp_path / name / "model.safetensors") for name in "ab")
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


def test_a_finished_run_is_not_replaced_by_accident(
    tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    common = ["train", "--data", str(points), "--epochs", "2", "--out", str(out)]
    assert run(*common) == 0
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    assert run(*common, "--seed", "1") == 2
    assert f"{out}: has the model of a finished run, model.safetensors. Give another folder" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    assert run(*common, "--resume") == 0
    assert f"{out}: nothing to do, 2 epochs are done." in capsys.readouterr().out
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert run(*common, "--seed", "1", "--force") == 0
    said = capsys.readouterr().out
    assert (
        f"the files of an earlier run are now in {out / 'earlier'}: checkpoint-" in said and "model.safetensors" in said
    )
    assert {path.name: path.read_bytes() for path in (out / "earlier").iterdir()} == first
    assert (out / "model.safetensors").read_bytes() != first["model.safetensors"]
    assert (
        run(*common, "--seed", "2", "--force", "--no-report") == 0
    )  # of the run before there is a report, of this one none
    assert not (out / "report.html").exists() and (out / "earlier" / "report.html").exists()
    (out / "model.safetensors").unlink()  # a run that did not end is replaced, and its files are kept
    assert run(*common, "--no-report", "--quiet") == 0
    assert not (out / "earlier" / "model.safetensors").exists() and (out / "earlier" / "history.json").exists()


def test_the_best_weights_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if the run was interrupted after the best epoch; without validation samples the last ones are."""
    random = np.random.RandomState(0)
    x = random.standard_normal((120, 8)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=(x[:, 0] + 2 * random.standard_normal(120) > 0).astype(np.int64))
    data = [
        "train",
        str(tmp_path / "a.npz"),
        "--lr",
        "0.02",
        "--schedule",
        "constant",
        "--no-report",
        "--no-early-stopping",
    ]
    assert run(*data, "--epochs", "15", "--out", str(tmp_path / "whole")) == 0
    printed = capsys.readouterr().out
    history = json.loads((tmp_path / "whole" / "history.json").read_text())
    losses = [record["validation_loss"] for record in history]
    best = losses.index(min(losses)) + 1
    assert len(history) == 15 and best < 12
    assert f"The weights are those of epoch {best}: it has the lowest validation loss." in printed
    model = nn.load_model(tmp_path / "whole" / "model.safetensors")
    assert model.model_card is not None and model.model_card.training["chosen_epoch"] == best
    assert (
        run("evaluate", str(tmp_path / "whole" / "model.safetensors"), data[1], "--part", "validation", "--json") == 0
    )
    assert json.loads(capsys.readouterr().out)["scores"]["loss"] == pytest.approx(min(losses), rel=1e-5)
    parts = ["--epochs", "13", "--quiet"], ["--epochs", "15", "--quiet", "--resume"]
    for part in parts:
        assert run(*data, *part, "--out", str(tmp_path / "parts")) == 0
    again = nn.load_model(tmp_path / "parts" / "model.safetensors")
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, again.state_dict()[name])
    assert run(*data, "--epochs", "3", "--validation-share", "0", "--json", "--out", str(tmp_path / "last")) == 0
    assert json.loads(capsys.readouterr().out)["chosen_epoch"] == 3


def test_resume_without_a_checkpoint_says_so(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "--data", str(points), "--model", "mlp", "--epochs", "1", "--no-report", "--resume", "--out"]
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "missing"):
        assert run(*arguments, str(tmp_path / folder)) == 0
        assert f"{folder}: no checkpoint yet, starting from the beginning." in capsys.readouterr().out


def test_three_parts_and_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early stopping selects by the validation samples; the test samples are looked at once, at the end."""
    random = np.random.RandomState(0)
    x = random.standard_normal((200, 3)).astype(np.float32)
    y = np.array(["low", "high"])[(x[:, 0] + random.standard_normal(200) > 0).astype(int)]
    np.savez(tmp_path / "a.npz", x=x, y=y)
    evaluated: list[int] = []
    measure = nn.Trainer._measure

    def counted(self: nn.Trainer, feed: Any) -> dict[str, float]:
        evaluated.append(feed.source.samples)
        return measure(self, feed)

    predict = nn.Trainer.predict

    def predicted(self: nn.Trainer, x: Any, *more: Any) -> Any:
        evaluated.append(len(x))
        return predict(self, x, *more)

    monkeypatch.setattr(nn.Trainer, "_measure", counted)
    monkeypatch.setattr(nn.Trainer, "predict", predicted)
    out = tmp_path / "run"
    arguments = ["--data", str(tmp_path / "a.npz"), "--epochs", "90", "--early-stopping", "4", "--lr", "0.02"]
    assert run("train", *arguments, "--out", str(out)) == 0
    printed = capsys.readouterr().out
    assert "140 training, 20 validation, 40 test samples, 2 classes: high, low" in printed
    history = json.loads((out / "history.json").read_text())
    assert evaluated == [20] * len(history) + [40]
    assert not any("test" in name for name in history[0])
    losses = [record["validation_loss"] for record in history]
    best = losses.index(min(losses)) + 1
    assert len(history) == best + 4 < 90
    assert f"The weights are those of epoch {best}: it has the lowest validation loss." in printed
    assert "% of 40 samples that were used for nothing else (always saying the most common class: " in printed
    page = (out / "report.html").read_text()
    for piece in (
        f"The weights are those of epoch {best}, which has the lowest validation loss.",
        ">test accuracy<", ">validation accuracy<", ">validation loss<", "40 test samples",
        ">Classes in the test<", ">high<", ">low<",
    ):  # fmt: skip
        assert piece in page, piece


def test_missing_parts_are_reported(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["train", "--data", str(points), "--epochs", "1", "--force", "--out", str(tmp_path / "run")]
    assert run(*common, "--validation-share", "0", "--test-share", "0") == 0
    printed = capsys.readouterr().out
    assert "Note: There are no validation samples." in printed and "Note: There are no test samples." in printed
    assert "accuracy:" not in printed
    assert "There are no test samples." in (tmp_path / "run" / "report.html").read_text()
    assert run(*common, "--validation-share", "0", "--early-stopping", "3") == 2
    assert "early_stopping selects by the validation loss, but there is no validation data" in capsys.readouterr().err


def test_classes_that_cannot_be_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.RandomState(0).standard_normal((40, 2))
    arguments = [
        "train",
        "--data",
        str(tmp_path / "a.npz"),
        "--epochs",
        "1",
        "--no-report",
        "--out",
        str(tmp_path / "run"),
    ]
    np.savez(tmp_path / "a.npz", x=x, y=np.full(40, 7))
    assert run(*arguments) == 2
    assert "all 28 training samples have class 7, so there is nothing to tell apart" in capsys.readouterr().err
    np.savez(tmp_path / "a.npz", x=x, y=np.where(np.arange(40) % 2, 9, 4))
    assert run(*arguments) == 0
    assert "Note: No training sample has class 0, 1, 2, 3, 5, 6, 7, 8: the network has an" in capsys.readouterr().out


def test_quiet_prints_nothing(tmp_path: Path, points: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--data", str(points), "--model", "mlp", "--epochs", "1", "--out", str(tmp_path / "q"), "--quiet"]
    assert run("train", *arguments) == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "cn"], "Did you mean 'cnn'"),
        (["--data", "no/such/file.npz"], "no such file"),
        (["--model", "no_such.toml"], "cannot be read"),
        (["--out", "/proc/nothing/here"], "openbnns train: "),
    ],
)
def test_bad_arguments_of_train(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--epochs", "1", *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("option", "meant"), [("--optimizer", "adam"), ("--schedule", "cosine")])
def test_misspelled_choices(option: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("train", option, meant[:-1])
    assert caught.value.code == 2
    assert f"Did you mean '{meant}'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "check"])
@pytest.mark.parametrize("seed", ["-1", "4294967296", "2.5", "seven", "²"])
def test_bad_seeds(command: str, seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(command, "--seed", seed)
    assert caught.value.code == 2
    assert f"--seed: {seed} is not a whole number from 0 to 4294967295" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["train", "--epochs", "0"], ["train", "--lr", "-1"], ["train", "--nonsense"], ["tran"]]
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "openbnns" in capsys.readouterr().err


def test_divergence_fails(tmp_path: Path, points: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--data",
        str(points),
        "--model",
        "mlp",
        "--optimizer",
        "sgd",
        "--lr",
        "1e30",
        "--out",
        str(tmp_path / "d"),
    ]
    assert run("train", *arguments) == 3
    assert "openbnns train: The loss became" in capsys.readouterr().err
    for command in ([], ["train"]):
        with pytest.raises(SystemExit):
            run(*command, "--help")
        assert "\n    3  training diverged" in capsys.readouterr().out


def test_check_passes_and_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("check", "--cases", "1", "fully_connected", "pooling") == 0
    assert "2 passed, 0 failed" in capsys.readouterr().out
    assert run("check", "--quiet", "--cases", "1", "loss") == 0
    assert capsys.readouterr().out == ""
    from openbnns.gradients import cases

    broken = cases.Outcome(3, 0.5, "gradient of weights")
    monkeypatch.setattr(cases, "run", lambda *arguments: broken)
    assert run("check", "loss") == 1
    assert "FAILED: gradient of weights" in capsys.readouterr().out
    assert run("check", "poolin") == 2
    assert "Did you mean 'pooling'" in capsys.readouterr().err


def test_check_knows_every_filter_with_gradients() -> None:
    from openbnns import filters
    from openbnns.filters import base
    from openbnns.filters.quantization import Quantization
    from openbnns.gradients import FAMILIES, family_module
    from openbnns.gradients._random import Random

    for module in pkgutil.iter_modules(filters.__path__):
        importlib.import_module(f"{filters.__name__}.{module.name}")

    def below(kind: type[base.Filter]) -> set[type[base.Filter]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    layers = [family_module(family).random_layer(Random(seed, family)) for family in FAMILIES for seed in range(3)]
    checked = {layer.bnns_filter.family for layer in layers}
    ours = {kind for kind in below(base.Filter) if kind.__module__.startswith("openbnns.")}
    assert checked == {kind.family for kind in ours} - {base.Filter.family, Quantization.family}


def test_accuracy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "images.npz", x=np.random.RandomState(0).random_sample((24, 1, 16, 16)), y=np.arange(24) % 2)
    common = ["train", "--data", str(tmp_path / "images.npz"), "--model", "cnn", "--epochs", "1", "--no-report"]
    for name in ("fast", "exact"):
        assert run(*common, "--accuracy", name, "--out", str(tmp_path / name)) == 0
    assert openbnns.get_accuracy() == "fast"
    assert run("info") == 0
    assert "accuracy               fast" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        run(*common, "--accuracy", "high")
    assert stopped.value.code == 2
    assert "invalid choice: 'high'" in capsys.readouterr().err


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info") == 0
    assert openbnns.__version__ in capsys.readouterr().out
    assert run("info", "--quiet") == 0
    assert capsys.readouterr().out == openbnns.__version__ + "\n"
    assert run() == 2


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "openbnns", "info"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "engine" in done.stdout


def test_sigint_gives_130(tmp_path: Path) -> None:
    import signal
    import time

    command = [
        sys.executable,
        "-m",
        "openbnns",
        "train",
        "--model",
        "mlp",
        "--epochs",
        "100000",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("checkpoint-*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped by SIGINT" in err and "resume" in err


# Model files.


def test_model_file(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(
        """
        name = "small"
        [[layers]]
        type = "Conv2d"
        out_channels = 4
        kernel_size = 3
        padding = 1
        [[layers]]
        type = "Residual"
        body = [{ type = "Conv2d", out_channels = 4, kernel_size = 3, padding = 1 }, { type = "Tanh" }]
        [[layers]]
        type = "Flatten"
        [[layers]]
        type = "Linear"
        out_features = "classes"
        """
    )
    assert models.from_file(path, 7)(np.zeros((2, 1, 5, 5), np.float32)).shape == (2, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[layers]]\ntype = 'Linar'\n", r"layers\[0\]: there is no layer 'Linar'. Did you mean 'Linear'"),
        ("[[layers]]\ntype = 'Linear'\nout_feature = 3\n", "unknown field 'out_feature'. Did you mean 'out_features'"),
        ("[[layers]]\ntype = 'Linear'\n", r"layers\[0\] \(Linear\): Linear takes"),
        ("[[layers]]\ntype = 'ConvTranspose2d'\nout_channels=1\nkernel_size=2\nstrid=2\n", "Did you mean 'stride'"),
        ("[[layers]]\nsize = 3\n", "needs a field type"),
        ("layer = 3\n", "unknown field 'layer'. Did you mean 'layers'"),
        ("", "has no"),
        ("= 3", "not valid TOML"),
        ("[[layers]]\ntype = 'Residual'\n", "body must be a list of layers"),
    ],
)
def test_bad_model_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "net.toml").write_text(text)
    with pytest.raises(models.ModelError, match=message):
        models.from_file(tmp_path / "net.toml", 3)

"""The embedded data and the example that trains on it."""

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, datasets, nn
from openbnns.examples import digits


def test_digits_are_always_split_alike() -> None:
    train_x, train_y, test_x, test_y = datasets.load_digits()
    assert train_x.shape == (1437, 64)
    assert test_x.shape == (360, 64)
    assert train_x.dtype == np.float32
    assert (train_x.min(), train_x.max()) == (0, 1)
    assert np.bincount(np.concatenate([train_y, test_y])).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(test_y, minlength=10).min() >= 25
    again = datasets.load_digits()
    for one, other in zip((train_x, train_y, test_x, test_y), again, strict=True):
        np.testing.assert_array_equal(one, other)
    data = hashlib.sha256(b"".join(array.tobytes() for array in again)).hexdigest()
    assert data == "05acddf56dc5bd6dbcbf16efc2e1dd7b42b37fa1d0dc67a96fd5bec20ee8cd1f"
    assert "Alpaydin" in datasets.CREDIT
    assert "CC BY 4.0" in datasets.CREDIT


def test_training_learns_to_read_digits() -> None:
    losses, accuracy = digits.train(verbose=False)
    assert len(losses) == digits.EPOCHS
    assert losses[-1] < 0.05 < 1 < losses[0]
    assert accuracy >= 0.95


def test_training_repeats() -> None:
    assert digits.train(epochs=1, verbose=False) == digits.train(epochs=1, verbose=False)


def test_example_prints_what_it_does(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "EPOCHS", 30)
    assert digits.main() == 0
    out = capsys.readouterr().out
    assert "epoch  1   loss" in out
    assert "Test accuracy: 9" in out
    assert "digits.py" in out


def test_example_runs_as_a_program() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "openbnns.examples.digits"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Test accuracy" in run.stdout


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fused_example_learns_as_published(examples: None, seed: int) -> None:
    """The known behaviour of this network, whatever the seed."""
    import digits_fused
    import glyphs

    network, losses = digits_fused.train(seed=seed)
    means = np.convolve(losses, np.ones(20) / 20, "valid")  # means[i] ends at step i + 20
    assert 18 <= losses[0] <= 50
    assert 1 <= np.mean(losses[90:110]) <= 3
    assert means[550 - 20 : 850 - 20 + 1].min() < 0.125
    images, digits_ = glyphs.draw(np.random.RandomState(1000 + seed), 320)
    assert np.mean(network.read(images) == digits_) >= 0.97


def test_c_names_give_bitwise_the_weights_of_the_layers(examples: None) -> None:
    import digits_capi
    import digits_fused

    weights, _ = digits_capi.train(seed=3, steps=50)
    network, _ = digits_fused.train(seed=3, steps=50)
    for name, array in network.parameters.items():
        np.testing.assert_array_equal(weights[name], array)


# Programs to copy: short, linked from the page where people look for them, and run here.
SHORT = (
    "c/first.c", "distributed_training.py", "export_to_c.py", "fine_tune_onnx.py", "gradcheck_custom_layer.py",
    "sklearn_pipeline.py", "train_from_csv.py",
)  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_a_program_to_copy_is_short_and_easy_to_find(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 60
    pages = (EXAMPLES.parent / "docs").glob("*.md")
    assert any(f"(../examples/{name})" in page.read_text(encoding="utf-8") for page in pages), "no page links to it"


def run_program(name: str, *arguments: str | Path, launcher: tuple[str, ...] = ()) -> str:
    """The output of an example that runs by itself."""
    package = Path(datasets.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])}
    environment |= {"OPENBNNS_PYTHON": sys.executable}  # for a library that lies in the source tree
    command = [*launcher, sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_train_from_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, table = tmp_path / "model.safetensors", tmp_path / "line.csv"
    text = run_program("train_from_csv.py", "--out", model)
    assert float(re.search(r"'accuracy': ([\d.]+)", text)[1]) > 0.85  # type: ignore[index]
    command, *arguments = text.splitlines()[-1].split()
    assert command == "openbnns" and cli.main(arguments) == 0, "the command that it prints has to work"
    assert len(re.findall("iris|lily", capsys.readouterr().out)) >= 20
    table.write_text("y,x\n" + "".join(f"{2 * x + 100:.3f},{x}\n" for x in np.linspace(0, 9, 300)), encoding="utf-8")
    run_program("train_from_csv.py", table, "--target", "y", "--out", model)
    predicted = nn.load_model(model).predict({"x": [3.0, 8.0]})
    np.testing.assert_allclose(np.ravel(predicted.values), [106, 116], atol=1)


def test_fine_tune_onnx(examples: None) -> None:
    before, after = importlib.import_module("fine_tune_onnx").main()
    assert before < 0.8 < after


def test_gradcheck_of_a_custom_layer(examples: None, capsys: pytest.CaptureFixture[str]) -> None:
    program: Any = importlib.import_module("gradcheck_custom_layer")
    assert program.main() is True
    assert float(re.search(r"([\d.]+)% of the test digits", capsys.readouterr().out)[1]) > 90  # type: ignore[index]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_export_to_c(tmp_path: Path) -> None:
    accuracy = re.match(r"([\d.]+)% of 360 test digits are right", run_program("export_to_c.py", tmp_path))
    assert accuracy and float(accuracy[1]) > 90


def test_distributed_training() -> None:
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert mpiexec, "mpi4py is installed, but there is no mpiexec: pip install mpich"
    alone = run_program("distributed_training.py")
    assert re.search(r"^9\d\.\d% of the test digits are right\nweights: \w{16}\n$", alone)
    assert run_program("distributed_training.py", launcher=(mpiexec, "-n", "2")) == alone


@pytest.mark.peers
def test_sklearn_pipeline(examples: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert importlib.import_module("sklearn_pipeline").main(str(tmp_path)) > 0.85
    assert re.search(r"^Core ML says (iris|lily|rose)$", capsys.readouterr().out, re.MULTILINE)
    assert {path.name for path in tmp_path.iterdir()} == {"c", "flowers.mlpackage", "flowers.onnx"}

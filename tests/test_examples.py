"""The embedded data and the example that trains on it."""

import subprocess
import sys

import numpy as np
import pytest

from openbnns import datasets
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

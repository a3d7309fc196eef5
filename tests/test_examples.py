"""The embedded data and the example that trains on it."""

import hashlib
import subprocess
import sys
from pathlib import Path

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


EXAMPLES = Path(__file__).parent.parent / "examples"


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

"""The networks of examples/vs_pytorch: ours train, and follow PyTorch step by step."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import openbnns
from openbnns.datasets import load_digits

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "vs_pytorch"
NOT_NETWORKS = {"__init__", "__main__", "data", "measure", "pair"}
NAMES = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NOT_NETWORKS)


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_every_file_is_a_pair() -> None:
    from examples.vs_pytorch.pair import find_pairs

    assert sorted(find_pairs()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_ours_trains_without_pytorch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.vs_pytorch import pair as p

    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    pair = p.find_pairs()[name]
    losses = p.train(p.make_ours(pair, pair.small), pair.batches(pair.small, 1) * p.STEPS)
    assert np.isfinite(losses).all()
    assert (losses[-1] < losses[0]).any()  # of two adversaries one gains


@pytest.mark.parametrize("name", NAMES)
def test_held_out_samples_are_like_the_others(name: str) -> None:
    from examples.vs_pytorch import pair as p

    pair = p.find_pairs()[name]
    training = pair.batch(pair.small, np.random.RandomState(0))
    held_out = pair.batch(pair.small, np.random.RandomState(0), held_out=True)
    assert [(x.shape, x.dtype) for x in training] == [(x.shape, x.dtype) for x in held_out]
    assert not np.array_equal(training[0], held_out[0])


def test_held_out_digits_and_texts_are_not_trained_on() -> None:
    from examples.vs_pytorch import data

    train_x, train_y, test_x, test_y = load_digits()
    images, labels = data.grey_digits(np.random.RandomState(0), len(test_x), 8, held_out=True)
    np.testing.assert_allclose(images.reshape(-1, 64), test_x, atol=1e-6)
    assert np.array_equal(labels, test_y)
    drawn, labels = data.grey_digits(np.random.RandomState(0), 50, 8)
    known = {(x.round(4).tobytes(), y) for x, y in zip(train_x, train_y, strict=True)}
    assert all((x.round(4).tobytes(), y) in known for x, y in zip(drawn.reshape(-1, 64), labels, strict=True))
    training, rest = data.manual()
    assert len(training) > 5 * len(rest) > 10_000


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
def test_losses_follow_pytorch(name: str) -> None:
    pytest.importorskip("torch")
    from examples.vs_pytorch import pair as p

    pair = p.find_pairs()[name]
    losses = p.compare_losses(pair, pair.small)
    assert len(losses.ours) == len(losses.theirs) == len(losses.exact) == p.STEPS
    assert losses.exact.dtype == np.float64
    np.testing.assert_allclose(losses.ours, losses.theirs, rtol=1e-4, atol=0)
    np.testing.assert_allclose(losses.ours, losses.exact, rtol=1e-4, atol=0)


@pytest.mark.peers
def test_the_command_reports_losses_and_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from examples.vs_pytorch import __main__ as command

    report = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["vs_pytorch", "lenet", "--small", "--losses", "--memory", "--json", str(report)])
    assert command.main() == 0
    assert "largest relative difference" in capsys.readouterr().out
    (row,) = json.loads(report.read_text())["rows"]
    assert row["difference"] <= 1e-4
    assert row["memory"]["ours"] > 0


@pytest.mark.peers
def test_time_is_compared_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from examples.vs_pytorch import measure, pair

    monkeypatch.setattr(measure, "FORMS", ("eager",))  # compiling takes long
    lenet = pair.find_pairs()["lenet"]
    time = measure.measure_time(lenet, lenet.small, openbnns.get_num_threads(), seconds=0.1)
    assert time.form == "eager"
    assert 0 < time.lowest <= time.ratio <= time.highest


def test_a_name_that_is_no_network(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.vs_pytorch import __main__ as command

    monkeypatch.setattr(sys, "argv", ["vs_pytorch", "lenett"])
    assert command.main() == 2
    assert "There is no network lenett. There are " in capsys.readouterr().err

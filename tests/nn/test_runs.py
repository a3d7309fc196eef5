"""Training runs from the command line: their folders, the epoch that is kept, and when they end."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, nn


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the current folder, with much to learn by heart and little else."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.RandomState(0)
    x = draw.standard_normal((80, 8)).round(3)
    y = (x[:, 0] + 2 * draw.standard_normal(80) > 0).astype(int)
    lines = [",".join([*"abcdefgh", "y"]), *(",".join(map(str, [*row, t])) for row, t in zip(x, y, strict=True))]
    path = tmp_path / "my data.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def train(*arguments: Any) -> int:
    return cli.main(["train", *map(str, arguments)])


def history(folder: str | Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((Path(folder) / "history.json").read_text())
    return records


def test_every_run_has_a_folder_of_its_own(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        assert train(table, "--epochs", 1, "--no-report") == 0
        assert f"openbnns predict runs/my-data-{number}/model.safetensors" in capsys.readouterr().out
        assert os.readlink("out") == f"runs/my-data-{number}"
    assert (Path("runs") / "my-data-1" / "model.safetensors").exists()
    assert train(table, "--epochs", 3, "--resume", "--override", "--no-report", "--quiet") == 0
    assert len(history("out")) == 3 and len(history("runs/my-data-1")) == 1 and len(list(Path("runs").iterdir())) == 2
    capsys.readouterr()
    assert train(table, "--epochs", 1, "--out", "out") == 2
    assert "out: has the model of a finished run" in capsys.readouterr().err
    assert train(table, "--target", "nothing") == 2 and len(list(Path("runs").iterdir())) == 2


def test_a_folder_called_out_stays(table: Path) -> None:
    Path("out").mkdir()
    Path("out", "mine.txt").write_text("mine")
    assert train(table, "--epochs", 1, "--no-report", "--quiet") == 0
    assert not Path("out").is_symlink() and Path("out", "mine.txt").read_text() == "mine"
    assert Path("runs", "my-data-1", "model.safetensors").exists()


def test_nothing_to_resume(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, "--resume") == 2
    assert "--resume: there is no run to continue in out. Say where it is: --out FOLDER" in capsys.readouterr().err


def test_the_best_epoch_is_kept_and_runs_end_early(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [table, "--epochs", 60, "--lr", 0.02, "--model", "mlp", "--schedule", "constant"]
    assert train(*common, "--out", "best") == 0
    said, records = capsys.readouterr().out, history("best")
    losses = [record["validation_loss"] for record in records]
    lowest = int(np.argmin(losses)) + 1
    assert len(records) == lowest + 10 < 60 and f"The weights are those of epoch {lowest}: it has the lowest" in said
    card = nn.load_model("best/model.safetensors").model_card
    assert card is not None and card.training["chosen_epoch"] == lowest
    page = Path("best", "report.html").read_text()
    marks = set(re.findall(r"(?:best|kept): epoch (\d+)", page))
    assert marks == {str(lowest)}
    assert train(*common, "--out", "last", "--keep", "last", "--quiet") == 0
    card = nn.load_model("last/model.safetensors").model_card
    assert card is not None and card.training["chosen_epoch"] == len(history("last")) == len(records)
    assert set(re.findall(r"(?:best|kept): epoch (\d+)", Path("last", "report.html").read_text())) == {
        str(len(records))
    }
    assert train(*common, "--out", "all", "--no-early-stopping", "--quiet") == 0 and len(history("all")) == 60
    assert "--no-early-stopping" in Path("all", "report.html").read_text()


def test_a_loss_that_rises_by_orders_of_magnitude_ends_the_run(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        train(table, "--optimizer", "sgd", "--lr", 300, "--schedule", "constant", "--no-report", "--clip-norm", 100)
        == 3
    )
    assert re.search(
        r"The loss (rose from 0\.\d+ in the first step to .* in epoch \d+|became \w+)", capsys.readouterr().err
    )
    x = np.float32(np.random.RandomState(0).standard_normal((64, 4)))
    trainer = nn.Trainer(nn.Linear(1), "mse", nn.SGD(2.0), batch_size=64, quiet=True, seed=0)
    with pytest.raises(
        nn.Diverged, match=r"The loss rose from \d\.\d+ in the first step to \d.* in epoch \d+\. Use a smaller"
    ):
        trainer.fit(x, x[:, :1], epochs=50)
    for scale in (1e-6, 1.0, 1e6):  # the size of the numbers does not matter
        calm = nn.Trainer(nn.Linear(1), "mse", nn.Adam(0.01), quiet=True, seed=0)
        calm.fit(x, scale * x[:, :1], epochs=2)


def test_tables_get_a_network_for_tables(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, "--epochs", 2, "--out", "a", "--no-report") == 0
    assert "Training tabular (" in capsys.readouterr().out
    net = nn.load_model("a/model.safetensors")
    kinds = [type(module).__name__ for _, module in net.named_modules()]
    assert kinds.count("Residual") == 2 and "BatchNorm1d" in kinds and "Dropout" in kinds
    card = net.model_card
    assert card is not None and (card.training["optimizer"], card.training["batch_size"]) == ("adamw", 32)

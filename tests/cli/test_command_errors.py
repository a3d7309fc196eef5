"""Small things that people meet in commands and notebooks: errors for programs, suggestions, and texts of one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import openbnns as bn
from openbnns import cli, nn
from openbnns._spelling import right_word


def test_errors_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "nowhere.csv", "--json"]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "error": "nowhere.csv: there is no such file or folder. Use 'digits' or the path of your data.", "exit_code": 2,
    }  # fmt: skip
    assert printed.err.startswith("openbnns train: nowhere.csv: there is no such file")
    for arguments in (
        ["train", "--json", "--epochs", "x"],
        ["predict", "--json", "--nothing", "a", "b"],
        ["evaluate", "--json"],
    ):
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        printed = capsys.readouterr()
        said = json.loads(printed.out)
        assert caught.value.code == said["exit_code"] == 2 and said["error"].rstrip(".") in printed.err
    assert cli.main(["train", "--optimizer", "sgd", "--lr", "1e9", "--out", str(tmp_path / "o"), "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == 3 and "The loss" in said["error"]
    assert cli.main(["train", "nowhere.csv"]) == 2 and not capsys.readouterr().out


@pytest.mark.parametrize("module", [["-m", "openbnns"]])
def test_a_wrong_engine_is_one_line(module: list[str]) -> None:
    environment = {**os.environ, "OPENBNNS_ENGINE": "foo"}
    done = subprocess.run([sys.executable, *module, "info"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and not done.stdout
    assert done.stderr == "openbnns: OPENBNNS_ENGINE is 'foo'. Set it to 'native' or 'reference', or leave it unset.\n"


@pytest.mark.parametrize(
    ("word", "known", "suggestion"),
    [
        ("age", ["usage", "wages"], None), ("id", ["idea", "mid_term"], None), ("ag", ["age"], "age"), ("cnm", ["cnn"], "cnn"),
        ("kins", ["kind"], "kind"), ("colour", ["color"], "color"), ("trian", ["train"], "train"), ("AGE", ["age"], "age"),
        ("target_colum", ["target_column"], "target_column"),
    ],
)  # fmt: skip
def test_only_likely_words_are_suggested(word: str, known: list[str], suggestion: str | None) -> None:
    assert right_word(word, known) == suggestion


def test_texts_of_one_line() -> None:
    loaded = nn.data.load("digits")
    assert repr(loaded) == "<Data digits: 1,293 training, 144 validation, 360 test samples of shape (1, 8, 8)>"
    rows = nn.data.Data(np.zeros((3, 2)), np.arange(3), np.zeros((0, 2)), np.zeros(0, int), task="regression")
    assert repr(rows) == "<Data arrays: 3 training samples of shape (2,), regression>"


def test_a_report_of_gradients_shows_its_table_once(capsys: pytest.CaptureFixture[str]) -> None:
    report = bn.gradcheck(nn.Linear(3), np.ones((2, 4)))
    assert "tolerance" in capsys.readouterr().out and report._repr_html_() is None and "\n" not in repr(report)
    quiet = bn.gradcheck(nn.Linear(3), np.ones((2, 4)), verbose=False)
    assert "<table" in (quiet._repr_html_() or "") and not capsys.readouterr().out

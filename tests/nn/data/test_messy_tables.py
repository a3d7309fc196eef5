"""Warnings about a table before anyone trusts a model of it: suspicious columns, spellings, the use of columns."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn import data
from openbnns.nn.data import DataError
from openbnns.nn.data.preprocessing import TablePreparation
from openbnns.nn.data.preprocessing.tables import CategoryColumn


def write(folder: Path, rows: list[dict[str, Any]], name: str = "a.csv") -> Path:
    path = folder / name
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def people(count: int = 120, seed: int = 0) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        age, income = draw.randint(18, 80), round(draw.uniform(1, 9), 3)
        stays = age / 20 + income + draw.gauss(0, 1) > 7
        rows.append({
            "number": 70_000 + (i * 37) % 1009, "age": age, "income": income, "cents": round(100 * income),
            "city": draw.choice(["Bern", "bern", "BERN ", "Rome", "Oslo  North", "oslo north"]),
            "stays": "yes" if stays else "no",
        })  # fmt: skip
    return rows


# Targets.


def test_a_price_is_a_number_to_predict(tmp_path: Path) -> None:
    rows = [{**row, "price": f"${1000 + 37 * i:,}.50"} for i, row in enumerate(people())]
    loaded = data.load(write(tmp_path, rows), target="price")
    assert loaded.task == "regression" and loaded.target_mean is not None
    assert 1000 < loaded.target_mean[0] < 6000


def test_nearly_as_many_classes_as_rows_are_refused(tmp_path: Path) -> None:
    rows = [{**row, "code": f"c{i if i > 4 else 4}"} for i, row in enumerate(people(1200))]
    with pytest.raises(
        DataError, match=r"'code' has 1,196 classes in 1,200 rows, too few rows of each.*If it is an identifier"
    ):
        data.load(write(tmp_path, rows), target="code")


def test_a_class_may_be_called_none(tmp_path: Path) -> None:
    rows = [{**row, "defect": ("none", "scratch")[i % 2], "age": "none" if i % 9 == 0 else row["age"]}
            for i, row in enumerate(people())]  # fmt: skip
    loaded = data.load(write(tmp_path, rows), target="defect")
    assert loaded.class_names == ("none", "scratch") and isinstance(loaded.preparation, TablePreparation)
    assert loaded.preparation.kinds()["age"] == "number" and "age is missing" in loaded.preparation.feature_names


# Suspicious columns.


def test_suspicious_columns_are_named(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [{**row, "left": 0 if row["stays"] == "yes" else 1, "exit": "n" if row["stays"] == "yes" else draw.choice("pq")}
            for row in people()]  # fmt: skip
    said = " ".join(data.load(write(tmp_path, rows), target="stays").remarks)
    for piece in (
        "Column 'number' has a different whole number in every row. If it is an id, leave it out: --drop number.",
        "The class follows from column 'left' alone. If it is not known before the target is, the results mean nothing: leave it",
        "The class follows from column 'exit' alone.",
    ):  # fmt: skip
        assert piece in said, piece
    assert "'age'" not in said and "column 'city' alone" not in said
    doubled = [{**row, "again": 3 - 2 * row["income"]} for row in people()]
    said = " ".join(data.load(write(tmp_path, doubled), target="stays").remarks)
    assert "Columns 'income' and 'again' say the same: one of them is enough, such as with --drop again." in said
    leaking = [{**row, "paid": 1.19 * row["income"]} for row in people()]
    said = " ".join(data.load(write(tmp_path, leaking), target="income", drop=["cents"]).remarks)
    assert "Column 'paid' says the same as the target 'income'." in said


def test_nothing_is_suspicious_about_ordinary_tables(tmp_path: Path) -> None:
    """Random tables of every task, in which no column says more than others."""
    for seed in range(20):
        draw = np.random.RandomState(seed)
        x = draw.standard_normal((100, 3)).round(3)
        y = (x[:, 0] + draw.standard_normal(100) > 0).astype(int)
        rows = [
            {"a": a, "b": b, "w": draw.choice(["u", "v", "w"]), "c": c, "y": t}
            for (a, b, c), t in zip(x, y, strict=True)
        ]
        for target in ("y", "c"):
            remarks = data.load(write(tmp_path, rows), target=target).remarks
            assert not [remark for remark in remarks if "--drop" in remark], (seed, target, remarks)


# Spellings.


def test_spellings_of_a_category_are_joined(tmp_path: Path) -> None:
    loaded = data.load(write(tmp_path, people()), target="stays", drop=["cents"])
    assert isinstance(loaded.preparation, TablePreparation)
    (city,) = (c for c in loaded.preparation.columns if isinstance(c, CategoryColumn))
    assert {word.casefold() for word in map(" ".join, map(str.split, city.categories))} == {
        "bern",
        "rome",
        "oslo north",
    }
    assert len(city.categories) == 3 and len(city.joined) == 3
    assert "counted as the same" in " ".join(loaded.remarks)
    names = loaded.preparation.feature_names
    assert (loaded.train_x[:, [names.index(f"city = {word}") for word in city.categories]].sum(axis=1) == 1).all()
    again = nn.data.preprocessing.from_state(loaded.preparation.state(), "it")
    row = {"number": 1, "age": 30, "income": 2.5}
    for spelling in ("bErN", " bern", "BERN"):
        np.testing.assert_array_equal(
            again.apply([{**row, "city": spelling}]), loaded.preparation.apply([{**row, "city": "Bern"}])
        )
    assert (
        not again.unseen and again.apply([{**row, "city": "Lima"}]) is not None and again.unseen == {"city": ["Lima"]}
    )  # type: ignore[attr-defined]


# Commands.


def test_dry_run_and_inspect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, people())
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", str(path), "--drop", "cents", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    table = printed[printed.index("  column") : printed.index("Nothing is trained")]
    assert "  stays   target of the classification\n" in table and "  income  numbers, standardized\n" in table
    assert "  cents   left out: --drop\n" in table and "  city    3 categories: " in table
    assert cli.main(["train", str(path), "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["columns"]["stays"] == "target of the classification" and said["samples"]["training"] == 84
    assert cli.main(["train", str(path), "--drop", "cents", "--epochs", "1", "--out", "out", "--no-report"]) == 0
    trained = capsys.readouterr().out
    assert cli.main(["inspect", "out/model.safetensors"]) == 0
    assert table in trained and table in capsys.readouterr().out


def test_predictions_keep_columns_and_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert (
        cli.main(
            ["train", str(write(tmp_path, people())), "--epochs", "1", "--out", str(out), "--no-report", "--quiet"]
        )
        == 0
    )
    model, new = str(out / "model.safetensors"), [{"name": f"n, {i}", **row} for i, row in enumerate(people(30, 5))]
    path, answers = write(tmp_path, new, "new.csv"), tmp_path / "answers.csv"
    assert cli.main(["predict", model, str(path), "--keep", "name,age", "-o", str(answers)]) == 0
    with answers.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["age"]) for row in rows] == [(row["name"], str(row["age"])) for row in new]
    assert list(rows[0])[:4] == ["sample", "name", "age", "prediction"]
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(new), tmp_path / "new.parquet")
    capsys.readouterr()
    assert cli.main(["predict", model, str(tmp_path / "new.parquet"), "--keep", "name", "--json"]) == 0
    assert [row[1] for row in json.loads(capsys.readouterr().out)["predictions"]] == [row["name"] for row in new]
    assert cli.main(["predict", model, str(path), "--keep", "nam"]) == 2
    assert "there is no column 'nam' for --keep. Did you mean 'name'?" in capsys.readouterr().err

"""Dates and times in tables: their order is found or asked for, and they become numbers that a network can use."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn import data
from openbnns.nn.data import DataError
from openbnns.nn.data.preprocessing import TablePreparation, from_state
from openbnns.nn.data.preprocessing.tables import DateColumn
from openbnns.nn.data.tables import dates
from openbnns.nn.models import ModelError


def write(folder: Path, cells: list[str], name: str = "a.csv", separator: str = ";") -> Path:
    path = folder / name
    rows = [f'"{cell}"{separator}{i % 5}{separator}{"uv"[i % 2]}' for i, cell in enumerate(cells)]
    path.write_text("\n".join([f"when{separator}n{separator}y", *rows]) + "\n", encoding="utf-8")
    return path


def column(path: Path, **options: str) -> DateColumn:
    prepare = data.load(path, **options).preparation  # type: ignore[arg-type]
    assert isinstance(prepare, TablePreparation) and isinstance(prepare.columns[0], DateColumn)
    return prepare.columns[0]


@pytest.mark.parametrize(
    ("cell", "order", "wanted"),
    [
        ("2024-03-31", "ymd", "2024-03-31 00:00"), ("2024/3/1", "ymd", "2024-03-01 00:00"),
        ("2024-03", "ymd", "2024-03-01 00:00"),
        ("2024-03-31T18:05:30Z", "ymd", "2024-03-31 18:05"), ("2024-03-31 18:05:30.25+01:00", "ymd", "2024-03-31 18:05"),
        ("3/31/2024", "mdy", "2024-03-31 00:00"), ("03/31/24 6:05 PM", "mdy", "2024-03-31 18:05"),
        ("12/31/1999 12:00 am", "mdy", "1999-12-31 00:00"), ("31.3.2024", "dmy", "2024-03-31 00:00"),
        ("31/03/69", "dmy", "1969-03-31 00:00"), ("31-3-68", "dmy", "2068-03-31 00:00"),
        ("2024-03-31", "dmy", "2024-03-31 00:00"),
        ("31 March 2024", "name", "2024-03-31 00:00"), ("Mar 31, 2024 18:05", "name", "2024-03-31 18:05"),
        ("Sunday, 31st Mar 2024", "name", "2024-03-31 00:00"), ("31-Mar-24", "name", "2024-03-31 00:00"),
        ("31/3/2024", "mdy", None), ("2024-02-30", "ymd", None), ("25:00", "time", None), ("1.2.3", "dmy", None),
        ("31 Foo 2024", "name", None), ("2024-03-31 18:61", "ymd", None), ("2024.5", "dmy", "2024-05-01 00:00"),
    ],
)  # fmt: skip
def test_cells(cell: str, order: str, wanted: str | None) -> None:
    read = dates.moment(cell, order)
    if wanted is None:
        assert read is None
        return
    assert read is not None and read[0] is not None
    said = datetime.strptime(wanted, "%Y-%m-%d %H:%M")
    assert (
        read[0] == said.date()
        and int(read[1]) == said.hour
        and round(read[1] * 60) // 1 % 60 in (said.minute, said.minute + 1)
    )


def test_random_columns_are_read_in_their_order(tmp_path: Path) -> None:
    draw = random.Random(3)
    forms = {"%Y-%m-%d": "ymd", "%m/%d/%Y": "mdy", "%d/%m/%Y": "dmy", "%d.%m.%Y": "dmy", "%d %B %Y": "name", "%b %d, %Y": "name",
             "%m/%d/%y %I:%M %p": "mdy", "%Y-%m-%dT%H:%M:%S": "ymd", "%d-%m-%Y %H:%M": "dmy"}  # fmt: skip
    for form, order in forms.items():
        moments = [
            datetime(2019, 1, 1) + timedelta(days=day, minutes=draw.randrange(24 * 60))
            for day in draw.sample(range(1400), 60)
        ]
        path = write(tmp_path, [moment.strftime(form) for moment in moments])
        actual = column(path)
        assert actual.order == order
        loaded = data.load(path, standardize=False, test_share=0, validation_share=0)
        rounded = [datetime.strptime(moment.strftime(form), form) for moment in moments]
        days = [(m - datetime(1970, 1, 1)) / timedelta(days=1) for m in rounded]
        names = loaded.preparation.feature_names  # type: ignore[union-attr]
        at = {name: loaded.train_x[:, i] for i, name in enumerate(names)}
        np.testing.assert_allclose(np.sort(at["when: day count"]), np.sort(days), atol=0.01)
        turns = np.array([2 * np.pi * (m.month - 1) / 12 for m in rounded])[np.argsort(days)]
        both = np.stack([at["when: month (sine)"], at["when: month (cosine)"]])[:, np.argsort(at["when: day count"])]
        np.testing.assert_allclose(both, [np.sin(turns), np.cos(turns)], atol=1e-3)
        assert ("when: hour (sine)" in at) == ("%H" in form or "%I" in form)


def test_an_order_in_doubt_is_asked_for(tmp_path: Path) -> None:
    cells = [f"{i % 12 + 1}/{i % 11 + 1}/2024" for i in range(60)]
    path = write(tmp_path, cells)
    with pytest.raises(DataError) as caught:
        data.load(path)
    for piece in ("column 'when' has dates such as '12/", "if the month comes first, and", "--dates month-first or --dates",
                  'dates="month-first"'):  # fmt: skip
        assert piece in str(caught.value)
    assert column(path, dates="month-first").order == "mdy" and column(path, dates="day-first").order == "dmy"
    with pytest.raises(ValueError, match=r"--dates is 'us'\. Use month-first or day-first"):
        data.load(path, dates="us")  # type: ignore[arg-type]
    lines = path.read_text().splitlines()
    other = tmp_path / "b.csv"  # another column of the same table tells
    other.write_text(
        "\n".join([f"{lines[0]};to", *(f"{line};{i % 28 + 1}/3/2024" for i, line in enumerate(lines[1:]))])
    )
    prepare = data.load(other, target="y").preparation
    assert isinstance(prepare, TablePreparation)
    assert [c.order for c in prepare.columns if isinstance(c, DateColumn)] == ["dmy", "dmy"]


def test_dates_that_are_wrong_or_missing(tmp_path: Path) -> None:
    cells = [f"2024-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(60)]
    with pytest.raises(
        DataError, match=r"line 32: column 'when' is 'soon', but other rows have dates such as '2024-01-01'"
    ):
        data.load(write(tmp_path, [*cells[:30], "soon", *cells[30:]]))
    with pytest.raises(DataError, match=r"line 32: column 'when' is '2024-02-31', but other rows have dates"):
        data.load(write(tmp_path, [*cells[:30], "2024-02-31", *cells[30:]]))
    dataset = data.load(write(tmp_path, [*cells, "", "NA"] * 3), test_share=0, validation_share=0)
    assert isinstance(dataset.preparation, TablePreparation)
    mark = dataset.preparation.feature_names.index("when is missing")
    gone = dataset.train_x[:, mark] == 1
    assert gone.sum() == 6
    parts = [i for i, name in enumerate(dataset.preparation.feature_names) if name.startswith("when: ")]
    assert not dataset.train_x[gone][:, parts].any() and dataset.train_x[~gone][:, parts].any()


def test_a_model_knows_its_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Something that happens at weekends is learned from dates, and the model file has what prediction needs."""
    draw = random.Random(1)
    moments = [datetime(2021, 1, 1) + timedelta(days=draw.randrange(1500)) for _ in range(500)]
    path = tmp_path / "a.csv"
    path.write_text("when,open\n" + "".join(f"{m:%m/%d/%Y},{'no' if m.weekday() > 4 else 'yes'}\n" for m in moments))
    out = tmp_path / "out"
    assert cli.main(["train", str(path), "--epochs", "60", "--lr", "0.01", "--out", str(out)]) == 0
    assert "dates such as 3/31/2024; used are day count, year, month, day of week" in capsys.readouterr().out
    net = nn.load_model(out / "model.safetensors")
    assert net.model_card is not None and net.model_card.results["test"]["accuracy"] > 0.9
    said = net.predict([{"when": "11/28/2026"}, {"when": datetime(2026, 11, 25)}, {"when": "11/29/2026 10:00"}])
    assert list(said) == ["no", "yes", "no"]
    new = tmp_path / "new.csv"
    new.write_text("when\n2026-11-28\n28/11/2026\n")
    assert cli.main(["predict", str(out / "model.safetensors"), str(new)]) == 2
    assert (
        "line 3: column 'when' is '28/11/2026', but the model was trained on dates such as 3/31/2024"
        in capsys.readouterr().err
    )
    assert cli.main(["predict", str(out / "model.safetensors"), str(new), "--dates", "day-first"]) == 0
    assert capsys.readouterr().out.count("no") >= 2


def test_model_files_that_lie_about_dates() -> None:
    state = TablePreparation([DateColumn("d", "ymd", ("year", "month (sine)"), (1.0, 0.0), (2.0, 1.0), True)]).state()
    assert from_state(state, "it").state() == state
    for name, value in (
        ("order", "xyz"),
        ("features", ["year", "year"]),
        ("features", ["age"]),
        ("std", [1, 0]),
        ("mean", [1]),
    ):
        bad = {**state, "columns": [{**state["columns"][0], name: value}]}
        with pytest.raises(ModelError):
            from_state(bad, "it")


def test_timestamps_of_parquet_files(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moments = [datetime(2020, 1, 1) + timedelta(hours=37 * i) for i in range(50)]
    parquet.write_table(arrow.table({"when": moments, "y": ["a", "b"] * 25}), tmp_path / "a.parquet")
    read = column(tmp_path / "a.parquet")
    assert read.order == "ymd" and "hour (sine)" in read.features

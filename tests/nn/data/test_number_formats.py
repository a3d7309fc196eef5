"""Numbers that are written for people: found by column, converted, said, kept in the model file; refused where in doubt."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.cli import main
from openbnns.nn import data
from openbnns.nn.data import DataError
from openbnns.nn.data.preprocessing import TablePreparation
from openbnns.nn.data.tables import arrow, delimited, number_formats
from openbnns.nn.data.tables.number_formats import NumberFormat
from openbnns.nn.models import ModelError

Array = np.ndarray


def write(folder: Path, lines: list[str], name: str = "a.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def column(path: Path, name: str, **options: str) -> tuple[Array, NumberFormat | None]:
    """The numbers of a column and the format that was found."""
    table = delimited.read(path, targets=["y"], decimal=options.get("decimal", ""))
    number_formats.convert(table, words=["y"], **options)
    return table.column(name), table.formats.get(name)


# Cells.


@pytest.mark.parametrize(
    ("form", "cell", "value"),
    [
        (NumberFormat(), "12", 12), (NumberFormat(), "-1.5e3", -1500), (NumberFormat(), "1,234", None),
        (NumberFormat(), "12%", None), (NumberFormat(), "$12", None), (NumberFormat(), "(12)", None),
        (NumberFormat(thousands=","), "1,234,567.5", 1234567.5), (NumberFormat(thousands=","), "1234", 1234),
        (NumberFormat(thousands=","), "12,34,567", 1234567), (NumberFormat(thousands=","), "1,23", None),
        (NumberFormat(thousands=","), "0,123", None), (NumberFormat(thousands=","), "1234,567", None),
        (NumberFormat(",", "."), "-1.234,56", -1234.56), (NumberFormat(",", "."), "1,234.5", None),
        (NumberFormat(",", " "), "1\u202f234,5", 1234.5), (NumberFormat(thousands="'"), "1\u2019234", 1234),
        (NumberFormat(unit="%"), "81.3 %", 81.3), (NumberFormat(unit="%"), "81.3", None), (NumberFormat(unit="%"), "0", 0),
        (NumberFormat(unit="$"), "-$5", -5), (NumberFormat(unit="$"), "$-5", -5), (NumberFormat(unit="$"), "5", 5),
        (NumberFormat(unit="$"), "\u20ac5", None), (NumberFormat(unit="$"), "$5$", None), (NumberFormat(unit="$"), "-$-5", None),
        (NumberFormat(",", "", "\u20ac"), "\u20ac 5,25", 5.25), (NumberFormat(",", "", "EUR"), "5,25 EUR", 5.25),
        (NumberFormat(unit="$", parentheses=True), "($1.25)", -1.25), (NumberFormat(parentheses=True), "(12", None),
        (NumberFormat(parentheses=True), "(-12)", None), (NumberFormat(), "\u22127", -7), (NumberFormat(), "1_0", None),
        (NumberFormat(), "", None), (NumberFormat(), "-", None), (NumberFormat(), ".", None), (NumberFormat(), "1.2.3", None),
        (NumberFormat(), "\u0661\u0662", None), (NumberFormat(), "nan", None),
    ],
)  # fmt: skip
def test_cells(form: NumberFormat, cell: str, value: float | None) -> None:
    assert form.value(cell) == value


def test_every_format_reads_its_own_example() -> None:
    for decimal in ".,":
        for thousands in ("", ",", ".", " ", "'"):
            for unit in ("", "%", "$", "EUR"):
                if decimal != thousands:
                    form = NumberFormat(decimal, thousands, unit)
                    assert form.value(form.example) == 1234.5


# Columns.


def written(form: NumberFormat, value: float, digits: int, draw: random.Random) -> str:
    """A number in a format, by way of Python's own formatting."""
    text = f"{abs(value):,.{digits}f}" if form.thousands and draw.random() < 0.9 else f"{abs(value):.{digits}f}"
    text = text.translate({ord(","): form.thousands, ord("."): form.decimal})
    if form.unit == "%":
        text += draw.choice(["%", " %"])
    elif form.unit and draw.random() < 0.9:
        text = draw.choice([f"{form.unit}{text}", f"{form.unit} {text}", f"{text} {form.unit}", f"{text}{form.unit}"])
    if value < 0:
        text = f"({text})" if form.parentheses else f"-{text}"
    return text


def test_random_columns_give_their_numbers_back(tmp_path: Path) -> None:
    """Whatever is accepted is right: columns in one format, between other columns, with cells that are missing."""
    draw, accepted = random.Random(11), 0
    for case in range(150):
        decimal = draw.choice(".,")
        thousands = draw.choice([t for t in ("", ",", ".", " ", "'") if t != decimal])
        form = NumberFormat(decimal, thousands, draw.choice(["", "%", "$", "\u20ac", "CHF"]), draw.random() < 0.3)
        digits, size = draw.choice([0, 0, 1, 2, 3, 5]), 10.0 ** draw.randint(1, 7)
        values = [draw.uniform(-size, size) if draw.random() < 0.9 else None for _ in range(60)]
        separator = draw.choice(",;\t|")
        cells = ["" if v is None else written(form, v, digits, draw) for v in values]
        lines = [separator.join(("a", "x", "y"))]
        lines += [separator.join((str(i % 7), f'"{cell}"', "uv"[i % 2])) for i, cell in enumerate(cells)]
        path = write(tmp_path, lines)
        try:
            actual, _ = column(path, "x")
        except DataError as error:
            assert "nothing in the table tells which" in str(error), (case, cells[:5], error)
            actual, _ = column(path, "x", decimal=decimal)
        else:
            accepted += 1
            plain = all(re.fullmatch(r"-?\d+(\.\d+)?|", cell) for cell in cells)
            if plain or (separator == "," and decimal == "," and digits == 3):
                actual, _ = column(path, "x", decimal=decimal)  # which else is a point, as in other files of this kind
        wanted = np.array([np.nan if v is None else round(v, digits) for v in values])
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=1e-6 * size, err_msg=f"{case} {form} {cells[:5]}")
    assert accepted > 100


@pytest.mark.parametrize(
    ("separator", "cells", "form"),
    [
        (",", ["1,234", "999", "12,345,678"], NumberFormat(thousands=",")),
        (",", ["81.3%", "7%", "0"], NumberFormat(unit="%")),
        (",", ["$3,823.92", "$12.00", "0"], NumberFormat(thousands=",", unit="$")),
        (",", ["1.234,56", "7,5", "3"], NumberFormat(",", ".")),
        (";", ["\u20ac 1.234,56", "\u20ac 7,5", "3"], NumberFormat(",", ".", "\u20ac")),
        (";", ["1 234", "1e3", "77"], NumberFormat(thousands=" ")),
        (";", ["(12)", "13", "(1,5)"], NumberFormat(",", parentheses=True)),
        (";", ["27,385", "27,38", "1,2"], NumberFormat(",")),
        (";", ["27,385", "1,234,567", "5"], NumberFormat(thousands=",")),
        (";", ["0,385", "27,385", "1,234"], NumberFormat(",")),
        (",", ["12", "13.5", "1e3"], None),
    ],
)
def test_formats_that_are_found(tmp_path: Path, separator: str, cells: list[str], form: NumberFormat | None) -> None:
    lines = [f"x{separator}y"] + [f'"{cell}"{separator}{"ab"[i % 2]}' for i, cell in enumerate(cells * 10)]
    assert column(write(tmp_path, lines), "x")[1] == form


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_27385_is_refused(tmp_path: Path, separator: str) -> None:
    cells = ["27,385", "1,250", "812"] * 10
    path = write(tmp_path, [f"y{separator}x"] + [f"{'ab'[i % 2]}{separator}{cell}" for i, cell in enumerate(cells)])
    with pytest.raises(DataError) as caught:
        data.load(path, target="y")
    said = str(caught.value)
    for piece in ("column 'x' is '27,385' in row 1", "27385 if the comma separates thousands", "27.385 if it is the decimal sign",
                  "--thousands comma or --decimal comma", 'thousands="," or decimal=","'):  # fmt: skip
        assert piece in said
    for options, value in (
        ({"thousands": ","}, 27385), ({"thousands": "comma"}, 27385), ({"decimal": "."}, 27385), ({"decimal": ","}, 27.385),
        ({"decimal": "comma"}, 27.385),
    ):  # fmt: skip
        loaded = data.load(path, target="y", standardize=False, test_share=0, validation_share=0, **options)  # type: ignore[arg-type]
        assert np.isclose(loaded.train_x, value).any() and np.isclose(loaded.train_x, 812).any()
    others = [f"y{separator}z{separator}x"]
    others += [f"{'ab'[i % 2]}{separator}{i / 8}{separator}{cell}" for i, cell in enumerate(cells)]
    settled = data.load(
        write(tmp_path, others), target="y", standardize=False, test_share=0, validation_share=0
    )  # another column has decimal points
    assert np.isclose(settled.train_x.max(), 27385)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["x;y", *["1.234;a", "12.500;b", "812;a"] * 9], {}, r"'1\.234' in row 1, which is 1234 if the point .*--decimal point"),
        (["x,y", *["\u20ac1.234,a", "\u20ac12.500,b"] * 9], {}, r"which is 1234 if the point separates thousands, and 1\.234 if"),
        (["x,y", *["5%,a", "7%,b"] * 9, "0.5,a"], {}, r"is '5%' in row 1, but '0\.5' in row 19: numbers of two units"),
        (["x,y", *["$5,a", "$7,b"] * 9, "\u20ac5,a"], {}, r"is '\$5' in row 1, but '\u20ac5' in row 19: numbers of two units"),
        (["x,y", *['"1,234",a', '"5,123",b'] * 9, "oops,a"], {}, r"row 19: column 'x' is 'oops', .*'1,234'.*--missing 'oops'"),
        (["x,y", *['"1,234",a', '"5,123.5",b'] * 9, '"1.234,5",a'], {}, r"row 19: column 'x' is '1\.234,5', but others"),
        (["x,y", *['"1,234.5",a', '"5,123.5",b'] * 9], {"decimal": ","}, r"row 1: column 'x' is '1,234\.5'.*such as 1234,5"),
        (["x,y", *["1,a", "2,b"] * 99, '"1,234",a', "oops,a"], {}, r"row 200: column 'x' is 'oops'"),
    ],
)  # fmt: skip
def test_columns_that_are_refused(tmp_path: Path, lines: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        data.load(write(tmp_path, lines), **options)


def test_signs_that_mean_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, ["x,y", *["1,a", "2,b"] * 9])
    for options, message in (
        ({"decimal": ";"}, "--decimal is ';'. Use comma or point"), ({"thousands": "xy"}, "--thousands is 'xy'"),
        ({"decimal": ",", "thousands": "comma"}, "are both ','"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            data.load(path, **options)  # type: ignore[arg-type]


def test_columns_of_words_stay_words(tmp_path: Path) -> None:
    words = ["12 km", "1-2", "3+", "v1.2.3", "192.168.1.1", "A1", "No. 5"]
    path = write(tmp_path, ["w,x,y"] + [f"{words[i % 7]},{i},{'ab'[i % 2]}" for i in range(70)])
    loaded = data.load(path)
    assert isinstance(loaded.preparation, TablePreparation)
    assert loaded.preparation.kinds() == {"w": "word"} and not loaded.preparation.formats
    coded = write(tmp_path, ["w,y"] + [f'"{i % 3 + 1},000",{"ab"[i % 2]}' for i in range(70)])
    assert data.load(coded, categorical=["w"]).preparation.kinds() == {"w": "word"}  # type: ignore[union-attr]


def test_more_numbers_than_words_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of numbers in a format may have any number of different cells; one of words is left out, with the reason."""
    monkeypatch.setattr(arrow, "MOST_WORDS", 50)
    path = write(tmp_path, ["x,w,y"] + [f'"{i * 1001:,}",w{i},{"ab"[i % 2]}' for i in range(300)])
    loaded = data.load(path, standardize=False, test_share=0, validation_share=0, seed=3)
    np.testing.assert_array_equal(np.sort(loaded.train_x[:, 0]), np.arange(300, dtype=np.float32) * 1001)
    assert "Column 'w' is left out: it has more than 50 different words." in loaded.remarks
    monkeypatch.setattr(arrow, "MOST_NUMBERS", 100)
    with pytest.raises(DataError, match=r"column 'x' has more than 100 different numbers such as .* --drop x"):
        data.load(path)


def test_streamed_tables_give_the_same(tmp_path: Path) -> None:
    draw = random.Random(2)
    lines = [
        f'"{draw.randint(0, 10**6):,}",{draw.gauss(0, 1):.3f},{draw.random():.1%},{draw.choice("abc")}'
        for _ in range(500)
    ]
    path = write(tmp_path, ["p,q,r,y", *lines])
    one, other = data.load(path, stream=False), data.load(path, stream=True)
    for part, (x, y) in one.parts.items():
        np.testing.assert_array_equal(x, other.parts[part][0][:])
        np.testing.assert_array_equal(y, other.parts[part][1])


def test_strings_in_parquet_files(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    cells = [None if i % 9 == 0 else "NA" if i % 9 == 1 else f"${i * 1234:,}.50" for i in range(60)]
    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"x": cells, "y": ["a", "b"] * 30}), path)
    loaded = data.load(path, standardize=False, test_share=0, validation_share=0)
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation) and prepare.formats == {"x": NumberFormat(thousands=",", unit="$")}
    there = loaded.train_x[:, 1] == 0
    assert there.sum() == 60 - 14 and loaded.train_x[there, 0].max() == np.float32(59 * 1234.0 + 0.5)


# What a model knows.


def messy(count: int, seed: int = 0) -> list[str]:
    """A shop's customers, as an office suite exports them; who stays follows from income, discount and balance."""
    draw = random.Random(seed)
    lines = ["customer,joined,income,discount,balance,plan,stays"]
    for i in range(count):
        income, discount, balance = draw.lognormvariate(10, 0.8), draw.random(), draw.gauss(0, 3000)
        stays = income / 30_000 - 3 * discount + balance / 3000 + draw.gauss(0, 0.3) > -0.7
        owed = f"(${-balance:,.2f})" if balance < 0 else f"${balance:,.2f}"
        lines.append(
            f'C{10_000 + i},{i % 12 + 1:02d}/{i % 28 + 1:02d}/2023,"{income:,.0f}",{discount:.1%},"{owed}",'
            f"{draw.choice(['basic', 'plus'])},{'yes' if stays else 'no'}"
        )
    return lines


def test_a_messy_file_is_learned(tmp_path: Path) -> None:
    """Without its numbers there is nothing to learn from but the plan."""
    path = write(tmp_path, messy(400))
    accuracy = {}
    for numbers in (True, False):
        options: Any = {} if numbers else {"drop": ["income", "discount", "balance"]}
        loaded = data.load(path, seed=1, **options)
        trainer = nn.Trainer(nn.models.mlp(2), "cross_entropy", nn.Adam(0.01), seed=1, quiet=True)
        trainer.fit(loaded.train_x, loaded.train_y, epochs=20)
        accuracy[numbers] = trainer.evaluate(loaded.test_x, loaded.test_y)["accuracy"]
    assert accuracy[True] > 0.85 and accuracy[True] > accuracy[False] + 0.15


def test_the_model_file_knows_formats_and_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    path, out = write(tmp_path, messy(200)), tmp_path / "out"
    assert main(["train", str(path), "--epochs", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    model = str(out / "model.safetensors")
    assert main(["info", model]) == 0
    info = capsys.readouterr().out
    for piece in (
        "  customer  left out: it has 140 different words in 140 rows", "  joined    dates such as 3/31/2024",
        "  income    numbers, standardized; thousands separators ',' removed\n",
        "  discount  numbers, standardized; '%' removed\n",
        "  balance   numbers, standardized; thousands separators ',' removed, '$' removed, numbers in parentheses read as",
    ):  # fmt: skip
        assert piece in said and piece in info
    card = nn.load_model(model).model_card
    assert card is not None and isinstance(card.preparation, TablePreparation)
    assert set(card.preparation.left_out) == {"customer"}


def test_reports_list_the_columns(tmp_path: Path) -> None:
    path, out = write(tmp_path, messy(200)), tmp_path / "out"
    assert main(["train", str(path), "--epochs", "1", "--out", str(out), "--quiet"]) == 0
    other = tmp_path / "evaluated.html"
    assert main(["evaluate", str(out / "model.safetensors"), str(path), "--report", str(other), "--quiet"]) == 0
    for page in ((out / "report.html").read_text(), other.read_text()):
        for piece in (
            "dates such as 3/31/2024; used are day count, month, day of week",
            "left out: it has 140 different words",
            "standardized; &#x27;%&#x27; removed",
        ):
            assert piece in page, piece


def test_predict_reads_numbers_as_training_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers in other files, in other formats that are said, and from Python."""
    draw = random.Random(5)
    rows = [(draw.randint(1000, 900_000), draw.random()) for _ in range(80)]
    train = write(tmp_path, ["a;b;price"] + [f"{a:,};{b:.1%};${a * 2 + b:,.2f}" for a, b in rows], "train.csv")
    out = tmp_path / "out"
    assert main(["train", str(train), "--epochs", "3", "--out", str(out), "--quiet", "--no-report"]) == 0
    model = str(out / "model.safetensors")
    net = nn.load_model(model)
    capsys.readouterr()
    new = [(27_385, 0.25), (1_234, 0.5), (512, 0.0)]
    wanted = net.predict({"a": [a for a, _ in new], "b": [100 * b for _, b in new]}).values.ravel()
    texts = net.predict({"a": [f"{a:,}" for a, _ in new], "b": [f"{b:.1%}" for _, b in new]}).values.ravel()
    np.testing.assert_array_equal(texts, wanted)

    def predictions(lines: list[str], *options: str) -> Array:
        path = write(tmp_path, lines, "new.csv")
        assert main(["predict", model, str(path), "-o", str(tmp_path / "p.csv"), *options]) == 0
        return np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1)[:, 1]

    # 27,385 alone would be in doubt, but the model knows.
    np.testing.assert_allclose(predictions(["a;b"] + [f"{a:,};{b:.1%}" for a, b in new]), wanted, rtol=1e-6)
    np.testing.assert_allclose(predictions(["a,b"] + [f'"{a:,}",{b:.1%}' for a, b in new]), wanted, rtol=1e-6)
    european = ["a;b"] + [f"{a:,};{b:.1%}".translate({ord(","): ".", ord("."): ","}) for a, b in new]
    np.testing.assert_allclose(predictions(european, "--decimal", ",", "--thousands", "."), wanted, rtol=1e-6)
    for lines, message in (
        (european, "row 1: column 'b' is '25,0%', but the model was trained on numbers such as 1234.5%"),
        (["a;b", "1,234;0.5"], "row 1: column 'b' is '0.5', but the model was trained on numbers such as 1234.5%"),
        (
            ["a;b", "1,234;5%", "12x;5%"],
            "row 2: column 'a' is '12x', but the model was trained on numbers such as 1,234.5",
        ),
    ):
        assert main(["predict", model, str(write(tmp_path, lines, "new.csv"))]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(
        DataError, match=r"column 'b' holds numbers such as 1234\.5% in the model, but row 1 has '0\.5'"
    ):
        net.predict({"a": ["1,234"], "b": ["0.5"]})
    capsys.readouterr()
    assert main(["evaluate", model, str(train), "--json"]) == 0
    assert '"rmse"' in capsys.readouterr().out


def test_decimal_commas_of_training_hold_for_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(5)
    train = write(
        tmp_path, ["a;y"] + [f"{draw.random():.3f};{'ab'[i % 2]}".replace(".", ",") for i in range(60)], "train.csv"
    )
    out = tmp_path / "out"
    assert main(["train", str(train), "--epochs", "1", "--out", str(out), "--quiet", "--no-report"]) == 0
    net = nn.load_model(out / "model.safetensors")
    wanted = net.predict({"a": [1.234]}).probabilities[0]

    def probabilities(lines: list[str], *options: str) -> Array:
        path = write(tmp_path, lines, "new.csv")
        assert (
            main(["predict", str(out / "model.safetensors"), str(path), "-o", str(tmp_path / "p.csv"), *options]) == 0
        )
        return np.loadtxt(tmp_path / "p.csv", delimiter=",", skiprows=1, usecols=(3, 4))

    np.testing.assert_allclose(probabilities(["a;z", "1,234;0"]), wanted, rtol=1e-5)
    np.testing.assert_allclose(probabilities(["a,z", '"1,234",0']), wanted, rtol=1e-5)
    np.testing.assert_allclose(probabilities(["a;z", "1.234;0"], "--decimal", "."), wanted, rtol=1e-5)
    assert main(["predict", str(out / "model.safetensors"), str(write(tmp_path, ["a;z", "1.234;0"], "new.csv"))]) == 2
    assert "column 'a' is '1.234', but the model was trained on numbers such as 1234,5" in capsys.readouterr().err


def test_marks_for_missing_values_are_kept(tmp_path: Path) -> None:
    lines = [f"{i if i % 5 else '-999'},{'none' if i % 4 else 'u'},{'pq'[i % 2]}" for i in range(60)]
    path = write(tmp_path, ["a,w,y", *lines])
    loaded = data.load(path, missing=["-999", "none"])
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation)
    again = nn.data.preprocessing.from_state(prepare.state(), "it")
    for samples in (
        [{"a": "-999", "w": "none"}],
        [{"a": None, "w": None}],
        [{"a": "NA", "w": "?"}],
        [{"a": -999, "w": ""}],
    ):
        np.testing.assert_array_equal(again.apply(samples), [[0, 1, 0, 1]])


def test_states_of_other_versions_and_damaged_ones() -> None:
    prepare = TablePreparation(
        [nn.data.preprocessing.tables.NumberColumn("a", 1.0, 2.0)],
        formats={"a": NumberFormat(",", ".")},
        left_out={"b": "why"},
    )
    state = prepare.state()
    again: Any = nn.data.preprocessing.from_state(state, "it")
    assert again.formats == prepare.formats and again.left_out == prepare.left_out and again.state() == state
    old = {key: value for key, value in state.items() if key not in ("formats", "left_out", "missing")}
    known: Any = nn.data.preprocessing.from_state(old, "it")
    assert known.formats is None and known.left_out == {} and known.missing == ()
    for bad in ({"a": {"decimal": ";"}}, {"a": 3}, {"a": {"decimal": ".", "thousands": ".", "unit": ""}}):
        with pytest.raises(ModelError):
            nn.data.preprocessing.from_state({**state, "formats": bad}, "it")


# Targets.


def table_of(cells: list[str]) -> list[str]:
    return ["x,y"] + [f"{i * i % 11},{cell}" for i, cell in enumerate(cells)]


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        ([f"id{i}" for i in range(60)], {}, r"the target 'y' has 60 classes in 60 rows, .*If it is an identifier, choose"),
        ([f"id{i % 40}" for i in range(60)], {}, r"has 40 classes in 60 rows"),
        ([str(i) for i in range(60)], {}, r"60 classes in 60 rows.*If it is a quantity, use --task regression; if it is"),
        ([f'"${i},000"' for i in range(60)], {"task": "classification"}, r"60 classes in 60 rows.*--task regression"),
        ([f"{i}.5" for i in range(59)] + ["high"], {}, r"row 60: column 'y' is 'high', but others are numbers .*Correct it"),
        (["1", "2"] * 20 + ["high", "low"] * 9, {}, r"the target 'y' is 'high' in row 41, but the number 1 in row 1\."),
        (["1", "2"] * 20 + ["x"], {"task": "classification"}, r"the target 'y' is 'x' in row 41, but the number 1 in row 1"),
        (["1", "x"] * 20, {"task": "regression"}, r"line 3: the target 'y' is 'x', but numbers are to be predicted\. Correct it"),
    ],
)  # fmt: skip
def test_targets_that_are_refused(tmp_path: Path, cells: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        data.load(write(tmp_path, table_of(cells)), **options)


def test_prices_are_a_regression(tmp_path: Path) -> None:
    path = write(tmp_path, table_of([f'"${1000 + 37 * i:,}.50"' for i in range(60)]))
    loaded = data.load(path, test_share=0, validation_share=0)
    assert loaded.task == "regression"
    np.testing.assert_allclose(np.sort(loaded.in_units(loaded.train_y).ravel()), 1000.5 + 37 * np.arange(60), rtol=1e-6)


def test_classes_that_are_written_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes are compared by value, in training and evaluation."""
    path = write(tmp_path, table_of(['"1,000"', "500", "1000", '"2,000"'] * 15))
    assert main(["train", str(path), "--epochs", "1", "--out", str(tmp_path / "out"), "--no-report"]) == 0
    assert "3 classes: 500, 1000, 2000" in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path / "out" / "model.safetensors"), str(path), "--json"]) == 0
    assert '"accuracy"' in capsys.readouterr().out


def test_few_samples_of_many_classes_may_be_evaluated(tmp_path: Path) -> None:
    train = write(tmp_path, table_of([f"c{i % 30}" for i in range(90)]), "train.csv")
    assert main(["train", str(train), "--epochs", "1", "--out", str(tmp_path / "out"), "--quiet", "--no-report"]) == 0
    more = write(tmp_path, table_of([f"c{i}" for i in range(30)]), "more.csv")
    assert main(["evaluate", str(tmp_path / "out" / "model.safetensors"), str(more), "--quiet"]) == 0


# What else could be misread.


@pytest.mark.parametrize(
    ("make", "remark"),
    [
        (lambda i: f"{i},0{2100 + i},{'ab'[i % 2]}", "Column 'q' has numbers with leading zeros such as 02100, which are read"),
        (lambda i: f"{i},2024-03-{i % 28 + 1:02d},{'ab'[i % 2]}", "'q' holds dates such as 2024-03-31; used are day count"),
        (lambda i: f"{i * i},{i % 28 + 1}.3.2024,{'ab'[i % 2]}", "'q' holds dates such as 31/3/2024; used are day count"),
        (lambda i: f"{i * i},{i % 24}:05,{'ab'[i % 2]}", "'q' holds times; used are hour"),
        (lambda i: f"{i * i},{('Yes', 'yes', 'no')[i % 3]},{'ab'[i % 2]}", "Yes, no, or none; 'yes' counted as the same"),
        (lambda i: f"{i * i},{i if i % 5 else 'u' + str(i)},{'ab'[i % 2]}", "some of them numbers, others words such as 'u"),
    ],
)  # fmt: skip
def test_what_is_said(tmp_path: Path, make: Callable[[int], str], remark: str) -> None:
    path = write(tmp_path, ["p,q,y", "3.5,,a", "4.5,,b"] + [make(i) for i in range(300)])
    assert remark in " ".join(data.load(path, test_share=0.1, validation_share=0.1).remarks)


def test_columns_that_differ_in_case_and_lines_without_values(tmp_path: Path) -> None:
    path = write(tmp_path, ["p,P,y", *[f"{i},{i * i},{'ab'[i % 2]}" for i in range(40)], ",,", ",,", "7,,a", ",,"])
    said = " ".join(data.load(path).remarks)
    assert "Columns 'p' and 'P' differ only in upper and lower case" in said
    assert "Read 41 rows" in said and "3 lines without any value are skipped." in said


def test_first_lines_of_written_numbers_are_not_names(tmp_path: Path) -> None:
    path = write(tmp_path, ['"$1,234.50",a', '"$2,500.00",b'] * 10)
    assert "Read 20 rows of 2 columns: comma as separator, no line of names." in data.load(path).remarks


def test_separators_of_lines_in_cells(tmp_path: Path) -> None:
    """Characters at which str.splitlines cuts are part of a cell."""
    path = write(tmp_path, ["p\x0bq,w\u2028v,y", *[f"{i},u\x0c\x85{i % 3},{'ab'[i % 2]}" for i in range(40)]])
    table = delimited.read(path, targets=None)
    assert table.names == ["p\x0bq", "w\u2028v", "y"] and len(table) == 40

"""Tables: what is found in them, what becomes of their columns, and what is said about those that are wrong."""

from __future__ import annotations

import csv
import gzip
import io
import random
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from openbnns import nn
from openbnns.nn import data
from openbnns.nn.data import DataError
from openbnns.nn.data.preprocessing import TablePreparation, from_state
from openbnns.nn.data.tables import delimited

Array = np.ndarray


def write(path: Path, text: str, name: str = "a.csv") -> Path:
    path = path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


# Numbers.


def test_numbers_are_those_of_python(tmp_path: Path) -> None:
    """A column to predict keeps them exactly, one to learn from but for the rounding of float32."""
    draw = random.Random(1)
    texts = ["0", "-0", "1", "+1", "1.", ".5", "-.5e3", "1e5", "1E-5", "123456789012345", "0.1", "1e22", "1e23",
             "00012", "9" * 30, "0." + "0" * 30 + "7", "123456789012345678901234567890e-20"]  # fmt: skip
    texts += [repr(draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30)) for _ in range(500)]
    texts += [f"{draw.uniform(-1e4, 1e4):.{draw.randint(0, 9)}f}" for _ in range(500)]
    texts += [f"{draw.gauss(0, 1):.18e}" for _ in range(200)]
    table = delimited.read(write(tmp_path, "a;y\n" + "".join(f" {text};{text} \n" for text in texts)), targets=None)
    values = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(table.exact[:, 0], values)
    np.testing.assert_array_equal(table.numbers[:, 0], (values - table.centre[0]).astype(np.float32))
    assert not table.odd


def test_numbers_whose_sum_float32_does_not_hold(tmp_path: Path) -> None:
    values = [1e38 * (i % 7 - 3) for i in range(40)] + [None]
    rows = "".join(f"{'' if value is None else value},{i % 3}\n" for i, value in enumerate(values))
    table = delimited.read(write(tmp_path, "a,y\n" + rows), targets=None)
    np.testing.assert_allclose(table.column("a"), np.array(values, np.float64), rtol=1e-6, atol=1e32)


@pytest.mark.parametrize("text", ["-a", "+", "1e", "1e+", "1.2.3", "1 2", "0x10", "1_0", "one", "--1", "infin"])
def test_no_numbers(tmp_path: Path, text: str) -> None:
    table = delimited.read(write(tmp_path, f"a;y\n1;2\n2;3\n{text};{text}\n"), targets=None)
    assert table.number_columns == [] and table.odd == {"y": (1, 2, text)} and table.texts("a")[1] == ["1", "2", text]


def test_numbers_with_a_dash_for_minus(tmp_path: Path) -> None:
    loaded = data.load(write(tmp_path, "a,y\n" + "1.5,2.5\n\u20131.5,\u20130.5\n" * 20))
    assert loaded.task == "regression" and loaded.target_mean is not None and abs(loaded.target_mean[0] - 1) < 0.2


def test_numbers_of_hardly_any_deviation(tmp_path: Path) -> None:
    """Their standardized values would not fit into float32."""
    rows = "".join(f"{i % 3}e-42,{i % 7},{i % 2}\n" for i in range(60))
    loaded = data.load(write(tmp_path, "tiny,a,y\n" + rows))
    assert "Column 'tiny' is left out: it has the same value in all training rows." in loaded.remarks


def test_row_numbers_are_left_out_and_years_are_not(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i + 1},{i + 1900},{i * i % 5}\n" for i in range(40))
    prepare = data.load(write(tmp_path, "zero,one,year,y\n" + rows)).preparation
    assert isinstance(prepare, TablePreparation)
    assert [c.name for c in prepare.columns] == ["year"] and set(prepare.left_out) == {"zero", "one"}


def test_decimal_commas(tmp_path: Path) -> None:
    table = delimited.read(write(tmp_path, "a;y\n1,5;-,25e1\n2;,5\n"), targets=None)
    assert table.column("a").tolist() == [1.5, 2] and table.exact[:, 0].tolist() == [-2.5, 0.5]


def test_blanks_around_cells_change_nothing(tmp_path: Path) -> None:
    """pyarrow does not take " NA " for a missing number, nor a blank."""
    path = write(tmp_path, "a,w,y\n" + " 1 , u , x \n2, u,x\n NA ,v,  z\n ,NA ,z\n" * 3)
    table = delimited.read(path, targets=None)
    np.testing.assert_array_equal(table.column("a"), [1, 2, np.nan, np.nan] * 3)
    assert table.texts("w")[1] == ["u", "v"] and table.texts("w")[0].tolist() == [0, 0, 1, -1] * 3
    assert table.texts("y")[1] == ["x", "z"]
    quoted = delimited.read(write(tmp_path, 'a, w, y\n1, "u v", "x"\n2, "NA", "z"\n'), targets=None)
    assert quoted.texts("w")[1] == ["u v"] and quoted.texts("y")[1] == ["x", "z"]


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.csv"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'Tables need pyarrow: pip install "openbnns\[data\]"'):
        data.load(write(tmp_path, "a,y\n1,0\n2,1\n"))


# Form.


@pytest.mark.parametrize(
    ("text", "names", "first"),
    [
        ("a,b,y\n1,2,x\n3,4,z\n", ["a", "b", "y"], [1, 2]),
        ("a;b;y\n1;2;x\n3;4;z\n", ["a", "b", "y"], [1, 2]),
        ("a\tb\ty\n1\t2\tx\n3\t4\tz\n", ["a", "b", "y"], [1, 2]),
        ("a|b|y\n1|2|x\n3|4|z\n", ["a", "b", "y"], [1, 2]),
        ("1,2,x\n3,4,z\n", ["1", "2", "3"], [1, 2]),
        ("a;b;y\n1,5;2,5;x\n3,5;4;z\n", ["a", "b", "y"], [1.5, 2.5]),
        ("\ufeffa,b,y\r\n1,2,x\r\n\r\n3,4,z\r\n", ["a", "b", "y"], [1, 2]),
        ("a,b,y\r1,2,x\r3,4,z\r", ["a", "b", "y"], [1, 2]),
        ('"a, or so","b","y"\n"1",2,"x"\n 3 , 4 ,z', ["a, or so", "b", "y"], [1, 2]),
        ('a,b,y\n1,2,"x ""y""\nz"\n3,4,z\n', ["a", "b", "y"], [1, 2]),
    ],
)
def test_forms(tmp_path: Path, text: str, names: list[str], first: list[float]) -> None:
    table = delimited.read(write(tmp_path, text), targets=None)
    assert table.names == names and len(table) == 2
    assert [table.column(name)[0] for name in names[:2]] == first
    for suffix in (".tsv", ".csv.gz"):
        path = tmp_path / f"b{suffix}"
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
        assert delimited.read(path, targets=None).names == names


def test_quoted_cells_with_everything_in_them(tmp_path: Path) -> None:
    table = delimited.read(
        write(tmp_path, 'w,n\n"a,""b""\nc",1\nplain "x",2\n"",3\n'), targets=["n"], categorical=["w"]
    )
    codes, words = table.texts("w")
    assert [words[i] if i >= 0 else None for i in codes] == ['a,"b"\nc', 'plain "x"', None]


def test_messages_are_short(tmp_path: Path) -> None:
    rows = "".join(f"{word},{i}.5\n" for i, word in enumerate(["a" * 10_000, "b"] * 20))
    path = write(tmp_path, f"w,y\n{rows}", "long.csv")
    loaded = data.load(path, target="y", test_share=0, validation_share=0)
    assert loaded.preparation is not None
    (said,) = loaded.preparation.sentences()
    assert said == f"Column 'w' holds 2 categories: {'a' * 60}…, b."
    one = delimited.read(write(tmp_path, "a b\n1 2\n", "one.csv"), targets=None, separator="space")
    assert one.notes == ["Read 1 row of 2 columns: space as separator, names in the first line."]


def test_pieces_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    lines = [f'{draw.gauss(0, 9):.3f},"w{draw.randint(0, 9)}\n",{draw.randint(0, 3)}' for _ in range(300)]
    path = write(tmp_path, "a,b,y\n" + "\r\n".join(lines))
    whole = delimited.read(path, targets=None)
    for size in (64, 100, 1000):
        monkeypatch.setattr(delimited, "_PIECE", size)
        pieces = delimited.read(path, targets=None)
        np.testing.assert_array_equal(pieces.numbers, whole.numbers)
        np.testing.assert_array_equal(pieces.codes, whole.codes)
        np.testing.assert_array_equal(pieces.exact, whole.exact)
        assert pieces.words == whole.words


def test_random_tables_are_those_of_pythons_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells with separators, quotes, line ends and blanks, gaps, empty lines, and pieces that end anywhere."""
    draw = random.Random(7)
    for case in range(40):
        separator, end = draw.choice(",;\t|"), draw.choice(["\n", "\r\n"])
        alphabet = ["a", "b c", separator, '"', "\n", "é", " ", "x y"]
        words = ["".join(draw.choices(alphabet, k=draw.randint(1, 4))) + "z" for _ in range(6)]
        rows = [
            [draw.choice(["NA", "", f"{draw.gauss(0, 9):.3f}", str(draw.randint(-9, 9))]), draw.choice([*words, ""]), f"t{i % 3}"]
            for i in range(draw.randint(5, 60))
        ]  # fmt: skip
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=separator, lineterminator=end)
        writer.writerows([["n", "w", "y"], *rows])
        if draw.random() < 0.5:
            text.write(f"{end} {end}{2 * separator}{end}")
        path = write(tmp_path, text.getvalue())
        monkeypatch.setattr(delimited, "_PIECE", draw.choice([256, 1024, 2**20]))
        table = delimited.read(path, targets=None, kinds={"n": "number", "w": "word"}, decimal=".")
        wanted = [np.nan if cell in ("NA", "") else float(cell) for cell, _, _ in rows]
        np.testing.assert_allclose(table.column("n"), wanted, rtol=1e-6, atol=1e-6, err_msg=str(case))
        codes, known = table.texts("w")
        assert [known[i] if i >= 0 else "" for i in codes] == [word.strip() for _, word, _ in rows], case
        chosen = sorted({draw.randrange(len(rows)) for _ in range(3)})
        assert [cells for _, cells in table.lines.find_all(chosen)] == [rows[i] for i in chosen]


# Columns.

PEOPLE = """id,age,city,note,since,married,income
1,31,Bern,a b c,2001,yes,10.5
2,,Rome,a c d,2001,no,20.25
3,45,Bern,,2001,no,30
4,28,Oslo,b b a,2001,yes,
"""


def people(count: int = 60) -> str:
    draw = random.Random(3)
    lines = ["id,age,city,since,married,income"]
    for i in range(count):
        age = "" if i % 7 == 0 else str(draw.randint(18, 80))
        city = "NA" if i % 11 == 0 else draw.choice(["Bern", "Rome", "Oslo"])
        lines.append(f"{i + 1},{age},{city},2001,{draw.choice(['yes', 'no'])},{draw.uniform(1, 9):.2f}")
    return "\n".join(lines) + "\n"


def test_what_becomes_of_columns(tmp_path: Path) -> None:
    loaded = data.load(write(tmp_path, people()), target="married")
    assert (loaded.task, loaded.class_names) == ("classification", ("no", "yes"))
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation)
    assert prepare.feature_names == [
        "age", "income", "age is missing", "city = Bern", "city = Oslo", "city = Rome", "city is missing",
    ]  # fmt: skip
    x = loaded.train_x
    np.testing.assert_allclose(x[:, 1].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(x[:, 1].std(), 1, atol=1e-5)
    assert set(x[:, 2]) == {0, 1} and (x[x[:, 2] == 1, 0] == 0).all()
    assert (x[:, 3:].sum(axis=1) == 1).all()
    said = " ".join(loaded.remarks)
    for piece in (
        "Read 60 rows of 6 columns: comma as separator, names in the first line.",
        "Task: classification of 'married', because there are words.",
        "Column 'id' is left out: it only counts the rows.", "Column 'since' is left out: it has the same value",
        "2 columns of numbers are standardized", "Missing numbers in 'age' count as the mean",
        "Column 'city' holds 3 categories: Bern, Oslo, Rome, or none.",
    ):  # fmt: skip
        assert piece in said, piece


def test_means_are_those_of_the_training_rows(tmp_path: Path) -> None:
    values = np.random.RandomState(0).standard_normal(50) * 3 + 1e6
    text = "a,y\n" + "".join(f"{v:.9f},{i % 2}\n" for i, v in enumerate(values))
    loaded = data.load(write(tmp_path, text), seed=4)
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation)
    column: Any = prepare.columns[0]
    parts = (loaded.train_x, loaded.test_x, loaded.validation_x)
    raw = [part[:, 0].astype(np.float64) * column.std + column.mean for part in parts]
    assert abs(raw[0].mean() - column.mean) < 1e-5
    np.testing.assert_allclose(np.sort(np.concatenate(raw)),
                               np.sort(values), rtol=0, atol=1e-5)  # fmt: skip
    untouched = data.load(
        write(tmp_path, "a,y\n1,0\n2,1\n3,0\n4,1\n"), standardize=False, test_share=0, validation_share=0
    )
    assert sorted(untouched.train_x[:, 0]) == [1, 2, 3, 4]


def test_tasks_are_found(tmp_path: Path) -> None:
    def task(targets: list[Any], **options: Any) -> data.Data:
        text = "a,y\n" + "".join(f"{i * i % 7},{t}\n" for i, t in enumerate(targets))
        return data.load(write(tmp_path, text), **options)

    assert task(["x", "y"] * 10).task == "classification"
    assert task([0, 1, 2, 1] * 5).task == "classification"
    assert task([0.5, 1, 2, 1] * 5).task == "regression"
    assert task(list(range(300))).task == "regression"
    assert task([i // 3 for i in range(300)], task="classification").classes == 100
    dataset = task([0.5, 1, 2, 1] * 5, seed=1)
    assert dataset.class_names == ("y",) and dataset.train_y.shape == (14, 1) and dataset.target_mean is not None
    np.testing.assert_allclose(dataset.train_y.mean(), 0, atol=1e-6)
    raw = dataset.train_y[:, 0] * dataset.target_std[0] + dataset.target_mean[0]  # type: ignore[index]
    assert set(np.round(raw, 4)) <= {0.5, 1, 2}
    with pytest.raises(DataError, match=r"line 3: the target 'y' is 'y', but numbers are to be predicted"):
        task(["1", "y"] * 10, task="regression")


def test_several_targets(tmp_path: Path) -> None:
    lines = "".join(f"{i * i % 7},{i % 2},{i % 3 == 0:d},{i / 4}\n" for i in range(40))
    path = write(tmp_path, "a,p,q,r\n" + lines)
    labels = data.load(path, target=["p", "q"], drop=["r"])
    assert labels.task == "multilabel" and labels.class_names == ("p", "q") and set(labels.train_y.ravel()) == {0, 1}
    both = data.load(path, target=["p", "r"])
    assert both.task == "regression" and both.train_y.shape[1] == 2
    with pytest.raises(DataError, match="a class is in one column, but there are 2 targets"):
        data.load(path, target=["p", "q"], task="classification")


def test_texts_and_identifiers(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = []
    for i in range(300):
        good = i % 2
        words = " ".join(
            [draw.choice(["fine", "great"] if good else ["bad", "poor"]), "film", f"number{i}", f"of{i} days"]
        )
        rows.append(f"{words},u{i:05d},{'good' if good else 'bad'}")
    loaded = data.load(write(tmp_path, "text,user,label\n" + "\n".join(rows) + "\n"))
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation)
    assert "text: great" in prepare.feature_names and "text: film" in prepare.feature_names
    said = " ".join(loaded.remarks)
    assert (
        "Column 'text' holds text" in said
        and "Column 'user' is left out: it has 210 different words in 210 rows" in said
    )


def test_columns_of_many_categories(tmp_path: Path) -> None:
    """The common ones have a feature each, the others one together; a network learns from both."""
    draw = random.Random(0)
    common, rare = [f"Town {i}" for i in range(250)], [f"village-{i}" for i in range(150)]
    places = [draw.choice(common) for _ in range(2700)] + rare * 2
    draw.shuffle(places)
    kinds = ["yes" if place in rare or crc32(place.encode()) % 2 else "no" for place in places]
    spelled = [place.upper() if i % 9 == 0 else place for i, place in enumerate(places)]
    rows = [f"{draw.random():.3f},{place},{kind}" for place, kind in zip(spelled, kinds, strict=True)]
    loaded = data.load(write(tmp_path, "noise,place,kind\n" + "\n".join(rows) + "\n"), seed=1)
    prepare = loaded.preparation
    assert isinstance(prepare, TablePreparation)
    column: Any = prepare.columns[1]
    assert {word.title() for word in column.categories} <= set(common) and len(column.categories) > 200
    assert {word.lower() for word in column.rare} >= {word for word in rare if word in places[:5]} and column.joined
    features = loaded.train_x[:, prepare.features_by_column()["place"]]
    assert features.shape[1] == len(column.categories) + 1 and (features.sum(axis=1) == 1).all()
    assert 0.05 < features[:, -1].mean() < 0.2 and prepare.feature_names[-1] == "place is rare"
    said = dict(prepare.by_column())["place"]
    assert said.startswith(f"{len(column.categories)} categories: ") and f"; {len(column.rare)} rare ones share" in said
    kept = from_state(prepare.state(), "model")
    assert isinstance(kept, TablePreparation) and kept.columns == prepare.columns
    x = kept.apply([{"noise": 0.5, "place": word} for word in (column.categories[0], column.rare[0], "Nowhere", "")])
    assert (
        x[:, -1].tolist() == [0, 1, 1, 0]
        and x[0].sum() == x[1].sum() == x[2].sum()
        and kept.unseen == {"place": ["Nowhere"]}
    )
    trainer = nn.Trainer(nn.models.tabular(2), "cross_entropy", nn.AdamW(0.005), batch_size=64, seed=1, quiet=True)
    trainer.fit(loaded.train_x, loaded.train_y, epochs=10)
    assert trainer.evaluate(loaded.test_x, loaded.test_y)["accuracy"] > 0.8


def test_standardizing_makes_the_difference(tmp_path: Path) -> None:
    """Two columns of very different size, as in tables of chemistry."""
    random_state = np.random.RandomState(0)
    y = random_state.randint(0, 3, 180)
    small = (np.array([0.0, 1.0, 2.0])[y] + 0.3 * random_state.standard_normal(180)) * 0.05
    large = 700 + 300 * random_state.standard_normal(180)
    path = write(
        tmp_path,
        "large,small,kind\n"
        + "".join(f"{a:.1f},{b:.4f},{'xyz'[c]}\n" for a, b, c in zip(large, small, y, strict=True)),
    )
    accuracy = {}
    for standardize in (True, False):
        loaded = data.load(path, standardize=standardize, seed=1)
        trainer = nn.Trainer(nn.models.mlp(3), "cross_entropy", nn.Adam(0.01), seed=1, quiet=True)
        trainer.fit(loaded.train_x, loaded.train_y, epochs=30)
        accuracy[standardize] = trainer.evaluate(loaded.test_x, loaded.test_y)["accuracy"]
    assert accuracy[True] > 0.85 and accuracy[True] > accuracy[False] + 0.1


# What is wrong with tables.

CONSTANT = ",".join([*(f"c{i}" for i in range(90)), "y"]) + "\n" + ("7," * 90 + "1\n" + "7," * 90 + "2\n") * 20


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n1,2,0\n1,2\n", {}, r"line 3: 2 values, but the first line has 3\. Correct the line; a cell with ',' in it"),
        ('a,b,y\n1,"2\n3",0\n1,2,3,4\n', {}, r"line 4: 4 values, but the first line has 3"),
        ("1,2,0\n1,2,0\n1,2,0,4\n", {}, r"line 3: 4 values, but the lines before have 3"),
        ('a,b,y\n1,2,0\n1, "2,0",0\n', {}, r"line 3: 4 values, .* stands in quotes, without a blank before them"),
        ('a,b,y\n1,"2,0\n1,2,0\n', {}, r"line 2: a quote begins there that never ends"),
        ('a,b,y\n1,2,0\n1,"x,0\n1,"y",0\n', {}, r"line 3: a quote begins there that never ends"),
        ("a b y\n1 2 3\n", {}, r"there is no comma, semicolon, tab or bar between the values.*'a b y'.*--separator X"),
        ("a,a,y\n1,2,3\n", {}, r"line 1: the name 'a' stands there twice"),
        ("a,b,kind\n1,2,3\n", {"target": "kin"}, r"no column 'kin' for the target\. Did you mean 'kind'\? Columns: a, b, kind"),
        ("a,b,kind\n1,2,3\n", {"target": 4}, r"there is no column 4 for the target\. Columns: a, b, kind"),
        ("a,b,y\n1,2,3\n", {"drop": ["c"]}, r"there is no column 'c' for --drop"),
        ("y\n1\n2\n", {"separator": ","}, r"there are no columns besides the target"),
        ("a,y\n", {}, r"there are no samples below the line of names"),
        ("\n\n", {}, r"there are no samples"),
        ("a,y\n1,\n2,3\n", {}, r"the target 'y' is missing in 1 of 2 samples, the first of them sample 1"),
        ("a,y\n" + "1,0\n2,1\n" * 20 + ",\nx7,1\n", {}, r"line 43: column 'a' is 'x7', but.*--missing 'x7'.*--categorical a"),
        ("a,y\n1,0\n,\n\n1e400,1\n", {}, r"line 5: column 'a' is 1e400, too large to compute with"),
        ("a,y\n1,0\n1e400,1\n", {}, r"line 3: column 'a' is 1e400, too large to compute with"),
        ("a,y\n1,0\n2,1\n1e300,1\n", {}, r"line 4: column 'a' is 1e300, too large to compute with"),
        ("a,y\n1,0\n1,1\n1,0\n", {}, r"no column is left to learn from\. Column 'a' is left out: it has the same value"),
        ("a,y\n1,0\n2,1\n", {"test_share": 0.5, "validation_share": 0.4}, r"2 samples leave none to train on"),
        ("a,y\n1,x y\n" * 3 + '1,"x\n', {}, r"line 7: a quote begins there that never ends"),
        ("a,y\n0\0,0\n2,1\n", {}, r"line 2: is not text: it has a zero byte"),
        ("\0\0\udc91,y\n1,0\n2,1\n", {}, r"line 1: is not text: the file has zero bytes\. Is this a table\?$"),
        ("9,4,x\n" + "1.5,3,0\n2.5,2,1\n" * 30, {"target": 1}, r"line 1: column '3' is 'x', but.*If .* holds names: --header\.$"),
        (CONSTANT, {}, r"no column is left to learn from\. Column 'c0' is left out: [^']*'c1'.* So are 85 more\.$"),
        ("a,y\n1,0\0\n2,1\n", {}, r"line 2: is not text: it has a zero byte"),
    ],
)  # fmt: skip
def test_tables_that_are_wrong(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        data.load(write(tmp_path, text), **options)


def test_bad_bytes_are_found_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,w,y\n" + b"1,x,0\n2,y,1\n" * 30_000 + b"3,M\xfcller,1\n")
    with pytest.raises(DataError, match=r"line 60002: is not UTF-8"):
        data.load(path)
    path.write_bytes(b"a,w,y\n1,M\xfcller,0\n2,x,1\n")
    with pytest.raises(DataError, match=r"line 2: is not UTF-8"):
        data.load(path)


def test_words_that_come_late_in_the_file(tmp_path: Path) -> None:
    """A column that begins with numbers and ends with as many words is one of words."""
    path = tmp_path / "a.csv"
    path.write_text("a,b,y\n" + "1,2,0\n2,2.5,1\n" * 30_000 + "red,2,0\nblue,1,1\n" * 30_000)
    loaded = data.load(path)
    assert isinstance(loaded.preparation, TablePreparation)
    assert loaded.preparation.kinds() == {"a": "word", "b": "number"}


def test_marks_for_missing_values(tmp_path: Path) -> None:
    path = write(tmp_path, "a,y\n" + "1,0\n2,1\n?,0\n-999,1\nNA,0\n3,1\n" * 5)
    loaded = data.load(path, missing=["-999"], test_share=0, validation_share=0)
    assert (loaded.train_x[:, 1] == 1).sum() == 15
    with pytest.raises(ValueError, match="--separator is 'ab'"):
        data.load(path, separator="ab")


def test_samples_that_stay_in_their_files(tmp_path: Path) -> None:
    """Arrays larger than the limit are read as batches need them, and train to the same weights."""
    draw = np.random.RandomState(0)
    x, y = (draw.standard_normal((300, 40)) * 5 + 2).astype(np.float32), draw.randint(0, 3, 300)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    weights = []
    for source, options in (
        ("a.npz", {}), ("a.npz", {"memory_limit": "10K"}), ("x.npy", {"target": str(tmp_path / "y.npy"), "memory_limit": "10K"}),
    ):  # fmt: skip
        loaded = data.with_task(data.load(tmp_path / source, standardize=True, **options))  # type: ignore[arg-type]
        assert isinstance(loaded.train_x, np.ndarray) == ("memory_limit" not in options)
        net = nn.models.mlp(3)
        nn.Trainer(net, seed=1, quiet=True).fit(
            loaded.train_x, loaded.train_y, epochs=2, validation=(loaded.validation_x, loaded.validation_y)
        )
        weights.append(np.concatenate([array.ravel() for array in net.state_dict().values()]))
    np.testing.assert_array_equal(weights[0], weights[1])
    np.testing.assert_array_equal(weights[0], weights[2])

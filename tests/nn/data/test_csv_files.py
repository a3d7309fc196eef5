"""CSV and TSV files of plain numbers: what is found in them, and the line that says what is wrong with others."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import cli, nn
from openbnns.nn import data
from openbnns.nn.data import DataError, csv_files
from openbnns.nn.data.preprocessing import ArrayPreparation

PLAIN = (
    r"openbnns reads tables of plain numbers\. Prepare others with scikit-learn: docs/sklearn\.md shows a pipeline that"
)


def write(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_numbers_are_those_of_python(tmp_path: Path) -> None:
    draw = random.Random(1)
    texts = ["0", "-0", "1", "+1", "1.", ".5", "-.5e3", "1e5", "1E-5", "123456789012345", "0.1", "1e22", "1e-310",
             "00012", "9" * 30, "0." + "0" * 30 + "7", "123456789012345678901234567890e-20"]  # fmt: skip
    texts += [repr(draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30)) for _ in range(500)]
    texts += [f"{draw.uniform(-1e4, 1e4):.{draw.randint(0, 9)}f}" for _ in range(500)]
    texts += [f"{draw.gauss(0, 1):.18e}" for _ in range(200)]
    table = csv_files.read(write(tmp_path, "a;y\n" + "".join(f" {text};{text} \n" for text in texts)))
    values = np.array([float(text) for text in texts])
    np.testing.assert_array_equal(table.x[:, 0], values)
    np.testing.assert_array_equal(table.y, values)


@pytest.mark.parametrize(
    ("text", "columns", "first", "y"),
    [
        ("a,b,y\n1,2,x\n3,4,z\n", ["a", "b"], [1, 2], ["x", "z"]),
        ("a;b;y\n1;2;x\n3;4;z\n", ["a", "b"], [1, 2], ["x", "z"]),
        ("a\tb\ty\n1\t2\tx\n3\t4\tz", ["a", "b"], [1, 2], ["x", "z"]),
        ("a|b|y\n1|2|x\n3|4|z\n\n\n", ["a", "b"], [1, 2], ["x", "z"]),
        ("a b,c-d,y z\n1,2,x y\n3,4,z\n", ["a b", "c-d"], [1, 2], ["x y", "z"]),
        ("1,2,x\n3,4,z\n", ["1", "2"], [1, 2], ["x", "z"]),
        ("1,2,5\n3,4,6\n", ["1", "2"], [1, 2], [5, 6]),
        ("1,2,5\n3,4,6.5\n", ["1", "2"], [1, 2], [5, 6.5]),
        ("\ufeffa,b,y\r\n1,2,x\r\n3,4,z\r\n", ["a", "b"], [1, 2], ["x", "z"]),
        ("a,b,y\r1,2,x\r3,4,z\r", ["a", "b"], [1, 2], ["x", "z"]),
        ('"a","b","y"\n"1",2,"x"\n 3 , 4 ,z', ["a", "b"], [1, 2], ["x", "z"]),
        ("größe,b,y\n1,2,Köln\n3,4,z\n", ["größe", "b"], [1, 2], ["Köln", "z"]),
    ],
)
def test_forms(tmp_path: Path, text: str, columns: list[str], first: list[float], y: list[Any]) -> None:
    for name in ("a.csv", "a.tsv", "a.txt", "a.csv.gz"):
        table = csv_files.read(write(tmp_path, gzip.compress(text.encode()) if name.endswith("gz") else text, name))
        assert table.columns == columns and table.x[0].tolist() == first and table.x.shape == (2, 2)
        assert table.y is not None and table.y.tolist() == y
        assert table.first_line == (1 if columns[0] == "1" else 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,city,y\n1,2,3\n1,Bonn,3\n", r"a\.csv, line 3: column 'city' is 'Bonn', which is not a number\. " + PLAIN),
        ("a,b,y\n1,,3\n", r"line 2: column 'b' is empty\. " + PLAIN),
        ("a,b,y\n1,2,3\n1,NA,3\n", r"line 3: column 'b' is 'NA', which is not a number"),
        ("a,b,y\n1,2,3\n1,nan,3\n", r"line 3: column 'b' is 'nan', which is not a number"),
        ("a,b,y\n1,2,3\n1,inf,3\n", r"line 3: column 'b' is 'inf', which is not a number"),
        ("a,b,y\n1,2,3\n1,1e999,3\n", r"line 3: column 'b' is '1e999', which is too large"),
        ("a,b,y\n1,2,3\n1,4e38,3\n", r"line 3: column 'b' is '4e38', which is too large"),
        ("a,b,y\n1,2,3\n1,0x10,3\n", r"line 3: column 'b' is '0x10', which is not a number"),
        ("a,b,y\n1,2,3\n1,1_0,3\n", r"line 3: column 'b' is '1_0', which is not a number"),
        ("a,b,y\n1,2,3\n1,2,\n", r"line 3: column 'y' is empty"),
        ("a,b,y\n1,2,3\n1,2,cat\n", r"line 3: column 'y' is 'cat', which is not a number"),
        ("a;b;y\n1,5;2;3\n", r"line 2: column 'a' is '1,5', which is not a number"),
        ("a,b,y\n1,2,cat\n1,2,5\n", r"line 3: column 'y' is '5', but 'cat' in line 2\. Write all as words, or all"),
        ("a,b,y\n1,2,cat\n1,2,\n", r"line 3: column 'y' is '', but 'cat' in line 2"),
        ("a,b,y\n1,2,cat\n1,2,NaN\n", r"line 3: column 'y' is 'NaN', but 'cat' in line 2"),
        ("a,b,y\n1,2,9007199254740993\n1,2,3\n", r"column 'y' has whole numbers beyond 2\*\*53\. Write classes as words"),
        ("a,b,y\n1,2\n4,5,6\n", r"line 2: has 2 cells, line 1 has 3"),
        ("a,b,y\n1,2,3\n1,2,3,\n", r"line 3: has 4 cells, line 1 has 3"),
        ("a,b,y\n1,2,3\n\n1,2,3\n", r"line 3: has 1 cell, line 1 has 3"),
        ("", r"a\.csv: the file is empty"),
        (" \n\r\n", r"a\.csv: the file is empty"),
        ("a,b,y\n", r"there are no samples below the line of names"),
        ("y\n1\n", r"there are no columns besides the target"),
        ("a b y\n1 2 3\n", r"there are no columns besides the target"),
        ("a,a,y\n1,2,3\n", r"line 1: column 2 has the name of another, 'a'"),
        (",a,y\n1,2,3\n", r"line 1: column 1 has no name"),
        ("NA,2,3\n1,2,3\n", r"line 1: has 'NA' among numbers: names, or a sample\?"),
        ("0,1,2,y\n5,6,7,8\n", r"line 1: counts its columns: names, or a sample\?"),
        ("1,2,3,4\n5,6,7,8\n", r"line 1: counts its columns: names, or a sample\?"),
        ('a,b,y\n1,2,"x,y"\n', r"line 2: has a quote that does not enclose a plain cell"),
        ('a,b,y\n1,2,"x\n1,2,y\n', r"line 2: has a quote that does not enclose a plain cell"),
        (b"a,b\n1,2\n\xff,3\n", r"line 3: is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), r"line 1: is not UTF-8"),
        (b"a,b\n1,\x002\n", r"line 2: has a zero byte"),
    ],
)  # fmt: skip
def test_one_line_for_each_fault(
    tmp_path: Path, text: str | bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=message):
        data.load(path, test_share=0, validation_share=0)
    assert cli.main(["train", str(path), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and len(said.err) < 400 + len(str(path))


def test_targets_by_name_and_position(tmp_path: Path) -> None:
    path = write(tmp_path, "kind,a,p,q\nx,1,0,1.5\ny,2,1,2.5\nx,3,1,3.5\nx,5,0,3.5\n")
    for target in ("kind", 1, -4, "1"):
        table = csv_files.read(path, [target])
        assert table.y is not None and table.y.tolist() == ["x", "y", "x", "x"] and table.columns == ["a", "p", "q"]
    both = csv_files.read(write(tmp_path, "a,p,q\n1,0,1\n2,1,2\n", "b.csv"), ["p", "q"])
    assert both.y is not None and both.y.tolist() == [[0, 1], [1, 2]] and both.targets == ["p", "q"]
    with pytest.raises(DataError, match=r"there is no column 'kin'\. Did you mean 'kind'\? Columns: kind, a, p, q\."):
        data.load(path, target="kin")
    with pytest.raises(DataError, match=r"line 2: column 'kind' is 'x', which is not a number"):
        data.load(path, target=["kind", "p"])


def test_tasks_and_what_is_said_about_them(tmp_path: Path) -> None:
    def loaded(targets: list[Any], **options: Any) -> data.Data:
        text = "a,y\n" + "".join(f"{i * i % 7},{t}\n" for i, t in enumerate(targets))
        return data.load(write(tmp_path, text), **options)

    words = loaded(["x", "y"] * 10)
    assert words.task == "classification" and words.class_names == ("x", "y") and words.target_names == ("y",)
    assert words.remarks[0] == "Task: classification of 'y', because there are words."
    assert loaded([0, 1, 2, 1] * 5).class_names == ()
    assert loaded([0.5, 1, 2, 1] * 5).task == "regression"
    assert loaded(list(range(300))).task == "regression"
    assert loaded([i // 3 for i in range(300)], task="classification").classes == 100
    numbers = loaded([0.5, 1, 2, 1] * 5, seed=1)
    assert numbers.class_names == ("y",) and numbers.train_y.shape == (14, 1) and numbers.target_mean is not None
    np.testing.assert_allclose(numbers.train_y.mean(), 0, atol=1e-6)
    assert set(np.round(numbers.in_units(numbers.train_y)[:, 0], 4)) <= {0.5, 1, 2}
    with pytest.raises(DataError, match="targets are words"):
        loaded(["x", "y"] * 10, task="regression")


def test_means_are_those_of_the_training_rows_and_nothing_is_lost(tmp_path: Path) -> None:
    values = np.random.RandomState(0).standard_normal(50) * 3 + 1e9  # which float32 would not tell apart
    text = "a,y\n" + "".join(f"{v:.9f},{i % 2}\n" for i, v in enumerate(values))
    loaded = data.load(write(tmp_path, text), seed=4)
    prepare = loaded.preparation
    assert isinstance(prepare, ArrayPreparation) and prepare.mean is not None and prepare.std is not None
    parts = (loaded.train_x, loaded.test_x, loaded.validation_x)
    raw = [part[:, 0].astype(np.float64) * prepare.std[0] + prepare.mean[0] for part in parts]
    assert abs(raw[0].mean() - prepare.mean[0]) < 1e-5 and loaded.train_x.dtype == np.float32
    np.testing.assert_allclose(np.sort(np.concatenate(raw)), np.sort(values), rtol=0, atol=1e-5)
    plain = data.load(write(tmp_path, "a,y\n1,0\n2,1\n3,0\n4,1\n"), standardize=False, test_share=0, validation_share=0)
    assert sorted(plain.train_x[:, 0]) == [1, 2, 3, 4]


def test_the_origin_of_test_samples_is_their_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    loaded = data.load(path, standardize=False)
    assert loaded.origin is not None
    for i, row in enumerate(loaded.test_x[:, 0].tolist()):
        assert loaded.origin.place(i) == f"a.csv, line {int(row) + 2}"


def trained(folder: Path, path: Path, *options: str) -> str:
    assert (
        cli.main(["train", str(path), "--epochs", "3", "--out", str(folder / "out"), "--force", "--quiet", *options])
        == 0
    )
    return str(folder / "out" / "model.safetensors")


def test_columns_are_found_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In any order, between others that may hold words; from data frames and dictionaries, too."""
    draw = np.random.RandomState(0)
    x = draw.standard_normal((80, 3)).round(3)
    kinds = ["no" if total < 0 else "yes" for total in x @ [1, 2, 3]]
    rows = [f"{a},{b},{c},{kind}\n" for (a, b, c), kind in zip(x.tolist(), kinds, strict=True)]
    path = write(tmp_path, "a,b,c,kind\n" + "".join(rows))
    model = trained(tmp_path, path)
    other = [f"{c},n{i},{kind},{a},{b}\n" for i, ((a, b, c), kind) in enumerate(zip(x.tolist(), kinds, strict=True))]
    turned = write(tmp_path, "c,name,kind,a,b\n" + "".join(other), "turned.csv")
    answers = []
    for file in (path, turned):
        capsys.readouterr()
        assert cli.main(["predict", model, str(file), "--json"]) == 0
        answers.append(capsys.readouterr().out.partition('"columns"')[2])
        assert cli.main(["evaluate", model, str(file), "--part", "test", "--json"]) == 0
        answers.append(capsys.readouterr().out.partition('"scores"')[2])
    assert answers[0] == answers[2] and answers[1] == answers[3]
    net = nn.load_model(model)
    by_name = {name: x[:, i] for i, name in enumerate("abc")}
    expected = net.predict(x).outputs
    np.testing.assert_array_equal(net.predict({name: by_name[name] for name in "cab"}).outputs, expected)
    with pytest.raises(DataError, match=r"there is no column 'c'\. The model takes a, b, c"):
        net.predict({"a": x[:, 0], "b": x[:, 1]})
    missing = write(tmp_path, "a,b,kind\n1,2,no\n", "missing.csv")
    assert cli.main(["predict", model, str(missing)]) == 2
    assert "there is no column 'c'. Columns: a, b, kind." in capsys.readouterr().err
    assert cli.main(["predict", model, str(write(tmp_path, "a,b,c\n1,2,x\n", "word.csv"))]) == 2
    assert "line 2: column 'c' is 'x', which is not a number" in capsys.readouterr().err


def test_files_without_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "".join(f"{i % 5},{i % 3},{'ab'[i % 2]}\n" for i in range(60)))
    model = trained(tmp_path, path)
    assert cli.main(["evaluate", model, str(path), "--part", "test", "--json"]) == 0
    assert cli.main(["predict", model, str(write(tmp_path, "1,2\n3,2\n", "new.csv"))]) == 0
    capsys.readouterr()
    assert cli.main(["predict", model, str(write(tmp_path, "x,z\n3,2\n", "new.csv"))]) == 2
    assert "line 1: column '1' is 'x', which is not a number" in capsys.readouterr().err


def test_data_that_were_trained_on_are_recognized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "a,y\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(60)))
    model = trained(tmp_path, path)
    warning = "These include the samples that the model was trained on"
    for file, options, expected in (
        (path, [], True),
        (path, ["--part", "test"], False),
        (write(tmp_path, "a,y\n1,2\n2,1\n3,0\n", "new.csv"), [], False),
    ):
        capsys.readouterr()
        assert cli.main(["evaluate", model, str(file), *options]) == 0
        assert (warning in capsys.readouterr().err) is expected


def test_a_file_larger_than_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a,y\n" + "1,2\n3,4\n" * 2000)
    monkeypatch.setenv("OPENBNNS_MEMORY_LIMIT", "10K")
    with pytest.raises(DataError, match=r"takes 15\.63 KiB, more than the limit of 10 KiB"):
        data.load(path)
    assert len(data.load(path, memory_limit="1M", test_share=0, validation_share=0).train_x) == 4000
    with pytest.raises(DataError, match="raise the limit: --memory-limit 1G"):
        data.load(path, memory_limit="2K")


def test_large_files_are_read_fast(tmp_path: Path) -> None:
    """In half a second of one core; the test allows for slower machines."""
    line = ",".join(f"{0.123456 * (i + 1):.6g}" for i in range(11))
    path = write(tmp_path, "a,b,c,d,e,f,g,h,i,j,k\n" + f"{line}\n" * 200_000)
    began = time.process_time()
    assert csv_files.read(path).x.shape == (200_000, 10)
    assert time.process_time() - began < 2


def test_options_that_left_name_what_replaces_them(capsys: pytest.CaptureFixture[str]) -> None:
    names = (
        "--separator", "--header", "--no-header", "--missing", "--decimal", "--thousands", "--dates", "--drop", "--categorical",
        "--tune", "--dry-run", "--stream", "--no-stream",
    )  # fmt: skip
    for words in (*(["train", "a.csv", name, "x"] for name in names), ["predict", "model", "a.csv", "--keep=id"],
                  ["evaluate", "model", "a.csv", "--separator", ";"]):  # fmt: skip
        with pytest.raises(SystemExit) as stopped:
            cli.main(words)
        said = capsys.readouterr().err
        assert stopped.value.code == 2 and said.count("\n") == 1 and " is not an option. " in said, words
    for command in ("train", "predict", "evaluate"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        text = capsys.readouterr().out
        assert not any(f"{name} " in text for name in names)

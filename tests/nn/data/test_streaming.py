"""Tables that do not fit into memory: their rows stay in a temporary file, and nothing else changes."""

from __future__ import annotations

import gzip
import os
import random
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damaged_files import full_disk
from openbnns import cli, nn
from openbnns.nn import data
from openbnns.nn.data.preprocessing.tables import TableRows
from openbnns.nn.data.tables import row_store
from openbnns.nn.data.tables.table import Table
from openbnns.nn.run_checkpoints import fingerprint


def columns(count: int = 700) -> dict[str, list[Any]]:
    """Columns of every kind, with gaps."""
    draw = random.Random(5)

    def words(choices: str, every: int) -> list[Any]:
        return [None if i % every == every - 1 else draw.choice(choices.split()) for i in range(count)]

    return {
        "row": list(range(count)),
        "size": [round(draw.gauss(1e6, 3), 3) for _ in range(count)],
        "gap": [None if i % 9 == 2 else round(draw.gauss(0, 1), 4) for i in range(count)],
        "same": [7] * count,
        "city": words("Bern Rome Oslo Lima", 10**9),
        "mood": words("good bad", 13),
        "note": [" ".join(draw.choices(["a", "few", "words", "come", "again"], k=5)) for _ in range(count)],
        "price": [round(draw.uniform(1, 9), 3) for _ in range(count)],
        "hot": [draw.randint(0, 1) for _ in range(count)],
        "wet": [draw.randint(0, 1) for _ in range(count)],
        "kind": words("x y z", 10**9),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import pyarrow
    import pyarrow.parquet as parquet

    path, table = tmp_path_factory.mktemp("tables"), columns()
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    text = "\n".join(lines) + "\n"
    (path / "a.csv").write_text(text)
    (path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    parquet.write_table(pyarrow.table(table), path / "a.parquet", row_group_size=97)
    return path


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and buffers so small that even these tables take many."""
    monkeypatch.setattr(row_store, "_BUFFER", 2**11)
    monkeypatch.setattr("openbnns.nn.data.tables.delimited._PIECE", 2**11)
    monkeypatch.setattr("openbnns.nn.data.tables.parquet._CELLS", 2**5)
    monkeypatch.setattr("openbnns.nn.data.tables.table._CELLS", 2**9)


def weights(loaded: data.Data) -> bytes:
    """The weights after training on these data."""
    loss = {"classification": "cross_entropy", "multilabel": "bce_with_logits", "regression": "mse"}[str(loaded.task)]
    net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(loaded.outputs))
    trainer = nn.Trainer(net, loss, seed=3, quiet=True)
    trainer.fit(loaded.train_x, loaded.train_y, epochs=2, validation=(loaded.validation_x, loaded.validation_y))
    measured = trainer.evaluate(loaded.test_x, loaded.test_y)
    return b"".join(array.tobytes() for array in net.state_dict().values()) + repr(measured).encode()


TARGETS: Any = [{"target": "kind"}, {"target": "price"}, {"target": ["hot", "wet"]}]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
@pytest.mark.parametrize("options", TARGETS, ids=["classes", "numbers", "labels"])
@pytest.mark.usefixtures("small_pieces")
def test_nothing_changes_but_where_rows_are(folder: Path, name: str, options: Any) -> None:
    whole = data.load(folder / name, stream=False, **options)
    assert isinstance(whole.train_x, np.ndarray)
    for how in ({"stream": True}, {"memory_limit": "20K"})[: 1 if name.endswith("gz") else 2]:
        streamed = data.load(folder / name, **options, **how)  # type: ignore[arg-type]
        assert isinstance(streamed.train_x, TableRows)
        for part, (x, y) in whole.parts.items():
            there, answers = streamed.parts[part]
            np.testing.assert_array_equal(np.asarray(there), x)
            np.testing.assert_array_equal(answers, y)
        assert streamed.preparation is not None and whole.preparation is not None
        assert streamed.preparation.state() == whole.preparation.state()
        assert (streamed.split, streamed.class_names) == (whole.split, whole.class_names)
        assert (streamed.target_mean, streamed.target_std) == (whole.target_mean, whole.target_std)
        assert weights(streamed) == weights(whole)
        # so that a run that began with the table in memory goes on without it
        assert fingerprint(streamed.train_x, streamed.train_y) == fingerprint(whole.train_x, whole.train_y)
        (said,) = set(streamed.remarks) - set(whole.remarks)
        assert "stay in a temporary file" in said


@pytest.mark.usefixtures("small_pieces")
def test_a_compressed_table_moves_to_a_file_when_room_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows there are is known only at the end."""
    monkeypatch.setattr(row_store, "free_memory", lambda: 2**20 * 2)
    whole = data.load(folder / "a.csv.gz", stream=False, target="kind")
    # 2**14 rows, which are asked for first, do not fit; so they begin in the file
    streamed = data.load(folder / "a.csv.gz", target="kind")
    assert isinstance(streamed.train_x, TableRows)
    np.testing.assert_array_equal(np.asarray(streamed.train_x), whole.train_x)


def test_rows_that_are_in_memory_move_to_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_BUFFER", 2**8)
    draw = np.random.RandomState(0)
    count = 2**14 + 2**13
    numbers, exact = draw.standard_normal((count, 2)).astype(np.float32), draw.standard_normal((count, 1))
    codes = draw.randint(-2, 9, (count, 1)).astype(np.int32)
    taken = row_store.RowStore("it", (2, 1, 1), 100, 2**14 * 20 + 10_000)
    done = 0
    while done < count:
        free = taken.free()
        size = min(len(free[0]), count - done, 1000)
        for out, values in zip(free, (numbers, exact, codes), strict=True):
            out[:size] = values[done : done + size]
        taken.take(size)
        done += size
    table = Table("it", ["a", "b", "w"], ["a", "b"], word_columns=["w"], exact_columns=["w"])
    taken.give_to(table)
    assert table.stored is not None and len(table) == count
    np.testing.assert_array_equal(table.exact, exact)
    chosen = draw.permutation(count)[:500]
    for rows in (slice(None), chosen, np.sort(chosen), np.arange(5, 900, 2)):
        read = table.read(rows)
        np.testing.assert_array_equal(read[0], numbers[rows])
        np.testing.assert_array_equal(read[1], codes[rows])


def test_features_that_have_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short word becomes as many numbers as there are categories."""
    draw = random.Random(1)
    lines = ["a,b,y", *(f"{draw.randint(0, 90)}c,{draw.randint(0, 90)}d,{draw.randint(0, 2)}" for _ in range(2000))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    whole = data.load(tmp_path / "a.csv")
    monkeypatch.setattr(row_store, "free_memory", lambda: 10**6)
    made = data.load(tmp_path / "a.csv")
    assert isinstance(made.train_x, TableRows)
    assert any("features would take 1.3" in remark and "made as they are needed" in remark for remark in made.remarks)
    np.testing.assert_array_equal(np.asarray(made.train_x), whole.train_x)


def test_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["train", "--data", str(folder / "a.csv"), "--epochs", "2", "--out"]
    assert cli.main([*common, str(tmp_path / "whole"), "--no-stream"]) == 0
    assert "temporary file" not in capsys.readouterr().out
    assert cli.main([*common, str(tmp_path / "streamed"), "--stream"]) == 0
    assert (
        "stay in a temporary file of 30.08 KiB in" in (said := capsys.readouterr().out) and "--stream was given" in said
    )
    models = [nn.load_model(tmp_path / run / "model.safetensors") for run in ("whole", "streamed")]
    for one, other in zip(*(net.state_dict().values() for net in models), strict=True):
        np.testing.assert_array_equal(one, other)
    assert "--stream" in (tmp_path / "streamed" / "report.html").read_text()
    scores = []
    for limit in ([], ["--memory-limit", "10K"]):
        model = str(tmp_path / "streamed" / "model.safetensors")
        assert cli.main(["evaluate", model, str(folder / "a.csv"), "--part", "test", *limit]) == 0
        scores.append(capsys.readouterr())
    assert scores[0].out == scores[1].out
    assert "more than the 10 KiB that there is for it" in scores[1].err and "temporary" not in scores[0].err


def test_no_room_for_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "temporary_folder", lambda: str(folder / "nowhere"))
    with pytest.raises(
        data.DataError, match=r"a temporary file in .*nowhere cannot be written \(No such.*Set TMPDIR to"
    ):
        data.load(folder / "a.csv", stream=True, target="kind")
    monkeypatch.undo()
    with full_disk(), pytest.raises(data.DataError, match=r"cannot be written \(File too large"):
        data.load(folder / "a.csv", stream=True, target="kind")


# Memory that is not there.

TRAIN = """
import resource, sys
from pathlib import Path
from openbnns import cli, nn

folder = Path(sys.argv[1])
common = ["--epochs", "1", "--batch-size", "256", "--no-report"]
cli.main(["train", "--data", str(folder / "a.csv"), "--stream", "--out", str(folder / "first"), *common])  # threads start
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + 90 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    nn.data.load(folder / "large.csv", stream=False)
    sys.exit("The limit does not hold.")
except MemoryError:
    pass
sys.exit(cli.main(["train", "--data", str(folder / "large.csv"), "--out", str(folder / "streamed"), *common]))
"""


def test_a_table_larger_than_the_address_space_trains(folder: Path, tmp_path: Path) -> None:
    """92 MiB of numbers in a process that may take 90 MiB more than it has, to the weights that they give in memory."""
    (tmp_path / "a.csv").write_bytes((folder / "a.csv").read_bytes())
    values = np.random.RandomState(0).randint(0, 10, (2_000, 401))
    values[:, -1] %= 2
    text = "\n".join(",".join(map(str, row)) for row in values.tolist()) + "\n"
    (tmp_path / "large.csv").write_text(30 * text)
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "OPENBNNS_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"the table takes 92\.\d+ MiB, more than the \d+\.?\d* MiB that there is for it", done.stdout)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["a.csv", "large.csv"]
    whole = [
        "--epochs",
        "1",
        "--batch-size",
        "256",
        "--no-report",
        "--quiet",
        "--no-stream",
        "--out",
        str(tmp_path / "whole"),
    ]
    assert cli.main(["train", "--data", str(tmp_path / "large.csv"), *whole]) == 0
    weights = [nn.load_model(tmp_path / out / "model.safetensors").state_dict() for out in ("whole", "streamed")]
    for one, other in zip(*(arrays.values() for arrays in weights), strict=True):
        np.testing.assert_array_equal(one, other)


def test_memory_does_not_grow_with_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    monkeypatch.setattr(row_store, "_BUFFER", 2**18)
    for place in ("preprocessing.arrays", "tables.table", "tables.parquet"):
        monkeypatch.setattr(f"openbnns.nn.data.{place}._CELLS", 2**16)
    values = np.random.RandomState(0).standard_normal((5_000, 50)).astype(np.float32)
    table = pyarrow.table({**{f"c{i}": values[:, i] for i in range(50)}, "y": np.arange(5_000) % 2})
    with parquet.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for _ in range(20):
            writer.write_table(table)
    tracemalloc.start()
    try:
        loaded = data.load(tmp_path / "a.parquet", stream=True)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(loaded.train_x, TableRows) and len(loaded.train_x) == 70_000
    assert most < 16e6  # numbers alone would take 20e6, and as much again in their parts

"""Samples that were trained on are known again."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from helpers import Array
from openbnns import nn
from openbnns.nn.data.seen_rows import count_seen, remember


class Stored(nn.sources.Rows):
    """Samples that are read when they are needed."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.shape, array.dtype)
        self._array = array

    def read(self, rows: Array) -> Array:
        return self._array[rows]


def samples(count: int, *shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).standard_normal((count, *shape)).astype(np.float32)


def rounded(x: Array) -> Array:
    """The same samples with other last digits."""
    noise = np.random.RandomState(9).uniform(-2, 2, x.shape) * 2.0**-23
    return (x + noise * np.maximum(np.abs(x), np.sqrt((x**2).sum() / max(1, x.size)))).astype(np.float32)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("shape", [(2,), (3, 5), (1, 20, 20)])
def test_few_samples_are_counted(shape: tuple[int, ...], scale: float) -> None:
    x, new = scale * samples(1000, *shape), scale * samples(700, *shape, seed=1)
    remembered = json.loads(json.dumps(remember(x)))
    for mine, seen in ((x, 1000), (x[::3], 334), (new, 0), (np.concatenate([new, x[:7]]), 7), (x[:0], 0)):
        assert count_seen(remembered, mine)[:2] == (seen, True)
        assert count_seen(remembered, Stored(rounded(mine)))[:2] == (seen, True)
    other = x.copy()
    other.reshape(1000, -1)[:, 1] += np.float32(1e-3 * scale)
    assert count_seen(remembered, other)[:2] == (0, True)


def test_samples_that_occur_often() -> None:
    """Categories alone: few different rows, which are still told apart."""
    random = np.random.RandomState(0)
    rows = np.eye(6, dtype=np.float32)[random.randint(0, 6, (20000, 3))].reshape(20000, 18)
    common = rows[:, 0] == 0  # those with the first category are new
    remembered = remember(rows[common])
    assert remembered["different"] == 5 * 36
    assert count_seen(remembered, rows)[:2] == (int(common.sum()), True)


@pytest.mark.parametrize("width", [2, 40])
def test_of_many_samples_the_share_is_estimated(width: int) -> None:
    x, new = samples(40000, width), samples(10000, width, seed=1)
    remembered = remember(Stored(x))
    assert len(json.dumps(remembered)) < 45000
    for mine, share in ((x, 1.0), (x[:5000], 1.0), (np.concatenate([new, x[:10000]]), 0.5), (new, 0.0)):
        seen = count_seen(remembered, rounded(mine))
        assert seen is not None and not seen.exact
        assert abs(seen.samples / len(mine) - share) < 0.06
    assert count_seen(remembered, 100 * samples(1, width)) is None  # far from the range of which something is known


def test_rows_of_tables_whose_first_rows_are_unlike_the_others(tmp_path: Any) -> None:
    """Readers keep numbers as distances from the mean of the first ones, which rounds differently in every file."""
    random = np.random.RandomState(0)
    values = np.sort(1e4 + 300 * random.standard_normal((500, 3)), axis=0)
    kinds = random.choice(["a", "b"], 500)
    lines = [f"{a:.4f},{b:.4f},{c:.4f},{kind}" for (a, b, c), kind in zip(values, kinds, strict=True)]
    (tmp_path / "one.csv").write_text("\n".join(["a,b,c,kind", *lines]))
    (tmp_path / "other.csv").write_text("\n".join(["a,b,c,kind", *lines[::-1]]))
    for standardize in (True, False):
        data = nn.data.load(tmp_path / "one.csv", test_share=0, validation_share=0, standardize=standardize)
        other = nn.data.load(tmp_path / "other.csv", test_share=0, validation_share=0, standardize=standardize)
        assert count_seen(remember(data.train_x), other.train_x)[:2] == (500, True)


PLACES = base64.b64encode(np.ones((3, 2), "<f4").tobytes()).decode()


@pytest.mark.parametrize(
    "remembered",
    [
        None, 3, {}, {"places": "AAAA", "different": 1, "size": 1.0}, {"places": "not base64!", "different": 1, "size": 1.0},
        {"places": 5, "different": 1, "size": 1.0}, {"places": "", "different": 0, "size": 1.0},
        {"places": PLACES, "different": "1", "size": 1.0}, {"places": PLACES, "different": 3, "size": "1"},
        {"places": PLACES, "different": 3, "size": -1.0}, {"places": "ää", "different": 1, "size": 1.0},
        {"places": base64.b64encode(np.full(4, np.nan, "<f4").tobytes()).decode(), "different": 2, "size": 1.0},
        {"places": PLACES * 9000, "different": 3, "size": 1.0},
    ],
)  # fmt: skip
def test_files_that_make_no_sense_say_nothing(remembered: Any) -> None:
    assert count_seen(remembered, samples(5, 2)) is None
    assert count_seen({"places": PLACES, "different": 3, "size": 1.0}, samples(5, 2))[:2] == (0, True)

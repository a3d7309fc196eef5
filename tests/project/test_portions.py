"""Portions of the suite for slow machines (`pytest --portion 2/40`): nothing is lost, and none is without a family."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conftest import portion_of

NAMES = [
    "test_a.py::test_one",
    *(f"test_a.py::test_two[{family}-{k}]" for family in ("conv", "pool") for k in range(5)),
]
ITEMS: list[Any] = [SimpleNamespace(nodeid=name) for name in NAMES]


def chosen(portion: str) -> list[str]:
    return [item.nodeid for item in portion_of(ITEMS, portion)]


def test_all_portions_together_are_the_suite() -> None:
    assert chosen("1/1") == NAMES
    assert {name for k in (1, 2, 3) for name in chosen(f"{k}/3")} == set(NAMES)


@pytest.mark.parametrize("portion", ["1/3", "3/3", "20/40"])
def test_every_portion_has_every_family(portion: str) -> None:
    groups = {name.split("-")[0] for name in chosen(portion)}
    assert groups == {"test_a.py::test_one", "test_a.py::test_two[conv", "test_a.py::test_two[pool"}
    assert len(chosen(portion)) <= 5


@pytest.mark.parametrize("portion", ["0/3", "4/3"])
def test_a_portion_that_is_none(portion: str) -> None:
    with pytest.raises(pytest.UsageError, match=rf"--portion is {portion}, but has to be K/N with 1 <= K <= N"):
        portion_of(ITEMS, portion)

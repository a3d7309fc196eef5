"""Tables of results, as text and as HTML."""

import pytest

from openbnns._table import Table
from pages import Cells

TABLE = Table(
    ("layer", "shape", "n"), [("0", "(3, <4>)", "12"), ("head & tail", "()", "3")], "T < U", "15 in all", words=2
)


def test_text() -> None:
    assert str(TABLE).splitlines() == [
        "T < U",
        "layer        shape      n",
        "-----------  --------  --",
        "0            (3, <4>)  12",
        "head & tail  ()         3",
        "15 in all",
    ]
    assert str(Table(("a",), [])).splitlines() == ["a", "-"]


def test_html_is_well_formed_and_escaped() -> None:
    page = Cells()
    page.feed(TABLE.html())
    page.close()
    assert not page.open
    assert page.texts == [
        ("caption", "T < U"), ("th", "layer"), ("th", "shape"), ("th", "n"), ("td", "0"), ("td", "(3, <4>)"), ("td", "12"),
        ("td", "head & tail"), ("td", "()"), ("td", "3"), ("p", "15 in all"),
    ]  # fmt: skip


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError):
        Table(("a", "b"), [("1",)]).html()

"""Tables of results, as text and as HTML."""

from html.parser import HTMLParser

import pytest

from openbnns._table import Table

TABLE = Table(
    ("layer", "shape", "n"), [("0", "(3, <4>)", "12"), ("head & tail", "()", "3")], "T < U", "15 in all", words=2
)


class Cells(HTMLParser):
    """What a page shows, by tag; fails where tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.found.append((self.open[-1], data))


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
    assert page.found == [
        ("caption", "T < U"), ("th", "layer"), ("th", "shape"), ("th", "n"), ("td", "0"), ("td", "(3, <4>)"), ("td", "12"),
        ("td", "head & tail"), ("td", "()"), ("td", "3"), ("p", "15 in all"),
    ]  # fmt: skip


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError):
        Table(("a", "b"), [("1",)]).html()

"""HTML that is safe to put together: text is escaped, unless it is markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

Content = Union[str, int, "Markup", None]


class Markup(str):
    """Text that is HTML. Made by :func:`tag` and :func:`join` only, so that names in the data cannot become elements."""


def join(*parts: Content | Iterable[Content], between: str = "") -> Markup:
    """One piece of HTML from several; None is left out."""
    texts: list[str] = []
    for part in parts:
        if part is None:
            continue
        if isinstance(part, Markup):
            texts.append(part)
        elif isinstance(part, (str, int)):
            texts.append(html.escape(str(part)))
        else:
            texts.append(join(*part))
    return Markup(between.join(texts))


def tag(name: str, /, *content: Content | Iterable[Content], **attributes: str | int | float | bool | None) -> Markup:
    """An element. Attributes that are False or None are left out; ``class_`` is class, other underscores are hyphens.

    >>> tag("p", "1 < 2", class_="note", data_row=3)
    '<p class="note" data-row="3">1 &lt; 2</p>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        written = key.rstrip("_").replace("_", "-")
        words.append(written if value is True else f'{written}="{html.escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(*content)}</{name}>")


def names_of_rows(names: Iterable[str]) -> Markup:
    """Row names beside a board of cells. A name that is cut for lack of room keeps its end, by which many names differ."""
    parts = [(name[:-_END], name[-_END:]) for name in names]
    lines = [tag("li", tag("span", start), end, title=start + end) for start, end in parts]
    return tag("ol", lines, class_="rows", aria_hidden="true")


_END = 3  # characters
_VOID = {"br", "img", "meta", "link", "input"}


@dataclass(frozen=True)
class Panel:
    """A card of a section. A ``large`` one is twice as wide as others, a ``wide`` one as wide as the page."""

    title: str
    content: Markup
    wide: bool = False
    large: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own; ``name`` is its address in the page, one word.

    >>> section = Section("ranks", "Ranks", [Panel("Time", table(("rank", "seconds"), [("0", "1.5")]))])
    >>> section.title
    'Ranks'
    """

    name: str
    title: str
    panels: Sequence[Panel]
    lead: str = ""


class Cell(NamedTuple):
    """A cell of a table that readers can sort: what it shows, and the number or word that it is sorted by."""

    shown: Content
    value: float | str


def table(
    header: Sequence[Content], rows: Iterable[Sequence[Content | Cell]], *, caption: str = "", words: int = 1
) -> Markup:
    """A table whose first ``words`` columns are text and the others numbers; the first column names the row.

    Readers can sort it if its cells are of the kind :class:`Cell`.

    >>> table(("class", "samples"), [("cat", 3)])[-41:]
    '<td class="n">3</td></tr></tbody></table>'
    """
    lines = [list(row) for row in rows]
    sortable = any(isinstance(cell, Cell) for line in lines for cell in line)

    def kind(column: int) -> str | None:
        return None if column < words else "n"

    def cell(column: int, content: Content | Cell) -> Markup:
        name, scope = ("th", "row") if column == 0 else ("td", None)
        if isinstance(content, Cell):
            return tag(name, content.shown, scope=scope, class_=kind(column), data_v=content.value)
        return tag(name, content, scope=scope, class_=kind(column))

    heads = [
        tag("th", tag("button", text, type="button") if sortable else text, scope="col", class_=kind(i))
        for i, text in enumerate(header)
    ]
    return tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", heads)),
        tag("tbody", [tag("tr", [cell(i, content) for i, content in enumerate(line)]) for line in lines]),
        class_="sortable" if sortable else None,
    )


def facts_list(pairs: Iterable[tuple[str, Content]]) -> Markup:
    """Names and what they are."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def folded(title: str, content: Markup) -> Markup:
    """A part of the page that is folded until the reader opens it."""
    return tag("details", tag("summary", title), content)


def sentence_list(lines: Iterable[str]) -> Markup:
    return tag("ul", [tag("li", line) for line in lines], class_="notes")

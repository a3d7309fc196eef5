"""HTML that is safe to put together: text is escaped, unless it is markup already."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Union

Content = Union[str, int, "Markup", None]
_VOID = {"br", "img", "meta"}


class Markup(str):
    """Text that is HTML. Made by :func:`tag` and :func:`join` only, so that names in the data cannot become elements."""


def join(*parts: Content | Iterable[Content]) -> Markup:
    """One piece of HTML from several; None is left out."""
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Markup):
            texts.append(part)
        elif isinstance(part, (str, int)):
            texts.append(html.escape(str(part)))
        elif part is not None:
            texts.append(join(*part))
    return Markup("".join(texts))


def tag(name: str, /, *content: Content | Iterable[Content], **attributes: str | int | float | bool | None) -> Markup:
    """An element. Attributes that are False or None are left out; ``class_`` is class, other underscores are hyphens.

    >>> tag("p", "1 < 2", class_="note", data_row=3)
    '<p class="note" data-row="3">1 &lt; 2</p>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None and value is not False:
            written = key.rstrip("_").replace("_", "-")
            words.append(written if value is True else f'{written}="{html.escape(str(value))}"')
    opening = f"<{' '.join(words)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(*content)}</{name}>")


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

    >>> section = Section("costs", "Costs", [Panel("Time", table(("month", "seconds"), [("May", "1.5")]))])
    >>> section.title
    'Costs'
    """

    name: str
    title: str
    panels: Sequence[Panel]
    lead: str = ""


def table(header: Sequence[Content], rows: Iterable[Sequence[Content]], *, words: int = 1) -> Markup:
    """A table whose first ``words`` columns are text and the others numbers; the first column names the row.

    >>> table(("class", "samples"), [("cat", 3)])[-41:]
    '<td class="n">3</td></tr></tbody></table>'
    """
    kinds = [None if i < words else "n" for i in range(len(header))]
    head = [tag("th", text, scope="col", class_=kind) for text, kind in zip(header, kinds, strict=True)]
    body = []
    for first, *others in rows:
        cells = [tag("td", text, class_=kind) for text, kind in zip(others, kinds[1:], strict=True)]
        body.append(tag("tr", tag("th", first, scope="row"), cells))
    return tag("table", tag("thead", tag("tr", head)), tag("tbody", body))


def facts_list(pairs: Iterable[tuple[str, Content]]) -> Markup:
    """Names and what they are."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def folded(title: str, content: Markup) -> Markup:
    """A part of the page that is folded until the reader opens it."""
    return tag("details", tag("summary", title), content)


def hint(text: str) -> Markup:
    """A sentence about a chart or table."""
    return tag("p", text, class_="hint")

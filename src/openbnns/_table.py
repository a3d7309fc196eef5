"""Tables of results: as text for terminals, as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_CELL = "padding:2px 10px;text-align:{side};white-space:nowrap"
_HEAD = _CELL + ";border-bottom:1px solid #94a3b8"


@dataclass(frozen=True)
class Table:
    """A table of texts with a line above and lines below it, both optional.

    The first ``words`` columns are aligned to the left, the others, which are numbers, to the right.

    >>> table = Table(("layer", "parameters"), [("0", "1,024"), ("head.weight", "10")], footer="1,034 parameters")
    >>> print(table)
    layer        parameters
    -----------  ----------
    0                 1,024
    head.weight          10
    1,034 parameters
    >>> "<td" in table.html()
    True
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    footer: str = ""
    words: int = 1

    def __str__(self) -> str:
        widths = [max(len(row[i]) for row in (self.header, *self.rows)) for i in range(len(self.header))]
        lines = [self._line(self.header, widths), "  ".join("-" * width for width in widths)]
        lines += [self._line(row, widths) for row in self.rows]
        return "\n".join([*filter(None, [self.title]), *lines, *filter(None, [self.footer])])

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = [
            cell.ljust(width) if i < self.words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    def html(self) -> str:
        """The same table for ``_repr_html_``; all texts are escaped, and no style of the page is needed."""
        from html import escape

        sides = ["left" if i < self.words else "right" for i in range(len(self.header))]
        caption = f'<caption style="text-align:left">{escape(self.title)}</caption>' if self.title else ""
        head = "".join(
            f'<th style="{_HEAD.format(side=side)}">{escape(cell)}</th>'
            for cell, side in zip(self.header, sides, strict=True)
        )
        body = "".join(
            "<tr>{}</tr>".format(
                "".join(
                    f'<td style="{_CELL.format(side=side)}">{escape(cell)}</td>'
                    for cell, side in zip(row, sides, strict=True)
                )
            )
            for row in self.rows
        )
        lines = [escape(line) for line in self.footer.splitlines()]
        last = f"<p>{'<br/>'.join(lines)}</p>" if lines else ""
        return f"<div><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{last}</div>"

"""Many rows of numbers as colours: for networks with more layers than lines could show."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

from .markup import Markup, join, names_of_rows, tag
from .numbers import NOTHING, short

_LEVELS = 6
_COLUMNS = 120


def heat(
    label: str,
    rows: Sequence[tuple[str, Sequence[float | None]]],
    columns: Sequence[str],
    *,
    text: Callable[[float], str] = short,
) -> Markup:
    """A row of cells for each name, the darker the larger, on a logarithmic scale that all share."""
    every = -(-len(columns) // _COLUMNS)
    known = [v for _, values in rows for v in values if v is not None and v > 0 and math.isfinite(v)]
    low, high = (math.log(min(known)), math.log(max(known))) if known else (0.0, 1.0)
    paths: dict[int, list[str]] = {}
    told = []
    for i, (_, values) in enumerate(rows):
        line = []
        for j, value in enumerate(values[::every]):
            line.append(NOTHING if value is None else text(value))
            if value is not None and value > 0 and math.isfinite(value):
                level = (
                    1 + round((_LEVELS - 1) * (math.log(value) - low) / (high - low)) if high > low else _LEVELS // 2
                )
                paths.setdefault(level, []).append(f"M{j} {i}h1v1h-1z")
        told.append(line)
    wide = len(columns[::every])
    drawn = "".join(f'<path class="g{level}" d="{"".join(cells)}"/>' for level, cells in sorted(paths.items()))
    picture = Markup(
        f'<svg viewBox="0 0 {wide} {len(rows)}" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
    )
    names = [name for name, _ in rows]
    data = json.dumps(
        {"names": names, "columns": list(columns[::every]), "values": told}, separators=(",", ":"), ensure_ascii=False
    )
    cells = tag(
        "div", picture, class_="cells", tabindex=0, role="group", aria_label=f"{label}; arrow keys go from cell to cell",
        data_heat=data,
    )  # fmt: skip
    side = names_of_rows(names)
    ends = tag("p", tag("span", columns[0]), tag("span", columns[-1]), class_="ends")
    scale = tag(
        "p",
        text(math.exp(low)),
        [tag("span", class_=f"swatch g{level}") for level in range(1, _LEVELS + 1)],
        text(math.exp(high)),
        class_="scale",
    )
    board = tag("div", side, cells, ends, class_="board heat", style=f"--n:{len(rows)}")
    readout = tag("p", "Point at a cell, or choose one with the arrow keys.", class_="readout", aria_live="polite")
    return join(scale, board, readout)

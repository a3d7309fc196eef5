"""The confusion matrix: readable from 2 to 100 classes, and cut to the worst of more.

Few classes are a table with numbers. Many are a picture, one row of text height per class with its name, which pointer and arrow
keys explore cell by cell; a menu shows what became of a single class.
"""

from __future__ import annotations

import json

import numpy as np

from .._plural import plural
from .markup import Markup, join, names_of_rows, table, tag
from .number_text import count, percent
from .scores import ClassScores

TABLE = 30
"""Classes up to which the matrix is a table."""
MOST = 100
"""Classes that it shows."""
_LEVELS = 6
_SEEN = 3  # the level that even a small cell can be seen with
_MILD = 0.2  # share of a class below which no error has the strongest colour


def confusion(scored: ClassScores) -> Markup:
    shown = _chosen(scored)
    dense = _dense(scored, shown)
    note = None
    if len(shown) < len(scored.names):
        note = tag(
            "p", f"Shown are the {len(shown)} of {len(scored.names):,} classes with the most errors.", class_="hint"
        )
    names = [scored.names[i] for i in shown]
    drawn = _as_table(names, dense) if len(shown) <= TABLE else _as_picture(names, dense)
    return join(note, drawn)


def pairs(scored: ClassScores, most: int = 10) -> Markup:
    """The classes that are most often taken for each other."""
    confused = scored.confused(most)
    if not confused:
        return tag("p", "None: every test sample was recognized.")
    rows = [
        (scored.names[true], scored.names[said], count(number), percent(number / int(scored.counts[2, true])))
        for true, said, number in confused
    ]
    return table(("true", "predicted", "samples", "of the class"), rows, words=2)


def _chosen(scored: ClassScores) -> list[int]:
    """The classes to show, in their order."""
    total = len(scored.names)
    if total <= MOST:
        return list(range(total))
    true, said, counts = scored.cells
    wrong = true != said
    errors = np.bincount(true[wrong], counts[wrong], total) + np.bincount(said[wrong], counts[wrong], total)
    return sorted(np.argsort(-errors, kind="stable")[:MOST].tolist())


def _dense(scored: ClassScores, shown: list[int]) -> list[list[int]]:
    place = {number: i for i, number in enumerate(shown)}
    counts = [[0] * len(shown) for _ in shown]
    for true, said, number in zip(*(array.tolist() for array in scored.cells), strict=True):
        if true in place and said in place:
            counts[place[true]][place[said]] = number
    return counts


def _level(number: int, row: int, column: int, dense: list[list[int]], worst: float, least: int = 1) -> str:
    """The colour of a cell: right ones by their share of the row, wrong ones by how they compare with the worst."""
    share = number / max(sum(dense[row]), 1)
    if row == column:
        return f"g{max(1, round(_LEVELS * share))}"
    return f"r{max(least, round(_LEVELS * share / worst))}"


def _worst(dense: list[list[int]]) -> float:
    shares = [n / max(sum(row), 1) for i, row in enumerate(dense) for j, n in enumerate(row) if i != j]
    return max([*shares, _MILD])


def _told(names: list[str], row: int, column: int, number: int, total: int) -> str:
    said = "recognized" if row == column else f"predicted as {names[column]}"
    return f"{names[row]} {said}: {number:,} of {plural(total, 'sample')} ({percent(number / total if total else 0.0)})"


def _as_table(names: list[str], dense: list[list[int]]) -> Markup:
    worst = _worst(dense)
    heads = [tag("th", tag("span", name), scope="col", title=name) for name in names]
    rows = []
    for i, (name, row) in enumerate(zip(names, dense, strict=True)):
        cells = [
            tag(
                "td", tag("span", count(n)) if n else None, class_=_level(n, i, j, dense, worst) if n else None,
                data_tip=_told(names, i, j, n, sum(row)),
            )
            for j, n in enumerate(row)
        ]  # fmt: skip
        rows.append(tag("tr", tag("th", tag("span", name), scope="row", title=name), cells))
    longest = max(map(len, names))
    size = "few" if len(names) <= 12 else "some"
    if longest <= 4 or (len(names) <= 3 and longest <= 10):  # names that fit above their columns as they are
        size += " flat"
    drawn = tag(
        "table",
        tag("thead", tag("tr", tag("td"), heads)),
        tag("tbody", rows),
        class_=f"confusion {size}",
        style=f"--n:{len(names)};--name:{0.62 * longest + 1:.1f}em",
        tabindex=0,
        aria_label="Confusion matrix; arrow keys go from cell to cell",
        data_columns=len(names),
    )
    return join(_hint(), drawn, _readout())


def _as_picture(names: list[str], dense: list[list[int]]) -> Markup:
    worst, size = _worst(dense), len(names)
    paths: dict[str, list[str]] = {}
    sparse: list[int] = []
    for i, row in enumerate(dense):
        for j, n in enumerate(row):
            if n:
                paths.setdefault(_level(n, i, j, dense, worst, _SEEN), []).append(f"M{j} {i}h1v1h-1z")
                sparse += [i, j, n]
    drawn = "".join(f'<path class="{kind}" d="{"".join(cells)}"/>' for kind, cells in sorted(paths.items()))
    lines = "".join(f"M0 {i}H{size}M{i} 0V{size}" for i in range(10, size, 10))
    picture = Markup(
        f'<svg viewBox="0 0 {size} {size}" preserveAspectRatio="none" aria-hidden="true">{drawn}'
        f'<path class="grid" d="{lines}"/></svg>'
    )
    data = json.dumps({"names": names, "cells": sparse}, separators=(",", ":"), ensure_ascii=False)
    board = tag(
        "div", picture, class_="cells", tabindex=0, role="group", aria_label="Confusion matrix; arrow keys go from cell to cell",
        data_matrix=data,
    )  # fmt: skip
    side = names_of_rows(names)
    top = tag("ol", [tag("li", tag("span", name)) for name in names], class_="columns", aria_hidden="true")
    menu = tag(
        "p",
        tag(
            "label",
            "What became of class ",
            tag("select", [tag("option", name, value=i) for i, name in enumerate(names)], data_menu=True),
        ),
        class_="menu",
    )
    return join(
        _hint(),
        tag("div", top, side, board, class_="board", style=f"--n:{size}"),
        _readout(),
        menu,
        tag("div", class_="became", aria_live="polite"),
    )


def _hint() -> Markup:
    return tag("p", "Rows are true classes, columns what they were predicted as, in the same order.", class_="hint")


def _readout() -> Markup:
    """The cell under the pointer, in words."""
    return tag("p", "Point at a cell, or choose one with the arrow keys.", class_="readout", aria_live="polite")

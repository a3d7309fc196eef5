"""Runs the notebooks of docs/notebooks and stores what their cells print and show.

    python tools/notebooks.py                  all of them
    python tools/notebooks.py gradients        one

Cells are run as Jupyter does it, one after the other in one namespace, in a folder of their own; what the last expression of a
cell gives is shown. This needs no kernel, so that tests can do it in a second.
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run(notebook: dict[str, Any], name: str) -> list[list[dict[str, Any]]]:
    """The outputs of every cell of code. An exception in a cell is one here, with the number of the cell."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    outputs: list[list[dict[str, Any]]] = []
    with _new_folder():
        for number, cell in enumerate(code_cells(notebook), 1):
            outputs.append(_run_cell("".join(cell["source"]), f"{name}, cell {number}", namespace, number))
    return outputs


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run_cell(source: str, place: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    lines = ast.parse(source, place)
    last = lines.body.pop() if lines.body and isinstance(lines.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(lines, place, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data = {"text/html": _lines(value._repr_html_()), **data}
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@contextmanager
def _new_folder() -> Iterator[None]:
    """Let notebooks write to a folder that is removed afterwards."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def main(names: list[str]) -> int:
    for path in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        notebook = read(path)
        outputs = run(notebook, path.name)
        for number, (cell, cell_outputs) in enumerate(zip(code_cells(notebook), outputs, strict=True), 1):
            cell["outputs"], cell["execution_count"] = cell_outputs, number
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(outputs)} cells, {len(text.encode()) / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

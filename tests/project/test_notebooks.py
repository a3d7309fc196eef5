"""The notebooks of docs/notebooks run, as they are and from the beginning, and are stored with what they give."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "tools" / "notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


notebooks = load_tool()


def kinds(outputs: list[dict[str, Any]]) -> list[Any]:
    """Texts may differ from machine to machine; whether something is printed, or shown in which forms, may not."""
    return [sorted(output["data"]) if "data" in output else output["name"] for output in outputs]


def test_there_are_two() -> None:
    assert [path.stem for path in PATHS] == ["gradients", "porting"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_runs_and_is_stored_with_its_outputs(path: Path) -> None:
    notebook = notebooks.read(path)
    actual = notebooks.run(notebook, path.name)  # an exception of a cell is one of the test
    stored = [cell["outputs"] for cell in notebooks.code_cells(notebook)]
    assert [kinds(outputs) for outputs in stored] == [kinds(outputs) for outputs in actual]
    assert sum(map(len, stored)) >= 5


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_it_is_small_and_well_formed(path: Path) -> None:
    assert path.stat().st_size < 200_000
    notebook = notebooks.read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    assert notebook["cells"][0]["source"][0].startswith("# ")
    assert [cell["execution_count"] for cell in notebooks.code_cells(notebook)] == [
        *range(1, len(notebooks.code_cells(notebook)) + 1)
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_code_is_narrow(path: Path) -> None:
    """As on the pages of the documentation: at most 80 columns."""
    lines = [line.rstrip("\n") for cell in notebooks.code_cells(notebooks.read(path)) for line in cell["source"]]
    assert [line for line in lines if len(line) > 80] == []


def test_a_cell_that_fails_is_named() -> None:
    bad = {"cells": [{"cell_type": "code", "source": ["x = 1\n", "y = x / 0"]}]}
    with pytest.raises(ZeroDivisionError) as raised:
        notebooks.run(bad, "bad.ipynb")
    assert str(raised.traceback[-1].path) == "bad.ipynb, cell 1"
    assert raised.traceback[-1].lineno == 1

"""Every operation of a graph in Swift against formulas in NumPy, those of tests/builder_cases.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builder_cases import INSIDE, POSITIVE, UNARY, X, Y
from swift.swift_tools import PROGRAMS, Module, run

pytest_plugins = ["swift.swift_fixtures"]

NOT_IN_SWIFT = {"slice"}
"""Ranges with steps."""


def given(name: str) -> Any:
    return POSITIVE.get(name, X / 2 if name in INSIDE else X)


@pytest.fixture(scope="module")
def printed(module: Module, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("operations")
    Y.tofile(folder / "y")
    for name in UNARY:
        np.ascontiguousarray(given(name)).tofile(folder / f"{name}.x")
    program = module.compile(PROGRAMS / "operations.swift", name="operations")
    lines = run(program, folder, cwd=folder).stdout.splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_all_are_there(printed: dict[str, Any]) -> None:
    assert set(printed) == set(UNARY) - NOT_IN_SWIFT


@pytest.mark.parametrize("name", sorted(set(UNARY) - NOT_IN_SWIFT))
def test_numbers(name: str, printed: dict[str, Any]) -> None:
    with np.errstate(all="ignore"):
        wanted = np.asarray(UNARY[name][1](given(name)), np.float32).ravel()
    assert printed[name].replace(" ", "").isdigit(), printed[name]
    actual = np.array(printed[name].split(), np.uint32).view(np.float32)
    np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=2e-5)

"""ONNX's own tests of single operators."""

from __future__ import annotations

from pathlib import Path

import pytest

import onnx_node_tests

SLICE = 10  # of the tests are run at a time; ``python tests/onnx_node_tests.py`` runs all


def test_a_part_of_the_node_tests(tmp_path: Path) -> None:
    failed = []
    cases = list(onnx_node_tests.cases())[::SLICE]
    for case in cases:
        if onnx_node_tests.is_known(case.name):
            continue
        try:
            onnx_node_tests.run(case, tmp_path)
        except Exception as error:
            failed.append(f"{case.name}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.peers
def test_all_node_tests() -> None:
    assert onnx_node_tests.main() == 0

"""The table of planted faults fits the sources; ``make mutants`` plants them."""

from __future__ import annotations

import pytest

import mutants


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.fault)
def test_a_fault_can_be_planted(mutant: mutants.Mutant) -> None:
    text = (mutants.PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1, f"{mutant.file}: write the line as it is now, here and in tests/mutants.py"
    assert (mutants.ROOT / mutant.tests.split()[0]).is_file()

"""Random calls through the C library give the bytes, the statuses and the messages of ``openbnns.capi``: see ``c_face.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fuzz
from c_face import CFace
from fuzzing.core import calls
from openbnns import capi

CASES = 40
face = CFace(turns=3)


@pytest.fixture(autouse=True)
def through_c() -> Iterator[None]:
    calls.behind = face
    yield
    calls.behind = capi


@pytest.mark.parametrize("family", fuzz.hostile.ORDERLY)
def test_random_cases(family: str) -> None:
    made = sum(face.made.values())
    for case in range(CASES):
        title, run = fuzz.FAMILIES[family](fuzz.Draw(3, case))
        try:
            run(fuzz.Outcome())
        except AssertionError as error:
            raise AssertionError(f"case {case}: {title}") from error
    assert sum(face.made.values()) >= made + CASES

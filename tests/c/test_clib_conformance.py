"""Random calls through the C library give the bytes, the statuses and the messages of ``openbnns.capi``: see ``c_face.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fuzz
import openbnns
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


def test_gradients_in_one_place() -> None:
    """They are accepted through C as well, and strict mode warns."""
    count = 0
    for case in range(CASES):
        cells = fuzz.hostile.lstm.Cells(fuzz.Draw(3, case))
        unwanted = [n for n, wanted in cells.wanted.items() if not wanted and n not in cells.arriving]
        if cells.scratch is None or len(unwanted) < 2:
            continue
        count += 1
        p, delta = cells.forward(fuzz.Outcome()), cells.backward(fuzz.Outcome())
        if not any(cells.wanted[name] for name in cells.arriving):
            continue
        assert face.BNNSDirectApplyLSTMBatchBackward(p, delta, None, None, 0) == 0, openbnns.last_error()
        with openbnns.strict(), pytest.warns(openbnns.StrictWarning, match="layer_delta_params.* share memory"):
            face.BNNSDirectApplyLSTMBatchBackward(p, delta, None, None, 0)
    assert count > 2

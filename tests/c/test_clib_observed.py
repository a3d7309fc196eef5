"""All observed cases, and a sample of every family's problems, through the C library: see ``c_face.py``.

The tests are those of the Python face; only what they call is exchanged.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from c_face import CFace
from capi.test_observed import *  # noqa: F403
from capi.test_observed_direct import *  # noqa: F403
from cases import ALL
from cases._base import parameters
from filters import test_attention, test_loss

pytestmark = pytest.mark.usefixtures("accuracy")
face = CFace()
MODULES = ("cases", "attention_checks", "capi.test_observed", "filters.test_loss", "filters.test_attention")


@pytest.fixture(autouse=True)
def through_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of tests and cases find the C library where they look for ``capi``."""
    for name, module in list(sys.modules.items()):
        if name.startswith(MODULES) and "capi" in vars(module):
            monkeypatch.setattr(module, "capi", face)


test_observed_losses = test_loss.test_observed
test_observed_attention = test_attention.test_observed

KINDS = sorted({type(case) for case in ALL}, key=lambda kind: kind.__name__)
SAMPLE = [case for kind in KINDS for case in [c for c in ALL if type(c) is kind][::9]]


@pytest.mark.parametrize("case", parameters(SAMPLE))
def test_sample_problems(case: Any) -> None:
    made = sum(face.made.values())
    run = case.run(case.values())
    run.forward()
    if case.trains:
        run.backward()
    assert sum(face.made.values()) > made

"""Random layers of every trainable family, for ``openbnns check``."""

from __future__ import annotations

from dataclasses import dataclass

from . import family_module
from ._random import Random
from .check import gradcheck


@dataclass(frozen=True)
class Outcome:
    """The result for all cases of a family: how many gradients, the largest relative error, and the first failure."""

    gradients: int
    error: float
    message: str = ""

    @property
    def passed(self) -> bool:
        return not self.message


def run(family: str, cases: int, seed: int) -> Outcome:
    """Check ``cases`` random layers of a family."""
    random = Random(seed, family)
    gradients, error, message = 0, 0.0, ""
    for _ in range(cases):
        layer = family_module(family).random_layer(random)
        report = gradcheck(layer, seed=random.size(0, 2**31 - 1), verbose=False)
        gradients += len({row.name for row in report.rows})
        error = max([error, *(row.relative_error for row in report.rows)])
        failed = [row.name for row in report.rows if not row.passed]
        if failed and not message:
            message = f"{layer!r}: gradient of {failed[0]}"
    return Outcome(gradients, error, message)

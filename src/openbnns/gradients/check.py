"""Check the gradients of a layer or filter against finite differences of its formula in float64.

For a tensor t (input, weights, bias, ...), a random direction u and a random cotangent v, these two must agree:

    numeric  = <v, f(t + h u) - f(t - h u)> / 2h     f is the float64 reference forward pass
    analytic = <backward(v)_t, u>                    backward is the engine in use

Points lie away from kinks: where the slopes on both sides differ, another point is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import engines
from .._spelling import spelled
from .._words import Caller
from ..errors import LayerApplyError, Problem, as_exception
from ..filters.base import Filter
from ..layers.base import Layer
from . import subject_of
from ._base import Array, Subject, float32_numbers

STEP = 1e-5
TOLERANCE = 2e-4
ATTEMPTS = 20


@dataclass(frozen=True)
class GradientRow:
    """One comparison: the gradient of a tensor along one direction."""

    name: str
    analytic: float
    numeric: float
    relative_error: float
    passed: bool
    note: str = ""


@dataclass(frozen=True)
class GradientReport:
    """What :func:`gradcheck` found. True in a condition when every gradient passed; prints as a table.

    >>> from openbnns import *
    >>> report = gradcheck(ActivationLayer(function=ActivationFunction.tanh(), input=Shape.vector(5)), verbose=False)
    >>> report.passed, {row.name for row in report.rows}
    (True, {'input'})
    """

    title: str
    tolerance: float
    rows: tuple[GradientRow, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees with the finite differences."""
        return bool(self.rows) and all(row.passed for row in self.rows)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{self.title}, tolerance {self.tolerance:g}"]
        lines.append(f"{'gradient':{width}s}  {'analytic':>13s}  {'numeric':>13s}  {'rel. error':>10s}")
        for row in self.rows:
            verdict = "ok" if row.passed else "FAILED"
            note = f"  ({row.note})" if row.note else ""
            numbers = f"{row.analytic:13.6g}  {row.numeric:13.6g}  {row.relative_error:10.2e}"
            lines.append(f"{row.name:{width}s}  {numbers}  {verdict}{note}")
        lines.append("all gradients agree" if self.passed else "GRADIENTS DISAGREE")
        return "\n".join(lines)


@spelled
def gradcheck(
    layer_or_filter: Layer | Filter,
    inputs: Any = None,
    *,
    seed: int = 0,
    directions: int = 3,
    step: float | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    verbose: bool = True,
) -> GradientReport:
    """Compare every gradient of a layer, or of a filter of ``openbnns.capi``, with finite differences in float64.

    ``inputs`` is the input array, or a sequence of them for a layer with several: C order, one sample or a batch. Left
    out, suitable random inputs are drawn. Each gradient is checked along ``directions`` random directions with steps of
    ``step`` (1e-5) and passes when the relative error is at most ``tolerance`` (2e-4, which leaves room for float32).
    ``engine`` names the engine whose gradients are checked, by default the one in use. The report is printed when
    ``verbose``.

    >>> import numpy as np, openbnns
    >>> layer = openbnns.FullyConnectedLayer(weights=np.ones((2, 3), np.float32), bias=np.zeros(2, np.float32))
    >>> report = openbnns.gradcheck(layer, verbose=False)
    >>> report.passed, sorted({row.name for row in report.rows})
    (True, ['bias', 'input', 'weights'])
    """
    if not isinstance(layer_or_filter, (Layer, Filter)):
        raise TypeError(
            f"gradcheck: a layer, or a filter of openbnns.capi, is needed, not {type(layer_or_filter).__name__}."
            + (" Its creation failed: see openbnns.last_error()." if layer_or_filter is None else "")
        )
    filter = layer_or_filter.bnns_filter if isinstance(layer_or_filter, Layer) else layer_or_filter
    name = type(layer_or_filter).__name__ if isinstance(layer_or_filter, Layer) else f"{filter.family} filter"
    with engines.engine(engine or engines.current()):
        try:
            filter.require_alive(Caller("gradcheck"))
            random, allowed = np.random.default_rng(seed), TOLERANCE if tolerance is None else tolerance
            check = _Check(subject_of(layer_or_filter), random, step or STEP, allowed)
            rows = check.run(inputs, directions)
        except Problem as problem:
            raise as_exception(problem, LayerApplyError) from None
        report = GradientReport(f"{name} ({engines.current()} engine)", check.tolerance, tuple(rows))
    if verbose:
        print(report)
    return report


class _Check:
    """One run of gradcheck."""

    def __init__(self, subject: Subject, random: np.random.Generator, step: float, tolerance: float) -> None:
        self.subject, self.random, self.step, self.tolerance = subject, random, step, tolerance

    def run(self, inputs: Any, directions: int) -> list[GradientRow]:
        if inputs is not None:
            fixed = self.subject.given(inputs if isinstance(inputs, (list, tuple)) else [inputs])
        rows: dict[str, list[GradientRow]] = {}
        for _ in range(directions):
            for attempt in range(ATTEMPTS):
                values = (fixed if inputs is not None else self.subject.draw(self.random)) | self.subject.parameters()
                found = self._compare(values)
                if inputs is not None or not any(row.note for row in found) or attempt == ATTEMPTS - 1:
                    break
            for row in found:
                rows.setdefault(row.name, []).append(row)
        return [row for group in rows.values() for row in group]

    def _compare(self, values: dict[str, Array]) -> list[GradientRow]:
        y = self.subject.forward(values)
        v = float32_numbers(self.random.standard_normal(y.shape))
        gradients = self.subject.backward(values, v)
        return [self._row(name, values, y, v, gradients) for name in gradients]

    def _row(self, name: str, values: dict[str, Array], y: Array, v: Array, gradients: dict[str, Array]) -> GradientRow:
        gradient = gradients[name]
        u = self.random.standard_normal(values[name].shape)
        h = self.step

        def along(distance: float) -> Array:
            return self.subject.forward(values | {name: values[name] + distance * u})

        after, before = along(h), along(-h)
        numeric = float(np.vdot(v, after - before)) / (2 * h)
        analytic = float(np.vdot(gradient, u))
        # Rounding in float32 is relative to the terms of the sum, not to a result in which they may cancel.
        terms = max(self.subject.cancelled(name, gradients), float(np.linalg.norm(gradient * u)))
        scale = max(abs(numeric), abs(analytic), terms)
        error = abs(analytic - numeric) / scale if scale > 0 else abs(analytic - numeric)
        slopes = [float(np.vdot(v, after - y)) / h, float(np.vdot(v, y - before)) / h]
        bend = abs(slopes[0] - slopes[1])
        note = "kink: the slopes on both sides differ" if not bend <= 1e-2 * (scale + h) + 1e3 * h * scale else ""
        return GradientRow(name, analytic, numeric, error, bool(error <= self.tolerance), note)

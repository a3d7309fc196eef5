"""Check gradients against finite differences in float64; of networks, see ``nn/gradient_check.py``. For layers and filters:

For a tensor t (input, weights, bias, ...), a random direction u and a random cotangent v, these two must agree:

    numeric  = <v, f(t + h u) - f(t - h u)> / 2h     f is the float64 reference forward pass
    analytic = <backward(v)_t, u>                    backward is the engine in use

Points lie away from kinks: where the slopes on both sides differ, another point is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from ._report import GradientReport as GradientReport
from ._report import GradientRow as GradientRow

STEP = 1e-5
TOLERANCE = 2e-4
ATTEMPTS = 20


@spelled
def gradcheck(
    layer_or_filter: Any,
    inputs: Any = None,
    *more_inputs: Any,
    seed: int = 0,
    directions: int = 3,
    samples: int | None = None,
    step: float | None = None,
    tolerance: float | None = None,
    engine: str | None = None,
    verbose: bool = True,
) -> GradientReport:
    """Compare every gradient of a layer, a network or a function with finite differences in float64.

    **Layers**, and filters of ``openbnns.capi``: ``inputs`` is the input array, or a sequence of them for a layer with
    several: C order, one sample or a batch. Left out, suitable random inputs are drawn. Each gradient is checked along
    ``directions`` random directions with steps of ``step`` (1e-5) and passes when the relative error is at most
    ``tolerance`` (2e-4, which leaves room for float32).

    **Networks** in training mode: ``gradcheck(network, x)``, with inputs as for a call. A subclass of ``nn.Function`` is
    checked on its arguments, ``gradcheck(Cube, x)``, and so is any function of values, ``gradcheck(lambda x: x * x, x)``,
    where arrays have a batch axis in front and an ``nn.Parameter`` has none. The network runs in float64 throughout:
    ``samples`` entries of every input and parameter (up to 16, fewer if that would take long) and a direction through all
    entries are checked, with ``tolerance`` 1e-5. Of each tensor the report has the worst, and how far the gradient of the
    engine in use is from that in float64. A place where the slopes on both sides differ is a kink, which is not a failure.
    Weights, gradients, running statistics and random choices of the network stay as they were; a draw of dropout is fixed.

    ``engine`` names the engine whose gradients are checked, by default the one in use. The report is printed when
    ``verbose``.

    >>> import numpy as np, openbnns
    >>> layer = openbnns.FullyConnectedLayer(weights=np.ones((2, 3), np.float32), bias=np.zeros(2, np.float32))
    >>> report = openbnns.gradcheck(layer, verbose=False)
    >>> report.passed, sorted({row.name for row in report.rows})
    (True, ['bias', 'input', 'weights'])
    >>> from openbnns import nn
    >>> report = openbnns.gradcheck(nn.Sequential(nn.Linear(4), nn.Tanh()), np.ones((2, 3)), verbose=False)
    >>> report.ok, [row.name for row in report.rows]
    (True, ['input', '0.weight', '0.bias'])
    """
    given = None if inputs is None else (inputs, *more_inputs) if more_inputs else inputs
    with engines.using_engine(engine or engines.current()):
        if isinstance(layer_or_filter, (Layer, Filter)):
            report = _check_layer(layer_or_filter, given, seed, directions, step, tolerance)
        else:
            report = _check_network(layer_or_filter, given, seed, samples, step, tolerance)
    if verbose:
        print(report)
        return replace(report, printed=True)
    return report


def _check_network(
    network: Any, given: Any, seed: int, samples: int | None, step: float | None, tolerance: float | None
) -> GradientReport:
    for name, value, needed in (("samples", samples, 1), ("seed", seed, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < needed):
            raise ValueError(f"gradcheck: {name} is {value!r}. Use a whole number, {needed} or more.")
    for name, number in (("step", step), ("tolerance", tolerance)):
        if number is not None and not number > 0:
            raise ValueError(f"gradcheck: {name} is {number!r}. Use a positive number.")
    if given is not None and not isinstance(given, (tuple, list, Mapping)):
        given = (given,)
    return _of_network(network, given, seed=seed, samples=samples, step=step, tolerance=tolerance)


def _of_network(network: Any, given: Any, **options: Any) -> GradientReport:
    from ..nn.gradient_check import check

    return check(network, given, **options)


def _check_layer(
    layer_or_filter: Layer | Filter,
    inputs: Any,
    seed: int,
    directions: int,
    step: float | None,
    tolerance: float | None,
) -> GradientReport:
    filter = layer_or_filter.bnns_filter if isinstance(layer_or_filter, Layer) else layer_or_filter
    name = type(layer_or_filter).__name__ if isinstance(layer_or_filter, Layer) else f"{filter.family} filter"
    try:
        filter.require_alive(Caller("gradcheck"))
        random, allowed = np.random.default_rng(seed), TOLERANCE if tolerance is None else tolerance
        check = _Check(subject_of(layer_or_filter), random, step or STEP, allowed)
        rows = check.run(inputs, directions)
    except Problem as problem:
        raise as_exception(problem, LayerApplyError) from None
    return GradientReport(f"{name} ({engines.current()} engine)", check.tolerance, tuple(rows))


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
                compared = self._compare(values)
                if inputs is not None or not any(row.note for row in compared) or attempt == ATTEMPTS - 1:
                    break
            for row in compared:
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

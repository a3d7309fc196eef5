"""Numbers as the report writes them, and round numbers for the ticks of an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

NOTHING = "\u2013"
"""A dash, for a number that does not exist."""

_PERCENT = "\u00a0%"  # with a space that does not break a line

PERCENT_METRICS = ("accuracy", "precision", "recall", "f1", "top", "auc", "iou", "exact")
"""Metrics whose names contain one of these words are shares."""


def count(number: int) -> str:
    return f"{number:,}"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage; NaN, which stands for "there is none", as a dash.

    >>> print(percent(0.98765), percent(1.0), percent(0.9999), percent(float("nan")) == NOTHING)
    98.8\u00a0% 100\u00a0% > 99.9\u00a0% True
    """
    if not math.isfinite(share):
        return NOTHING
    if share in (0, 1):
        return f"{100 * share:.0f}{_PERCENT}"
    if round(100 * share, digits) == 100:  # which a single error among many would become
        return f"> 99.9{_PERCENT}"
    return f"{100 * share:.{digits}f}{_PERCENT}"


def short(value: float, digits: int = 4) -> str:
    """A number with so many digits.

    >>> short(0.000123456), short(1234.5678), short(1.5e9), short(2.0)
    ('0.0001235', '1,235', '1.5e+09', '2')
    """
    if not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if size and not 1e-4 <= size < 1e7:
        return f"{value:.{digits}g}"
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def seconds(value: float) -> str:
    """
    >>> seconds(0.000034), seconds(0.01234), seconds(1.5), seconds(75), seconds(7200)
    ('34.0 µs', '12 ms', '1.50 s', '1 min 15 s', '2 h 0 min')
    """
    if 0 < value < 0.1:
        return (
            f"{1e6 * value:.1f} µs"
            if value < 1e-4
            else f"{1e3 * value:.2f} ms"
            if value < 0.01
            else f"{1e3 * value:.0f} ms"
        )
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def is_share(metric: str) -> bool:
    return any(word in metric for word in PERCENT_METRICS)


def sides(shape: Sequence[int]) -> str:
    """A shape, such as 3 x 8 x 8 with real crosses."""
    return " \u00d7 ".join(str(side) for side in shape) or "1"


_ABBREVIATED = {"mae": "MAE", "mse": "MSE", "rmse": "RMSE", "r2": "R²", "auc": "AUC", "iou": "IoU", "f1": "F1"}


def called(name: str) -> str:
    """The name of a metric in words.

    >>> called("validation_r2"), called("top_5_accuracy")
    ('validation R²', 'top 5 accuracy')
    """
    return " ".join(_ABBREVIATED.get(word, word) for word in name.split("_"))


def column(values: Sequence[float]) -> list[str]:
    """Numbers below each other, with as many decimals.

    >>> column([414.42, 387.0, -48.5]), column([0.5, 1e-9])
    (['414.4', '387.0', '-48.5'], ['0.5', '1e-09'])
    """
    sizes = [abs(value) for value in values if value]
    largest = max(sizes, default=0.0)
    if not 1e-3 <= largest < 1e7 or not all(map(math.isfinite, values)) or min(sizes) < 1e-4 * largest:
        return [short(value) for value in values]
    decimals = max(0, 3 - math.floor(math.log10(largest)))
    return [f"{value:,.{decimals}f}" for value in values]


def metric(name: str, value: float) -> str:
    """The value of a metric as its name asks for."""
    return percent(value, 2) if is_share(name) else short(value)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two others, at most so many.

    >>> ticks(0.03, 0.97)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    step = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(step))
    step = next(factor * power for factor in (1, 2, 5, 10, 20) if factor * power >= step * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Powers of ten between two numbers, and 2 and 5 times them if there is room.

    >>> log_ticks(0.02, 3)
    [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
    >>> log_ticks(1e-6, 2e3, most=5)
    [1e-06, 0.0001, 0.01, 1.0, 100.0]
    """
    bottom, top = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        marks = [f * 10.0**power for power in range(bottom, top + 1) for f in factors]
        marks = [float(f"{t:.12g}") for t in marks if low * (1 - 1e-9) <= t <= high * (1 + 1e-9)]
        if 2 <= len(marks) <= most + (2 if len(factors) > 1 else 0):
            return marks
    if len(marks) < 2:  # less than a decade, with nothing round in it
        return ticks(low, high, most)
    every = -(-len(marks) // most)
    return marks[::every]


def alone(value: float) -> str:
    """A tick of a logarithmic axis.

    >>> alone(0.002), alone(2e-05), alone(50000.0), alone(1e9)
    ('0.002', '2e-5', '50,000', '1e9')
    """
    if value and not 1e-3 <= abs(value) < 1e6:
        exponent = math.floor(math.log10(abs(value)) + 1e-9)
        return f"{value / 10.0**exponent:.6g}e{exponent}"
    return f"{value:,.6g}"


def alike(values: Sequence[float], *, share: bool = False) -> list[str]:
    """The ticks of a linear axis, all with as many decimals as their distance needs.

    >>> alike([0.0, 0.0005, 0.001]), alike([0.5, 1.0], share=True), alike([0.0, 2e-7])
    (['0.0000', '0.0005', '0.0010'], ['50 %', '100 %'], ['0', '2e-7'])
    """
    if share:
        return [f"{100 * value:.6g} %" for value in values]
    step = min((b - a for a, b in pairwise(values)), default=abs(values[0]) if values else 0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step else 0
    if decimals > 4 or max(map(abs, values), default=0) >= 1e7:
        return [alone(value) for value in values]
    return [f"{value:,.{decimals}f}" for value in values]

"""Attributes of optimizers that may change between steps."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import OptimizerStepError, Problem, as_exception
from .types import GradientClipping


class Hyperparameter:
    """An attribute that may change between steps; checked for its kind when written, for its range in a step."""

    def __init__(self, convert: Callable[[Any, str], Any]) -> None:
        self._convert = convert

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Any, owner: type) -> Any:
        return self if optimizer is None else optimizer._values[self._name]

    def __set__(self, optimizer: Any, value: Any) -> None:
        if type(value) is not float or self._convert is not number:
            value = self._convert(value, f"{type(optimizer).__name__}: {self._name}")
        optimizer._values[self._name] = value
        if self._name != "time_step":  # which every step writes again
            optimizer._fields = None
            optimizer._revision += self._name != "learning_rate"  # which schedules write in every step


def number(value: Any, who: str) -> float:
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise _wrong_type(who, "a number", value) from None


def _wrong_type(who: str, wanted: str, value: Any) -> Exception:
    problem = Problem(f"{who} must be {wanted}, not {type(value).__name__}.", kind=TypeError)
    return as_exception(problem, OptimizerStepError)


def truth(value: Any, who: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong_type(who, "True or False", value)
    return bool(value)


def member(kind: type[enum.Enum]) -> Callable[[Any, str], Any]:
    constant = type(next(iter(kind)).value)  # the C enum of the same choices, which Swift code passes here

    def convert(value: Any, who: str) -> Any:
        if isinstance(value, constant):
            return kind(value)
        if not isinstance(value, kind):
            raise _wrong_type(who, f"a {kind.__name__} such as {kind.__name__}.{next(iter(kind)).name}", value)
        return value

    return convert


def bounds(value: Any, who: str) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        low, high = value
    except (TypeError, ValueError):
        raise _wrong_type(who, "None or a pair (low, high)", value) from None
    return number(low, who), number(high, who)


def clipping(value: Any, who: str) -> GradientClipping | None:
    if value is not None and not isinstance(value, GradientClipping):
        raise _wrong_type(who, "a GradientClipping such as GradientClipping.by_norm(threshold=1.0)", value)
    return value

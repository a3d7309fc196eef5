"""Conversion of inputs and results of operations for the functions of the table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....files import memory_limit
from ....graph.sizes import number_of
from ...converted.tensors import ForeignTensor, Misfit
from ..elements import ELEMENTS
from ..operation_rules import Input
from ..program import Constant, TensorType


def setting_of(constant: Constant) -> Any:
    """A constant in Python's own terms; lists for arrays."""
    value = constant.python
    return value.tolist() if isinstance(value, np.ndarray) else value


def tensor_of(array: Any) -> ForeignTensor:
    """A constant tensor of the kinds that the graph computes with."""
    held = np.asarray(array)
    if held.dtype.kind == "f":
        return ForeignTensor(np.ascontiguousarray(held, np.float32).reshape(held.shape))
    return ForeignTensor(held) if held.dtype.kind == "b" else ForeignTensor(held.astype(np.int64))


def _is_setting(rule: Input, constant: Constant) -> bool:
    """True for numbers and text that are settings of an operation, rather than operands."""
    if not rule.constant:
        return False
    if not isinstance(constant.type, TensorType):
        return True
    element = ELEMENTS[constant.type.element]
    weights = element.numpy.kind == "f" or "fp32" in rule.types  # linear takes weights of whole numbers
    return not (weights and constant.shape)


def settings(rules: Mapping[str, Input], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs as the functions of operations take them: constants that are settings in Python's terms, tensors else."""
    given: dict[str, Any] = {}
    for name, held in tensors.items():
        if isinstance(held, Constant):
            given[name] = setting_of(held) if _is_setting(rules[name], held) else tensor_of(held.array)
        elif isinstance(held, list):
            given[name] = [tensor_of(one.array) if isinstance(one, Constant) else one for one in held]
        else:
            given[name] = held
    return given


def listed_results(results: Any) -> list[ForeignTensor]:
    """The results of an operation; raises an error if one takes too much memory."""
    tensors = list(results) if isinstance(results, tuple) else [results]
    for tensor in tensors:
        count = math.prod(number_of(n) for n in tensor.shape)
        memory_limit.check(4 * count, f"a tensor of shape {tensor.shape}", Misfit)
    return tensors

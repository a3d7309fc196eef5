"""Sizes that follow from values: which outputs of a function have a shape that the shapes of its inputs do not decide."""

from __future__ import annotations

from enum import IntEnum

from .operation_table import OPERATIONS
from .program import Function, Operation, TensorType, ValueType


class Sizes(IntEnum):
    """How well the shapes of inputs decide the sizes of a value; the numbers are those that BNNSGraph gives."""

    EXACT = 0
    BOUNDED = 1
    OPEN = 2


_SIZES_FROM = {
    "reshape": ("shape",), "slice_by_index": ("begin", "end", "stride"), "slice_by_size": ("size",), "tile": ("reps",),
    "fill": ("shape",), "range_1d": ("start", "end", "step"), "pad": ("pad",), "resize": ("shape",),
    "one_hot": ("one_hot_vector_size",), "topk": ("k",), "split": ("split_sizes",), "random_uniform": ("shape",),
    "random_normal": ("shape",), "random_bernoulli": ("shape",),
}  # fmt: skip
"""The inputs of operations that say what shape their result has."""


def sizes_by_values(function: Function) -> dict[str, tuple[Sizes, str]]:
    """For each output of a function how its sizes are decided, and for a bounded one the value that bounds it.

    The sizes of ``non_zero`` are bounded by the number of elements that it looks at.
    """
    from_data = {port.name for port in function.inputs}
    sizes: dict[str, tuple[Sizes, str]] = {}
    for operation in function.block.operations:
        names = [name for given in operation.inputs.values() for name in given if isinstance(name, str)]
        names += _read_inside(operation)
        worst = max((sizes.get(name, (Sizes.EXACT, ""))[0] for name in names), default=Sizes.EXACT)
        data = any(name in from_data for name in names) or operation.type.startswith("random_")
        if operation.type == "shape":
            data = worst > Sizes.EXACT
            worst = Sizes.EXACT
        verdict = (worst, "")
        asked = [
            name
            for given in _SIZES_FROM.get(operation.type, ())
            for name in operation.inputs.get(given, ())
            if isinstance(name, str) and name in from_data
        ]
        if asked or worst == Sizes.BOUNDED:  # what is made of a bounded value may have another bound
            verdict = (Sizes.OPEN, "")
        elif operation.type == "non_zero":
            verdict = (Sizes.BOUNDED, names[0]) if worst == Sizes.EXACT else (Sizes.OPEN, "")
        elif operation.blocks or OPERATIONS[operation.type].family == "control_flow":
            verdict = (Sizes.OPEN, "")
        for port in operation.outputs:
            sizes[port.name] = verdict if _is_open(port.type) else (Sizes.EXACT, "")
            if data:
                from_data.add(port.name)
    return {name: sizes.get(name, (Sizes.EXACT, "")) for name in function.block.outputs}


def _is_open(type: ValueType) -> bool:
    return not isinstance(type, TensorType) or type.shape is None or None in type.shape


def _read_inside(operation: Operation) -> list[str]:
    """The names that the blocks of an operation read."""
    names: list[str] = []
    for block in operation.blocks:
        for inner in block.operations:
            names += [name for given in inner.inputs.values() for name in given if isinstance(name, str)]
            names += _read_inside(inner)
        names += block.outputs
    return names

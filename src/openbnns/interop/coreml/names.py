"""The names of operations in Core ML: one table for the reader of programs and for the writer."""

from __future__ import annotations

from typing import NamedTuple


class Names(NamedTuple):
    """The name of an operation in Core ML, and in ONNX if that has it."""

    core_ml: str
    onnx: str = ""


COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
LOGIC = {"logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor"}
ARITHMETIC = {
    "add": "add", "sub": "sub", "mul": "mul", "maximum": "maximum", "minimum": "minimum", "floor_divide": "floor_div",
    "remainder": "mod", "div": "real_div", "pow": "pow",
}  # fmt: skip
"""Functions of two tensors, by their names in ``nn.functional``."""

REDUCTIONS = {
    "sum": Names("reduce_sum", "ReduceSum"),
    "mean": Names("reduce_mean", "ReduceMean"),
    "max": Names("reduce_max", "ReduceMax"),
    "min": Names("reduce_min", "ReduceMin"),
    "product": Names("reduce_prod", "ReduceProd"),
    "sum_of_absolutes": Names("reduce_l1_norm", "ReduceL1"),
    "l2_norm": Names("reduce_l2_norm", "ReduceL2"),
    "log_sum": Names("reduce_log_sum", "ReduceLogSum"),
    "log_sum_exp": Names("reduce_log_sum_exp", "ReduceLogSumExp"),
    "sum_of_squares": Names("reduce_sum_square", "ReduceSumSquare"),
}
"""By the names of BNNS's reductions."""

UNARY = (
    "abs",
    "acos",
    "asin",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "floor",
    "round",
    "sign",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "tan",
)
"""Functions of one tensor that have the same name in ``nn.functional``."""

"""The names of operations in Core ML: one table for the reader of programs and for the writer."""

from __future__ import annotations

from typing import NamedTuple


class Names(NamedTuple):
    """The name of an operation in Core ML, and in ONNX if that has it."""

    core_ml: str
    onnx: str = ""


COMPARISONS = {
    "eq": Names("equal", "Equal"),
    "ne": Names("not_equal"),
    "lt": Names("less", "Less"),
    "le": Names("less_equal", "LessOrEqual"),
    "gt": Names("greater", "Greater"),
    "ge": Names("greater_equal", "GreaterOrEqual"),
}
LOGIC = {
    "logical_and": Names("logical_and", "And"),
    "logical_or": Names("logical_or", "Or"),
    "logical_xor": Names("logical_xor", "Xor"),
}
ARITHMETIC = {
    "add": Names("add", "Add"),
    "sub": Names("sub", "Sub"),
    "mul": Names("mul", "Mul"),
    "maximum": Names("maximum", "Max"),
    "minimum": Names("minimum", "Min"),
    "floor_divide": Names("floor_div"),
    "remainder": Names("mod"),
}
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

UNARY = {
    "ABS": "abs", "ACOS": "acos", "ASIN": "asin", "ATAN": "atan", "ATANH": "atanh", "CEIL": "ceil", "COS": "cos",
    "COSH": "cosh", "ERF": "erf", "EXP": "exp", "EXP2": "exp2", "FLOOR": "floor", "ROUND": "round", "SIGN": "sign",
    "SIN": "sin", "SINH": "sinh", "SQUARE": "square", "SQUARE_ROOT": "sqrt", "TAN": "tan", "TANH": "tanh",
}  # fmt: skip
BINARY = {
    "ADD": "add", "SUBTRACT": "sub", "MULTIPLY": "mul", "DIVIDE": "real_div", "POW": "pow", "MIN": "minimum",
    "MAX": "maximum",
}  # fmt: skip
"""By the names of BNNS's arithmetic; those of one operand are called in ``nn.functional`` as they are in Core ML."""

ACTIVATIONS = {
    "rectified_linear": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "softsign": "softsign", "relu6": "relu6",
    "silu": "silu", "erf": "erf", "abs": "abs",
}  # fmt: skip
"""By the names of BNNS's activations, those without numbers."""

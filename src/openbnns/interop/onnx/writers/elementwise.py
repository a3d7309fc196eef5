"""Activations, arithmetic and other functions of elements, reductions, products, types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import ActivationFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction, ArithmeticUnaryFunction
from ....graph import operations
from ....graph.operation import Operation
from ....graph.operations import MASKS, Elementwise
from ....graph.tensor import FLOAT32, Tensor
from ...converted.functions import Compare, Determinant, Forbid, Not
from .._call import Call
from .._graph_file import GraphFile
from .._operator import OPERATORS
from ..errors import NoForm
from ..operators.elementwise import in_small_float
from ..tensor import ByNumpy, Recipe
from ._registry import WRITERS, writes

_ActivationWriter = Callable[[GraphFile, str, ActivationFunction], str]


def _named(op: str) -> _ActivationWriter:
    return lambda file, x, f: file.node(op, x)


def _with_alpha(op: str) -> _ActivationWriter:
    return lambda file, x, f: file.node(op, x, alpha=float(f.alpha))


def _scaled(file: GraphFile, x: str, factor: float) -> str:
    return x if factor == 1 else file.node("Mul", x, file.number(factor))


def _linear(file: GraphFile, x: str, f: ActivationFunction) -> str:
    y = _scaled(file, x, f.alpha)
    if f.case == "linear_with_bias" and f.beta:
        return file.node("Add", y, file.number(f.beta))
    return y if y != x else file.node("Identity", x)


def _clamp(file: GraphFile, x: str, f: ActivationFunction) -> str:
    low, high = (0.0, 6.0) if f.case == "relu6" else f.bounds
    ends = [file.number(end) if math.isfinite(end) else "" for end in (low, high)]
    return file.node("Clip", x, *ends)


def _gelu_tanh(file: GraphFile, x: str, f: ActivationFunction) -> str:
    usual = ActivationFunction.gelu_approximation()
    if (f.alpha, f.beta) == (usual.alpha, usual.beta):
        return file.node("Gelu", x, approximate="tanh")
    cube = file.node("Mul", x, file.node("Mul", x, x))
    inner = _scaled(file, file.node("Add", x, _scaled(file, cube, f.beta)), f.alpha)
    return _scaled(file, file.node("Mul", x, file.node("Add", file.node("Tanh", inner), file.number(1))), 0.5)


def _softplus(file: GraphFile, x: str, f: ActivationFunction) -> str:
    return _scaled(file, file.node("Softplus", _scaled(file, x, f.beta)), f.alpha)


def _threshold(file: GraphFile, x: str, f: ActivationFunction) -> str:
    if f.beta == 0 and f.alpha >= 0:
        return file.node("ThresholdedRelu", x, alpha=float(f.alpha))
    return file.node("Where", file.node("Greater", x, file.number(f.alpha)), x, file.number(f.beta))


def _clamped_leaky(file: GraphFile, x: str, f: ActivationFunction) -> str:
    return file.node("Min", file.node("LeakyRelu", x, alpha=float(f.alpha)), file.number(f.beta))


def _gated(factor: float) -> _ActivationWriter:
    return lambda file, x, f: file.node("Mul", x, file.node("Sigmoid", _scaled(file, x, factor)))


_ACTIVATIONS: dict[str, _ActivationWriter] = {
    "identity": _named("Identity"), "rectified_linear": _named("Relu"), "leaky_rectified_linear": _with_alpha("LeakyRelu"),
    "sigmoid": _named("Sigmoid"), "tanh": _named("Tanh"), "abs": _named("Abs"), "softsign": _named("Softsign"),
    "log_sigmoid": lambda file, x, f: file.node("Neg", file.node("Softplus", file.node("Neg", x))),
    "scaled_tanh": lambda file, x, f: _scaled(file, file.node("Tanh", _scaled(file, x, f.beta)), f.alpha),
    "linear": _linear, "linear_with_bias": _linear, "clamp": _clamp, "relu6": _clamp, "softplus": _softplus,
    "gelu": _named("Gelu"), "gelu_approximation": _gelu_tanh, "gelu_approximation_sigmoid": _gated(1.702),
    "silu": _gated(1.0), "hard_swish": _named("HardSwish"), "gelu_approximation2": _named("HardSwish"),
    "hard_sigmoid": lambda file, x, f: file.node("HardSigmoid", x, alpha=float(f.alpha), beta=float(f.beta)),
    "elu": _with_alpha("Elu"), "celu": _with_alpha("Celu"), "selu": _named("Selu"), "erf": _named("Erf"),
    "hard_shrink": lambda file, x, f: file.node("Shrink", x, lambd=abs(float(f.alpha)), bias=0.0),
    "soft_shrink": lambda file, x, f: file.node("Shrink", x, lambd=float(f.alpha), bias=float(f.alpha)),
    "tanh_shrink": lambda file, x, f: file.node("Sub", x, file.node("Tanh", x)),
    "threshold": _threshold, "clamped_leaky_rectified_linear": _clamped_leaky,
}  # fmt: skip
_ALONG_AXIS = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


@writes(operations.Activation)
def activation(file: GraphFile, operation: operations.Activation) -> str:
    x, f = operation.inputs[0], operation.function
    if f.case in _ALONG_AXIS:
        return file.node(_ALONG_AXIS[f.case], file.use(x), axis=operation.axis)
    if f.case not in _ACTIVATIONS:
        raise NoForm(f"the activation {f.case} has no form in ONNX")
    return _ACTIVATIONS[f.case](file, file.use(x), f)


# Arithmetic.

_Writer = Callable[..., str]
"""A function of the file and the names of the operands."""


def _nodes(op: str, *behind: str, **options: Any) -> _Writer:
    def write(file: GraphFile, *given: str) -> str:
        y = file.node(op, *given, **options)
        for other in behind:
            y = file.node(other, y)
        return y

    return write


def _selected(file: GraphFile, condition: str, a: str, b: str) -> str:
    return file.node("Where", file.node("Not", file.node("Equal", condition, file.number(0))), a, b)


_ONE, _TWO, _THREE = ArithmeticUnaryFunction, ArithmeticBinaryFunction, ArithmeticTernaryFunction
_ARITHMETIC: dict[Any, _Writer] = {
    _ONE.ABS: _nodes("Abs"), _ONE.ACOS: _nodes("Acos"), _ONE.ACOSH: _nodes("Acosh"), _ONE.ASIN: _nodes("Asin"),
    _ONE.ASINH: _nodes("Asinh"), _ONE.ATAN: _nodes("Atan"), _ONE.ATANH: _nodes("Atanh"), _ONE.CEIL: _nodes("Ceil"),
    _ONE.COS: _nodes("Cos"), _ONE.COSH: _nodes("Cosh"), _ONE.ERF: _nodes("Erf"), _ONE.EXP: _nodes("Exp"),
    _ONE.EXP2: lambda file, x: file.node("Pow", file.number(2), x), _ONE.FLOOR: _nodes("Floor"), _ONE.LOG: _nodes("Log"),
    _ONE.LOG2: lambda file, x: _scaled(file, file.node("Log", x), 1 / math.log(2)), _ONE.NEGATE: _nodes("Neg"),
    _ONE.RECIPROCAL: _nodes("Reciprocal"), _ONE.ROUND: _nodes("Round"), _ONE.SIGN: _nodes("Sign"), _ONE.SIN: _nodes("Sin"),
    _ONE.RECIPROCAL_SQUARE_ROOT: lambda file, x: file.node("Pow", x, file.number(-0.5)), _ONE.SINH: _nodes("Sinh"),
    _ONE.SQUARE: lambda file, x: file.node("Pow", x, file.number(2)), _ONE.SQUARE_ROOT: _nodes("Sqrt"),
    _ONE.TAN: _nodes("Tan"), _ONE.TANH: _nodes("Tanh"), _TWO.ADD: _nodes("Add"), _TWO.SUBTRACT: _nodes("Sub"),
    _TWO.MULTIPLY: _nodes("Mul"), _TWO.DIVIDE: _nodes("Div"), _TWO.POW: _nodes("Pow"), _TWO.MAX: _nodes("Max"),
    _TWO.MIN: _nodes("Min"), _THREE.SELECT: _selected,
    _THREE.MULTIPLY_ADD: lambda file, a, b, c: file.node("Add", file.node("Mul", a, b), c),
}  # fmt: skip


@writes(operations.Arithmetic)
def arithmetic(file: GraphFile, operation: operations.Arithmetic) -> str:
    if operation.function not in _ARITHMETIC:
        raise NoForm(f"the function {operation.function.name} has no form in ONNX")
    return _ARITHMETIC[operation.function](file, *map(file.use, operation.inputs))


_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "product": "ReduceProd",
    "l2_norm": "ReduceL2", "sum_of_absolutes": "ReduceL1", "log_sum_exp": "ReduceLogSumExp",
    "sum_of_squares": "ReduceSumSquare",
}  # fmt: skip


@writes(operations.Reduction)
def reduction(file: GraphFile, operation: operations.Reduction) -> str:
    x, y, case = operation.inputs[0], operation.output, operation.function.case
    keep = int(y.ndim == x.ndim)
    if case in ("arg_max", "arg_min"):
        op = "ArgMax" if case == "arg_max" else "ArgMin"
        return file.node(op, file.use(x), axis=operation.axes[0], keepdims=keep)
    if case not in _REDUCTIONS:
        raise NoForm(f"the reduction {case} has no form in ONNX")
    return file.node(_REDUCTIONS[case], file.use(x), file.integers(operation.axes), keepdims=keep)


# Products.


@writes(operations.MatrixProduct)
def matrix_product(file: GraphFile, operation: operations.MatrixProduct) -> str:
    given = []
    for x, turned in zip(operation.inputs, operation.transposed, strict=True):
        name = file.use(x)
        if turned:
            order = list(range(x.ndim))
            name = file.node("Transpose", name, perm=[*order[:-2], order[-1], order[-2]])
        given.append(name)
    return _scaled(file, file.node("MatMul", *given), operation.alpha)


@writes(operations.Contraction)
def contraction(file: GraphFile, operation: operations.Contraction) -> str:
    equation = f"{','.join(operation.letters)}->{operation.result}"
    return file.node("Einsum", *(file.use(x) for x in operation.inputs), equation=equation)


# Functions of elements that no layer computes.


def _truncated(file: GraphFile, x: str) -> str:
    return file.node("Mul", file.node("Sign", x), file.node("Floor", file.node("Abs", x)))


def _remainder(file: GraphFile, a: str, b: str) -> str:
    return file.node("Sub", a, file.node("Mul", b, file.node("Floor", file.node("Div", a, b))))


def _sinc(file: GraphFile, x: str) -> str:
    angle = file.node("Mul", x, file.number(math.pi))
    zero = file.node("Equal", x, file.number(0))
    apart = file.node("Where", zero, file.number(1), angle)
    return file.node("Where", zero, file.number(1), file.node("Div", file.node("Sin", apart), apart))


def _log_add_exp(file: GraphFile, a: str, b: str) -> str:
    apart = file.node("Neg", file.node("Abs", file.node("Sub", a, b)))
    return file.node("Add", file.node("Max", a, b), file.node("Softplus", apart))


def _hypotenuse(file: GraphFile, a: str, b: str) -> str:
    return file.node("Sqrt", file.node("Add", file.node("Mul", a, a), file.node("Mul", b, b)))


def _of_logic(op: str) -> _Writer:
    def write(file: GraphFile, *given: str) -> str:
        return file.node(op, *(file.node("Cast", x, to=file.onnx.TensorProto.BOOL) for x in given))

    return write


def _finite(file: GraphFile, x: str) -> str:
    return file.node("Not", file.node("Or", file.node("IsNaN", x), file.node("IsInf", x)))


_FUNCTIONS: dict[str, _Writer] = {
    "gt": _nodes("Greater"), "ge": _nodes("GreaterOrEqual"), "lt": _nodes("Less"), "le": _nodes("LessOrEqual"),
    "eq": _nodes("Equal"), "ne": _nodes("Equal", "Not"), "logical_and": _of_logic("And"), "logical_or": _of_logic("Or"),
    "logical_xor": _of_logic("Xor"), "logical_not": _of_logic("Not"), "isnan": _nodes("IsNaN"), "isinf": _nodes("IsInf"),
    "isfinite": _finite, "floor_divide": _nodes("Div", "Floor"), "trunc": _truncated,
    "frac": lambda file, x: file.node("Sub", x, _truncated(file, x)), "remainder": _remainder,
    "fmod": _nodes("Mod", fmod=1), "log1p": lambda file, x: file.node("Log", file.node("Add", x, file.number(1))),
    "expm1": lambda file, x: file.node("Sub", file.node("Exp", x), file.number(1)),
    "log10": lambda file, x: file.node("Mul", file.node("Log", x), file.number(1 / math.log(10))),
    "erfc": lambda file, x: file.node("Sub", file.number(1), file.node("Erf", x)), "sinc": _sinc,
    "hypot": _hypotenuse, "logaddexp": _log_add_exp,
}  # fmt: skip


@writes(Elementwise)
def elementwise(file: GraphFile, operation: Elementwise) -> str:
    if operation.function not in _FUNCTIONS:
        raise NoForm(f"the function {operation.function} has no form in ONNX")
    kinds = {x.dtype for x in operation.inputs}
    plain = len(kinds) == 1 and operation.function in MASKS
    given = [with_type(file, x, next(iter(kinds)) if plain else FLOAT32) for x in operation.inputs]
    y = _FUNCTIONS[operation.function](file, *given)
    return file.node("Cast", y, to=file.kind(operation.output)) if operation.function in MASKS else y


def with_type(file: GraphFile, x: Tensor, dtype: np.dtype[Any]) -> str:
    """The name of a value with elements of this type."""
    name = file.use(x)
    if x.dtype == dtype:
        return name
    types = file.onnx.TensorProto
    return file.node("Cast", name, to=types.FLOAT if dtype == FLOAT32 else types.INT64)


# Types and masks.


@writes(operations.CustomFunction)
def function(file: GraphFile, operation: operations.CustomFunction) -> Any:
    """Whole numbers and masks of networks from other libraries."""
    if operation.function is ByNumpy:
        recipe = operation.arguments[-1]
        writer = WRITERS.get(recipe.body)
        return node_again(file, operation, recipe) if writer is None else writer(file, operation)
    kinds = file.onnx.TensorProto
    given = [file.use(x) for x in operation.inputs]
    if operation.function is Not:
        zero = file.node("Equal", given[0], file.constant(np.zeros((), operation.inputs[0].dtype)))
        return file.node("Cast", zero, to=kinds.INT64)
    if operation.function is Determinant:
        return file.node("Det", *given)
    if operation.function is Forbid:
        return _forbidden(file, given[0], operation.inputs[0].dtype, allowed=False)
    if operation.function is Compare:
        names, arguments, dtype = iter(given), operation.arguments, operation.inputs[0].dtype
        a, b = (next(names) if hasattr(x, "storage") else file.constant(np.asarray(x, dtype)) for x in arguments[:2])
        return file.node("Cast", _FUNCTIONS[arguments[2]](file, a, b), to=kinds.INT64)
    raise NoForm("a function that is written in NumPy has no form in ONNX")


def node_again(file: GraphFile, operation: Operation, recipe: Recipe) -> list[str]:
    """A node of the ONNX model that the network was read from."""
    kinds, names, given = file.onnx.TensorProto, map(file.use, operation.inputs), []
    for x in recipe.tensors:
        if x is None:
            given.append("")
        elif isinstance(x.held, np.ndarray):
            given.append(file.constant(x.held.astype(np.int64) if x.kind == "i" else x.held))
        else:
            name = next(names)
            given.append(file.node("Cast", name, to=kinds.BOOL) if x.kind == "b" else name)
    attributes = {
        key: file.onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in recipe.call.node.attributes.items()
    }
    made = _in_newer_form(file, recipe.call, given, operation.outputs, attributes)
    return [
        file.node("Cast", name, to=kinds.FLOAT if value.dtype == np.float32 else kinds.INT64)
        for name, value in zip(made, operation.outputs, strict=True)
    ]


@writes(in_small_float)
def small_float(file: GraphFile, operation: operations.CustomFunction) -> str:
    call = operation.arguments[-1].call
    kind = call.integer("to", 0) or call.integer("output_dtype", 0)
    rounded = file.node("Cast", file.use(operation.inputs[0]), to=kind, saturate=call.integer("saturate", 1))
    return file.node("Cast", rounded, to=file.onnx.TensorProto.FLOAT)


def _in_newer_form(
    file: GraphFile, call: Call, given: list[str], outputs: Sequence[Tensor], attributes: dict[str, Any]
) -> list[str]:
    """A node whose file may have an older opset than the one that is written."""
    if call.op == "Hardmax" and call.opset < 13:  # over all axes from this one on
        rows = file.node("Flatten", *given, axis=call.integer("axis", 1))
        return [file.reshaped(file.node("Hardmax", rows, axis=1), outputs[0].shape)]
    for name in OPERATORS[call.op].once_attributes:
        if name in attributes:
            given = [*given, file.integers(attributes.pop(name))]
    if call.op == "Split" and len(given) == 1:
        attributes["num_outputs"] = len(outputs)
    return file.several({"Scatter": "ScatterElements"}.get(call.op, call.op), given, len(outputs), **attributes)


def _forbidden(file: GraphFile, x: str, dtype: Any, allowed: bool) -> str:
    """0 where ``x`` is (or is not) zero, and minus infinity elsewhere."""
    zero = file.node("Equal", x, file.constant(np.zeros((), dtype)))
    ends = [file.number(0), file.number(-math.inf)]
    return file.node("Where", zero, *(ends if allowed else ends[::-1]))


@writes(operations.Forbidden)
def forbidden(file: GraphFile, operation: operations.Forbidden) -> str:
    return _forbidden(file, file.use(operation.inputs[0]), operation.inputs[0].dtype, allowed=True)

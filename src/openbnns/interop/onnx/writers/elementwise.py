"""Activations, arithmetic and other functions of elements, reductions, products, types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import ActivationFunction
from ....graph import operations
from ....graph.operation import Operation
from ....graph.tensor import FLOAT32, Tensor
from ...converted.functions import Determinant, Forbid
from ...converted.rows import written
from .. import rows
from .._call import Call
from .._file import type_number
from .._graph_file import GraphFile
from .._operator import OPERATORS
from ..errors import NoForm
from ..operators.elementwise import in_small_float
from ..tensor import ByNumpy, Recipe
from ._registry import WRITERS, writes

_ActivationWriter = Callable[[GraphFile, str, ActivationFunction], str]


def _named(op: str) -> _ActivationWriter:
    return lambda file, x, f: file.node(op, x)


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
    cube = file.node("Mul", x, file.node("Mul", x, x))
    inner = _scaled(file, file.node("Add", x, _scaled(file, cube, f.beta)), f.alpha)
    return _scaled(file, file.node("Mul", x, file.node("Add", file.node("Tanh", inner), file.number(1))), 0.5)


def _softplus(file: GraphFile, x: str, f: ActivationFunction) -> str:
    return _scaled(file, file.node("Softplus", _scaled(file, x, f.beta)), f.alpha)


def _threshold(file: GraphFile, x: str, f: ActivationFunction) -> str:
    return file.node("Where", file.node("Greater", x, file.number(f.alpha)), x, file.number(f.beta))


def _clamped_leaky(file: GraphFile, x: str, f: ActivationFunction) -> str:
    return file.node("Min", file.node("LeakyRelu", x, alpha=float(f.alpha)), file.number(f.beta))


def _gated(factor: float) -> _ActivationWriter:
    return lambda file, x, f: file.node("Mul", x, file.node("Sigmoid", _scaled(file, x, factor)))


_ACTIVATIONS: dict[str, _ActivationWriter] = {
    "identity": _named("Identity"), "abs": _named("Abs"), "selu": _named("Selu"), "erf": _named("Erf"),
    "gelu_approximation2": _named("HardSwish"), "gelu_approximation": _gelu_tanh, "threshold": _threshold,
    "log_sigmoid": lambda file, x, f: file.node("Neg", file.node("Softplus", file.node("Neg", x))),
    "scaled_tanh": lambda file, x, f: _scaled(file, file.node("Tanh", _scaled(file, x, f.beta)), f.alpha),
    "linear": _linear, "linear_with_bias": _linear, "clamp": _clamp, "relu6": _clamp, "softplus": _softplus,
    "gelu_approximation_sigmoid": _gated(1.702), "silu": _gated(1.0),
    "hard_shrink": lambda file, x, f: file.node("Shrink", x, lambd=abs(float(f.alpha)), bias=0.0),
    "soft_shrink": lambda file, x, f: file.node("Shrink", x, lambd=float(f.alpha), bias=float(f.alpha)),
    "tanh_shrink": lambda file, x, f: file.node("Sub", x, file.node("Tanh", x)),
    "clamped_leaky_rectified_linear": _clamped_leaky,
}  # fmt: skip
_ALONG_AXIS = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


@writes(operations.Activation)
def activation(file: GraphFile, operation: operations.Activation) -> str:
    x, f = operation.inputs[0], operation.function
    if f.case in _ALONG_AXIS:
        return file.node(_ALONG_AXIS[f.case], file.use(x), axis=operation.axis)
    negative = f.case == "threshold" and f.alpha < 0  # which readers need not take
    row = None if negative else written(rows.ACTIVATIONS, f)
    if row is not None:
        return file.node(row[0], file.use(x), **row[1])
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


_ROWS = {name: op for op, name in (rows.SEVERAL | rows.ARITHMETIC | rows.MASKS | rows.BITS).items()}
_FUNCTIONS: dict[str, _Writer] = {name: _nodes(op) for name, op in _ROWS.items()} | {
    "div": _nodes("Div"), "pow": _nodes("Pow"), "ne": _nodes("Equal", "Not"),
    "exp2": lambda file, x: file.node("Pow", file.number(2), x),
    "log2": lambda file, x: _scaled(file, file.node("Log", x), 1 / math.log(2)),
    "rsqrt": lambda file, x: file.node("Pow", x, file.number(-0.5)),
    "square": lambda file, x: file.node("Pow", x, file.number(2)),
    "multiply_add": lambda file, a, b, c: file.node("Add", file.node("Mul", a, b), c),
    "logical_and": _of_logic("And"), "logical_or": _of_logic("Or"), "logical_xor": _of_logic("Xor"),
    "logical_not": _of_logic("Not"), "isinf": _nodes("IsInf"), "isfinite": _finite, "floor_divide": _nodes("Div", "Floor"),
    "trunc": _truncated, "frac": lambda file, x: file.node("Sub", x, _truncated(file, x)), "remainder": _remainder,
    "fmod": _nodes("Mod", fmod=1), "log1p": lambda file, x: file.node("Log", file.node("Add", x, file.number(1))),
    "expm1": lambda file, x: file.node("Sub", file.node("Exp", x), file.number(1)),
    "log10": lambda file, x: file.node("Mul", file.node("Log", x), file.number(1 / math.log(10))),
    "erfc": lambda file, x: file.node("Sub", file.number(1), file.node("Erf", x)), "sinc": _sinc,
    "hypot": _hypotenuse, "logaddexp": _log_add_exp,
}  # fmt: skip
_OF_INTEGERS = {name: _nodes(op) for name, op in _ROWS.items()} | {
    "trunc_divide": _nodes("Div"), "remainder": _nodes("Mod"), "fmod": _nodes("Mod", fmod=1),
    "square": lambda file, x: file.node("Mul", x, x),
    "matmul": _nodes("MatMul"), "multiply_add": lambda file, a, b, c: file.node("Add", file.node("Mul", a, b), c),
}  # fmt: skip
_REDUCED = {"sum": "ReduceSum", "prod": "ReduceProd", "amax": "ReduceMax", "amin": "ReduceMin"}


def _along_axes(file: GraphFile, operation: operations.Node) -> str:
    """A function of whole numbers along axes."""
    x, name = operation.inputs[0], operation.name
    if name == "cumsum":
        return file.node("CumSum", file.use(x), file.constant(np.asarray(operation.attributes[0], np.int64)))
    if name not in _REDUCED:
        raise NoForm(f"the function {name} of whole numbers has no form in ONNX")
    axes, keep = operation.attributes
    return file.node(_REDUCED[name], file.use(x), file.integers(axes), keepdims=int(keep))


@writes(operations.Node)
def node(file: GraphFile, operation: operations.Node) -> str:
    if operation.attributes:
        return _along_axes(file, operation)
    if operation.name == "where":
        return _selected(file, *map(file.use, operation.inputs))
    name, whole = operation.name, operation.output.dtype != FLOAT32
    write = (_OF_INTEGERS if whole else _FUNCTIONS).get(name)
    if write is None:
        raise NoForm(f"the function {name}{' of whole numbers' if whole else ''} has no form in ONNX")
    kinds = {x.dtype for x in operation.inputs}
    common = next(iter(kinds)) if len(kinds) == 1 else FLOAT32
    y = write(file, *(with_type(file, x, common) for x in operation.inputs))
    return file.node("Cast", y, to=file.kind(operation.output)) if operation.is_mask else y


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
    given = [file.use(x) for x in operation.inputs]
    if operation.function is Determinant:
        return file.node("Det", *given)
    if operation.function is Forbid:
        return _forbidden(file, given[0], operation.inputs[0].dtype, allowed=False)
    raise NoForm("a function that is written in NumPy has no form in ONNX")


def node_again(file: GraphFile, operation: Operation, recipe: Recipe) -> list[str]:
    """A node of the ONNX model that the network was read from."""
    kinds, names, given = file.onnx.TensorProto, map(file.use, operation.inputs), []
    wide = all(x is None or x.constant or x.kind != "i" or x.whole_type == np.int64 for x in recipe.tensors)
    for x in recipe.tensors:
        if x is None:
            given.append("")
        elif isinstance(x.held, np.ndarray):
            given.append(file.constant(x.held.astype(np.int64) if x.kind == "i" and wide else x.held))
        else:
            name, dtype = next(names), np.dtype(bool) if x.kind == "b" else x.whole_type
            given.append(name if x.kind == "f" or dtype == np.int64 else file.node("Cast", name, to=type_number(dtype)))
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

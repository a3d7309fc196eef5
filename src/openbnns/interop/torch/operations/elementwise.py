"""Elementwise functions: arithmetic, activations, masks, conversions of types."""

from __future__ import annotations

from typing import Any

from ....graph import functions as F
from ....graph.functions.base import applied
from ...converted.tensors import ForeignTensor, Misfit
from .._recording import Kind
from ._registry import Call, adapted, add, operation, plain, refuse_unless

ARITHMETIC = "arithmetic"
ACTIVATIONS = "activations"
MASKS = "masks and types"


def operand(given: Any, whole: bool = False) -> Any:
    """An operand that broadcasts with the others: a value, or a number; of ``whole`` numbers if that is asked for."""
    if isinstance(given, ForeignTensor):
        return given.whole if whole else given.broadcast
    return plain(given, "a number")


# Functions of one tensor.

_UNARY = [
    "neg", "abs", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "square", "reciprocal", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erf", "erfc", "floor", "ceil", "sign",
    "log1p", "log10", "expm1", "sinc", "trunc", "frac",
]  # fmt: skip
_ALIASES = {"negative": "neg", "absolute": "abs", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "fix": "trunc"}


def _unary(function: Any) -> Any:
    def handler(call: Call, input: ForeignTensor) -> Any:
        return function(operand(input, call.kinds[0] == "i"))

    return handler


for _name in _UNARY:
    add(ARITHMETIC, _name, _unary(getattr(F, _name)))
    if _name not in ("asinh", "acosh", "atanh"):  # which PyTorch cannot differentiate in place
        add(ARITHMETIC, f"{_name}_", _unary(getattr(F, _name)))
for _name, _other in _ALIASES.items():
    add(ARITHMETIC, _name, _unary(getattr(F, _other)))
add(ARITHMETIC, "__neg__", _unary(F.neg))
add(ARITHMETIC, "__abs__", _unary(F.abs))


@operation(ARITHMETIC, "round", "round_")
def round(call: Call, input: ForeignTensor, *, decimals: Any = 0) -> Any:
    places = plain(decimals, "decimals")
    if not places:
        return F.round(operand(input, call.kinds[0] == "i"))
    unit = 10.0 ** abs(places)
    up, down = (F.mul, F.div) if places > 0 else (F.div, F.mul)
    return down(F.round(up(input.broadcast, unit)), unit)


for _name in ("nan_to_num", "nan_to_num_"):
    add(ARITHMETIC, _name, adapted(F.nan_to_num))


# Functions of two.


def _two(call: Call, name: str, a: Any, b: Any) -> Any:
    """A function of two by its name here; of whole numbers if its result is one."""
    whole = call.kinds[0] == "i"
    return applied(name, operand(a, whole), operand(b, whole))


def _binary(name: str, swapped: bool = False) -> Any:
    def handler(call: Call, input: Any, other: Any) -> Any:
        return _two(call, name, *((other, input) if swapped else (input, other)))

    return handler


for _name in ("maximum", "minimum"):
    add(ARITHMETIC, _name, _binary(_name))
for _name in ("mul", "mul_", "multiply", "__mul__", "__rmul__", "__imul__"):
    add(ARITHMETIC, _name, _binary("mul"))


def _scaled(name: str, swapped: bool = False) -> Any:
    def handler(call: Call, input: Any, other: Any, *, alpha: Any = 1) -> Any:
        a, b = (other, input) if swapped else (input, other)
        factor = plain(alpha, "alpha")
        if factor != 1:
            b = ForeignTensor(_two(call, "mul", b, factor)) if isinstance(b, ForeignTensor) else b * factor
        return _two(call, name, a, b)

    return handler


for _name in ("add", "add_", "__add__", "__radd__", "__iadd__"):
    add(ARITHMETIC, _name, _scaled("add"))
for _name in ("sub", "sub_", "subtract", "__sub__", "__isub__"):
    add(ARITHMETIC, _name, _scaled("sub"))
for _name in ("rsub", "__rsub__"):
    add(ARITHMETIC, _name, _scaled("sub", swapped=True))


@operation(ARITHMETIC, "div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__")
def div(call: Call, input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    refuse_unless("rounding_mode", rounding_mode, None, "floor", "trunc")
    if rounding_mode == "floor":
        return _two(call, "floor_divide", input, other)
    if rounding_mode == "trunc" and call.kinds[0] == "i":
        return _two(call, "trunc_divide", input, other)
    quotient = F.div(operand(input), operand(other))
    return quotient if rounding_mode is None else F.trunc(quotient)


for _name, _others in {
    "remainder": ("remainder_", "__mod__", "__imod__"),
    "floor_divide": ("floor_divide_", "__floordiv__", "__ifloordiv__"),
    "fmod": ("fmod_",),
    "atan2": ("atan2_", "arctan2"),
    "hypot": ("hypot_",),
    "logaddexp": (),
}.items():
    for _spelling in (_name, *_others):
        add(ARITHMETIC, _spelling, _binary(_name))
add(ARITHMETIC, "__rmod__", _binary("remainder", swapped=True))
add(ARITHMETIC, "__rfloordiv__", _binary("floor_divide", swapped=True))


@operation(ARITHMETIC, "__rtruediv__", "__rdiv__")
def rdiv(call: Call, input: Any, other: Any) -> Any:
    return F.div(operand(other), operand(input))


@operation(ARITHMETIC, "pow", "pow_", "__pow__", "__ipow__")
def pow(call: Call, input: Any, exponent: Any) -> Any:
    return _two(call, "pow", input, exponent)


@operation(ARITHMETIC, "__rpow__")
def rpow(call: Call, input: Any, other: Any) -> Any:
    return _two(call, "pow", other, input)


@operation(ARITHMETIC, "clamp", "clamp_", "clip", "clip_")
def clamp(call: Call, input: ForeignTensor, min: Any = None, max: Any = None) -> Any:
    whole = call.kinds[0] == "i"
    low, high = (None if end is None else operand(end, whole) for end in (min, max))
    return F.clamp(operand(input, whole), low, high)


@operation(ARITHMETIC, "clamp_min", "clamp_min_")
def clamp_min(call: Call, input: ForeignTensor, min: Any) -> Any:
    return _two(call, "maximum", input, min)


@operation(ARITHMETIC, "clamp_max", "clamp_max_")
def clamp_max(call: Call, input: ForeignTensor, max: Any) -> Any:
    return _two(call, "minimum", input, max)


@operation(ARITHMETIC, "addcmul", "addcmul_")
def addcmul(call: Call, input: ForeignTensor, tensor1: ForeignTensor, tensor2: ForeignTensor, *, value: Any = 1) -> Any:
    a, b, c = (operand(x) for x in (input, tensor1, tensor2))
    return F.addcmul(a, b, c, value=plain(value, "value"))


@operation(ARITHMETIC, "lerp", "lerp_")
def lerp(call: Call, input: ForeignTensor, end: ForeignTensor, weight: Any) -> Any:
    return F.lerp(operand(input), operand(end), operand(weight))


# Activations.

_ACTIVATIONS = [
    "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish",
    "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "tanhshrink", "softsign",
]  # fmt: skip


def _activation(function: Any) -> Any:
    def handler(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
        named.pop("inplace", None)
        chosen = [plain(option, "an option") for option in options]
        if chosen and isinstance(chosen[-1], bool):  # inplace, which makes no difference
            chosen.pop()
        return function(input.numbers, *chosen, **{name: plain(option, name) for name, option in named.items()})

    return handler


for _name in _ACTIVATIONS:
    add(ACTIVATIONS, f"F.{_name}", _activation(getattr(F, _name)))
for _name in ("relu", "sigmoid", "tanh", "selu", "celu"):
    add(ACTIVATIONS, _name, _activation(getattr(F, _name)))
for _name in ("relu_", "sigmoid_", "tanh_"):
    add(ACTIVATIONS, _name, _activation(getattr(F, _name[:-1])))
for _name in ("relu_", "leaky_relu_", "elu_", "selu_", "celu_", "hardtanh_", "threshold_"):
    add(ACTIVATIONS, f"F.{_name}", _activation(getattr(F, _name[:-1])))
add(ACTIVATIONS, "special.expit", _activation(F.sigmoid))
add(ACTIVATIONS, "F.logsigmoid", _activation(F.logsigmoid))
add(ACTIVATIONS, "F.threshold", _activation(F.threshold))


@operation(ACTIVATIONS, "F.softplus")
def softplus(call: Call, input: ForeignTensor, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    return F.softplus(input.numbers, plain(beta, "beta"), plain(threshold, "threshold"))


@operation(ACTIVATIONS, "F.prelu")
def prelu(call: Call, input: ForeignTensor, weight: ForeignTensor) -> Any:
    return F.prelu(input.numbers, weight.numbers)


# Masks and types.


@operation(MASKS, "where")
def where(call: Call, condition: ForeignTensor, input: Any = None, other: Any = None) -> Any:
    if input is None or other is None:
        raise Misfit("the places where a condition holds are not known before there are numbers. Give both values")
    whole = call.kinds[0] == "i"
    return F.where(operand(condition), operand(input, whole), operand(other, whole))


@operation(MASKS, "masked_fill", "masked_fill_")
def masked_fill(call: Call, input: ForeignTensor, mask: ForeignTensor, value: Any) -> Any:
    whole = call.kinds[0] == "i"
    return F.where(operand(mask), operand(value, whole), operand(input, whole))


def _comparison(name: str) -> Any:
    def handler(call: Call, input: Any, other: Any) -> Any:
        return applied(
            name, *(x.elements if isinstance(x, ForeignTensor) else plain(x, "a number") for x in (input, other))
        )

    return handler


for _name in ("isnan", "isinf", "isfinite"):
    add(MASKS, _name, _unary(getattr(F, _name)))
for _name in ("logical_and", "logical_or", "logical_xor"):
    add(MASKS, _name, _comparison(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    add(MASKS, _name, _comparison(_name))
    add(MASKS, f"__{_name}__", _comparison(_name))
for _name, _other in (("and", "logical_and"), ("or", "logical_or"), ("xor", "logical_xor")):

    def _logical(call: Call, input: Any, other: Any, bits: str = f"bitwise_{_name}", name: str = _other) -> Any:
        return _two(call, bits, input, other) if call.kinds[0] == "i" else _comparison(name)(call, input, other)

    for _spelling in (f"__{_name}__", f"__r{_name}__", f"bitwise_{_name}"):
        add(MASKS, _spelling, _logical)


for _name, _other in (("left_shift", "lshift"), ("right_shift", "rshift")):
    for _spelling in (f"bitwise_{_name}", f"__{_other}__"):
        add(MASKS, _spelling, _binary(_name))
    add(MASKS, f"__r{_other}__", _binary(_name, swapped=True))
for _name in ("gcd", "lcm"):
    add(ARITHMETIC, _name, _binary(_name))


@operation(MASKS, "logical_not", "bitwise_not", "__invert__")
def logical_not(call: Call, input: ForeignTensor) -> Any:
    if input.kind != "b" and call.name != "logical_not":
        return F.sub(-1, input.whole)  # all bits turned
    return F.logical_not(input.elements)


_FLOATS = {"torch.float32", "torch.float64", "torch.float16", "torch.bfloat16", "torch.float", "torch.double"}
_INTEGERS = {"torch.int64", "torch.int32", "torch.long", "torch.int"}


def converted(input: ForeignTensor, kind: str) -> Any:
    """A tensor of numbers, whole numbers or booleans as one of another kind."""
    if kind == input.kind or (kind == "i" and input.kind == "b"):
        return input
    if kind == "f":
        return input.broadcast
    if kind == "b":
        return F.ne(input.elements, 0)
    return input.numbers.long()


@operation(MASKS, "byte")
def byte(call: Call, input: ForeignTensor, *, memory_format: Any = None) -> Any:
    """Whole numbers from 0 to 255, of which others are counted around."""
    number = input.numbers.long() if input.kind == "f" else input.whole
    return F.remainder(number, 256)


@operation(MASKS, "as_tensor", "asarray")
def as_tensor(call: Call, data: ForeignTensor, **named: Any) -> Any:
    return converted(data, call.kinds[0])


@operation(MASKS, "to", "type")
def to(call: Call, input: ForeignTensor, *options: Any, **named: Any) -> Any:
    named.pop("non_blocking", None), named.pop("copy", None), named.pop("memory_format", None)
    for option in [*options, *named.values()]:
        if not isinstance(option, (Kind, ForeignTensor, bool, str)):
            raise Misfit(f"{option!r} is a type that has no counterpart here")
    return converted(input, call.kinds[0])


@operation(MASKS, "float", "double", "half", "bfloat16", "long", "int", "short", "bool", "type_as")
def cast(call: Call, input: ForeignTensor, other: Any = None, *, memory_format: Any = None) -> Any:
    return converted(input, call.kinds[0])

"""Elementwise arithmetic of one, two or three operands, with broadcasting and a fused activation.

Operands and output are shapes, descriptors or arrays of 1 to 8 axes; all share one layout, which is C order (first
major) when only arrays are given. Along an axis sizes are equal or 1. The role of an operand says what its arrays are:

* ``DescriptorType.SAMPLE``: one sample, or a batch with one more axis in front;
* ``DescriptorType.PARAMETER``: one array for the whole batch, whose gradient is summed over the batch;
* ``DescriptorType.CONSTANT``: the same without a gradient.

At creation the number of axes of a sample is that of the shapes and descriptors, else that of the parameters and
constants, else it follows from the arrays: (n,) and (C, H, W) are one sample, (N, n) and (N, C, H, W) a batch. A
parameter or constant with fewer axes is repeated along the leading ones, as in NumPy. If it is given with data at
creation, that memory is used, by reference, whenever the operand is left out of a call.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from .._words import Caller
from ..abi.structs import (
    BNNSArithmeticBinary,
    BNNSArithmeticTernary,
    BNNSArithmeticUnary,
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSNDArrayDescriptor,
)
from ..errors import Problem
from ..filters.arithmetic import Arithmetic
from ..parameters.activation import AXIS_WISE
from ._methods import DECLARED, method
from ._ports import (
    Port,
    TensorLike,
    as_array,
    data_type,
    describe_sample,
    descriptor_for,
    first_major,
    require,
    sample_rank,
)
from .base import InputGradient, InputGradients, Layer
from .shape import Shape
from .types import (
    ActivationFunction,
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    DataLayout,
    DescriptorType,
)

__all__ = ["BinaryArithmeticLayer", "InputGradients3", "TernaryArithmeticLayer", "UnaryArithmeticLayer"]


class InputGradients3(NamedTuple):
    """The gradients of a layer with three inputs.

    >>> import numpy as np
    >>> from openbnns import *
    >>> v = Shape.vector(1)
    >>> layer = TernaryArithmeticLayer(
    ...     input_a=v, input_b=v, input_c=v, output=v, function=ArithmeticTernaryFunction.MULTIPLY_ADD
    ... )
    >>> a, b, c = np.float32([2]), np.float32([3]), np.float32([4])
    >>> [g.tolist() for g in layer.apply_backward(input_a=a, input_b=b, input_c=c, output_gradient=np.float32([1]))]
    [[3.0], [2.0], [1.0]]
    """

    input_a: Any = None
    input_b: Any = None
    input_c: Any = None


_OPERANDS = {"in": "input", "in1": "input_a", "in2": "input_b", "in3": "input_c", "out": "output"}
OPERAND_NAMES = (
    {
        "arithmetic_function": "function",
        "arithmetic_function_fields": "the operands",
        "BNNSSample": "DescriptorType.SAMPLE",
    }
    | _OPERANDS
    | {f"{field}_type": f"{name}_descriptor_type" for field, name in _OPERANDS.items()}
)
"""The names that constructors have for the fields of C that describe operands; a single one is ``in`` there."""


class _ArithmeticLayer(Layer):
    """The base of the three classes; ``_inputs`` are the names of the operands."""

    _names: ClassVar[dict[str, str]] = OPERAND_NAMES
    _inputs: ClassVar[tuple[str, ...]]
    _functions: ClassVar[type[enum.Enum]]
    _filter: Arithmetic

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()

    def _build(
        self, operands: list[Any], roles: list[DescriptorType], output: Any, output_role: DescriptorType, function: Any,
        activation: ActivationFunction | None, filter_parameters: BNNSFilterParameters | None,
    ) -> None:  # fmt: skip
        activation = ActivationFunction.identity() if activation is None else activation

        def make(who: Caller) -> Arithmetic:
            p, shapes, _ = describe_arithmetic(
                who, who, self._functions, function, self._inputs, operands, roles, output, output_role,
                fastest_first=int(activation.bnns_activation.function) in AXIS_WISE,
            )  # fmt: skip
            p.activation = activation.bnns_activation
            self._array_shapes = shapes
            return Arithmetic(p, filter_parameters, who)

        self._create(make, filter_parameters, activation)
        operands_by_name = dict(zip(self._inputs, self._filter.operands, strict=True))
        self._summary = {"function": function, **operands_by_name, "output": self._filter.output}
        if activation.case != "identity":
            self._summary["activation"] = activation

    def _choice(self, call: str, chosen: Any) -> int:
        return len(self._inputs)


class UnaryArithmeticLayer(_ArithmeticLayer):
    """y = f(op(x)), elementwise.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = UnaryArithmeticLayer(input=Shape.vector(2), function=ArithmeticUnaryFunction.SQUARE)
    >>> layer.apply(np.array([3, 4], np.float32))
    array([ 9., 16.], dtype=float32)
    >>> layer.apply_backward(input=np.float32([3, 4]), output_gradient=np.float32([1, 10])).input.tolist()
    [6.0, 80.0]
    """

    _inputs = ("input",)
    _functions = ArithmeticUnaryFunction

    def __init__(
        self,
        *,
        input: Any,
        input_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        output: Any = None,
        output_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        function: ArithmeticUnaryFunction,
        activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        self._build(
            [input], [input_descriptor_type], output, output_descriptor_type, function, activation, filter_parameters
        )

    @method("apply_arithmetic", leading=("input",), input="in[0]")
    def apply(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward."""
        raise DECLARED

    @method("apply_backward_arithmetic", returns=InputGradient, input="in[0]", generating_input_gradient="in_delta[0]")
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> InputGradient:
        """Run the layer backward. ``input`` may be left out where the derivative does not need it."""
        raise DECLARED


class BinaryArithmeticLayer(_ArithmeticLayer):
    """y = f(op(a, b)), elementwise with broadcasting.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = BinaryArithmeticLayer(
    ...     input_a=Shape.vector(2),
    ...     input_b=np.array([10, 20], np.float32),
    ...     input_b_descriptor_type=DescriptorType.PARAMETER,
    ...     function=ArithmeticBinaryFunction.MULTIPLY,
    ... )
    >>> layer.apply(np.array([[1, 2], [3, 4]], np.float32))
    array([[10., 40.],
           [30., 80.]], dtype=float32)
    >>> gradients = layer.apply_backward(input_a=np.float32([[1, 2], [3, 4]]), output_gradient=np.ones((2, 2), np.float32))
    >>> gradients.input_a.tolist(), gradients.input_b.tolist()  # that of a parameter is summed over the batch
    ([[10.0, 20.0], [10.0, 20.0]], [4.0, 6.0])
    """

    _inputs = ("input_a", "input_b")
    _functions = ArithmeticBinaryFunction

    def __init__(
        self,
        *,
        input_a: Any,
        input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        input_b: Any,
        input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        output: Any = None,
        output_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        function: ArithmeticBinaryFunction,
        activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        roles = [input_a_descriptor_type, input_b_descriptor_type]
        self._build([input_a, input_b], roles, output, output_descriptor_type, function, activation, filter_parameters)

    @method("apply_arithmetic", leading=("input_a", "input_b"), input_a="in[0]", input_b="in[1]")
    def apply(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward."""
        raise DECLARED

    @method(
        "apply_backward_arithmetic", returns=InputGradients, input_a="in[0]", input_b="in[1]",
        generating_input_a_gradient="in_delta[0]", generating_input_b_gradient="in_delta[1]",
    )  # fmt: skip
    def apply_backward(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_a_gradient: Any = None,
        generating_input_b_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> InputGradients:
        """Run the layer backward. An operand may be left out where the derivative does not need it."""
        raise DECLARED


class TernaryArithmeticLayer(_ArithmeticLayer):
    """y = f(op(a, b, c)), elementwise with broadcasting.

    >>> import numpy as np
    >>> from openbnns import *
    >>> shape, x = Shape.vector(2), np.array([2, 3], np.float32)
    >>> layer = TernaryArithmeticLayer(
    ...     input_a=shape, input_b=shape, input_c=shape, function=ArithmeticTernaryFunction.MULTIPLY_ADD
    ... )
    >>> layer.apply(x, x, x)
    array([ 6., 12.], dtype=float32)
    >>> dy = np.float32([1, 10])
    >>> [g.tolist() for g in layer.apply_backward(input_a=x, input_b=x, input_c=x, output_gradient=dy)]
    [[2.0, 30.0], [2.0, 30.0], [1.0, 10.0]]
    """

    _inputs = ("input_a", "input_b", "input_c")
    _functions = ArithmeticTernaryFunction

    def __init__(
        self,
        *,
        input_a: Any,
        input_a_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        input_b: Any,
        input_b_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        input_c: Any,
        input_c_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        output: Any = None,
        output_descriptor_type: DescriptorType = DescriptorType.SAMPLE,
        function: ArithmeticTernaryFunction,
        activation: ActivationFunction | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        roles = [input_a_descriptor_type, input_b_descriptor_type, input_c_descriptor_type]
        self._build(
            [input_a, input_b, input_c], roles, output, output_descriptor_type, function, activation, filter_parameters
        )

    @method(
        "apply_arithmetic", leading=("input_a", "input_b", "input_c"), input_a="in[0]", input_b="in[1]", input_c="in[2]"
    )
    def apply(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        input_c: TensorLike | None = None,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward."""
        raise DECLARED

    @method(
        "apply_backward_arithmetic", returns=InputGradients3, input_a="in[0]", input_b="in[1]", input_c="in[2]",
        generating_input_a_gradient="in_delta[0]", generating_input_b_gradient="in_delta[1]",
        generating_input_c_gradient="in_delta[2]",
    )  # fmt: skip
    def apply_backward(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        input_c: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_a_gradient: Any = None,
        generating_input_b_gradient: Any = None,
        generating_input_c_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> InputGradients3:
        """Run the layer backward. An operand may be left out where the derivative does not need it."""
        raise DECLARED


# Descriptions at creation.


def describe_arithmetic(
    who: Caller, own: Caller, functions: type[enum.Enum], function: Any, names: Sequence[str], operands: Sequence[Any],
    roles: Sequence[Any], output: Any, output_role: Any, *, fastest_first: bool = False, images: bool = False,
) -> tuple[BNNSLayerParametersArithmetic, dict[str, tuple[int, ...]], BNNSNDArrayDescriptor]:  # fmt: skip
    """The struct of an arithmetic layer, the array shapes of its operands, and its output.

    In messages ``who`` names operands and output, ``own`` everything else.
    With ``images``, arrays (C, H, W) get the layout that normalizations take.
    """
    require(function, functions, own("arithmetic_function"))
    for name, role in zip((*names, "output"), (*roles, output_role), strict=True):
        require(role, DescriptorType, own(f"{name}_descriptor_type"))
    rank, layout = common_form(operands, roles, output, names, who, fastest_first=fastest_first)
    if images and rank == 3 and not any(isinstance(v, (Shape, BNNSNDArrayDescriptor)) for v in (*operands, output)):
        layout = int(DataLayout.IMAGE_CHW.value)
    described = [
        describe_operand(value, f"{who}: {name}", rank, layout, role)
        for value, name, role in zip(operands, names, roles, strict=True)
    ]
    inputs = [d for d, _ in described]
    if output is None:
        y = broadcast_output(inputs, who)
    else:
        y, _ = describe_operand(output, f"{who}: output", rank, layout, output_role)
        y = y.copy()
        y.data = None
    block = operand_block(inputs, list(roles), y, output_role)
    p = BNNSLayerParametersArithmetic(arithmetic_function=function.value, arithmetic_function_fields=block)
    return p, {name: shape for name, (_, shape) in zip(names, described, strict=True)}, y


def common_form(
    operands: Sequence[Any], roles: Sequence[DescriptorType], output: Any, names: Sequence[str], who: Caller,
    *, fastest_first: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """Axes and layout that all operands share.

    With ``fastest_first``, the last axis of arrays is that of ``size[0]``, along which a softmax runs.
    """
    for value, name in zip((*operands, output), (*names, "output"), strict=True):
        if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
            view = Port(describe_sample(value, f"{who}: {name}")).view
            return view.layout.rank, int(view.layout.code)
    arrays = [as_array(v, f"{who}: {name}") for v, name in zip(operands, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if array.ndim == 0 or 0 in array.shape[1:] or array.shape == (0,):
            raise Problem(
                f"{who}: {name} has shape {array.shape}. Pass an array of 1 to 8 axes with at least one element."
            )
    shared = [a.ndim for a, role in zip(arrays, roles, strict=True) if role is not DescriptorType.SAMPLE]
    samples = [a.ndim for a, role in zip(arrays, roles, strict=True) if role is DescriptorType.SAMPLE]
    if not samples:
        rank = max(shared)
    elif not shared:
        rank = sample_rank(max(samples))
    else:
        rank = max(samples) if max(shared) == max(samples) else max(samples) - 1
    if not 1 <= rank <= 8:
        raise Problem(f"{who}: one sample has {rank} axes. Arithmetic takes 1 to 8.")
    first = int(first_major((1,) * rank).value)
    return rank, first & ~1 if fastest_first else first  # a LastMajor layout is the FirstMajor one without bit 0


def describe_operand(
    value: Any, who: str, rank: int, layout: int, role: DescriptorType
) -> tuple[BNNSNDArrayDescriptor, tuple[int, ...]]:
    """Descriptor of an operand, and the shape that its arrays have without a batch axis."""
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        descriptor = describe_sample(value, who)
        return descriptor, Port(descriptor).shape
    array = as_array(value, who)
    kind = data_type(array, who)
    if role is DescriptorType.SAMPLE:
        if array.ndim not in (rank, rank + 1):
            raise Problem(
                f"{who} has shape {array.shape}, but one sample has {rank} axes here, and a batch one more in front. "
                "Give every operand the same number of axes."
            )
        shape = array.shape[array.ndim - rank :]
        return descriptor_for(shape, layout, kind), shape
    if array.ndim > rank or array.ndim == 0:
        role_name = role.name.lower()
        raise Problem(f"{who} has shape {array.shape}, but a {role_name} has at most the {rank} axes of a sample.")
    if not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), but the layer uses it in "
            "place. Pass np.ascontiguousarray(...) of it, or a Shape here and the array at each call."
        )
    return descriptor_for((1,) * (rank - array.ndim) + array.shape, layout, kind, array), array.shape


def broadcast_output(operands: list[BNNSNDArrayDescriptor], who: Caller) -> BNNSNDArrayDescriptor:
    """The output of operands that broadcast against each other."""
    views = [Port(d).view for d in operands]
    if len({len(v.size) for v in views}) > 1:
        raise Problem(f"{who}: operands have {[len(v.size) for v in views]} axes. Give all the same number.")
    try:
        size = np.broadcast_shapes(*(v.size for v in views))
    except ValueError:
        sizes = ", ".join(str(v.size) for v in views)
        raise Problem(
            f"{who}: operands of size {sizes} do not broadcast. Along an axis sizes are equal or 1."
        ) from None
    return BNNSNDArrayDescriptor(layout=operands[0].layout, size=size, data_type=operands[0].data_type)


def operand_block(
    operands: list[BNNSNDArrayDescriptor],
    roles: list[DescriptorType],
    y: BNNSNDArrayDescriptor,
    output_role: DescriptorType,
) -> BNNSArithmeticUnary | BNNSArithmeticBinary | BNNSArithmeticTernary:
    """The C struct for one, two or three operands."""
    if len(operands) == 1:
        return BNNSArithmeticUnary(in_=operands[0], in_type=roles[0].value, out=y, out_type=output_role.value)
    fields: dict[str, Any] = {"out": y, "out_type": output_role.value}
    for i, (descriptor, role) in enumerate(zip(operands, roles, strict=True), start=1):
        fields |= {f"in{i}": descriptor, f"in{i}_type": role.value}
    kind: Any = BNNSArithmeticBinary if len(operands) == 2 else BNNSArithmeticTernary
    return cast("BNNSArithmeticBinary | BNNSArithmeticTernary", kind(**fields))

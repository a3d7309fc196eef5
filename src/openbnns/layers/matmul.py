"""Matrix products with broadcasting: C = alpha op(A) op(B), as a layer and as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersBroadcastMatMul, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.matmul import BroadcastMatMul, direct_filter, direct_names, multiply
from ..tensors.descriptors import resolve
from ._functions import function
from ._misuse import flag
from ._ports import (
    TensorLike,
    as_array,
    check_filter_parameters,
    data_type,
    descriptor_for,
    first_major,
    require_contiguous,
)
from ._product import ProductLayer, describe_operand
from .shape import Shape

__all__ = ["BroadcastMatrixMultiplyLayer", "apply_matrix_multiplication", "matrix_multiplication_workspace_size"]

_NAMES = {
    "transA": "input_a_transposed",
    "transB": "input_b_transposed",
    "a_is_weights": "input_a_is_weights",
    "b_is_weights": "input_b_is_weights",
    "quadratic": "is_quadratic",
    "beta": "accumulates_to_output",
    "iA_desc": "input_a",
    "iB_desc": "input_b",
    "o_desc.size": "the shape of output",
}


class BroadcastMatrixMultiplyLayer(ProductLayer):
    """C = alpha op(A) op(B); backward gives dA = alpha dC op(B)ᵀ and dB = alpha op(A)ᵀ dC, transposed back.

    op transposes the last two axes if ``input_a_transposed`` (``input_b_transposed``) is set. Axes in front of them are
    matched from the back; a missing one or one of size 1 is repeated, and its gradient is summed.

    Arrays, all float32, of one sample: ``input_a`` (..., m, k), or (..., k, m) if transposed; ``input_b`` (..., k, n) or
    (..., n, k); ``output`` (..., m, n). Calls take them with or without a batch axis in front. At creation they are shapes,
    descriptors or arrays *without* that axis; ``output`` may be left out.

    An operand that ``is_weights`` is given with its values at creation and left out of the calls; its gradient is summed
    over the batch. With ``is_quadratic`` the product is op_a(A) op_b(A), and there is no ``input_b``. With
    ``accumulates_to_output`` the product is added to what ``output`` holds.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = BroadcastMatrixMultiplyLayer(input_a=Shape([2, 3]), input_b=Shape([3, 2]))
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> layer.apply(a, np.eye(3, 2, dtype=np.float32))
    array([[0., 1.],
           [3., 4.]], dtype=float32)
    >>> dc = np.float32([[1, 0], [0, 0]])
    >>> layer.apply_backward(input_a=a, input_b=np.eye(3, 2, dtype=np.float32), output_gradient=dc).input_b.tolist()
    [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    """

    _names: ClassVar[dict[str, str]] = _NAMES
    _filter: BroadcastMatMul

    def __init__(
        self,
        *,
        input_a: Any,
        input_a_transposed: bool = False,
        input_a_is_weights: bool = False,
        input_b: Any = None,
        input_b_transposed: bool = False,
        input_b_is_weights: bool = False,
        output: Any = None,
        alpha: float = 1.0,
        accumulates_to_output: bool = False,
        is_quadratic: bool = False,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> BroadcastMatMul:
            a = describe_operand(
                input_a, f"{who}: input_a", is_weights=input_a_is_weights, filter_parameters=filter_parameters
            )
            if is_quadratic:
                if input_b is not None:
                    raise Problem(
                        f"{who}: input_b is given, but is_quadratic multiplies input_a by itself. Leave input_b out."
                    )
                b = a
            elif input_b is None:
                raise Problem(
                    f"{who}: input_b is left out. Pass it, or set is_quadratic to multiply input_a by itself."
                )
            else:
                b = describe_operand(
                    input_b, f"{who}: input_b", is_weights=input_b_is_weights, filter_parameters=filter_parameters
                )
            transposes = (bool(input_a_transposed), bool(input_b_transposed))
            y = _output(output, a, b, transposes, who)
            parameters = BNNSLayerParametersBroadcastMatMul(
                alpha=alpha, beta=float(flag(accumulates_to_output)), transA=transposes[0], transB=transposes[1],
                quadratic=bool(is_quadratic), a_is_weights=bool(input_a_is_weights),
                b_is_weights=bool(input_b_is_weights) and not is_quadratic, iA_desc=a,
                iB_desc=BNNSNDArrayDescriptor() if is_quadratic else b, o_desc=y,
            )  # fmt: skip
            self._weights_at = 0 if input_a_is_weights else 1 if input_b_is_weights and not is_quadratic else None
            return BroadcastMatMul(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        tensors = self._tensors()
        self._summary = {
            "input_a": tensors["input_a"], "input_a_transposed": input_a_transposed or None,
            "input_a_is_weights": input_a_is_weights or None, "input_b": tensors["input_b"],
            "input_b_transposed": input_b_transposed or None, "input_b_is_weights": input_b_is_weights or None,
            "output": tensors["output"], "alpha": alpha if alpha != 1.0 else None,
            "accumulates_to_output": accumulates_to_output or None, "is_quadratic": is_quadratic or None,
        }  # fmt: skip


def _output(
    output: Any, a: BNNSNDArrayDescriptor, b: BNNSNDArrayDescriptor, transposes: tuple[bool, bool], who: Caller
) -> BNNSNDArrayDescriptor:
    """The descriptor of the output: as given, or the C-order array of the product's shape."""
    if output is not None:
        y = describe_operand(output, f"{who}: output", is_weights=False, filter_parameters=None)
        y = y.copy()
        y.data = None
        return y
    shapes = [resolve(d, f"{who}: {name}").named_shape for d, name in ((a, "input_a"), (b, "input_b"))]
    for shape, name in zip(shapes, ("input_a", "input_b"), strict=True):
        if len(shape) < 2:
            raise Problem(f"{who}: {name} has the axes {shape}, but a matrix product needs rows and columns.")
    try:
        leading = np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2])
    except ValueError:
        leading = ()  # the filter says what does not fit
    rows = shapes[0][-1 if transposes[0] else -2]
    columns = shapes[1][-2 if transposes[1] else -1]
    shape = (*leading, rows, columns)
    return descriptor_for(shape, first_major(shape))


# Without a layer.


_DIRECT_NAMES = direct_names(_NAMES | {"inputA": "input_a", "inputB": "input_b"})


@function(_DIRECT_NAMES, writes="output")
def apply_matrix_multiplication(
    caller: Caller,
    input_a: TensorLike,
    input_b: TensorLike,
    output: TensorLike | None = None,
    *,
    input_a_transposed: bool = False,
    input_b_transposed: bool = False,
    alpha: float = 1.0,
    workspace: Any = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:
    """C = alpha op(A) op(B) in one call; axes in front of the last two are broadcast as in NumPy.

    ``input_a`` (..., m, k), ``input_b`` (..., k, n) and ``output`` (..., m, n) are arrays or descriptors with data of a
    floating-point type. ``output`` is written and returned; when left out it is a new array. ``workspace`` may be left
    out; no bytes of it are used.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_matrix_multiplication(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32), alpha=0.5)
    array([[1.5, 1.5],
           [1.5, 1.5]], dtype=float32)
    """
    transposes = (input_a_transposed, input_b_transposed)
    check_filter_parameters(filter_parameters, caller)
    described, given = _described(caller, input_a, input_b, output, transposes)
    multiply(caller, *transposes, alpha, described, filter_parameters)
    return given


@function(_DIRECT_NAMES)
def matrix_multiplication_workspace_size(
    caller: Caller,
    input_a: Any,
    input_b: Any,
    output: Any = None,
    *,
    input_a_transposed: bool = False,
    input_b_transposed: bool = False,
    alpha: float = 1.0,
    filter_parameters: BNNSFilterParameters | None = None,
) -> int | None:
    """Bytes of workspace that :func:`apply_matrix_multiplication` needs, which is 0; ``None`` if the shapes do not fit.

    Operands are shapes, descriptors or arrays; their data is not looked at.

    >>> from openbnns import *
    >>> matrix_multiplication_workspace_size(Shape([2, 3]), Shape([3, 2]))
    0
    """
    transposes = (input_a_transposed, input_b_transposed)
    try:
        check_filter_parameters(filter_parameters, caller)
        described, _ = _described(caller, input_a, input_b, output, transposes)
        direct_filter(caller, *transposes, alpha, described, filter_parameters)
    except Problem as problem:
        if problem.kind is TypeError:
            raise
        return None
    return 0


def _described(
    who: Caller, a: Any, b: Any, y: Any, transposes: tuple[bool, bool]
) -> tuple[Sequence[BNNSNDArrayDescriptor], Any]:
    """Descriptors with data of the three tensors, and the output as the caller knows it."""
    first, second = _with_data(a, f"{who}: input_a"), _with_data(b, f"{who}: input_b")
    if y is None:
        third = _output(None, first, second, transposes, who)
        view = resolve(first, f"{who}: input_a")
        third.data_type = first.data_type
        if view.element.kind == "float":
            y = np.empty(resolve(third, f"{who}: output").shape, view.element.numpy)
            third.data = y
        return (first, second, third), y
    return (first, second, _with_data(y, f"{who}: output", output=True)), y


def _with_data(value: Any, who: str, *, output: bool = False) -> BNNSNDArrayDescriptor:
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        return describe_operand(value, who, is_weights=False, filter_parameters=None)
    array = as_array(value, who)
    if not array.flags.c_contiguous:
        if output:
            require_contiguous(array, who)
        array = np.ascontiguousarray(array)
    if not 1 <= array.ndim <= 8:
        raise Problem(f"{who} has shape {array.shape}, but a tensor has 1 to 8 axes. Pass such an array.")
    return descriptor_for(array.shape, first_major(array.shape), data_type(array, who), array)

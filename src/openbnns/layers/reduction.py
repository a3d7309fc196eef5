"""Reductions as a layer and as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersReduction, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.reduction import Reduction
from ..tensors.descriptors import resolve
from ._functions import function as declared_function
from ._methods import DECLARED, method
from ._ports import (
    TensorLike,
    as_array,
    describe_sample,
    descriptor_for,
    first_major,
    require,
    require_contiguous,
    require_data,
    require_in_place,
    struct_of,
)
from .base import CREATION_NAMES, Gradients, UnaryLayer, client_pointer
from .types import DataType, ReductionFunction

__all__ = ["ReductionLayer", "apply_reduction"]


class ReductionLayer(UnaryLayer):
    """y = the values along some axes combined into one: sums, means, norms, extremes, positions, products, logical and / or.

    The reduced axes are those whose size is 1 in ``output``; ``output`` left out, ``axes`` names them (NumPy axes of one
    sample, all of them if left out too). ``weights``, an array in the shape of one sample, multiply the summands. With
    ``BNNSFlagsUseClientPtr`` the layer reads them from the caller's array at each call.

    Backward gives the gradients of input and weights; the weights' is summed over the batch. Positions and logical
    functions have none.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ReductionLayer(function=ReductionFunction.sum(), input=np.zeros((1, 2, 3, 4), np.float32), axes=(1, 2))
    >>> layer.apply(np.ones((5, 2, 3, 4), np.float32)).shape
    (5, 2, 1, 1)
    >>> dy = np.float32([[[[1]], [[2]]]])
    >>> layer.apply_backward(input=np.ones((1, 2, 3, 4), np.float32), output_gradient=dy).input[0, 1, 0].tolist()
    [2.0, 2.0, 2.0, 2.0]
    """

    _filter: Reduction
    _names: ClassVar[dict[str, str]] = {"reduce_func": "function"}

    def __init__(
        self,
        *,
        function: ReductionFunction,
        input: Any,
        output: Any = None,
        weights: Any = None,
        axes: Sequence[int] | int | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Reduction:
            _check_function(function, who)
            x = describe_sample(input, f"{who}: input")
            rank = len(resolve(x, f"{who}: input").size)
            y = _reduced_like(x, axes, who, function) if output is None else describe_sample(
                output, f"{who}: output", rank=rank
            )  # fmt: skip
            w = _weights(weights, x, f"{who}: weights", client_pointer(filter_parameters))
            parameters = struct_of(
                BNNSLayerParametersReduction, who, i_desc=x, o_desc=y, w_desc=w,
                reduce_func=function.bnns_reduce_function, epsilon=function.epsilon,
            )  # fmt: skip
            return Reduction(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "function": function, "input": self._filter.input, "output": self._filter.output, "weights": self._filter.weights,
        }  # fmt: skip

    @method("apply_backward", returns=Gradients)
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        generating_weights_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> Gradients:
        """Run the layer backward: the gradients with respect to input and weights.

        ``input`` is that of the forward call, needed by all functions but sums and means; ``output`` has no effect.
        """
        raise DECLARED


_NAMES = {"in": "input", "out": "output"} | CREATION_NAMES | ReductionLayer._names


@declared_function(
    _NAMES, writes="output", decides={"function": (ReductionFunction, "bnns_reduce_function", "epsilon")}
)
def apply_reduction(
    caller: Caller,
    function: ReductionFunction, input: TensorLike, output: TensorLike | None = None, weights: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None, *, axes: Sequence[int] | int | None = None,
) -> TensorLike:  # fmt: skip
    """Reduce one tensor over the axes that have size 1 in the output; left out, those of ``axes`` (all, if left out too).

    Axes are NumPy axes of an array, positions in ``size[]`` of a descriptor. A new output holds float32, positions int64,
    logical functions truth values.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_reduction(ReductionFunction.max(), np.array([[3, 9], [7, 1]], np.float32), axes=-1)
    array([[9.],
           [7.]], dtype=float32)
    """
    _check_function(function, caller)
    x = _whole(input, caller("input"))
    if output is None:
        y = _reduced_like(x, axes, caller, function, isinstance(input, BNNSNDArrayDescriptor))
        kind = DataType(y.data_type)
        y.data = output = np.empty(
            resolve(y, caller("output")).shape, np.bool_ if kind is DataType.BOOLEAN else kind.dtype
        )
    else:
        y = _whole(output, caller("output"), int(x.layout))
    w = _weights(weights, x, caller("weights"), True)
    parameters = struct_of(
        BNNSLayerParametersReduction, caller, i_desc=x, o_desc=y, w_desc=w,
        reduce_func=function.bnns_reduce_function, epsilon=function.epsilon,
    )  # fmt: skip
    made = Reduction(parameters, filter_parameters, caller)
    made.perform("apply", caller, 1, {"in": (x.data, 0), "out": (y.data, 0)})
    made.destroy()
    return output


def _check_function(function: Any, who: Caller) -> None:
    require(function, ReductionFunction, f"{who}: function", "ReductionFunction.sum()")


def _whole(value: Any, who: str, layout: int | None = None) -> BNNSNDArrayDescriptor:
    """A whole tensor with data; an array lists its axes in NumPy's order, or lies like a described input."""
    if isinstance(value, BNNSNDArrayDescriptor):
        require_data(value, who)
        return value
    array = as_array(value, who)
    if not 1 <= array.ndim <= 8 or array.size == 0:
        raise Problem(f"{who} has shape {array.shape}. Pass an array of 1 to 8 axes with at least one element.")
    if layout is not None:
        require_contiguous(array, who)
    try:
        kind = DataType.from_dtype(array.dtype)
    except TypeError as error:
        raise Problem(f"{who} is {array.dtype}. {error}", kind=TypeError) from None
    if layout is None or layout >> 16 != array.ndim:
        layout = int(first_major(array.shape).value)
    return descriptor_for(array.shape, layout, kind, np.ascontiguousarray(array))


def _weights(value: Any, x: BNNSNDArrayDescriptor, who: str, in_place: bool) -> BNNSNDArrayDescriptor | None:
    """The weights tensor; an array has the C-order shape of one sample of the input."""
    if value is None or (isinstance(value, BNNSNDArrayDescriptor) and value.data is None):
        return None
    if isinstance(value, BNNSNDArrayDescriptor):
        return describe_sample(value, who)
    array = as_array(value, who)
    shape = resolve(x, who).shape
    if array.shape != shape:
        raise Problem(f"{who} has shape {array.shape}, but weights have that of one sample of the input: {shape}.")
    if in_place:
        require_in_place(array, who)
    try:
        kind = DataType.from_dtype(array.dtype)
    except TypeError as error:
        raise Problem(f"{who} is {array.dtype}. {error}", kind=TypeError) from None
    return descriptor_for(array.shape, int(x.layout), kind, np.ascontiguousarray(array))


def _reduced_like(
    x: BNNSNDArrayDescriptor, axes: Any, who: Caller, function: ReductionFunction, in_size_order: bool = False
) -> BNNSNDArrayDescriptor:
    """The output that is left out: size 1 along NumPy axes of the sample, or axes of size[]."""
    view = resolve(x, f"{who}: input")
    shape = view.shape
    rank = len(shape)
    chosen = range(rank) if axes is None else list(axes) if hasattr(axes, "__iter__") else [axes]
    size = list(view.size if in_size_order else shape)
    for axis in chosen:
        if isinstance(axis, (bool, np.bool_)) or not isinstance(axis, (int, np.integer)):
            raise Problem(f"{who}: axes must be integers, not {type(axis).__name__}.", kind=TypeError)
        low = 0 if in_size_order else -rank
        if not low <= axis < rank:
            raise Problem(f"{who}: axes has {axis}, but there are axes {low} to {rank - 1}.")
        size[axis] = 1
    name = function.bnns_reduce_function.name
    kind = DataType.FLOAT32
    if "Arg" in name:
        kind = DataType.INT64
    elif "Logical" in name:
        kind = DataType.BOOLEAN
    if in_size_order:
        return BNNSNDArrayDescriptor(layout=x.layout, size=size, data_type=kind.value)
    return descriptor_for(tuple(size), int(x.layout), kind)

"""Entries of tensors gathered and scattered: arrays, whose axes are NumPy axes, or descriptors, whose axes are counted as their
layout does: in the order of ``size[]``, but rows first for RowMajorMatrix.

An output that is left out is a new array; one that is given is written and returned. A failed call raises
:class:`openbnns.LayerApplyError` and writes nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import engines
from .._words import Caller
from ..abi.enums import BNNSReduceFunction
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters import selection
from ._functions import function
from ._ports import TensorLike, descriptor_for, skip
from ._tensor_arguments import (
    NAMES,
    PLAIN,
    axis_of,
    check_batch,
    described,
    output_like,
    ranked_output,
    shape_of,
    view_of,
)  # fmt: skip
from .types import DataType, ReductionFunction

__all__ = ["TopK", "apply_in_top_k", "apply_top_k", "gather", "gather_nd", "scatter", "scatter_nd"]


class TopK(NamedTuple):
    """The largest values and where they are; ``indices`` is ``None`` when they were skipped.

    >>> import numpy as np
    >>> from openbnns import *
    >>> best = apply_top_k(2, np.float32([3, 9, 5]), axis=0)
    >>> best.values.tolist(), best.indices.tolist()
    ([9.0, 5.0], [1, 2])
    """

    values: Any
    indices: Any


@function(NAMES)
def gather(
    caller: Caller,
    input: TensorLike, indices: TensorLike, output: TensorLike | None = None, axis: int = 0,
    filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """Entries picked along one axis.

        indices (J,)                 y[.., j, ..] = x[.., indices[j], ..]
        indices in the shape of y    y[.., j, ..] = x[.., indices[.., j, ..], ..]

    An index outside the axis is an error, negative ones too.

    >>> import numpy as np
    >>> from openbnns import *
    >>> gather(np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([2, 0]), axis=-1)
    array([[3., 1.],
           [6., 4.]], dtype=float32)
    """
    if filter_parameters is None:
        target = _gathered_like(input, indices, axis) if output is None else output
        if _selected(_GATHER, input, target, indices, axis):
            return target
    x, idx = described(caller("input"), input), _indices(caller, indices, input)
    number = axis_of(caller, "axis", axis, input, x)
    shape = list(shape_of(x))
    if number < len(shape):
        flat = len(shape_of(idx)) == 1
        shape = [shape_of(idx)[0] if a == number else n for a, n in enumerate(shape)] if flat else list(shape_of(idx))
    y, result = output_like(caller("output"), output, x, shape)
    selection.gather(caller, number, x, idx, y, filter_parameters)
    return result


@function(NAMES)
def scatter(
    caller: Caller,
    input: TensorLike, indices: TensorLike, output: TensorLike, axis: int = 0,
    reduction_function: ReductionFunction | None = None, filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """Entries written, or with ``ReductionFunction.sum()`` added, at places along one axis; others keep their values.

        indices (J,)                 y[.., indices[j], ..] (+)= x[.., j, ..]
        indices in the shape of x    y[.., indices[.., j, ..], ..] (+)= x[.., j, ..]

    Where several entries meet, sums add all of them, and the last one stays otherwise.

    >>> import numpy as np
    >>> from openbnns import *
    >>> x, places = np.array([1, 2, 3], np.float32), np.array([0, 0, 2])
    >>> scatter(x, places, np.zeros(4, np.float32), reduction_function=ReductionFunction.sum())
    array([3., 0., 3., 0.], dtype=float32)
    """
    if filter_parameters is None:
        kind = _scattering(reduction_function, output)
        if kind is not None and _selected(kind, output, input, indices, axis):
            return output
    x, idx = described(caller("input"), input), _indices(caller, indices, input)
    y, result = output_like(caller("output"), _given(caller, output), x, shape_of(x))
    number = axis_of(caller, "axis", axis, output, y)
    selection.scatter(caller, number, _scatter_operation(caller, reduction_function), x, idx, y, filter_parameters)
    return result


@function(NAMES, writes="output")
def gather_nd(
    caller: Caller,
    input: TensorLike, indices: TensorLike, output: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """Elements or slices picked by index vectors: y[i...] = x[indices[i..., 0], ..., indices[i..., L-1]].

    ``indices`` (..., L) with 1 <= L <= rank of x; y has shape indices.shape[:-1] + x.shape[L:].

    >>> import numpy as np
    >>> from openbnns import *
    >>> x = np.arange(9, dtype=np.float32).reshape(3, 3)
    >>> gather_nd(x, np.array([[0, 0], [1, 2]]))
    array([0., 5.], dtype=float32)
    """
    x, idx = described(caller("input"), input), described(caller("indices"), indices)
    shape, vectors = shape_of(x), shape_of(idx)
    y, result = ranked_output(caller("output"), output, x, vectors[:-1] + shape[vectors[-1] :])
    selection.gather_nd(caller, x, idx, y, filter_parameters)
    return result


@function(NAMES, writes="output", decides={"reduction_function": (ReductionFunction, "bnns_reduce_function")})
def scatter_nd(
    caller: Caller,
    input: TensorLike, indices: TensorLike, output: TensorLike, reduction_function: ReductionFunction | None = None,
    filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """Elements or slices written or added at index vectors: y[indices[i..., 0], ...] (+)= x[i...].

    ``indices`` (..., L), x of shape indices.shape[:-1] + y.shape[L:]; the rules of :func:`scatter` hold.

    >>> import numpy as np
    >>> from openbnns import *
    >>> scatter_nd(np.array([7, 8], np.float32), np.array([[0, 1], [1, 0]]), np.zeros((2, 2), np.float32))
    array([[0., 7.],
           [8., 0.]], dtype=float32)
    """
    x, idx = described(caller("input"), input), described(caller("indices"), indices)
    given = _given(caller, output)
    y = described(caller("output"), given, None, output=True)
    operation = _scatter_operation(caller, reduction_function)
    selection.scatter_nd(caller, operation, x, idx, y, filter_parameters)
    return output


@function(NAMES)
def apply_top_k(
    caller: Caller,
    k: int, input: TensorLike, best_values: TensorLike | None = None, best_indices: Any = None, axis: int = -1,
    batch_size: int = 1, filter_parameters: BNNSFilterParameters | None = None
) -> TopK:  # fmt: skip
    """The k largest values along an axis, in descending order, and their indices (int64 when left out, or ``skip``).

    Of equal values the one with the lower index comes first. NaN is larger than every number. ``batch_size`` counts
    packed samples of descriptors.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_top_k(2, np.array([[3, 9, 1], [5, 5, 7]], np.float32))
    TopK(values=array([[9., 3.],
           [7., 5.]], dtype=float32), indices=array([[1, 0],
           [2, 0]]))
    """
    if filter_parameters is None and type(batch_size) is int and batch_size == 1:
        plain = _top_k(k, input, best_values, best_indices, axis)
        if plain is not None:
            return plain
    x = described(caller("input"), input)
    check_batch(caller, batch_size, input, best_values, best_indices)
    number = axis_of(caller, "axis", axis, input, x)
    shape = [k if a == number else n for a, n in enumerate(shape_of(x))]
    if best_values is None or best_indices is None:
        _check_k(caller, k, number, shape_of(x))
    values, largest = output_like(caller("best_values"), best_values, x, shape)
    places, where = (None, None) if best_indices is skip else output_like(
        caller("best_indices"), best_indices, x, shape, np.int64
    )  # fmt: skip
    selection.top_k(caller, k, number, batch_size, x, 0, values, 0, places, 0, filter_parameters)
    return TopK(largest, where)


@function(NAMES, writes="output")
def apply_in_top_k(
    caller: Caller,
    k: int, input: TensorLike, test_indices: TensorLike, output: TensorLike | None = None, axis: int = -1,
    batch_size: int = 1, filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:  # fmt: skip
    """True where the value at a test index is one of the k largest along the axis; ties at the boundary all count.

    ``test_indices`` and the result have the shape of the input without the axis, (1,) if nothing is left.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_in_top_k(1, np.array([[3, 9, 1], [5, 5, 7]], np.float32), np.array([1, 0]))
    array([ True, False])
    """
    x, tested = described(caller("input"), input), described(caller("test_indices"), test_indices)
    check_batch(caller, batch_size, input, test_indices, output)
    number = axis_of(caller, "axis", axis, input, x)
    if output is None:
        result: Any = np.empty(view_of(tested).shape, np.bool_)
        y = descriptor_for(result.shape, int(tested.layout), DataType.BOOLEAN, result)
    else:
        result = output
        y = described(caller("output"), output, None, output=True)
    selection.in_top_k(caller, k, number, batch_size, x, 0, tested, 0, y, 0, filter_parameters)
    return result


# Plain arrays, which kernels take as they are; anything else, mistakes included, goes the long way.

_GATHER, _WRITE, _ADD = -1, 0, 1


def _gathered_like(input: Any, indices: Any, axis: Any) -> Any:
    """A new array for the result of gathering, if everything is plain."""
    if type(input) is not np.ndarray or type(indices) is not np.ndarray or type(axis) is not int:
        return None
    if indices.ndim not in (1, input.ndim) or not -input.ndim <= axis < input.ndim or input.dtype not in PLAIN:
        return None
    shape = list(input.shape)
    shape[axis] = indices.shape[axis] if indices.ndim > 1 else len(indices)
    return np.empty(shape, input.dtype)


def _scattering(function: Any, output: Any) -> int | None:
    """The scatter mode for plain arrays: the last entry wins, or floats are added; None for anything else."""
    if function is None:
        return _WRITE
    if type(function) is not ReductionFunction or type(output) is not np.ndarray or output.dtype != np.float32:
        return None
    return _ADD if function.bnns_reduce_function is BNNSReduceFunction.BNNSReduceFunctionSum else None


def _selected(kind: int, whole: Any, part: Any, indices: Any, axis: Any) -> bool:
    """Gathers ``part`` from ``whole`` or scatters it there if these are plain arrays and the indices are right.

    Otherwise False, and nothing has been done.
    """
    if type(whole) is type(part) is type(indices) is np.ndarray and type(axis) is int and engines.is_native():
        return bool(engines._core.select_plain(kind, whole, part, indices, axis))
    return False


def _top_k(k: Any, input: Any, values: Any, indices: Any, axis: Any) -> TopK | None:
    """The largest values of a plain array, in new arrays where none are given; None if something is not plain."""
    if type(input) is not np.ndarray or type(k) is not int or type(axis) is not int or not engines.is_native():
        return None
    if not (-input.ndim <= axis < input.ndim and 1 <= k <= input.shape[axis] and input.dtype == np.float32):
        return None
    shape = [*input.shape]
    shape[axis] = k
    largest = np.empty(shape, np.float32) if values is None else values
    where = None if indices is skip else np.empty(shape, np.int64) if indices is None else indices
    if type(largest) is not np.ndarray or not (where is None or type(where) is np.ndarray):
        return None
    return TopK(largest, where) if engines._core.top_k_plain(k, input, largest, where, axis) else None


# Arguments.


def _given(caller: Caller, output: Any) -> Any:
    if output is None:
        raise Problem(
            f"{caller('output')} is None, but places that nothing is scattered to keep what it holds. Pass it."
        )
    return output


def _indices(caller: Caller, indices: Any, input: Any) -> BNNSNDArrayDescriptor:
    """Indices; an array with one per element of a described tensor lies like that one."""
    layout = int(input.layout) if isinstance(input, BNNSNDArrayDescriptor) else None
    return described(caller("indices"), indices, layout)


def _check_k(caller: Caller, k: Any, axis: int, shape: tuple[int, ...]) -> None:
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
        raise Problem(f"{caller('K')} must be an integer, not {type(k).__name__}.", kind=TypeError)
    if axis < len(shape) and not 1 <= k <= shape[axis]:
        raise Problem(f"{caller('K')} is {k}, but axis {axis} has {shape[axis]} entries: choose 1 to that many.")


def _scatter_operation(caller: Caller, function: Any) -> int:
    if function is None:
        return int(ReductionFunction.none().bnns_reduce_function)
    if not isinstance(function, ReductionFunction):
        raise Problem(
            f"{caller('op')} must be ReductionFunction.sum() or None, not {type(function).__name__}.", kind=TypeError
        )
    return int(function.bnns_reduce_function)

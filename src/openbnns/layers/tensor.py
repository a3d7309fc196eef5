"""Functions on whole tensors: arrays, whose axes are NumPy axes, or descriptors, whose axes are positions in ``size[]``.

An output that is left out is a new array; one that is given is written and returned. A failed call raises
:class:`openbnns.LayerApplyError` and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import engines
from ..capi.enums import BNNSReduceFunction
from ..capi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..descriptors import LAYOUTS, View, resolve
from ..errors import Problem
from ..filters import moves, selection
from ..filters._direct import logical_shape
from ..filters._tensors import Caller
from ._base import KnownFunction, attempt
from ._ports import DataProblem, TensorLike, as_array, descriptor_for, first_major, require, skip
from .types import DataType, ReductionFunction, RelationalOperator, ShuffleType

# How the C functions name their arguments, and how these name theirs.
_NAMES = {
    "src": "input", "dest": "to", "in0": "a", "in1": "b", "op": "reduction_function", "out": "output", "K": "k",
    "in_delta": "generating_input_gradient", "out_delta": "output_gradient", "num_lower": "lower_band_count",
    "num_upper": "upper_band_count", "filter_params": "filter_parameters",
}  # fmt: skip
_TRANSPOSE_NAMES = _NAMES | {"dest": "output", "axis0": "first_transpose_axis", "axis1": "second_transpose_axis"}
_BAND_PART_NAMES = _NAMES | {"output": "to"}
_WORDS = {"NULL": "None", "src": "input", "in0": "a"}


_COPY, _TRANSPOSE, _BAND_PART, _COMPARE, _TILE, _TILE_BACKWARD, _SHUFFLE, _GATHER_ND, _SCATTER_ND, _IN_TOP_K = (
    KnownFunction(_NAMES, _WORDS) for _ in range(10)
)


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


def copy(
    input: TensorLike, to: TensorLike | None = None, filter_parameters: BNNSFilterParameters | None = None
) -> TensorLike:
    """y = x for tensors of one logical shape: layouts, strides and element types may differ. They may not overlap.

    >>> import numpy as np
    >>> from openbnns import *
    >>> copy(np.array([[1, 2]], np.float32), np.zeros((1, 2), np.int8))
    array([[1, 2]], dtype=int8)
    """

    def work(caller: Caller) -> TensorLike:
        if filter_parameters is None and to is not None and _copied(input, to):
            return to
        x = _described(caller("src"), input)
        y, result = _output(caller("dest"), to, x, x.size)
        moves.copy(caller, y, x, filter_parameters)
        return result

    return _COPY("copy", work, (input, to, filter_parameters))


def transpose(
    input: TensorLike, output: TensorLike | None = None, first_transpose_axis: int = 0, second_transpose_axis: int = 1,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:  # fmt: skip
    """y = x with two axes swapped; the gradient of y, transposed the same way, is that of x.

    >>> import numpy as np
    >>> from openbnns import *
    >>> transpose(np.arange(6, dtype=np.float32).reshape(2, 3), first_transpose_axis=0, second_transpose_axis=-1)
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        if filter_parameters is None and output is not None and type(input) is np.ndarray:
            axes, rank = (first_transpose_axis, second_transpose_axis), input.ndim
            within = all(type(a) is int and -rank <= a < rank for a in axes)
            if within and _copied(input.swapaxes(*axes), output):
                return output
        x = _described(caller("src"), input)
        first = _axis(caller, "axis0", first_transpose_axis, input, x)
        second = _axis(caller, "axis1", second_transpose_axis, input, x)
        size = list(_sizes(x))
        if max(first, second) < len(size):
            size[first], size[second] = size[second], size[first]
        y, result = _output(caller("dest"), output, x, size)
        moves.transpose(caller, y, x, first, second, filter_parameters)
        return result

    key = (input, output, first_transpose_axis, second_transpose_axis, filter_parameters)
    return _TRANSPOSE("transpose", work, key, _TRANSPOSE_NAMES)


def copy_band_part(
    input: TensorLike, to: TensorLike | None = None, lower_band_count: int | None = None,
    upper_band_count: int | None = None, filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:  # fmt: skip
    """y[..., i, j] = x[..., i, j] if i - j <= lower and j - i <= upper, else 0; ``None`` keeps the whole triangle.

    >>> import numpy as np
    >>> from openbnns import *
    >>> copy_band_part(np.ones((3, 3), np.float32), lower_band_count=0, upper_band_count=1)
    array([[1., 1., 0.],
           [0., 1., 1.],
           [0., 0., 1.]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        x = _described(caller("src"), input)
        y, result = _output(caller("dest"), to, x, _sizes(x))
        lower, upper = (-1 if n is None else n for n in (lower_band_count, upper_band_count))
        moves.band_part(caller, lower, upper, x, y, filter_parameters)
        return result

    key = (input, to, lower_band_count, upper_band_count, filter_parameters)
    return _BAND_PART("copy_band_part", work, key, _BAND_PART_NAMES)


def compare(
    a: TensorLike, b: TensorLike | None, using: RelationalOperator, output: TensorLike | None = None
) -> TensorLike:
    """a op b for every pair of elements, as truth values; ``RelationalOperator.NOT`` takes ``a`` alone.

    Logical operators take every number but 0 for true. A comparison with NaN is false, but for NOT_EQUAL.

    >>> import numpy as np
    >>> from openbnns import *
    >>> a, b = np.array([1, 5, 3], np.float32), np.array([2, 5, 1], np.float32)
    >>> compare(a, b, using=RelationalOperator.GREATER_EQUAL)
    array([False,  True,  True])
    """

    def work(caller: Caller) -> TensorLike:
        require(using, RelationalOperator, caller("using"), "RelationalOperator.LESS")
        left = _described(caller("a"), a)
        like = int(left.layout) if isinstance(a, BNNSNDArrayDescriptor) else None
        right = None if b is None else _described(caller("b"), b, like)
        y, result = _output(caller("output"), output, left, _sizes(left), np.bool_)
        moves.compare(caller, left, right, using.value, y)
        return result

    return _COMPARE("compare", work, (a, output, b, _code(using, RelationalOperator)))


def tile(
    input: TensorLike, output: TensorLike | None = None, filter_parameters: BNNSFilterParameters | None = None,
    *, repeats: Sequence[int] | None = None,
) -> TensorLike:  # fmt: skip
    """y[i, j, ...] = x[i mod x.shape[0], j mod x.shape[1], ...]: copies of x side by side.

    Sizes of ``output`` are multiples of those of ``input``; left out, ``repeats`` tells how many copies each axis gets.

    >>> import numpy as np
    >>> from openbnns import *
    >>> tile(np.array([[1, 2]], np.float32), repeats=(2, 2))
    array([[1., 2., 1., 2.],
           [1., 2., 1., 2.]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        x = _described(caller("input"), input)
        size: Sequence[int] = _sizes(x)
        if output is None:
            if repeats is None or len(repeats) != len(size) or any(n < 1 for n in repeats):
                raise Problem(
                    f"{caller('output')} is left out, so repeats must hold {len(size)} numbers of copies, not {repeats}."
                )
            size = [n * copies for n, copies in zip(size, repeats, strict=True)]
        y, result = _output(caller("output"), output, x, size)
        moves.tile(caller, x, y, filter_parameters)
        return result

    return _TILE("tile", work, (input, output, repeats, filter_parameters))


def tile_backward(
    output_gradient: TensorLike, generating_input_gradient: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None, *, input_shape: Sequence[int] | None = None,
) -> TensorLike:  # fmt: skip
    """The gradient of tiling: dx = the sum of dy over all copies. ``input_shape`` is needed when dx is left out.

    >>> import numpy as np
    >>> from openbnns import *
    >>> tile_backward(np.array([[1, 2, 3], [10, 20, 30]], np.float32), input_shape=(1, 3))
    array([[11., 22., 33.]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        dy = _described(caller("out_delta"), output_gradient)
        if generating_input_gradient is None and input_shape is None:
            raise Problem(
                f"{caller('in_delta')} is left out, so input_shape must tell the shape of the tensor that was tiled."
            )
        size = _sizes(dy) if input_shape is None else tuple(input_shape)
        dx, result = _output(caller("in_delta"), generating_input_gradient, dy, size)
        moves.tile_backward(caller, dx, dy, filter_parameters)
        return result

    key = (output_gradient, generating_input_gradient, input_shape, filter_parameters)
    return _TILE_BACKWARD("tile_backward", work, key)


def shuffle(
    type: ShuffleType, input: TensorLike, output: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None, *, block_size: int | None = None,
) -> TensorLike:  # fmt: skip
    """Move data between channels and blocks of b x b pixels of images (N, C, H, W).

        PIXEL_SHUFFLE    y[n, c, h*b + i, w*b + j] = x[n, (c*b + i)*b + j, h, w]
        DEPTH_TO_SPACE   y[n, c, h*b + i, w*b + j] = x[n, (i*b + j)*C + c, h, w]

    PIXEL_UNSHUFFLE and SPACE_TO_DEPTH are their inverses, and their gradients. ``block_size`` is needed when the output
    is left out.

    >>> import numpy as np
    >>> from openbnns import *
    >>> shuffle(ShuffleType.PIXEL_SHUFFLE_NCHW, np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1), block_size=2)
    array([[[[0., 1.],
             [2., 3.]]]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        require(type, ShuffleType, caller("type"), "ShuffleType.PIXEL_SHUFFLE_NCHW")
        x = _described(caller("input"), input)
        size = _sizes(x) if output is not None else _shuffled_sizes(caller, type, _sizes(x), block_size)
        y, result = _output(caller("output"), output, x, size)
        moves.shuffle(caller, type.value, x, y, filter_parameters)
        return result

    key = (input, output, _code(type, ShuffleType), block_size, filter_parameters)
    return _SHUFFLE("shuffle", work, key)


def gather(
    input: TensorLike, indices: TensorLike, output: TensorLike | None = None, axis: int = 0,
    filter_parameters: BNNSFilterParameters | None = None,
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

    def work(caller: Caller) -> TensorLike:
        x, idx = _described(caller("input"), input), _indices(caller, indices, input)
        number = _axis(caller, "axis", axis, input, x)
        size = list(_sizes(x))
        if number < len(size):
            flat = len(_sizes(idx)) == 1
            size = [_sizes(idx)[0] if a == number else n for a, n in enumerate(size)] if flat else list(_sizes(idx))
        y, result = _output(caller("output"), output, x, size)
        selection.gather(caller, number, x, idx, y, filter_parameters)
        return result

    return _attempt("gather", work)


def scatter(
    input: TensorLike, indices: TensorLike, output: TensorLike, axis: int = 0,
    reduction_function: ReductionFunction | None = None, filter_parameters: BNNSFilterParameters | None = None,
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

    def work(caller: Caller) -> TensorLike:
        x, idx = _described(caller("input"), input), _indices(caller, indices, input)
        y, result = _output(caller("output"), _given(caller, output), x, _sizes(x))
        number = _axis(caller, "axis", axis, output, y)
        selection.scatter(caller, number, _scatter_operation(caller, reduction_function), x, idx, y, filter_parameters)
        return result

    return _attempt("scatter", work)


def gather_nd(
    input: TensorLike, indices: TensorLike, output: TensorLike | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:  # fmt: skip
    """Elements or slices picked by index vectors: y[i...] = x[indices[i..., 0], ..., indices[i..., L-1]].

    ``indices`` (..., L) with 1 <= L <= rank of x; y has shape indices.shape[:-1] + x.shape[L:].

    >>> import numpy as np
    >>> from openbnns import *
    >>> x = np.arange(9, dtype=np.float32).reshape(3, 3)
    >>> gather_nd(x, np.array([[0, 0], [1, 2]]))
    array([0., 5.], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        x, idx = _described(caller("input"), input), _described(caller("indices"), indices)
        shape = logical_shape(_view(x))
        vectors = logical_shape(_view(idx))
        y, result = _ranked_output(caller("output"), output, x, vectors[:-1] + shape[vectors[-1] :])
        selection.gather_nd(caller, x, idx, y, filter_parameters)
        return result

    return _GATHER_ND("gather_nd", work, (input, output, indices, filter_parameters))


def scatter_nd(
    input: TensorLike, indices: TensorLike, output: TensorLike, reduction_function: ReductionFunction | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:  # fmt: skip
    """Elements or slices written or added at index vectors: y[indices[i..., 0], ...] (+)= x[i...].

    ``indices`` (..., L), x of shape indices.shape[:-1] + y.shape[L:]; the rules of :func:`scatter` hold.

    >>> import numpy as np
    >>> from openbnns import *
    >>> scatter_nd(np.array([7, 8], np.float32), np.array([[0, 1], [1, 0]]), np.zeros((2, 2), np.float32))
    array([[0., 7.],
           [8., 0.]], dtype=float32)
    """

    def work(caller: Caller) -> TensorLike:
        x, idx = _described(caller("input"), input), _described(caller("indices"), indices)
        given = _given(caller, output)
        y = _described(caller("output"), given, None, output=True)
        operation = _scatter_operation(caller, reduction_function)
        selection.scatter_nd(caller, operation, x, idx, y, filter_parameters)
        return output

    function = getattr(reduction_function, "bnns_reduce_function", reduction_function)
    key = (input, output, indices, function, filter_parameters)
    return _SCATTER_ND("scatter_nd", work, key)


def apply_top_k(
    k: int, input: TensorLike, best_values: TensorLike | None = None, best_indices: Any = None, axis: int = -1,
    batch_size: int = 1, filter_parameters: BNNSFilterParameters | None = None,
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

    def work(caller: Caller) -> TopK:
        x = _described(caller("input"), input)
        _check_batch(caller, batch_size, input, best_values, best_indices)
        number = _axis(caller, "axis", axis, input, x)
        size = [k if a == number else n for a, n in enumerate(_sizes(x))]
        if best_values is None or best_indices is None:
            _check_k(caller, k, number, _sizes(x))
        values, found = _output(caller("best_values"), best_values, x, size)
        places, where = (None, None) if best_indices is skip else _output(
            caller("best_indices"), best_indices, x, size, np.int64
        )  # fmt: skip
        selection.top_k(caller, k, number, batch_size, x, 0, values, 0, places, 0, filter_parameters)
        return TopK(found, where)

    result: TopK = _attempt("apply_top_k", work)
    return result


def apply_in_top_k(
    k: int, input: TensorLike, test_indices: TensorLike, output: TensorLike | None = None, axis: int = -1,
    batch_size: int = 1, filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:  # fmt: skip
    """Whether the value at each test index is one of the k largest along the axis; ties at the boundary all count.

    ``test_indices`` and the result have the shape of the input without the axis, (1,) if nothing is left.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_in_top_k(1, np.array([[3, 9, 1], [5, 5, 7]], np.float32), np.array([1, 0]))
    array([ True, False])
    """

    def work(caller: Caller) -> TensorLike:
        x, tested = _described(caller("input"), input), _described(caller("test_indices"), test_indices)
        _check_batch(caller, batch_size, input, test_indices, output)
        number = _axis(caller, "axis", axis, input, x)
        if output is None:
            result: Any = np.empty(_view(tested).shape, np.bool_)
            y = descriptor_for(result.shape, int(tested.layout), DataType.BOOLEAN, result)
        else:
            result = output
            y = _described(caller("output"), output, None, output=True)
        selection.in_top_k(caller, k, number, batch_size, x, 0, tested, 0, y, 0, filter_parameters)
        return result

    return _IN_TOP_K("apply_in_top_k", work, (input, output, test_indices, k, axis, batch_size, filter_parameters))


# ---------------------------------------------------------------------------------------------------------------------
# Plain arrays, which kernels take as they are; anything else, mistakes included, goes the long way

_PLAIN = frozenset(np.dtype(t) for t in ["f2", "f4", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])


def _gathered_like(input: Any, indices: Any, axis: Any) -> Any:
    """A new array for the result of gathering, if everything is plain."""
    if type(input) is not np.ndarray or type(indices) is not np.ndarray or type(axis) is not int:
        return None
    if indices.ndim not in (1, input.ndim) or not -input.ndim <= axis < input.ndim or input.dtype not in _PLAIN:
        return None
    shape = list(input.shape)
    shape[axis] = indices.shape[axis] if indices.ndim > 1 else len(indices)
    return np.empty(shape, input.dtype)


_GATHER, _WRITE, _ADD = -1, 0, 1


def _scattering(function: Any, output: Any) -> int | None:
    """What plain arrays do where entries meet: the last one stays, or floats are added; None for anything else."""
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
    found = np.empty(shape, np.float32) if values is None else values
    where = None if indices is skip else np.empty(shape, np.int64) if indices is None else indices
    if type(found) is not np.ndarray or not (where is None or type(where) is np.ndarray):
        return None
    return TopK(found, where) if engines._core.top_k_plain(k, input, found, where, axis) else None


def _copied(source: Any, target: Any) -> bool:
    """Copies a plain array into another one; False if they are not that, and nothing has been done."""
    if type(source) is not np.ndarray or type(target) is not np.ndarray or not engines.is_native():
        return False
    fits = target.shape == source.shape and target.dtype == source.dtype and target.dtype in _PLAIN
    if not fits or not 1 <= target.ndim <= 8 or target.size == 0:
        return False
    flags = target.flags
    if not (flags.c_contiguous and flags.aligned and flags.writeable and source.flags.aligned):
        return False
    if np.may_share_memory(source, target):
        return False
    engines._core.strided_copy(
        target.ctypes.data, source.ctypes.data, target.itemsize, target.shape, target.strides, source.strides, 0
    )
    return True


# ---------------------------------------------------------------------------------------------------------------------
# Arguments


def _attempt(name: str, work: Callable[[Caller], Any], names: dict[str, str] = _NAMES) -> Any:
    return attempt(Caller(name, names), work, _WORDS)


def _code(value: Any, kind: type[Any]) -> Any:
    """The number of a choice, for the key of a known call."""
    return value.value if isinstance(value, kind) else value


def _view(descriptor: BNNSNDArrayDescriptor) -> View:
    return resolve(descriptor, "descriptor")


def _sizes(descriptor: BNNSNDArrayDescriptor) -> tuple[int, ...]:
    return _view(descriptor).size


def _given(caller: Caller, output: Any) -> Any:
    if output is None:
        raise Problem(
            f"{caller('output')} is None, but places that nothing is scattered to keep what it holds. Pass it."
        )
    return output


def _described(who: str, value: Any, layout: int | None = None, *, output: bool = False) -> BNNSNDArrayDescriptor:
    """A tensor as a descriptor; an array is in C order, an input that is not is copied."""
    if isinstance(value, BNNSNDArrayDescriptor):
        if value.data is None:
            raise DataProblem(f"{who}.data is NULL. Give the descriptor memory, or pass an array.")
        resolve(value, who)
        return value
    array = as_array(value, who)
    if not 1 <= array.ndim <= 8 or array.size == 0:
        raise Problem(f"{who} has shape {array.shape}. Pass an array of 1 to 8 axes with at least one element.")
    try:
        kind = DataType.from_dtype(array.dtype)
    except TypeError:
        raise Problem(
            f"{who} is {array.dtype}, which BNNS has no element type for. Pass float16, float32, bool, or integers of up to "
            "64 bits.",
            kind=TypeError,
        ) from None
    if output and not array.flags.c_contiguous:
        raise Problem(
            f"{who} of shape {array.shape} is not C-contiguous (strides {array.strides}), so results would be lost in a "
            "copy. Pass a C-contiguous array."
        )
    if layout is None or LAYOUTS[layout].rank != array.ndim:
        layout = int(first_major(array.shape).value)
    return descriptor_for(array.shape, layout, kind, np.ascontiguousarray(array))


def _indices(caller: Caller, indices: Any, input: Any) -> BNNSNDArrayDescriptor:
    """Indices; an array with one per element of a described tensor lies like that one."""
    layout = int(input.layout) if isinstance(input, BNNSNDArrayDescriptor) else None
    return _described(caller("indices"), indices, layout)


def _output(
    who: str, value: Any, x: BNNSNDArrayDescriptor, size: Sequence[int], dtype: Any = None
) -> tuple[BNNSNDArrayDescriptor, Any]:
    """An output in the layout of x as (descriptor, what to return); a new array of ``size``, in the order of size[]."""
    if value is not None:
        return _described(who, value, int(x.layout), output=True), value
    layout = LAYOUTS[int(x.layout)]
    shape = tuple(int(size[a]) for a in reversed(layout.stepped))
    return _new(who, shape, layout.code, x, dtype)


def _ranked_output(
    who: str, value: Any, x: BNNSNDArrayDescriptor, shape: tuple[int, ...]
) -> tuple[BNNSNDArrayDescriptor, Any]:
    """An output whose rank is not that of x; ``shape`` is in logical order."""
    if value is not None:
        return _described(who, value, None, output=True), value
    return _new(who, shape or (1,), int(first_major(shape or (1,)).value), x, None)


def _new(
    who: str, shape: tuple[int, ...], layout: int, x: BNNSNDArrayDescriptor, dtype: Any
) -> tuple[BNNSNDArrayDescriptor, Any]:
    if dtype is None:
        element = _view(x).element
        if element.numpy is None or element.kind in ("bfloat", "indexed"):
            raise Problem(f"{who} is left out, but NumPy has no {element.name}. Pass a descriptor.")
        dtype = np.bool_ if element.kind == "boolean" else element.numpy
    array = np.empty(shape, dtype)
    made = descriptor_for(shape, layout, DataType.from_dtype(dtype), array)
    if np.dtype(dtype) == _view(x).element.numpy:
        made.data_scale, made.data_bias = x.data_scale, x.data_bias
    return made, array


def _axis(caller: Caller, name: str, axis: Any, value: Any, descriptor: BNNSNDArrayDescriptor) -> int:
    """A position in size[]: of an array, whose descriptor lists NumPy's axes in order, or as given."""
    if isinstance(axis, (bool, np.bool_)) or not hasattr(axis, "__index__"):
        raise Problem(f"{caller(name)} must be an integer, not {type(axis).__name__}.", kind=TypeError)
    number, rank = int(axis), len(_sizes(descriptor))
    if isinstance(value, BNNSNDArrayDescriptor):
        if number < 0:
            raise Problem(
                f"{caller(name)} is {number}, but axes of a descriptor are positions in size[], 0 to {rank - 1}."
            )
        return number
    if not -rank <= number < rank:
        raise Problem(f"{caller(name)} is {number}, but there are axes {-rank} to {rank - 1}.")
    return number % rank


def _check_batch(caller: Caller, batch_size: Any, *values: Any) -> None:
    if batch_size != 1 and not all(isinstance(v, BNNSNDArrayDescriptor) or v is skip for v in values):
        raise Problem(
            f"{caller('batch_size')} is {batch_size}, but it counts samples of descriptors with data. Arrays have all their "
            "axes: leave it out."
        )


def _check_k(caller: Caller, k: Any, axis: int, size: tuple[int, ...]) -> None:
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
        raise Problem(f"{caller('K')} must be an integer, not {type(k).__name__}.", kind=TypeError)
    if axis < len(size) and not 1 <= k <= size[axis]:
        raise Problem(f"{caller('K')} is {k}, but axis {axis} has {size[axis]} entries: choose 1 to that many.")


def _scatter_operation(caller: Caller, function: Any) -> int:
    if function is None:
        return int(ReductionFunction.none().bnns_reduce_function)
    if not isinstance(function, ReductionFunction):
        raise Problem(
            f"{caller('op')} must be ReductionFunction.sum() or None, not {type(function).__name__}.", kind=TypeError
        )
    return int(function.bnns_reduce_function)


def _shuffled_sizes(caller: Caller, kind: ShuffleType, size: tuple[int, ...], block: Any) -> tuple[int, ...]:
    if not isinstance(block, (int, np.integer)) or block < 1:
        raise Problem(f"{caller('output')} is left out, so block_size must be the width of a block, not {block!r}.")
    if len(size) != 4:
        raise Problem(f"{caller('input')} has {len(size)} axes, but images (N, C, H, W) have 4.")
    block = int(block)
    n, c, h, w = size
    if kind in (ShuffleType.PIXEL_SHUFFLE_NCHW, ShuffleType.DEPTH_TO_SPACE_NCHW):
        return n, max(1, c // (block * block)), h * block, w * block
    return n, c * block * block, max(1, h // block), max(1, w // block)

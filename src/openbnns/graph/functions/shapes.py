"""Reshape, permute, expand and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from .. import operations
from ..sizes import Size, is_same, is_same_shape, product
from ..tensor import Tensor
from .base import TensorLike, axes_of, axis_of, function, value, with_shape

__all__ = [
    "expand", "flatten", "meshgrid", "moveaxis", "movedim", "permute", "repeat", "reshape", "squeeze", "swapdims",
    "transpose", "unflatten", "unsqueeze",
]  # fmt: skip


@function
def reshape(input: TensorLike, *shape: Any) -> Any:
    """The same elements in another shape; one size may be -1."""
    return value(input, "reshape").reshape(*shape)


@function
def flatten(input: TensorLike, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The axes from ``start_dim`` to ``end_dim`` as one."""
    x = value(input, "flatten")
    first, last = axis_of(x, start_dim, "flatten"), axis_of(x, end_dim, "flatten")
    if first > last:
        raise ValueError(f"flatten: start_dim {start_dim} is behind end_dim {end_dim}.")
    size = product(x.shape[first : last + 1])
    return x.reshape((*x.shape[:first], size, *x.shape[last + 1 :]))


@function
def unflatten(input: TensorLike, dim: int, sizes: Sequence[int]) -> Any:
    """An axis as several; one of ``sizes`` may be -1."""
    x = value(input, "unflatten")
    axis = axis_of(x, dim, "unflatten")
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@function
def squeeze(input: TensorLike, dim: Any = None) -> Any:
    """Remove the axes of size 1, or those of ``dim`` that have size 1.

    Without ``dim``, an axis of free size stays: a batch of one sample remains a batch.
    """
    x = value(input, "squeeze")
    axes = axes_of(x, dim, "squeeze")
    if dim is None:
        axes = tuple(axis for axis in axes if not isinstance(x.shape[axis], Size))
    kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes or n != 1)
    return with_shape(x, kept)


@function
def unsqueeze(input: TensorLike, dim: int) -> Any:
    """Add an axis of size 1 at ``dim``."""
    x = value(input, "unsqueeze")
    axis = axis_of(x, dim, "unsqueeze", extra=1)
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@function
def permute(input: TensorLike, *dims: Any) -> Any:
    """The axes in another order: axis k of the result is axis ``dims[k]`` of the input."""
    x = value(input, "permute")
    given = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = tuple(axis_of(x, d, "permute") for d in given)
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute: {tuple(given)} must name each axis of {x.shape} once.")
    if isinstance(x.producer, operations.Permute):  # two in a row are one, or none
        order, x = tuple(x.producer.order[axis] for axis in order), x.producer.inputs[0]
    if order == tuple(range(x.ndim)):
        return x
    moved = [axis for axis in order if not is_same(x.shape[axis], 1)]
    if moved == sorted(moved):  # only axes of size 1 change places
        return x.reshape(tuple(x.shape[axis] for axis in order))
    return x.graph.append(operations.Permute(x, order))


@function
def transpose(input: TensorLike, dim0: int, dim1: int) -> Any:
    """Exchange two axes."""
    x = value(input, "transpose")
    order = list(range(x.ndim))
    first, second = axis_of(x, dim0, "transpose"), axis_of(x, dim1, "transpose")
    order[first], order[second] = second, first
    return permute(x, order)


@function
def expand(input: TensorLike, *sizes: Any) -> Any:
    """Repeat along axes of size 1 up to these sizes, and along further axes in front; -1 keeps a size.

    ``token.expand(x.shape[0], -1, -1)`` gives a parameter (1, 1, D) to every sample of a batch.
    """
    x = value(input, "expand")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    own = [1] * (len(given) - x.ndim) + list(x.shape)
    wanted = [n if not isinstance(s, Size) and s == -1 else s for n, s in zip(own, given, strict=False)]
    if x.ndim > len(given) or any(not is_same(n, 1) and n not in (s, 1) for n, s in zip(own, wanted, strict=True)):
        raise ValueError(f"expand: {x.shape} cannot be repeated to {tuple(given)}. Only axes of size 1 can.")
    if is_same_shape(wanted, x.shape):
        return x
    return x.graph.append(operations.Expand(x, Tensor(x.graph, wanted, x.dtype)))


@function
def repeat(input: TensorLike, *sizes: Any) -> Any:
    """Copies side by side, so many along each axis: PyTorch's ``repeat``, NumPy's ``tile``."""
    x = value(input, "repeat")
    given = list(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    if len(given) < x.ndim:
        raise ValueError(f"repeat: {tuple(given)} must give a number of copies for each axis of {x.shape}.")
    for copies in given:
        if not isinstance(copies, Size) and (not hasattr(copies, "__index__") or copies < 0):
            raise ValueError(f"repeat: {copies!r} is not a number of copies. Pass integers of at least 0.")
    x = x.reshape((*[1] * (len(given) - x.ndim), *x.shape))
    for axis, copies in enumerate(given):
        if is_same(copies, 1):
            continue
        if is_same(x.shape[axis], 1):
            x = expand(x, *[copies if i == axis else -1 for i in range(x.ndim)])
        else:
            apart = x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))
            apart = expand(apart, *[copies if i == axis else -1 for i in range(apart.ndim)])
            x = apart.reshape((*x.shape[:axis], copies * x.shape[axis], *x.shape[axis + 1 :]))
    return x


@function
def movedim(input: TensorLike, source: Any, destination: Any) -> Any:
    """Move axes to other positions; the others keep their order."""
    x = value(input, "movedim")
    sources, targets = ([d] if hasattr(d, "__index__") else list(d) for d in (source, destination))
    if len(sources) != len(targets):
        raise ValueError(f"movedim: {source} and {destination} must name the same number of axes.")
    moved = {axis_of(x, t, "movedim"): axis_of(x, s, "movedim") for s, t in zip(sources, targets, strict=True)}
    if len(moved) != len(targets) or len(set(moved.values())) != len(sources):
        raise ValueError(f"movedim: {source} to {destination} names an axis twice.")
    others = iter(axis for axis in range(x.ndim) if axis not in moved.values())
    return permute(x, [moved[axis] if axis in moved else next(others) for axis in range(x.ndim)])


moveaxis = movedim


@function
def swapdims(input: TensorLike, dim0: int, dim1: int) -> Any:
    """Exchange two axes; the same as ``transpose``."""
    return transpose(input, dim0, dim1)


@function
def meshgrid(*tensors: TensorLike, indexing: Literal["ij", "xy"] = "ij") -> Any:
    """The coordinates of a grid, one value for each of several vectors; with "xy" the first two axes are exchanged."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    vectors = [value(x, "meshgrid") for x in given]
    if any(v.ndim > 1 for v in vectors):
        raise ValueError(f"meshgrid: {', '.join(str(v.shape) for v in vectors)} are not all vectors.")
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}. Use 'ij' or 'xy'.")
    vectors = [v.reshape((product(v.shape),)) for v in vectors]
    sizes = [v.shape[0] for v in vectors]
    grids = tuple(
        expand(v.reshape(tuple(sizes[i] if i == axis else 1 for i in range(len(sizes)))), *sizes)
        for axis, v in enumerate(vectors)
    )
    return tuple(transpose(v, 0, 1) for v in grids) if indexing == "xy" and len(sizes) > 1 else grids

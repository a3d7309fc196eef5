"""Embedding: each index is replaced by the entry of a dictionary that it names.

The dictionary is (entries, *item), indices are (N, *positions), the output is (N, *positions, *item).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..parameters.embedding import Embedding
from .activation import Array

Indices = npt.NDArray[np.integer]


@np.errstate(all="ignore")
def forward(indices: Indices, dictionary: Array, e: Embedding) -> Array:
    """out(pos, item) = dictionary(in(pos), item) * min(1, max_norm / norm(in(pos))), or 0 for the padding index.

    With renormalize_in_place the entries looked up are scaled in `dictionary`; the padding entry stays as it is.
    """
    _check_range(indices, len(dictionary))
    used = np.unique(indices)
    used = used[used != _padding(e)]
    read = dictionary if e.renormalize_in_place else dictionary.copy()
    if e.max_norm != 0.0:
        read[used] *= _scale(read[used], e)
    out: Array = read[indices]
    out[indices == _padding(e)] = 0.0
    return out


def backward(indices: Indices, dy: Array, entries: int, e: Embedding) -> Array:
    """d_dictionary (entries, *item): the sum of dy over all positions, in the whole batch, that name an entry.

        out(pos, item) = dictionary(in(pos), item)
        d_dictionary(v, item) = sum over positions with in(pos) = v of dy(pos, item)      0 for the padding index
                                divided by the number of those positions with scale_by_frequency

    dy is (N, *positions, *item). The scale of max_norm is not differentiated: the gradient is that of the scaled entry.
    """
    _check_range(indices, entries)
    item = dy.shape[indices.ndim :]
    gradient = np.zeros((entries, *item))
    np.add.at(gradient, indices.reshape(-1), dy.reshape(indices.size, *item))
    if e.scale_by_frequency:
        lookups = np.bincount(indices.reshape(-1).astype(np.int64), minlength=entries)
        gradient /= _per_entry(np.maximum(lookups, 1).astype(np.float64), gradient)
    if 0 <= _padding(e) < entries:
        gradient[_padding(e)] = 0.0
    return gradient


def _scale(items: Array, e: Embedding) -> Array:
    """max_norm / norm of the items (count, *item) that exceed max_norm and 1 for the others, (count, 1, ...)."""
    norm = _norm(items.reshape(len(items), int(np.prod(items.shape[1:]))), e.norm_type or 2.0)
    return _per_entry(np.where(norm > e.max_norm, e.max_norm / norm, 1.0), items)


def _norm(rows: Array, p: float) -> Array:
    """The p-norm of every row; the largest magnitude is taken out so that its power cannot overflow."""
    if not p > 0.0:
        raise ValueError(f"embedding: norm_type = {p} is not the p of a p-norm; pass p > 0, or 0 for p = 2.")
    largest: Array = np.max(np.abs(rows), axis=1, initial=0.0)
    if np.isinf(p):
        return largest
    unit = np.where(largest > 0.0, largest, 1.0)
    norm: Array = unit * np.sum((np.abs(rows) / unit[:, np.newaxis]) ** p, axis=1) ** (1.0 / p)
    return np.where(np.isinf(largest), largest, norm)


def _per_entry(values: Array, like: Array) -> Array:
    """values (entries,) as an array that broadcasts against like (entries, *item)."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def _padding(e: Embedding) -> int:
    return -1 if e.padding_index is None else e.padding_index


def _check_range(indices: Indices, entries: int) -> None:
    outside = np.argwhere((indices < 0) | (indices >= entries))
    if len(outside):
        position = tuple(int(k) for k in outside[0])
        raise ValueError(
            f"embedding: index {indices[position]} at position {position} lies outside the dictionary of {entries} "
            f"entries. Pass indices from 0 to {entries - 1}."
        )

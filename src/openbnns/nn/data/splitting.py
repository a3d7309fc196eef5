"""Splits into training, validation and test samples."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ...files.untrusted import DataError
from ...graph.tensor import Array
from .targets import is_one_hot


def three_parts(y: Array, test: int, validation: int, seed: int) -> tuple[Array, Array, Array]:
    """The numbers of the samples to train on, to validate with and to test with, each in order.

    All have about the same share of every class, if there are classes.
    """
    tested, validated, trained = map(np.sort, np.split(stratified(y, seed), np.cumsum([test, validation])))
    return trained, validated, tested


def fingerprint(parts: dict[str, Array]) -> str:
    """A hash that identifies a split."""
    digest = hashlib.sha256()
    for name, rows in parts.items():
        digest.update(f"{name} {len(rows)} ".encode())
        digest.update(np.ascontiguousarray(rows, "<i8").tobytes())
    return digest.hexdigest()


def split_rows(y: Array, share: Any, seed: int, who: str) -> tuple[Array, Array]:
    """The numbers of the samples of a share of them, with about that share of every class, and of the rest; both in order."""
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not 0 < share < 1:
        raise ValueError(f"{who} is {share!r}. It must be a share of the samples, above 0 and below 1.")
    count = round(float(share) * len(y))
    if not 0 < count < len(y):
        raise DataError(
            f"{who} is {share}, which is {count} of {len(y)} samples. Leave some for training and for validation."
        )
    chosen, rest = map(np.sort, np.split(stratified(np.asarray(y), seed), [count]))
    return chosen, rest


def stratified(y: Array, seed: int) -> Array:
    """The samples in an order of which every stretch has about the same share of each class.

    The last sample of a class comes at the very end, so that a rare class is trained on before it is tested.
    """
    order = np.random.RandomState(seed).permutation(len(y))
    if is_one_hot(y):
        y = y.argmax(axis=1)
    elif y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or (y.dtype.kind == "f" and (y != np.round(y)).any()):
        return order  # no classes
    _, codes, sizes = np.unique(y[order], return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    grouped = np.argsort(codes, kind="stable")
    rank = np.empty(len(y))
    rank[grouped] = np.concatenate([np.arange(n) for n in sizes])
    size = sizes[codes]
    place = np.where(rank == size - 1, 1.0, (rank + 0.5) / size)
    return order[np.argsort(place, kind="stable")]

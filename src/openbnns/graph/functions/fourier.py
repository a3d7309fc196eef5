"""Fourier transforms. Complex numbers are a last axis of two, the real and the imaginary part, as of ``view_as_real`` in PyTorch.

``dim`` counts the other axes only: that of the pairs is never meant. ``norm`` is "backward", the default, "ortho" or "forward".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from .. import operations
from ..operations.fourier import Kind
from ..sizes import AnySize, Size, is_same
from ..tensor import Tensor
from .base import TensorLike, function, numbers

__all__ = ["fft", "fft2", "ifft", "ifft2", "irfft", "irfft2", "rfft", "rfft2"]

Norm = Literal["backward", "ortho", "forward"]


def _transformed(kind: Kind, input: TensorLike, n: Any, dim: Any, norm: str | None, who: str) -> Tensor:
    x = numbers(input, who)
    rank = x.ndim if kind == "rfft" else x.ndim - 1
    if kind != "rfft" and (x.ndim < 1 or not is_same(x.shape[-1], 2)):
        raise ValueError(
            f"{who}: {x.shape} must end in an axis of 2, the real and the imaginary part. For real numbers use rfft, or "
            "nn.functional.stack([x, nn.functional.zeros_like(x)], -1)."
        )
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -rank <= int(dim) < rank:
        raise ValueError(
            f"{who}: dim is {dim!r}, but {x.shape} has {rank} axes to transform, 0 to {rank - 1}"
            f"{'' if kind == 'rfft' else '; the last one, of real and imaginary parts, does not count'}."
        )
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"{who}: norm is {norm!r}. Use 'backward', 'ortho' or 'forward'.")
    axis = int(dim) % rank
    size: AnySize = x.shape[axis]
    if is_same(size, 0):
        raise ValueError(f"{who}: axis {axis} of {x.shape} is empty. There must be at least one entry to transform.")
    if n is None:
        n = 2 * (size - 1) if kind == "irfft" else size
    elif isinstance(n, (bool, Tensor)) or not hasattr(n, "__index__"):
        raise TypeError(f"{who}: n is {n!r}. Pass an integer.")
    n = n if isinstance(n, Size) else int(n)
    if n < 1:
        raise ValueError(f"{who}: n is {n}. There must be at least one entry to transform.")
    return x.graph.append(operations.FourierTransform(x, kind, axis, n, norm or "backward"))


@function
def fft(input: TensorLike, n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Any:
    """The Fourier transform of complex numbers (..., 2) along ``dim``, cut or filled up with zeros to ``n`` entries."""
    return _transformed("fft", input, n, dim, norm, "fft")


@function
def ifft(input: TensorLike, n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Any:
    """The way back from :func:`fft`."""
    return _transformed("ifft", input, n, dim, norm, "ifft")


@function
def rfft(input: TensorLike, n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Any:
    """The Fourier transform of real numbers along ``dim``: n entries become n // 2 + 1 complex ones, (..., 2).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.rfft(np.float32([1, 0, -1, 0])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]
    """
    return _transformed("rfft", input, n, dim, norm, "rfft")


@function
def irfft(input: TensorLike, n: int | None = None, dim: int = -1, norm: Norm | None = None) -> Any:
    """The way back from :func:`rfft`, to ``n`` real numbers: 2 (m - 1) of m if left out."""
    return _transformed("irfft", input, n, dim, norm, "irfft")


def _pair(s: Any, dim: Any, who: str) -> tuple[Sequence[Any], Sequence[Any]]:
    sizes, axes = (None, None) if s is None else s, dim
    if len(sizes) != 2 or len(axes) != 2:
        raise ValueError(f"{who}: s is {s!r} and dim is {dim!r}. Both have two entries, one for each axis.")
    return sizes, axes


@function
def fft2(input: TensorLike, s: Any = None, dim: Any = (-2, -1), norm: Norm | None = None) -> Any:
    """The Fourier transform of complex numbers (..., 2) along two axes."""
    (rows, columns), (first, second) = _pair(s, dim, "fft2")
    return fft(fft(input, columns, second, norm), rows, first, norm)


@function
def ifft2(input: TensorLike, s: Any = None, dim: Any = (-2, -1), norm: Norm | None = None) -> Any:
    """The way back from :func:`fft2`."""
    (rows, columns), (first, second) = _pair(s, dim, "ifft2")
    return ifft(ifft(input, rows, first, norm), columns, second, norm)


@function
def rfft2(input: TensorLike, s: Any = None, dim: Any = (-2, -1), norm: Norm | None = None) -> Any:
    """The Fourier transform of real numbers along two axes, of which the last is halved; see :func:`rfft`."""
    (rows, columns), (first, second) = _pair(s, dim, "rfft2")
    return fft(rfft(input, columns, second, norm), rows, first, norm)


@function
def irfft2(input: TensorLike, s: Any = None, dim: Any = (-2, -1), norm: Norm | None = None) -> Any:
    """The way back from :func:`rfft2`."""
    (rows, columns), (first, second) = _pair(s, dim, "irfft2")
    return irfft(ifft(input, rows, first, norm), columns, second, norm)

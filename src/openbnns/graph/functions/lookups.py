"""Embedding lookups, one-hot encoding, dropout, detach and conversions of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import operations
from ..checks import probability
from ..parameter import Parameter
from ..tensor import Tensor
from .base import TensorLike, function, numbers, value


@function
def dropout(input: TensorLike, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """In training every element is 0 with probability p, else x / (1 - p); at inference y = x.

    Whether the network trains is known by the network itself; ``training=False`` switches dropout off for good.
    """
    rate, x = probability(p, "dropout: p"), numbers(input, "dropout")
    return x.graph.append(operations.Dropout(x.graph, x, rate)) if rate and training else x


@function
def detach(input: TensorLike) -> Any:
    """The same numbers, through which no gradient goes back."""
    x = numbers(input, "detach")
    return x.graph.append(operations.Detach(x))


@function
def as_numbers(input: TensorLike) -> Any:
    """The input as numbers to compute with: whole numbers become float32."""
    return numbers(input, "float")


@function
def as_integers(input: TensorLike) -> Any:
    """The input as whole numbers that may look something up; what stands behind the point is dropped."""
    x = value(input, "long")
    return x if x.dtype.kind == "i" else x.graph.append(operations.Convert(x, whole=True))


@function
def embedding(input: TensorLike, weight: Any, padding_idx: int | None = None) -> Any:
    """Rows of a parameter, a value or an array that stays as it is, by whole numbers; row ``padding_idx`` gets no gradient."""
    from .arithmetic import where
    from .comparisons import eq
    from .creation import arange
    from .shapes import unsqueeze

    x = value(input, "embedding").as_indices("embedding")
    if isinstance(weight, np.ndarray):
        weight = Parameter(weight, requires_grad=False)
    elif isinstance(weight, Parameter):
        x.graph.parameter(weight)
    elif isinstance(weight, Tensor) and weight.ndim == 2:
        rows = weight
        if padding_idx is not None:
            fixed = eq(arange(weight.shape[0]), padding_idx % weight.shape[0])
            rows = where(unsqueeze(fixed, 1), detach(weight), weight)
        return x.graph.append(operations.Take(rows, 0, x))
    else:
        raise TypeError(f"embedding: weight is a {type(weight).__name__}. Pass the nn.Parameter that holds the rows.")
    return x.graph.append(operations.Embedding(x.graph, x, weight, padding_idx))


@function
def one_hot(input: TensorLike, num_classes: int) -> Any:
    """Rows of zeros with a 1 at the place that each whole number names: (...) -> (..., num_classes).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.functional.one_hot(np.array([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    x = value(input, "one_hot").as_indices("one_hot")
    if isinstance(num_classes, bool) or not isinstance(num_classes, (int, np.integer)) or num_classes < 1:
        raise ValueError(f"one_hot: num_classes is {num_classes!r}. Pass the number of classes, at least 1.")
    rows = Parameter(np.eye(int(num_classes), dtype=np.float32), requires_grad=False)
    return x.graph.append(operations.Embedding(x.graph, x, rows, None))

"""Random tensors and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import operations
from ..checks import probability
from ..sizes import AnySize
from ..tensor import Tensor
from .base import TensorLike, creating, function, numbers, open_graph, value
from .creation import sizes_of
from .elementwise import lt
from .reductions import argsort

__all__ = ["bernoulli", "dropout", "rand", "rand_like", "randn", "randn_like", "randperm"]


def _random(sizes: Sequence[AnySize], *, normal: bool) -> Tensor:
    graph = open_graph()
    return graph.append(operations.RandomNumbers(graph, sizes, normal=normal))


@creating
def rand(*size: Any) -> Any:
    """Random numbers, uniform on [0, 1), that every pass draws anew; see :func:`randn`."""
    return _random(sizes_of(size, "rand"), normal=False)


@creating
def randn(*size: Any) -> Any:
    """Random numbers of the standard normal distribution, that every pass draws anew, in training and at inference.

    In training they follow from the seed of the trainer, like those of dropout.
    """
    return _random(sizes_of(size, "randn"), normal=True)


@creating
def rand_like(input: TensorLike) -> Any:
    """Random numbers, uniform on [0, 1), in the shape of the input."""
    return _random(value(input, "rand_like").shape, normal=False)


@creating
def randn_like(input: TensorLike) -> Any:
    """Random numbers of the standard normal distribution in the shape of the input; see :func:`randn`.

    >>> from openbnns import nn
    >>> class Latent(nn.Module):
    ...     def forward(self, mean, spread):
    ...         return mean + spread * nn.functional.randn_like(spread)
    """
    return _random(value(input, "randn_like").shape, normal=True)


@creating
def bernoulli(input: TensorLike) -> Any:
    """1 with the probability that each element of the input is, else 0; no gradient goes through."""
    x = numbers(input, "bernoulli")
    return lt(_random(x.shape, normal=False), x)


@creating
def randperm(n: Any) -> Any:
    """The whole numbers below ``n`` in an order that every pass draws anew: ``x[F.randperm(x.shape[0])]`` shuffles samples."""
    return argsort(_random(sizes_of([n], "randperm"), normal=False))


@function
def dropout(input: TensorLike, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """In training every element is 0 with probability p, else x / (1 - p); at inference y = x.

    Whether the network trains is known by the network itself; ``training=False`` switches dropout off for good.
    """
    rate, x = probability(p, "dropout: p"), numbers(input, "dropout")
    return x.graph.append(operations.Dropout(x.graph, x, rate)) if rate and training else x

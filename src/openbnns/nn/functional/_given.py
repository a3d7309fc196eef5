"""Functions that are layers with given parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...graph.functions.base import TensorLike, numbers
from ...graph.functions.eager import run_at_once
from ...graph.graph import current_graph
from ...graph.parameter import Parameter
from ...graph.tensor import Tensor

if TYPE_CHECKING:
    from ..module import Module


def given_shape(weight: Any, rank: int, who: str, axes: str) -> tuple[int, ...]:
    """The shape of weights that a function was given."""
    if not isinstance(weight, (Parameter, Tensor, np.ndarray)):
        raise TypeError(
            f"{who} is a {type(weight).__name__}. Pass an nn.Parameter, a value or an array that is not trained."
        )
    if len(weight.shape) != rank:
        raise ValueError(f"{who} has shape {weight.shape}, but must be {axes}.")
    return tuple(map(int, weight.shape))


def convolved(input: TensorLike, layer: Any, who: str, weight: Any, bias: Any) -> Any:
    """A convolution on a value with this weight and bias, parameters, arrays or computed values, in place of its own."""
    computed = any(isinstance(given, Tensor) for given in (weight, bias))
    if not computed and layer.axes < 3:
        return with_parameters(input, layer, who, weight=weight, bias=bias)

    def body(x: TensorLike, weight: TensorLike, bias: TensorLike) -> Any:
        kernels = numbers(weight, f"{who}: weight")
        added = None if bias is None else numbers(bias, f"{who}: bias")
        if added is not None and (added.ndim != 1 or added.shape[0] != layer.out_channels):
            raise ValueError(f"{who}: bias has shape {added.shape}, but ({layer.out_channels},) is needed.")
        return layer.applied(layer.checked(numbers(x, who)), kernels, added)

    graph = current_graph()
    if graph is not None:
        with graph.calling(function=who):
            return body(input, weight, bias)
    return run_at_once(body, (input, weight, bias), {})


def with_parameters(input: TensorLike, layer: Module, who: str, **parameters: Any) -> Any:
    """The layer on a value with these parameters in place of its own; None for those that it does without."""

    def body(x: TensorLike) -> Any:
        for name, parameter in parameters.items():
            setattr(layer, name, _held(parameter, graph is not None, f"{who}: {name}"))
        return layer.forward(numbers(x, who))

    graph = current_graph()
    if graph is not None:
        with graph.calling(function=who):
            return body(input)
    return run_at_once(body, (input,), {})


def _held(given: Any, recording: bool, who: str) -> Parameter | None:
    """A parameter of the network that is recorded; numbers become one that is not trained."""
    if given is None:
        return None
    if isinstance(given, Parameter) and recording:
        graph = current_graph()
        assert graph is not None
        graph.parameter(given)  # refuses those that the network does not know of
        return given
    if isinstance(given, Tensor):
        raise TypeError(f"{who} is a Tensor. Pass an nn.Parameter, or an array that is not trained.")
    return Parameter(given.data if isinstance(given, Parameter) else given, requires_grad=False)

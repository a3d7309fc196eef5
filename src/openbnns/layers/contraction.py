"""Tensor contractions: sums of products over named axes."""

from __future__ import annotations

from typing import Any, ClassVar

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersTensorContraction, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.contraction import TensorContraction, parse
from ..parameters.contraction import Expression, output_shape
from ..tensors.descriptors import resolve
from ._misuse import flag
from ._ports import descriptor_for, first_major
from ._product import ProductLayer, describe_operand

__all__ = ["TensorContractionLayer"]


class TensorContractionLayer(ProductLayer):
    """out = alpha Σ of the product of the operands, over the indices that the output lacks.

    ``operation`` names the axes of every tensor: ``"a_ik, b_kj -> c_ij"`` is the matrix product. ``*`` stands for any
    number of further axes, in front of the letters or behind them: ``"a_*ik, b_*kj -> c_*ij"``. Axes with the same letter
    have the same size, or size 1 and are repeated. One operand: ``"a_ij -> c_ji"``, and ``input_b`` is left out.

    An operand named ``w`` is weights: given with its values at creation, left out of the calls, its gradient summed over the
    batch. The same name twice is one tensor contracted with itself: ``"x_ij, x_kj -> g_ik"``, and ``input_b`` is left out.

    Arrays, all float32, have one axis per index, in that order, with or without a batch axis in front. At creation
    ``input_a``, ``input_b`` and ``output`` are shapes, descriptors or arrays; ``output`` may be left out. With
    ``accumulates_to_output`` the result is added to what ``output`` holds.

    Backward gives, for each operand, alpha times the contraction of the output gradient with the other operand.

    >>> import numpy as np
    >>> from openbnns import *
    >>> from openbnns import Shape
    >>> layer = TensorContractionLayer(operation="a_ij, b_j -> c_i", input_a=Shape([2, 3]), input_b=Shape.vector(3))
    >>> layer.apply(np.ones((2, 3), np.float32), np.array([1, 2, 3], np.float32))
    array([6., 6.], dtype=float32)
    >>> a, b = np.ones((2, 3), np.float32), np.float32([1, 2, 3])
    >>> layer.apply_backward(input_a=a, input_b=b, output_gradient=np.float32([1, 10])).input_a.tolist()
    [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
    """

    _names: ClassVar[dict[str, str]] = {"iA_desc": "input_a", "iB_desc": "input_b", "beta": "accumulates_to_output"}
    _filter: TensorContraction

    def __init__(
        self,
        *,
        operation: str,
        input_a: Any,
        input_b: Any = None,
        output: Any = None,
        alpha: float = 1.0,
        accumulates_to_output: bool = False,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> TensorContraction:
            if not isinstance(operation, (str, bytes)):
                raise Problem(f"{who}: operation must be a string, not {type(operation).__name__}.", kind=TypeError)
            e = parse(operation, who)
            described = _describe(e, (input_a, input_b), filter_parameters, who)
            y = _output(e, output, described, who)
            parameters = BNNSLayerParametersTensorContraction(
                operation=operation, alpha=alpha, beta=float(flag(accumulates_to_output)), iA_desc=described[0],
                iB_desc=described[1] if len(described) > 1 else BNNSNDArrayDescriptor(), o_desc=y,
            )  # fmt: skip
            self._weights_at = e.weights
            return TensorContraction(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "operation": operation, **self._tensors(), "alpha": alpha if alpha != 1.0 else None,
            "accumulates_to_output": accumulates_to_output or None,
        }  # fmt: skip


def _describe(
    e: Expression, values: tuple[Any, Any], filter_parameters: BNNSFilterParameters | None, who: Caller
) -> list[BNNSNDArrayDescriptor]:
    described = []
    for k, (name, value) in enumerate(zip(("input_a", "input_b"), values, strict=True)):
        if k >= len(e.tensors):
            if value is not None:
                raise Problem(f"{who}: {name} is given, but {e.text!r} has one tensor on the left. Leave {name} out.")
            continue
        operand = e.tensors[k]
        if value is None:
            raise Problem(f"{who}: {name} is left out, but it is the operand {operand} of {e.text!r}. Pass it.")
        rank = None if operand.has_star else len(operand.letters)
        described.append(
            describe_operand(
                value, f"{who}: {name}", is_weights=k == e.weights, filter_parameters=filter_parameters, rank=rank
            )
        )
    return described


def _output(e: Expression, output: Any, described: list[BNNSNDArrayDescriptor], who: Caller) -> BNNSNDArrayDescriptor:
    """As given, or the C-order array of the shape that follows from the operands."""
    if output is not None:
        rank = None if e.output.has_star else len(e.output.letters)
        y = describe_operand(output, f"{who}: output", is_weights=False, filter_parameters=None, rank=rank).copy()
        y.data = None
        return y
    shapes = [
        (1, *resolve(d, f"{who}: {n}").named_shape) for d, n in zip(described, ("input_a", "input_b"), strict=False)
    ]
    try:
        shape = output_shape(e, shapes)[1:]
    except ValueError as error:
        raise Problem(f"{who}: {error}") from None
    if not 1 <= len(shape) <= 8:
        raise Problem(f"{who}: the output of {e.text!r} has {len(shape)} axes, but a tensor has 1 to 8.")
    return descriptor_for(shape, first_major(shape))

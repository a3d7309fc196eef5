"""Tensor contractions: out = alpha times the sum, over the indices absent from the output, of the product of the operands.

An expression such as ``"a_*ik, b_*kj -> c_*ij"`` names the axes, in logical order; its grammar is that of
:mod:`openbnns.parameters.contraction`. With beta 1 the sum is added to what the output holds.

    d(operand) = alpha * the contraction of dy with the other operand, in the operand's indices

Gradients of axes that are repeated (size 1) are summed. An operand named ``w`` is weights: one copy for the whole batch,
whose values lie in its descriptor and whose gradient is summed over the batch. The same name twice is one tensor,
contracted with itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersTensorContraction
from ..errors import Problem
from ..parameters.contraction import Expression, axis_numbers
from ..parameters.contraction import parse as parse_contraction
from ..reference import contraction as reference
from ._contraction import Contraction


class TensorContraction(Contraction):
    """A contraction of two inputs, of one input and weights, of one input with itself, or of one input alone."""

    family = "tensor contraction"

    def __init__(
        self, p: BNNSLayerParametersTensorContraction, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who, p.alpha, p.beta)
        self.expression = e = parse(p.operation, who)
        fields = (p.iA_desc, p.iB_desc)[: len(e.tensors)]
        names = ["iA_desc", "iB_desc"]
        views = [self.resolve(field, who(name)) for field, name in zip(fields, names, strict=False)]
        y = self.resolve(p.o_desc, who("o_desc"))
        shapes = [(1, *view.named_shape) for view in views]
        try:
            left, output = axis_numbers(e, shapes, (1, *y.named_shape))
        except ValueError as error:
            raise Problem(f"{who}: {error}") from None
        self.self_contraction = e.is_self_contraction
        self.output = self.operand(y)
        self.weights_first = e.weights == 0
        indices = [numbers[1:] for numbers in left]
        for k, view in enumerate(views):
            if k == e.weights:
                self.weights = self.parameter(view, fields[k], who, names[k])
            elif k == 1 and e.weights is None:
                self.second = self.operand(view)
            else:
                self.input = self.operand(view)
        self.set_up(indices[::-1] if self.weights_first else indices, output[1:])

    def _in_order(self, values: Sequence[Any]) -> list[Any]:
        """Input and weights as the expression has them, or back."""
        return list(values[::-1]) if self.weights_first else list(values)

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        shape = (tensors[0].shape[0], *self.output.view.named_shape)
        return reference.forward(self.expression, self._in_order(tensors), self.alpha, previous, shape)

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        gradients = reference.backward(self.expression, self._in_order(tensors), dy, self._in_order(wanted), self.alpha)
        return self._in_order(gradients)


def parse(operation: Any, who: Caller) -> Expression:
    """The expression in a C string: ``str``, ``bytes``, a buffer, or an address."""
    if operation is None:
        raise Problem(f"{who('operation')} is {who.null}. Pass an expression such as 'a_ik, b_kj -> c_ij'.")
    text = _text(operation, who)
    try:
        expression = parse_contraction(text)
    except ValueError as error:
        raise Problem(f"{who}: {error}") from None
    if expression.weights is not None and len(expression.tensors) == 1:
        raise Problem(
            f"{who}: the only operand of {text!r} is named w, so there is no input. Rename it, or contract it with an input."
        )
    return expression


def _text(operation: Any, who: Caller) -> str:
    if isinstance(operation, str):
        return operation.split("\0", 1)[0]
    if isinstance(operation, ctypes.c_char_p):
        raw = operation.value or b""
    elif isinstance(operation, int) and not isinstance(operation, bool):
        raw = ctypes.string_at(operation) if operation > 0 else b""
    else:
        try:
            raw = bytes(memoryview(operation))
        except TypeError:
            raise TypeError(
                f"{who('operation')} must be a string such as 'a_ik, b_kj -> c_ij', not {type(operation).__name__}."
            ) from None
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")

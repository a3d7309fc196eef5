"""The base of the layers of matrix products and tensor contractions: two operands, either of which may be weights.

``input_a`` and ``input_b`` are shapes, descriptors or arrays of *one sample*, in the logical order of their axes: an array
of shape (..., m, k) is a stack of matrices, not a batch. At each call an array is one sample, or has a batch axis in front.
An operand that is weights is given with its data at creation, left out of the calls, and shared by the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.contraction import Contraction
from ._binary import BinaryLayer
from ._methods import DECLARED, method
from ._ports import (
    TensorLike,
    as_array,
    data_type,
    describe_parameter,
    describe_sample,
    descriptor_for,
    first_major,
)
from .base import client_pointer
from .shape import Shape

_NAMES = ("input_a", "input_b")


def describe_operand(
    value: Any, who: str, *, is_weights: bool, filter_parameters: BNNSFilterParameters | None, rank: int | None = None
) -> BNNSNDArrayDescriptor:
    """The descriptor of one operand, with data if it is weights; ``rank`` is its number of axes where that is known."""
    if is_weights and not isinstance(value, Shape):
        if isinstance(value, BNNSNDArrayDescriptor):
            layout: Any = value.layout
        else:
            layout = first_major(as_array(value, who).shape)
        in_place = client_pointer(filter_parameters)
        return describe_parameter(value, who, layout, "of one operand", client_pointer=in_place)
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        return describe_sample(value, who)
    array = as_array(value, who)
    shape = array.shape[1:] if rank is not None and array.ndim == rank + 1 else array.shape
    if not 1 <= len(shape) <= 8:
        raise Problem(f"{who} has shape {array.shape}, but a tensor has 1 to 8 axes. Pass such an array.")
    return descriptor_for(shape, first_major(shape), data_type(array, who))


class ProductLayer(BinaryLayer):
    """Two inputs; or one and weights; or one alone, where ``input_b`` is left out."""

    _filter: Contraction
    _weights_at: int | None = None  # which operand is weights

    def _tensors(self) -> dict[str, Any]:
        """Operands and output by their names here."""
        f = self._filter
        operands = (f.weights, f.input) if self._weights_at == 0 else (f.input, f.second or f.weights)
        return {**dict(zip(_NAMES, operands, strict=True)), "output": f.output}

    def _declares(self, call: str) -> tuple[str, Mapping[str, str | None]]:
        if self._filter.second is not None:
            return call, {}
        there, other = reversed(_NAMES) if self._weights_at == 0 else _NAMES
        return call.removesuffix("_two_input"), {
            there: "in",
            other: None,
            f"generating_{there}_gradient": "in_delta",
            f"generating_{other}_gradient": None if self._weights_at is None else "weights_delta",
        }

    def _reason_without(self, name: str) -> str:
        held = self._weights_at is not None and name == _NAMES[self._weights_at]
        return "is weights, which the layer holds" if held else "does not exist in this layer"

    @method("apply_two_input", leading=("input_a", "input_b"))
    def apply(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward. An operand that is weights, and a second one that does not exist, are left out.

        ``output`` is written, or added to if the layer accumulates, and returned; when left out it is a new array.
        """
        raise DECLARED

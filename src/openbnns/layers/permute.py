"""Permute layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPermute, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.permute import Permute
from ._ports import Port, describe_c_order, struct_of
from .base import UnaryLayer
from .shape import Shape

__all__ = ["PermuteLayer"]


class PermuteLayer(UnaryLayer):
    """Axis k of the output is axis ``permutation[k]`` of the input; backward puts the axes of the gradient back.

    ``input`` and ``output`` are shapes, descriptors or arrays; ``output`` may be left out. When ``input`` is an array, one
    sample has as many axes as ``permutation`` has entries, in front of which there may be a batch axis, and the entries
    are NumPy axes of a sample, possibly negative, as in ``numpy.transpose``. When it is a shape or descriptor they are
    Swift's: positions in ``size[]``, for ImageCHW (width, height, channels).

    >>> import numpy as np
    >>> from openbnns import *
    >>> images = np.zeros((8, 3, 4, 5), np.float32)
    >>> PermuteLayer(input=images, permutation=[1, 2, 0]).apply(images).shape
    (8, 4, 5, 3)
    >>> layer = PermuteLayer(input=images, permutation=[1, 2, 0])
    >>> layer.apply_backward(output_gradient=np.zeros((8, 4, 5, 3), np.float32)).input.shape
    (8, 3, 4, 5)
    """

    _filter: Permute

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        permutation: Sequence[int],
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Permute:
            axes = axis_list(permutation, f"{who}: permutation")
            described = isinstance(input, (Shape, BNNSNDArrayDescriptor))
            x = describe_c_order(input, f"{who}: input", len(axes))
            port = Port(x)
            rank = len(port.size)
            if len(axes) != rank:
                raise Problem(
                    f"{who}: permutation has {len(axes)} entries, but the input has {rank} axes. Name each once."
                )
            if not described:
                axes = [a + rank if -rank <= a < 0 else a for a in axes]
            if sorted(axes) != list(range(rank)):
                raise Problem(
                    f"{who}: permutation is {tuple(permutation)}, but the input has the axes 0 to {rank - 1}. Name each "
                    "exactly once."
                )
            if output is None:
                size = [port.size[a] for a in axes]
                y = BNNSNDArrayDescriptor(layout=port.layout, size=size, data_type=x.data_type,
                                          data_scale=x.data_scale, data_bias=x.data_bias)  # fmt: skip
            else:
                y = describe_c_order(output, f"{who}: output", rank)
            parameters = struct_of(BNNSLayerParametersPermute, who, i_desc=x, o_desc=y, permutation=axes)
            return Permute(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input, "output": self._filter.output, "permutation": tuple(permutation),
        }  # fmt: skip


def axis_list(values: Any, who: str) -> list[int]:
    """Axis numbers as plain integers."""
    try:
        return [int(v.__index__()) for v in values]
    except (TypeError, AttributeError):
        raise Problem(f"{who} must be a sequence of whole numbers, not {values!r}.", kind=TypeError) from None

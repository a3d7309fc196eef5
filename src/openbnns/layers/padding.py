"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersPadding, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.padding import Padding
from ._ports import Port, describe_c_order, require, struct_of
from .base import UnaryLayer
from .types import PaddingMode

__all__ = ["PaddingLayer"]


class PaddingLayer(UnaryLayer):
    """The input with elements added around it; backward adds the gradients of all copies of an element.

    ``size`` has one (before, after) pair per axis of a sample. ``input`` and ``output`` are shapes, descriptors or arrays;
    ``output`` may be left out. When ``input`` is an array, one sample has as many axes as ``size`` has pairs, in NumPy's
    order, and a batch axis in front may be there or not. When it is a shape or descriptor the pairs are in the order of
    ``size[]``, for ImageCHW (width, height, channels).

    >>> import numpy as np
    >>> from openbnns import *
    >>> x = np.array([1, 2, 3], np.float32)
    >>> PaddingLayer(input=x, mode=PaddingMode.constant_scalar(7), size=[(1, 2)]).apply(x)
    array([7., 1., 2., 3., 7., 7.], dtype=float32)
    >>> PaddingLayer(input=x, mode=PaddingMode.reflect(), size=[(2, 1)]).apply(x)
    array([3., 2., 1., 2., 3., 2.], dtype=float32)
    >>> layer = PaddingLayer(input=x, mode=PaddingMode.reflect(), size=[(2, 1)])
    >>> layer.apply_backward(output_gradient=np.float32([1, 2, 3, 4, 5, 6])).input.tolist()
    [3.0, 12.0, 6.0]
    """

    _names: ClassVar[dict[str, str]] = {"padding_mode": "mode", "padding_size": "size", "padding_value": "mode"}
    _filter: Padding

    def __init__(
        self,
        *,
        input: Any,
        output: Any = None,
        mode: PaddingMode,
        size: Sequence[tuple[int, int]],
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Padding:
            require(mode, PaddingMode, f"{who}: mode", "PaddingMode.reflect()")
            pairs = _pairs(size, f"{who}: size")
            x = describe_c_order(input, f"{who}: input", len(pairs))
            port = Port(x)
            if len(pairs) != len(port.size):
                raise Problem(
                    f"{who}: size has {len(pairs)} pairs, but the input has {len(port.size)} axes. Give one for each."
                )
            if output is None:
                padded = [n + before + after for n, (before, after) in zip(port.size, pairs, strict=True)]
                y = struct_of(BNNSNDArrayDescriptor, who, layout=port.layout, size=padded, data_type=x.data_type,
                              data_scale=x.data_scale, data_bias=x.data_bias)  # fmt: skip
            else:
                y = describe_c_order(output, f"{who}: output", len(pairs))
            try:
                value = mode.bit_pattern_for(x.data_type)
            except (ValueError, OverflowError) as error:
                raise Problem(f"{who}: mode: {error}") from None
            parameters = struct_of(
                BNNSLayerParametersPadding, who, i_desc=x, o_desc=y, padding_size=pairs,
                padding_mode=mode.bnns_padding_mode, padding_value=value,
            )  # fmt: skip
            return Padding(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input, "output": self._filter.output, "mode": mode, "size": list(size),
        }  # fmt: skip


def _pairs(values: Any, who: str) -> list[tuple[int, int]]:
    try:
        pairs = [(int(before.__index__()), int(after.__index__())) for before, after in values]
    except (TypeError, ValueError, AttributeError):
        raise Problem(f"{who} must be a sequence of (before, after) pairs, not {values!r}.", kind=TypeError) from None
    if any(number < 0 for pair in pairs for number in pair):
        raise Problem(f"{who} is {pairs}. Numbers of added elements are not negative.")
    return pairs

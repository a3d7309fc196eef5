"""Which layers may follow each other in a fused filter, and what their boundary must look like."""

from __future__ import annotations

from typing import Any

from .._words import Caller, Named
from ..abi.enums import BNNSFilterType
from ..abi.structs import (
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSLayerParametersConvolution,
    BNNSLayerParametersFullyConnected,
    BNNSLayerParametersNormalization,
    BNNSLayerParametersQuantization,
)
from ..errors import Problem
from ..tensors.descriptors import View, describe
from .arithmetic import Arithmetic
from .base import UnaryFilter
from .convolution import Convolution
from .fully_connected import FullyConnected
from .normalization import Normalization
from .quantization import Quantization
from .transposed_convolution import TransposedConvolution

FirstLayer = Convolution | TransposedConvolution | FullyConnected | Arithmetic
LastLayer = Normalization | Quantization

_FIRST: dict[int, tuple[type[Any], type[Any]]] = {
    BNNSFilterType.BNNSConvolution: (Convolution, BNNSLayerParametersConvolution),
    BNNSFilterType.BNNSTransposedConvolution: (TransposedConvolution, BNNSLayerParametersConvolution),
    BNNSFilterType.BNNSFullyConnected: (FullyConnected, BNNSLayerParametersFullyConnected),
    BNNSFilterType.BNNSArithmetic: (Arithmetic, BNNSLayerParametersArithmetic),
}
_NORMALIZATIONS: tuple[int, ...] = (
    BNNSFilterType.BNNSBatchNorm,
    BNNSFilterType.BNNSInstanceNorm,
    BNNSFilterType.BNNSLayerNorm,
    BNNSFilterType.BNNSGroupNorm,
)

SUPPORTED = (
    "BNNSConvolution, BNNSTransposedConvolution or BNNSFullyConnected followed by a normalization (BNNSBatchNorm, "
    "BNNSInstanceNorm, BNNSLayerNorm, BNNSGroupNorm) or by BNNSQuantization, and BNNSArithmetic followed by a normalization"
)


def make_layers(
    kinds: list[int], layers: list[Any], filter_params: BNNSFilterParameters | None, who: Caller
) -> tuple[FirstLayer, LastLayer]:
    """The filters of the two layers, each checked by its own rules, and the boundary between them."""
    _check_chain(kinds, who)
    structs = (_FIRST[kinds[0]][1], _last_struct(kinds[1]))
    for i, (layer, struct) in enumerate(zip(layers, structs, strict=True)):
        _check_struct(layer, struct, kinds[i], who(f"layer_params[{i}]"))
    first: FirstLayer = _FIRST[kinds[0]][0](layers[0], filter_params, who.part("layer_params[0]"))
    last: LastLayer
    if kinds[1] in _NORMALIZATIONS:
        last = Normalization(layers[1], filter_params, who.part("layer_params[1]"), kinds[1])
        if isinstance(first, UnaryFilter):
            first.pass_on_floats()
    else:
        last = Quantization(layers[1], filter_params, who.part("layer_params[1]"))
    _check_boundary(first, last, who)
    return first, last


def struct_of(kind: int) -> type[Any] | None:
    """The struct that describes a layer of a chain; ``None`` for a layer that no chain may have."""
    if kind in _FIRST:
        return _FIRST[kind][1]
    return _last_struct(kind) if kind in (*_NORMALIZATIONS, BNNSFilterType.BNNSQuantization) else None


def _name(kind: int) -> str:
    return BNNSFilterType(kind).name


def _check_chain(kinds: list[int], who: Caller) -> None:
    for i, kind in enumerate(kinds):
        if kind not in set(BNNSFilterType):
            raise Problem(
                f"{who('filter_type')}[{i}] is {kind}, which is not a BNNSFilterType. Supported are {SUPPORTED}."
            )
    lasts = _NORMALIZATIONS
    if kinds and kinds[0] != BNNSFilterType.BNNSArithmetic:
        lasts += (BNNSFilterType.BNNSQuantization,)
    if len(kinds) != 2 or kinds[0] not in _FIRST or kinds[1] not in lasts:
        chain = " -> ".join(_name(kind) for kind in kinds) or "of no layers"
        raise Problem(f"{who}: the chain {chain} is not supported. Supported are {SUPPORTED}.", unsupported=True)


def _last_struct(kind: int) -> type[Any]:
    return BNNSLayerParametersNormalization if kind in _NORMALIZATIONS else BNNSLayerParametersQuantization


def _check_struct(layer: Any, struct: type[Any], kind: int, who: Named) -> None:
    if layer is None:
        raise Problem(f"{who} is {who.null}. Pass the {struct.__name__} that belongs to {_name(kind)}.")
    if not isinstance(layer, struct):
        raise TypeError(f"{who} must be a {struct.__name__}, not {type(layer).__name__}.")


def _check_boundary(first: FirstLayer, last: LastLayer, who: Caller) -> None:
    """Check that the first layer writes what the second reads: sizes, strides and type."""
    out, into = first.output.view, last.input.view
    if _memory_form(out) != _memory_form(into):
        name = "arithmetic_function_fields.out" if isinstance(first, Arithmetic) else "o_desc"
        raise Problem(
            f"{who(f'layer_params[0].{name}')} is {describe(out)} with strides {out.strides}, but "
            f"{who.name('layer_params[1].i_desc')} is {describe(into)} with strides {into.strides}. The second layer "
            "reads what the first one writes: make both descriptors equal in size, stride and data_type."
        )
    if isinstance(first, Arithmetic) and not first.out_batched:
        raise Problem(
            f"{who('layer_params[0].arithmetic_function_fields.out_type')} is not {who.name('BNNSSample')}, but a "
            f"normalization works on a batch of samples. Use {who.name('BNNSSample')}."
        )


def _memory_form(view: View) -> tuple[Any, ...]:
    return view.element.code, view.size, view.strides, view.memory_axes

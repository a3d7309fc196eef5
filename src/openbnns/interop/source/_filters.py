"""The filters of a network, each made once, from the struct that its layer was made from."""

from __future__ import annotations

from typing import Any

from ...abi.enums import BNNSFilterType
from ...filters.activation import ActivationFilter
from ...filters.arithmetic import Arithmetic
from ...filters.attention import MultiheadAttention
from ...filters.base import Filter as BNNSFilter
from ...filters.contraction import TensorContraction
from ...filters.convolution import Convolution
from ...filters.dropout import Dropout
from ...filters.embedding import Embedding
from ...filters.fully_connected import FullyConnected
from ...filters.fused import Fused
from ...filters.loss import Loss
from ...filters.matmul import BroadcastMatMul
from ...filters.normalization import Normalization
from ...filters.padding import Padding
from ...filters.permute import Permute
from ...filters.pooling import Pooling
from ...filters.reduction import Reduction
from ...filters.resize import Resize
from ...filters.transposed_convolution import TransposedConvolution
from ._places import Places
from ._program_text import Address, Constant, Filter, Items
from ._structs import struct_value
from .errors import Refused

_CREATION: dict[type[BNNSFilter], str] = {
    ActivationFilter: "BNNSFilterCreateLayerActivation",
    Arithmetic: "BNNSFilterCreateLayerArithmetic",
    BroadcastMatMul: "BNNSFilterCreateLayerBroadcastMatMul",
    Convolution: "BNNSFilterCreateLayerConvolution",
    Dropout: "BNNSFilterCreateLayerDropout",
    Embedding: "BNNSFilterCreateLayerEmbedding",
    FullyConnected: "BNNSFilterCreateLayerFullyConnected",
    Loss: "BNNSFilterCreateLayerLoss",
    MultiheadAttention: "BNNSFilterCreateLayerMultiheadAttention",
    Normalization: "BNNSFilterCreateLayerNormalization",
    Padding: "BNNSFilterCreateLayerPadding",
    Permute: "BNNSFilterCreateLayerPermute",
    Pooling: "BNNSFilterCreateLayerPooling",
    Reduction: "BNNSFilterCreateLayerReduction",
    Resize: "BNNSFilterCreateLayerResize",
    TensorContraction: "BNNSFilterCreateLayerTensorContraction",
    TransposedConvolution: "BNNSFilterCreateLayerTransposedConvolution",
}


class Filters:
    """The filters that calls have asked for so far, in that order."""

    def __init__(self, places: Places) -> None:
        self.made: list[Filter] = []
        self.step = ""  # what to call the next one
        self._names: dict[int, str] = {}
        self._places = places
        self._held: list[BNNSFilter] = []  # kept alive, because they are known by identity

    def name(self, filter: BNNSFilter, note: str) -> str:
        """The name of a filter, which is written down if it has not been yet."""
        if id(filter) not in self._names:
            arguments = self._arguments(filter)
            name = self._places.name("filters", self.step)
            self._names[id(filter)] = name
            self._held.append(filter)
            self.made.append(Filter(name, note, *arguments))
        return self._names[id(filter)]

    def _arguments(self, filter: BNNSFilter) -> tuple[str, list[tuple[str, Any]]]:
        if filter.description is None:
            raise Refused(f"a filter of family {filter.family} was made before it could be written down")
        if isinstance(filter, Fused):
            kinds, layers, settings = filter.description[:3]
            types = tuple(Constant((BNNSFilterType(kind).name,), "BNNSFilterType") for kind in kinds)
            structs = tuple(Address(struct_value(layer, self._places.find)) for layer in layers)
            return "BNNSFilterCreateFusedLayer", [
                ("number_of_fused_filters", len(kinds)),
                ("filter_type", Items("const BNNSFilterType", types)),
                ("layer_params", Items("const void *", structs)),
                ("filter_params", _settings(settings, self._places)),
            ]
        struct, settings = filter.description[:2]
        if type(filter) is Normalization:
            return "BNNSFilterCreateLayerNormalization", [
                ("normType", Constant((BNNSFilterType(filter.kind).name,), "BNNSFilterType")),
                ("layer_params", Address(struct_value(struct, self._places.find))),
                ("filter_params", _settings(settings, self._places)),
            ]
        if type(filter) not in _CREATION:
            raise Refused(f"filters of family {filter.family} have no form in source code")
        return _CREATION[type(filter)], [
            ("layer_params", Address(struct_value(struct, self._places.find))),
            ("filter_params", _settings(settings, self._places)),
        ]


def _settings(given: Any, places: Places) -> Any:
    return None if given is None else Address(struct_value(given, places.find))

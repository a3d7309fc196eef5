"""Embedding: indices to entries of a dictionary."""

from __future__ import annotations

from typing import Any, ClassVar

from .._words import Caller
from ..abi.enums import BNNSDataLayout
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersEmbedding, BNNSNDArrayDescriptor
from ..errors import Problem
from ..filters.embedding import Embedding
from ..tensors.descriptors import View
from ._methods import DECLARED, method
from ._ports import Port, TensorLike, as_array, data_type, describe_parameter, describe_sample, descriptor_for, require
from .base import Gradients, UnaryLayer, client_pointer
from .shape import Shape
from .types import DataType, Norm

__all__ = ["EmbeddingLayer"]

_NO_PADDING = 2**64 - 1


class EmbeddingLayer(UnaryLayer):
    r"""Each index is replaced by the entry of ``dictionary`` that it names; backward gives the dictionary's gradient.

    Arrays: ``dictionary`` (entries, \*item) float32, ``input`` (N, \*index) or (\*index) of integers, ``output``
    (N, \*index, \*item) float32. At creation ``input`` is the shape, descriptor or array of one sample of indices, or
    an array with a batch of them; a shape has elements of ``index_type``. ``output`` may be left out.

    ``padding_index`` names an entry that reads as zeros and gets no gradient. An entry whose norm (``norm_type``)
    exceeds ``maximum_norm`` is scaled down to it as it is read; 0 sets no limit. ``scales_gradient_by_frequency``
    divides the gradient of an entry by the number of its lookups in the call. The dictionary is copied, unless
    ``filter_parameters`` has ``BNNSFlagsUseClientPtr``: then the layer reads the array at each call.

    >>> import numpy as np
    >>> from openbnns import *
    >>> words = np.array([[0, 0], [1, 2], [3, 4]], np.float32)
    >>> layer = EmbeddingLayer(input=Shape.vector(2), dictionary=words)
    >>> layer.apply(np.array([[2, 1]])).tolist()
    [[[3.0, 4.0], [1.0, 2.0]]]
    >>> layer.apply_backward(input=np.array([[2, 2]]), output_gradient=np.ones((1, 2, 2), np.float32)).weights.tolist()
    [[0.0, 0.0], [0.0, 0.0], [2.0, 2.0]]
    """

    _names: ClassVar[dict[str, str]] = {
        "max_norm": "maximum_norm",
        "padding_idx": "padding_index",
        "flags": "scales_gradient_by_frequency",
        "BNNSDataTypeInt32": "DataType.INT32",
    }

    _filter: Embedding

    def __init__(
        self,
        *,
        input: Any,
        dictionary: Any,
        output: Any = None,
        padding_index: int | None = None,
        maximum_norm: float = 0.0,
        norm_type: Norm | float = Norm.L2,
        scales_gradient_by_frequency: bool = False,
        index_type: DataType = DataType.INT64,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> Embedding:
            w = _describe_dictionary(dictionary, f"{who}: dictionary", client_pointer(filter_parameters))
            require(index_type, DataType, f"{who}: index_type")
            x = _describe_indices(input, f"{who}: input", index_type)
            y = _describe_output(output, f"{who}: output", Port(x).view, Port(w).view)
            padding = _NO_PADDING if padding_index is None or padding_index < 0 else padding_index
            parameters = BNNSLayerParametersEmbedding(
                flags=int(bool(scales_gradient_by_frequency)),
                i_desc=x,
                o_desc=y,
                dictionary=w,
                padding_idx=padding,
                max_norm=maximum_norm,
                norm_type=norm_type.value if isinstance(norm_type, Norm) else norm_type,
            )
            return Embedding(parameters, filter_parameters, who)

        self._create(make, filter_parameters)
        self._summary = {
            "input": self._filter.input,
            "output": self._filter.output,
            "dictionary": self._filter.weights,
            "padding_index": padding_index,
            "maximum_norm": maximum_norm or None,
            "norm_type": norm_type if maximum_norm else None,
            "scales_gradient_by_frequency": scales_gradient_by_frequency or None,
        }

    @method("apply_backward", returns=Gradients)
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_weights_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> Gradients:
        """Run the layer backward: the gradient with respect to the dictionary, summed over the batch.

        ``input`` holds the indices of the forward call; ``output`` is not needed.
        """
        raise DECLARED


def _last_major(rank: int, who: str) -> BNNSDataLayout:
    """The layout that lists the axes of a C-order array from the fastest to the slowest."""
    if not 1 <= rank <= 8:
        raise Problem(f"{who} has {rank} axes, but a tensor has 1 to 8.")
    return BNNSDataLayout.BNNSDataLayoutVector if rank == 1 else BNNSDataLayout((rank << 16) + 0x8000)


def _first_major(rank: int, who: str) -> BNNSDataLayout:
    return BNNSDataLayout(int(_last_major(rank, who)) | 1)


def _describe_dictionary(value: Any, who: str, in_place: bool) -> BNNSNDArrayDescriptor:
    if isinstance(value, BNNSNDArrayDescriptor):
        return describe_parameter(value, who, BNNSDataLayout.BNNSDataLayoutVector, "", client_pointer=in_place)
    array = as_array(value, who)
    layout = _last_major(array.ndim, who)
    return describe_parameter(array, who, layout, "(entries, *item)", client_pointer=in_place)


def _describe_indices(value: Any, who: str, index_type: DataType) -> BNNSNDArrayDescriptor:
    if isinstance(value, Shape):
        return value.descriptor(index_type)
    if isinstance(value, BNNSNDArrayDescriptor):
        return describe_sample(value, who)
    array = as_array(value, who)
    shape = array.shape if array.ndim == 1 else array.shape[1:]
    return descriptor_for(shape, _last_major(len(shape), who), data_type(array, who))


def _describe_output(value: Any, who: str, indices: View, dictionary: View) -> BNNSNDArrayDescriptor:
    """The given output, or one that holds an item for every index, entries in front where the dictionary has them so."""
    if isinstance(value, (Shape, BNNSNDArrayDescriptor)):
        return describe_sample(value, who)
    size = (*dictionary.size[:-1], *indices.size)
    entries_fastest = len(dictionary.size) > 1 and dictionary.layout.stepped[0] == len(dictionary.size) - 1
    layout = _first_major(len(size), who) if entries_fastest else _last_major(len(size), who)
    made = BNNSNDArrayDescriptor(layout=layout, size=size, data_type=DataType.FLOAT32.value)
    if value is None:
        return made
    array, sample = as_array(value, who), Port(made).shape
    if sample not in (array.shape, array.shape[1:]):
        raise Problem(
            f"{who} has shape {array.shape}, but one sample of it is {sample}: the item for every index. Pass an array "
            "of that shape, with a batch axis in front or without."
        )
    made.data_type = data_type(array, who).value
    return made

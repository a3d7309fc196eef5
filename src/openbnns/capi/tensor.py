"""Functions on whole tensors under their C names. Descriptors bring their data."""

from __future__ import annotations

from typing import Any

from ..filters import moves, selection
from ..filters._tensors import Caller
from ._calls import attempt_direct
from .enums import BNNSReduceFunction, BNNSRelationalOperator, BNNSShuffleType
from .structs import BNNSFilterParameters, BNNSNDArrayDescriptor

Descriptor = BNNSNDArrayDescriptor | Any
Parameters = BNNSFilterParameters | None


def BNNSCopy(dest: Descriptor, src: Descriptor, filter_params: Parameters = None) -> int:
    """Copy a tensor to another of the same logical shape; layouts, strides and types may differ."""
    return attempt_direct(moves.copy, Caller("BNNSCopy"), dest, src, filter_params)


def BNNSTranspose(dest: Descriptor, src: Descriptor, axis0: int, axis1: int, filter_params: Parameters = None) -> int:
    """Copy with two axes of size[] swapped; its gradient is the same swap."""
    return attempt_direct(moves.transpose, Caller("BNNSTranspose"), dest, src, axis0, axis1, filter_params)


def BNNSCompareTensor(in0: Descriptor, in1: Descriptor, op: BNNSRelationalOperator | int, out: Descriptor) -> int:
    """Compare elements, or combine truth values, into a Boolean tensor of the same size."""
    return attempt_direct(moves.compare, Caller("BNNSCompareTensor"), in0, in1, op, out)


def BNNSTile(input: Descriptor, output: Descriptor, filter_params: Parameters = None) -> int:
    """Repeat a tensor along its axes: every size of the output is a multiple of the input's."""
    return attempt_direct(moves.tile, Caller("BNNSTile"), input, output, filter_params)


def BNNSTileBackward(in_delta: Descriptor, out_delta: Descriptor, filter_params: Parameters = None) -> int:
    """Gradient of tiling: the sum over all copies."""
    return attempt_direct(moves.tile_backward, Caller("BNNSTileBackward"), in_delta, out_delta, filter_params)


def BNNSShuffle(
    type: BNNSShuffleType | int, input: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Move data between channels and blocks of pixels of 4DFirstMajor images [N, C, H, W]."""
    return attempt_direct(moves.shuffle, Caller("BNNSShuffle"), type, input, output, filter_params)


def BNNSBandPart(
    num_lower: int, num_upper: int, input: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Keep a diagonal band of every matrix of the two fastest axes and zero the rest; negative keeps the triangle."""
    caller = Caller("BNNSBandPart")
    return attempt_direct(moves.band_part, caller, num_lower, num_upper, input, output, filter_params)


def BNNSGather(
    axis: int, input: Descriptor, indices: Descriptor, output: Descriptor, filter_params: Parameters = None
) -> int:
    """Pick entries along one axis of size[]: one index per entry, or one per element of the output."""
    return attempt_direct(selection.gather, Caller("BNNSGather"), axis, input, indices, output, filter_params)


def BNNSScatter(
    axis: int, op: BNNSReduceFunction | int, input: Descriptor, indices: Descriptor, output: Descriptor,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """Write (op None) or add (op Sum) entries at places along one axis of size[]; other places keep their values."""
    return attempt_direct(selection.scatter, Caller("BNNSScatter"), axis, op, input, indices, output, filter_params)


def BNNSGatherND(input: Descriptor, indices: Descriptor, output: Descriptor, filter_params: Parameters = None) -> int:
    """Pick elements or slices by index vectors, which the last logical axis of ``indices`` holds."""
    return attempt_direct(selection.gather_nd, Caller("BNNSGatherND"), input, indices, output, filter_params)


def BNNSScatterND(
    op: BNNSReduceFunction | int, input: Descriptor, indices: Descriptor, output: Descriptor,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """Write (op None) or add (op Sum) elements or slices at places that index vectors name."""
    return attempt_direct(selection.scatter_nd, Caller("BNNSScatterND"), op, input, indices, output, filter_params)


def BNNSDirectApplyTopK(
    K: int, axis: int, batch_size: int, input: Descriptor, input_batch_stride: int, best_values: Descriptor,
    best_values_batch_stride: int, best_indices: Descriptor, best_indices_batch_stride: int,
    filter_params: Parameters = None,
) -> int:  # fmt: skip
    """The K largest values along an axis of size[], best first, and their indices unless ``best_indices`` is NULL."""
    caller = Caller("BNNSDirectApplyTopK")
    return attempt_direct(
        selection.top_k, caller, K, axis, batch_size, input, input_batch_stride, best_values, best_values_batch_stride,
        best_indices, best_indices_batch_stride, filter_params,
    )  # fmt: skip


def BNNSDirectApplyInTopK(
    K: int, axis: int, batch_size: int, input: Descriptor, input_batch_stride: int, test_indices: Descriptor,
    test_indices_batch_stride: int, output: Descriptor, output_batch_stride: int, filter_params: Parameters = None,
) -> int:  # fmt: skip
    """Whether the values at ``test_indices`` are among the K largest along an axis of size[]; ties all count."""
    caller = Caller("BNNSDirectApplyInTopK")
    return attempt_direct(
        selection.in_top_k, caller, K, axis, batch_size, input, input_batch_stride, test_indices,
        test_indices_batch_stride, output, output_batch_stride, filter_params,
    )  # fmt: skip

"""Values seen on real hardware or printed by the vendor (tests/data/observed_cases.json), and the rows that they prove."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import INT32, Tensor, vector
from openbnns import capi

DATA = Path(__file__).parents[1] / "data" / "observed_cases.json"
OBSERVED = {case["id"]: case for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}

# Tested by test_observed*.py, with the rows that they prove.
HERE = {
    "fc_forward": ("fc.fwd", "fn.BNNSFilterApply"),
    "fc_forward_2": ("fc.fwd",),
    "fc_batch_stride0": ("fc.fwd", "core.stride.batch_zero"),
    "fc_batch_stride3": ("fc.fwd", "core.stride.batch_elements"),
    "fc_backward": ("fc.bwd.dx", "fc.bwd.dw", "fc.bwd.db", "core.grad.batch_sum"),
    "conv_2x2_ones": ("conv.fwd",),
    "transposed_conv_1x1": ("tconv.fwd",),
    "activation_convert": ("act.convert", "core.type.round_even"),
    "leaky_relu": ("act.LeakyRectifiedLinear.fwd", "act.direct"),
    "clamp": ("act.Clamp.fwd",),
    "get_pointer_alpha": ("act.getpointer",),
    "arithmetic_add": ("arith.Add.fwd", "arith.generic_reject"),
    "arithmetic_add_backward": ("arith.Add.bwd",),
    "arithmetic_square": ("arith.Square.fwd",),
    "fused_fc_bn_forward": ("fused.fc_norm.fwd", "fused.inputs1.fwd", "fn.BNNSFusedFilterApplyBatch"),
    "fused_fc_bn_backward": ("fused.fc_norm.bwd", "fused.param_order", "fn.BNNSFusedFilterApplyBackwardBatch"),
    "fused_add_bn": ("fused.arith_norm.fwd", "fused.inputs2.fwd", "fn.BNNSFusedFilterApplyMultiInputBatch"),
    "fused_add_bn_backward": (
        "fused.arith_norm.bwd",
        "fused.inputs2.bwd",
        "fn.BNNSFusedFilterApplyBackwardMultiInputBatch",
    ),
    "maxpool_indices": ("pool.Max.fwd", "pool.idx_size_t", "fn.BNNSPoolingFilterApplyBatch"),
    "maxpool_backward": ("pool.Max.bwd", "pool.idx_size_t", "fn.BNNSPoolingFilterApplyBackwardBatch"),
    "gram": ("gram.fwd", "fn.BNNSFilterCreateLayerGram"),
    "matmul_layer": ("matmul.fwd", "fn.BNNSFilterApplyTwoInput"),
    "matmul_backward": ("matmul.dA", "matmul.dB", "fn.BNNSFilterApplyBackwardTwoInputBatch"),
    "matmul_direct": ("direct.matmul", "direct.matmul.old"),
    "matmul_direct_transA": ("direct.matmul",),
    "matmul_direct_broadcast": ("direct.matmul",),
    "contraction_transpose": ("contract.permute",),
    "avgpool_include_padding": ("pool.AverageCountIncludePadding.fwd", "pool.generic_apply", "pool.padding"),
    "layernorm_forward": ("norm.layer.infer", "norm.layer.axis0", "fn.BNNSNormalizationFilterApplyBatch"),
    "layernorm_backward": ("norm.layer.dx", "norm.layer.train", "fn.BNNSNormalizationFilterApplyBackwardBatch"),
    "dropout_half": ("dropout.fwd", "dropout.seed", "fn.BNNSFilterCreateLayerDropout"),
    "embedding_first_major": ("embed.fwd", "fn.BNNSFilterCreateLayerEmbedding"),
    "embedding_last_major": ("embed.fwd", "embed.padding"),
    "embedding_inf_norm": ("embed.maxnorm",),
    "permute_forward": ("permute.fwd", "fn.BNNSFilterCreateLayerPermute"),
    "permute_backward": ("permute.bwd", "fn.BNNSPermuteFilterApplyBackwardBatch"),
    "padding_constant": ("pad.Constant.fwd", "fn.BNNSFilterCreateLayerPadding"),
    "resize_nearest_2x": ("resize.Nearest.fwd", "fn.BNNSFilterCreateLayerResize"),
    "crop_resize": ("direct.cropresize", "crop.sampling.OffsetCorners", "crop.box.CenterSizeWidthFirst"),
    "lstm_scalar": ("lstm.cell", "fn.BNNSDirectApplyLSTMBatchTrainingCaching"),
    "lstm_scalar_backward": ("lstm.bwd.dx", "lstm.bwd.dW_input", "fn.BNNSDirectApplyLSTMBatchBackward"),
    "quantize": ("quant.Quantize", "fn.BNNSDirectApplyQuantizer"),
    "dequantize": ("quant.Dequantize", "fn.BNNSDirectApplyQuantizer"),
    "sgd_plain": ("opt.SGDMomentum",),
    "sgd_variant1_two_steps": ("opt.sgd.v1.plain",),
    "clip_value": ("direct.clip.value",),
    "clip_norm": ("direct.clip.norm",),
    "clip_norm_inside": ("direct.clip.norm",),
    "clip_global": ("direct.clip.global",),
    "clip_global_use_norm": ("direct.clip.global",),
    "compute_norm_axis0": ("direct.norm.l2",),
    "compute_norm_axis1": ("direct.norm.l2",),
    "compute_norm_backward": ("direct.norm.l2.bwd",),
    "compare_greater": ("compare.Greater",),
    "tile_reversed_axes": ("direct.tile",),
    "tile_workaround": ("direct.tile",),
    "tile_backward": ("direct.tile.bwd",),
    "gather_rows": ("direct.gather",),
    "gather_cols": ("direct.gather",),
    "scatter_sum": ("direct.scatter",),
    "scatter_rows": ("direct.scatter",),
    "gather_nd_elements": ("direct.gathernd",),
    "gather_nd_rows": ("direct.gathernd",),
    "scatter_nd_rows": ("direct.scatternd",),
    "band_part": ("direct.bandpart",),
    "pixel_shuffle": ("shuffle.PixelShuffleNCHW",),
    "reduction_sum": ("reduce.Sum.fwd",),
    "reduction_max_width": ("reduce.Max.fwd",),
    "knn": ("knn.load", "knn.info", "fn.BNNSNearestNeighborsGetInfo"),
    "sparse_fc_coo": ("fc.sparse.coo", "fn.BNNSNDArrayFullyConnectedSparsifySparseCOO"),
}


def observed(*names: str) -> Any:
    """Parametrises a test over observed cases and engines."""
    marked = [pytest.param(OBSERVED[name], id=name, marks=pytest.mark.covers(*HERE[name])) for name in names]

    def decorate(test: Any) -> Any:
        return pytest.mark.parametrize("engine", ["native", "reference"])(pytest.mark.parametrize("case", marked)(test))

    return decorate


def setup_of(case: dict[str, Any]) -> dict[str, Any]:
    setup: dict[str, Any] = case["setup"]
    return setup_of(OBSERVED[setup["same_as"]]) if "same_as" in setup else setup


def floats(numbers: Any) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.float32)


def tensor(description: dict[str, Any]) -> Tensor:
    return Tensor(capi.BNNSDataLayout[description["layout"]], tuple(description["size"]))


def close(actual: Any, case: dict[str, Any], name: str) -> None:
    np.testing.assert_allclose(actual, case["expected"][name], rtol=0, atol=case["tol"])


def indices_of(case: dict[str, Any]) -> Any:
    numbers = np.array(case["inputs"]["indices"], np.int32)
    described = setup_of(case).get("idx")
    t = vector(numbers.size) if described is None else tensor(described)
    return replace(t, data_type=INT32).descriptor(numbers)

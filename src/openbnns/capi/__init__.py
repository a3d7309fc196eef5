"""The C interface of classic BNNS under its own names.

Functions take the C parameters in the C order; a name that Python reserves has a trailing underscore (``in_``).
Creation returns a :class:`BNNSFilter` or ``None``; apply calls return 0, or a negative code, and then
:func:`openbnns.last_error` tells what was wrong. Structs and enums carry the C field and member names.
"""

from . import enums, structs  # isort: skip  (first: filters are built on them)
from ._calls import BNNSFilter
from .activation import BNNSDirectApplyActivationBatch, BNNSFilterCreateLayerActivation, BNNSGetPointer
from .apply import (
    BNNSFilterApply,
    BNNSFilterApplyBackwardBatch,
    BNNSFilterApplyBackwardTwoInputBatch,
    BNNSFilterApplyBatch,
    BNNSFilterApplyTwoInput,
    BNNSFilterApplyTwoInputBatch,
    BNNSFilterDestroy,
)
from .arithmetic import (
    BNNSArithmeticFilterApplyBackwardBatch,
    BNNSArithmeticFilterApplyBatch,
    BNNSFilterCreateLayerArithmetic,
)
from .attention import (
    BNNSApplyMultiheadAttention,
    BNNSApplyMultiheadAttentionBackward,
    BNNSFilterCreateLayerMultiheadAttention,
)
from .clipping import (
    BNNSClipByGlobalNorm,
    BNNSClipByNorm,
    BNNSClipByValue,
    BNNSComputeNorm,
    BNNSComputeNormBackward,
)
from .contraction import BNNSFilterCreateLayerTensorContraction
from .convolution import BNNSFilterCreateLayerConvolution, BNNSFilterCreateLayerTransposedConvolution
from .crop_resize import BNNSCropResize, BNNSCropResizeBackward
from .dropout import BNNSFilterCreateLayerDropout
from .embedding import BNNSFilterCreateLayerEmbedding
from .enums import *  # noqa: F403
from .fully_connected import BNNSFilterCreateLayerFullyConnected
from .fused import (
    BNNSFilterCreateFusedLayer,
    BNNSFusedFilterApplyBackwardBatch,
    BNNSFusedFilterApplyBackwardMultiInputBatch,
    BNNSFusedFilterApplyBatch,
    BNNSFusedFilterApplyMultiInputBatch,
)
from .gram import BNNSFilterCreateLayerGram
from .legacy import (
    BNNSFilterCreateConvolutionLayer,
    BNNSFilterCreateFullyConnectedLayer,
    BNNSFilterCreatePoolingLayer,
    BNNSFilterCreateVectorActivationLayer,
)
from .loss import BNNSFilterCreateLayerLoss, BNNSLossFilterApplyBackwardBatch, BNNSLossFilterApplyBatch
from .lstm import (
    BNNSComputeLSTMTrainingCacheCapacity,
    BNNSDirectApplyLSTMBatchBackward,
    BNNSDirectApplyLSTMBatchTrainingCaching,
)
from .matmul import (
    BNNSDirectApplyBroadcastMatMul,
    BNNSFilterCreateLayerBroadcastMatMul,
    BNNSMatMul,
    BNNSMatMulWorkspaceSize,
)
from .nearest_neighbors import (
    BNNSCreateNearestNeighbors,
    BNNSDestroyNearestNeighbors,
    BNNSNearestNeighbors,
    BNNSNearestNeighborsGetInfo,
    BNNSNearestNeighborsLoad,
)
from .normalization import (
    BNNSFilterCreateLayerNormalization,
    BNNSNormalizationFilterApplyBackwardBatch,
    BNNSNormalizationFilterApplyBatch,
)
from .optimizer import BNNSOptimizerStep
from .padding import BNNSFilterCreateLayerPadding
from .permute import BNNSFilterCreateLayerPermute, BNNSPermuteFilterApplyBackwardBatch
from .pooling import (
    BNNSFilterCreateLayerPooling,
    BNNSPoolingFilterApplyBackwardBatch,
    BNNSPoolingFilterApplyBackwardBatchEx,
    BNNSPoolingFilterApplyBatch,
    BNNSPoolingFilterApplyBatchEx,
)
from .quantization import BNNSDirectApplyQuantizer
from .random_numbers import (
    BNNSCreateRandomGenerator,
    BNNSCreateRandomGeneratorWithSeed,
    BNNSDestroyRandomGenerator,
    BNNSRandomFillCategoricalFloat,
    BNNSRandomFillNormalFloat,
    BNNSRandomFillUniformFloat,
    BNNSRandomFillUniformInt,
    BNNSRandomGenerator,
    BNNSRandomGeneratorGetState,
    BNNSRandomGeneratorSetState,
    BNNSRandomGeneratorStateSize,
)
from .reduction import BNNSDirectApplyReduction, BNNSFilterCreateLayerReduction
from .resize import BNNSFilterCreateLayerResize
from .sparse import BNNSNDArrayFullyConnectedSparsifySparseCOO, BNNSNDArrayFullyConnectedSparsifySparseCSR
from .structs import *  # noqa: F403
from .tensor import (
    BNNSBandPart,
    BNNSCompareTensor,
    BNNSCopy,
    BNNSDirectApplyInTopK,
    BNNSDirectApplyTopK,
    BNNSGather,
    BNNSGatherND,
    BNNSScatter,
    BNNSScatterND,
    BNNSShuffle,
    BNNSTile,
    BNNSTileBackward,
    BNNSTranspose,
)
from .utility import BNNSDataLayoutGetRank, BNNSNDArrayGetDataSize, BNNSTensorGetAllocationSize

__all__ = [
    "BNNSFilter",
    "BNNSCreateNearestNeighbors",
    "BNNSDestroyNearestNeighbors",
    "BNNSNDArrayFullyConnectedSparsifySparseCOO",
    "BNNSNDArrayFullyConnectedSparsifySparseCSR",
    "BNNSNearestNeighbors",
    "BNNSNearestNeighborsGetInfo",
    "BNNSNearestNeighborsLoad",
    "BNNSApplyMultiheadAttention",
    "BNNSApplyMultiheadAttentionBackward",
    "BNNSArithmeticFilterApplyBackwardBatch",
    "BNNSArithmeticFilterApplyBatch",
    "BNNSComputeLSTMTrainingCacheCapacity",
    "BNNSClipByGlobalNorm",
    "BNNSClipByNorm",
    "BNNSClipByValue",
    "BNNSComputeNorm",
    "BNNSComputeNormBackward",
    "BNNSCreateRandomGenerator",
    "BNNSCreateRandomGeneratorWithSeed",
    "BNNSDataLayoutGetRank",
    "BNNSDestroyRandomGenerator",
    "BNNSDirectApplyActivationBatch",
    "BNNSDirectApplyLSTMBatchBackward",
    "BNNSDirectApplyLSTMBatchTrainingCaching",
    "BNNSDirectApplyQuantizer",
    "BNNSDirectApplyBroadcastMatMul",
    "BNNSFilterApply",
    "BNNSFilterApplyBackwardBatch",
    "BNNSFilterApplyBackwardTwoInputBatch",
    "BNNSFilterApplyBatch",
    "BNNSFilterApplyTwoInput",
    "BNNSFilterApplyTwoInputBatch",
    "BNNSFilterCreateConvolutionLayer",
    "BNNSFilterCreateFullyConnectedLayer",
    "BNNSFilterCreateFusedLayer",
    "BNNSFilterCreateLayerActivation",
    "BNNSFilterCreateLayerArithmetic",
    "BNNSFilterCreateLayerBroadcastMatMul",
    "BNNSFilterCreateLayerConvolution",
    "BNNSFilterCreateLayerEmbedding",
    "BNNSFilterCreateLayerFullyConnected",
    "BNNSFilterCreateLayerGram",
    "BNNSFilterCreateLayerLoss",
    "BNNSFilterCreateLayerNormalization",
    "BNNSFilterCreateLayerMultiheadAttention",
    "BNNSFilterCreateLayerPooling",
    "BNNSFilterCreateLayerTensorContraction",
    "BNNSFilterCreateLayerTransposedConvolution",
    "BNNSFilterCreatePoolingLayer",
    "BNNSFilterCreateVectorActivationLayer",
    "BNNSFilterDestroy",
    "BNNSFusedFilterApplyBackwardBatch",
    "BNNSFusedFilterApplyBackwardMultiInputBatch",
    "BNNSFusedFilterApplyBatch",
    "BNNSFusedFilterApplyMultiInputBatch",
    "BNNSGetPointer",
    "BNNSLossFilterApplyBackwardBatch",
    "BNNSLossFilterApplyBatch",
    "BNNSMatMul",
    "BNNSMatMulWorkspaceSize",
    "BNNSNDArrayGetDataSize",
    "BNNSOptimizerStep",
    "BNNSNormalizationFilterApplyBackwardBatch",
    "BNNSNormalizationFilterApplyBatch",
    "BNNSPoolingFilterApplyBackwardBatch",
    "BNNSPoolingFilterApplyBackwardBatchEx",
    "BNNSPoolingFilterApplyBatch",
    "BNNSPoolingFilterApplyBatchEx",
    "BNNSRandomFillCategoricalFloat",
    "BNNSRandomFillNormalFloat",
    "BNNSRandomFillUniformFloat",
    "BNNSRandomFillUniformInt",
    "BNNSRandomGenerator",
    "BNNSRandomGeneratorGetState",
    "BNNSRandomGeneratorSetState",
    "BNNSRandomGeneratorStateSize",
    "BNNSFilterCreateLayerDropout",
    "BNNSFilterCreateLayerPermute",
    "BNNSPermuteFilterApplyBackwardBatch",
    "BNNSFilterCreateLayerPadding",
    "BNNSFilterCreateLayerResize",
    "BNNSCropResize",
    "BNNSCropResizeBackward",
    "BNNSTensorGetAllocationSize",
    "BNNSDirectApplyReduction",
    "BNNSFilterCreateLayerReduction",
    "BNNSBandPart",
    "BNNSCompareTensor",
    "BNNSCopy",
    "BNNSDirectApplyInTopK",
    "BNNSDirectApplyTopK",
    "BNNSGather",
    "BNNSGatherND",
    "BNNSScatter",
    "BNNSScatterND",
    "BNNSShuffle",
    "BNNSTile",
    "BNNSTileBackward",
    "BNNSTranspose",
]
__all__ += enums.__all__
__all__ += structs.__all__

# Written by tools/generate_stubs.py from __init__.py; edit that, not this file.
from ..abi.enums import *
from ..abi.structs import *
from ._calls import (
    BNNSFilter as BNNSFilter,
)
from .activation import (
    BNNSDirectApplyActivationBatch as BNNSDirectApplyActivationBatch,
    BNNSFilterCreateLayerActivation as BNNSFilterCreateLayerActivation,
    BNNSGetPointer as BNNSGetPointer,
)
from .apply import (
    BNNSFilterApply as BNNSFilterApply,
    BNNSFilterApplyBackwardBatch as BNNSFilterApplyBackwardBatch,
    BNNSFilterApplyBackwardTwoInputBatch as BNNSFilterApplyBackwardTwoInputBatch,
    BNNSFilterApplyBatch as BNNSFilterApplyBatch,
    BNNSFilterApplyTwoInput as BNNSFilterApplyTwoInput,
    BNNSFilterApplyTwoInputBatch as BNNSFilterApplyTwoInputBatch,
    BNNSFilterDestroy as BNNSFilterDestroy,
)
from .arithmetic import (
    BNNSArithmeticFilterApplyBackwardBatch as BNNSArithmeticFilterApplyBackwardBatch,
    BNNSArithmeticFilterApplyBatch as BNNSArithmeticFilterApplyBatch,
    BNNSFilterCreateLayerArithmetic as BNNSFilterCreateLayerArithmetic,
)
from .attention import (
    BNNSApplyMultiheadAttention as BNNSApplyMultiheadAttention,
    BNNSApplyMultiheadAttentionBackward as BNNSApplyMultiheadAttentionBackward,
    BNNSFilterCreateLayerMultiheadAttention as BNNSFilterCreateLayerMultiheadAttention,
)
from .clipping import (
    BNNSClipByGlobalNorm as BNNSClipByGlobalNorm,
    BNNSClipByNorm as BNNSClipByNorm,
    BNNSClipByValue as BNNSClipByValue,
    BNNSComputeNorm as BNNSComputeNorm,
    BNNSComputeNormBackward as BNNSComputeNormBackward,
)
from .contraction import (
    BNNSFilterCreateLayerTensorContraction as BNNSFilterCreateLayerTensorContraction,
)
from .convolution import (
    BNNSFilterCreateLayerConvolution as BNNSFilterCreateLayerConvolution,
    BNNSFilterCreateLayerTransposedConvolution as BNNSFilterCreateLayerTransposedConvolution,
)
from .crop_resize import (
    BNNSCropResize as BNNSCropResize,
    BNNSCropResizeBackward as BNNSCropResizeBackward,
)
from .dropout import (
    BNNSFilterCreateLayerDropout as BNNSFilterCreateLayerDropout,
)
from .embedding import (
    BNNSFilterCreateLayerEmbedding as BNNSFilterCreateLayerEmbedding,
)
from .fully_connected import (
    BNNSFilterCreateLayerFullyConnected as BNNSFilterCreateLayerFullyConnected,
)
from .fused import (
    BNNSFilterCreateFusedLayer as BNNSFilterCreateFusedLayer,
    BNNSFusedFilterApplyBackwardBatch as BNNSFusedFilterApplyBackwardBatch,
    BNNSFusedFilterApplyBackwardMultiInputBatch as BNNSFusedFilterApplyBackwardMultiInputBatch,
    BNNSFusedFilterApplyBatch as BNNSFusedFilterApplyBatch,
    BNNSFusedFilterApplyMultiInputBatch as BNNSFusedFilterApplyMultiInputBatch,
)
from .gram import (
    BNNSFilterCreateLayerGram as BNNSFilterCreateLayerGram,
)
from .legacy import (
    BNNSFilterCreateConvolutionLayer as BNNSFilterCreateConvolutionLayer,
    BNNSFilterCreateFullyConnectedLayer as BNNSFilterCreateFullyConnectedLayer,
    BNNSFilterCreatePoolingLayer as BNNSFilterCreatePoolingLayer,
    BNNSFilterCreateVectorActivationLayer as BNNSFilterCreateVectorActivationLayer,
)
from .loss import (
    BNNSFilterCreateLayerLoss as BNNSFilterCreateLayerLoss,
    BNNSLossFilterApplyBackwardBatch as BNNSLossFilterApplyBackwardBatch,
    BNNSLossFilterApplyBatch as BNNSLossFilterApplyBatch,
)
from .lstm import (
    BNNSComputeLSTMTrainingCacheCapacity as BNNSComputeLSTMTrainingCacheCapacity,
    BNNSDirectApplyLSTMBatchBackward as BNNSDirectApplyLSTMBatchBackward,
    BNNSDirectApplyLSTMBatchTrainingCaching as BNNSDirectApplyLSTMBatchTrainingCaching,
)
from .matmul import (
    BNNSDirectApplyBroadcastMatMul as BNNSDirectApplyBroadcastMatMul,
    BNNSFilterCreateLayerBroadcastMatMul as BNNSFilterCreateLayerBroadcastMatMul,
    BNNSMatMul as BNNSMatMul,
    BNNSMatMulWorkspaceSize as BNNSMatMulWorkspaceSize,
)
from .moves import (
    BNNSBandPart as BNNSBandPart,
    BNNSCompareTensor as BNNSCompareTensor,
    BNNSCopy as BNNSCopy,
    BNNSShuffle as BNNSShuffle,
    BNNSTile as BNNSTile,
    BNNSTileBackward as BNNSTileBackward,
    BNNSTranspose as BNNSTranspose,
)
from .nearest_neighbors import (
    BNNSCreateNearestNeighbors as BNNSCreateNearestNeighbors,
    BNNSDestroyNearestNeighbors as BNNSDestroyNearestNeighbors,
    BNNSNearestNeighbors as BNNSNearestNeighbors,
    BNNSNearestNeighborsGetInfo as BNNSNearestNeighborsGetInfo,
    BNNSNearestNeighborsLoad as BNNSNearestNeighborsLoad,
)
from .normalization import (
    BNNSFilterCreateLayerNormalization as BNNSFilterCreateLayerNormalization,
    BNNSNormalizationFilterApplyBackwardBatch as BNNSNormalizationFilterApplyBackwardBatch,
    BNNSNormalizationFilterApplyBatch as BNNSNormalizationFilterApplyBatch,
)
from .optimizer import (
    BNNSOptimizerStep as BNNSOptimizerStep,
)
from .padding import (
    BNNSFilterCreateLayerPadding as BNNSFilterCreateLayerPadding,
)
from .permute import (
    BNNSFilterCreateLayerPermute as BNNSFilterCreateLayerPermute,
    BNNSPermuteFilterApplyBackwardBatch as BNNSPermuteFilterApplyBackwardBatch,
)
from .pooling import (
    BNNSFilterCreateLayerPooling as BNNSFilterCreateLayerPooling,
    BNNSPoolingFilterApplyBackwardBatch as BNNSPoolingFilterApplyBackwardBatch,
    BNNSPoolingFilterApplyBackwardBatchEx as BNNSPoolingFilterApplyBackwardBatchEx,
    BNNSPoolingFilterApplyBatch as BNNSPoolingFilterApplyBatch,
    BNNSPoolingFilterApplyBatchEx as BNNSPoolingFilterApplyBatchEx,
)
from .quantization import (
    BNNSDirectApplyQuantizer as BNNSDirectApplyQuantizer,
)
from .random_numbers import (
    BNNSCreateRandomGenerator as BNNSCreateRandomGenerator,
    BNNSCreateRandomGeneratorWithSeed as BNNSCreateRandomGeneratorWithSeed,
    BNNSDestroyRandomGenerator as BNNSDestroyRandomGenerator,
    BNNSRandomFillCategoricalFloat as BNNSRandomFillCategoricalFloat,
    BNNSRandomFillNormalFloat as BNNSRandomFillNormalFloat,
    BNNSRandomFillUniformFloat as BNNSRandomFillUniformFloat,
    BNNSRandomFillUniformInt as BNNSRandomFillUniformInt,
    BNNSRandomGenerator as BNNSRandomGenerator,
    BNNSRandomGeneratorGetState as BNNSRandomGeneratorGetState,
    BNNSRandomGeneratorSetState as BNNSRandomGeneratorSetState,
    BNNSRandomGeneratorStateSize as BNNSRandomGeneratorStateSize,
)
from .reduction import (
    BNNSDirectApplyReduction as BNNSDirectApplyReduction,
    BNNSFilterCreateLayerReduction as BNNSFilterCreateLayerReduction,
)
from .resize import (
    BNNSFilterCreateLayerResize as BNNSFilterCreateLayerResize,
)
from .selection import (
    BNNSDirectApplyInTopK as BNNSDirectApplyInTopK,
    BNNSDirectApplyTopK as BNNSDirectApplyTopK,
    BNNSGather as BNNSGather,
    BNNSGatherND as BNNSGatherND,
    BNNSScatter as BNNSScatter,
    BNNSScatterND as BNNSScatterND,
)
from .sparse import (
    BNNSNDArrayFullyConnectedSparsifySparseCOO as BNNSNDArrayFullyConnectedSparsifySparseCOO,
    BNNSNDArrayFullyConnectedSparsifySparseCSR as BNNSNDArrayFullyConnectedSparsifySparseCSR,
)
from .utility import (
    BNNSDataLayoutGetRank as BNNSDataLayoutGetRank,
    BNNSNDArrayGetDataSize as BNNSNDArrayGetDataSize,
    BNNSTensorGetAllocationSize as BNNSTensorGetAllocationSize,
)

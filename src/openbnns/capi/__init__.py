"""The C interface of classic BNNS under its own names.

Functions take the C parameters in the C order; a name that Python reserves has a trailing underscore (``in_``).
Creation returns a :class:`BNNSFilter` or ``None``; apply calls return 0, or a negative code, and then
:func:`openbnns.last_error` tells what was wrong. Structs and enums carry the C field and member names.
"""

from .._lazy import attach as _attach

__getattr__, __dir__ = _attach(
    __name__,
    {
        "_calls": ["BNNSFilter"],
        "activation": ["BNNSDirectApplyActivationBatch", "BNNSFilterCreateLayerActivation", "BNNSGetPointer"],
        "apply": [
            "BNNSFilterApply",
            "BNNSFilterApplyBackwardBatch",
            "BNNSFilterApplyBackwardTwoInputBatch",
            "BNNSFilterApplyBatch",
            "BNNSFilterApplyTwoInput",
            "BNNSFilterApplyTwoInputBatch",
            "BNNSFilterDestroy",
        ],
        "arithmetic": [
            "BNNSArithmeticFilterApplyBackwardBatch",
            "BNNSArithmeticFilterApplyBatch",
            "BNNSFilterCreateLayerArithmetic",
        ],
        "attention": [
            "BNNSApplyMultiheadAttention",
            "BNNSApplyMultiheadAttentionBackward",
            "BNNSFilterCreateLayerMultiheadAttention",
        ],
        "clipping": [
            "BNNSClipByGlobalNorm",
            "BNNSClipByNorm",
            "BNNSClipByValue",
            "BNNSComputeNorm",
            "BNNSComputeNormBackward",
        ],
        "contraction": ["BNNSFilterCreateLayerTensorContraction"],
        "convolution": ["BNNSFilterCreateLayerConvolution", "BNNSFilterCreateLayerTransposedConvolution"],
        "crop_resize": ["BNNSCropResize", "BNNSCropResizeBackward"],
        "dropout": ["BNNSFilterCreateLayerDropout"],
        "embedding": ["BNNSFilterCreateLayerEmbedding"],
        "fully_connected": ["BNNSFilterCreateLayerFullyConnected"],
        "fused": [
            "BNNSFilterCreateFusedLayer",
            "BNNSFusedFilterApplyBackwardBatch",
            "BNNSFusedFilterApplyBackwardMultiInputBatch",
            "BNNSFusedFilterApplyBatch",
            "BNNSFusedFilterApplyMultiInputBatch",
        ],
        "gram": ["BNNSFilterCreateLayerGram"],
        "legacy": [
            "BNNSFilterCreateConvolutionLayer",
            "BNNSFilterCreateFullyConnectedLayer",
            "BNNSFilterCreatePoolingLayer",
            "BNNSFilterCreateVectorActivationLayer",
        ],
        "loss": ["BNNSFilterCreateLayerLoss", "BNNSLossFilterApplyBackwardBatch", "BNNSLossFilterApplyBatch"],
        "lstm": [
            "BNNSComputeLSTMTrainingCacheCapacity",
            "BNNSDirectApplyLSTMBatchBackward",
            "BNNSDirectApplyLSTMBatchTrainingCaching",
        ],
        "matmul": [
            "BNNSDirectApplyBroadcastMatMul",
            "BNNSFilterCreateLayerBroadcastMatMul",
            "BNNSMatMul",
            "BNNSMatMulWorkspaceSize",
        ],
        "moves": [
            "BNNSBandPart",
            "BNNSCompareTensor",
            "BNNSCopy",
            "BNNSShuffle",
            "BNNSTile",
            "BNNSTileBackward",
            "BNNSTranspose",
        ],
        "nearest_neighbors": [
            "BNNSCreateNearestNeighbors",
            "BNNSDestroyNearestNeighbors",
            "BNNSNearestNeighbors",
            "BNNSNearestNeighborsGetInfo",
            "BNNSNearestNeighborsLoad",
        ],
        "normalization": [
            "BNNSFilterCreateLayerNormalization",
            "BNNSNormalizationFilterApplyBackwardBatch",
            "BNNSNormalizationFilterApplyBatch",
        ],
        "optimizer": ["BNNSOptimizerStep"],
        "padding": ["BNNSFilterCreateLayerPadding"],
        "permute": ["BNNSFilterCreateLayerPermute", "BNNSPermuteFilterApplyBackwardBatch"],
        "pooling": [
            "BNNSFilterCreateLayerPooling",
            "BNNSPoolingFilterApplyBackwardBatch",
            "BNNSPoolingFilterApplyBackwardBatchEx",
            "BNNSPoolingFilterApplyBatch",
            "BNNSPoolingFilterApplyBatchEx",
        ],
        "quantization": ["BNNSDirectApplyQuantizer"],
        "random_numbers": [
            "BNNSCreateRandomGenerator",
            "BNNSCreateRandomGeneratorWithSeed",
            "BNNSDestroyRandomGenerator",
            "BNNSRandomFillCategoricalFloat",
            "BNNSRandomFillNormalFloat",
            "BNNSRandomFillUniformFloat",
            "BNNSRandomFillUniformInt",
            "BNNSRandomGenerator",
            "BNNSRandomGeneratorGetState",
            "BNNSRandomGeneratorSetState",
            "BNNSRandomGeneratorStateSize",
        ],
        "reduction": ["BNNSDirectApplyReduction", "BNNSFilterCreateLayerReduction"],
        "resize": ["BNNSFilterCreateLayerResize"],
        "selection": [
            "BNNSDirectApplyInTopK",
            "BNNSDirectApplyTopK",
            "BNNSGather",
            "BNNSGatherND",
            "BNNSScatter",
            "BNNSScatterND",
        ],
        "sparse": ["BNNSNDArrayFullyConnectedSparsifySparseCOO", "BNNSNDArrayFullyConnectedSparsifySparseCSR"],
        "utility": ["BNNSDataLayoutGetRank", "BNNSNDArrayGetDataSize", "BNNSTensorGetAllocationSize"],
    },
    tables=(".abi.enums", ".abi.structs"),
)

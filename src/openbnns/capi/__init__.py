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
from .clipping import (
    BNNSClipByGlobalNorm,
    BNNSClipByNorm,
    BNNSClipByValue,
    BNNSComputeNorm,
    BNNSComputeNormBackward,
)
from .convolution import BNNSFilterCreateLayerConvolution, BNNSFilterCreateLayerTransposedConvolution
from .dropout import BNNSFilterCreateLayerDropout
from .embedding import BNNSFilterCreateLayerEmbedding
from .enums import *  # noqa: F403
from .fully_connected import BNNSFilterCreateLayerFullyConnected
from .legacy import (
    BNNSFilterCreateConvolutionLayer,
    BNNSFilterCreateFullyConnectedLayer,
    BNNSFilterCreatePoolingLayer,
    BNNSFilterCreateVectorActivationLayer,
)
from .loss import BNNSFilterCreateLayerLoss, BNNSLossFilterApplyBackwardBatch, BNNSLossFilterApplyBatch
from .optimizer import BNNSOptimizerStep
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
    "BNNSArithmeticFilterApplyBackwardBatch",
    "BNNSArithmeticFilterApplyBatch",
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
    "BNNSDirectApplyQuantizer",
    "BNNSFilterApply",
    "BNNSFilterApplyBackwardBatch",
    "BNNSFilterApplyBackwardTwoInputBatch",
    "BNNSFilterApplyBatch",
    "BNNSFilterApplyTwoInput",
    "BNNSFilterApplyTwoInputBatch",
    "BNNSFilterCreateConvolutionLayer",
    "BNNSFilterCreateFullyConnectedLayer",
    "BNNSFilterCreateLayerActivation",
    "BNNSFilterCreateLayerArithmetic",
    "BNNSFilterCreateLayerConvolution",
    "BNNSFilterCreateLayerEmbedding",
    "BNNSFilterCreateLayerFullyConnected",
    "BNNSFilterCreateLayerLoss",
    "BNNSFilterCreateLayerPooling",
    "BNNSFilterCreateLayerTransposedConvolution",
    "BNNSFilterCreatePoolingLayer",
    "BNNSFilterCreateVectorActivationLayer",
    "BNNSFilterDestroy",
    "BNNSGetPointer",
    "BNNSLossFilterApplyBackwardBatch",
    "BNNSLossFilterApplyBatch",
    "BNNSNDArrayGetDataSize",
    "BNNSOptimizerStep",
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

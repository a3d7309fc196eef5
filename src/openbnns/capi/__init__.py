"""The C interface of classic BNNS under its own names.

Functions take the C parameters in the C order; a name that Python reserves has a trailing underscore (``in_``).
Creation returns a :class:`BNNSFilter` or ``None``; apply calls return 0, or a negative code, and then
:func:`openbnns.last_error` tells what was wrong. Structs and enums carry the C field and member names.
"""

from .enums import *  # isort: skip
from .structs import *  # isort: skip
from ._calls import BNNSFilter
from .apply import (
    BNNSFilterApply,
    BNNSFilterApplyBackwardBatch,
    BNNSFilterApplyBackwardTwoInputBatch,
    BNNSFilterApplyBatch,
    BNNSFilterApplyTwoInput,
    BNNSFilterApplyTwoInputBatch,
    BNNSFilterDestroy,
)
from .activation import BNNSDirectApplyActivationBatch, BNNSFilterCreateLayerActivation, BNNSGetPointer
from .arithmetic import (
    BNNSArithmeticFilterApplyBackwardBatch,
    BNNSArithmeticFilterApplyBatch,
    BNNSFilterCreateLayerArithmetic,
)
from .convolution import BNNSFilterCreateLayerConvolution, BNNSFilterCreateLayerTransposedConvolution
from .legacy import (
    BNNSFilterCreateConvolutionLayer,
    BNNSFilterCreateFullyConnectedLayer,
    BNNSFilterCreatePoolingLayer,
    BNNSFilterCreateVectorActivationLayer,
)
from .loss import BNNSFilterCreateLayerLoss, BNNSLossFilterApplyBackwardBatch, BNNSLossFilterApplyBatch
from .pooling import (
    BNNSFilterCreateLayerPooling,
    BNNSPoolingFilterApplyBackwardBatch,
    BNNSPoolingFilterApplyBackwardBatchEx,
    BNNSPoolingFilterApplyBatch,
    BNNSPoolingFilterApplyBatchEx,
)
from .utility import BNNSDataLayoutGetRank, BNNSNDArrayGetDataSize, BNNSTensorGetAllocationSize
from .fully_connected import BNNSFilterCreateLayerFullyConnected

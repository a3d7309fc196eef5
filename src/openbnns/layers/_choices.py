"""Padding, pooling, normalization, loss, reduction, clipping and sparsity with their parameters."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._spelling import CasesMeta, spelled
from ..abi.enums import (
    BNNSDataType,
    BNNSFilterType,
    BNNSLossFunction,
    BNNSLossReductionFunction,
    BNNSOptimizerClippingFunction,
    BNNSPaddingMode,
    BNNSPoolingFunction,
    BNNSReduceFunction,
    BNNSSparsityType,
    BNNSTargetSystem,
)
from ..abi.structs import (
    BNNSLayerParametersLossBase,
    BNNSLayerParametersLossHuber,
    BNNSLayerParametersLossSigmoidCrossEntropy,
    BNNSLayerParametersLossSoftmaxCrossEntropy,
    BNNSLayerParametersLossYolo,
    BNNSNDArrayDescriptor,
    BNNSSparsityParameters,
)
from ..tensors.descriptors import ELEMENT_TYPES
from ._choice import Choice, interval, number


@dataclass(frozen=True, eq=False, repr=False)
class ConvolutionPadding(Choice):
    """Zeros around the input of a convolution or pooling window.

    >>> from openbnns import *
    >>> ConvolutionPadding.symmetric(x=1, y=2).edges
    (1, 1, 2, 2)
    >>> ConvolutionPadding.asymmetric(left=1, right=0, up=1, down=0).bnns_fields
    {'x_padding': 0, 'y_padding': 0, 'pad': (1, 0, 1, 0)}
    """

    x: int = 0
    y: int = 0
    left: int = 0
    right: int = 0
    up: int = 0
    down: int = 0

    @staticmethod
    def symmetric(x: int, y: int) -> ConvolutionPadding:
        """`x` columns left and right, `y` rows above and below."""
        return ConvolutionPadding("symmetric", x=x, y=y, left=x, right=x, up=y, down=y, labels=("x", "y"))

    @staticmethod
    def asymmetric(left: int, right: int, up: int, down: int) -> ConvolutionPadding:
        """A number for each side."""
        labels = ("left", "right", "up", "down")
        return ConvolutionPadding("asymmetric", left=left, right=right, up=up, down=down, labels=labels)

    @staticmethod
    def zero() -> ConvolutionPadding:
        """No padding."""
        return ConvolutionPadding("zero", labels=())

    @property
    def edges(self) -> tuple[int, int, int, int]:
        """Columns left and right, rows above and below."""
        return (self.left, self.right, self.up, self.down)

    @property
    def bnns_fields(self) -> dict[str, Any]:
        """The padding fields of the C parameter structs."""
        pad = self.edges if self.case == "asymmetric" else (0, 0, 0, 0)
        return {"x_padding": self.x, "y_padding": self.y, "pad": pad}


@dataclass(frozen=True, eq=False, repr=False)
class PoolingType(Choice):
    """The function that a pooling layer computes in each window, and where it keeps the positions of the maxima.

    >>> from openbnns import *
    >>> PoolingType.average(count_includes_padding=False).bnns_pooling_function
    BNNSPoolingFunctionAverageCountExcludePadding
    """

    bnns_pooling_function: BNNSPoolingFunction
    indices: Any = None
    indices_descriptor: Any = None
    x_dilation_stride: int = 1
    y_dilation_stride: int = 1
    count_includes_padding: bool = False

    @staticmethod
    def max(indices: Any = None, x_dilation_stride: int = 1, y_dilation_stride: int = 1) -> PoolingType:
        """The largest value; `indices` (size_t, one per output) receives its position in the plane."""
        return PoolingType(
            "max",
            BNNSPoolingFunction.BNNSPoolingFunctionMax,
            indices=indices,
            x_dilation_stride=x_dilation_stride,
            y_dilation_stride=y_dilation_stride,
            labels=("indices", "x_dilation_stride", "y_dilation_stride"),
        )

    @staticmethod
    def max_ex(indices_descriptor: Any = None, x_dilation_stride: int = 1, y_dilation_stride: int = 1) -> PoolingType:
        """The largest value; the indices are of any integer type, given by a descriptor or an array."""
        return PoolingType(
            "max_ex",
            BNNSPoolingFunction.BNNSPoolingFunctionMax,
            indices_descriptor=indices_descriptor,
            x_dilation_stride=x_dilation_stride,
            y_dilation_stride=y_dilation_stride,
            labels=("indices_descriptor", "x_dilation_stride", "y_dilation_stride"),
        )

    @staticmethod
    def un_max(indices: Any = None, x_dilation_stride: int = 1, y_dilation_stride: int = 1) -> PoolingType:
        """Un-pooling: every input goes to the position that `indices` (size_t, one per input) holds for it."""
        return PoolingType(
            "un_max",
            BNNSPoolingFunction.BNNSPoolingFunctionUnMax,
            indices=indices,
            x_dilation_stride=x_dilation_stride,
            y_dilation_stride=y_dilation_stride,
            labels=("indices", "x_dilation_stride", "y_dilation_stride"),
        )

    @staticmethod
    def un_max_ex(indices_descriptor: Any, x_dilation_stride: int = 1, y_dilation_stride: int = 1) -> PoolingType:
        """Un-pooling, with indices of any integer type."""
        return PoolingType(
            "un_max_ex",
            BNNSPoolingFunction.BNNSPoolingFunctionUnMax,
            indices_descriptor=indices_descriptor,
            x_dilation_stride=x_dilation_stride,
            y_dilation_stride=y_dilation_stride,
            labels=("indices_descriptor", "x_dilation_stride", "y_dilation_stride"),
        )

    @staticmethod
    def average(*, count_includes_padding: bool = True) -> PoolingType:
        """The mean, over the whole window or over the part inside the image."""
        included = BNNSPoolingFunction.BNNSPoolingFunctionAverageCountIncludePadding
        excluded = BNNSPoolingFunction.BNNSPoolingFunctionAverageCountExcludePadding
        return PoolingType(
            "average",
            included if count_includes_padding else excluded,
            count_includes_padding=bool(count_includes_padding),
            labels=("count_includes_padding",),
        )

    @staticmethod
    def l2_norm() -> PoolingType:
        """The square root of the sum of squares."""
        return PoolingType("l2_norm", BNNSPoolingFunction.BNNSPoolingFunctionL2Norm, labels=())


@dataclass(frozen=True, eq=False, repr=False)
class NormalizationType(Choice):
    """The values over which a normalization layer takes mean and variance.

    >>> from openbnns import *
    >>> NormalizationType.group(group_count=4).bnns_filter_type
    BNNSGroupNorm
    """

    bnns_filter_type: BNNSFilterType
    moving_mean: Any = None
    moving_variance: Any = None
    normalization_axis: int = 0
    group_count: int = 0

    @staticmethod
    def batch(moving_mean: Any = None, moving_variance: Any = None) -> NormalizationType:
        """Per channel over the batch and the plane; the moving statistics serve inference."""
        kind = BNNSFilterType.BNNSBatchNorm
        labels = ("moving_mean", "moving_variance")
        return NormalizationType("batch", kind, moving_mean, moving_variance, labels=labels)

    @staticmethod
    def instance(moving_mean: Any = None, moving_variance: Any = None) -> NormalizationType:
        """Per sample and channel over the plane; the moving statistics serve inference."""
        kind = BNNSFilterType.BNNSInstanceNorm
        labels = ("moving_mean", "moving_variance")
        return NormalizationType("instance", kind, moving_mean, moving_variance, labels=labels)

    @staticmethod
    def layer(normalization_axis: int = 0) -> NormalizationType:
        """Per sample over channels, rows and columns (axis 0), rows and columns (1) or columns (2)."""
        kind = BNNSFilterType.BNNSLayerNorm
        return NormalizationType("layer", kind, normalization_axis=normalization_axis, labels=("normalization_axis",))

    @staticmethod
    def group(group_count: int) -> NormalizationType:
        """Per sample over groups of channels and the plane."""
        kind = BNNSFilterType.BNNSGroupNorm
        return NormalizationType("group", kind, group_count=group_count, labels=("group_count",))


@dataclass(frozen=True)
class YoloParameters(metaclass=CasesMeta):
    """Grid, anchors and weights of the YOLO detection loss.

    >>> import numpy as np
    >>> from openbnns import *
    >>> YoloParameters(
    ...     grid_column_count=2, grid_rows_count=2, anchor_box_count=1, anchor_box_size=6, anchors_data=np.float32([[1, 1]])
    ... ).anchor_box_size  # x, y, width, height, confidence, and one class
    6
    """

    grid_column_count: int
    grid_rows_count: int
    anchor_box_count: int
    anchor_box_size: int
    anchors_data: Any = field(compare=False)
    huber_delta: float = 1.0
    rescore: bool = False
    xy_scale: float = 1.0
    wh_scale: float = 1.0
    object_scale: float = 1.0
    no_object_scale: float = 1.0
    classification_scale: float = 1.0
    object_minimum_iou: float = 0.5
    no_object_maximum_iou: float = 0.5


LossParameters = (
    BNNSLayerParametersLossBase
    | BNNSLayerParametersLossSoftmaxCrossEntropy
    | BNNSLayerParametersLossSigmoidCrossEntropy
    | BNNSLayerParametersLossHuber
    | BNNSLayerParametersLossYolo
)


@dataclass(frozen=True, eq=False, repr=False)
class LossFunction(Choice):
    """The loss of a loss layer.

    >>> from openbnns import *
    >>> LossFunction.softmax_cross_entropy(label_smoothing=0.1)
    LossFunction.softmax_cross_entropy(label_smoothing=0.1)
    """

    bnns_loss_function: BNNSLossFunction
    label_smoothing: float = 0.0
    huber_delta: float = 0.0
    parameters: YoloParameters | None = None

    @staticmethod
    def softmax_cross_entropy(label_smoothing: float = 0.0) -> LossFunction:
        """-sum_i t_i log(softmax(x)_i), labels moved towards uniform by the smoothing."""
        function = BNNSLossFunction.BNNSLossFunctionSoftmaxCrossEntropy
        smoothing = number(label_smoothing, "LossFunction.softmax_cross_entropy: label_smoothing")
        return LossFunction("softmax_cross_entropy", function, smoothing, labels=("label_smoothing",))

    @staticmethod
    def sigmoid_cross_entropy(label_smoothing: float = 0.0) -> LossFunction:
        """-t log q - (1 - t) log(1 - q) with q = sigmoid(x), labels moved towards 1/2 by the smoothing."""
        function = BNNSLossFunction.BNNSLossFunctionSigmoidCrossEntropy
        smoothing = number(label_smoothing, "LossFunction.sigmoid_cross_entropy: label_smoothing")
        return LossFunction("sigmoid_cross_entropy", function, smoothing, labels=("label_smoothing",))

    @staticmethod
    def mean_square_error() -> LossFunction:
        """(x - t)^2."""
        return LossFunction("mean_square_error", BNNSLossFunction.BNNSLossFunctionMeanSquareError, labels=())

    @staticmethod
    def mean_absolute_error() -> LossFunction:
        """|x - t|."""
        return LossFunction("mean_absolute_error", BNNSLossFunction.BNNSLossFunctionMeanAbsoluteError, labels=())

    @staticmethod
    def huber(huber_delta: float = 1.0) -> LossFunction:
        """Quadratic up to an error of `huber_delta`, linear beyond."""
        function = BNNSLossFunction.BNNSLossFunctionHuber
        return LossFunction(
            "huber",
            function,
            huber_delta=number(huber_delta, "LossFunction.huber: huber_delta"),
            labels=("huber_delta",),
        )

    @staticmethod
    def log() -> LossFunction:
        """-t log(x + eps) - (1 - t) log(1 - x + eps)."""
        return LossFunction("log", BNNSLossFunction.BNNSLossFunctionLog, labels=())

    @staticmethod
    def cosine_distance() -> LossFunction:
        """1 - sum_i t_i x_i for unit vectors."""
        return LossFunction("cosine_distance", BNNSLossFunction.BNNSLossFunctionCosineDistance, labels=())

    @staticmethod
    def hinge() -> LossFunction:
        """max(0, 1 - (2 t - 1) x)."""
        return LossFunction("hinge", BNNSLossFunction.BNNSLossFunctionHinge, labels=())

    @staticmethod
    def categorical_cross_entropy() -> LossFunction:
        """-log(softmax(x)_c) t_c averaged over the classes with a nonzero label."""
        function = BNNSLossFunction.BNNSLossFunctionCategoricalCrossEntropy
        return LossFunction("categorical_cross_entropy", function, labels=())

    @staticmethod
    def yolo(parameters: YoloParameters) -> LossFunction:
        """Detection loss over a grid of cells with anchors; its reduction must be the sum."""
        if not isinstance(parameters, YoloParameters):
            raise TypeError(f"LossFunction.yolo: parameters must be YoloParameters, not {type(parameters).__name__}.")
        function = BNNSLossFunction.BNNSLossFunctionYolo
        return LossFunction("yolo", function, parameters=parameters, labels=("parameters",))

    def bnns_layer_parameters(
        self,
        input: BNNSNDArrayDescriptor,
        output: BNNSNDArrayDescriptor,
        reduction: BNNSLossReductionFunction | int,
    ) -> LossParameters:
        """The C struct that describes a layer with this loss."""
        common: dict[str, Any] = {
            "function": self.bnns_loss_function,
            "i_desc": input,
            "o_desc": output,
            "reduction": reduction,
        }
        if self.case == "softmax_cross_entropy":
            return BNNSLayerParametersLossSoftmaxCrossEntropy(**common, label_smooth=self.label_smoothing)
        if self.case == "sigmoid_cross_entropy":
            return BNNSLayerParametersLossSigmoidCrossEntropy(**common, label_smooth=self.label_smoothing)
        if self.case == "huber":
            return BNNSLayerParametersLossHuber(**common, huber_delta=self.huber_delta)
        if self.parameters is None:
            return BNNSLayerParametersLossBase(**common)
        yolo = self.parameters
        return BNNSLayerParametersLossYolo(
            **common,
            huber_delta=yolo.huber_delta,
            number_of_grid_columns=yolo.grid_column_count,
            number_of_grid_rows=yolo.grid_rows_count,
            number_of_anchor_boxes=yolo.anchor_box_count,
            anchor_box_size=yolo.anchor_box_size,
            rescore=yolo.rescore,
            scale_xy=yolo.xy_scale,
            scale_wh=yolo.wh_scale,
            scale_object=yolo.object_scale,
            scale_no_object=yolo.no_object_scale,
            scale_classification=yolo.classification_scale,
            object_minimum_iou=yolo.object_minimum_iou,
            no_object_maximum_iou=yolo.no_object_maximum_iou,
            anchors_data=yolo.anchors_data,
        )


_R = BNNSReduceFunction


@dataclass(frozen=True, eq=False, repr=False)
class ReductionFunction(Choice):
    """How the values along the reduced axes become one.

    >>> from openbnns import *
    >>> ReductionFunction.sum_of_logs(epsilon=1e-6)
    ReductionFunction.sum_of_logs(epsilon=1e-06)
    >>> ReductionFunction.any().bnns_reduce_function
    BNNSReduceFunctionLogicalOr
    """

    bnns_reduce_function: BNNSReduceFunction
    epsilon: float = 0.0

    @staticmethod
    def max() -> ReductionFunction:
        """The largest value."""
        return ReductionFunction("max", _R.BNNSReduceFunctionMax, labels=())

    @staticmethod
    def min() -> ReductionFunction:
        """The smallest value."""
        return ReductionFunction("min", _R.BNNSReduceFunctionMin, labels=())

    @staticmethod
    def arg_max() -> ReductionFunction:
        """Position of the largest value."""
        return ReductionFunction("arg_max", _R.BNNSReduceFunctionArgMax, labels=())

    @staticmethod
    def arg_min() -> ReductionFunction:
        """Position of the smallest value."""
        return ReductionFunction("arg_min", _R.BNNSReduceFunctionArgMin, labels=())

    max_index = arg_max
    min_index = arg_min

    @staticmethod
    def mean() -> ReductionFunction:
        """The mean."""
        return ReductionFunction("mean", _R.BNNSReduceFunctionMean, labels=())

    @staticmethod
    def mean_non_zero() -> ReductionFunction:
        """The mean over the elements whose weight is not zero."""
        return ReductionFunction("mean_non_zero", _R.BNNSReduceFunctionMeanNonZero, labels=())

    @staticmethod
    def sum() -> ReductionFunction:
        """The sum."""
        return ReductionFunction("sum", _R.BNNSReduceFunctionSum, labels=())

    @staticmethod
    def sum_of_squares() -> ReductionFunction:
        """The sum of x^2."""
        return ReductionFunction("sum_of_squares", _R.BNNSReduceFunctionSumSquare, labels=())

    @staticmethod
    def sum_of_logs(epsilon: float = 0.0) -> ReductionFunction:
        """The sum of log(x + epsilon)."""
        return ReductionFunction(
            "sum_of_logs",
            _R.BNNSReduceFunctionSumLog,
            number(epsilon, "ReductionFunction.sum_of_logs: epsilon"),
            labels=("epsilon",),
        )

    @staticmethod
    def sum_of_absolutes() -> ReductionFunction:
        """The sum of |x|."""
        return ReductionFunction("sum_of_absolutes", _R.BNNSReduceFunctionL1Norm, labels=())

    @staticmethod
    def l2_norm() -> ReductionFunction:
        """The square root of the sum of x^2."""
        return ReductionFunction("l2_norm", _R.BNNSReduceFunctionL2Norm, labels=())

    @staticmethod
    def log_sum_exp() -> ReductionFunction:
        """log(sum of exp(x))."""
        return ReductionFunction("log_sum_exp", _R.BNNSReduceFunctionLogSumExp, labels=())

    @staticmethod
    def product() -> ReductionFunction:
        """The product."""
        return ReductionFunction("product", _R.BNNSReduceFunctionProduct, labels=())

    @staticmethod
    def logical_or() -> ReductionFunction:
        """True if any value is true."""
        return ReductionFunction("logical_or", _R.BNNSReduceFunctionLogicalOr, labels=())

    @staticmethod
    def logical_and() -> ReductionFunction:
        """True if all values are true."""
        return ReductionFunction("logical_and", _R.BNNSReduceFunctionLogicalAnd, labels=())

    any = logical_or
    all = logical_and

    @staticmethod
    def log_sum() -> ReductionFunction:
        """log(sum of x). Not in Swift."""
        return ReductionFunction("log_sum", _R.BNNSReduceFunctionLogSum, labels=())

    @staticmethod
    def none() -> ReductionFunction:
        """No reduction; only for scattering, where it overwrites. Not in Swift."""
        return ReductionFunction("none", _R.BNNSReduceFunctionNone, labels=())


@dataclass(frozen=True, eq=False, repr=False)
class PaddingMode(Choice):
    """The values that a padding layer writes around the input.

    >>> from openbnns import *
    >>> hex(PaddingMode.constant_scalar(1.0).padding_bit_pattern)
    '0x3f800000'
    """

    bnns_padding_mode: BNNSPaddingMode
    value: float = 0.0
    bit_pattern: int = 0

    @staticmethod
    def constant_scalar(value: float = 0.0) -> PaddingMode:
        """One number everywhere."""
        mode = BNNSPaddingMode.BNNSPaddingModeConstant
        return PaddingMode(
            "constant_scalar", mode, number(value, "PaddingMode.constant_scalar: value"), labels=("value",)
        )

    @staticmethod
    def constant_bit_pattern(bit_pattern: int) -> PaddingMode:
        """The leading bytes of a 32-bit pattern everywhere."""
        mode = BNNSPaddingMode.BNNSPaddingModeConstant
        return PaddingMode("constant_bit_pattern", mode, bit_pattern=bit_pattern, labels=("bit_pattern",))

    @staticmethod
    def reflect() -> PaddingMode:
        """Mirrored without repeating the edge: CB|ABC."""
        return PaddingMode("reflect", BNNSPaddingMode.BNNSPaddingModeReflect, labels=())

    @staticmethod
    def symmetric() -> PaddingMode:
        """Mirrored including the edge: BA|ABC."""
        return PaddingMode("symmetric", BNNSPaddingMode.BNNSPaddingModeSymmetric, labels=())

    @property
    def padding_bit_pattern(self) -> int:
        """The fill for float32 arrays, as `BNNSLayerParametersPadding.padding_value` takes it."""
        return self.bit_pattern_for(BNNSDataType.BNNSDataTypeFloat32)

    @spelled
    def bit_pattern_for(self, data_type: BNNSDataType | int) -> int:
        """The fill for arrays of this element type."""
        if self.case != "constant_scalar":
            return self.bit_pattern
        element = ELEMENT_TYPES[int(data_type)]
        if element.kind == "bfloat":  # the upper half of the float32, rounded to nearest, ties to even
            bits = int.from_bytes(struct.pack("<f", self.value), "little")
            return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        if element.numpy is None or element.bits > 32:
            raise ValueError(f"PaddingMode.constant_scalar: no 32-bit pattern holds a {element.name}.")
        return int.from_bytes(np.array(self.value).astype(element.numpy).tobytes(), "little")


@dataclass(frozen=True, eq=False, repr=False)
class GradientClipping(Choice):
    """How an optimizer limits gradients before it uses them.

    >>> from openbnns import *
    >>> GradientClipping.by_value(bounds=(-1, 1)).bnns_fields["clip_gradients_max"]
    1.0
    """

    bnns_clipping_function: BNNSOptimizerClippingFunction
    bounds: tuple[float, float] = (0.0, 0.0)
    threshold: float = 0.0
    global_norm: float = 0.0

    @staticmethod
    def none() -> GradientClipping:
        """No limit."""
        return GradientClipping("none", BNNSOptimizerClippingFunction.BNNSOptimizerClippingNone, labels=())

    @staticmethod
    def by_value(bounds: Sequence[float]) -> GradientClipping:
        """Every element clamped to (low, high)."""
        low, high = interval(bounds, "GradientClipping.by_value: bounds")
        function = BNNSOptimizerClippingFunction.BNNSOptimizerClippingByValue
        return GradientClipping("by_value", function, (low, high), labels=("bounds",))

    @staticmethod
    def by_norm(threshold: float) -> GradientClipping:
        """Every gradient scaled down to an L2 norm of at most `threshold`."""
        function = BNNSOptimizerClippingFunction.BNNSOptimizerClippingByNorm
        threshold = number(threshold, "GradientClipping.by_norm: threshold")
        return GradientClipping("by_norm", function, threshold=threshold, labels=("threshold",))

    @staticmethod
    def by_global_norm(threshold: float, global_norm: float = 0.0) -> GradientClipping:
        """All gradients scaled down together to an L2 norm of at most `threshold`; `global_norm` 0 means compute the norm."""
        return GradientClipping(
            "by_global_norm",
            BNNSOptimizerClippingFunction.BNNSOptimizerClippingByGlobalNorm,
            threshold=number(threshold, "GradientClipping.by_global_norm: threshold"),
            global_norm=number(global_norm, "GradientClipping.by_global_norm: global_norm"),
            labels=("threshold", "global_norm"),
        )

    @property
    def bnns_fields(self) -> dict[str, Any]:
        """The clipping fields of the C structs whose names end in `WithClippingFields`."""
        return {
            "clipping_func": self.bnns_clipping_function,
            "clip_gradients_min": self.bounds[0],
            "clip_gradients_max": self.bounds[1],
            "clip_gradients_max_norm": self.threshold,
            "clip_gradients_use_norm": self.global_norm,
        }


@dataclass(frozen=True, eq=False, repr=False)
class SparseLayout(Choice):
    """The positions of the nonzero weights of a fully connected layer.

    >>> import numpy as np
    >>> from openbnns import *
    >>> coo = SparseLayout.coo(indices=np.int32([[0, 1]]))
    >>> coo
    SparseLayout.coo(indices=<int32 array (1, 2)>)
    """

    indices: Any = None
    column_indices: Any = None
    row_starts: Any = None

    @staticmethod
    def coo(indices: Any) -> SparseLayout:
        """One coordinate pair per value."""
        return SparseLayout("coo", indices, labels=("indices",))

    @staticmethod
    def csr(column_indices: Any, row_starts: Any) -> SparseLayout:
        """One column per value, and where each row starts."""
        labels = ("column_indices", "row_starts")
        return SparseLayout("csr", column_indices=column_indices, row_starts=row_starts, labels=labels)


@dataclass(frozen=True)
class SparseParameters(metaclass=CasesMeta):
    """A hint about sparse weights: their pattern, the share of zeros as (numerator, denominator), the machine.

    >>> from openbnns import *
    >>> SparseParameters(ratio=(3, 4)).bnns_sparsity_parameters
    BNNSSparsityParameters(sparsity_ratio=[3, 4])
    """

    type: Any = BNNSSparsityType.BNNSSparsityTypeUnstructured
    ratio: tuple[int, int] = (0, 0)
    target_system: Any = BNNSTargetSystem.BNNSTargetSystemGeneric

    @property
    def bnns_sparsity_parameters(self) -> BNNSSparsityParameters:
        """The C struct."""
        return BNNSSparsityParameters(
            sparsity_ratio=self.ratio,
            sparsity_type=getattr(self.type, "value", self.type),
            target_system=getattr(self.target_system, "value", self.target_system),
        )

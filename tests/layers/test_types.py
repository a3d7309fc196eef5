"""The Swift-style choices of the layers: shapes, functions and types against the enums of C."""

from __future__ import annotations

import enum
import math
from typing import Any

import numpy as np
import pytest

from helpers import descriptor
from openbnns.abi import enums, structs
from openbnns.abi.structs import BNNSLayerParametersConvolution
from openbnns.layers import types
from openbnns.layers.types import ActivationFunction, DataLayout, DataType, Shape

# ---- shapes


@pytest.mark.parametrize(
    ("shape", "stride", "batch_stride", "array_shape"),
    [
        (Shape.vector(5), (1,), 5, (5,)),
        (Shape.vector(5, stride=2), (2,), 10, (5,)),
        (Shape.matrix_row_major(4, 3), (1, 4), 12, (3, 4)),
        (Shape.matrix_row_major(4, 3, stride=(1, 6)), (1, 6), 18, (3, 4)),
        (Shape.matrix_column_major(4, 3), (1, 4), 12, (3, 4)),
        (Shape.matrix_first_major(4, 3), (1, 3), 12, (4, 3)),
        (Shape.matrix_last_major(4, 3), (1, 4), 12, (3, 4)),
        (Shape.image_chw(4, 3, 2), (1, 4, 12), 24, (2, 3, 4)),
        (Shape.image_chw(4, 3, 2, stride=(0, 5)), (1, 5, 15), 30, (2, 3, 4)),
        (Shape.tensor_3d_sne(4, 3, 2), (1, 4, 12), 24, (2, 3, 4)),
        (Shape.tensor_3d_nse(4, 3, 2), (1, 4, 12), 24, (2, 3, 4)),
        (Shape.convolution_weights_oihw(5, 4, 3, 2), (1, 5, 20, 60), 120, (2, 3, 4, 5)),
        (Shape.tensor_3d_first_major(2, 3, 4), (1, 4, 12), 24, (2, 3, 4)),
        (Shape.tensor_3d_last_major(2, 3, 4), (1, 2, 6), 24, (4, 3, 2)),
        (Shape.tensor_8d_first_major(*range(1, 9)), (1, 8, 56, 336, 1680, 6720, 20160, 40320), 40320, None),
    ],
    ids=repr,
)
def test_shape_strides(
    shape: Shape, stride: tuple[int, ...], batch_stride: int, array_shape: tuple[int, ...] | None
) -> None:
    assert shape.stride == stride
    assert shape.batch_stride == batch_stride
    assert shape.array_shape == (array_shape or shape.size)
    assert eval(repr(shape), {"Shape": Shape}) == shape


@pytest.mark.parametrize("layout", DataLayout)
def test_every_layout_has_a_factory(layout: DataLayout) -> None:
    sizes = tuple(range(2, 2 + layout.rank))
    shape = getattr(Shape, layout.name.lower())(*sizes)
    assert (shape.layout, shape.rank, shape.size) == (layout.value, layout.rank, sizes)
    assert shape == Shape(sizes, layout) == Shape(sizes, layout.value) and hash(shape) == hash(Shape(sizes, layout))
    descriptor = shape.descriptor()
    assert (descriptor.layout, tuple(descriptor.size[: layout.rank])) == (layout.value, sizes)
    assert not any(descriptor.stride) and descriptor.data is None


def test_shape_without_layout_is_c_order() -> None:
    assert Shape([7]) == Shape.vector(7)
    for rank in range(2, 9):
        assert Shape(range(1, rank + 1)).layout == getattr(enums, f"BNNSDataLayout{rank}DFirstMajor")


def test_shape_descriptor() -> None:
    memory = np.zeros(60, np.int8)
    descriptor = Shape.image_chw(4, 3, 2, stride=(1, 5)).descriptor(DataType.INT8, memory)
    assert list(descriptor.stride[:4]) == [1, 5, 15, 0]
    assert descriptor.data is memory and descriptor.data_type is enums.BNNSDataTypeInt8


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Shape.vector(-1), ValueError, r"sizes must not be negative, got \(-1,\)"),
        (lambda: Shape.vector(1.5), TypeError, "sizes must be whole numbers"),  # type: ignore[arg-type]
        (lambda: Shape(()), ValueError, "takes 1 to 8 sizes, got 0"),
        (lambda: Shape.tensor_3d_first_major(1, 2), ValueError, "BNNSDataLayout3DFirstMajor has 3 axes, got 2 sizes"),
        (lambda: Shape.vector(3, stride=(1, 2)), ValueError, r"2 strides \(1, 2\) for 1 axes"),
        (lambda: Shape.matrix_row_major(3, 2, stride=(6, 1)), ValueError, "strides must not decrease"),
    ],
)
def test_shape_errors(make: Any, kind: type[Exception], message: str) -> None:
    from openbnns.errors import InvalidDescriptorError

    with pytest.raises(kind, match=message) as caught:
        make()
    assert isinstance(caught.value, InvalidDescriptorError)


# ---- choices


def activation_cases() -> dict[str, ActivationFunction]:
    """Every factory called with distinct parameters."""
    cases = {}
    for name, member in vars(ActivationFunction).items():
        if isinstance(member, staticmethod):
            arguments = {label: 0.25 for label in member.__func__.__annotations__ if label in ("alpha", "beta")}
            if name == "clamp":
                arguments = {"bounds": (-1, 2)}  # type: ignore[dict-item]
            elif name.startswith("integer"):
                arguments = {label: 3 for label in member.__func__.__annotations__ if label != "return"}
            cases[name] = member.__func__(**arguments)
    return cases


def test_every_activation_function_has_a_factory() -> None:
    cases = activation_cases()
    reached = {case.function for case in cases.values()}
    assert reached == set(enums.BNNSActivationFunction)
    for name, case in cases.items():
        assert case.case == name
        assert eval(repr(case), {"ActivationFunction": ActivationFunction}) == case
        activation = case.bnns_activation
        assert (activation.function, activation.alpha, activation.beta) == (case.function, case.alpha, case.beta)


def test_activation_names_match_their_c_constants() -> None:
    for name, case in activation_cases().items():
        c_name = case.function.name.removeprefix("BNNSActivationFunction").lower()
        assert c_name == name.replace("_", "") or name == "hard_swish"


def test_activation_parameters() -> None:
    gelu = ActivationFunction.gelu_approximation()
    assert (gelu.alpha, gelu.beta) == (math.sqrt(2 / math.pi), 0.044715)
    assert ActivationFunction.clamp(bounds=(0, 6)).bounds == (0.0, 6.0)
    with pytest.raises(ValueError, match=r"clamp: bounds 6\.0 to 0\.0 are empty"):
        ActivationFunction.clamp(bounds=(6, 0))
    integer = ActivationFunction.integer_linear_saturate(scale=3, offset=-1, shift=2).bnns_activation
    assert (integer.iscale, integer.ioffset, integer.ishift) == (3, -1, 2)
    assert ActivationFunction.elu(alpha=1) == ActivationFunction.elu() != ActivationFunction.celu(alpha=1)
    assert len({ActivationFunction.tanh(), ActivationFunction.tanh()}) == 1
    with pytest.raises(AttributeError):
        gelu.alpha = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("choice", "c_enum"),
    [
        (types.DescriptorType, enums.BNNSDescriptorType),
        (types.LossReduction, enums.BNNSLossReductionFunction),
        (types.InterpolationMethod, enums.BNNSInterpolationMethod),
        (types.LinearSamplingMode, enums.BNNSLinearSamplingMode),
        (types.BoxCoordinateMode, enums.BNNSBoxCoordinateMode),
        (types.RelationalOperator, enums.BNNSRelationalOperator),
        (types.ShuffleType, enums.BNNSShuffleType),
        (types.SparsityType, enums.BNNSSparsityType),
        (types.TargetSystem, enums.BNNSTargetSystem),
        (types.RandomGeneratorMethod, enums.BNNSRandomGeneratorMethod),
        (types.RegularizationFunction, enums.BNNSOptimizerRegularizationFunction),
        (types.SGDMomentumVariant, enums.BNNSOptimizerSGDMomentumVariant),
    ],
)
def test_choices_cover_their_c_enum(choice: type[enum.Enum], c_enum: type[enum.IntEnum]) -> None:
    assert {member.value for member in choice} == set(c_enum)


def test_arithmetic_functions_are_shared_out_by_number_of_operands() -> None:
    unary, binary, ternary = (
        {member.value for member in choice}
        for choice in (
            types.ArithmeticUnaryFunction,
            types.ArithmeticBinaryFunction,
            types.ArithmeticTernaryFunction,
        )
    )
    assert unary | binary | ternary == set(enums.BNNSArithmeticFunction)
    assert (len(unary), len(binary), len(ternary)) == (27, 12, 2)


def test_data_types_are_the_constants_with_a_width() -> None:
    assert {member.value for member in DataType} == {code for code in enums.BNNSDataType if code & 0xFF}
    for name in ("float16", "float32", "int8", "int64", "uint8", "uint16", "bool"):
        assert DataType.from_dtype(name).dtype == np.dtype(name)
    assert DataType.UINT3.dtype is None
    for wrong in ("float64", ">f4", "complex64"):
        with pytest.raises(TypeError, match="BNNS has no element type for"):
            DataType.from_dtype(wrong)


def test_convolution_padding_and_type() -> None:
    padding = types.ConvolutionPadding
    layer = BNNSLayerParametersConvolution(**padding.symmetric(x=1, y=2).bnns_fields)
    assert (layer.x_padding, layer.y_padding, list(layer.pad)) == (1, 2, [0, 0, 0, 0])
    layer = BNNSLayerParametersConvolution(**padding.asymmetric(left=1, right=2, up=3, down=4).bnns_fields)
    assert (layer.x_padding, layer.y_padding, list(layer.pad)) == (0, 0, [1, 2, 3, 4])
    assert padding.zero().edges == (0, 0, 0, 0)
    assert repr(padding.symmetric(x=1, y=2)) == "ConvolutionPadding.symmetric(x=1, y=2)"
    assert types.ConvolutionType.TRANSPOSED.value is enums.BNNSTransposedConvolution


def test_pooling_and_normalization_types() -> None:
    indices = np.zeros(4, np.uint64)
    pooling = types.PoolingType
    assert pooling.max(indices) == pooling.max(indices) != pooling.max(indices.copy())
    assert pooling.max().indices is None and pooling.max().x_dilation_stride == 1
    functions = [pooling.max(), pooling.max_ex(), pooling.un_max(), pooling.un_max_ex(indices), pooling.l2_norm()]
    functions += [pooling.average(count_includes_padding=True), pooling.average(count_includes_padding=False)]
    assert {each.bnns_pooling_function for each in functions} == set(enums.BNNSPoolingFunction)
    norm = types.NormalizationType
    kinds = [norm.batch(moving_mean=None, moving_variance=None), norm.instance(), norm.layer(2), norm.group(4)]
    assert [int(each.bnns_filter_type) for each in kinds] == [2, 3, 4, 5]
    assert (kinds[2].normalization_axis, kinds[3].group_count) == (2, 4)


def test_loss_functions_make_their_struct() -> None:
    loss = types.LossFunction
    yolo = types.YoloParameters(7, 6, 2, 25, anchors_data=np.ones(4, np.float32), xy_scale=5.0)
    cases = [
        loss.softmax_cross_entropy(label_smoothing=0.5),
        loss.sigmoid_cross_entropy(label_smoothing=0.5),
        loss.mean_square_error(),
        loss.huber(huber_delta=2),
        loss.yolo(yolo),
        loss.log(),
        loss.cosine_distance(),
        loss.hinge(),
        loss.mean_absolute_error(),
        loss.categorical_cross_entropy(),
    ]
    assert [int(case.bnns_loss_function) for case in cases] == list(range(1, 11))
    one, other = (descriptor("ImageCHW", (width, 3, 2)) for width in (4, 5))
    built = [case.bnns_layer_parameters(one, other, enums.BNNSLossReductionSum) for case in cases]
    for case, parameters in zip(cases, built, strict=True):
        assert parameters.function is case.bnns_loss_function
        assert parameters.i_desc == one and parameters.o_desc == other
        assert parameters.reduction is enums.BNNSLossReductionSum
    assert {type(each).__name__.removeprefix("BNNSLayerParametersLoss") for each in built} == {
        *("Base", "SoftmaxCrossEntropy", "SigmoidCrossEntropy", "Huber", "Yolo")
    }
    assert isinstance(built[0], structs.BNNSLayerParametersLossSoftmaxCrossEntropy) and built[0].label_smooth == 0.5
    assert isinstance(built[3], structs.BNNSLayerParametersLossHuber) and built[3].huber_delta == 2
    assert isinstance(built[4], structs.BNNSLayerParametersLossYolo)
    assert (built[4].number_of_grid_columns, built[4].number_of_grid_rows, built[4].scale_xy) == (7, 6, 5.0)


def test_reduction_functions_cover_the_c_enum() -> None:
    factories = [name for name, member in vars(types.ReductionFunction).items() if isinstance(member, staticmethod)]
    made = [getattr(types.ReductionFunction, name)() for name in factories]
    assert {each.bnns_reduce_function for each in made} == set(enums.BNNSReduceFunction)
    assert types.ReductionFunction.sum_of_logs(epsilon=0.5).epsilon == 0.5
    assert types.ReductionFunction.max_index() == types.ReductionFunction.arg_max()


@pytest.mark.parametrize(
    ("value", "data_type", "bits"),
    [
        (1.0, enums.BNNSDataTypeFloat32, 0x3F800000),
        (1.0, enums.BNNSDataTypeFloat16, 0x3C00),
        (1.0, enums.BNNSDataTypeBFloat16, 0x3F80),
        (1.00390625, enums.BNNSDataTypeBFloat16, 0x3F80),
        (-1.0, enums.BNNSDataTypeInt8, 0xFF),
        (7.0, enums.BNNSDataTypeUInt32, 7),
    ],
)
def test_padding_constant_is_a_bit_pattern(value: float, data_type: enums.BNNSDataType, bits: int) -> None:
    assert types.PaddingMode.constant_scalar(value).bit_pattern_for(data_type) == bits


def test_padding_modes() -> None:
    modes = [types.PaddingMode.constant_bit_pattern(0xDEADBEEF), types.PaddingMode.reflect()]
    modes.append(types.PaddingMode.symmetric())
    assert [mode.bnns_padding_mode for mode in modes] == list(enums.BNNSPaddingMode)
    assert modes[0].padding_bit_pattern == 0xDEADBEEF
    with pytest.raises(ValueError, match="no 32-bit pattern holds a Int64"):
        types.PaddingMode.constant_scalar(1.0).bit_pattern_for(enums.BNNSDataTypeInt64)


def test_gradient_clipping_fills_the_optimizer_structs() -> None:
    clipping = types.GradientClipping
    cases = [clipping.none(), clipping.by_value(bounds=(-1, 2)), clipping.by_norm(3), clipping.by_global_norm(4, 5)]
    assert [case.bnns_clipping_function for case in cases] == list(enums.BNNSOptimizerClippingFunction)
    fields = structs.BNNSOptimizerAdamWithClippingFields(**cases[1].bnns_fields)
    assert (fields.clip_gradients_min, fields.clip_gradients_max) == (-1, 2)
    fields = structs.BNNSOptimizerAdamWithClippingFields(**cases[3].bnns_fields)
    assert (fields.clip_gradients_max_norm, fields.clip_gradients_use_norm) == (4, 5)
    with pytest.raises(ValueError, match="are empty"):
        clipping.by_value(bounds=(2, -1))


def test_sparse_layout_and_parameters() -> None:
    assert types.SparseLayout.coo("i").indices == "i"
    assert types.SparseLayout.csr("c", "r").row_starts == "r"
    parameters = types.SparseParameters(types.SparsityType.UNSTRUCTURED, (1, 2), types.TargetSystem.GENERIC)
    assert list(parameters.bnns_sparsity_parameters.sparsity_ratio) == [1, 2]


def test_learning_phase_and_norm() -> None:
    assert types.LearningPhase.TRAINING.is_training and not types.LearningPhase.INFERENCE.is_training
    assert [norm.value for norm in types.Norm] == [1.0, 2.0, math.inf]
    aliases = {name: norm.name for name, norm in types.Norm.__members__.items() if norm.name != name}
    assert aliases == {"TAXICAB": "L1", "EUCLIDEAN": "L2", "L_INFINITY": "MAXIMUM"}


def test_every_public_name_is_documented() -> None:
    for name in types.__all__:
        assert (getattr(types, name).__doc__ or "").strip(), name


def test_shapes_of_tensors_have_two_spellings() -> None:
    for name in [n for n in dir(Shape) if n.startswith("tensor_")]:
        sizes = range(2, 2 + int(name[len("tensor_")]))
        assert getattr(Shape, name.replace("_", "", 1))(*sizes) == getattr(Shape, name)(*sizes)

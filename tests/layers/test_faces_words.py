"""Each face speaks in its own words: what goes wrong at the creation of a layer is told without the names of C."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import (
    ActivationFunction,
    ActivationLayer,
    AdamOptimizer,
    AdamWOptimizer,
    ArithmeticBinaryFunction,
    ArithmeticTernaryFunction,
    ArithmeticUnaryFunction,
    BinaryArithmeticLayer,
    BroadcastMatrixMultiplyLayer,
    ConvolutionLayer,
    ConvolutionPadding,
    ConvolutionType,
    CropResizeLayer,
    DataType,
    DescriptorType,
    EmbeddingLayer,
    FullyConnectedLayer,
    FusedConvolutionNormalizationLayer,
    FusedFullyConnectedNormalizationLayer,
    FusedFullyConnectedParameters,
    FusedNormalizationParameters,
    FusedParametersLayer,
    FusedQuantizationParameters,
    InterpolationMethod,
    LossFunction,
    LossLayer,
    LossReduction,
    LSTMLayer,
    NearestNeighbors,
    NormalizationLayer,
    NormalizationType,
    PaddingLayer,
    PaddingMode,
    PermuteLayer,
    PoolingLayer,
    PoolingType,
    RandomGenerator,
    ReductionFunction,
    ReductionLayer,
    ResizeLayer,
    SGDMomentumOptimizer,
    Shape,
    SparseLayout,
    TensorContractionLayer,
    TernaryArithmeticLayer,
    UnaryArithmeticLayer,
    YoloParameters,
    capi,
    gradients,
)
from openbnns.capi import BNNSFilterParameters, BNNSNDArrayDescriptor
from openbnns.gradients._random import Random
from openbnns.layers.base import Layer

C_WORDS = re.compile(
    r"_desc\b|\bNULL\b|\bBNNS\w*(?:Create|Apply)\w*|\bBNNSFilter(?!Parameters)|k_width|k_height|\b[xy]_(?:stride|padding)\b|\bpad\["
    r"|layer_params|filter_params\b|pooling_function|axis_flags|axis_mask|num_groups|reduce_func|label_smooth\b|padding_idx"
    r"|max_norm|number_of_|\bscale_(?:xy|wh|object)|arithmetic_function|\bin[123]\b|\btrans[AB]\b|_is_weights are|\bgroups is"
    r"|\bin\[|seq_len|sequence_descriptor|_gate\b|n_features|n_neighbors|max_n_samples|clip_gradients|regularization_func\b"
    r"|\bdest\b|\bsrc\b|BNNSRandom"
)
ALLOWED = re.compile(r"input_[ab]_is_weights are")

F = np.float32
V = Shape.vector
IMAGE = Shape.image_chw(6, 4, 2)


def z(*shape: int, dtype: Any = F) -> Any:
    return np.zeros(shape, dtype)


def bare(layout: int, size: Any, data: Any = None, data_type: Any = capi.BNNSDataTypeFloat32, stride: Any = ()) -> Any:
    return BNNSNDArrayDescriptor(layout=layout, size=size, stride=stride, data=data, data_type=data_type)


def vector(n: int, **fields: Any) -> Any:
    return bare(capi.BNNSDataLayoutVector, [n], **fields)


def image(*size: int, **fields: Any) -> Any:
    return bare(capi.BNNSDataLayoutImageCHW, size, **fields)


BAD_DESCRIPTORS: list[Any] = [
    vector(0),
    vector(1 << 50),
    bare(0x12345, [3]),
    vector(3, data_type=3),
    bare(capi.BNNSDataLayout2DFirstMajor, [3, 4], stride=[8, 2]),
    bare(capi.BNNSDataLayoutFullyConnectedSparse, [3, 4]),
    vector(4, data_type=capi.BNNSDataTypeIndexed8),
    bare(capi.BNNSDataLayoutConvolutionWeightsOIHW, [3, 4, 2, 2]),
]
BAD_PARAMETERS: list[Any] = [
    *BAD_DESCRIPTORS,
    vector(3),  # no data
    vector(5, data=z(5)),
    vector(4, data=z(2)),
    vector(4, data=5),
    vector(4, data=np.zeros(4, np.int8)),
    z(7),
    z(2, 7),
    z(4, dtype=np.float64),
    bare(capi.BNNSDataLayoutConvolutionWeightsOIHW, [3, 3, 2, 5], data=z(90)),
    bare(capi.BNNSDataLayoutRowMajorMatrix, [4, 7], data=z(28)),
    bare(capi.BNNSDataLayout3DFirstMajor, [4, 7, 2], data=z(56)),
]
ALLOCATES = BNNSFilterParameters(alloc_memory=lambda *_: 0)
REFUSES = BNNSFilterParameters(alloc_memory=lambda *_: -1, free_memory=lambda *_: None)
NO_FUNCTION = BNNSFilterParameters(alloc_memory=3, free_memory=4)
PARAMETERS: list[Any] = [ALLOCATES, REFUSES, NO_FUNCTION, 3]
ACTIVATIONS: list[Any] = [
    ActivationFunction.gumbel(1.0, 0.0),
    ActivationFunction.gumbel_max(1.0, 0.0),
    ActivationFunction.softmax(),
    ActivationFunction.integer_linear_saturate(1, 0, 99),
    "relu",
]
HUGE = 1 << 40
WINDOWS: dict[str, list[Any]] = {
    "padding": [
        ConvolutionPadding.symmetric(x=HUGE, y=0), ConvolutionPadding.symmetric(x=0, y=HUGE),
        *(ConvolutionPadding.asymmetric(**({"left": 1, "right": 1, "up": 1, "down": 1} | {side: HUGE}))
          for side in ("left", "right", "up", "down")),
        3,
    ],
    "stride": [0, HUGE, (1, HUGE), (HUGE, 1), (1, 2, 3), "x"],
}  # fmt: skip
PARTS = [
    FusedFullyConnectedParameters(weights=z(3, 4)),
    FusedNormalizationParameters(type=NormalizationType.batch(), epsilon=1e-5),
]


def chain(*layers: Any) -> dict[str, Any]:
    return {"fused_layer_parameters": list(layers)}


def norm(**fields: Any) -> Any:
    return FusedNormalizationParameters(**{"type": NormalizationType.batch(), "epsilon": 1e-5, **fields})


def yolo(**fields: Any) -> LossFunction:
    given = {
        "grid_column_count": 2,
        "grid_rows_count": 2,
        "anchor_box_count": 1,
        "anchor_box_size": 6,
        "anchors_data": z(2) + 1,
    }
    return LossFunction.yolo(YoloParameters(**{**given, **fields}))


NORMALIZATIONS: dict[str, list[Any]] = {
    "beta": BAD_PARAMETERS,
    "gamma": BAD_PARAMETERS,
    "momentum": [2.0, -1.0, "x"],
    "epsilon": [-1.0, float("nan"), "x"],
    "type": [
        NormalizationType.layer(7), NormalizationType.group(0), NormalizationType.group(3), "batch",
        NormalizationType.batch(z(7), z(2)), NormalizationType.batch(z(2), z(7)),
        NormalizationType.batch(vector(2, data=z(2, dtype=np.float16), data_type=capi.BNNSDataTypeFloat16)),
        NormalizationType.batch(*2 * [z(2)[:]]), NormalizationType.instance(*2 * [SHARED := z(2)]),
        NormalizationType.batch(vector(2), vector(2)),
    ],
}  # fmt: skip

# A valid call of every class, and what is wrong with each argument in turn.
CREATIONS: list[tuple[Callable[..., Any], dict[str, Any], dict[str, list[Any]]]] = [
    (PoolingLayer, {"type": PoolingType.max(), "input": IMAGE, "kernel_size": 2},
     {"output": [*BAD_DESCRIPTORS, Shape.image_chw(3, 2, 5), Shape.image_chw(6, 9, 2)],
     "type": [PoolingType.max(z(3, dtype=np.uint64)), PoolingType.max(x_dilation_stride=HUGE), PoolingType.un_max(),
     PoolingType.max_ex(image(5, 3, 2, data_type=capi.BNNSDataTypeUInt32)), PoolingType.un_max_ex(None)]}),
    (ConvolutionLayer, {"type": ConvolutionType.TRANSPOSED, "input": IMAGE, "weights": z(3, 2, 3, 3)},
     {"group_count": [2], "output": [Shape.image_chw(2, 2, 3), Shape.image_chw(2, 2, 5)]}),
    (FullyConnectedLayer, {"weights": z(3, 4), "input": V(4), "output": V(3)}, {"weights": BAD_PARAMETERS}),
    (ActivationLayer, {"function": ActivationFunction.tanh(), "input": V(4)},
     {"function": [*ACTIVATIONS, ActivationFunction.prelu_per_channel(),
     ActivationFunction.integer_linear_saturate_per_channel(None, None, None)]}),
    (ActivationLayer, {"input": image(2, 2, 2, data_type=capi.BNNSDataTypeInt8),
     "output": image(2, 2, 2, data_type=capi.BNNSDataTypeInt8), "function": ActivationFunction.identity()},
     {"function": [ActivationFunction.integer_linear_saturate(1, 0, 99),
     ActivationFunction.integer_linear_saturate_per_channel(None, None, None),
     ActivationFunction.integer_linear_saturate_per_channel(z(2, dtype=np.int32), z(2, dtype=np.int32), None),
     ActivationFunction.integer_linear_saturate_per_channel(*3 * [z(1, dtype=np.int32)]),
     ActivationFunction.integer_linear_saturate_per_channel(*3 * [np.full(2, 99, np.int32)])]}),
    (NormalizationLayer, {"type": NormalizationType.batch(), "input": IMAGE}, {**NORMALIZATIONS}),
    (LossLayer, {"input": V(4), "loss_function": LossFunction.mean_square_error(),
     "loss_reduction": LossReduction.MEAN}, {"loss_function": [LossFunction.softmax_cross_entropy(2.0),
     LossFunction.huber(-1.0), LossFunction.huber(float("nan")), "x", yolo()]}),
    (LossLayer, {"input": V(24), "loss_function": yolo(), "loss_reduction": LossReduction.SUM},
     {"input": [V(23)], "loss_function": [yolo(**{name: value}) for name,
     value in [*((n, 0) for n in ("grid_column_count", "grid_rows_count", "anchor_box_count", "anchor_box_size")),
     *((n, float("inf")) for n in ("xy_scale", "wh_scale", "object_scale", "no_object_scale", "classification_scale",
     "object_minimum_iou", "no_object_maximum_iou")), ("huber_delta", -1.0), ("anchors_data", None),
     ("anchors_data", z(2)), ("anchors_data", z(1))]]}),
    (LossLayer, {"input": V(4), "loss_function": LossFunction.mean_square_error(),
     "loss_reduction": LossReduction.NONE}, {"output": [V(3), V(5)]}),
    (EmbeddingLayer, {"input": V(3), "dictionary": z(5, 2)}, {"input": [vector(3),
     bare(capi.BNNSDataLayoutConvolutionWeightsOIHrWr, [1, 1, 3, 1], data_type=capi.BNNSDataTypeInt32)]}),
    (EmbeddingLayer, {"input": V(3), "dictionary": z(5, 2), "maximum_norm": 1.0}, {"norm_type": [-1.0, "x"]}),
    (UnaryArithmeticLayer, {"input": V(4), "function": ArithmeticUnaryFunction.ABS},
     {"input": BAD_DESCRIPTORS, "output": [*BAD_DESCRIPTORS, V(5)], "function": ["x"], "activation": ACTIVATIONS}),
    (BinaryArithmeticLayer, {"input_a": V(4), "input_b": V(4), "function": ArithmeticBinaryFunction.ADD},
     {"input_a": [*BAD_DESCRIPTORS, V(5), IMAGE], "output_descriptor_type": [DescriptorType.PARAMETER, 1]}),
    (TernaryArithmeticLayer, {"input_a": V(4), "input_b": V(4), "input_c": V(1),
     "function": ArithmeticTernaryFunction.MULTIPLY_ADD}, {"input_c": [*BAD_DESCRIPTORS, V(5)], "output": [V(7)],
     "input_c_descriptor_type": ["x"]}),
    (BinaryArithmeticLayer, {"input_a": V(1), "input_b": V(1), "function": ArithmeticBinaryFunction.ADD},
     {"output": [V(3)]}),
    (BroadcastMatrixMultiplyLayer, {"input_a": Shape([2, 3]), "input_b": Shape([3, 4])},
     {"input_b": [*BAD_DESCRIPTORS, Shape([5, 4]), V(3), None]}),
    (BroadcastMatrixMultiplyLayer, {"input_a": z(3, 3), "input_a_is_weights": True, "input_b": Shape([3, 4])},
     {"input_b_is_weights": [True]}),
    (BroadcastMatrixMultiplyLayer, {"input_a": z(3, 3), "is_quadratic": True}, {"input_a_is_weights": [True]}),
    (BroadcastMatrixMultiplyLayer, {"input_a": Shape([2, 3, 3]), "input_b": Shape([2, 3, 3])},
     {"input_b": [Shape([5, 3, 3])]}),
    (TensorContractionLayer, {"operation": "a_ik, b_kj -> c_ij", "input_a": Shape([2, 3]), "input_b": Shape([3, 4])},
     {"operation": ["a_ik -> ", "", None, 3, "a_i, b_j -> c_ij", "w_ik -> c_ik"]}),
    (PermuteLayer, {"input": Shape([2, 3]), "permutation": (1, 0)}, {"output": [*BAD_DESCRIPTORS, Shape([2, 3]), V(6),
     bare(capi.BNNSDataLayout2DFirstMajor, [3, 2], data_type=capi.BNNSDataTypeInt8)]}),
    (PaddingLayer, {"input": V(3), "mode": PaddingMode.reflect(), "size": [(1, 1)]},
     {"size": [[(9, 1)], [(1, 1), (1, 1)], [(-1, 0)], 3, [(HUGE * HUGE, 1)]]}),
    (ResizeLayer, {"interpolation_method": InterpolationMethod.LINEAR, "input": IMAGE,
     "output": Shape.image_chw(3, 2, 2)}, {"output": [*BAD_DESCRIPTORS, Shape.image_chw(3, 2, 5)]}),
    (ReductionLayer, {"function": ReductionFunction.sum(), "input": V(4)},
     {"weights": BAD_PARAMETERS, "axes": [9, "x", [1.5]], "function": ["sum",
     ReductionFunction.sum_of_logs(epsilon=float("inf"))]}),
    (ReductionLayer, {"function": ReductionFunction.arg_max(), "input": V(400)},
     {"output": [vector(1, data_type=capi.BNNSDataTypeInt8)]}),
    (LSTMLayer, {"input_weights": z(4, 1, 2, 3), "hidden_weights": z(4, 1, 1, 2, 2)},
     {"hidden_weights": [None, z(3), z(4, 2, 1, 2, 2)]}),
    (FusedParametersLayer, {"input": V(4), "fused_layer_parameters": PARTS},
     {"fused_layer_parameters": [[], PARTS[:1], 3, [3, 4], PARTS[::-1],
     *([FusedFullyConnectedParameters(weights=w), PARTS[1]] for w in BAD_PARAMETERS),
     *([FusedFullyConnectedParameters(weights=z(3, 4), bias=b), PARTS[1]] for b in BAD_PARAMETERS),
     *([PARTS[0], norm(**{name: value})] for name, values in NORMALIZATIONS.items() for value in values),
     *([PARTS[0], norm(activation=f)] for f in ACTIVATIONS), [PARTS[0], FusedQuantizationParameters(scale=z(7))]]}),
    (FusedParametersLayer, {"input": V(4), "output": vector(3, data_type=capi.BNNSDataTypeInt8),
     **chain(PARTS[0], FusedQuantizationParameters())}, {"fused_layer_parameters": [[PARTS[0],
     FusedQuantizationParameters(**fields)] for fields in ({"scale": z(7)}, {"axis": 9}, {"axis": 0, "scale": z(7)},
     {"bias": z(2, 2)})], "output": [vector(3), vector(4, data_type=capi.BNNSDataTypeInt8)]}),
    (FusedConvolutionNormalizationLayer, {"input": IMAGE, "convolution_weights": z(3, 2, 3, 3),
     "normalization": NormalizationType.batch(), "normalization_epsilon": 0.0},
     {"input": BAD_DESCRIPTORS, "output": [*BAD_DESCRIPTORS, Shape.image_chw(9, 9, 3)],
     "convolution_weights": BAD_PARAMETERS, "convolution_bias": BAD_PARAMETERS, "convolution_dilation_stride": [HUGE],
     **{f"convolution_{name}": values for name, values in WINDOWS.items()},
     **{f"normalization_{name}": values for name, values in NORMALIZATIONS.items() if name != "type"},
     "normalization": NORMALIZATIONS["type"], "normalization_activation": ACTIVATIONS,
     "filter_parameters": PARAMETERS}),
    (FusedFullyConnectedNormalizationLayer, {"fully_connected_weights": z(3, 4),
     "normalization": NormalizationType.batch(), "normalization_epsilon": 0.0},
     {"input": [*BAD_DESCRIPTORS, V(5)], "output": [V(9)], "fully_connected_weights": BAD_PARAMETERS,
     "fully_connected_bias": BAD_PARAMETERS, "normalization_gamma": BAD_PARAMETERS,
     "normalization": NORMALIZATIONS["type"], "normalization_epsilon": [-1.0]}),
    (CropResizeLayer, {}, {"sampling_mode": ["x", 9], "box_coordinate_mode": ["x"],
     "spatial_scale": [float("nan"), "x"], "extrapolation_value": ["x"]}),
    (NearestNeighbors, {"capacity": 3, "dimension_count": 2, "neighbor_count": 1},
     {"capacity": [0, -1, "x", HUGE], "dimension_count": [0, "x"], "neighbor_count": [0, "x"],
     "data_type": [DataType.INT8, "x"]}),
    (RandomGenerator, {}, {"seed": [-1, "x", 1 << 64], "method": ["x"], "filter_parameters": [3]}),
    (FullyConnectedLayer.sparsify, {"input_layout": SparseLayout.coo(indices=np.array([[0, 1]])),
     "input_dense_shape": (2, 3), "input_values": z(1), "output": BNNSNDArrayDescriptor()},
     {"input_layout": [SparseLayout.coo(indices=np.array([[0, 9]])), SparseLayout.coo(indices=z(1, 2)), "coo",
     SparseLayout.coo(indices=np.array([[0, 1], [0, 2]])), SparseLayout.csr(column_indices=np.array([0, 1]),
     row_starts=np.array([0, 1])), SparseLayout.csr(column_indices=np.array([0]), row_starts=np.array([0, 1]))],
     "input_dense_shape": [(2,), V(3)], "input_values": [vector(1), np.zeros(1, np.int8)],
     "workspace": [bytearray(1)], "output": [vector(1, data_type=capi.BNNSDataTypeInt8)]}),
]  # fmt: skip


def layers_of_all_families() -> dict[type, list[dict[str, Any]]]:
    """The arguments of layers that `openbnns check` draws at random, by class."""
    made: dict[type, list[dict[str, Any]]] = {}

    def noted(init: Callable[..., None]) -> Callable[..., None]:
        def note(self: Any, *given: Any, **named: Any) -> None:
            init(self, *given, **named)
            arguments = inspect.signature(init).bind(self, *given, **named).arguments
            made.setdefault(type(self), []).append({name: arguments[name] for name in arguments if name != "self"})

        return note

    classes = {thing for name in openbnns.__all__ if isinstance(thing := getattr(openbnns, name), type)}
    with pytest.MonkeyPatch.context() as patch:
        for kind in classes:
            if issubclass(kind, Layer) and "__init__" in vars(kind):
                patch.setattr(kind, "__init__", noted(kind.__init__))
        for family in gradients.FAMILIES:
            for seed in range(4):
                gradients.family_module(family).random_layer(Random(seed, family))
    return made


ANYTHING: list[Any] = [
    *BAD_PARAMETERS, *PARAMETERS, *ACTIVATIONS, *WINDOWS["padding"], None, True, -1, 0, 3, 2.5, -2.0, float("nan"), HUGE,
    1 << 31, "x", (), (0,), (1, 2), (2, HUGE), (1, 2, 3), (-1, 1), [], [ActivationFunction.tanh()] * 5, z(3, 4), np.ones(3, bool),
    NormalizationType.layer(7), NormalizationType.group(3), NormalizationType.instance(), LossFunction.softmax_cross_entropy(2.0),
    LossFunction.huber(-1.0), PoolingType.max(x_dilation_stride=0), PoolingType.l2_norm(), V(1), V(5), IMAGE,
]  # fmt: skip


def refusal(make: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """The message, which has to begin with the class, and to do without the names of C; None if it is made."""
    try:
        make(**arguments)
    except (openbnns.BNNSError, TypeError) as error:
        said = str(error)
        assert re.match(rf"(?:\w+\.)?{make.__name__}: ", said), said
        assert not C_WORDS.search(ALLOWED.sub("", said)), said
        return said
    return None


@pytest.mark.parametrize("seed", range(4))
def test_random_mistakes_are_told_in_the_words_of_the_class(seed: int) -> None:
    """Any argument of any layer as anything else."""
    random, refused = np.random.default_rng(seed), 0
    made = layers_of_all_families()
    assert len(made) > 15
    for make, drawn in made.items():
        arguments = drawn[seed % len(drawn)]
        for name in inspect.signature(make).parameters:
            for place in random.choice(len(ANYTHING), 20, replace=False) if name != "misspelled" else ():
                refused += refusal(make, {**arguments, name: ANYTHING[place]}) is not None
    assert refused > 1000


ARGUMENTS = [
    pytest.param(make, valid, name, values, id=f"{k}-{make.__name__}-{name}")
    for k, (make, valid, wrong) in enumerate(CREATIONS)
    for name, values in wrong.items()
]


@pytest.mark.parametrize(
    "make, valid", [pytest.param(m, v, id=f"{k}-{m.__name__}") for k, (m, v, _) in enumerate(CREATIONS)]
)
def test_what_the_cases_start_from_is_valid(make: Callable[..., Any], valid: dict[str, Any]) -> None:
    make(**valid)


@pytest.mark.parametrize("make, valid, name, values", ARGUMENTS)
def test_creation_is_told_in_the_words_of_the_class(
    make: Callable[..., Any], valid: dict[str, Any], name: str, values: list[Any]
) -> None:
    """Mistakes that random ones hardly ever make; some of the values suit this class."""
    assert [value for value in values if refusal(make, {**valid, name: value})]


def test_a_message_names_the_argument() -> None:
    """A few of them in full: no word of C, and every word of the class."""
    for make, options, wanted in [
        (PoolingLayer, {"type": PoolingType.max(), "input": IMAGE, "kernel_size": (1 << 19, 1 << 19), "output": IMAGE},
         "PoolingLayer: the window has 274877906944 cells"),
        (PoolingLayer, {"type": PoolingType.max(), "input": IMAGE, "kernel_size": (2, HUGE), "output": IMAGE},
         r"PoolingLayer: kernel_size\[1\] is 1099511627776"),
        (ConvolutionLayer, {"input": IMAGE, "weights": z(3, 2, 3, 3), "stride": (1, HUGE), "output": Shape.image_chw(4, 1, 3)},
         r"ConvolutionLayer: stride\[1\] is 1099511627776"),
        (ConvolutionLayer,
         {"input": IMAGE, "weights": z(3, 2, 3, 3), "padding": ConvolutionPadding.asymmetric(0, HUGE, 0, 0),
          "output": Shape.image_chw(4, 1, 3)},
         r"ConvolutionLayer: padding\.right is"),
        (FusedConvolutionNormalizationLayer,
         {"input": IMAGE, "convolution_weights": z(3, 2, 3, 3), "convolution_bias": z(4), "normalization_epsilon": 0.0,
          "normalization": NormalizationType.batch()},
         r"FusedConvolutionNormalizationLayer: convolution_bias is Vector size \(4,\)"),
        (FusedConvolutionNormalizationLayer,
         {"input": IMAGE, "convolution_weights": z(3, 2, 3, 3), "normalization_epsilon": 0.0,
          "normalization": NormalizationType.group(2)},
         "FusedConvolutionNormalizationLayer: normalization.group_count is 2"),
        (FusedParametersLayer, {"input": V(4), **chain(PARTS[0], norm(gamma=z(7)))},
         r"FusedParametersLayer: fused_layer_parameters\[1\]: gamma is Vector size \(7,\)"),
        (LSTMLayer,
         {"input_weights": z(4, 1, 2, 3), "hidden_weights": z(4, 1, 1, 2, 2),
          "activations": [*[ActivationFunction.tanh()] * 2, ActivationFunction.gumbel(1, 0), *[ActivationFunction.tanh()] * 2]},
         r"LSTMLayer: activations\[2\]\.function is Gumbel, .* with ActivationLayer"),
        (BinaryArithmeticLayer, {"input_a": V(4), "input_b": V(4), "output": V(5), "function": ArithmeticBinaryFunction.ADD},
         r"BinaryArithmeticLayer: input_a\.size\[0\] is 4, but output\.size\[0\] is 5"),
    ]:  # fmt: skip
        with pytest.raises(openbnns.LayerCreationError, match=f"^{wanted}"):
            make(**options)


@pytest.mark.parametrize("parameters", PARAMETERS[:3])
def test_a_bad_allocator_is_not_blamed_on_the_shapes(parameters: BNNSFilterParameters) -> None:
    """A description that is valid as it is gets no advice to change it."""
    with pytest.raises(openbnns.LayerCreationError, match=r"^PoolingLayer: filter_parameters\.alloc_memory") as caught:
        PoolingLayer(type=PoolingType.max(), input=IMAGE, kernel_size=2, filter_parameters=parameters)
    assert "the call is valid with" not in str(caught.value)


def test_strict_warnings_of_creation_are_in_the_words_of_the_class() -> None:
    with openbnns.strict(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NormalizationLayer(type=NormalizationType.batch(z(2), z(2)), input=IMAGE)
        LossLayer(input=V(4), loss_function=LossFunction.softmax_cross_entropy(1.0), loss_reduction=LossReduction.MEAN)
    said = [str(w.message) for w in caught]
    assert [text.split(" is ")[0].split(" holds ")[0] for text in said] == [
        "NormalizationLayer: type.moving_variance",
        "LossLayer: label_smoothing",
    ]


def test_messages_of_optimizers_name_their_own_hyperparameters() -> None:
    w, g = [np.ones(2, F)], [np.ones(2, F)]
    for optimizer, wanted in [
        (SGDMomentumOptimizer(learning_rate=float("nan")), "learning_rate is nan"),
        (AdamWOptimizer(weight_decay=float("inf")), "weight_decay is inf"),
        (AdamOptimizer(regularization_scale=float("inf")), "regularization_scale is inf"),
    ]:
        states = [np.zeros(2, F)] * optimizer.accumulator_count_multiplier
        with pytest.raises(openbnns.OptimizerStepError, match=wanted):
            optimizer.step(w, g, [np.zeros(2, F) for _ in states])


def test_no_message_is_made_out_of_another() -> None:
    """Text is never replaced to make other text: a message is written with the names of the face that shows it."""
    for path in Path(openbnns.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"\bre\.sub\(|\breword", text), path

"""The switches for open questions: one per entry of the register, off by default, each changing what it says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns
from bad_calls import refused
from openbnns import capi, compat
from openbnns.capi import BNNSDataLayout, BNNSDataType

ENGINES = ("native", "reference")
FLOAT32 = BNNSDataType.BNNSDataTypeFloat32

# Register number of each switch.
NUMBERS = {
    "mha_dhk_keras_order": 1,
    "integer_bias_before_scale": 2,
    "kink_derivative_from_right": 3,
    "convolution_exact_size": 4,
    "transposed_kernel_scatter": 5,
    "max_pool_padding_is_zero": 6,
    "max_pool_index_per_sample": 7,
    "moving_statistics_torch": 8,
    "softmax_loss_class_factor": 9,
    "cosine_gradient_plain": 10,
    "yolo_raw_coordinates": 11,
    "dropout_control_reversed": 12,
    "minmax_tie_split": 13,
    "resize_asymmetric": 14,
    "argmax_last_axis": 15,
    "embedding_renormalize_in_place": 16,
    "attention_value_size_from_output": 17,
    "attention_strict_cache": 18,
    "optimizer_scale_before_clip": 19,
    "adam_epsilon_torch": 20,
    "tile_reversed_axes": 21,
    "crop_resize_plain_extent": 22,
    "band_part_refuses_matrices": 23,
    "matmul_refuses_mixed_halves": 24,
    "layer_norm_refuses_vectors": 25,
    "sub_byte_data_size_zero": 26,
    "sparse_packed_compactly": 27,
}

# Switches for interpretations that the register does not list.
FURTHER = {"attention_masked_rows_are_zero"}

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def descriptor(layout: str, size: Any, data: Any = None, **more: Any) -> capi.BNNSNDArrayDescriptor:
    more.setdefault("data_type", FLOAT32)
    return capi.BNNSNDArrayDescriptor(layout=BNNSDataLayout[f"BNNSDataLayout{layout}"], size=size, data=data, **more)


def test_switches_are_attributes_of_the_module(engine: str) -> None:
    assert compat.tile_reversed_axes is False
    compat.tile_reversed_axes = True
    try:
        assert compat.switches.tile_reversed_axes and compat.tile_reversed_axes
    finally:
        compat.switches.tile_reversed_axes = False
    assert compat.tile_reversed_axes is False


@pytest.mark.parametrize("where", [compat, compat.switches], ids=["module", "object"])
def test_a_misspelt_switch_is_refused(engine: str, where: Any) -> None:
    with pytest.raises(
        AttributeError, match=r"there is no switch 'tile_reverse_axes'. The switches are: .*tile_reversed"
    ):
        where.tile_reverse_axes = True
    assert not hasattr(where, "tile_reverse_axes")


def test_one_switch_per_entry(engine: str) -> None:
    assert {f.name for f in fields(compat.Switches)} == set(NUMBERS) | FURTHER
    assert sorted(NUMBERS.values()) == list(range(1, 28))
    assert all(getattr(compat.switches, name) is False for name in NUMBERS.keys() | FURTHER)
    text = Path(compat.__file__).read_text(encoding="utf-8")
    documented = {name: int(number) for name, number in re.findall(r'(\w+): bool = False\n    """(\d+): ', text)}
    assert documented == NUMBERS


def test_using_restores(engine: str) -> None:
    with compat.using(minmax_tie_split=True, adam_epsilon_torch=True) as switches:
        assert switches is compat.switches
        assert switches.minmax_tie_split and switches.adam_epsilon_torch
        with compat.using(minmax_tie_split=False):
            assert not switches.minmax_tie_split
        assert switches.minmax_tie_split
    assert not compat.switches.minmax_tie_split and not compat.switches.adam_epsilon_torch
    with pytest.raises(RuntimeError, match="out of the block"), compat.using(tile_reversed_axes=True):
        raise RuntimeError("out of the block")
    assert not compat.switches.tile_reversed_axes


def test_an_unknown_switch_is_refused(engine: str) -> None:
    with (
        pytest.raises(TypeError, match=r"there is no switch 'tie_split'.*minmax_tie_split"),
        compat.using(tie_split=True),
    ):
        pass
    assert not compat.switches.minmax_tie_split


def convert(values: list[float], **fields: float) -> list[int]:
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (len(values),)),
        o_desc=descriptor("Vector", (len(values),), data_type=BNNSDataType.BNNSDataTypeInt8, **fields),
    )
    f = capi.BNNSFilterCreateLayerActivation(p)
    out = np.zeros(len(values), np.int8)
    with compat.using(integer_bias_before_scale=False):  # what counts is the time of creation
        assert capi.BNNSFilterApply(f, np.array(values, np.float32), out) == 0
    return out.tolist()


def test_integer_bias_before_scale(engine: str) -> None:
    values = [4.0, -1.0, 100.0]
    with openbnns.engine(engine):
        assert convert(values, data_scale=0.5, data_bias=2.0) == [4, -6, 127]  # (v - bias) / scale
        with compat.using(integer_bias_before_scale=True):
            assert convert(values, data_scale=0.5, data_bias=2.0) == [6, -4, 127]  # v / scale - bias
            assert convert(values, data_scale=0.5) == [8, -2, 127]
        assert convert(values, data_scale=0.5) == [8, -2, 127]  # the same without a bias


def convolution(width: int, out_width: int, kernel: int, stride: int, **more: Any) -> Any:
    return capi.BNNSFilterCreateLayerConvolution(
        capi.BNNSLayerParametersConvolution(
            i_desc=descriptor("ImageCHW", (width, 1, 1)),
            o_desc=descriptor("ImageCHW", (out_width, 1, 1)),
            w_desc=descriptor("ConvolutionWeightsOIHW", (kernel, 1, 1, 1), np.ones(kernel, np.float32)),
            x_stride=stride,
            y_stride=1,
            **more,
        )
    )


def test_convolution_exact_size(engine: str) -> None:
    with openbnns.engine(engine):
        assert convolution(8, 3, 3, 2) is not None  # a remainder of one column
        assert convolution(8, 2, 3, 2) is not None  # and of three
        assert convolution(8, 4, 3, 2) is None
        with compat.using(convolution_exact_size=True):
            refused(convolution(8, 3, 3, 2), "leaves a remainder")
            assert "convolution_exact_size" in str(openbnns.last_error())
            assert convolution(7, 3, 3, 2) is not None
            assert convolution(6, 3, 3, 2, pad=(1, 0, 0, 0)) is not None


def transposed(layout: str, w: NDArray[np.float32], size: tuple[int, ...]) -> tuple[list[float], list[float]]:
    """Forward of a single 1 through a 2x1 kernel, and the weights gradient for dy = (1, 2)."""
    f = capi.BNNSFilterCreateLayerTransposedConvolution(
        capi.BNNSLayerParametersConvolution(
            i_desc=descriptor("ImageCHW", (1, 1, 1)),
            o_desc=descriptor("ImageCHW", (2, 1, 1)),
            w_desc=descriptor(layout, size, w),
        )
    )
    y, dw = np.zeros(2, np.float32), np.zeros(2, np.float32)
    x = np.ones(1, np.float32)
    assert capi.BNNSFilterApply(f, x, y) == 0
    dy = descriptor("ImageCHW", (2, 1, 1), np.array([1, 2], np.float32))
    assert (
        capi.BNNSFilterApplyBackwardBatch(f, 1, x, 0, None, 0, None, 0, dy, 0, descriptor(layout, size, dw), None) == 0
    )
    return y.tolist(), dw.tolist()


def test_transposed_kernel_scatter(engine: str) -> None:
    w, size = np.array([3, 5], np.float32), (2, 1, 1, 1)
    with openbnns.engine(engine):
        assert transposed("ConvolutionWeightsOIHW", w, size) == ([5, 3], [2, 1])
        assert transposed("ConvolutionWeightsIOHrWr", w, size) == ([3, 5], [1, 2])
        with compat.using(transposed_kernel_scatter=True):
            assert transposed("ConvolutionWeightsOIHW", w, size) == ([3, 5], [1, 2])
            assert transposed("ConvolutionWeightsIOHrWr", w, size) == ([5, 3], [2, 1])


def test_mha_dhk_keras_order(engine: str) -> None:
    """Copy a tensor of D=2, K=3, H=2 into 3DFirstMajor (D, K, H) and look where each element came from."""

    def first_major() -> NDArray[np.float32]:
        p = capi.BNNSLayerParametersArithmetic(
            arithmetic_function=capi.BNNSArithmeticSquare,
            arithmetic_function_fields=capi.BNNSArithmeticUnary(
                in_=descriptor("MHA_DHK", (2, 3, 2), stride=(2, 0, 0)),
                in_type=capi.BNNSSample,
                out=descriptor("MHA_DHK", (2, 3, 2)),
                out_type=capi.BNNSSample,
            ),
        )
        f = capi.BNNSFilterCreateLayerArithmetic(p)
        y = np.zeros(12, np.float32)
        x = np.arange(24, dtype=np.float32)
        assert capi.BNNSArithmeticFilterApplyBatch(f, 1, 1, [x], [0], y, 0) == 0, openbnns.last_error()
        return y

    def softmaxed() -> NDArray[np.float32]:
        """Sum of exponentials along axis 0 (D) becomes visible in a softmax over it."""
        p = capi.BNNSLayerParametersActivation(
            i_desc=descriptor("MHA_DHK", (2, 3, 2)),
            o_desc=descriptor("MHA_DHK", (2, 3, 2)),
            axis_flags=1,
            activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionSoftmax),
        )
        f = capi.BNNSFilterCreateLayerActivation(p)
        y = np.zeros(12, np.float32)
        assert capi.BNNSFilterApply(f, np.log(np.arange(1, 13, dtype=np.float32)), y) == 0, openbnns.last_error()
        return y

    numbers = np.arange(1, 13, dtype=np.float64)
    with openbnns.engine(engine):
        np.testing.assert_array_equal(first_major(), (2.0 * np.arange(12)) ** 2)
        fastest = numbers.reshape(3, 2, 2)  # memory [K][H][D]
        np.testing.assert_allclose(softmaxed().reshape(3, 2, 2), fastest / fastest.sum(2, keepdims=True), rtol=1e-6)
        with compat.using(mha_dhk_keras_order=True):
            np.testing.assert_array_equal(first_major(), (2.0 * np.arange(12)) ** 2)
            slowest = numbers.reshape(2, 2, 3)  # memory [D][H][K]
            np.testing.assert_allclose(softmaxed().reshape(2, 2, 3), slowest / slowest.sum(0, keepdims=True), rtol=1e-6)


def test_mha_dhk_keras_order_is_read_at_creation(engine: str) -> None:
    """Gradient descriptors of a later call keep the meaning that the layout had when the filter was made."""
    with openbnns.engine(engine):
        with compat.using(mha_dhk_keras_order=True):
            p = capi.BNNSLayerParametersActivation(
                i_desc=descriptor("MHA_DHK", (2, 3, 2)),
                o_desc=descriptor("MHA_DHK", (2, 3, 2)),
                axis_flags=1,
                activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionSoftmax),
            )
            f = capi.BNNSFilterCreateLayerActivation(p)
        y, dx = np.full(12, 0.5, np.float32), np.zeros(12, np.float32)
        dy = np.arange(12, dtype=np.float32)
        assert (
            capi.BNNSFilterApplyBackwardBatch(
                f,
                1,
                None,
                0,
                descriptor("MHA_DHK", (2, 3, 2), dx, stride=(1, 3, 6)),
                0,
                y,
                0,
                descriptor("MHA_DHK", (2, 3, 2), dy),
                0,
            )
            == 0
        ), openbnns.last_error()
    pairs = dy.reshape(2, 6)  # D slowest
    np.testing.assert_allclose(dx.reshape(2, 6), 0.5 * (pairs - 0.5 * pairs.sum(0)), rtol=1e-6)


def tie_gradients(function: int, activation: int = 0, flags: int = 0) -> tuple[list[float], list[float]]:
    vector = descriptor("Vector", (4,))
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=function,
        arithmetic_function_fields=capi.BNNSArithmeticBinary(
            in1=vector,
            in1_type=capi.BNNSSample,
            in2=descriptor("Vector", (1,)),
            in2_type=capi.BNNSParameter,
            out=vector,
            out_type=capi.BNNSSample,
        ),
        activation=capi.BNNSActivation(function=activation, alpha=2.0),
    )
    f = capi.BNNSFilterCreateLayerArithmetic(p)
    a, b = np.array([1, 2, 3, 2], np.float32), np.array([2], np.float32)
    y, da, db = np.zeros(4, np.float32), np.ones(4, np.float32), np.ones(1, np.float32)
    assert capi.BNNSArithmeticFilterApplyBatch(f, 1, 2, [a, b], [0, 0], y, 0) == 0
    deltas = [descriptor("Vector", (4,), da, flags=flags), descriptor("Vector", (1,), db, flags=flags)]
    dy = descriptor("Vector", (4,), np.array([10, 20, 30, 40], np.float32))
    assert capi.BNNSArithmeticFilterApplyBackwardBatch(f, 1, 2, [a, b], [0, 0], deltas, [0, 0], y, 0, dy, 0) == 0
    return da.tolist(), db.tolist()


def test_minmax_tie_split(engine: str) -> None:
    minimum, maximum, linear = capi.BNNSArithmeticMinimum, capi.BNNSArithmeticMaximum, capi.BNNSActivationFunctionLinear
    with openbnns.engine(engine):
        assert tie_gradients(minimum) == ([10, 20, 0, 40], [30])  # ties to the first
        assert tie_gradients(maximum) == ([0, 20, 30, 40], [10])
        with compat.using(minmax_tie_split=True):
            assert tie_gradients(minimum) == ([10, 10, 0, 20], [60])
            assert tie_gradients(maximum) == ([0, 10, 30, 20], [40])
            assert tie_gradients(maximum, linear) == ([0, 20, 60, 40], [80])
            assert tie_gradients(maximum, flags=1) == ([1, 11, 31, 21], [41])
        assert tie_gradients(maximum, flags=1) == ([1, 21, 31, 41], [11])


def relu_standalone(from_output: bool = False) -> list[float]:
    p = capi.BNNSLayerParametersActivation(
        i_desc=descriptor("Vector", (3,)),
        o_desc=descriptor("Vector", (3,)),
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionRectifiedLinear, alpha=9.0),
    )
    f = capi.BNNSFilterCreateLayerActivation(p)
    x, y, dx = np.array([-1, 0, 1], np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    assert capi.BNNSFilterApply(f, x, y) == 0 and y.tolist() == [0, 0, 1]
    dy = descriptor("Vector", (3,), np.array([5, 6, 7], np.float32))
    inputs = (None, y) if from_output else (x, None)
    assert (
        capi.BNNSFilterApplyBackwardBatch(f, 1, inputs[0], 0, descriptor("Vector", (3,), dx), 0, inputs[1], 0, dy, 0)
        == 0
    )
    return dx.tolist()


def relu_fused() -> list[float]:
    """One weight of 1 and a bias of 0, so that z = x."""
    p = capi.BNNSLayerParametersFullyConnected(
        i_desc=descriptor("Vector", (1,)),
        o_desc=descriptor("Vector", (1,)),
        w_desc=descriptor("RowMajorMatrix", (1, 1), np.ones(1, np.float32)),
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionRectifiedLinear),
    )
    f = capi.BNNSFilterCreateLayerFullyConnected(p)
    x, y, dx = np.array([-1, 0, 1], np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    assert capi.BNNSFilterApplyBatch(f, 3, x, 0, y, 0) == 0
    dy = descriptor("Vector", (1,), np.array([5, 6, 7], np.float32))
    assert capi.BNNSFilterApplyBackwardBatch(f, 3, x, 0, descriptor("Vector", (1,), dx), 0, y, 0, dy, 0) == 0
    return dx.tolist()


def relu_after_add() -> list[float]:
    vector = descriptor("Vector", (3,))
    p = capi.BNNSLayerParametersArithmetic(
        arithmetic_function=capi.BNNSArithmeticNegate,
        arithmetic_function_fields=capi.BNNSArithmeticUnary(
            in_=vector, in_type=capi.BNNSSample, out=vector, out_type=capi.BNNSSample
        ),
        activation=capi.BNNSActivation(function=capi.BNNSActivationFunctionRectifiedLinear),
    )
    f = capi.BNNSFilterCreateLayerArithmetic(p)
    x, y, dx = np.array([1, 0, -1], np.float32), np.zeros(3, np.float32), np.zeros(3, np.float32)
    assert capi.BNNSArithmeticFilterApplyBatch(f, 1, 1, [x], [0], y, 0) == 0
    dy = descriptor("Vector", (3,), np.array([5, 6, 7], np.float32))
    deltas = [descriptor("Vector", (3,), dx)]
    assert capi.BNNSArithmeticFilterApplyBackwardBatch(f, 1, 1, [x], [0], deltas, [0], y, 0, dy, 0) == 0
    return dx.tolist()


def test_kink_derivative_from_right(engine: str) -> None:
    with openbnns.engine(engine):
        assert relu_standalone() == relu_standalone(from_output=True) == relu_fused() == [0, 0, 7]
        assert relu_after_add() == [0, 0, -7]
        with compat.using(kink_derivative_from_right=True):
            assert relu_standalone() == relu_fused() == [0, 6, 7]
            assert relu_after_add() == [0, -6, -7]
            assert relu_standalone(from_output=True) == [0, 0, 7]  # an output of 0 does not tell the kink from the rest


# ---------------------------------------------------------------------------------------------------------------------
# Presets

MACOS15 = {
    "attention_strict_cache", "band_part_refuses_matrices", "layer_norm_refuses_vectors", "matmul_refuses_mixed_halves",
    "sparse_packed_compactly", "sub_byte_data_size_zero", "tile_reversed_axes",
}  # fmt: skip


def on() -> set[str]:
    return {f.name for f in fields(compat.Switches) if getattr(compat.switches, f.name)}


def test_presets(engine: str) -> None:
    try:
        compat.use("macos15")
        assert on() == MACOS15
        assert compat.in_force() == "macos15"
        compat.use("minmax_tie_split, adam_epsilon_torch")  # others go off
        assert on() == {"minmax_tie_split", "adam_epsilon_torch"}
        assert compat.in_force() == "adam_epsilon_torch,minmax_tie_split"
        compat.use("macos15,minmax_tie_split")
        assert on() == MACOS15 | {"minmax_tie_split"}
    finally:
        compat.use("documented")
    assert on() == set()
    assert compat.in_force() == "documented"


def test_a_preset_for_a_block(engine: str) -> None:
    with compat.using(minmax_tie_split=True):
        with compat.use("macos15") as switches:
            assert switches is compat.switches
            assert on() == MACOS15
            with compat.use("documented"):
                assert on() == set()
            assert on() == MACOS15
        assert on() == {"minmax_tie_split"}
    with pytest.raises(RuntimeError), compat.use("macos15"):
        raise RuntimeError
    assert on() == set()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("macos-15", "names is 'macos-15', but there is no preset or switch 'macos-15'. Did you mean macos15?"),
        ("macos15,tile_reversed", "no preset or switch 'tile_reversed'. Did you mean tile_reversed_axes"),
        (
            "zzz",
            "no preset or switch 'zzz'. The presets are: documented, macos15. The switches are: adam_epsilon_torch",
        ),
        ("", "no preset or switch ''. The presets are"),
    ],
)
def test_unknown_words(engine: str, names: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        compat.use(names)
    assert on() == set()
    with pytest.raises(TypeError, match="names must be text such as 'macos15', not list"):
        compat.use(["macos15"])  # type: ignore[arg-type]


def test_mixed_halves(engine: str) -> None:
    """24: Float16 by BFloat16 into Float32, as a direct call and as a layer; everything else works."""
    half, brain = BNNSDataType.BNNSDataTypeFloat16, BNNSDataType.BNNSDataTypeBFloat16

    def product(a: Any, b: Any, y: Any) -> int:
        one = {FLOAT32: np.float32([2]), half: np.float16([2]), brain: np.uint16([0x4000])}
        out = {FLOAT32: np.zeros(1, np.float32), half: np.zeros(1, np.float16), brain: np.zeros(1, np.uint16)}
        tensors = [
            descriptor("2DFirstMajor", (1, 1), data, data_type=t) for data, t in ((one[a], a), (one[b], b), (out[y], y))
        ]
        status = capi.BNNSMatMul(False, False, 1.0, tensors[0], tensors[1], tensors[2], None, None)
        p = capi.BNNSLayerParametersBroadcastMatMul(
            alpha=1.0, iA_desc=tensors[0], iB_desc=tensors[1], o_desc=tensors[2]
        )
        made = capi.BNNSFilterCreateLayerBroadcastMatMul(p)
        assert (made is None) == (status != 0)
        assert status != 0 or out[y].item() == (0x4080 if y == brain else 4)
        return status

    pairs = [(half, brain, FLOAT32), (brain, half, FLOAT32)]
    others = [(half, half, FLOAT32), (brain, brain, FLOAT32), (half, FLOAT32, FLOAT32), (half, brain, half)]
    with openbnns.engine(engine):
        assert [product(*t) for t in pairs + others] == [0] * 6
        with compat.using(matmul_refuses_mixed_halves=True):
            assert [product(*t) for t in pairs] == [-1, -1]
            assert "which macOS 15 refuses (compat.matmul_refuses_mixed_halves)" in str(openbnns.last_error())
            assert [product(*t) for t in others] == [0] * 4
        assert [product(*t) for t in pairs] == [0, 0]


def test_layer_norm_parameters(engine: str) -> None:
    """25: for images of N columns, 1 row and M channels."""
    n, m = 3, 4
    x = np.random.default_rng(0).standard_normal((m, 1, n)).astype(np.float32)

    def status(layout: str, size: tuple[int, ...]) -> bool:
        gamma = np.ones(int(np.prod(size)), np.float32)
        p = capi.BNNSLayerParametersNormalization(
            i_desc=descriptor("ImageCHW", (n, 1, m)), o_desc=descriptor("ImageCHW", (n, 1, m)), epsilon=1e-5,
            gamma_desc=descriptor(layout, size, gamma), beta_desc=descriptor(layout, size, 0 * gamma), normalization_axis=2,
        )  # fmt: skip
        made = capi.BNNSFilterCreateLayerNormalization(capi.BNNSLayerNorm, p)
        if made is None:
            return False
        y = np.zeros_like(x)
        assert capi.BNNSNormalizationFilterApplyBatch(made, 1, x, 0, y, 0, False) == 0
        expected = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-5)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
        return True

    refused = [("Vector", (n,)), ("Vector", (1,)), ("ImageCHW", (1, 1, m))]
    accepted = [("ImageCHW", (n, 1, 1)), ("ImageCHW", (n, 1, m))]
    with openbnns.engine(engine):
        assert all(status(*form) for form in refused + accepted)
        with compat.using(layer_norm_refuses_vectors=True):
            assert not any(status(*form) for form in refused)
            assert "compat.layer_norm_refuses_vectors" in str(openbnns.last_error())
            assert all(status(*form) for form in accepted)
            vector = descriptor("Vector", (5,))  # a vector is a sample itself
            gamma = descriptor("Vector", (5,), np.ones(5, np.float32))
            p = capi.BNNSLayerParametersNormalization(i_desc=vector, o_desc=vector, gamma_desc=gamma)
            assert capi.BNNSFilterCreateLayerNormalization(capi.BNNSLayerNorm, p) is not None


def test_sub_byte_sizes(engine: str) -> None:
    """26: documented is the number of bytes that hold the bits."""
    types = {"Int1": 2, "UInt2": 3, "UInt3": 4, "Int4": 5, "UInt6": 7, "Int8": 9, "Float32": 36, "Boolean": 9}
    for name, size in types.items():
        d = descriptor("Vector", (9,), 4096 * 4, data_type=BNNSDataType[f"BNNSDataType{name}"])
        assert capi.BNNSNDArrayGetDataSize(d) == size
        with compat.using(sub_byte_data_size_zero=True):
            assert capi.BNNSNDArrayGetDataSize(d) == (0 if size < 9 else size)


@pytest.mark.parametrize("allocated", [False, True])
@pytest.mark.parametrize("kind", ["Float32", "Float16", "BFloat16"])
def test_packed_sparse_size(engine: str, kind: str, allocated: bool) -> None:
    """27: fewer bytes than the dense matrix, which really hold all of it: the weights may be moved by that size."""
    element = BNNSDataType[f"BNNSDataType{kind}"]
    rows, columns, values = np.int32([0, 2, 4]), np.int32([6, 0, 3]), np.float32([1.5, -2, 4])
    dense = np.zeros((5, 7), np.float32)
    dense[rows, columns] = values
    x, y = np.random.default_rng(0).standard_normal(7).astype(np.float32), np.zeros(5, np.float32)

    def packed(matrix: Any) -> Any:
        places = np.ascontiguousarray(np.argwhere(matrix), np.int32)
        held = matrix[tuple(places.T)]
        memory = np.zeros(
            matrix.size, np.float32 if kind == "Float32" else np.uint16 if kind == "BFloat16" else np.float16
        )
        out = capi.BNNSNDArrayDescriptor(data=memory if allocated else None, data_type=element)
        status = capi.BNNSNDArrayFullyConnectedSparsifySparseCOO(
            descriptor("2DFirstMajor", matrix.shape), descriptor("2DFirstMajor", places.shape, places,
            data_type=BNNSDataType.BNNSDataTypeInt32), descriptor("Vector", held.shape, held), out, None, 1, None, 0, None,
        )  # fmt: skip
        assert status == 0, openbnns.last_error()
        return out

    def apply(w: Any, inputs: Any, flags: int) -> Any:
        p = capi.BNNSLayerParametersFullyConnected(
            i_desc=descriptor("Vector", (7,)), w_desc=w, o_desc=descriptor("Vector", (5,))
        )
        made = capi.BNNSFilterCreateLayerFullyConnected(p, capi.BNNSFilterParameters(flags=flags))
        assert made is not None, openbnns.last_error()
        assert capi.BNNSFilterApply(made, inputs, y) == 0
        return y.copy()

    full = dense.size * (4 if kind == "Float32" else 2)
    with openbnns.engine(engine):
        plain = packed(dense)
        assert capi.BNNSNDArrayGetDataSize(plain) == 0
        with compat.using(sparse_packed_compactly=True):
            short = packed(dense)
            size = capi.BNNSNDArrayGetDataSize(short)
            assert 0 < size < full
            moved = np.frombuffer(np.ascontiguousarray(short.data).view(np.uint8).tobytes()[:size], np.uint8).copy()
            whole = packed(np.full((5, 7), 2, np.float32))  # nothing to leave out
            assert capi.BNNSNDArrayGetDataSize(whole) == full
        for flags in (0, 1):
            np.testing.assert_allclose(apply(short, x, flags), dense @ x, rtol=1e-5)
            np.testing.assert_array_equal(apply(plain, x, flags), apply(short, x, flags))
            np.testing.assert_allclose(apply(whole, x, flags), np.full(5, 2 * x.sum()), rtol=1e-5)
        short.data = moved
        np.testing.assert_allclose(apply(short, x, 0), dense @ x, rtol=1e-5)
        short.data = moved[:-1].copy()
        p = capi.BNNSLayerParametersFullyConnected(
            i_desc=descriptor("Vector", (7,)), w_desc=short, o_desc=descriptor("Vector", (5,))
        )
        refused(capi.BNNSFilterCreateLayerFullyConnected(p), rf"w_desc.data holds {size - 1} bytes")
        for wrong in (1, 4 * 35, 2**40):
            short.data, short.stride = moved, (wrong,)
            p.w_desc = short
            refused(
                capi.BNNSFilterCreateLayerFullyConnected(p), f"does not hold packed weights of 5 x 7 in {wrong} bytes"
            )
        short.stride = (size,)
        moved[0] ^= 0xFF
        short.data = moved
        p.w_desc = short
        refused(capi.BNNSFilterCreateLayerFullyConnected(p), "does not hold packed weights of 5 x 7")

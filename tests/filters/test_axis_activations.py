"""Softmax and log-softmax inside other filters run along the rows of the output as it is, however kernels see its shape.

Kernels turn images of one column into images of one row, join rows and merge axes. So half of all sizes here are 1.
"""

from __future__ import annotations

import numpy as np
import pytest

import fuzz
from fuzzing import lstm
from fuzzing.core import STORED, Draw, Outcome, compare
from openbnns import capi

SOFTMAX, LOG_SOFTMAX = 11, 21
CASES = {
    "activation": 100, "arithmetic": 200, "convolution": 400, "fully_connected": 100, "lstm": 60, "pooling": 200,
    "transposed": 200,
}  # fmt: skip


class Narrow(Draw):
    """Cases with an axis-wise activation, many sizes of 1 and tensors of every element type."""

    elements = ("Float32",) * 6 + tuple(STORED)
    depthwise = 0.5

    def size(self, most: int = 9) -> int:
        return 1 if self.chance(0.5) else super().size(most)

    def function(self, choices: list[int]) -> int:
        return SOFTMAX if choices is lstm.TAME else int(self.one((SOFTMAX, LOG_SOFTMAX)))


@pytest.mark.parametrize(("family", "cases"), CASES.items())
def test_random_shapes(family: str, cases: int) -> None:
    worked = 0
    for case in range(cases):
        outcomes = []
        for engine in ("native", "reference"):
            title, run = fuzz.FAMILIES[family](Narrow(37, case))
            outcomes.append(Outcome())
            with fuzz.openbnns.engine(engine):
                run(outcomes[-1])
        try:
            compare(*outcomes)
        except AssertionError as error:
            raise AssertionError(f"case {case}: {error}\n  {title}") from None
        worked += all(outcomes[0].statuses[:2])
    assert worked > cases / 3, "creation and the forward call fail too often for the others to prove anything"


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("element", ["Float32", *STORED])
def test_column_of_ones(element: str, groups: int) -> None:
    """The softmax of a row of one element is 1, however high the image is."""
    width, height, channels = 1, 5, 3
    draw = Draw(37, groups)
    stored = capi.BNNSDataType[f"BNNSDataType{element}"]
    image = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutImageCHW, size=(width, height, channels), data_type=capi.BNNSDataTypeFloat32
    )
    weights = capi.BNNSNDArrayDescriptor(
        layout=capi.BNNSDataLayoutConvolutionWeightsOIHW, size=(1, 3, channels // groups, channels),
        data_type=capi.BNNSDataTypeFloat32, data=draw.floats(channels, channels // groups, 3),
    )  # fmt: skip
    output = image.copy()
    output.data_type = stored
    f = capi.BNNSFilterCreateLayerConvolution(
        capi.BNNSLayerParametersConvolution(
            i_desc=image, w_desc=weights, o_desc=output, x_stride=1, y_stride=1, y_padding=1, groups=groups,
            activation=capi.BNNSActivation(function=SOFTMAX),
        )
    )  # fmt: skip
    y = np.zeros((channels, height), STORED.get(element, "f4"))
    assert capi.BNNSFilterApply(f, draw.floats(channels, height), y) == 0
    one = 0x3F80 if element == "BFloat16" else 1
    assert (y == one).all()

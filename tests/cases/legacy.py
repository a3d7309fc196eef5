"""First-generation creators: the same layers through the structs of before 2020."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from helpers import FLOAT16, IMAGE, INT8, ROW_MAJOR, Tensor, vector
from openbnns import capi

from . import activation, convolution, fully_connected, pooling
from ._base import Act
from .activation import ActivationCase
from .convolution import ConvolutionCase
from .fully_connected import FullyConnectedCase
from .pooling import PoolingCase


def _image(t: Tensor) -> capi.BNNSImageStackDescriptor:
    assert t.layout == IMAGE
    width, height, channels = t.size
    row, plane = (t.stride[1], t.stride[2]) if t.stride else (0, 0)
    return capi.BNNSImageStackDescriptor(
        width=width, height=height, channels=channels, row_stride=row, image_stride=plane, data_type=t.data_type,
        data_scale=t.scale, data_bias=t.bias,
    )  # fmt: skip


def _vector(t: Tensor) -> capi.BNNSVectorDescriptor:
    return capi.BNNSVectorDescriptor(size=t.size[0], data_type=t.data_type, data_scale=t.scale, data_bias=t.bias)


def _data(t: Tensor | None, data: Any) -> capi.BNNSLayerData:
    if t is None:
        return capi.BNNSLayerData()
    return capi.BNNSLayerData(data=data, data_type=t.data_type, data_scale=t.scale, data_bias=t.bias)


@dataclass(frozen=True)
class LegacyConvolutionCase(ConvolutionCase):
    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("legacy.ConvolutionLayer", "fn.BNNSFilterCreateConvolutionLayer")

    backward_rows = forward_rows

    def create(self, w: Any, b: Any, threads: int) -> Any:
        p = capi.BNNSConvolutionLayerParameters(
            x_stride=self.step[1], y_stride=self.step[0], x_padding=self.symmetric[1], y_padding=self.symmetric[0],
            k_width=self.kernel[1], k_height=self.kernel[0], in_channels=self.x.size[2], out_channels=self.y.size[2],
            weights=_data(self.w, w), bias=_data(self.b, b), activation=self.activation.struct,
        )  # fmt: skip
        return capi.BNNSFilterCreateConvolutionLayer(_image(self.x), _image(self.y), p, self.filter_parameters(threads))


@dataclass(frozen=True)
class LegacyFullyConnectedCase(FullyConnectedCase):
    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("legacy.FullyConnectedLayer", "fn.BNNSFilterCreateFullyConnectedLayer")

    backward_rows = forward_rows

    def create(self, w: Any, b: Any, threads: int) -> Any:
        p = capi.BNNSFullyConnectedLayerParameters(
            in_size=self.x.count, out_size=self.y.count, weights=_data(self.w, w), bias=_data(self.b, b),
            activation=self.activation.struct,
        )  # fmt: skip
        return capi.BNNSFilterCreateFullyConnectedLayer(
            _vector(self.x), _vector(self.y), p, self.filter_parameters(threads)
        )


@dataclass(frozen=True)
class LegacyActivationCase(ActivationCase):
    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("legacy.VectorActivationLayer", "fn.BNNSFilterCreateVectorActivationLayer")

    backward_rows = forward_rows

    def create(self, w: Any, b: Any, threads: int) -> Any:
        return capi.BNNSFilterCreateVectorActivationLayer(
            _vector(self.x), _vector(self.y), self.activation.struct, self.filter_parameters(threads)
        )


@dataclass(frozen=True)
class LegacyPoolingCase(PoolingCase):
    @property
    def forward_rows(self) -> tuple[str, ...]:
        return ("legacy.PoolingLayer", "fn.BNNSFilterCreatePoolingLayer")

    backward_rows = forward_rows

    def create(self, w: Any, b: Any, threads: int) -> Any:
        p = capi.BNNSPoolingLayerParameters(
            x_stride=self.step[1], y_stride=self.step[0], x_padding=self.symmetric[1], y_padding=self.symmetric[0],
            k_width=self.kernel[1], k_height=self.kernel[0], in_channels=self.x.size[2], out_channels=self.y.size[2],
            pooling_function=getattr(capi, f"BNNSPoolingFunction{self.function}"), bias=_data(self.b, b),
            activation=self.activation.struct,
        )  # fmt: skip
        return capi.BNNSFilterCreatePoolingLayer(_image(self.x), _image(self.y), p, self.filter_parameters(threads))


def _of(kind: Any, case: Any) -> Any:
    """A modern case handed to a first-generation creator."""
    fields = {name: getattr(case, name) for name in case.__dataclass_fields__}
    return kind(**{**fields, "id": f"legacy-{case.id}"})


_INT8 = {"data_type": INT8, "scale": 0.03, "bias": 0.1}

CASES = [
    _of(LegacyConvolutionCase, convolution.case("plain", 3, 5, (7, 9), (3, 3), symmetric=(1, 1), batch=2)),
    _of(LegacyConvolutionCase, convolution.case("strided", 5, 17, (13, 9), (3, 2), step=(2, 3), batch=2, bias=False)),
    _of(
        LegacyConvolutionCase,
        convolution.case(
            "fused", 5, 7, (7, 9), (3, 3), batch=2, activation=Act("RectifiedLinear"), client_pointer=False
        ),
    ),
    _of(
        LegacyConvolutionCase,
        convolution.case(
            "padded",
            3,
            4,
            (5, 6),
            (3, 3),
            batch=2,
            in_options={"stride": (1, 8, 50)},
            out_options={"stride": (1, 9, 40)},
            gap=3,
        ),
    ),
    _of(
        LegacyConvolutionCase,
        convolution.case(
            "int8",
            3,
            4,
            (5, 6),
            (3, 3),
            batch=2,
            in_options=_INT8,
            trains=False,
            kernel_options={"data_type": INT8, "scale": 0.01},
        ),
    ),
    _of(LegacyFullyConnectedCase, fully_connected.case("plain", 17, 13, 5)),
    _of(
        LegacyFullyConnectedCase, fully_connected.case("fused", 7, 113, 2, activation=Act("Tanh"), client_pointer=False)
    ),
    _of(
        LegacyFullyConnectedCase,
        fully_connected.case(
            "half",
            17,
            13,
            5,
            x=vector(17, data_type=FLOAT16),
            w=Tensor(ROW_MAJOR, (17, 13), data_type=FLOAT16),
            trains=False,
        ),
    ),
    _of(LegacyActivationCase, activation.case("tanh", Act("Tanh"), vector(113), batch=5)),
    _of(LegacyActivationCase, activation.case("softmax", Act("Softmax"), vector(17), batch=5, gap=3)),
    _of(
        LegacyActivationCase,
        activation.case("convert", Act(), vector(17, **_INT8), y=vector(17), batch=2, trains=False),
    ),
    *(
        _of(
            LegacyPoolingCase,
            pooling.case(
                f"plain-{function}",
                function,
                3,
                (7, 9),
                (3, 3),
                step=(2, 2),
                symmetric=(1, 1),
                batch=2,
                generic=True,
                bias=True,
            ),
        )
        for function in pooling.WINDOWED
    ),
    _of(LegacyPoolingCase, pooling.case("indices", "Max", 3, (6, 8), (2, 2), step=(2, 2), batch=2, index="size_t")),
    _of(
        LegacyPoolingCase,
        pooling.case(
            "fused", "Average", 3, (6, 8), (2, 2), batch=2, activation=Act("Tanh"), client_pointer=False, bias=True
        ),
    ),
    _of(
        LegacyPoolingCase,
        pooling.case(
            "padded",
            "L2Norm",
            3,
            (5, 6),
            (2, 2),
            batch=2,
            gap=3,
            in_options={"stride": (1, 8, 50)},
            out_options={"stride": (1, 9, 40)},
        ),
    ),
    _of(LegacyPoolingCase, pooling.case("int8", "Max", 3, (5, 6), (2, 2), batch=2, in_options=_INT8, trains=False)),
]

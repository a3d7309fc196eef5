"""Modules of ``torch.nn`` and the layers that they become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...nn import activation, convolution, layers, normalization, padding, pooling, resize, sequences
from ...nn.module import Module
from ..converted.tensors import Misfit


@dataclass(frozen=True)
class Kind:
    """The conversion of a module: the layer, the attributes that are its arguments, those that must have one value.
    ``runs`` says how it is called: see ``_running.py``.
    """

    layer: type[Module]
    runs: str
    options: tuple[str, ...] = ()
    only: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    derived: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    check: Callable[[Any], None] | None = None

    def make(self, module: Any) -> Module:
        """The layer with the options of the module, without its weights."""
        for name, allowed in self.only.items():
            value = getattr(module, name, allowed[0])
            if not any(value is each or value == each for each in allowed):
                raise Misfit(f"{name}={value!r} has no counterpart here")
        if self.check is not None:
            self.check(module)
        given = {name: _plain(getattr(module, name)) for name in self.options}
        given |= {name: derive(module) for name, derive in self.derived.items()}
        return self.layer(**given)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (tuple, list)) else value


def _has(name: str) -> Callable[[Any], bool]:
    return lambda module: getattr(module, name) is not None


def _named_axis(module: Any) -> None:
    if module.dim is None:
        raise Misfit("dim is None. Give the axis")


def _whole_axes(module: Any) -> None:
    if not isinstance(module.dim, int) or not all(isinstance(n, int) for n in module.unflattened_size):
        raise Misfit("named axes have no counterpart here. Use numbers")


_BIAS: dict[str, Callable[[Any], Any]] = {"bias": _has("bias")}
_CONVOLUTION = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_MAX = ("kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode")
_AVERAGE = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad")
_CHANNELS = ("num_features", "eps", "momentum", "affine", "track_running_stats")
_TABLE = ("num_embeddings", "embedding_dim", "padding_idx")
_RECURRENT = ("input_size", "hidden_size", "num_layers", "bias", "dropout", "bidirectional")
_CELL = ("input_size", "hidden_size", "bias")
_PLAIN_ROWS: dict[str, tuple[Any, ...]] = {"max_norm": (None,), "scale_grad_by_freq": (False,)}


def _momentum(module: Any) -> None:
    if module.momentum is None:
        raise Misfit("momentum=None, a mean over all batches, has no counterpart here. Give a number")


def _simple(kind: type[Module], *options: str) -> Kind:
    return Kind(kind, "plain", options)


KINDS: dict[str, Kind] = {
    "Identity": _simple(layers.Identity),
    "ReLU": _simple(activation.ReLU),
    "ReLU6": _simple(activation.ReLU6),
    "LeakyReLU": _simple(activation.LeakyReLU, "negative_slope"),
    "ELU": _simple(activation.ELU, "alpha"),
    "SELU": _simple(activation.SELU),
    "CELU": _simple(activation.CELU, "alpha"),
    "GELU": _simple(activation.GELU, "approximate"),
    "SiLU": _simple(activation.SiLU),
    "Mish": _simple(activation.Mish),
    "Sigmoid": _simple(activation.Sigmoid),
    "LogSigmoid": _simple(activation.LogSigmoid),
    "Tanh": _simple(activation.Tanh),
    "Softplus": Kind(activation.Softplus, "plain", ("beta", "threshold")),
    "Softsign": _simple(activation.Softsign),
    "Softshrink": _simple(activation.Softshrink, "lambd"),
    "Hardshrink": _simple(activation.Hardshrink, "lambd"),
    "Tanhshrink": _simple(activation.Tanhshrink),
    "Hardtanh": _simple(activation.Hardtanh, "min_val", "max_val"),
    "Hardswish": _simple(activation.Hardswish),
    "Hardsigmoid": _simple(activation.Hardsigmoid),
    "Threshold": _simple(activation.Threshold, "threshold", "value"),
    "Dropout": _simple(layers.Dropout, "p"),
    "PReLU": Kind(activation.PReLU, "plain", ("num_parameters",)),
    "GLU": Kind(activation.GLU, "plain", ("dim",)),
    "Softmax": Kind(activation.Softmax, "plain", ("dim",), check=_named_axis),
    "LogSoftmax": Kind(activation.LogSoftmax, "plain", ("dim",), check=_named_axis),
    "Softmin": Kind(activation.Softmin, "plain", ("dim",), check=_named_axis),
    "Softmax2d": Kind(activation.Softmax2d, "plain"),
    "Linear": Kind(layers.Linear, "plain", ("in_features", "out_features"), derived=_BIAS),
    "Bilinear": Kind(layers.Bilinear, "plain", ("in1_features", "in2_features", "out_features"), derived=_BIAS),
    "LayerNorm": Kind(
        normalization.LayerNorm, "plain", ("normalized_shape", "eps", "elementwise_affine"),
        derived={"bias": lambda module: module.bias is not None or not module.elementwise_affine},
    ),
    "RMSNorm": Kind(normalization.RMSNorm, "plain", ("normalized_shape", "eps", "elementwise_affine")),
    "GroupNorm": Kind(normalization.GroupNorm, "plain", ("num_groups", "num_channels", "eps", "affine")),
    "BatchNorm1d": Kind(normalization.BatchNorm1d, "plain", _CHANNELS, check=_momentum),
    "BatchNorm2d": Kind(normalization.BatchNorm2d, "plain", _CHANNELS, check=_momentum),
    "BatchNorm3d": Kind(normalization.BatchNorm3d, "plain", _CHANNELS, check=_momentum),
    "InstanceNorm1d": Kind(normalization.InstanceNorm1d, "plain", _CHANNELS, check=_momentum),
    "InstanceNorm2d": Kind(normalization.InstanceNorm2d, "plain", _CHANNELS, check=_momentum),
    "InstanceNorm3d": Kind(normalization.InstanceNorm3d, "plain", _CHANNELS, check=_momentum),
    "Conv1d": Kind(convolution.Conv1d, "plain", _CONVOLUTION, derived=_BIAS),
    "Conv2d": Kind(convolution.Conv2d, "plain", _CONVOLUTION, derived=_BIAS),
    "Conv3d": Kind(convolution.Conv3d, "plain", _CONVOLUTION, derived=_BIAS),
    "ConvTranspose1d": Kind(convolution.ConvTranspose1d, "plain", (*_CONVOLUTION, "output_padding"), derived=_BIAS),
    "ConvTranspose2d": Kind(convolution.ConvTranspose2d, "plain", (*_CONVOLUTION, "output_padding"), derived=_BIAS),
    "ConvTranspose3d": Kind(convolution.ConvTranspose3d, "plain", (*_CONVOLUTION, "output_padding"), derived=_BIAS),
    "MaxPool1d": Kind(pooling.MaxPool1d, "plain", _MAX),
    "MaxPool2d": Kind(pooling.MaxPool2d, "plain", _MAX),
    "MaxPool3d": Kind(pooling.MaxPool3d, "plain", _MAX),
    "AvgPool1d": Kind(pooling.AvgPool1d, "plain", _AVERAGE),
    "AvgPool2d": Kind(pooling.AvgPool2d, "plain", (*_AVERAGE, "divisor_override")),
    "AvgPool3d": Kind(pooling.AvgPool3d, "plain", (*_AVERAGE, "divisor_override")),
    "LPPool1d": Kind(pooling.LPPool1d, "plain", ("norm_type", "kernel_size", "stride", "ceil_mode")),
    "LPPool2d": Kind(pooling.LPPool2d, "plain", ("norm_type", "kernel_size", "stride", "ceil_mode")),
    "AdaptiveAvgPool1d": Kind(pooling.AdaptiveAvgPool1d, "plain", ("output_size",)),
    "AdaptiveAvgPool2d": Kind(pooling.AdaptiveAvgPool2d, "plain", ("output_size",)),
    "AdaptiveAvgPool3d": Kind(pooling.AdaptiveAvgPool3d, "plain", ("output_size",)),
    "AdaptiveMaxPool1d": Kind(pooling.AdaptiveMaxPool1d, "plain", ("output_size", "return_indices")),
    "AdaptiveMaxPool2d": Kind(pooling.AdaptiveMaxPool2d, "plain", ("output_size", "return_indices")),
    "AdaptiveMaxPool3d": Kind(pooling.AdaptiveMaxPool3d, "plain", ("output_size", "return_indices")),
    "MaxUnpool1d": Kind(pooling.MaxUnpool1d, "plain", ("kernel_size", "stride", "padding")),
    "MaxUnpool2d": Kind(pooling.MaxUnpool2d, "plain", ("kernel_size", "stride", "padding")),
    "ConstantPad1d": Kind(padding.ConstantPad1d, "plain", ("padding", "value")),
    "ConstantPad2d": Kind(padding.ConstantPad2d, "plain", ("padding", "value")),
    "ConstantPad3d": Kind(padding.ConstantPad3d, "plain", ("padding", "value")),
    "ZeroPad1d": Kind(padding.ZeroPad1d, "plain", ("padding",)),
    "ZeroPad2d": Kind(padding.ZeroPad2d, "plain", ("padding",)),
    "ZeroPad3d": Kind(padding.ZeroPad3d, "plain", ("padding",)),
    "ReflectionPad1d": Kind(padding.ReflectionPad1d, "plain", ("padding",)),
    "ReflectionPad2d": Kind(padding.ReflectionPad2d, "plain", ("padding",)),
    "ReflectionPad3d": Kind(padding.ReflectionPad3d, "plain", ("padding",)),
    "ReplicationPad1d": Kind(padding.ReplicationPad1d, "plain", ("padding",)),
    "ReplicationPad2d": Kind(padding.ReplicationPad2d, "plain", ("padding",)),
    "ReplicationPad3d": Kind(padding.ReplicationPad3d, "plain", ("padding",)),
    "CircularPad1d": Kind(padding.CircularPad1d, "plain", ("padding",)),
    "CircularPad2d": Kind(padding.CircularPad2d, "plain", ("padding",)),
    "CircularPad3d": Kind(padding.CircularPad3d, "plain", ("padding",)),
    "Upsample": Kind(
        resize.Upsample, "plain", ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")
    ),
    "UpsamplingNearest2d": Kind(resize.UpsamplingNearest2d, "plain", ("size", "scale_factor")),
    "UpsamplingBilinear2d": Kind(resize.UpsamplingBilinear2d, "plain", ("size", "scale_factor")),
    "PixelShuffle": Kind(resize.PixelShuffle, "plain", ("upscale_factor",)),
    "PixelUnshuffle": Kind(resize.PixelUnshuffle, "plain", ("downscale_factor",)),
    "ChannelShuffle": Kind(resize.ChannelShuffle, "plain", ("groups",)),
    "Dropout1d": Kind(layers.Dropout1d, "plain", ("p",)),
    "Dropout2d": Kind(layers.Dropout2d, "plain", ("p",)),
    "Flatten": Kind(layers.Flatten, "plain", ("start_dim", "end_dim")),
    "Unflatten": Kind(layers.Unflatten, "plain", ("dim", "unflattened_size"), check=_whole_axes),
    "Embedding": Kind(layers.Embedding, "rows", _TABLE, _PLAIN_ROWS),
    "EmbeddingBag": Kind(layers.EmbeddingBag, "bag", (*_TABLE, "mode"), {**_PLAIN_ROWS, "include_last_offset": (False,)}),
    "LSTM": Kind(sequences.LSTM, "sequence", _RECURRENT, {"proj_size": (0,)}),
    "GRU": Kind(sequences.GRU, "sequence", _RECURRENT),
    "RNN": Kind(sequences.RNN, "sequence", (*_RECURRENT, "nonlinearity")),
    "LSTMCell": Kind(sequences.LSTMCell, "cell", _CELL),
    "GRUCell": Kind(sequences.GRUCell, "cell", _CELL),
    "RNNCell": Kind(sequences.RNNCell, "cell", (*_CELL, "nonlinearity")),
    "MultiheadAttention": Kind(
        sequences.MultiheadAttention, "attention", ("embed_dim", "num_heads", "dropout", "add_zero_attn", "kdim", "vdim"),
        derived={"bias": _has("in_proj_bias"), "add_bias_kv": _has("bias_k")},
    ),
}  # fmt: skip
"""By the name of the class in ``torch.nn``."""


def kind_of(torch: Any, module: Any) -> Kind | None:
    """The conversion of a module, if it is one of ``torch.nn`` itself and has no hooks."""
    name = type(module).__name__
    if getattr(torch.nn, name, None) is not type(module):
        return None
    hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return None if hooked or "forward" in vars(module) else KINDS.get(name)

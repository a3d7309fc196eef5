"""Layers of networks. Arguments and defaults are PyTorch's, but input sizes may be left out: they follow from the data.

``Linear(32)`` and ``Linear(64, 32)`` are the same layer behind 64 inputs, and so are ``Conv2d(16, 3)`` and
``Conv2d(8, 16, 3)`` behind 8 channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ActivationFunction, ConvolutionPadding, PoolingType
from . import initialisers, operations
from ._choose import by_position
from ._graph import Value
from .initialisers import Initialiser
from .module import Module, Parameter

Pair = int | Sequence[int]


def _pair(value: Pair, who: str) -> tuple[int, int]:
    """(vertical, horizontal)."""
    numbers = (value, value) if isinstance(value, int) else tuple(value)
    if len(numbers) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise ValueError(f"{who} is {value!r}. Pass one integer or (vertical, horizontal).")
    return numbers


def _positive(value: Any, who: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ValueError(f"{who} is {value!r}. Pass an integer of at least 1.")
    return int(value)


def _optional(value: Any, who: str) -> int | None:
    """A size that may be left to the first input."""
    return None if value is None else _positive(value, who)


def _check_size(who: str, what: str, expected: int | None, got: int) -> None:
    if expected is not None and expected != got:
        raise ValueError(
            f"{who}: made for {expected} {what}, but its input has {got}. Leave the number out to infer it."
        )


def _check_rank(who: str, x: Value, rank: int, axes: str) -> None:
    if len(x.shape) != rank:
        hint = " Put nn.Flatten() before it." if rank == 1 else " Put nn.Reshape(...) before it."
        raise ValueError(f"{who}: needs samples {axes}, but gets {x.shape}.{hint}")


class Linear(Module):
    """y = x Wᵀ + b along the last axis: (..., in) -> (..., out). ``weight`` is (out, in), ``bias`` (out,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Linear(3, 2)
    >>> y = layer(np.ones((5, 3), np.float32))  # built with the first call; the first argument may be left out
    >>> dx = layer.backward(np.ones_like(y))
    >>> y.shape, layer.weight.grad.shape, layer.bias.grad.tolist()
    ((5, 2), (2, 3), [5.0, 5.0])
    """

    def __init__(
        self,
        *features: int,
        in_features: int | None = None,
        out_features: int | None = None,
        bias: bool | None = None,
        weight_init: str | Initialiser | None = None,
        bias_init: str | Initialiser | None = None,
    ) -> None:
        super().__init__()
        sizes, options = by_position(
            "Linear takes the number of outputs, or the numbers of inputs and outputs.", features,
            {"in_features": in_features, "out_features": out_features}, {"bias": (bias, True)},
        )  # fmt: skip
        self.in_features = _optional(sizes["in_features"], "Linear: in_features")
        self.out_features = _positive(sizes["out_features"], "Linear: out_features")
        self.use_bias, self.weight_init, self.bias_init = bool(options["bias"]), weight_init, bias_init
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None

    def _lazy(self) -> bool:
        return self.weight is None

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        if not x.shape:
            raise ValueError("Linear: needs samples with at least one axis. Pass x[:, None].")
        _check_size("Linear", "inputs", self.in_features, x.shape[-1])
        if self.weight is None:
            self.in_features = x.shape[-1]
            default = initialisers.fan_in_uniform(self.in_features)
            generator = x.graph.generator
            weights = initialisers.find(self.weight_init, default)((self.out_features, self.in_features), generator)
            self.weight = Parameter(weights)
            if self.use_bias:
                self.bias = Parameter(initialisers.find(self.bias_init, default)((self.out_features,), generator))
        return x.graph.append(operations.Linear(x.graph, x, self.weight, self.bias))

    def extra_repr(self) -> str:
        return f"{self.in_features or '?'}, {self.out_features}" + ("" if self.use_bias else ", bias=False")


class _Convolution(Module):
    transposed = False
    _order: tuple[str, ...] = ("stride", "padding", "dilation", "groups", "bias")  # PyTorch's, after the sizes

    def __init__(
        self,
        *sizes: Any,
        in_channels: int | None = None,
        out_channels: int | None = None,
        kernel_size: Pair | None = None,
        stride: Pair | None = None,
        padding: Pair | str | None = None,
        dilation: Pair | None = None,
        groups: int | None = None,
        bias: bool | None = None,
        weight_init: str | Initialiser | None = None,
        bias_init: str | Initialiser | None = None,
        output_padding: Pair | None = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if output_padding is not None and not self.transposed:
            raise TypeError(f"{who} has no output_padding, which belongs to ConvTranspose2d.")
        options: dict[str, tuple[Any, Any]] = {
            "stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1), "groups": (groups, 1),
            "bias": (bias, True), "output_padding": (output_padding, 0),
        }  # fmt: skip
        found, chosen = by_position(
            f"{who} takes (out_channels, kernel_size) or (in_channels, out_channels, kernel_size).", sizes,
            {"in_channels": in_channels, "out_channels": out_channels, "kernel_size": kernel_size},
            {name: options[name] for name in self._order},
        )  # fmt: skip
        self.in_channels = _optional(found["in_channels"], f"{who}: in_channels")
        self.out_channels = _positive(found["out_channels"], f"{who}: out_channels")
        self.kernel_size = _pair(found["kernel_size"], f"{who}: kernel_size")
        self.stride, self.dilation = (_pair(chosen[name], f"{who}: {name}") for name in ("stride", "dilation"))
        self.output_padding = _pair(chosen.get("output_padding", 0), f"{who}: output_padding")
        self.groups = _positive(chosen["groups"], f"{who}: groups")
        self.padding = self._resolve_padding(chosen["padding"], who)
        self.use_bias, self.weight_init, self.bias_init = bool(chosen["bias"]), weight_init, bias_init
        self.weight: Parameter | None = None
        self.bias: Parameter | None = None

    def _resolve_padding(self, padding: Pair | str, who: str) -> tuple[int, int]:
        if isinstance(padding, str):
            if padding == "valid":
                return 0, 0
            if padding == "same" and self.stride == (1, 1) and all(k % 2 for k in self.kernel_size):
                return tuple(d * (k - 1) // 2 for k, d in zip(self.kernel_size, self.dilation, strict=True))  # type: ignore[return-value]
            raise ValueError(
                f"{who}: padding {padding!r} with kernel {self.kernel_size} and stride {self.stride} is not possible. Pass "
                "numbers; 'same' needs odd kernels and stride 1."
            )
        return _pair(padding, f"{who}: padding")

    def _lazy(self) -> bool:
        return self.weight is None

    def _output_size(self, size: int, axis: int) -> int:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return (size + 2 * self.padding[axis] - extent) // self.stride[axis] + 1

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (self.out_channels, channels // self.groups, *self.kernel_size)

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        who = type(self).__name__
        _check_rank(who, x, 3, "(channels, height, width)")
        channels, *image = x.shape
        _check_size(who, "channels", self.in_channels, channels)
        if channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{who}: {self.groups} groups do not divide {channels} input and {self.out_channels} output channels."
            )
        sizes = [self._output_size(n, axis) for axis, n in enumerate(image)]
        if min(sizes) < 1:
            raise ValueError(
                f"{who}: an image of {image[0]} x {image[1]} (height x width) leaves nothing with kernel {self.kernel_size} "
                f"and padding {self.padding}. Use larger images, more padding or smaller kernels."
            )
        if self.weight is None:
            self.in_channels = channels
            shape = self._weights_shape(channels)
            fan_in = shape[1] * shape[2] * shape[3]
            default, generator = initialisers.fan_in_uniform(fan_in), x.graph.generator
            self.weight = Parameter(initialisers.find(self.weight_init, default)(shape, generator))
            if self.use_bias:
                self.bias = Parameter(initialisers.find(self.bias_init, default)((self.out_channels,), generator))
        options = {
            "stride": self.stride[::-1],
            "dilation_stride": self.dilation[::-1],
            "padding": ConvolutionPadding.symmetric(x=self.padding[1], y=self.padding[0]),
            "group_count": self.groups,
        }
        shape = (self.out_channels, *sizes)
        return x.graph.append(
            operations.Convolution(x.graph, x, self.weight, self.bias, shape, self.transposed, options)
        )

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels or '?'}, {self.out_channels}, kernel_size={self.kernel_size}"]
        for name, value, default in (
            ("stride", self.stride, (1, 1)), ("padding", self.padding, (0, 0)), ("dilation", self.dilation, (1, 1)),
            ("groups", self.groups, 1), ("bias", self.use_bias, True),
        ):  # fmt: skip
            if value != default:
                parts.append(f"{name}={value}")
        return ", ".join(parts)


class Conv2d(_Convolution):
    """Convolution of images (C, H, W) -> (O, H', W'); ``weight`` is (O, C / groups, KH, KW), ``bias`` (O,).

    H' = floor((H + 2 padding - dilation (KH - 1) - 1) / stride) + 1, and W' likewise. ``padding`` may be "same" or "valid".

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Conv2d(3, 8, 5, stride=2, padding=2)  # or Conv2d(8, 5): the input tells its channels
    >>> layer(np.zeros((4, 3, 28, 28), np.float32)).shape, layer.weight.data.shape
    ((4, 8, 14, 14), (8, 3, 5, 5))
    """


class ConvTranspose2d(_Convolution):
    """Transposed convolution (C, H, W) -> (O, H', W'); ``weight`` is (C, O, KH, KW), ``bias`` (O,).

    H' = stride (H - 1) + dilation (KH - 1) + 1 - 2 padding + output_padding.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(np.zeros((4, 8, 14, 14), np.float32)).shape
    (4, 3, 28, 28)
    """

    transposed = True
    _order = ("stride", "padding", "output_padding", "groups", "bias", "dilation")

    def __init__(self, *sizes: Any, **options: Any) -> None:
        super().__init__(*sizes, **options)
        if self.groups != 1:
            raise ValueError("ConvTranspose2d: groups must be 1. BNNS has no transposed convolution in groups.")
        for extra, stride, dilation in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if not 0 <= extra < max(stride, dilation):
                raise ValueError("ConvTranspose2d: output_padding must be smaller than stride or dilation.")

    def _output_size(self, size: int, axis: int) -> int:
        extent = self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
        return self.stride[axis] * (size - 1) + extent - 2 * self.padding[axis] + self.output_padding[axis]

    def _weights_shape(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels, *self.kernel_size)


class _Pooling(Module):
    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0) -> None:
        super().__init__()
        who = type(self).__name__
        self.kernel_size = _pair(kernel_size, f"{who}: kernel_size")
        self.stride = self.kernel_size if stride is None else _pair(stride, f"{who}: stride")
        self.padding = _pair(padding, f"{who}: padding")
        if any(2 * p > k for p, k in zip(self.padding, self.kernel_size, strict=True)):
            raise ValueError(f"{who}: padding {self.padding} is more than half of the window {self.kernel_size}.")

    def _type(self) -> PoolingType:
        raise NotImplementedError

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        who = type(self).__name__
        _check_rank(who, x, 3, "(channels, height, width)")
        sizes = [
            (n + 2 * p - k) // s + 1
            for n, k, s, p in zip(x.shape[1:], self.kernel_size, self.stride, self.padding, strict=True)
        ]
        if min(sizes) < 1:
            raise ValueError(
                f"{who}: an image of {x.shape[1]} x {x.shape[2]} is smaller than the window {self.kernel_size}. Use larger "
                "images or smaller windows."
            )
        options = {
            "kernel_size": self.kernel_size[::-1],
            "stride": self.stride[::-1],
            "padding": ConvolutionPadding.symmetric(x=self.padding[1], y=self.padding[0]),
        }
        return x.graph.append(operations.Pooling(x.graph, x, self._type(), (x.shape[0], *sizes), options))

    def extra_repr(self) -> str:
        parts = [f"kernel_size={self.kernel_size}"]
        if self.stride != self.kernel_size:
            parts.append(f"stride={self.stride}")
        if self.padding != (0, 0):
            parts.append(f"padding={self.padding}")
        return ", ".join(parts)


class MaxPool2d(_Pooling):
    """The largest value of every window; ``stride`` is the window unless given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.MaxPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    """

    def _type(self) -> PoolingType:
        return PoolingType.max()


class AvgPool2d(_Pooling):
    """The mean of every window; zeros of the padding count unless ``count_include_pad`` is False.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.AvgPool2d(2)(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)).tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """

    def __init__(
        self, kernel_size: Pair, stride: Pair | None = None, padding: Pair = 0, *, count_include_pad: bool = True
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.count_include_pad = bool(count_include_pad)

    def _type(self) -> PoolingType:
        return PoolingType.average(count_includes_padding=self.count_include_pad)


class GlobalAvgPool2d(Module):
    """The mean of every channel: (C, H, W) -> (C,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GlobalAvgPool2d()(np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)).tolist()
    [[1.5, 5.5]]
    """

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        _check_rank("GlobalAvgPool2d", x, 3, "(channels, height, width)")
        pooled: Value = AvgPool2d(x.shape[1:])(x)
        return pooled.reshape(x.shape[0])


class Dropout(Module):
    """In training every element is 0 with probability p, else x / (1 - p); at inference y = x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> x, layer = np.ones((1, 1000), np.float32), nn.Dropout(0.5)
    >>> sorted(set(layer(x)[0].tolist())), set(layer.eval()(x)[0].tolist())
    ([0.0, 2.0], {1.0})
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"Dropout: p is {p}. It is the probability to drop: at least 0 and less than 1.")
        self.p = float(p)

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        return x.graph.append(operations.Dropout(x.graph, x, self.p)) if self.p else x

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class Embedding(Module):
    """Rows of ``weight`` (num_embeddings, embedding_dim) by number: integers (...) -> (..., embedding_dim).

    The row ``padding_idx`` reads as zeros and gets no gradient.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.Embedding(10, 3, padding_idx=0)
    >>> layer(np.array([[0, 7]])).shape, layer(np.array([[0, 7]]))[0, 0].tolist()
    ((1, 2, 3), [0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        weight_init: str | Initialiser | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = _positive(num_embeddings, "Embedding: num_embeddings")
        self.embedding_dim = _positive(embedding_dim, "Embedding: embedding_dim")
        if padding_idx is not None and not 0 <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx is {padding_idx}, but rows are 0 to {num_embeddings - 1}.")
        self.padding_idx, self.weight_init = padding_idx, weight_init
        self.weight: Parameter | None = None

    def _lazy(self) -> bool:
        return self.weight is None

    def input_dtypes(self, count: int) -> list[np.dtype[Any]]:
        return [np.dtype(np.int64)] * count

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        if x.dtype.kind != "i":
            raise ValueError("Embedding: looks up integers, so it must be the first layer of a network, on its input.")
        if self.weight is None:
            make = initialisers.find(self.weight_init, initialisers.normal())
            self.weight = Parameter(make((self.num_embeddings, self.embedding_dim), x.graph.generator))
            if self.padding_idx is not None:
                self.weight.data[self.padding_idx] = 0
        return x.graph.append(operations.Embedding(x.graph, x, self.weight, self.padding_idx))

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class Flatten(Module):
    """All axes of a sample as one; no data is moved.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Flatten()(np.zeros((4, 3, 5, 5), np.float32)).shape
    (4, 75)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        if (start_dim, end_dim) != (1, -1):
            raise ValueError(
                f"Flatten: start_dim is {start_dim} and end_dim {end_dim}, but all axes behind the batch become one. Use "
                "Reshape for another shape."
            )

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        return x.reshape(x.count)


class Reshape(Module):
    """Samples in another shape with the same number of elements; one size may be -1. No data is moved.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Reshape(1, 8, -1)(np.zeros((4, 64), np.float32)).shape
    (4, 1, 8, 8)
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        return x.reshape(*self.shape)

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.shape))


class Identity(Module):
    """y = x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Identity()(np.float32([[1, 2]])).tolist()
    [[1.0, 2.0]]
    """

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        return x


class Concatenate(Module):
    """The results of several branches that read the same input, side by side along ``axis`` of the sample.

    Called with several values and no branches, it joins those.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Concatenate(nn.Identity(), nn.ReLU())(np.float32([[-1, 2]])).tolist()
    [[-1.0, 2.0, 0.0, 2.0]]
    """

    def __init__(self, *branches: Module, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis
        for i, branch in enumerate(branches):
            self._children[str(i)] = branch

    def forward(self, *inputs: Value) -> Value:
        parts = [branch(*inputs) for branch in self.children()] or list(inputs)
        return inputs[0].graph.append(operations.Concatenate(inputs[0].graph, parts, self.axis))

    def extra_repr(self) -> str:
        return f"axis={self.axis}"


class _Activation(Module):
    def _function(self) -> ActivationFunction:
        raise NotImplementedError

    def forward(self, *inputs: Value) -> Value:
        (x,) = inputs
        return x.graph.append(operations.Activation(x.graph, x, self._function()))


class _InPlace(_Activation):
    """Takes PyTorch's ``inplace``, which makes no difference: the memory of a network is planned as a whole."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


class Activation(_Activation):
    """Any :class:`openbnns.ActivationFunction` as a layer: ``Activation(ActivationFunction.erf())``.

    >>> import numpy as np
    >>> import openbnns as bn
    >>> from openbnns import nn
    >>> nn.Activation(bn.ActivationFunction.abs())(np.float32([[-1, 2]])).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, function: ActivationFunction) -> None:
        super().__init__()
        if not isinstance(function, ActivationFunction):
            raise TypeError(
                f"Activation takes an ActivationFunction such as ActivationFunction.tanh(), not {function!r}."
            )
        self.function = function

    def _function(self) -> ActivationFunction:
        return self.function

    def extra_repr(self) -> str:
        return repr(self.function)


class ReLU(_InPlace):
    """max(x, 0).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.ReLU()
    >>> layer(np.float32([[-1, 2]])).tolist(), layer.backward(np.float32([[5, 5]])).tolist()
    ([[0.0, 2.0]], [[0.0, 5.0]])
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.rectified_linear()


class ReLU6(_InPlace):
    """min(max(x, 0), 6).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.ReLU6()(np.float32([[-1, 2, 9]])).tolist()
    [[0.0, 2.0, 6.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.clamp(bounds=(0.0, 6.0))


class LeakyReLU(_InPlace):
    """x for x > 0, else negative_slope x.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.LeakyReLU(0.25)(np.float32([[-4, 2]])).tolist()
    [[-1.0, 2.0]]
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = float(negative_slope)

    def _function(self) -> ActivationFunction:
        return ActivationFunction.leaky_rectified_linear(alpha=self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope:g}"


class ELU(_InPlace):
    """x for x > 0, else alpha (exp(x) - 1).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.ELU()(np.float32([[-1, 2]])).round(4))
    [[-0.6321  2.    ]]
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = float(alpha)

    def _function(self) -> ActivationFunction:
        return ActivationFunction.elu(alpha=self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}"


class SELU(_InPlace):
    """Scaled ELU of Klambauer et al. 2017.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.SELU()(np.float32([[-1, 2]])).round(4))
    [[-1.1113  2.1014]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.selu()


class GELU(_Activation):
    """x Φ(x), or with ``approximate="tanh"`` its usual approximation.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.GELU()(np.float32([[-1, 2]])).round(4), nn.GELU("tanh")(np.float32([[-1, 2]])).round(4))
    [[-0.1587  1.9545]] [[-0.1588  1.9546]]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate is {approximate!r}. Use 'none' or 'tanh'.")
        self.approximate = approximate

    def _function(self) -> ActivationFunction:
        return ActivationFunction.gelu() if self.approximate == "none" else ActivationFunction.gelu_approximation()

    def extra_repr(self) -> str:
        return "" if self.approximate == "none" else f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    """x σ(x).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.SiLU()(np.float32([[-1, 2]])).round(4))
    [[-0.2689  1.7616]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.silu()


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Sigmoid()(np.float32([[-1, 0, 1]])).round(4))
    [[0.2689 0.5    0.7311]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.sigmoid()


class LogSigmoid(_Activation):
    """log(1 / (1 + exp(-x))).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.LogSigmoid()(np.float32([[-100, 0]])).round(4))
    [[-100.       -0.6931]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.log_sigmoid()


class Tanh(_Activation):
    """tanh(x).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Tanh()(np.float32([[-1, 0, 1]])).round(4))
    [[-0.7616  0.      0.7616]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.tanh()


class Softplus(_Activation):
    """log(1 + exp(x)).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Softplus()(np.float32([[-1, 0, 100]])).round(4))
    [[  0.3133   0.6931 100.    ]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.softplus()


class Softsign(_Activation):
    """x / (1 + |x|).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softsign()(np.float32([[-1, 0, 3]])).tolist()
    [[-0.5, 0.0, 0.75]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.softsign()


class Hardswish(_InPlace):
    """x min(max(x + 3, 0), 6) / 6.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Hardswish()(np.float32([[-1.5, 0, 9]])).tolist()
    [[-0.375, 0.0, 9.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.hard_swish()


class Hardsigmoid(_InPlace):
    """min(max(x / 6 + 1 / 2, 0), 1).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Hardsigmoid()(np.float32([[-9, 0, 9]])).tolist()
    [[0.0, 0.5, 1.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.hard_sigmoid(alpha=1.0 / 6.0, beta=0.5)


class _AlongLastAxis(_Activation):
    """``dim`` is there for PyTorch's sake: it counts the batch axis, and is the last one."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, *inputs: Value) -> Value:
        if self.dim not in (-1, len(inputs[0].shape)):
            name = type(self).__name__
            raise ValueError(
                f"{name}: dim is {self.dim}, but {name} runs along the last axis of samples {inputs[0].shape}. Leave it out."
            )
        return super().forward(*inputs)


class Softmax(_AlongLastAxis):
    """exp(x) / Σ exp(x) along the last axis.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmax()(np.float32([[7, 7, -1000]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.softmax()


class LogSoftmax(_AlongLastAxis):
    """x - log Σ exp(x) along the last axis.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.LogSoftmax()(np.float32([[7, 7]])).round(4))
    [[-0.6931 -0.6931]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.log_softmax()

"""The four normalizations, under PyTorch's names.

z = (x - mean) / sqrt(variance + eps) · weight + bias. Moving statistics follow
``running = (1 - momentum) running + momentum current``; the variance in them is the biased one, as BNNS has it, where
PyTorch's is larger by n / (n - 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ..graph import checks, functions
from ..graph.checks import check_rank, check_size, positive
from ..graph.functions import normalizations
from ..graph.functions.normalizations import fitting_end
from ..graph.parameter import Parameter
from ..graph.tensor import Array, Tensor
from .arguments import optional, options
from .module import Layer


class _Normalization(Layer):
    """``affine`` gives every channel (or element) a trained weight and bias."""

    def __init__(self, eps: float, momentum: float, affine: bool, bias: bool = True) -> None:
        super().__init__()
        who = type(self).__name__
        self.eps, self.momentum = checks.epsilon(eps, who), checks.momentum(momentum, who)
        self.affine, self.use_bias = bool(affine), bool(bias)
        self.weight = Parameter.of(self, "weight") if self.affine else None
        self.bias = Parameter.of(self, "bias") if self.affine and self.use_bias else None

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return (np.ones if name == "weight" else np.zeros)(shape, np.float32)

    def _shape(self) -> tuple[int, ...] | None:
        """The shape of weight and bias, if it is known."""
        raise NotImplementedError

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return self._shape()

    def _weights(self, x: Tensor, shape: tuple[int, ...]) -> tuple[Parameter | None, Parameter | None]:
        weight, bias = (self._fit_optional(name, shape, x.graph.generator) for name in ("weight", "bias"))
        return weight, bias

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"


class _ChannelNorm(_Normalization):
    """Batch and instance normalization: one weight and bias, and one pair of moving statistics, per channel."""

    ranks: ClassVar[tuple[int, ...]] = (3,)
    axes: ClassVar[str] = "(channels, height, width)"
    kind: ClassVar[str] = "batch"
    _usual: ClassVar[bool] = True  # whether there are weights and statistics unless told otherwise

    def __init__(
        self,
        num_features: int | None = None,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine)
        self.num_features = optional(num_features, f"{type(self).__name__}: num_features")
        self.track_running_stats = bool(track_running_stats)
        self.running_mean: Array | None = None
        self.running_var: Array | None = None
        if self.num_features is not None:
            self._make_statistics(self.num_features)

    def _shape(self) -> tuple[int, ...] | None:
        return None if self.num_features is None else (self.num_features,)

    def _make_statistics(self, channels: int) -> None:
        if self._lacks_statistics():
            self.register_buffer("running_mean", np.zeros(channels, np.float32))
            self.register_buffer("running_var", np.ones(channels, np.float32))

    def _lacks_statistics(self) -> bool:
        return self.track_running_stats and not self._buffers

    def _lazy(self) -> bool:
        return super()._lazy() or self._lacks_statistics()

    def forward(self, input: Tensor) -> Tensor:
        x = input
        who = type(self).__name__
        if x.ndim - 1 not in self.ranks:
            check_rank(who, x, self.ranks[0], self.axes)
        check_size(who, "channels", self.num_features, x.shape[1])
        if self.num_features is None:
            self.num_features = int(x.shape[1])
        self._make_statistics(self.num_features)
        weights = (self.running_mean, self.running_var, *self._weights(x, (self.num_features,)))
        return normalizations.channel_norm(who, x, self.kind, *weights, self.momentum, self.eps)

    def extra_repr(self) -> str:
        sizes = f"{self.num_features or '?'}, eps={self.eps:g}, momentum={self.momentum:g}"
        return sizes + options(self, affine=self._usual, track_running_stats=self._usual)


class BatchNorm2d(_ChannelNorm):
    """Statistics of each channel over the batch and the image; (C, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.BatchNorm2d(3)
    >>> y = layer(np.random.default_rng(0).normal(5, 2, (16, 3, 8, 8)).astype(np.float32))
    >>> bool(abs(y.mean()) < 1e-5), sorted(layer.state_dict())
    (True, ['bias', 'running_mean', 'running_var', 'weight'])
    """


class BatchNorm1d(BatchNorm2d):
    """Statistics of each element over the batch, (n,), or of each channel over the batch and the signal, (C, L).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer, x = nn.BatchNorm1d(), np.float32([[1, 10], [3, 30]])
    >>> print(layer(x).round(3))
    [[-1. -1.]
     [ 1.  1.]]
    >>> print(layer.state_dict()["running_mean"].round(3))  # a tenth (momentum) of the batch's mean
    [0.2 2. ]
    >>> y = layer.eval()(x)  # with the running statistics
    >>> nn.BatchNorm1d(3)(np.zeros((2, 3, 7), np.float32)).shape
    (2, 3, 7)
    """

    ranks = (1, 2)
    axes = "(features,) or (channels, length)"


class BatchNorm3d(BatchNorm2d):
    """Statistics of each channel over the batch and the volume; (C, D, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.BatchNorm3d()(np.zeros((2, 3, 4, 5, 6), np.float32)).shape
    (2, 3, 4, 5, 6)
    """

    ranks = (4,)
    axes = "(channels, depth, height, width)"


class InstanceNorm2d(_ChannelNorm):
    """Statistics of each channel of each sample; (C, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.InstanceNorm2d()(np.float32([[[[1, 3]], [[10, 30]]]])).round(3).tolist())
    [[[[-1.0, 1.0]], [[-1.0, 1.0]]]]
    """

    kind = "instance"
    _usual = False

    def __init__(
        self,
        num_features: int | None = None,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)


class InstanceNorm1d(InstanceNorm2d):
    """Statistics of each channel of each sample; (C, L).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.InstanceNorm1d()(np.float32([[[1, 3], [10, 30]]])).round(3).tolist())
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """

    ranks = (2,)
    axes = "(channels, length)"


class InstanceNorm3d(InstanceNorm2d):
    """Statistics of each channel of each sample; (C, D, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.InstanceNorm3d()(np.float32([[[[[1, 3]]]]])).round(3).tolist()
    [[[[[-1.0, 1.0]]]]]
    """

    ranks = (4,)
    axes = "(channels, depth, height, width)"


class GroupNorm(_Normalization):
    """Statistics of each group of channels of each sample; (C, D, H, W), (C, H, W), (C, L) or (C,).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.GroupNorm(2)(np.float32([[1, 3, 10, 30]])).round(3))
    [[-1.  1. -1.  1.]]
    """

    def __init__(
        self, num_groups: int, num_channels: int | None = None, eps: float = 1e-5, affine: bool = True
    ) -> None:
        super().__init__(eps, 0.0, affine)
        self.num_groups = positive(num_groups, "GroupNorm: num_groups")
        self.num_channels = optional(num_channels, "GroupNorm: num_channels")
        if self.num_channels is not None:
            normalizations.check_groups("GroupNorm", self.num_groups, self.num_channels)

    def _shape(self) -> tuple[int, ...] | None:
        return None if self.num_channels is None else (self.num_channels,)

    def forward(self, input: Tensor) -> Tensor:
        normalizations.check_rank_of_groups("GroupNorm", input)
        check_size("GroupNorm", "channels", self.num_channels, input.shape[1])
        normalizations.check_groups("GroupNorm", self.num_groups, int(input.shape[1]))
        if self.num_channels is None:
            self.num_channels = int(input.shape[1])
        weights = self._weights(input, (self.num_channels,))
        y: Tensor = normalizations.group_norm_of("GroupNorm", input, self.num_groups, *weights, self.eps)
        return y

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels or '?'}, eps={self.eps:g}" + options(self, affine=True)


class LayerNorm(_Normalization):
    """Statistics of each sample over its last axes: all those of ``normalized_shape``, or the last one.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.LayerNorm()(np.float32([[[1, 3], [10, 30]]])).round(3).tolist())
    [[[-1.0, 1.0], [-1.0, 1.0]]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int] | None = None,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, 0.0, elementwise_affine, bias)
        self.normalized_shape = _sample_end(normalized_shape, "LayerNorm")

    def _shape(self) -> tuple[int, ...] | None:
        return self.normalized_shape

    def forward(self, input: Tensor) -> Tensor:
        x = input
        shape = fitting_end(self.normalized_shape, x, "LayerNorm")
        if self.normalized_shape is None:
            self.normalized_shape = shape
        y: Tensor = functions.layer_norm(x, shape, *self._weights(x, shape), self.eps)
        return y

    def extra_repr(self) -> str:
        shown = "" if self.affine else ", elementwise_affine=False"
        return f"{self.normalized_shape or '?'}, eps={self.eps:g}{shown}" + options(self, bias=True)


class RMSNorm(Layer):
    """x / sqrt(mean(x²) + eps) · weight, with the mean of each sample over the axes of ``normalized_shape``, or the last one.

    ``eps`` is the smallest step of float32 above 1 unless given.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.RMSNorm(2)(np.float32([[1, 7]])).round(3))
    [[0.2 1.4]]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int] | None = None,
        eps: float | None = None,
        elementwise_affine: bool = True,
    ) -> None:
        super().__init__()
        self.eps = float(np.finfo(np.float32).eps) if eps is None else checks.epsilon(eps, "RMSNorm")
        self.elementwise_affine = bool(elementwise_affine)
        self.normalized_shape = _sample_end(normalized_shape, "RMSNorm")
        self.weight = Parameter.of(self, "weight") if self.elementwise_affine else None

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return np.ones(shape, np.float32)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return self.normalized_shape

    def forward(self, input: Tensor) -> Tensor:
        x = input
        shape = fitting_end(self.normalized_shape, x, "RMSNorm")
        if self.normalized_shape is None:
            self.normalized_shape = shape
        weight = self._fit_optional("weight", shape, x.graph.generator)
        y: Tensor = functions.rms_norm(x, shape, weight, self.eps)
        return y

    def extra_repr(self) -> str:
        return f"{self.normalized_shape or '?'}, eps={self.eps:g}" + options(self, elementwise_affine=True)


class LocalResponseNorm(Layer):
    """x / (k + alpha / size Σ x²)^beta, with the sum over a window of ``size`` channels around each.

    Windows end at the first and the last channel, but are divided by ``size`` there, too.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.LocalResponseNorm(3, alpha=3, beta=0.5, k=0)(np.float32([[[3], [4], [5]]])).ravel().round(3))
    [0.6   0.566 0.781]
    """

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = positive(size, "LocalResponseNorm: size")
        self.alpha, self.beta, self.k = float(alpha), float(beta), float(k)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim < 3:
            raise ValueError(
                f"LocalResponseNorm: needs samples (channels, ...) with at least one axis behind channels, but gets "
                f"{input.shape[1:]}. Put nn.Reshape(...) before it."
            )
        y: Tensor = functions.local_response_norm(input, self.size, self.alpha, self.beta, self.k)
        return y

    def extra_repr(self) -> str:
        return f"{self.size}" + options(self, alpha=0.0001, beta=0.75, k=1.0)


def _sample_end(sizes: int | Sequence[int] | None, who: str) -> tuple[int, ...] | None:
    """The last axes of samples, which may be left to the first input."""
    return None if sizes is None else checks.sample_end(sizes, f"{who}: normalized_shape")

"""Activations as layers, softmax among them. Arguments and defaults are PyTorch's."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .. import ActivationFunction
from ..graph import functions, operations
from ..graph.checks import check_rank, positive
from ..graph.parameter import Parameter
from ..graph.tensor import Array, Tensor
from .arguments import options
from .module import Layer


class _Activation(Layer):
    def _function(self) -> ActivationFunction:
        raise NotImplementedError

    def forward(self, input: Tensor) -> Tensor:
        x = input
        return x.graph.append(operations.Activation(x.graph, x, self._function()))


class _InPlace(_Activation):
    """Base of activations that accept PyTorch's ``inplace`` and ignore it: the memory of a network is planned as a
    whole."""

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

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
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
    """log(1 + exp(beta x)) / beta, and x where beta x is above ``threshold``.

    It is computed without overflow, so that thresholds of 15 and more make no difference in float32.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Softplus()(np.float32([[-1, 0, 100]])).round(4))
    [[  0.3133   0.6931 100.    ]]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        if not beta > 0:
            raise ValueError(f"Softplus: beta is {beta}. It must be greater than 0.")
        self.beta, self.threshold = float(beta), float(threshold)

    def forward(self, input: Tensor) -> Tensor:
        if self.threshold >= 15:
            return super().forward(input)
        y: Tensor = functions.softplus(input, self.beta, self.threshold)
        return y

    def _function(self) -> ActivationFunction:
        return ActivationFunction.softplus(alpha=1.0 / self.beta, beta=self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}, threshold={self.threshold:g}"


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


class CELU(_InPlace):
    """x for x > 0, else alpha (exp(x / alpha) - 1).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.CELU(2)(np.float32([[-1, 2]])).round(4))
    [[-0.7869  2.    ]]
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if alpha == 0:
            raise ValueError("CELU: alpha is 0, but x is divided by it. Pass another number.")
        self.alpha = float(alpha)

    def _function(self) -> ActivationFunction:
        return ActivationFunction.celu(alpha=self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}"


class Threshold(_InPlace):
    """x for x > threshold, else value.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Threshold(1, -5)(np.float32([[0, 1, 2]])).tolist()
    [[-5.0, -5.0, 2.0]]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value = float(threshold), float(value)

    def _function(self) -> ActivationFunction:
        return ActivationFunction.threshold(alpha=self.threshold, beta=self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold:g}, value={self.value:g}"


class Hardtanh(_InPlace):
    """min(max(x, min_val), max_val).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Hardtanh(-2, 2)(np.float32([[-3, 1, 3]])).tolist()
    [[-2.0, 1.0, 2.0]]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: min_val is {min_val} and max_val {max_val}. The first must be smaller.")
        self.min_val, self.max_val = float(min_val), float(max_val)

    def _function(self) -> ActivationFunction:
        return ActivationFunction.clamp(bounds=(self.min_val, self.max_val))

    def extra_repr(self) -> str:
        return f"min_val={self.min_val:g}, max_val={self.max_val:g}"


class _Shrink(_Activation):
    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        if not lambd >= 0:
            raise ValueError(f"{type(self).__name__}: lambd is {lambd}. It must not be negative.")
        self.lambd = float(lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd:g}"


class Hardshrink(_Shrink):
    """x beyond ±lambd, else 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Hardshrink(1)(np.float32([[-2, 0.5, 3]])).tolist()
    [[-2.0, 0.0, 3.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.hard_shrink(alpha=self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, but not past 0.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softshrink(1)(np.float32([[-2, 0.5, 3]])).tolist()
    [[-1.0, 0.0, 2.0]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.soft_shrink(alpha=self.lambd)


class Tanhshrink(_Activation):
    """x - tanh(x).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Tanhshrink()(np.float32([[-1, 0, 2]])).round(4))
    [[-0.2384  0.      1.036 ]]
    """

    def _function(self) -> ActivationFunction:
        return ActivationFunction.tanh_shrink()


class PReLU(Layer):
    """x for x > 0, else weight x, with a trained ``weight`` (num_parameters,): one number, or one per channel (axis 1).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> layer = nn.PReLU(2, init=0.5)
    >>> layer(np.float32([[-4, -4], [4, 4]])).tolist()
    [[-2.0, -2.0], [4.0, 4.0]]
    >>> dx = layer.backward(np.float32([[1, 2], [1, 2]]))
    >>> layer.weight.grad.tolist()
    [-4.0, -8.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.num_parameters, self.init = positive(num_parameters, "PReLU: num_parameters"), float(init)
        self.weight = Parameter.of(self, "weight")

    def _initial(self, name: str, shape: tuple[int, ...], generator: np.random.RandomState) -> Array:
        return np.full(shape, self.init, np.float32)

    def _shape_of(self, name: str) -> tuple[int, ...] | None:
        return (self.num_parameters,)

    def forward(self, input: Tensor) -> Tensor:
        x = input
        if self.num_parameters > 1 and (x.ndim < 2 or x.shape[1] != self.num_parameters):
            raise ValueError(
                f"PReLU: made for {self.num_parameters} channels, which are axis 1, but gets {x.shape}. Use as many as there "
                "are channels, or 1."
            )
        weight = self._fit("weight", (self.num_parameters,), x.graph.generator)
        return x.graph.append(operations.Prelu(x, weight))

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}" + options(self, init=0.25)


class Mish(_InPlace):
    """x tanh(log(1 + exp(x))).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.Mish()(np.float32([[-1, 2]])).round(4))
    [[-0.3034  1.944 ]]
    """

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.mish(input)
        return y


class GLU(Layer):
    """The first half along ``dim`` times the sigmoid of the second.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.GLU()(np.float32([[3, 4, 0, 0]])).tolist()
    [[1.5, 2.0]]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.glu(input, dim=self.dim)
        return y

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(Layer):
    """exp(x) / Σ exp(x) along ``dim``, where 0 is the batch axis; by default the last axis.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmax()(np.float32([[7, 7, -1000]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.softmax(input, dim=self.dim)
        return y

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """x - log Σ exp(x) along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> print(nn.LogSoftmax()(np.float32([[7, 7]])).round(4))
    [[-0.6931 -0.6931]]
    """

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.log_softmax(input, dim=self.dim)
        return y


class Softmin(Softmax):
    """exp(-x) / Σ exp(-x) along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmin()(np.float32([[7, 7, 1000]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functions.softmin(input, dim=self.dim)
        return y


class Softmax2d(Layer):
    """Softmax over the channels of every pixel of an image (C, H, W).

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmax2d()(np.zeros((1, 4, 1, 2), np.float32)).ravel().tolist()
    [0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25]
    """

    def forward(self, input: Tensor) -> Tensor:
        x = input
        check_rank("Softmax2d", x, 3, "(channels, height, width)")
        y: Tensor = functions.softmax(x, dim=1)
        return y

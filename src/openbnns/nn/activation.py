"""Activations as layers. Arguments and defaults are PyTorch's."""

from __future__ import annotations

from .. import ActivationFunction
from . import operations
from ._value import Value
from .module import Module


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
        if self.dim not in (-1, len(inputs[0].sample)):
            name = type(self).__name__
            raise ValueError(
                f"{name}: dim is {self.dim}, but {name} runs along the last axis of samples {inputs[0].sample}. Leave it out."
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

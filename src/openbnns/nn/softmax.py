"""Softmax and its relatives, along any axis but the batch."""

from __future__ import annotations

from ..graph.tensor import Tensor
from . import functional
from ._checks import check_rank
from .module import Layer


class Softmax(Layer):
    """exp(x) / Σ exp(x) along ``dim``, which counts the batch axis; the last one if left out.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmax()(np.float32([[7, 7, -1000]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functional.softmax(input, dim=self.dim)
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
        y: Tensor = functional.log_softmax(input, dim=self.dim)
        return y


class Softmin(Softmax):
    """exp(-x) / Σ exp(-x) along ``dim``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> nn.Softmin()(np.float32([[7, 7, 1000]])).tolist()
    [[0.5, 0.5, 0.0]]
    """

    def forward(self, input: Tensor) -> Tensor:
        y: Tensor = functional.softmin(input, dim=self.dim)
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
        y: Tensor = functional.softmax(x, dim=1)
        return y

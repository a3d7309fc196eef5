"""The base of layers with two inputs."""

from __future__ import annotations

from typing import Any

from ._methods import DECLARED, method
from ._ports import TensorLike
from .base import InputGradients, Layer

__all__ = ["BinaryLayer"]


class BinaryLayer(Layer):
    """Base of the layers with two inputs that are driven by the two-input calls.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = BroadcastMatrixMultiplyLayer(
    ...     input_a=Shape([1, 2]), input_b=Shape([1, 2]), input_b_transposed=True, output=Shape([1, 1])
    ... )
    >>> a, b = np.float32([[1, 2]]), np.float32([[3, 4]])
    >>> layer.apply(a, b).tolist()
    [[11.0]]
    >>> gradients = layer.apply_backward(input_a=a, input_b=b, output_gradient=np.float32([[10]]))
    >>> gradients.input_a.tolist(), gradients.input_b.tolist()
    ([[30.0, 40.0]], [[10.0, 20.0]])
    """

    @method("apply_two_input")
    def apply(
        self,
        input_a: TensorLike,
        input_b: TensorLike,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
    ) -> TensorLike:
        """Run the layer forward on a pair of inputs, each one sample or a batch.

        ``output`` is written and returned; when left out it is a new array.
        """
        raise DECLARED

    @method("apply_backward_two_input", returns=InputGradients)
    def apply_backward(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_a_gradient: Any = None,
        generating_input_b_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> InputGradients:
        """Run the layer backward: the gradients with respect to both inputs, that of weights summed over the batch.

        ``input_a`` and ``input_b`` are those of the forward call; each is needed for the gradient of the other.
        """
        raise DECLARED

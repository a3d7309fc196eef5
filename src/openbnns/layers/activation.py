"""Activations as separate layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersActivation, BNNSNDArrayDescriptor
from ..errors import BNNSError, LayerApplyError, Problem
from ..filters.activation import ActivationFilter
from ._functions import function_with_constants
from ._methods import DECLARED, method
from ._ports import Port, TensorLike, describe_sample, require
from .base import UnaryLayer
from .shape import Shape
from .types import ActivationFunction

__all__ = ["ActivationGradients", "ActivationLayer", "apply_activation"]


class ActivationGradients(NamedTuple):
    """The gradients of an activation layer; ``alpha`` is ``None`` unless the function trains it.

    >>> import numpy as np
    >>> from openbnns import *
    >>> prelu = ActivationFunction.prelu_per_channel(alpha=0.25)
    >>> layer = ActivationLayer(function=prelu, input=Shape.image_chw(1, 1, 2))
    >>> x, dy = np.float32([[[-2]], [[4]]]), np.float32([[[10]], [[10]]])
    >>> layer.apply_backward(input=x, output=layer.apply(x), output_gradient=dy).alpha.tolist()  # x dy where x < 0
    [-20.0, 0.0]
    """

    input: Any = None
    alpha: Any = None


class ActivationLayer(UnaryLayer):
    """y = f(x), elementwise or along ``axes``; backward gives dx = dy · f'(x) and, for the leaky functions, dα.

    ``input`` and ``output`` are shapes, descriptors or arrays. An array (n,) or (C, H, W) stands for one sample, (N, n)
    or (N, C, H, W) for a batch; with more axes the first one is the batch. ``Shape([2, 3])`` says it outright. Without
    ``output`` it is like the input; another element type makes the layer a converter.

    ``axes`` are those along which softmax, log_softmax and gumbel_max run, jointly. When ``input`` is an array they are
    NumPy axes of one sample, without the batch axis, and may be negative; left out, the last one. When ``input`` is a
    shape or descriptor they are Swift's: positions in ``size[]``, where ``rank`` means the batch; left out, axis 0.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ActivationLayer(function=ActivationFunction.rectified_linear(), input=Shape.vector(3))
    >>> layer.apply(np.array([-1, 0, 2], np.float32))
    array([0., 0., 2.], dtype=float32)
    >>> layer.apply_backward(input=np.float32([-1, 0, 2]), output_gradient=np.float32([5, 5, 5])).input.tolist()
    [0.0, 0.0, 5.0]
    """

    _names: ClassVar[dict[str, str]] = {
        "axis_flags": "axes",
        "activation": "function",
        "activation.ishift": "function.shift",
        "activation.iscale_per_channel": "function.scales",
        "activation.ioffset_per_channel": "function.offsets",
        "activation.ishift_per_channel": "function.shifts",
    }
    _filter: ActivationFilter

    def __init__(
        self,
        *,
        function: ActivationFunction,
        input: Any,
        output: Any = None,
        axes: Sequence[int] | None = None,
        filter_parameters: BNNSFilterParameters | None = None,
    ) -> None:
        def make(who: Caller) -> ActivationFilter:
            require(function, ActivationFunction, f"{who}: function", "ActivationFunction.tanh()")
            x = describe_sample(input, f"{who}: input")
            y = x if output is None else describe_sample(output, f"{who}: output")
            flags = _axis_flags(axes, Port(x), isinstance(input, (Shape, BNNSNDArrayDescriptor)), f"{who}: axes")
            parameters = BNNSLayerParametersActivation(
                i_desc=x, o_desc=y, activation=function.bnns_activation, axis_flags=flags
            )
            return ActivationFilter(parameters, filter_parameters, who)

        self._create(make, filter_parameters, function)
        self._summary = {
            "function": function, "input": self._filter.input, "output": self._filter.output, "axes": axes,
        }  # fmt: skip

    @property
    def alpha(self) -> NDArray[np.float32] | None:
        """The alpha inside the layer, (1,) or one per channel; writes take effect at the next call."""
        return self._pointer(0)

    @property
    def beta(self) -> NDArray[np.float32] | None:
        """The beta inside the layer; writes take effect at the next call."""
        return self._pointer(1)

    def _pointer(self, which: int) -> NDArray[np.float32] | None:
        self._attempt(self._filter.require_alive, Caller(type(self).__name__))
        values: NDArray[np.float32] | None = self._filter.pointer(which).data
        return values

    @method("apply_backward", returns=ActivationGradients, generating_alpha_gradient="weights_delta")
    def apply_backward(
        self,
        input: TensorLike | None = None,
        output: TensorLike | None = None,
        output_gradient: TensorLike | None = None,
        generating_input_gradient: Any = None,
        generating_alpha_gradient: Any = None,
        *,
        batch_size: int | None = None,
        accumulate: bool = False,
    ) -> ActivationGradients:
        """Run the layer backward: the gradients with respect to the input and to alpha.

        Pass ``input``; where the derivative follows from the output (tanh, sigmoid, softmax, ...), ``output`` is enough.
        """
        raise DECLARED


def _axis_flags(axes: Sequence[int] | None, port: Port, in_c_order: bool, who: str) -> int:
    """The bits of ``axis_flags``: bit d is the axis of ``size[d]``."""
    rank = len(port.size)
    chosen = [axes] if isinstance(axes, int) else axes
    if chosen is None:
        return 0 if in_c_order else 1 << port.view.memory_axes[-1]
    flags = 0
    for axis in chosen:
        low, high = (0, rank) if in_c_order else (-rank, rank - 1)
        if isinstance(axis, bool) or not hasattr(axis, "__index__"):
            raise Problem(f"{who} must be integers, not {type(axis).__name__}.", kind=TypeError)
        if not low <= axis <= high:
            kind = "axes of size[], then the batch" if in_c_order else "axes of one sample, without the batch"
            raise Problem(f"{who} has {axis}, but there are {low} to {high} ({kind}).")
        flags |= 1 << (axis if in_c_order else port.view.memory_axes[axis])
    return flags


class _DirectActivation(ActivationLayer):
    """An activation that lives for one call."""

    _creation_error: ClassVar[type[BNNSError]] = LayerApplyError

    @classmethod
    def _name(cls) -> str:
        return "apply_activation"

    @classmethod
    def _call_name(cls, method: str) -> str:
        return cls._name()


@function_with_constants({}, writes="output", decides={"activation": (ActivationFunction, "function", "alpha", "beta")})
def apply_activation(
    caller: Caller,
    constants: list[Any],
    activation: ActivationFunction,
    input: TensorLike,
    output: TensorLike | None = None,
    axes: Sequence[int] | None = None,
    batch_size: int | None = None,
    filter_parameters: BNNSFilterParameters | None = None,
) -> TensorLike:
    """Apply an activation, or convert element types with ``ActivationFunction.identity()``, in one call.

    ``input`` and ``output`` are arrays or descriptors with data, read, like ``axes``, as by :class:`ActivationLayer`.

    >>> import numpy as np
    >>> from openbnns import *
    >>> apply_activation(ActivationFunction.softmax(), np.zeros((2, 4), np.float32))
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    with _DirectActivation(
        function=activation, input=input, output=output, axes=axes, filter_parameters=filter_parameters
    ) as layer:
        constants.append(layer._filter)
        return layer.apply(input, output, batch_size=batch_size)

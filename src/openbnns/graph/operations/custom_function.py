"""Operations that users write in NumPy, as an :class:`openbnns.nn.Function`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._plural import plural
from ..calls import Calls, NumpyCall
from ..operation import Operation
from ..tensor import FLOAT32, Array, Tensor


class FunctionContext:
    """The state that the forward pass of an :class:`openbnns.nn.Function` leaves for its backward pass.

    Any attribute may be set. ``needs_input_grad`` says for each input whether its gradient is wanted, ``training`` whether
    there will be a backward pass.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...], training: bool) -> None:
        self.needs_input_grad, self.training = needs_input_grad, training
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *arrays: Any) -> None:
        """Keep arrays; they are ``saved_tensors`` in the backward pass."""
        self.saved_tensors = arrays


class CustomFunction(Operation):
    """``forward`` and ``backward`` of a class on arrays; their results are copied to where the network needs them."""

    def __init__(self, function: Any, arguments: Sequence[Any], inputs: list[Tensor], outputs: list[Tensor]) -> None:
        self.function, self.arguments = function, list(arguments)
        self.is_pure = function.is_pure
        super().__init__(inputs, outputs)
        # Contexts of forward passes that await backward, by the address of the results.
        self._contexts: dict[int, FunctionContext] = {}

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    def _given(self, x: list[Array]) -> list[Any]:
        """The arguments of the call, with arrays in place of values."""
        arrays = iter(x)
        return [next(arrays) if isinstance(argument, Tensor) else argument for argument in self.arguments]

    def forward_all(self, x: list[Array], y: list[Array], training: bool) -> Calls:
        given = self._given(x)
        if len(y) == 1 and y[0].dtype == np.int64:
            native: Calls | None = self.function.native_call(given, y[0])
            if native is not None:
                return native
        needs = tuple(isinstance(argument, Tensor) and argument.dtype == FLOAT32 for argument in self.arguments)
        exact = any(array.dtype == np.float64 for array in x)

        def call() -> None:
            context = FunctionContext(needs, training)
            if training:
                self._contexts[_address(y)] = context
            results = as_list(self.function.forward(context, *given))
            for result, target in zip(results, y, strict=True):
                if exact and np.asarray(result).dtype in (np.float32, np.float16):
                    raise TypeError(
                        f"{self.name}.forward gave {np.asarray(result).dtype} for arguments of float64, which is not precise "
                        "enough for finite differences. It must keep the type of its arguments: np.empty(shape, x.dtype)."
                    )
                copy(self.name, "forward", result, target)

        return NumpyCall(call)

    def backward_all(
        self, x: list[Array], y: list[Array], dy: list[Array | None], dx: list[Array | None], dp: list[Array | None]
    ) -> Calls:
        arriving = [
            np.zeros_like(result) if gradient is None else gradient for gradient, result in zip(dy, y, strict=True)
        ]
        places = [i for i, argument in enumerate(self.arguments) if isinstance(argument, Tensor)]
        asked = {i for i, target in zip(places, dx, strict=True) if target is not None}
        needs = tuple(i in asked for i in range(len(self.arguments)))

        def call() -> None:
            context = self._contexts.pop(_address(y))
            context.needs_input_grad = needs
            gradients = as_list(self.function.backward(context, *arriving))
            if len(gradients) not in (len(self.arguments), len(x)):
                raise ValueError(
                    f"{self.name}.backward gave {plural(len(gradients), 'gradient')} for "
                    f"{plural(len(self.arguments), 'argument')} of forward. "
                    "Return one for each, None where there is none."
                )
            if len(gradients) != len(x):
                gradients = [gradients[i] for i in places]
            for gradient, target in zip(gradients, dx, strict=True):
                if target is None:
                    continue
                if gradient is None:
                    target.fill(0)
                else:
                    copy(self.name, "backward", gradient, target)

        return NumpyCall(call)


def _address(arrays: list[Array]) -> int:
    return int(arrays[0].ctypes.data)


def as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, (tuple, list)) else [given]


def copy(name: str, method: str, result: Any, target: Array) -> None:
    """Copy the result of a method to its place, if it has the right shape."""
    array = np.asarray(result)
    if array.shape != target.shape:
        what = "a result" if method == "forward" else "a gradient"
        raise ValueError(f"{name}.{method} gave {what} of shape {array.shape}, but {target.shape} is needed.")
    np.copyto(target, array, casting="unsafe")


class SizedByData(Operation):
    """``forward`` and ``backward`` of an :class:`openbnns.nn.Function` between two programs of a network.

    ``sizes`` names the computed sizes: for each, the number of a result, and the axis whose size it is; or None and the number
    of the element that it is, in a result of whole numbers.
    """

    finds_sizes = True
    takes_integers = True

    def __init__(
        self, function: Any, arguments: Sequence[Any], inputs: list[Tensor], outputs: list[Tensor],
        sizes: Mapping[str, tuple[int, int | None, int]],
    ) -> None:  # fmt: skip
        self.function, self.arguments, self.sizes = function, list(arguments), dict(sizes)
        super().__init__(inputs, outputs)

    def run(self, arrays: Sequence[Array], training: bool) -> tuple[list[Array], dict[str, int], FunctionContext]:
        """The results, the numbers of the sizes that they tell, and what the backward pass needs."""
        given, needs = iter(arrays), [isinstance(x, Tensor) and x.dtype == FLOAT32 for x in self.arguments]
        context = FunctionContext(tuple(needs), training)
        results = as_list(
            self.function.forward(context, *(next(given) if isinstance(x, Tensor) else x for x in self.arguments))
        )
        arrays = [np.asarray(y, v.dtype) for y, v in zip(results, self.outputs, strict=True)]
        numbers = {
            name: int(arrays[result].flat[element] if axis is None else arrays[result].shape[axis])
            for name, (result, axis, element) in self.sizes.items()
        }
        return arrays, numbers, context

    def run_backward(self, context: FunctionContext, gradients: Sequence[Array]) -> list[Array | None]:
        """The gradients of the inputs."""
        results = as_list(self.function.backward(context, *gradients))
        if len(results) == len(self.inputs):
            return results
        pairs = zip(self.arguments, results, strict=True)
        return [gradient for argument, gradient in pairs if isinstance(argument, Tensor)]

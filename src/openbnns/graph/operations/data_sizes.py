"""Operations whose results have sizes that depend on the numbers of their operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..operation import Operation
from ..tensor import FLOAT32, Array, Tensor
from .function import Context, as_list


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

    def run(self, arrays: Sequence[Array], training: bool) -> tuple[list[Array], dict[str, int], Context]:
        """The results, the numbers of the sizes that they tell, and what the backward pass needs."""
        given, needs = iter(arrays), [isinstance(x, Tensor) and x.dtype == FLOAT32 for x in self.arguments]
        context = Context(tuple(needs), training)
        results = as_list(
            self.function.forward(context, *(next(given) if isinstance(x, Tensor) else x for x in self.arguments))
        )
        arrays = [np.asarray(y, v.dtype) for y, v in zip(results, self.outputs, strict=True)]
        found = {
            name: int(arrays[result].flat[element] if axis is None else arrays[result].shape[axis])
            for name, (result, axis, element) in self.sizes.items()
        }
        return arrays, found, context

    def run_backward(self, context: Context, gradients: Sequence[Array]) -> list[Array | None]:
        """The gradients of the inputs."""
        found = as_list(self.function.backward(context, *gradients))
        if len(found) == len(self.inputs):
            return found
        pairs = zip(self.arguments, found, strict=True)
        return [gradient for argument, gradient in pairs if isinstance(argument, Tensor)]

"""The base of layers with two inputs."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .._spelling import unexpected
from .._words import Caller
from ..calls.form import form
from ._base import APPLY_NAMES, BACKWARD_NAMES, GradientArguments, InputGradients, Layer
from ._ports import Arguments, Delta, Port, TensorLike, common_lead, memory

APPLY_TWO = form("apply_two_input", "batch_size inA inA_stride inB inB_stride out out_stride")
BACKWARD_TWO = form(
    "apply_backward_two_input",
    "batch_size inA inA_stride inA_delta inA_delta_stride inB inB_stride inB_delta inB_delta_stride out out_stride "
    "out_delta out_delta_stride",
)


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

    _input_a: Port
    _input_b: Port
    _output: Port
    _adds_to_output = False  # an output that is left out starts as zeros

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        inputs = {"inA": "input_a", "inB": "input_b"}
        deltas = {"inA_delta": "generating_input_a_gradient", "inB_delta": "generating_input_b_gradient"}
        cls._apply_caller = Caller(f"{cls.__name__}.apply", APPLY_NAMES | inputs)
        cls._backward_caller = Caller(f"{cls.__name__}.apply_backward", BACKWARD_NAMES | inputs | deltas)

    def apply(
        self,
        input_a: TensorLike,
        input_b: TensorLike,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
        **misspelled: NoReturn,
    ) -> TensorLike:
        """Run the layer forward on a pair of inputs, each one sample or a batch.

        ``output`` is written and returned; when left out it is a new array.
        """
        if misspelled:
            raise unexpected(self.apply, misspelled)
        lead = common_lead((self._input_a, self._input_b), (input_a, input_b), batch_size)
        if lead is not None:
            wanted = lead + self._output.shape
            target = self._new_output(lead[0] if lead else None) if output is None else output
            if (
                type(target) is np.ndarray
                and target.shape == wanted
                and self._filter.native(APPLY_TWO)(lead[0] if lead else 1, input_a, 0, input_b, 0, target, 0) == 0
            ):
                return target
        return self._attempt(self._apply_checked, input_a, input_b, output, batch_size)

    def _new_output(self, batch: int | None, who: str = "") -> Any:
        output = self._output.empty(batch, who)
        if self._adds_to_output:
            output.fill(0)
        return output

    def _apply_checked(self, input_a: Any, input_b: Any, output: Any, batch_size: Any) -> TensorLike:
        caller = self._apply_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        a = arguments.take("input_a", self._input_a, input_a)
        b = arguments.take("input_b", self._input_b, input_b)
        y = None if output is None else arguments.take("output", self._output, output, output=True)
        arguments.settle()
        if y is None:
            y = output = self._new_output(arguments.axis, f"{caller.function}: output")
        tensors = {"inA": (memory(a), 0), "inB": (memory(b), 0), "out": (memory(y), 0)}
        self._filter.perform("apply_two_input", caller, arguments.batch, tensors)
        return output

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
        **misspelled: NoReturn,
    ) -> InputGradients:
        """Run the layer backward: the gradients with respect to both inputs.

        ``input_a`` and ``input_b`` are those of the forward call; each is needed for the gradient of the other.
        """
        if misspelled:
            raise unexpected(self.apply_backward, misspelled)
        results = self._backward_fast(
            input_a, input_b, output, output_gradient, generating_input_a_gradient, generating_input_b_gradient,
            batch_size, accumulate,
        )  # fmt: skip
        if results is not None:
            return results
        return self._attempt(
            self._backward_checked, input_a, input_b, output, output_gradient, generating_input_a_gradient,
            generating_input_b_gradient, batch_size, accumulate,
        )  # fmt: skip

    def _backward_fast(
        self, a: Any, b: Any, y: Any, dy: Any, a_gradient: Any, b_gradient: Any, batch_size: Any, accumulate: bool
    ) -> InputGradients | None:
        """The gradients if every argument is an array of the expected shape; ``None`` if the full checks are needed."""
        lead = common_lead((self._input_a, self._input_b), (a, b), batch_size) if type(accumulate) is bool else None
        if lead is None or y is not None or type(dy) is not np.ndarray or dy.shape != lead + self._output.shape:
            return None
        flags = 1 if accumulate else 0
        part_a = self._input_a.quick(a_gradient, a.shape, flags)
        part_b = self._input_b.quick(b_gradient, b.shape, flags)
        if part_a is None or part_b is None:
            return None
        arriving = Delta(self._output, dy, 0)
        declined = self._filter.native(BACKWARD_TWO)(
            lead[0] if lead else 1, a, 0, part_a[1], 0, b, 0, part_b[1], 0, None, 0, arriving, 0
        )
        return None if declined else InputGradients(part_a[0], part_b[0])

    def _backward_checked(
        self, a: Any, b: Any, y: Any, dy: Any, a_gradient: Any, b_gradient: Any, batch_size: Any, accumulate: bool
    ) -> InputGradients:
        caller = self._backward_caller
        self._filter.require_alive(caller)
        arguments = Arguments(caller.function, batch_size)
        a = None if a is None else arguments.take("input_a", self._input_a, a)
        b = None if b is None else arguments.take("input_b", self._input_b, b)
        y = None if y is None else arguments.take("output", self._output, y)
        dy = arguments.take("output_gradient", self._output, dy)
        gradients = GradientArguments(arguments, accumulate)
        gradients.take("generating_input_a_gradient", self._input_a, a_gradient)
        gradients.take("generating_input_b_gradient", self._input_b, b_gradient)
        arguments.settle()
        deltas = gradients.descriptors()
        tensors = {
            "inA": (memory(a), 0), "inA_delta": (deltas[0], 0), "inB": (memory(b), 0), "inB_delta": (deltas[1], 0),
            "out": (memory(y), 0), "out_delta": (self._output.delta(dy, False), 0),
        }  # fmt: skip
        self._filter.perform("apply_backward_two_input", caller, arguments.batch, tensors)
        return InputGradients(*gradients.results)

"""What the layers of matrix products and tensor contractions share: two operands, either of which may be weights.

``input_a`` and ``input_b`` are shapes, descriptors or arrays of *one sample*, in the logical order of their axes: an array
of shape (..., m, k) is a stack of matrices, not a batch. At each call an array is one sample, or has a batch axis in front.
An operand that is weights is given with its data at creation, left out of the calls, and shared by the batch.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from .._spelling import unexpected
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import BNNSError, Problem
from ..filters._contraction import Contraction
from ._base import APPLY, BACKWARD, GradientArguments, InputGradients, Layer, client_pointer
from ._binary import BinaryLayer
from ._ports import (
    Arguments,
    Port,
    TensorLike,
    as_array,
    data_type,
    describe_parameter,
    descriptor_for,
    first_major,
    memory,
    skip,
)
from ._shape import Shape

_NAMES = ("input_a", "input_b")


def describe_operand(
    value: Any, who: str, *, is_weights: bool, filter_parameters: BNNSFilterParameters | None, rank: int | None = None
) -> BNNSNDArrayDescriptor:
    """The descriptor of one operand, with data if it is weights; ``rank`` is its number of axes where that is known."""
    if is_weights and not isinstance(value, Shape):
        if isinstance(value, BNNSNDArrayDescriptor):
            layout: Any = value.layout
        else:
            layout = first_major(as_array(value, who).shape)
        in_place = client_pointer(filter_parameters)
        return describe_parameter(value, who, layout, "of one operand", client_pointer=in_place)
    if isinstance(value, Shape):
        return value.descriptor()
    if isinstance(value, BNNSNDArrayDescriptor):
        return value
    array = as_array(value, who)
    shape = array.shape[1:] if rank is not None and array.ndim == rank + 1 else array.shape
    if not 1 <= len(shape) <= 8:
        raise Problem(f"{who} has shape {array.shape}, but a tensor has 1 to 8 axes. Pass such an array.")
    return descriptor_for(shape, first_major(shape), data_type(array, who))


class ProductLayer(BinaryLayer):
    """Two inputs; or one and weights; or one alone, where ``input_b`` is left out."""

    _words: ClassVar[dict[str, str]] = {
        name: word for name, word in Layer._words.items() if name not in ("in_delta", "weights_delta")
    }
    _filter: Contraction
    _ports: tuple[Port, Port | None]
    _weights_at: int | None = None  # which operand is weights
    _input_at = 0  # which is the input, if there is only one

    def _set_up(
        self, made: Contraction, descriptors: list[BNNSNDArrayDescriptor], y: BNNSNDArrayDescriptor, weights: int | None
    ) -> Contraction:
        ports = [Port(d, batched=k != weights) for k, d in enumerate(descriptors)]
        self._ports = (ports[0], ports[1] if len(ports) > 1 else None)
        self._input_a = ports[0]
        if len(ports) > 1:
            self._input_b = ports[1]
        self._output = Port(y)
        self._weights_at, self._input_at = weights, 1 if weights == 0 else 0
        self._adds_to_output = made.adds_to_output
        self._two_inputs = made.second is not None
        if not self._two_inputs:
            x = _NAMES[self._input_at]
            names = {"in": x, "out": "output", "in_delta": f"generating_{x}_gradient", "out_delta": "output_gradient"}
            if weights is not None:
                names["weights_delta"] = f"generating_{_NAMES[weights]}_gradient"
            self._single_callers = [Caller(f"{type(self).__name__}.{m}", names) for m in ("apply", "apply_backward")]
        return made

    def _exception(self, problem: Problem, family: type[BNNSError]) -> BNNSError:
        if self._weights_at is not None:
            gradient = f"generating_{_NAMES[self._weights_at]}_gradient"
            problem.reword(lambda text: text.replace("weights_delta", gradient))
        return super()._exception(problem, family)

    def _operands(self, call: str, values: tuple[Any, Any]) -> Any:
        """The one input of a layer without a second one; whatever else is given is a mistake."""
        other = 1 - self._input_at
        if values[other] is not None:
            reason = (
                "is weights, which the layer holds" if other == self._weights_at else "does not exist in this layer"
            )
            raise Problem(f"{type(self).__name__}.{call}: {_NAMES[other]} {reason}. Leave it out.")
        return values[self._input_at]

    def apply(
        self,
        input_a: TensorLike | None = None,
        input_b: TensorLike | None = None,
        output: TensorLike | None = None,
        *,
        batch_size: int | None = None,
        **misspelled: NoReturn,
    ) -> TensorLike:
        """Run the layer forward. An operand that is weights, and a second one that does not exist, are left out.

        ``output`` is written, or added to if the layer accumulates, and returned; when left out it is a new array.
        """
        if misspelled:
            raise unexpected(self.apply, misspelled)
        if self._two_inputs:
            return super().apply(input_a, input_b, output, batch_size=batch_size)
        return self._attempt(self._apply_single, (input_a, input_b), output, batch_size)

    def _apply_single(self, values: tuple[Any, Any], output: Any, batch_size: Any) -> TensorLike:
        caller = self._single_callers[0]
        self._filter.require_alive(caller)
        x = self._operands("apply", values)
        arguments = Arguments(caller.function, batch_size)
        port = self._ports[self._input_at]
        assert port is not None
        x = arguments.take(_NAMES[self._input_at], port, x)
        y = None if output is None else arguments.take("output", self._output, output, output=True)
        arguments.settle()
        if y is None:
            y = output = self._new_output(arguments.axis, f"{caller.function}: output")
        if self._filter.native(APPLY)(arguments.batch, memory(x), 0, memory(y), 0) != 0:
            self._filter.perform("apply", caller, arguments.batch, {"in": (memory(x), 0), "out": (memory(y), 0)})
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
        """Run the layer backward: the gradients with respect to both operands, that of weights summed over the batch.

        ``input_a`` and ``input_b`` are those of the forward call; each is needed for the gradient of the other.
        """
        if misspelled:
            raise unexpected(self.apply_backward, misspelled)
        if self._two_inputs:
            return super().apply_backward(
                input_a, input_b, output, output_gradient, generating_input_a_gradient, generating_input_b_gradient,
                batch_size=batch_size, accumulate=accumulate,
            )  # fmt: skip
        return self._attempt(
            self._backward_single, (input_a, input_b), output, output_gradient,
            (generating_input_a_gradient, generating_input_b_gradient), batch_size, accumulate,
        )  # fmt: skip

    def _backward_single(
        self, values: tuple[Any, Any], y: Any, dy: Any, wanted: tuple[Any, Any], batch_size: Any, accumulate: bool
    ) -> InputGradients:
        caller = self._single_callers[1]
        self._filter.require_alive(caller)
        x = self._operands("apply_backward", values)
        arguments = Arguments(caller.function, batch_size)
        port = self._ports[self._input_at]
        assert port is not None
        x = None if x is None else arguments.take(_NAMES[self._input_at], port, x)
        y = None if y is None else arguments.take("output", self._output, y)
        dy = arguments.take("output_gradient", self._output, dy)
        gradients = GradientArguments(arguments, accumulate)
        for name, own_port, value in zip(_NAMES, self._ports, wanted, strict=True):
            gradients.take(
                f"generating_{name}_gradient", own_port, skip if own_port is None and value is None else value
            )
        arguments.settle()
        deltas = gradients.descriptors()
        dx, dw = deltas[self._input_at], deltas[1 - self._input_at]
        arriving = self._output.delta(dy, False)
        if (
            self._filter.native(BACKWARD)(arguments.batch, memory(x), 0, dx, 0, memory(y), 0, arriving, 0, dw, None)
            != 0
        ):
            tensors = {
                "in": (memory(x), 0), "in_delta": (dx, 0), "out": (memory(y), 0), "out_delta": (arriving, 0),
                "weights_delta": (dw, 0),
            }  # fmt: skip
            self._filter.perform("apply_backward", caller, arguments.batch, tensors)
        return InputGradients(*gradients.results)

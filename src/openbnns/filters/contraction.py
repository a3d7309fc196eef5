"""Tensor contractions: out = alpha times the sum, over the indices absent from the output, of the product of the operands.

An expression such as ``"a_*ik, b_*kj -> c_*ij"`` names the axes, in logical order; its grammar is that of
:mod:`openbnns.parameters.contraction`. With beta 1 the sum is added to what the output holds.

    d(operand) = alpha * the contraction of dy with the other operand, in the operand's indices

Gradients of axes that are repeated (size 1) are summed. An operand named ``w`` is weights: one copy for the whole batch,
whose values lie in its descriptor and whose gradient is summed over the batch. The same name twice is one tensor,
contracted with itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import engines
from .._words import Caller
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersTensorContraction, BNNSNDArrayDescriptor
from ..calls.run import run_staged
from ..calls.signature import Argument, Call, Need, need
from ..errors import Problem
from ..parameters.activation import IDENTITY, Activation
from ..parameters.contraction import Expression, axis_numbers
from ..parameters.contraction import parse as parse_contraction
from ..reference import contraction as reference
from ..tensors import descriptors, stored
from ..tensors.descriptors import View
from ..tensors.operands import Bound, Operand, Parameter
from ._activation_rules import as_float32
from .base import DW, DX, DY, OUTPUT_GRADIENT, Driving, UnaryFilter, W, X, Y

if TYPE_CHECKING:
    from .. import _core


def _in_memory_order(view: View, indices: Sequence[int]) -> list[int]:
    """Indices of the named axes, put into the order of memory."""
    by_axis = dict(zip(view.named_axes, indices, strict=True))
    return [by_axis[axis] for axis in view.memory_axes]


def _to_named(view: View, array: NDArray[Any]) -> NDArray[Any]:
    """(N, axes in memory order) to (N, named axes), a view."""
    place = {axis: 1 + k for k, axis in enumerate(view.memory_axes)}
    return np.transpose(array, (0, *(place[axis] for axis in view.named_axes)))


def _from_named(view: View, array: NDArray[Any]) -> NDArray[Any]:
    place = {axis: 1 + k for k, axis in enumerate(view.named_axes)}
    return np.transpose(array, (0, *(place[axis] for axis in view.memory_axes)))


def check_beta(beta: float, who: Caller) -> bool:
    """True if results are added to the contents of the output."""
    if beta not in (0.0, 1.0):
        raise Problem(f"{who('beta')} is {beta:g}. Use 0 to overwrite the output, or 1 to add to it.")
    return bool(beta)


class Contraction(UnaryFilter):
    """The base of matrix products, tensor contractions and Gram matrices: y = alpha * sum of products, plus the previous y.

    The tensors on the left are one input; one input used twice (a self contraction); one input and weights; or two inputs.
    Only the last kind is driven by the two-input calls. The native plan depends on nothing else, so all families share it.

    A tensor's *named* axes are those of its layout in the order in which indices, rows and columns name them. Operands are
    kept in the order of memory, which is what the native plan takes, and transposed to named order for the reference engine.

    A family resolves its tensors, then calls :meth:`set_up`.
    """

    activation = IDENTITY
    fused_function = 0
    second: Operand | None = None  # the second input, if there are two
    self_contraction = False
    needs_input = False  # the gradient of the input depends on the input
    as_stored = False  # kernels take the tensors as they are stored
    alpha: float
    adds_to_output: bool

    def __init__(self, filter_params: BNNSFilterParameters | None, who: Caller, alpha: float, beta: float) -> None:
        super().__init__(filter_params, who)
        self.alpha = as_float32(alpha)
        self.adds_to_output = check_beta(beta, who)

    # Creation.

    def resolve(self, descriptor: BNNSNDArrayDescriptor, who: str) -> View:
        return descriptors.resolve(descriptor, who)

    def operand(self, view: View) -> Operand:
        return Operand(view, view.memory_axes, stored=self.as_stored)

    def parameter(self, view: View, descriptor: BNNSNDArrayDescriptor, who: Caller, field: str) -> Parameter:
        """An operand that is weights: its values lie in its descriptor."""
        if descriptor.data is None:
            raise Problem(
                f"{who(field)}.data is {who.null}, but this operand is weights, which need values at creation. Give the "
                "descriptor memory."
            )
        return self.hold(view, view.memory_axes, who(f"{field}.data"), descriptor.data, stored=self.as_stored)

    def set_up(self, indices: Sequence[Sequence[int]], output_indices: Sequence[int]) -> None:
        """Build the native plan. ``indices``: one number per named axis, of the input and of its partner."""
        self.indices, self.output_indices = indices, output_indices
        self.needs_input = self.self_contraction
        if self.second is not None:
            self.apply_call = "BNNSFilterApplyTwoInput or BNNSFilterApplyTwoInputBatch"
            self.backward_call = "BNNSFilterApplyBackwardTwoInputBatch"
        self.build_plan()

    def make_plan(self, f: Activation) -> Any:
        views = [self.input.view]
        other = self.second or self.weights
        if self.self_contraction:
            views.append(self.input.view)
        elif other is not None:
            views.append(other.view)
        numbers: dict[int, int] = {}

        def side(view: View, indices: Sequence[int], batched: bool) -> _core.ContractionTensor:
            index = [numbers.setdefault(i, len(numbers)) for i in _in_memory_order(view, indices)]
            element = stored.native_element(view if self.as_stored else None)
            return engines._core.ContractionTensor(index=index, size=view.shape, batched=batched, element=element)

        return engines._core.contraction(
            left=[
                side(view, indices, k == 0 or self.weights is None)
                for k, (view, indices) in enumerate(zip(views, self.indices, strict=True))
            ],
            output=side(self.output.view, self.output_indices, True),
            with_itself=self.self_contraction,
            alpha=self.alpha,
            adds_to_output=self.adds_to_output,
            bfloat16=self.rounds_products,
        )

    def driving_calls(self) -> Driving:
        if self.second is None:
            return super().driving_calls()
        return ("apply_two_input", None), ("apply_backward_two_input", None)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        if self.second is None:
            return super().declare(call, variant)
        if call == "apply_two_input":
            return Call(self._two_inputs(self.second), plan=self.plan)
        if call == "apply_backward_two_input":
            trained = {"inA": self.input, "output": self.output, "inB": self.second}
            return Call(self._two_inputs_backward(self.second), backward=True, plan=self.plan, trained=trained)
        return None

    def forward_arguments(self) -> tuple[Argument, ...]:
        x, y = super().forward_arguments()
        return x, replace(y, updates=self.adds_to_output)

    def input_needs(self) -> tuple[Need, ...]:
        if not self.needs_input:
            return super().input_needs()
        because = "the gradient of a tensor contracted with itself depends on it"
        return (*super().input_needs(), need({"in_delta"}, because, optional=False))

    def _two_inputs(self, second: Operand) -> tuple[Argument, ...]:
        return (
            Argument("inA", X, self.input, required=True),
            Argument("inB", W, second, required=True),
            Argument("out", Y, self.output, writes=True, required=True, updates=self.adds_to_output),
        )

    def _two_inputs_backward(self, second: Operand) -> tuple[Argument, ...]:
        """There are no weights, so ``weights_delta`` and ``bias_delta`` have no effect."""
        because = "the gradient of the other input depends on it"
        return (
            Argument(
                "out_delta", DY, self.output, gradient_of="out", described=True, required=True, purpose=OUTPUT_GRADIENT
            ),
            Argument("inA", X, self.input, needs=(need({"inB_delta"}, because),)),
            Argument("inB", W, second, needs=(need({"inA_delta"}, because),)),
            Argument("out", Y, self.output),
            Argument("inA_delta", DX, self.input, writes=True, gradient_of="inA", described=True),
            Argument("inB_delta", DW, second, writes=True, gradient_of="inB", described=True),
        )

    # What a family provides. Arrays are (N, named axes); parameters have a batch axis of 1.

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        raise NotImplementedError

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        """One gradient per tensor; a tensor that no wanted gradient depends on may be zeros."""
        raise NotImplementedError

    # Runs.

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        run_staged(self, call, call.plan, batch, bound, self.kernel_tensors())

    def _left(self, bound: dict[str, Bound]) -> dict[int, NDArray[Any]]:
        """The tensors on the left in float64, as far as they are known, by slot: (N, named axes)."""
        known = {}
        for slot, name in ((X, "in"), (X, "inA"), (W, "inB")):
            if name in bound:
                known[slot] = _to_named(bound[name].view, bound[name].read(np.float64))
        if self.weights is not None:
            known[W] = _to_named(self.weights.view, self.weights.read(np.float64)[None])
        return known

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        known = self._left(bound)
        if not call.backward:
            y = bound["out"]
            previous = _to_named(y.view, y.read(np.float64)) if self.adds_to_output else None
            y.write(_from_named(y.view, self.forward64([known[slot] for slot in sorted(known)], previous)))
            return
        other = self.second or self.weights
        shapes = {X: self.input.view.named_shape} | ({} if other is None else {W: other.view.named_shape})
        tensors = [known[slot] if slot in known else np.zeros((batch, *shape)) for slot, shape in shapes.items()]
        results = [bound.get("in_delta", bound.get("inA_delta")), bound.get("weights_delta", bound.get("inB_delta"))]
        wanted = [result is not None for result in results][: len(tensors)]
        dy = _to_named(self.output.view, bound["out_delta"].read(np.float64))
        gradients = self.backward64(tensors, dy, wanted)
        for result, gradient in zip(results, gradients, strict=False):
            if result is not None:
                assert gradient is not None
                result.write(_from_named(result.view, gradient))


class TensorContraction(Contraction):
    """A contraction of two inputs, of one input and weights, of one input with itself, or of one input alone."""

    family = "tensor contraction"

    def __init__(
        self, p: BNNSLayerParametersTensorContraction, filter_params: BNNSFilterParameters | None, who: Caller
    ) -> None:
        super().__init__(filter_params, who, p.alpha, p.beta)
        self.expression = e = parse(p.operation, who)
        fields = (p.iA_desc, p.iB_desc)[: len(e.tensors)]
        names = ["iA_desc", "iB_desc"]
        views = [self.resolve(field, who(name)) for field, name in zip(fields, names, strict=False)]
        y = self.resolve(p.o_desc, who("o_desc"))
        self.as_stored = stored.takes(views, [y])
        shapes = [(1, *view.named_shape) for view in views]
        try:
            left, output = axis_numbers(e, shapes, (1, *y.named_shape))
        except ValueError as error:
            raise Problem(f"{who}: {error}") from None
        self.self_contraction = e.is_self_contraction
        self.output = self.operand(y)
        self.weights_first = e.weights == 0
        indices = [numbers[1:] for numbers in left]
        for k, view in enumerate(views):
            if k == e.weights:
                self.weights = self.parameter(view, fields[k], who, names[k])
            elif k == 1 and e.weights is None:
                self.second = self.operand(view)
            else:
                self.input = self.operand(view)
        self.set_up(indices[::-1] if self.weights_first else indices, output[1:])

    def _in_order(self, values: Sequence[Any]) -> list[Any]:
        """Input and weights in the order of the expression, or back."""
        return list(values[::-1]) if self.weights_first else list(values)

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        shape = (tensors[0].shape[0], *self.output.view.named_shape)
        return reference.forward(self.expression, self._in_order(tensors), self.alpha, previous, shape)

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        gradients = reference.backward(self.expression, self._in_order(tensors), dy, self._in_order(wanted), self.alpha)
        return self._in_order(gradients)


def parse(operation: Any, who: Caller) -> Expression:
    """The expression in a C string: ``str``, ``bytes``, a buffer, or an address."""
    if operation is None:
        raise Problem(f"{who('operation')} is {who.null}. Pass an expression such as 'a_ik, b_kj -> c_ij'.")
    text = _text(operation, who)
    try:
        expression = parse_contraction(text)
    except ValueError as error:
        raise Problem(f"{who}: {error}") from None
    if expression.weights is not None and len(expression.tensors) == 1:
        raise Problem(
            f"{who}: the only operand of {text!r} is named w, so there is no input. Rename it, or contract it with an input."
        )
    return expression


def _text(operation: Any, who: Caller) -> str:
    if isinstance(operation, str):
        return operation.split("\0", 1)[0]
    if isinstance(operation, ctypes.c_char_p):
        raw = operation.value or b""
    elif isinstance(operation, int) and not isinstance(operation, bool):
        raw = ctypes.string_at(operation) if operation > 0 else b""
    else:
        try:
            raw = bytes(memoryview(operation))
        except TypeError:
            raise TypeError(
                f"{who('operation')} must be a string such as 'a_ik, b_kj -> c_ij', not {type(operation).__name__}."
            ) from None
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")

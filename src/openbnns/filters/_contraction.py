"""What matrix products, tensor contractions and Gram matrices share: y = alpha * sum of products, plus the previous y.

The tensors on the left are one input; one input used twice (a self contraction); one input and weights; or two inputs.
Only the last kind is driven by the two-input calls. A native plan knows no more than this, so all families share it.

A tensor's *named* axes are those of its layout in the order in which indices, rows and columns name them. Operands are
kept in the order of memory, which is what the native plan takes, and turned to named order for the reference engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import descriptors, engines
from ..capi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..descriptors import View
from ..engines.native import contraction as native
from ..engines.reference.activation import IDENTITY, Activation
from ..errors import Problem
from ._activation_rules import as_float32
from ._base import DW, DX, DY, UnaryFilter, W, X, Y, fast_argument
from ._tensors import Bound, Caller, Operand, Parameter, check_count, check_training_types


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


def check_beta(beta: float, who: str) -> bool:
    """Whether results are added to what the output holds."""
    if beta not in (0.0, 1.0):
        raise Problem(f"{who}: beta is {beta:g}. Use 0 to overwrite the output, or 1 to add to it.")
    return bool(beta)


class Contraction(UnaryFilter):
    """Base of the three families. A family resolves its tensors, then calls :meth:`set_up`."""

    activation = IDENTITY
    fused_function = 0
    second: Operand | None = None  # the other input, of a filter with two
    self_contraction = False
    needs_input = False  # the gradient of the input depends on the input
    alpha: float
    adds_to_output: bool

    def __init__(self, filter_params: BNNSFilterParameters | None, who: str, alpha: float, beta: float) -> None:
        super().__init__(filter_params, who)
        self.alpha = as_float32(alpha)
        self.adds_to_output = check_beta(beta, who)

    # Creation.

    def resolve(self, descriptor: BNNSNDArrayDescriptor, who: str) -> View:
        return descriptors.resolve(descriptor, who)

    def operand(self, view: View) -> Operand:
        return Operand(view, view.memory_axes)

    def parameter(self, view: View, descriptor: BNNSNDArrayDescriptor, who: str) -> Parameter:
        """An operand that is weights: its values lie in its descriptor."""
        if descriptor.data is None:
            raise Problem(
                f"{who}.data is NULL, but this operand is weights, which need values at creation. Give the descriptor memory."
            )
        return Parameter(
            view,
            view.memory_axes,
            f"{who}.data",
            descriptor.data,
            client_pointer=self.client_pointer,
            memory=self.memory,
        )

    def set_up(self, indices: Sequence[Sequence[int]], output_indices: Sequence[int]) -> None:
        """Build the native plan. ``indices``: one number per named axis, of the input and of what it meets."""
        self.indices, self.output_indices = indices, output_indices
        self.needs_input = self.self_contraction
        if self.second is not None:
            self.apply_call = "BNNSFilterApplyTwoInput or BNNSFilterApplyTwoInputBatch"
            self.backward_call = "BNNSFilterApplyBackwardTwoInputBatch"
            self._prepare_two_inputs()
        else:
            self.prepare()

    def make_plan(self, f: Activation) -> Any:
        views = [self.input.view]
        other = self.second or self.weights
        if self.self_contraction:
            views.append(self.input.view)
        elif other is not None:
            views.append(other.view)
        left = [
            (_in_memory_order(view, indices), view.shape, k == 0 or self.weights is None)
            for k, (view, indices) in enumerate(zip(views, self.indices, strict=True))
        ]
        y = self.output.view
        return native.plan(
            left,
            (_in_memory_order(y, self.output_indices), y.shape),
            self.alpha,
            self_contraction=self.self_contraction,
            adds_to_output=self.adds_to_output,
        )

    def _backward_arguments(self) -> list[Any]:
        arguments = super()._backward_arguments()
        if self.needs_input:
            arguments[0] = fast_argument(X, self.input, needed_with=1 << DX | 1 << DW)
        return arguments

    def _prepare_two_inputs(self) -> None:
        if engines._core is None:
            return
        self.plan = self.make_plan(self.activation)
        a, b, y = self.input, self.second, self.output
        assert b is not None
        if not (a.fast and b.fast and y.fast):
            return
        core, threads = engines._core, self.threads
        forward = [
            fast_argument(X, a, needed_with=1 << Y), fast_argument(W, b, needed_with=1 << Y), fast_argument(Y, y, output=True)
        ]  # fmt: skip
        backward = [
            fast_argument(X, a, needed_with=1 << DW),
            fast_argument(DX, a, output=True, descriptor=True),
            fast_argument(W, b, needed_with=1 << DX),
            fast_argument(DW, b, output=True, descriptor=True),
            fast_argument(Y, y),
            fast_argument(DY, y, descriptor=True, needed_with=1 << DX | 1 << DW),
            fast_argument(DW, None, strided=False, batched=False),
            fast_argument(DW, None, strided=False, batched=False),
        ]
        self.fast_forward = core.FastCall(self.plan, False, forward, [], threads).run
        self.fast_backward = core.FastCall(self.plan, True, backward, [], threads).run

    # What a family provides. Arrays are (N, named axes); parameters have a batch axis of 1.

    def forward64(self, tensors: list[NDArray[Any]], previous: NDArray[Any] | None) -> NDArray[Any]:
        raise NotImplementedError

    def backward64(
        self, tensors: list[NDArray[Any]], dy: NDArray[Any], wanted: list[bool]
    ) -> Sequence[NDArray[Any] | None]:
        """One gradient per tensor; a tensor that no wanted gradient depends on may be zeros."""
        raise NotImplementedError

    def reference_values(self, tensors: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The result in float64, without what the output held; tensors and result are (N, axes in memory order)."""
        other = self.second or self.weights
        views = [self.input.view, *([] if other is None else [other.view])]
        turned = [_to_named(view, tensor) for view, tensor in zip(views, tensors, strict=True)]
        return _from_named(self.output.view, self.forward64(turned, None))

    # Forward.

    def apply_batch(self, caller: Caller, batch: Any, in_: Any, in_stride: Any, out: Any, out_stride: Any) -> None:
        self.require_alive(caller)
        if self.second is not None:
            raise self._wrong_call(caller, self.apply_call)
        super().apply_batch(caller, batch, in_, in_stride, out, out_stride)

    def apply_two_input_batch(
        self,
        caller: Caller,
        batch: Any,
        inA: Any,
        inA_stride: Any,
        inB: Any,
        inB_stride: Any,
        out: Any,
        out_stride: Any,
    ) -> None:
        self.require_alive(caller)
        if self.second is None:
            raise self._wrong_call(caller, self.apply_call)
        batch = check_count(batch, caller("batch_size"))
        a = self.input.bind(caller("inA"), inA, batch, inA_stride)
        b = self.second.bind(caller("inB"), inB, batch, inB_stride)
        y = self.output.bind(caller("out"), out, batch, out_stride, output=True)
        if batch:
            self.run_forward(a, y, b)

    def run_forward(self, x: Bound, y: Bound, second: Bound | None = None) -> None:
        if not engines.is_native():
            previous = _to_named(y.view, y.read(np.float64)) if self.adds_to_output else None
            tensors = [_to_named(t.view, a) for t, a in self._left(x, second, np.float64)]
            y.write(_from_named(y.view, self.forward64(tensors, previous)))
            return
        sources = [s for s in (x, second) if s is not None]
        result = y.direct()
        if result is None or any(y.overlaps(s) for s in sources) or self._touches_parameters(y):
            target = y.read(np.float32).copy() if self.adds_to_output else np.empty((x.batch, *y.shape), np.float32)
        else:
            target = result
        numbers = [array for _, array in self._left(x, second, np.float32)]
        self._run(False, x.batch, {X: numbers[0], Y: target} | ({W: numbers[1]} if len(numbers) > 1 else {}))
        if target is not result:
            y.write(target)

    def _left(
        self, x: Bound | None, second: Bound | None, dtype: type[np.floating[Any]]
    ) -> list[tuple[Any, NDArray[Any]]]:
        """The tensors on the left and their values, as far as they are known: (N, axes in memory order)."""
        tensors: list[tuple[Any, NDArray[Any]]] = [] if x is None else [(x, x.read(dtype))]
        if second is not None:
            tensors.append((second, second.read(dtype)))
        elif self.weights is not None:
            tensors.append((self.weights, self.weights.read(dtype)[None]))
        return tensors

    def _run(self, backward: bool, batch: int, tensors: dict[int, NDArray[Any]], accumulate: int = 0) -> None:
        places = [(slot, a.ctypes.data, a.strides[0] // a.itemsize) for slot, a in tensors.items()]
        engines._core.run(self.plan, backward, batch, places, accumulate, self.threads)

    # Backward.

    def apply_backward_batch(self, caller: Caller, batch: Any, *arguments: Any, **named: Any) -> None:
        self.require_alive(caller)
        if self.second is not None:
            raise self._wrong_call(caller, self.backward_call)
        super().apply_backward_batch(caller, batch, *arguments, **named)

    def check_backward(
        self, caller: Caller, x: Bound | None, y: Bound | None, wanted: set[str], context: Any = None
    ) -> None:
        if x is None and "dw" in wanted:
            raise Problem(
                f"{caller('in')} is NULL, but the weights gradient needs the forward input. Pass it, or no weights_delta."
            )
        if x is None and "dx" in wanted and self.needs_input:
            raise Problem(
                f"{caller('in')} is NULL, but the gradient of a tensor that meets itself depends on it. Pass the forward input."
            )

    def apply_backward_two_input_batch(
        self, caller: Caller, batch: Any, inA: Any, inA_stride: Any, inA_delta: Any, inA_delta_stride: Any, inB: Any,
        inB_stride: Any, inB_delta: Any, inB_delta_stride: Any, out: Any, out_stride: Any, out_delta: Any,
        out_delta_stride: Any, weights_delta: Any, bias_delta: Any,
    ) -> None:  # fmt: skip
        """The gradients of both inputs; there are no weights, so ``weights_delta`` and ``bias_delta`` have no effect."""
        self.require_alive(caller)
        if self.second is None:
            raise self._wrong_call(caller, self.backward_call)
        batch = check_count(batch, caller("batch_size"))
        self._check_training_types(caller)
        dy = self.output.bind_arriving(caller, out_delta, batch, out_delta_stride)
        a = None if inA is None else self.input.bind(caller("inA"), inA, batch, inA_stride)
        b = None if inB is None else self.second.bind(caller("inB"), inB, batch, inB_stride)
        if out is not None:
            self.output.bind(caller("out"), out, batch, out_stride)
        results: dict[str, Bound] = {}
        if inA_delta is not None:
            results["dx"] = self.input.bind_delta(caller("inA_delta"), inA_delta, batch, inA_delta_stride, output=True)
        if inB_delta is not None:
            results["dw"] = self.second.bind_delta(caller("inB_delta"), inB_delta, batch, inB_delta_stride, output=True)
        for name, delta, source in (("inA", "inB_delta", a), ("inB", "inA_delta", b)):
            if source is None and ("dw" if delta == "inB_delta" else "dx") in results:
                wanted = caller.names.get(delta, delta)
                raise Problem(
                    f"{caller(name)} is NULL, but {wanted} depends on it. Pass the forward input, or no {wanted}."
                )
        if len(results) == 2 and results["dx"].overlaps(results["dw"]):
            raise Problem(
                f"{caller('inA_delta')} and {caller.names.get('inB_delta', 'inB_delta')} share memory, so one gradient would "
                "overwrite the other. Give each its own buffer."
            )
        if results and batch:
            self.run_backward(batch, a, None, dy, results, b)

    def _check_training_types(self, caller: Caller) -> None:
        super()._check_training_types(caller)
        check_training_types(caller, {"second input": self.second})

    def run_backward(
        self, batch: int, x: Bound | None, y: Bound | None, dy: Bound, results: dict[str, Bound], context: Any = None
    ) -> None:
        """``context`` is the second input."""
        if batch == 0:
            if "dw" in results:  # a sum over no samples
                results["dw"].write(np.zeros((1, *results["dw"].shape), np.float32))
            return
        if not engines.is_native():
            self._run_backward64(x, context, dy, results)
            return
        tensors = {X if t is x else W: array for t, array in self._left(x, context, np.float32)}
        tensors[DY] = dy.read(np.float32)
        sources = [s for s in (x, context, dy) if s is not None]
        staged: dict[str, NDArray[Any]] = {}
        accumulate = 0
        for name, slot in (("dx", DX), ("dw", DW)):
            if name not in results:
                continue
            result = results[name]
            unsafe = any(result.overlaps(s) for s in sources) or self._touches_parameters(result)
            target = None if unsafe else result.direct()
            if target is None:
                staged[name] = target = np.empty((result.batch, *result.shape), np.float32)
            elif result.accumulate:
                accumulate |= 1 << slot
            tensors[slot] = target
        self._run(True, batch, tensors, accumulate)
        for name, numbers in staged.items():
            results[name].write(numbers)

    def _run_backward64(self, x: Bound | None, second: Bound | None, dy: Bound, results: dict[str, Bound]) -> None:
        known = {X if t is x else W: _to_named(t.view, a) for t, a in self._left(x, second, np.float64)}
        shapes = {X: self.input.view.named_shape}
        if self.second is not None:
            shapes[W] = self.second.view.named_shape
        elif self.weights is not None:
            shapes[W] = self.weights.view.named_shape
        tensors = [known[slot] if slot in known else np.zeros((dy.batch, *shape)) for slot, shape in shapes.items()]
        wanted = [name in results for name in ("dx", "dw")][: len(tensors)]
        arriving = _to_named(self.output.view, dy.read(np.float64))
        gradients = self.backward64(tensors, arriving, wanted)
        for name, gradient in zip(("dx", "dw"), gradients, strict=False):
            if name in results:
                assert gradient is not None
                results[name].write(_from_named(results[name].view, gradient))

"""Normalization: xhat = (x - mean) / sqrt(variance + epsilon), z = gamma*xhat + beta, y = f(z).

    batch     statistics of all samples and pixels of a channel               beta, gamma (C)
    instance  of all pixels of a channel of one sample                        beta, gamma (C)
    layer     of C, H, W (axis 0), H, W (axis 1) or W (axis 2) of one sample  beta, gamma like a sample, or 1 on some axes
    group     of all pixels of C / groups channels of one sample              beta, gamma (C)

    moving = momentum*moving + (1 - momentum)*current          batch and instance, in training

    dz = dy f'(y)        dbeta = sum dz        dgamma = sum dz*xhat        g = gamma*dz
    dx = (g - mean(g) - xhat*mean(g*xhat)) / sqrt(variance + epsilon),  means over the set of the statistics

Shapes: x, y (N, C, H, W) or (N, C). The backward call has no x: a training forward keeps a copy of it (N*C*H*W floats)
and its statistics, until the next one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _strict, compat, engines
from .._plural import plural
from .._words import Caller, Named
from ..abi.enums import BNNSDataLayout, BNNSFilterType
from ..abi.structs import BNNSFilterParameters, BNNSLayerParametersNormalization
from ..calls.run import run_staged
from ..calls.signature import Argument, Call, Need, need
from ..errors import Problem
from ..parameters.activation import ELEMENTWISE, ActivationKind
from ..parameters.normalization import Kind
from ..parameters.normalization import Normalization as NormalizationSettings
from ..reference import normalization as reference
from ..reference.normalization import Moving
from ..tensors import buffers, descriptors
from ..tensors.descriptors import BFLOAT16, FLOAT32, LAYOUTS, ElementType, View, describe
from ..tensors.operands import Bound, Operand, Parameter, bind, resolve_delta
from ._activation_rules import (
    as_float32,
    check_trainable,
    function_name,
    native_slope,
    output_determines_slope,
    resolve_fused,
)
from ._rules import describe_both, require_float32
from .base import DB, DW, DX, DY, OUTPUT_GRADIENT, B, Driving, Filter, W, X, Y, addresses_of

if TYPE_CHECKING:
    from .. import _core

# Slots of a plan beyond those of one-input filters: core/kernels/normalization/shape.h.
MOVING_MEAN, MOVING_VARIANCE, KEPT_INPUT = 8, 9, 10
_MOVING = {MOVING_MEAN, MOVING_VARIANCE}

_DELTAS = (FLOAT32, BFLOAT16)
"""Element types that normalizations train on."""


@dataclass(frozen=True)
class _Summed(Bound):
    """The gradient of a parameter that is constant along some axes of a sample: results of ``shape`` are summed there."""

    def write(self, numbers: NDArray[Any]) -> None:
        own = (1,) * (len(self.shape) - self.view.layout.rank) + tuple(self.view.size[a] for a in self.order)
        axes = tuple(axis for axis, size in enumerate(own) if size == 1)
        super().write(numbers.reshape(self.shape).sum(axes, keepdims=True)[None])


@dataclass(frozen=True)
class _Absent(Operand):
    """The gradient of a beta or gamma that the filter does not have."""

    owner: Normalization | None = None
    absent = True

    def bind_delta(
        self, who: Named, descriptor: Any, batch: int, stride: int, *, output: bool = False,
        elements: tuple[ElementType, ...] = (FLOAT32,),
    ) -> Bound:  # fmt: skip
        assert self.owner is not None
        return self.owner.bind_absent(who, descriptor, self, elements)


class Normalization(Filter):
    """A normalization filter; `settings` are its kind and numbers."""

    family = "normalization"
    apply_call = "BNNSNormalizationFilterApplyBatch"
    backward_call = "BNNSNormalizationFilterApplyBackwardBatch"

    def __init__(
        self,
        p: BNNSLayerParametersNormalization,
        filter_params: BNNSFilterParameters | None,
        who: Caller,
        kind: Any = BNNSFilterType.BNNSBatchNorm,
    ) -> None:
        self.beta: Parameter | None = None
        self.gamma: Parameter | None = None
        self.moving_mean: Parameter | None = None
        self.moving_variance: Parameter | None = None
        self._state: reference.NormalizedArrays | None = None  # of a training forward on the reference engine
        self.plan: _core.Plan | None = None
        super().__init__(filter_params, who)
        self.kind = _check_kind(kind, who)
        x, y = _resolve_sample(p.i_desc, who("i_desc")), _resolve_sample(p.o_desc, who("o_desc"))
        if x.layout.rank != y.layout.rank or x.size != y.size:
            raise Problem(f"{describe_both(x, y, who)}. Normalization keeps the dimensions: make them equal.")
        self.input, self.output = Operand(x, x.memory_axes), Operand(y, y.memory_axes)
        self.settings = self._resolve_settings(p, who)
        self.fused_function = int(p.activation.function)
        self.activation = resolve_fused(p.activation, who)
        if self.activation.function not in ELEMENTWISE:
            raise Problem(
                f"{who('activation.function')} is {function_name(self.fused_function)}, but the activation of a normalization "
                f"is elementwise. Use a separate {who.name('activation filter')}, or an elementwise function.",
                unsupported=True,
            )
        self.beta = self._resolve_parameter(p.beta_desc, who("beta_desc"))
        self.gamma = self._resolve_parameter(p.gamma_desc, who("gamma_desc"))
        if self.has_moving:
            self.moving_mean = self._resolve_moving(p.moving_mean_desc, who("moving_mean_desc"))
            self.moving_variance = self._resolve_moving(p.moving_variance_desc, who("moving_variance_desc"))
            self._refuse_shared_moving(who)
            if (
                _strict.active()
                and self.moving_variance is not None
                and not self.moving_variance.read(np.float32).any()
            ):
                _strict.zero_variance(who("moving_variance_desc"))
        self._build_plan()

    # Creation.

    @property
    def channels(self) -> int:
        return self.input.shape[0]

    @property
    def image(self) -> tuple[int, int, int]:
        """The sample as (C, H, W); a vector is channels of one pixel."""
        shape = self.input.shape
        return (shape[0], shape[1], shape[2]) if len(shape) == 3 else (shape[0], 1, 1)

    @property
    def has_moving(self) -> bool:
        return self.kind in (Kind.BATCH, Kind.INSTANCE)

    def _resolve_settings(self, p: BNNSLayerParametersNormalization, who: Caller) -> NormalizationSettings:
        epsilon, momentum = as_float32(p.epsilon), as_float32(p.momentum)
        if not (epsilon >= 0.0 and math.isfinite(epsilon)):
            raise Problem(
                f"{who('epsilon')} is {epsilon:g}. It is added to the variance: use 0 or a small positive number."
            )
        if self.has_moving and not 0.0 <= momentum <= 1.0:
            raise Problem(
                f"{who('momentum')} is {momentum:g}. It weighs the moving statistics: use a number from 0 to 1."
            )
        axis, groups = 0, 1
        if self.kind == Kind.LAYER:
            if p.normalization_axis not in (0, 1, 2):
                raise Problem(
                    f"{who('normalization_axis')} is {p.normalization_axis}. Use 0 (statistics over C, H and W), 1 (over H "
                    "and W) or 2 (over W)."
                )
            axis = int(p.normalization_axis) if len(self.input.shape) == 3 else 0
        if self.kind == Kind.GROUP:
            groups = int(p.num_groups)
            if groups < 1 or self.channels % groups:
                raise Problem(
                    f"{who('num_groups')} is {groups}, but the {self.channels} channels have to form groups of equal size. "
                    f"Use a divisor of {self.channels}."
                )
        return NormalizationSettings(
            self.kind, epsilon, momentum, axis, groups, torch_moving=compat.switches.moving_statistics_torch
        )

    def _resolve_parameter(self, descriptor: Any, who: Named) -> Parameter | None:
        """beta or gamma; ``None`` if its data is NULL."""
        if descriptor.data is None:
            return None
        view = descriptors.resolve(descriptor, who)
        if self.kind == Kind.LAYER:
            self._check_spread(view, who)
        else:
            self._check_per_channel(view, who)
        return self.hold(view, view.memory_axes, who.field("data"), descriptor.data)

    def _check_spread(self, view: View, who: str) -> None:
        """beta and gamma of a layer normalization have the dimensions of a sample, or 1 on some axes."""
        sample = self.input.shape
        if compat.switches.layer_norm_refuses_vectors and len(sample) == 3:
            per_channel = view.layout.name == "ImageCHW" and view.size[:2] == (1, 1) and view.shape != sample
            if view.layout.rank == 1 or per_channel:
                raise Problem(
                    f"{who} is {describe(view)}, which macOS 15 refuses for a sample of {describe(self.input.view)} "
                    "(compat.layer_norm_refuses_vectors). Describe an ImageCHW of the size of a sample, or (width, 1, 1).",
                    unsupported=True,
                )
        given = (1,) * (len(sample) - len(view.shape)) + view.shape
        if len(given) != len(sample) or any(g not in (1, s) for g, s in zip(given, sample, strict=True)):
            raise Problem(
                f"{who} is {describe(view)}, but one sample is {describe(self.input.view)}. beta and gamma of a layer "
                "normalization have the dimensions of a sample, or 1 on the axes along which they are constant."
            )

    def _check_per_channel(self, view: View, who: str) -> None:
        one_each = view.layout.rank == 1 or (view.layout.name == "ImageCHW" and view.size[:2] == (1, 1))
        if not one_each or view.count != self.channels:
            raise Problem(
                f"{who} is {describe(view)}, but there is one value for each of the {self.channels} channels. Describe a "
                f"Vector of size {self.channels}."
            )

    def _resolve_moving(self, descriptor: Any, who: Named) -> Parameter | None:
        """Moving statistics stay in the caller's memory, with or without BNNSFlagsUseClientPtr: they are results too."""
        if descriptor.data is None:
            return None
        view = descriptors.resolve(descriptor, who)
        self._check_per_channel(view, who)
        require_float32(view, who, "moving statistics are")
        if view.overlapping:
            raise Problem(
                f"{who}: strides {view.strides} make elements share memory. Use larger strides, or 0 for packed."
            )
        return self.hold(view, view.memory_axes, who.field("data"), descriptor.data, client_pointer=True)

    def _refuse_shared_moving(self, who: Caller) -> None:
        if self.moving_mean is None or self.moving_variance is None:
            return
        address, nbytes = self.moving_variance.memory
        mean = self.moving_mean.bound
        if mean is not None and mean.touches((address, nbytes)):
            raise Problem(
                f"{who('moving_mean_desc')} and {who.name('moving_variance_desc')} share memory, so one would overwrite the "
                "other. Give each its own array."
            )

    def parameters(self) -> list[Parameter]:
        held = (self.beta, self.gamma, self.moving_mean, self.moving_variance)
        return [parameter for parameter in held if parameter is not None]

    def destroy(self) -> None:
        super().destroy()
        self._state = None

    # Native set-up.

    @property
    def slope_from_input(self) -> bool:
        """True if the derivative of the activation has to be computed from z."""
        return not output_determines_slope(self.activation)

    def gradient_form(self, parameter: Parameter | None) -> Operand | Parameter:
        """The form of the gradient of beta or gamma; if the parameter is absent, the shape it usually has."""
        if parameter is not None:
            return parameter
        if self.kind == Kind.LAYER:
            view = self.input.view
            return _Absent(view.packed_as(FLOAT32), self.input.order, owner=self)
        vector = LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)]
        return _Absent(View(vector, FLOAT32, (self.channels,), (1,)), (0,), owner=self)

    def bind_absent(
        self, who: Named, delta: Any, usual: Operand, elements: tuple[ElementType, ...] = (FLOAT32,)
    ) -> Bound:
        """Check the gradient of an absent beta or gamma: it may have any form that the parameter could have had."""
        view = resolve_delta(delta, who, usual.view, output=True, elements=elements)
        (self._check_spread if self.kind == Kind.LAYER else self._check_per_channel)(view, who)
        bound = bind(
            view, view.memory_axes, usual.shape, who.field("data"), delta.data, 1, 0, output=True, flags=delta.flags
        )
        if view.count == math.prod(usual.shape):
            return bound
        return _Summed(**{field.name: getattr(bound, field.name) for field in fields(bound)})

    def _spread_shape(self, parameter: Parameter | None) -> tuple[int, ...]:
        if parameter is None or self.kind != Kind.LAYER:
            return self.image
        if len(self.input.shape) == 1:
            return (parameter.view.count, 1, 1)
        return (1,) * (3 - len(parameter.shape)) + parameter.shape

    def _build_plan(self) -> None:
        if engines._core is not None:
            self.plan = engines._core.normalization(**self.native_shape(), activation=native_slope(self.activation))

    def native_shape(self) -> dict[str, Any]:
        """The fields of NormalizationShape in core/kernels/normalization/shape.h."""
        n, (channels, height, width) = self.settings, self.image
        return {
            "kind": n.kind, "channels": channels, "height": height, "width": width, "axis": n.axis, "groups": n.groups,
            "epsilon": n.epsilon, "momentum": n.momentum, "torch_moving": n.torch_moving,
            "slope_from_input": self.slope_from_input,
            "beta_size": self._spread_shape(self.beta), "gamma_size": self._spread_shape(self.gamma),
        }  # fmt: skip

    def fixed_addresses(self) -> list[tuple[int, int, int]] | None:
        return addresses_of(self._slots())

    def _slots(self) -> dict[int, Parameter]:
        slots = {W: self.gamma, B: self.beta, MOVING_MEAN: self.moving_mean, MOVING_VARIANCE: self.moving_variance}
        return {slot: parameter for slot, parameter in slots.items() if parameter is not None}

    def _moving_is_writable(self) -> bool:
        held = (self.moving_mean, self.moving_variance)
        return all(m is None or (m.bound is not None and m.bound.buffer.writable) for m in held)

    def _trains_fast(self) -> bool:
        if any(p is not None and p.view.element is not FLOAT32 for p in (self.beta, self.gamma)):
            return False
        try:
            check_trainable(self.activation, "", self.fused_function)
        except Problem:
            return False
        return True

    # The calls.

    def driving_calls(self) -> Driving:
        return ("apply_normalization", True), ("apply_backward_normalization", None)

    def declare(self, call: str, variant: Hashable) -> Call | None:
        """``variant`` of a forward call: whether it trains."""
        if call == "apply_normalization":
            training = bool(variant)
            return Call(
                (
                    Argument("in", X, self.input, required=True),
                    Argument("out", Y, self.output, writes=True, required=True, may_equal=frozenset({"in"})),
                ),
                training=training,
                takes_fast=not training or self._moving_is_writable(),
                plan=self.plan,
            )
        if call == "apply_backward_normalization":
            trained = {"input": self.input, "output": self.output, "beta": self.beta, "gamma": self.gamma}
            return Call(
                self._backward_arguments(), backward=True, takes_fast=self._trains_fast(), plan=self.plan,
                trained=trained, trained_elements=_DELTAS,
            )  # fmt: skip
        return None

    def _backward_arguments(self) -> tuple[Argument, ...]:
        results = ("in_delta", "beta_delta", "gamma_delta")
        needs: tuple[Need, ...] = ()
        if self.activation.function != ActivationKind.IDENTITY:
            because = "the fused activation is differentiated from the forward output"
            needs = (need(results, because, optional=False),)
        in_place = frozenset({"out_delta", "out"})
        return (
            Argument(
                "out_delta", DY, self.output, gradient_of="out", described=True, required=True, purpose=OUTPUT_GRADIENT,
                elements=_DELTAS,
            ),
            Argument("out", Y, self.output, needs=needs),
            Argument(
                "in_delta", DX, self.input, writes=True, gradient_of="in", described=True, may_equal=in_place,
                elements=_DELTAS,
            ),
            *(
                Argument(
                    f"{name}_delta", slot, self.gradient_form(p), writes=True, gradient_of=name, described=True, batched=False,
                    elements=_DELTAS,
                )
                for name, slot, p in (("beta", DB, self.beta), ("gamma", DW, self.gamma))
            ),
        )  # fmt: skip

    def choose(self, call: str, choice: Any, caller: Caller) -> Hashable:
        if call != "apply_normalization":
            return None
        if not isinstance(choice, (bool, np.bool_, int, np.integer)):
            raise TypeError(f"{caller('training')} must be a bool, not {type(choice).__name__}.")
        return bool(choice)

    def check(self, call: Call, caller: Caller, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            check_trainable(self.activation, caller.function, self.fused_function)
            if batch:
                self._require_training_forward(caller, batch)
        elif call.training:
            self.require_writable_moving(caller)

    def require_writable_moving(self, caller: Caller) -> None:
        """Training updates the moving statistics."""
        held = {"moving_mean_desc": self.moving_mean, "moving_variance_desc": self.moving_variance}
        for name, moving in held.items():
            if moving is not None and moving.bound is not None:
                buffers.require_writable(moving.bound.buffer, f"{caller}: {caller.name(name)}.data of the filter")

    # Runs.

    def run_empty(self, call: Call, bound: dict[str, Bound]) -> None:
        super().run_empty(call, bound)
        if call.training:
            self._forget()

    def _forget(self) -> None:
        self._state = None
        if self.plan is not None:
            self.plan.forget()

    def run_native(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        held = {slot: p.read(np.float32) for slot, p in self._slots().items()}
        moving = {} if call.backward else {slot: held[slot].copy() for slot in _MOVING & held.keys()}
        if not call.backward:
            self._state = None
        run_staged(self, call, call.plan, batch, bound, held | moving)
        if call.training:
            for slot, values in moving.items():
                _write_moving(self._slots()[slot], values)

    def run_reference(self, call: Call, batch: int, bound: dict[str, Bound]) -> None:
        if call.backward:
            self._run_backward_reference(bound)
        else:
            self._run_forward_reference(bound["in"], bound["out"], call.training)

    def _run_forward_reference(self, x: Bound, y: Bound, training: bool) -> None:
        numbers, (beta, gamma) = x.read(np.float64), self._parameters64()
        moving = Moving(
            *(None if m is None else m.read(np.float64).reshape(-1) for m in (self.moving_mean, self.moving_variance))
        )
        if not training:
            y.write(reference.inference_forward(self.settings, numbers, beta, gamma, self.activation, moving))
            return
        result, state, moved = reference.training_forward(self.settings, numbers, beta, gamma, self.activation, moving)
        self._forget()
        self._state = state
        y.write(result)
        for parameter, values in ((self.moving_mean, moved.mean), (self.moving_variance, moved.variance)):
            if parameter is not None and values is not None:
                _write_moving(parameter, values)

    def _parameters64(self) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """beta and gamma as the reference functions take them."""

        def read(parameter: Parameter | None) -> NDArray[Any] | None:
            return None if parameter is None else self.as_reference(parameter.read(np.float64))

        return read(self.beta), read(self.gamma)

    def as_reference(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of beta or gamma in the shape that the reference functions take."""
        return values if self.kind == Kind.LAYER else values.reshape(-1)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        held = [m for m in (self.moving_mean, self.moving_variance) if m is not None]
        before = [np.array(m.read(np.float32)) for m in held]
        try:
            yield
        finally:
            for moving, values in zip(held, before, strict=True):
                _write_moving(moving, values)

    def _require_training_forward(self, caller: Caller, batch: int) -> None:
        native_batch = 0 if self.plan is None else self.plan.trained_batch()
        kept = 0 if self._state is None else len(self._state.xhat)
        trained, other = (native_batch, kept) if engines.is_native() else (kept, native_batch)
        if trained == batch:
            return
        if trained:
            raise Problem(
                f"{caller('batch_size')} is {batch}, but the latest training forward had {plural(trained, 'sample')}. Backward "
                "belongs to the training forward of the same batch: pass that batch, or run it forward first."
            )
        if other:
            raise Problem(
                f"{caller.function}: the latest training forward ran on the other engine, so its statistics are not available. "
                "Run forward and backward on the same engine."
            )
        raise Problem(
            f"{caller.function}: there was no training forward. The gradients need its statistics: call "
            f"{caller.training_call or f'{self.apply_call} with training = true'} on this batch first."
        )

    def _run_backward_reference(self, bound: dict[str, Bound]) -> None:
        assert self._state is not None
        beta, gamma = self._parameters64()
        y = bound["out"].read(np.float64) if "out" in bound else None
        names = {"in_delta": "dx", "beta_delta": "dbeta", "gamma_delta": "dgamma"}
        wanted = {short: bound[name] for name, short in names.items() if name in bound}
        gradients = reference.backward(
            self.settings,
            self._state,
            beta,
            gamma,
            y,
            bound["out_delta"].read(np.float64),
            self.activation,
            set(wanted),
        )
        for short, result in wanted.items():
            numbers = np.asarray(gradients[short])
            result.write(numbers if short == "dx" else numbers[None])


def _check_kind(kind: Any, who: Caller) -> int:
    number = int(kind)
    if number not in set(Kind):
        raise Problem(
            f"{who}: normType is {number}. Use BNNSBatchNorm (2), BNNSInstanceNorm (3), BNNSLayerNorm (4) or "
            "BNNSGroupNorm (5)."
        )
    return number


def _resolve_sample(descriptor: Any, who: str) -> View:
    """An image stack or a vector."""
    view = descriptors.resolve(descriptor, who)
    if view.layout.rank != 1 and view.layout.name != "ImageCHW":
        raise Problem(
            f"{who}.layout is {view.layout.name}. Normalizations take ImageCHW with size = (width, height, channels), or "
            "a Vector of channels: use BNNSDataLayoutImageCHW or BNNSDataLayoutVector."
        )
    return view


def _write_moving(moving: Parameter, values: NDArray[Any]) -> None:
    if moving.bound is not None:
        moving.bound.write(values.reshape(1, *moving.shape))

"""Optimizers: one step for a list of parameters, in place.

The rule of a step is read from a BNNSOptimizer...Fields struct at every call, checked, and kept ready for the next call
with the same values. Parameters, gradients and accumulators are packed Float32; everything is checked before anything
is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _strict, compat, engines
from .._plural import plural
from .._words import Caller
from ..abi.enums import BNNSOptimizerFunction
from ..abi.structs import (
    BNNSOptimizerAdamFields,
    BNNSOptimizerAdamWithClippingFields,
    BNNSOptimizerRMSPropFields,
    BNNSOptimizerRMSPropWithClippingFields,
    BNNSOptimizerSGDMomentumFields,
    BNNSOptimizerSGDMomentumWithClippingFields,
)
from ..errors import Problem
from ..parameters.optimizer import (
    Adam,
    Adamax,
    Clipping,
    ClippingFunction,
    Optimizer,
    Preparation,
    RMSProp,
    SGDMomentum,
)
from ..reference import optimizer as reference
from ..tensors.descriptors import FLOAT32, View, describe, resolve
from ..tensors.operands import Bound, bind, check_count, entries
from ..tensors.sharing import sharing
from ._optimizer_step import VALUES, native_step, optimizer_values, step_size
from ._rules import require_float32
from .direct import require_data, require_descriptor

Fields = (
    BNNSOptimizerSGDMomentumFields
    | BNNSOptimizerSGDMomentumWithClippingFields
    | BNNSOptimizerAdamFields
    | BNNSOptimizerAdamWithClippingFields
    | BNNSOptimizerRMSPropFields
    | BNNSOptimizerRMSPropWithClippingFields
)

_F = BNNSOptimizerFunction

STRUCTS: dict[int, type[Any]] = {
    _F.BNNSOptimizerFunctionSGDMomentum: BNNSOptimizerSGDMomentumFields,
    _F.BNNSOptimizerFunctionAdam: BNNSOptimizerAdamFields,
    _F.BNNSOptimizerFunctionRMSProp: BNNSOptimizerRMSPropFields,
    _F.BNNSOptimizerFunctionAdamW: BNNSOptimizerAdamFields,
    _F.BNNSOptimizerFunctionAdamAMSGrad: BNNSOptimizerAdamFields,
    _F.BNNSOptimizerFunctionAdamWAMSGrad: BNNSOptimizerAdamFields,
    _F.BNNSOptimizerFunctionSGDMomentumWithClipping: BNNSOptimizerSGDMomentumWithClippingFields,
    _F.BNNSOptimizerFunctionAdamWithClipping: BNNSOptimizerAdamWithClippingFields,
    _F.BNNSOptimizerFunctionRMSPropWithClipping: BNNSOptimizerRMSPropWithClippingFields,
    _F.BNNSOptimizerFunctionAdamWWithClipping: BNNSOptimizerAdamWithClippingFields,
    _F.BNNSOptimizerFunctionAdamAMSGradWithClipping: BNNSOptimizerAdamWithClippingFields,
    _F.BNNSOptimizerFunctionAdamWAMSGradWithClipping: BNNSOptimizerAdamWithClippingFields,
}
"""The struct that belongs to each BNNSOptimizerFunction."""

_AMSGRAD = {function for function in _F if "AMSGrad" in function.name}
_DECOUPLED = {
    _F.BNNSOptimizerFunctionAdamW,
    _F.BNNSOptimizerFunctionAdamWAMSGrad,
    _F.BNNSOptimizerFunctionAdamWWithClipping,
    _F.BNNSOptimizerFunctionAdamWAMSGradWithClipping,
}

# The fields of each struct as one tuple; the time step of Adam is left out, as it changes with every step.
_NAMES: dict[Any, tuple[str, ...]] = {
    struct: tuple(name for name in struct._kinds if name != "time_step") for struct in set(STRUCTS.values())
}
_VALUES = {struct: attrgetter(*names) for struct, names in _NAMES.items()}

C_FACE = "BNNSOptimizerStep"
"""The function whose rules C programs apply repeatedly without the interpreter."""


@dataclass(frozen=True)
class Rule:
    """A checked rule, and the native step that applies it."""

    optimizer: Optimizer
    native: Any
    fast: Any  # the same if it may run without further checks, None if strict mode warns about the rule

    @property
    def roles(self) -> int:
        """Accumulators of each parameter."""
        return self.optimizer.roles


def function_name(function: int) -> str:
    """The C name of an optimizer."""
    return BNNSOptimizerFunction(function).name


def check_function(function: int, fields: Any, who: Caller) -> None:
    """Refuse a function that does not exist, or one that another struct belongs to."""
    if function not in STRUCTS:
        raise Problem(
            f"{who('function')} is {function}, which is not a BNNSOptimizerFunction. Use one from "
            "BNNSOptimizerFunctionSGDMomentum (1) to BNNSOptimizerFunctionAdamWAMSGradWithClipping (12)."
        )
    if fields is None:
        raise Problem(f"{who('OptimizerAlgFields')} is {who.null}. Pass a {STRUCTS[function].__name__}.")
    if type(fields) is not STRUCTS[function]:
        raise Problem(
            f"{who('OptimizerAlgFields')} is a {type(fields).__name__}, but {function_name(function)} reads a "
            f"{STRUCTS[function].__name__}. Pass that struct."
        )


def read_rule(function: int, fields: Any, who: Caller, torch_epsilon: bool | None = None) -> Rule:
    """The rule that a struct describes, without the time step. ``torch_epsilon`` overrides the compat switch for it."""
    switches = compat.switches
    struct: Any = type(fields)
    return _rule(
        function,
        struct,
        _VALUES[struct](fields),
        switches.optimizer_scale_before_clip,
        switches.adam_epsilon_torch if torch_epsilon is None else torch_epsilon,
        who,
    )


def time_step(fields: Any, who: Caller) -> float:
    """t of Adam; 1 for other optimizers."""
    t = getattr(fields, "time_step", 1.0)
    if not (1.0 <= t < math.inf):
        raise Problem(
            f"{who('time_step')} is {t:g}, but steps count from 1 (the correction divides by 1 - beta1^t). Start at 1 and "
            "add 1 after each step of the whole network."
        )
    return float(t)


@lru_cache(maxsize=256)
def _rule(
    function: int, struct: Any, values: tuple[Any, ...], scale_first: bool, torch_epsilon: bool, who: Caller
) -> Rule:
    p = dict(zip(_NAMES[struct], values, strict=True))
    _check_numbers(p, function, who)
    decoupled = function in _DECOUPLED
    preparation = Preparation(
        gradient_scale=p["gradient_scale"],
        clipping=read_clipping(p, who),
        regularization=0 if decoupled else _choice(p, "regularization_func", 3, who),
        regularization_scale=p["regularization_scale"],
        scale_before_clip=scale_first,
    )
    optimizer: Optimizer
    if "beta1" in p:
        optimizer = Adam(
            p["learning_rate"], p["beta1"], p["beta2"], p["epsilon"], 1.0, function in _AMSGRAD, decoupled,
            torch_epsilon, preparation,
        )  # fmt: skip
    elif "alpha" in p:
        optimizer = RMSProp(p["learning_rate"], p["alpha"], p["epsilon"], p["centered"], p["momentum"], preparation)
    else:
        variant = _choice(p, "sgd_momentum_variant", 3, who)
        optimizer = SGDMomentum(p["learning_rate"], p["momentum"], p["nesterov"], variant, preparation)
    step = native_step(optimizer) if engines._core is not None else None
    fast = step if p["gradient_scale"] != 0.0 else None
    if who.function == C_FACE and fast is not None:
        corrected = isinstance(optimizer, Adam) and optimizer.corrected_epsilon
        clips_by_value = preparation.clipping.function == ClippingFunction.BY_VALUE
        engines._core.register_optimizer(
            function, [float(v) for v in values], fast, corrected, _ranges(p, preparation.clipping), clips_by_value
        )
    return Rule(optimizer, step, fast)


@lru_cache(maxsize=256)
def rule_of(optimizer: Optimizer) -> Rule:
    """The rule of an optimizer that no struct of BNNS describes."""
    step = native_step(optimizer) if engines._core is not None else None
    return Rule(optimizer, step, step if optimizer.preparation.gradient_scale != 0.0 else None)


def _ranges(p: dict[str, Any], clip: Clipping) -> list[tuple[int, float, float]]:
    """The ranges of these fields within which native code may reuse the rule; other values are checked in Python."""
    ranges = [(VALUES.index(name), *_range_of(name)[:2]) for name in _checked_names(p)]
    if clip.function in (ClippingFunction.BY_NORM, ClippingFunction.BY_GLOBAL_NORM):
        ranges.append((VALUES.index("clip_gradients_max_norm"), 0.0, math.inf))
    if clip.function == ClippingFunction.BY_GLOBAL_NORM:
        ranges.append((VALUES.index("clip_gradients_use_norm"), 0.0, math.inf))
    return ranges


def _forget() -> None:
    """Rules depend on switches of compat."""
    engines._core.forget_optimizers()
    _rule.cache_clear()


if engines._core is not None:
    compat.on_change.append(_forget)
    for code, fields_type in STRUCTS.items():
        values = [VALUES.index(name) if name in VALUES else -1 for name in fields_type._kinds]
        engines._core.describe_optimizer(int(code), fields_type.__name__, values)


# The range of each field: smallest and largest value, and its words in a message.
_RANGES: dict[str, tuple[float, float, str]] = {
    "beta1": (0.0, math.nextafter(1.0, 0.0), "a number from 0 to below 1, such as 0.9"),
    "beta2": (0.0, math.nextafter(1.0, 0.0), "a number from 0 to below 1, such as 0.999"),
    "alpha": (0.0, 1.0, "a number from 0 to 1, such as 0.99"),
    "epsilon": (0.0, 3.4e38, "a finite number of at least 0, such as 1e-8"),
    "momentum": (0.0, 3.4e38, "a finite number of at least 0, such as 0.9, or 0 for none"),
}
_FINITE = (-3.4028235677973366e38, 3.4028235677973366e38, "a finite number")


def _range_of(name: str) -> tuple[float, float, str]:
    return _RANGES.get(name, _FINITE)


def _checked_names(p: dict[str, Any]) -> list[str]:
    """The fields that have a range."""
    return [name for name, value in p.items() if isinstance(value, float) and not name.startswith("clip_")]


def _check_numbers(p: dict[str, Any], function: int, who: Caller) -> None:
    for name in _checked_names(p):
        low, high, wanted = _range_of(name)
        if not low <= p[name] <= high:
            raise Problem(f"{who(name)} is {p[name]:g}, but {function_name(function)} needs {wanted}.")


def _choice(p: dict[str, Any], name: str, count: int, who: Caller) -> int:
    value = int(p[name])
    if not 0 <= value < count:
        raise Problem(f"{who(name)} is {value}, but valid values are 0 to {count - 1}. Use the constants of its enum.")
    return value


def read_clipping(p: dict[str, Any], who: Caller) -> Clipping:
    """The clipping that fields of a struct describe."""
    if "clipping_func" in p:
        function = _choice(p, "clipping_func", 4, who)
    else:
        function = int(ClippingFunction.BY_VALUE if p["clip_gradients"] else ClippingFunction.NONE)
    if function == ClippingFunction.NONE:
        return Clipping()
    if function == ClippingFunction.BY_VALUE:
        low, high = p["clip_gradients_min"], p["clip_gradients_max"]
        if not low <= high:
            raise Problem(
                f"{who('clip_gradients_min')} is {low:g} and {who.name('clip_gradients_max')} {high:g}. The lower bound comes "
                "first."
            )
        return Clipping(function, low, high)
    limit, known = p["clip_gradients_max_norm"], p["clip_gradients_use_norm"]
    if not limit >= 0.0:
        raise Problem(
            f"{who('clip_gradients_max_norm')} is {limit:g}. The limit of a norm must be a number of at least 0."
        )
    if function == ClippingFunction.BY_NORM:
        return Clipping(function, max_norm=limit)
    if not known >= 0.0:
        raise Problem(
            f"{who('clip_gradients_use_norm')} is {known:g}. Pass the known norm of all gradients, or 0 to compute it."
        )
    return Clipping(function, max_norm=limit, use_norm=known)


# ---------------------------------------------------------------------------------------------------------------------
# Steps


def run_fast(
    rule: Rule, t: float, count: Any, parameters: Any, gradients: Any, accumulators: Any, threads: int,
    arrays: bool = False,
) -> bool:  # fmt: skip
    """Make a step whose tensors are in the form that native code takes; False if the call needs the full checks."""
    if rule.fast is None or type(count) is not int or not 0 <= count < 1 << 24:
        return False
    step, epsilon = step_size(rule.optimizer, t)
    return bool(rule.fast.run(step, epsilon, count, parameters, gradients, accumulators, threads, arrays) == 0)


def repeated_step(rule: Rule, parameters: list[Any], gradients: list[Any], accumulators: list[Any]) -> Any:
    """A native step on these arrays that can be made again and again; None if there is none for them."""
    if rule.fast is None or not engines.is_native():
        return None
    corrected = isinstance(rule.optimizer, Adam) and rule.optimizer.corrected_epsilon
    made = engines._core.RepeatedStep(
        rule.fast, corrected, optimizer_values(rule.optimizer), parameters, gradients, accumulators
    )
    return made if made.is_placed() else None


def run_checked(
    caller: Caller, rule: Rule, t: float, count: Any, parameters: Any, gradients: Any, accumulators: Any, threads: int
) -> None:
    """Check every tensor, then make the step."""
    if _strict.active() and rule.optimizer.preparation.gradient_scale == 0.0:
        _strict.no_gradient(caller.function)
    count = check_count(count, caller("number_of_parameters"))
    roles = rule.roles
    w = _take(caller, "parameters", parameters, count, f"{count}", output=True)
    g = _take(caller, "gradients", gradients, count, f"{count}", output=False)
    each = f"{roles * count} ({roles} for each of {count} parameters, grouped by role)"
    states = _take(caller, "accumulators", accumulators, roles * count, each, output=True) if roles else []
    for i, own in enumerate(w):
        for other in (g[i], *states[i::count]):
            _check_alike(caller, own, other)
    _keep_states_apart(caller, [*w, *states])
    if not count:
        return
    optimizer = replace(rule.optimizer, time_step=t) if isinstance(rule.optimizer, Adam | Adamax) else rule.optimizer
    if engines.is_native():
        numbers = [[tensor.read_flat(np.float32) for tensor in group] for group in (w, g, states)]
        results = [[np.array(a) for a in numbers[0]], [np.array(a) for a in numbers[2]]]
        step, epsilon = step_size(optimizer, t)
        if rule.native.run(step, epsilon, count, results[0], numbers[1], results[1], threads, True):
            raise MemoryError
        new_w, new_states = results
    else:
        wide = [[tensor.read_flat(np.float64) for tensor in group] for group in (w, g, states)]
        new_w, new_states = reference.step(optimizer, *wide)
    for tensor, values in zip([*w, *states], [*new_w, *new_states], strict=True):
        tensor.write_flat(values)


@dataclass(frozen=True)
class _PackedTensor:
    """A packed tensor of a step: its elements in the order of memory."""

    name: str  # of the argument
    form: tuple[Any, ...]  # what tensors of one parameter have in common
    count: int
    bound: Bound
    text: str  # for messages

    def read_flat(self, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        return self.bound.read(dtype).reshape(-1)

    def write_flat(self, values: NDArray[Any]) -> None:
        self.bound.write(values.reshape(1, -1))


def _take(caller: Caller, name: str, tensors: Any, count: int, wanted: str, *, output: bool) -> list[_PackedTensor]:
    if tensors is None:
        if count == 0:
            return []
        raise Problem(f"{caller(name)} is {caller.null}, but this step needs {wanted}. Pass a list of descriptors.")
    tensors = entries(tensors, caller(name), "BNNSNDArrayDescriptor")
    if len(tensors) < count:
        raise Problem(f"{caller(name)} has {plural(len(tensors), 'entry')}, but this step needs {wanted}.")
    return [_tensor(caller, f"{name}[{i}]", tensors[i], output=output) for i in range(count)]


def _tensor(caller: Caller, name: str, descriptor: Any, *, output: bool) -> _PackedTensor:
    require_descriptor(caller, name, descriptor)
    who = caller(name)
    view = resolve(descriptor, who)
    require_float32(view, who, "training works on")
    if view.span != view.count or view.extent != view.count:
        raise Problem(
            f"{who} is {describe(view)} with strides {tuple(descriptor.stride[: len(view.size)])}, but optimizers work on "
            "packed tensors. Set stride to 0."
        )
    require_data(caller, name, descriptor, view)
    flat = flat_view(view.count)
    bound = bind(flat, (0,), (view.count,), who.field("data"), descriptor.data, 1, 0, output=output)
    return _PackedTensor(name, (view.layout.code, view.size), view.count, bound, describe(view))


def flat_view(count: int) -> View:
    """The view of a packed Float32 vector."""
    from ..abi.enums import BNNSDataLayout
    from ..tensors.descriptors import LAYOUTS

    return View(LAYOUTS[int(BNNSDataLayout.BNNSDataLayoutVector)], FLOAT32, (count,), (1,))


def _is_special(tensor: _PackedTensor) -> bool:
    """True if the layout stores elements reversed or in blocks, so that only equal layouts have the same order."""
    from ..tensors.descriptors import LAYOUTS

    layout = LAYOUTS[tensor.form[0]]
    return bool(layout.flipped) or layout.blocked32


def _check_alike(caller: Caller, parameter: _PackedTensor, other: _PackedTensor) -> None:
    if other.form == parameter.form:
        return
    same_layout = other.form[0] == parameter.form[0]
    if other.count == parameter.count and not same_layout and not (_is_special(other) or _is_special(parameter)):
        return
    raise Problem(
        f"{caller(other.name)} is {other.text}, but {caller.name(parameter.name)} is {parameter.text}. Gradients and "
        "accumulators have the layout and size of their parameter."
    )


def _keep_states_apart(caller: Caller, written: Sequence[_PackedTensor]) -> None:
    """Refuse parameters and accumulators that share memory: each is read before it is written, by later steps as well."""
    for first, second in sharing({t.name: t.bound for t in written}).items():
        raise Problem(
            f"{caller(first)} and {caller.name(second)} share memory, so one result would overwrite the other. Give every "
            "parameter and accumulator its own."
        )

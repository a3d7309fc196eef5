"""Optimizers of the Python face: hyperparameters as attributes, arrays or descriptors in each step."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import compat
from .._spelling import spelled, unexpected
from .._words import Caller
from ..abi.enums import BNNSOptimizerFunction
from ..abi.structs import BNNSFilterParameters, BNNSNDArrayDescriptor
from ..errors import BNNSError, InvalidDescriptorError, OptimizerStepError, Problem, as_exception
from ..filters import optimizer as rules
from ..parameters.optimizer import Adagrad, Adamax, Clipping, Preparation
from ..tensors.descriptors import resolve
from ._hyperparameters import Hyperparameter, bounds, clipping, member, number, truth
from ._misuse import MISUSE_ERRORS, misuse_in
from ._ports import (
    DataProblem,
    TensorLike,
    as_array,
    check_filter_parameters,
    descriptor_for,
    require_contiguous,
    require_data,
)
from .types import DataLayout, GradientClipping, RegularizationFunction, SGDMomentumVariant

__all__ = ["AdamOptimizer", "AdamWOptimizer", "Optimizer", "RMSPropOptimizer", "SGDMomentumOptimizer"]

# Hyperparameters that have other names in C; then words for fields of C that are not hyperparameters.
_C_NAMES = {
    "regularization_function": "regularization_func",
    "uses_nesterov_momentum": "nesterov",
    "weight_decay": "regularization_scale",
}
_NAMES = {
    "clip_gradients_min": "the lower bound of clipping",
    "clip_gradients_max": "the upper bound",
    "clip_gradients_max_norm": "the threshold of clipping",
    "clip_gradients_use_norm": "the global norm of clipping",
}


def _own_names(kind: type) -> dict[str, str]:
    """Fields of the C struct that a class has under another name."""
    return {field: name for name, field in _C_NAMES.items() if hasattr(kind, name)}


_MOST_TENSORS = 1 << 20


class Optimizer:
    """Base of the optimizers: ``step`` updates parameters in place from their gradients.

    Every optimizer first prepares the gradients: g = gradient_scale · clip(dL/dW) + regularization_scale · R'(W), with
    R' = sign(W) for L1 and W for L2. All hyperparameters are attributes and may change between steps.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w, gradient = np.float32([1, 2]), np.float32([4, -4])
    >>> optimizer = SGDMomentumOptimizer(learning_rate=0.5, gradient_scale=0.25)
    >>> optimizer.step([w], [gradient])
    >>> optimizer.learning_rate = 0.25
    >>> optimizer.step([w], [gradient])
    >>> w.tolist()
    [0.25, 2.75]
    """

    _algorithm: ClassVar[str]  # as the names of BNNSOptimizerFunction have it
    _values: dict[str, Any]
    _fields: Any = None
    _function: int
    _revision = 0  # of all hyperparameters but the learning rate and the time step
    _single = True  # whether the learning rate is float32, as in the struct
    _epsilon_after_correction: bool | None = None  # whether Adam adds epsilon as PyTorch does; None: as compat says
    _caller: ClassVar[Caller]

    gradient_scale = Hyperparameter(number)
    learning_rate = Hyperparameter(number)
    gradient_clipping = Hyperparameter(clipping)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._caller = Caller(f"{cls.__name__}.step", _NAMES | _own_names(cls), null="None")
        if "__init__" in cls.__dict__:
            cls.__init__ = spelled(cls.__init__)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and not hasattr(type(self), name):  # it would change nothing
            known = sorted(n for n in dir(type(self)) if isinstance(getattr(type(self), n), Hyperparameter))
            raise AttributeError(f"{type(self).__name__} has no {name!r}. Its hyperparameters are {', '.join(known)}.")
        object.__setattr__(self, name, value)

    def _start(self, arguments: dict[str, Any]) -> None:
        """Keep what a constructor was given, its ``locals()``, as hyperparameters."""
        self._values = {}
        for name, value in arguments.items():
            if isinstance(getattr(type(self), name, None), Hyperparameter):
                setattr(self, name, value)
        values = self._values
        if values.get("clips_gradients_to") is not None and values.get("gradient_clipping") is not None:
            raise as_exception(
                Problem(
                    f"{type(self).__name__}: clips_gradients_to and gradient_clipping are both given. Use one: "
                    "GradientClipping.by_value(bounds=...) is the same as clips_gradients_to."
                ),
                OptimizerStepError,
            )

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The present hyperparameters, by the names of the constructor."""
        return dict(self._values)

    @property
    def accumulator_count_multiplier(self) -> int:
        """Accumulators that each parameter needs."""
        raise NotImplementedError

    @property
    def bnns_optimizer_function(self) -> BNNSOptimizerFunction:
        """The function of ``BNNSOptimizerStep`` that a step calls."""
        maximum = "AMSGrad" if self._values.get("uses_ams_grad") else ""
        clipping = "" if self.gradient_clipping is None else "WithClipping"
        return BNNSOptimizerFunction[f"BNNSOptimizerFunction{self._algorithm}{maximum}{clipping}"]

    @property
    def bnns_fields(self) -> Any:
        """The C struct with the present hyperparameters."""
        struct = rules.STRUCTS[int(self.bnns_optimizer_function)]
        values = {
            _C_NAMES.get(name, name): value.value if isinstance(value, enum.Enum) else value
            for name, value in self._values.items()
            if name not in ("uses_ams_grad", "clips_gradients_to", "gradient_clipping")
        }
        if self.gradient_clipping is not None:
            return struct(**values, **self.gradient_clipping.bnns_fields)
        bounds = self._values.get("clips_gradients_to")
        low, high = bounds or (0.0, 0.0)
        clips = bounds is not None
        return struct(**values, clip_gradients=clips, clip_gradients_min=low, clip_gradients_max=high)

    def zero_accumulators(self, parameters: Sequence[TensorLike]) -> list[NDArray[np.float32]]:
        """New accumulators for these parameters, in the order that ``step`` takes."""
        who = Caller(f"{type(self).__name__}.zero_accumulators")
        try:
            shapes = [
                resolve(p, f"{who}: parameters").shape
                if isinstance(p, BNNSNDArrayDescriptor)
                else as_array(p, f"{who}: parameters").shape
                for p in _listed(who, "parameters", parameters)
            ]
        except Problem as problem:
            raise as_exception(problem, OptimizerStepError) from None
        return [np.zeros(shape, np.float32) for _ in range(self.accumulator_count_multiplier) for shape in shapes]

    def step(
        self,
        parameters: Sequence[TensorLike],
        gradients: Sequence[TensorLike],
        accumulators: Sequence[TensorLike] = (),
        filter_parameters: BNNSFilterParameters | None = None,
        **misspelled: NoReturn,
    ) -> None:
        """Update all parameters and accumulators in place.

        ``accumulators`` are ``accumulator_count_multiplier`` times the parameters, grouped by role: all first moments,
        then all second moments. They start at zero and have the shapes of the parameters. Tensors are float32 arrays or
        descriptors. A failed step raises :class:`openbnns.OptimizerStepError` and changes nothing.
        """
        if misspelled:
            raise unexpected(self.step, misspelled)
        try:
            self._step(self._caller, parameters, gradients, accumulators, filter_parameters)
        except Problem as problem:
            family = InvalidDescriptorError if isinstance(problem, DataProblem) else OptimizerStepError
            raise as_exception(problem, family) from None
        except BNNSError:
            raise
        except MISUSE_ERRORS as error:
            raise as_exception(misuse_in(None, error), OptimizerStepError) from error

    def repeated(
        self, parameters: Sequence[TensorLike], gradients: Sequence[TensorLike], accumulators: Sequence[TensorLike]
    ) -> RepeatedStep | None:
        """Steps on these arrays again and again, if native code can make them without Python."""
        made = self._repeatable() and rules.repeated_step(
            self._rule(self._caller)[0], list(parameters), list(gradients), list(accumulators)
        )
        return RepeatedStep(self, made) if made else None

    def _repeatable(self) -> bool:
        """True if only the learning rate of its rule depends on the step."""
        return True

    def _rule(self, who: Caller) -> tuple[rules.Rule, float]:
        """The rule of a step and its number."""
        if self._fields is None:
            self._fields, self._function = self.bnns_fields, int(self.bnns_optimizer_function)
        elif "time_step" in self._values:
            self._fields.time_step = self._values["time_step"]
        rule = rules.read_rule(self._function, self._fields, who, self._epsilon_after_correction)
        return rule, rules.time_step(self._fields, who)

    def _step(self, who: Caller, parameters: Any, gradients: Any, accumulators: Any, filter_parameters: Any) -> None:
        rule, t = self._rule(who)
        check_filter_parameters(filter_parameters, who)
        threads = 0 if filter_parameters is None else min(int(filter_parameters.n_threads), 256)
        lists = [
            _listed(who, "parameters", parameters),
            _listed(who, "gradients", gradients),
            _listed(who, "accumulators", accumulators),
        ]
        count = len(lists[0])
        _check_lengths(who, lists, rule.roles)
        if rules.run_fast(rule, t, count, lists[0], lists[1], lists[2], threads, arrays=True):
            return
        w, g, states = _described(who, lists, rule.roles)
        rules.run_checked(who, rule, t, len(w), w, g, states, threads)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._values.items() if value is not None)
        return f"{type(self).__name__}({shown})"


class RepeatedStep:
    """Steps of an optimizer on arrays that stay where they are. ``steps`` of them have been made."""

    def __init__(self, optimizer: Optimizer, native: Any) -> None:
        self._optimizer, self._native = optimizer, native
        self._settings = self._present()

    def run(self) -> bool:
        """Make a step; False if another engine has been chosen, and then nothing is done."""
        return bool(self._native.run())

    def follow(self, optimizer: Optimizer) -> bool:
        """Take over the learning rate; False if anything else has changed, so that another one is needed."""
        if optimizer is not self._optimizer or self._settings != self._present():
            return False
        self._native.set_learning_rate(optimizer._values["learning_rate"], optimizer._single)
        return True

    def _present(self) -> tuple[Any, ...]:
        switches = compat.switches
        return self._optimizer._revision, switches.optimizer_scale_before_clip, switches.adam_epsilon_torch

    @property
    def steps(self) -> int:
        return int(self._native.steps())

    @steps.setter
    def steps(self, count: int) -> None:
        self._native.set_steps(float(count))


class _RegularizedOptimizer(Optimizer):
    """The base of all optimizers but AdamW."""

    regularization_scale = Hyperparameter(number)
    clips_gradients_to = Hyperparameter(bounds)
    regularization_function = Hyperparameter(member(RegularizationFunction))


class SGDMomentumOptimizer(_RegularizedOptimizer):
    """Gradient descent with momentum; the velocity V becomes V'.

    ======== ================================ =======================================
    variant  plain                            Nesterov
    ======== ================================ =======================================
    0        V' = mV − lr·g;  W += V'         V' = mV − lr·g;  W += V' + m(V' − V)
    1        V' = mV + g;  W −= lr·V'         V' = mV + g;  W −= lr(g + mV')
    2        V' = mV + lr·g;  W −= V'         V' = mV + g;  W −= lr(g + mV')
    ======== ================================ =======================================

    Without momentum, W −= lr·g and no accumulators. PyTorch's ``SGD`` is variant 1.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.array([1, 2], np.float32)
    >>> SGDMomentumOptimizer(learning_rate=0.5).step([w], [np.array([1, -1], np.float32)])
    >>> w
    array([0.5, 2.5], dtype=float32)
    """

    _algorithm = "SGDMomentum"

    momentum = Hyperparameter(number)
    uses_nesterov_momentum = Hyperparameter(truth)
    sgd_momentum_variant = Hyperparameter(member(SGDMomentumVariant))

    def __init__(
        self,
        learning_rate: float,
        momentum: float = 0.0,
        gradient_scale: float = 1.0,
        regularization_scale: float = 0.0,
        clips_gradients_to: Sequence[float] | None = None,
        gradient_clipping: GradientClipping | None = None,
        uses_nesterov_momentum: bool = False,
        regularization_function: RegularizationFunction = RegularizationFunction.NONE,
        sgd_momentum_variant: SGDMomentumVariant = SGDMomentumVariant.VARIANT_0,
        *,
        uses_nestrov_momentum: bool | None = None,
    ) -> None:
        """``uses_nestrov_momentum`` is the older spelling."""
        uses_nesterov_momentum = uses_nesterov_momentum if uses_nestrov_momentum is None else uses_nestrov_momentum
        self._start(locals())

    @property
    def accumulator_count_multiplier(self) -> int:
        """1, or 0 without momentum."""
        return 0 if self.momentum == 0.0 else 1


class _Moments(Optimizer):
    """The base of Adam and AdamW."""

    beta1 = Hyperparameter(number)
    beta2 = Hyperparameter(number)
    time_step = Hyperparameter(number)
    epsilon = Hyperparameter(number)
    uses_ams_grad = Hyperparameter(truth)

    @property
    def accumulator_count_multiplier(self) -> int:
        """2, or 3 with AMSGrad."""
        return 3 if self.uses_ams_grad else 2


class AdamOptimizer(_Moments, _RegularizedOptimizer):
    """Adam: m = β1·m + (1−β1)·g, v = β2·v + (1−β2)·g², W −= lr·√(1−β2ᵗ)/(1−β1ᵗ) · m/(√v + ε).

    t is ``time_step``: 1 in the first step; add 1 after each step. ``uses_ams_grad`` keeps the largest v so far and uses
    it instead of v. Accumulators: m, v and, with AMSGrad, the largest v.

    >>> import numpy as np
    >>> from openbnns import *
    >>> optimizer = AdamOptimizer(learning_rate=0.1)
    >>> w, g = np.zeros(3, np.float32), np.array([1, -2, 0], np.float32)
    >>> accumulators = optimizer.zero_accumulators([w])
    >>> optimizer.step([w], [g], accumulators)
    >>> optimizer.time_step += 1
    >>> w.round(4)
    array([-0.1,  0.1,  0. ], dtype=float32)
    """

    _algorithm = "Adam"

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        time_step: float = 1.0,
        epsilon: float = 1e-8,
        gradient_scale: float = 1.0,
        regularization_scale: float = 0.0,
        clips_gradients_to: Sequence[float] | None = None,
        gradient_clipping: GradientClipping | None = None,
        regularization_function: RegularizationFunction = RegularizationFunction.NONE,
        uses_ams_grad: bool = False,
        *,
        uses_amsgrad: bool | None = None,
    ) -> None:
        """``uses_amsgrad`` is another spelling of ``uses_ams_grad``."""
        uses_ams_grad = uses_ams_grad if uses_amsgrad is None else uses_amsgrad
        self._start(locals())


class AdamWOptimizer(_Moments):
    """Adam with decoupled weight decay: the step of Adam without a penalty, and W −= lr · weight_decay · W.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.float32([1, 2])
    >>> adamw = AdamWOptimizer(learning_rate=0.1, weight_decay=0.5)
    >>> adamw.step([w], [np.float32([0, 3])], adamw.zero_accumulators([w]))
    >>> print(w.round(4))  # decay alone; decay and a step
    [0.95 1.8 ]
    """

    _algorithm = "AdamW"

    weight_decay = Hyperparameter(number)

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        time_step: float = 1.0,
        epsilon: float = 1e-8,
        gradient_scale: float = 1.0,
        weight_decay: float = 0.01,
        gradient_clipping: GradientClipping | None = None,
        uses_ams_grad: bool = False,
        *,
        uses_amsgrad: bool | None = None,
    ) -> None:
        """``uses_amsgrad`` is another spelling of ``uses_ams_grad``."""
        uses_ams_grad = uses_ams_grad if uses_amsgrad is None else uses_amsgrad
        gradient_clipping = GradientClipping.none() if gradient_clipping is None else gradient_clipping
        self._start(locals())


class RMSPropOptimizer(_RegularizedOptimizer):
    """RMSProp: n = α·n + (1−α)·g², step = q·step − lr·g/(√s + ε), W += step.

    s = n, or if ``centered`` n − u² with the mean gradient u = α·u + (1−α)·g; q is ``momentum``. Accumulators: n, then u
    if centered, then step if there is momentum.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.float32([1, 2])
    >>> rmsprop = RMSPropOptimizer(learning_rate=0.25, alpha=0.75)
    >>> rmsprop.step([w], [np.float32([3, -3])], rmsprop.zero_accumulators([w]))
    >>> print(w.round(4))  # steps of lr / sqrt(1 - alpha)
    [0.5 2.5]
    """

    _algorithm = "RMSProp"

    alpha = Hyperparameter(number)
    epsilon = Hyperparameter(number)
    centered = Hyperparameter(truth)
    momentum = Hyperparameter(number)

    def __init__(
        self,
        learning_rate: float = 0.01,
        alpha: float = 0.99,
        epsilon: float = 1e-8,
        centered: bool = False,
        momentum: float = 0.0,
        gradient_scale: float = 1.0,
        regularization_scale: float = 0.0,
        clips_gradients_to: Sequence[float] | None = None,
        gradient_clipping: GradientClipping | None = None,
        regularization_function: RegularizationFunction = RegularizationFunction.NONE,
    ) -> None:
        self._start(locals())

    @property
    def accumulator_count_multiplier(self) -> int:
        """1, and 1 more each for ``centered`` and for momentum."""
        return 1 + int(self.centered) + int(self.momentum != 0.0)


# Optimizers that BNNS has no function for, in the form of those that it has; networks use them.


class _OwnOptimizer(_RegularizedOptimizer):
    """Base: hyperparameters as attributes, one native call for all tensors of a step."""

    _single = False
    time_step = Hyperparameter(number)
    epsilon = Hyperparameter(number)

    def __init__(self, **hyperparameters: Any) -> None:
        self._start({"gradient_scale": 1.0, "gradient_clipping": None, "time_step": 1.0, **hyperparameters})

    def _rule(self, who: Caller) -> tuple[rules.Rule, float]:
        given = self.gradient_clipping
        preparation = Preparation(
            gradient_scale=self.gradient_scale,
            clipping=Clipping() if given is None else rules.read_clipping(given.bnns_fields, who),
            regularization=int(self.regularization_function.value),
            regularization_scale=self.regularization_scale,
        )
        return rules.rule_of(self._parameters(preparation)), self.time_step

    def _parameters(self, preparation: Preparation) -> Adagrad | Adamax:
        raise NotImplementedError


class AdagradOptimizer(_OwnOptimizer):
    """n += g²; W -= lr / (1 + (t - 1) lr_decay) g / (√n + ε)."""

    lr_decay = Hyperparameter(number)
    accumulator_count_multiplier = 1

    def _parameters(self, preparation: Preparation) -> Adagrad:
        rate = self.learning_rate / (1.0 + (self.time_step - 1.0) * self.lr_decay)
        return Adagrad(rate, self.epsilon, preparation)

    def _repeatable(self) -> bool:
        return not self.lr_decay


class AdamaxOptimizer(_OwnOptimizer):
    """m = β1 m + (1 - β1) g; u = max(β2 u, |g| + ε); W -= lr / (1 - β1ᵗ) m / u."""

    beta1 = Hyperparameter(number)
    beta2 = Hyperparameter(number)
    accumulator_count_multiplier = 2

    def _parameters(self, preparation: Preparation) -> Adamax:
        return Adamax(self.learning_rate, self.beta1, self.beta2, self.epsilon, 1.0, preparation)


# Arguments of a step.


def _listed(who: Caller, name: str, value: Any) -> list[Any] | tuple[Any, ...]:
    if type(value) in (list, tuple):
        return value  # type: ignore[no-any-return]
    if value is None:
        return []
    if isinstance(value, (np.ndarray, BNNSNDArrayDescriptor, str, bytes)) or not hasattr(value, "__iter__"):
        raise Problem(
            f"{who}: {name} must be a list of arrays or descriptors, not {type(value).__name__}.", kind=TypeError
        )
    tensors = list(islice(value, _MOST_TENSORS + 1))
    if len(tensors) > _MOST_TENSORS:
        raise Problem(f"{who}: {name} has more than {_MOST_TENSORS} entries. Pass a list of arrays or descriptors.")
    return tensors


def _check_lengths(who: Caller, lists: list[Any], roles: int) -> None:
    count = len(lists[0])
    if len(lists[1]) != count:
        raise Problem(f"{who}: there are {count} parameters, but {len(lists[1])} gradients. Pass one for each.")
    if len(lists[2]) != roles * count:
        raise Problem(
            f"{who}: accumulators has {len(lists[2])} entries, but {count} parameters need {roles * count} "
            f"({roles} for each, grouped by role). zero_accumulators(parameters) makes them."
        )


def _described(who: Caller, lists: list[Any], roles: int) -> list[list[BNNSNDArrayDescriptor]]:
    """Descriptors of the tensors of every parameter that has elements."""
    count = len(lists[0])
    names = ("parameters", "gradients", "accumulators")
    groups: list[list[BNNSNDArrayDescriptor]] = [[], [], []]
    kept: list[tuple[BNNSNDArrayDescriptor, ...]] = []
    for i in range(count):
        places = [(0, i), (1, i), *((2, role * count + i) for role in range(roles))]
        shape: tuple[int, ...] | None = None
        made = []
        for which, index in places:
            text = f"{who}: {names[which]}[{index}]"
            descriptor, own = _one(text, lists[which][index], shape, f"parameters[{i}]", output=which != 1)
            shape = own if shape is None else shape
            made.append(descriptor)
        if 0 not in (shape or ()):
            kept.append(tuple(made))
    groups[0] = [made[0] for made in kept]
    groups[1] = [made[1] for made in kept]
    groups[2] = [made[2 + role] for role in range(roles) for made in kept]
    return groups


def _one(
    who: str, value: Any, wanted: tuple[int, ...] | None, like: str, *, output: bool
) -> tuple[BNNSNDArrayDescriptor, tuple[int, ...]]:
    """The descriptor and C-order shape of one tensor."""
    if isinstance(value, BNNSNDArrayDescriptor):
        shape = resolve(value, who).shape
        require_data(value, who)
        _check_shape(who, shape, wanted, like)
        return value, shape
    array = as_array(value, who)
    if array.dtype != np.float32:
        raise Problem(
            f"{who} is {array.dtype}, but optimizers work on float32. Pass .astype(np.float32).", kind=TypeError
        )
    _check_shape(who, array.shape, wanted, like)
    if not array.flags.c_contiguous:
        if output:
            require_contiguous(array, who, "the step")
        array = np.ascontiguousarray(array)
    return descriptor_for((max(array.size, 1),), DataLayout.VECTOR, data=array if array.size else 1), array.shape


def _check_shape(who: str, shape: tuple[int, ...], wanted: tuple[int, ...] | None, like: str) -> None:
    if wanted is not None and shape != wanted:
        raise Problem(
            f"{who} has shape {shape}, but {like} has {wanted}. Gradients and accumulators have the shape of their "
            "parameter."
        )

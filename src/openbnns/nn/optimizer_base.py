"""The base of the optimizers of networks: groups of parameters, accumulators, clipping and steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import GradientClipping
from .._listing import Listed
from .._spelling import nearest, spelled
from ..graph.calls import Call, NumpyCall, PlanCall
from ..graph.checks import whole_number
from ..graph.parameter import Parameter, note_step, trainable
from ..graph.tensor import Array
from .turns import use_gradients
from .utils import total_norm

if TYPE_CHECKING:
    from ..layers.optimizer import RepeatedStep


class ParameterState:
    """A parameter with its accumulators, in the order of their roles, and the number of steps that it has taken."""

    __slots__ = ("accumulators", "group", "parameter", "rate", "steps")

    def __init__(self, parameter: Parameter, group: ParameterGroup) -> None:
        self.parameter, self.group = parameter, group
        self.accumulators: list[Array] | None = None  # made as soon as its size is known
        self.steps = 0
        self.rate = 0.0  # the learning rate that accumulated steps were made with; 0 if there are none

    def made(self, roles: int) -> list[Array]:
        if self.accumulators is None:
            first = self.group._optimizer._first_accumulator(self.group)
            self.accumulators = [np.full_like(self.parameter.array, first) for _ in range(roles)]
        return self.accumulators


class StepGroup:
    """Parameters that take their step in one call: of one group, and with as many steps behind them."""

    def __init__(self, states: list[ParameterState]) -> None:
        self.states = states
        roles = int(self.bnns.accumulator_count_multiplier)
        self.data = [s.parameter.array for s in states]
        self.gradients = [s.parameter.grad for s in states]
        self.accumulators = [s.made(roles)[role] for role in range(roles) for s in states]
        self._steps = states[0].steps
        self._counts = hasattr(self.bnns, "time_step")
        self._repeated: RepeatedStep | None = None
        self._call: PlanCall  # makes the repeated step

    @property
    def bnns(self) -> Any:
        """The optimizer of BNNS; another one once a setting of the group has changed."""
        return self.states[0].group.bnns

    @property
    def adds_epsilon_last(self) -> bool:
        """True for Adam with PyTorch's place of epsilon, added to the corrected root."""
        return bool(self.bnns._epsilon_after_correction)

    @property
    def steps(self) -> int:
        """The number of steps that each parameter has taken."""
        return self._steps if self._repeated is None else self._repeated.steps

    def step(self) -> None:
        if self._counts:
            self.bnns.time_step = float(self.steps + 1)
        try:
            self.bnns.step(parameters=self.data, gradients=self.gradients, accumulators=self.accumulators)
        finally:
            note_step()
        if self._repeated is None:
            self._steps += 1
        else:
            self._repeated.steps += 1

    def repeated(self) -> PlanCall | None:
        """The same as a call that native code can keep, if there is one: the same call while the settings stay the same."""
        if self._repeated is None or not self._repeated.follow(self.bnns):
            steps = self.steps
            self._repeated = self.bnns.repeated(self.data, self.gradients, self.accumulators)
            if self._repeated is None:
                self._steps = steps
            else:
                self._repeated.steps = steps
                self._call = PlanCall(self._repeat)
        return None if self._repeated is None else self._call

    def _repeat(self) -> None:
        if self._repeated is None or not self._repeated.run():
            self.step()


class ParameterGroup(Mapping[str, Any]):
    """Parameters with settings of their own: an entry of ``param_groups``. ``group["lr"] = 0.1`` sets the learning rate.

    Every other setting can be changed between steps, too, but for those that would need other accumulators: momentum, for
    instance, can go from 0.9 to 0.95, but neither from nor to 0.

    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2)).build((4,))
    >>> sgd = nn.SGD([{"params": net[0].parameters(), "lr": 0.01}, {"params": net[2].parameters()}], lr=0.1)
    >>> [group["lr"] for group in sgd.param_groups]
    [0.01, 0.1]
    >>> sgd.param_groups[0]["weight_decay"] = 0.001
    """

    def __init__(self, optimizer: Optimizer, parameters: list[Parameter], bnns: Any, options: dict[str, Any]) -> None:
        self.parameters, self.bnns, self._optimizer, self._options = parameters, bnns, optimizer, options
        self.share = 1.0  # of the optimizer's learning rate
        self.initial_rate: float | None = None  # where schedules start from

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.parameters
        return self.bnns.learning_rate if name == "lr" else self._options[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "lr":
            self._set_rate(value)
            return
        if name not in self._options:
            hint = " Use add_param_group." if name == "params" else nearest(name, self)
            raise KeyError(f"ParameterGroup: {name!r} cannot be set.{hint}")
        optimizer, options = self._optimizer, {**self._options, name: value}
        made = optimizer._make(self.bnns.learning_rate, gradient_clipping=optimizer._clipping, **options)
        if made.accumulator_count_multiplier != self.bnns.accumulator_count_multiplier:
            raise ValueError(
                f"{type(optimizer).__name__}: {name} cannot go from {self._options[name]!r} to {value!r}, because that takes "
                "other accumulators. Make a new optimizer."
            )
        self.bnns, self._options = made, options

    def _set_rate(self, value: Any) -> None:
        rate, whole = self._optimizer._check_rate(value), self._optimizer.learning_rate
        if len(self._optimizer.param_groups) == 1:
            self._optimizer.learning_rate = rate
        elif whole:
            self.share = rate / whole
        self.bnns.learning_rate = rate

    @property
    def beyond_bnns(self) -> dict[str, Any]:
        """Settings that the optimizer of BNNS has no field for, if they have an effect."""
        return {name: self[name] for name in ("dampening", "initial_accumulator_value") if self._options.get(name)}

    def __iter__(self) -> Iterator[str]:
        return iter(["params", "lr", *self._options])

    def __len__(self) -> int:
        return 2 + len(self._options)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self[name]!r}" for name in self if name != "params")
        return f"ParameterGroup({len(self.parameters)} parameters, {shown})"


class Optimizer(Listed):
    """Base of the optimizers: changes parameters in place, from their ``grad``.

    It changes the parameters that it was given, and of these only those that require a gradient: PyTorch's
    ``SGD(network.parameters(), lr=0.1)``, or ``SGD([{"params": ..., "lr": 0.01}, {"params": ...}], lr=0.1)`` for options per
    group. Made without parameters, it trains all those of a trainer's network, or those given to :meth:`attach`.
    ``learning_rate`` may be changed between steps; groups keep their share of it. All settings of a group can be read and
    changed in ``param_groups``.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> net = nn.Linear(1, 1, bias=False).build((1,), seed=0)
    >>> optimizer = nn.SGD(net.parameters(), lr=0.1)
    >>> x, t = np.float32([[1], [2]]), np.float32([[3], [6]])
    >>> for step in range(100):
    ...     loss, gradient = nn.MSELoss()(net(x), t)
    ...     _ = net.backward(gradient)
    ...     optimizer.step()
    >>> print(net.weight.data.round(3))
    [[3.]]
    """

    param_groups: list[ParameterGroup]
    _default_rate = 0.01

    def __init__(self, first: Any, lr: float | None, clipping: GradientClipping | None, **options: Any) -> None:
        """``first`` is the learning rate, or the parameters, or groups of them."""
        who = type(self).__name__
        given = None if first is None or isinstance(first, (int, float, np.number)) else _groups(who, first)
        if given is None and first is not None:
            if lr is not None:
                raise TypeError(f"{who}: learning_rate and lr are the same thing. Give one of them.")
            lr = first
        self._rate = float(self._default_rate if lr is None else lr)
        self._options, self._clipping = options, clipping
        self._waiting = 0  # batches whose gradients have been added up for a step
        self._chosen = False  # whether the user chose the parameters, as opposed to a trainer that took them all
        self._set([{}] if given is None else given)
        self._chosen = given is not None

    def _make(self, *rate: Any, **options: Any) -> Any:
        """The optimizer of BNNS with this learning rate and these options."""
        raise NotImplementedError

    def _set(self, groups: list[dict[str, Any]]) -> None:
        if len(groups) == 1:
            self._rate = self._check_rate(groups[0].get("lr", self._rate))
        made = [self._group(group) for group in groups]
        self._parameters = self._distinct(made)
        self.param_groups = made
        self._states = [ParameterState(p, group) for group in made for p in group.parameters]
        self._trained: list[bool] | None = None
        self._step_groups: list[StepGroup] = []
        self._calls: list[Call] = []

    def _group(self, group: Mapping[str, Any]) -> ParameterGroup:
        who = type(self).__name__
        own = {name: value for name, value in group.items() if name not in ("params", "lr")}
        rate = self._check_rate(group.get("lr", self._rate))
        unknown = next((name for name in own if name not in self._options), None)
        if unknown is not None:
            hint = nearest(unknown, self._options)
            known = ", ".join(["params", "lr", *self._options])
            raise ValueError(f"{who}: a group of parameters has no option {unknown!r}.{hint} Its options are {known}.")
        if rate != self._rate and not self._rate:
            raise ValueError(f"{who}: groups have learning rates of their own, so lr must not be 0. Leave it out.")
        options = {**self._options, **own}
        bnns = self._make(rate, gradient_clipping=self._clipping, **options)
        made = ParameterGroup(self, group.get("params", []), bnns, options)
        if self._rate:
            made.share = rate / self._rate
        return made

    def _distinct(self, groups: list[ParameterGroup]) -> list[Parameter]:
        taken = [p for group in groups for p in group.parameters]
        if len({id(p) for p in taken}) != len(taken):
            raise ValueError(
                f"{type(self).__name__}: a parameter is given more than once. Give every parameter to one group, once."
            )
        return taken

    def _first_accumulator(self, group: ParameterGroup) -> float:
        """The initial value of accumulators."""
        return 0.0

    def _check_rate(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise TypeError(f"{type(self).__name__}: lr must be a number, not {type(value).__name__}.")
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{type(self).__name__}: lr is {value}. It must be at least 0 and finite.")
        return float(value)

    @spelled
    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group of parameters: ``{"params": ..., "lr": ...}``, as at creation."""
        (group,) = _groups(type(self).__name__, param_group)
        if not self._chosen:
            raise ValueError(
                f"{type(self).__name__}.add_param_group: the optimizer was made without parameters, so it takes all those of "
                "the network. Give it the first group at creation."
            )
        made = self._group(group)
        taken = self._distinct([*self.param_groups, made])
        self._note_steps()
        self._parameters = taken
        self.param_groups.append(made)
        self._states += [ParameterState(p, made) for p in made.parameters]
        self._trained, self._step_groups = None, []

    def __setattr__(self, name: str, value: Any) -> None:
        ours = type(self).__module__.startswith("openbnns.")
        if ours and not name.startswith("_") and name != "param_groups" and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__}: {name!r} cannot be set. Only learning_rate, or lr, can; other settings stand in its "
                "groups: optimizer.param_groups[0][name] = value."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return ", ".join(
            f"{type(self).__name__}({_settings_text(group.bnns.hyperparameters)})" for group in self.param_groups
        )

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters that it may change."""
        return list(self._parameters)

    @property
    def accumulators(self) -> list[Array]:
        """The accumulators by role, then by parameter, as far as sizes are known."""
        known = [(s, s.made(int(s.group.bnns.accumulator_count_multiplier))) for s in self._states if s.parameter.used]
        most = max((len(made) for _, made in known), default=0)
        return [made[role] for role in range(most) for _, made in known if role < len(made)]

    @property
    def lr(self) -> float:
        """The learning rate, as PyTorch calls it."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: float) -> None:
        self.learning_rate = value

    @property
    def learning_rate(self) -> float:
        """The learning rate of all groups without one of their own; the others keep their ratio to it."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._rate = self._check_rate(value)
        for group in self.param_groups:
            group.bnns.learning_rate = self._rate * group.share

    def attach(self, parameters: Iterable[Parameter]) -> None:
        """Train these parameters and no others; accumulators start at zero."""
        given = list(parameters)
        if not given:
            raise ValueError(f"{type(self).__name__}: there are no parameters to train. Pass network.parameters().")
        self._set([{"params": given}])
        self._chosen = True

    def attach_network(self, parameters: Iterable[Parameter]) -> None:
        """Train all parameters of a network, unless some were chosen; those must belong to it."""
        network = list(parameters)
        if not self._chosen:
            if self._parameters != network:
                self.attach(network)
                self._chosen = False
            return
        known = set(network)
        foreign = [p for p in self._parameters if p not in known]
        if foreign:
            raise ValueError(
                f"{type(self).__name__}: {len(foreign)} of the {len(self._states)} parameters that it was given, such as "
                f"{foreign[0]!r}, are not of this network, so they would never get a gradient. Make the optimizer from the "
                "parameters of this network, after the last of its parts was replaced."
            )

    @property
    def waiting(self) -> bool:
        """True if gradients of earlier batches wait for a step, so that those of the next one have to be added to them."""
        return self._waiting > 0

    def step(self, *, every: int = 1) -> None:
        """Change every parameter that requires a gradient by one step along it.

        ``every=4`` does so in every fourth call, with the mean of the gradients of four batches, if each is added to those
        before: ``network.backward(gradient, accumulate=optimizer.waiting)``. A call without it does not wait for more.

        >>> import numpy as np
        >>> from openbnns import nn
        >>> net = nn.Linear(1, 1, bias=False).build((1,), seed=0)
        >>> net.weight.data[...] = 0
        >>> sgd, x = nn.SGD(net.parameters(), lr=0.5), np.float32([[1], [3]])
        >>> for i in range(2):  # batches of one sample, a step for both
        ...     loss, gradient = nn.MSELoss()(net(x[i : i + 1]), x[i : i + 1])
        ...     _ = net.backward(gradient, accumulate=sgd.waiting)
        ...     sgd.step(every=2)
        ...     print(net.weight.data.item())
        0.0
        5.0
        """
        if every != 1:
            every = whole_number(every, f"{type(self).__name__}.step: every", 1)
        if self._waiting + 1 < every:
            self._waiting += 1
            return
        trained = self._refresh()
        use_gradients(self._parameters, f"{type(self).__name__}.step")
        if self._waiting:
            for parameter, is_trained in zip(self._parameters, trained, strict=True):
                if is_trained:
                    parameter.grad[...] *= 1.0 / (self._waiting + 1)
            self._waiting = 0
        if self._shares_norm and self._clipping is not None:
            self._share_norm(self._clipping)
        for step_group in self._step_groups:
            self._run(step_group)

    def calls(self) -> list[Call]:
        """The calls of ``step``, which native code can keep: the same list for as long as the calls stay the same."""
        calls: list[Call] | None = None
        groups = self.plain_step_groups()
        if groups is not None:
            repeated = [step_group.repeated() for step_group in groups]
            calls = None if None in repeated else [call for call in repeated if call is not None]
        if calls is None:
            calls = self._calls if _is_call_of(self._calls, self.step) else [NumpyCall(self.step)]
        if calls != self._calls:
            self._calls = calls
        return self._calls

    def plain_step_groups(self) -> list[StepGroup] | None:
        """The groups whose steps, one call of BNNS each, are all that a step does; None if it does more."""
        if self._waiting or type(self).step is not _STEP:  # which a subclass may have replaced
            return None
        self._refresh()
        if self._shares_norm or not all(map(self._is_plain, self._step_groups)):
            return None
        return self._step_groups

    def regroup(self) -> None:
        """Group the parameters anew at the next step: their memory, or what is trained, has changed."""
        self._note_steps()
        self._trained, self._step_groups = None, []

    def _run(self, step_group: StepGroup) -> None:
        step_group.step()

    def _is_plain(self, step_group: StepGroup) -> bool:
        """True if ``_run`` does nothing but the step of the group."""
        return True

    def _refresh(self) -> list[bool]:
        """Follow changes of ``requires_grad``; gives for each parameter whether it is trained."""
        if not self._states:
            raise RuntimeError(f"{type(self).__name__}.step: call attach(network.parameters()) first.")
        trained = trainable(self._parameters)
        if trained != self._trained:
            if not any(p.used for p in self._parameters):
                raise RuntimeError(
                    f"{type(self).__name__}.step: none of its parameters is part of a built network yet. Build it first."
                )
            self._trained, self._step_groups = trained, self._grouped(trained)
            if self._clipping is not None:
                self.clip(self._clipping)  # without a norm that was known for other groups
        return trained

    @property
    def _shares_norm(self) -> bool:
        """True if gradients are clipped by a norm that no group can compute by itself."""
        clipping = self._clipping
        return len(self._step_groups) > 1 and clipping is not None and clipping.case == "by_global_norm"

    def _grouped(self, trained: Sequence[bool]) -> list[StepGroup]:
        self._note_steps()
        together: dict[tuple[int, int], list[ParameterState]] = {}
        for state, is_trained in zip(self._states, trained, strict=True):
            if is_trained:
                together.setdefault((id(state.group), state.steps), []).append(state)
        return [StepGroup(states) for states in together.values()]

    def _note_steps(self) -> None:
        """Note the steps that the parameters have taken in their groups."""
        for step_group in self._step_groups:
            for state in step_group.states:
                state.steps = step_group.steps

    def _share_norm(self, clipping: GradientClipping) -> None:
        """Clip by the norm of the gradients of all groups, not of one."""
        gradients = [g for step_group in self._step_groups for g in step_group.gradients]
        norm = total_norm(gradients)
        known = clipping.global_norm or (norm if math.isfinite(norm) else 0.0)
        for step_group in self._step_groups:
            step_group.bnns.gradient_clipping = GradientClipping.by_global_norm(clipping.threshold, known)

    @spelled
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites.

        ``set_to_none`` is there because PyTorch has it: gradients are zeros here, never None.
        """
        self._waiting = 0
        for parameter in self.parameters:
            if parameter.used:
                parameter.grad[...] = 0

    def clip(self, clipping: GradientClipping) -> None:
        """Clip gradients from the next step on."""
        self._clipping = clipping
        for group in self.param_groups:
            group.bnns.gradient_clipping = clipping

    def state_dict(self) -> dict[str, Array]:
        """Accumulators, step counts and settings, from which training continues with the same numbers.

        ``settings.lr`` and the like hold a number for every group; ``accumulator.0`` and so on are those of the optimizer, not
        copies. Gradients that wait for a step are not part of it.
        """
        self._note_steps()
        state = {f"accumulator.{i}": array for i, array in enumerate(self.accumulators)}
        state["steps"] = np.array([s.steps for s in self._states], np.int64)
        groups = self.param_groups
        state["settings.learning_rate"] = np.array([self._rate])
        state["settings.share"] = np.array([group.share for group in groups])
        for name in ("lr", *self._options):
            state[f"settings.{name}"] = np.array([group[name] for group in groups], np.float64)
        return state

    @spelled
    def load_state_dict(self, state: Mapping[str, Any], *, settings: bool = True) -> None:
        """Load a state of the same optimizer on the same parameters; nothing is changed if it does not fit.

        With ``settings=False`` the learning rates and the other settings stay as they are.
        """
        who = type(self).__name__
        own = self.state_dict()
        given = {name: np.asarray(array) for name, array in state.items()}
        if not settings:
            own, given = _without_settings(own), _without_settings(given)
        if set(own) != set(given):
            listed = "; ".join(
                f"{what} {', '.join(sorted(names))}"
                for what, names in (("missing:", set(own) - set(given)), ("not known:", set(given) - set(own)))
                if names
            )
            count = sum(name.startswith("accumulator.") for name in given)
            raise ValueError(
                f"{who}: the state has {count} accumulators, {len(self.accumulators)} are needed ({listed}). It belongs to "
                "another optimizer or another network."
            )
        for name, array in own.items():
            if given[name].shape != array.shape:
                raise ValueError(f"{who}: {name} has shape {given[name].shape}, not {array.shape}.")
        if settings:
            self._load_settings(given)
        for name, array in own.items():
            array[...] = given[name]
        for i, entry in enumerate(self._states):
            entry.steps = int(own["steps"][i])
            entry.rate = float(own["rates"][i]) if "rates" in own else 0.0
        self._trained, self._step_groups, self._waiting = None, [], 0

    def _load_settings(self, given: Mapping[str, Array]) -> None:
        """Give every group the settings of a state, all or none of them."""
        made = []
        for i, group in enumerate(self.param_groups):
            options = {name: _in_form_of(group[name], given[f"settings.{name}"][i]) for name in self._options}
            made.append(
                (self._make(float(given["settings.lr"][i]), gradient_clipping=self._clipping, **options), options)
            )
        for i, (group, (bnns, options)) in enumerate(zip(self.param_groups, made, strict=True)):
            group.bnns, group._options, group.share = bnns, options, float(given["settings.share"][i])
        self._rate = float(given["settings.learning_rate"][0])

    def describe(self) -> dict[str, Any]:
        """Name and numbers, for reports and checkpoints."""
        return {"optimizer": type(self).__name__, "learning_rate": self.learning_rate}


_STEP = Optimizer.step


def _without_settings(state: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array for name, array in state.items() if not name.startswith("settings.")}


def _in_form_of(old: Any, value: Any) -> Any:
    """A number, or several, from the settings of a state in the form that an option has."""
    if isinstance(old, bool):
        return bool(value)
    return float(value) if np.ndim(value) == 0 else tuple(float(number) for number in value)


def _groups(who: str, first: Any) -> list[dict[str, Any]]:
    """Groups of parameters from what PyTorch's optimizers take first."""
    try:
        entries = [first] if isinstance(first, Mapping) else list(first)
    except TypeError:
        entries = [first]
    if not entries:
        raise ValueError(f"{who}: there are no parameters to train. Pass network.parameters().")
    if not any(isinstance(entry, Mapping) for entry in entries):
        entries = [{"params": entries}]
    groups = []
    for group in entries:
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f"{who}: a group of parameters is {group!r}. Pass {{'params': [...], 'lr': ...}} for each.")
        held = group["params"]
        parameters = [held] if isinstance(held, Parameter) else list(held)
        wrong = [type(p).__name__ for p in parameters if not isinstance(p, Parameter)]
        if wrong:
            raise TypeError(
                f"{who}: the first argument is the learning rate, or the parameters of a network: {who}(0.001), or "
                f"{who}(network.parameters(), lr=0.001). It holds a {wrong[0]}."
            )
        if not parameters:
            raise ValueError(f"{who}: a group has no parameters to train. Leave it out.")
        groups.append({**group, "params": parameters})
    return groups


def _settings_text(numbers: Mapping[str, Any]) -> str:
    """Settings as text, without the defaults and the count of steps."""
    usual = {"gradient_scale": 1.0, "regularization_scale": 0.0, "time_step": None, "sgd_momentum_variant": None}
    texts = {name: value.name.lower() if isinstance(value, Enum) else f"{value!r}" for name, value in numbers.items()}
    return ", ".join(
        f"{name}={text}"
        for name, text in texts.items()
        if (text not in ("False", "none", "None") and name not in usual) or usual.get(name) not in (None, numbers[name])
    )


def _is_call_of(calls: list[Call], function: Any) -> bool:
    return len(calls) == 1 and isinstance(calls[0], NumpyCall) and calls[0].func == function

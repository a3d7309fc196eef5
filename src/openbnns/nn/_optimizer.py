"""What the optimizers of networks share: groups of parameters, accumulators, and whose turn it is in a step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import GradientClipping
from ._value import Array
from .choose import nearest
from .parameter import Parameter, trainable


class State:
    """A parameter with its accumulators, in the order of their roles, and the number of steps that it has taken."""

    __slots__ = ("accumulators", "group", "parameter", "rate", "steps")

    def __init__(self, parameter: Parameter, group: ParameterGroup) -> None:
        self.parameter, self.group = parameter, group
        self.accumulators: list[Array] | None = None  # made as soon as its size is known
        self.steps = 0
        self.rate = 0.0  # the learning rate that accumulated steps were made with; 0 if there are none

    def made(self, roles: int) -> list[Array]:
        if self.accumulators is None:
            self.accumulators = [np.zeros_like(self.parameter.data) for _ in range(roles)]
        return self.accumulators


class ParameterGroup(Mapping[str, Any]):
    """Parameters with options of their own: an entry of ``param_groups``. ``group["lr"] = 0.1`` sets the learning rate.

    >>> from openbnns import nn
    >>> net = nn.Sequential(nn.Linear(8), nn.ReLU(), nn.Linear(2)).build((4,))
    >>> sgd = nn.SGD([{"params": net[0].parameters(), "lr": 0.01}, {"params": net[2].parameters()}], lr=0.1)
    >>> [group["lr"] for group in sgd.param_groups]
    [0.01, 0.1]
    """

    def __init__(self, optimizer: Optimizer, parameters: list[Parameter], bnns: Any, options: dict[str, Any]) -> None:
        self.parameters, self.bnns, self._optimizer, self._options = parameters, bnns, optimizer, options
        self.share = 1.0  # of the optimizer's learning rate

    def __getitem__(self, name: str) -> Any:
        if name == "params":
            return self.parameters
        return self.bnns.learning_rate if name == "lr" else self._options[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "lr":
            raise KeyError(
                f"ParameterGroup: {name!r} cannot be set. lr may change; everything else is given at creation."
            )
        whole = self._optimizer.learning_rate
        if len(self._optimizer.param_groups) == 1:
            self._optimizer.learning_rate = value
        elif whole:
            self.share = float(value) / whole
        self.bnns.learning_rate = float(value)

    def __iter__(self) -> Iterator[str]:
        return iter(["params", "lr", *self._options])

    def __len__(self) -> int:
        return 2 + len(self._options)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self[name]!r}" for name in self if name != "params")
        return f"ParameterGroup({len(self.parameters)} parameters, {shown})"


class Bundle:
    """Parameters that take their step in one call: of one group, and with as many steps behind them."""

    def __init__(self, states: list[State]) -> None:
        self.states, self.bnns = states, states[0].group.bnns
        roles = int(self.bnns.accumulator_count_multiplier)
        self.data = [s.parameter.data for s in states]
        self.gradients = [s.parameter.grad for s in states]
        self.accumulators = [s.made(roles)[role] for role in range(roles) for s in states]
        self.steps = states[0].steps
        self._counts = hasattr(self.bnns, "time_step")

    def step(self) -> None:
        if self._counts:
            self.bnns.time_step = float(self.steps + 1)
        self.bnns.step(parameters=self.data, gradients=self.gradients, accumulators=self.accumulators)
        self.steps += 1


class Optimizer:
    """Base of the optimizers: changes parameters in place, from their ``grad``.

    It changes the parameters that it was given, and of these only those that require a gradient: PyTorch's
    ``SGD(network.parameters(), lr=0.1)``, or ``SGD([{"params": ..., "lr": 0.01}, {"params": ...}], lr=0.1)`` for options per
    group. One that was given none is given all parameters of its network by a trainer, or any by :meth:`attach`.
    ``learning_rate`` may be changed between steps; groups keep their share of it.

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
        self._chosen = False  # whether somebody chose the parameters, as opposed to a trainer that took them all
        self._set([{}] if given is None else given)
        self._chosen = given is not None

    def _make(self, *rate: Any, **options: Any) -> Any:
        """The optimizer of BNNS with this learning rate and these options."""
        raise NotImplementedError

    def _set(self, groups: list[dict[str, Any]]) -> None:
        who = type(self).__name__
        if len(groups) == 1:
            self._rate = float(groups[0].get("lr", self._rate))
        made = []
        for group in groups:
            own = {name: value for name, value in group.items() if name not in ("params", "lr")}
            rate = float(group.get("lr", self._rate))
            unknown = next((name for name in own if name not in self._options), None)
            if unknown is not None:
                hint = nearest(unknown, self._options)
                known = ", ".join(["params", "lr", *self._options])
                raise ValueError(
                    f"{who}: a group of parameters has no option {unknown!r}.{hint} Its options are {known}."
                )
            if rate != self._rate and not self._rate:
                raise ValueError(f"{who}: groups have learning rates of their own, so lr must not be 0. Leave it out.")
            options = {**self._options, **own}
            bnns = self._make(rate, gradient_clipping=self._clipping, **options)
            made.append(ParameterGroup(self, group.get("params", []), bnns, options))
            if self._rate:
                made[-1].share = rate / self._rate
        taken = [p for group in made for p in group.parameters]
        if len({id(p) for p in taken}) != len(taken):
            raise ValueError(f"{who}: a parameter is given more than once. Give every parameter to one group, once.")
        self.param_groups = made
        self._parameters = taken
        self._states = [State(p, group) for group in made for p in group.parameters]
        self._trained: list[bool] | None = None
        self._bundles: list[Bundle] = []

    def __setattr__(self, name: str, value: Any) -> None:
        ours = type(self).__module__.startswith(__package__)
        if ours and not name.startswith("_") and name != "param_groups" and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__}: {name!r} cannot be set. learning_rate, or lr, may change between steps; everything "
                "else is given at creation."
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        shown = [type(self).__name__ + repr(g.bnns).removeprefix(type(g.bnns).__name__) for g in self.param_groups]
        return ", ".join(shown)

    @property
    def parameters(self) -> list[Parameter]:
        """All that it may change."""
        return list(self._parameters)

    @property
    def accumulators(self) -> list[Array]:
        """By role, then by parameter, as far as sizes are known."""
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
        """That of all groups which have none of their own; those that have keep their share of it."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._rate = float(value)
        for group in self.param_groups:
            group.bnns.learning_rate = self._rate * group.share

    def attach(self, parameters: Iterable[Parameter]) -> None:
        """Take charge of these parameters and no others; accumulators start at zero."""
        given = list(parameters)
        if not given:
            raise ValueError(f"{type(self).__name__}: there are no parameters to train. Pass network.parameters().")
        self._set([{"params": given}])
        self._chosen = True

    def attach_network(self, parameters: Iterable[Parameter]) -> None:
        """Take charge of all parameters of a network, unless some were chosen, which must be of that network."""
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

    def step(self) -> None:
        """Change every parameter that requires a gradient by one step along it."""
        if not self._states:
            raise RuntimeError(f"{type(self).__name__}.step: call attach(network.parameters()) first.")
        trained = trainable(self._parameters)
        if trained != self._trained:
            if not any(p.used for p in self._parameters):
                raise RuntimeError(
                    f"{type(self).__name__}.step: none of its parameters is part of a built network yet. Build it first."
                )
            self._trained, self._bundles = trained, self._bundle(trained)
            if self._clipping is not None:
                self.clip(self._clipping)  # without a norm that was known for other bundles
        if len(self._bundles) > 1 and self._clipping is not None and self._clipping.case == "by_global_norm":
            self._share_norm(self._clipping)
        for bundle in self._bundles:
            self._run(bundle)

    def _run(self, bundle: Bundle) -> None:
        bundle.step()

    def _bundle(self, trained: Sequence[bool]) -> list[Bundle]:
        self._count()
        together: dict[tuple[int, int], list[State]] = {}
        for state, is_trained in zip(self._states, trained, strict=True):
            if is_trained:
                together.setdefault((id(state.group), state.steps), []).append(state)
        return [Bundle(states) for states in together.values()]

    def _count(self) -> None:
        """Note the steps that the parameters have taken in their bundles."""
        for bundle in self._bundles:
            for state in bundle.states:
                state.steps = bundle.steps

    def _share_norm(self, clipping: GradientClipping) -> None:
        """Clip by the norm of the gradients of all bundles, not of one."""
        norm = math.sqrt(
            sum(float(np.vdot(g.astype(np.float64), g)) for bundle in self._bundles for g in bundle.gradients)
        )
        known = clipping.global_norm or (norm if math.isfinite(norm) else 0.0)
        for bundle in self._bundles:
            bundle.bnns.gradient_clipping = GradientClipping.by_global_norm(clipping.threshold, known)

    def zero_grad(self) -> None:
        """Set every gradient to zero. Not needed before ``backward``, which overwrites."""
        for parameter in self.parameters:
            if parameter.used:
                parameter.grad[...] = 0

    def clip(self, clipping: GradientClipping) -> None:
        """Clip gradients from the next step on."""
        self._clipping = clipping
        for group in self.param_groups:
            group.bnns.gradient_clipping = clipping

    def state_dict(self) -> dict[str, Array]:
        """Accumulators and step counts, to go on later as if nothing had happened."""
        self._count()
        state = {f"accumulator.{i}": array for i, array in enumerate(self.accumulators)}
        state["steps"] = np.array([s.steps for s in self._states], np.int64)
        return state

    def load_state_dict(self, state: dict[str, Array]) -> None:
        """Take over a state of the same optimizer on the same parameters; nothing is changed if it does not fit."""
        who = type(self).__name__
        own = self.state_dict()
        if set(own) != set(state):
            count = sum(name.startswith("accumulator.") for name in state)
            raise ValueError(
                f"{who}: the state has {count} accumulators, but {len(self.accumulators)} are needed. It belongs to another "
                "optimizer or another network."
            )
        for name, array in own.items():
            if np.shape(state[name]) != array.shape:
                raise ValueError(f"{who}: {name} has shape {np.shape(state[name])}, not {array.shape}.")
        for name, array in own.items():
            array[...] = state[name]
        for i, entry in enumerate(self._states):
            entry.steps = int(own["steps"][i])
            entry.rate = float(own["rates"][i]) if "rates" in own else 0.0
        self._trained, self._bundles = None, []

    def describe(self) -> dict[str, Any]:
        """Name and numbers, for reports and checkpoints."""
        return {"optimizer": type(self).__name__, "learning_rate": self.learning_rate}


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

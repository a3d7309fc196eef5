"""Parameters with their optimizer state, grouped by the steps that they take together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.calls import PlanCall
from ..graph.parameter import Parameter, note_step
from ..graph.tensor import Array

if TYPE_CHECKING:
    from ..layers.optimizer import RepeatedStep
    from .optimizer_base import ParameterGroup


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
            first = self.group._optimizer._first_accumulator(self.group)
            self.accumulators = [np.full_like(self.parameter.array, first) for _ in range(roles)]
        return self.accumulators


class Bundle:
    """Parameters that take their step in one call: of one group, and with as many steps behind them."""

    def __init__(self, states: list[State]) -> None:
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

"""The gradients that a backward pass writes, those that it adds to, and those that share memory.

Steps run backward from the last to the first. The gradient of a value is first written by its last reader; every other
reader writes to temporary memory for the time of its step, which is then added. The step that computed a value reads its
gradient, which is complete by then, before it writes any other. The gradient of a sum is that of its parts as it is: a part
shares its memory as long as no addition to one gradient would change another that is still to be read. With an activation
behind the sum, that of all parts is one, which the step writes over that of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .graph import Graph
from .operation import Operation
from .parameter import Parameter
from .tensor import Tensor


@dataclass
class Target:
    """The gradient of an input or of a parameter of a step."""

    owner: Any  # the parameter, or the value with the memory
    wanted: bool
    adds: bool = False  # whether it is added to what an earlier step has written
    shared: bool = False  # it lies in the memory of that of the output


@dataclass
class BackwardStep:
    """One operation on the way back: targets of its inputs, then of its parameters."""

    index: int
    operation: Operation
    targets: list[Target] = field(default_factory=list)


def backward_steps(graph: Graph, wanted: set[Tensor]) -> list[BackwardStep]:
    """The steps of a backward pass in the order in which they run; ``wanted`` are the storages that have a gradient."""
    written: set[Any] = {owner(value) for value in graph.outputs}
    steps = []
    for index in reversed(range(len(graph.operations))):
        operation = graph.operations[index]
        if not any(value in wanted and value in written for value in operation.outputs):
            continue  # the result does not depend on it
        step = BackwardStep(index, operation)
        for value in operation.inputs:
            leaf = value.storage.leaf
            step.targets.append(Target(owner(value), value.storage in wanted if leaf is None else is_trained(leaf)))
        step.targets += [Target(parameter, parameter.requires_grad) for parameter in operation.parameters]
        for target in step.targets:
            if target.wanted:
                target.adds = target.owner in written
                written.add(target.owner)
        steps.append(step)
    return steps


def share(graph: Graph, steps: Sequence[BackwardStep], join: Callable[[Tensor, Tensor], None]) -> None:
    """Mark the targets that share memory with their step's output gradient, where ``join(part, whole)`` lays both."""
    read = {value: i for i, operation in enumerate(graph.operations) for value in operation.outputs}
    additions: dict[Any, list[int]] = {}
    for step in steps:
        for target in step.targets:
            if target.wanted and target.adds:
                additions.setdefault(target.owner, []).append(step.index)

    def stay_equal(gradients: Sequence[Tensor], now: int) -> bool:
        """True if no addition from step ``now`` on, its own included, is to one of these before another is read."""
        return not any(
            read[other] < i
            for changed in gradients
            for i in additions.get(changed, ())
            if i <= now
            for other in gradients
            if other is not changed
        )

    outside = {value.storage for value in [*graph.inputs, *graph.outputs]}
    groups: dict[Tensor, list[Tensor]] = {}  # the gradients that lie in the same memory and are still to be read
    for step in steps:
        whole = step.operation.outputs[0]
        if whole in outside:
            continue
        group = [value for value in groups.pop(whole, ()) if read[value] < step.index]
        if group and step.operation.changes_gradient:
            continue  # they are still to be read as they are
        for number in step.operation.passed_on():
            target = step.targets[number]
            part = target.owner
            if not target.wanted or target.adds or not isinstance(part, Tensor) or part in outside:
                continue
            if stay_equal([*group, part], step.index):
                target.shared = True
                group.append(part)
                join(part, whole)
        groups.update(dict.fromkeys(group, group))


def owner(value: Tensor) -> Any:
    """The parameter or storage that owns a value's gradient."""
    leaf = value.storage.leaf
    return leaf if isinstance(leaf, Parameter) else value.storage


def is_trained(leaf: Any) -> bool:
    """True for a parameter that requires a gradient."""
    return isinstance(leaf, Parameter) and leaf.requires_grad

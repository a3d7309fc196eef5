"""Random networks beside PyTorch in float64, which also says whether the autograd of the tests is right."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from network_checks import STEPS, Outcome, compare_outcomes, failure_of, outcome_on_tape, report
from random_networks import Layer, Plan, draw, run_steps
from tape import Array

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")

NETWORKS = 1000
PORTIONS = 20

TORCH = SimpleNamespace(**{name: getattr(torch, name) for name in dir(torch) if not name.startswith("_")})
for _name in dir(torch.nn.functional):
    if not _name.startswith("_"):
        setattr(TORCH, _name, getattr(torch.nn.functional, _name))
TORCH.array = lambda array: torch.tensor(array)
TORCH.mask = lambda array: torch.tensor(array)
TORCH.picked = lambda x, dim, numbers: x.index_select(dim, torch.tensor(numbers))
TORCH.pad = lambda x, sizes: torch.nn.functional.pad(x, tuple(sizes))


class BatchNorm(torch.nn.Module):  # type: ignore[misc]
    """PyTorch's, with moving statistics that follow the biased variance."""

    def __init__(self, num_features: int, eps: float, affine: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = (torch.nn.Parameter(torch.ones(num_features)) if affine else None for _ in range(2))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))

    def forward(self, x: Any) -> Any:
        statistics = (None, None) if self.training else (self.running_mean, self.running_var)
        if self.training:
            axes = [axis for axis in range(x.ndim) if axis != 1]
            for buffer, new in ((self.running_mean, x.mean(axes)), (self.running_var, x.var(axes, correction=0))):
                buffer += 0.1 * (new.detach() - buffer)
        return torch.nn.functional.batch_norm(x, *statistics, self.weight, self.bias, self.training, 0.1, self.eps)


class Network(torch.nn.Module):  # type: ignore[misc]
    """A plan as a network of PyTorch."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.parts = torch.nn.ModuleList(_made(layer) for layer in plan.layers).double()
        self.by_key = {(i, name): p for i, part in enumerate(self.parts) for name, p in part.named_parameters()}
        with torch.no_grad():
            for (i, name), parameter in self.by_key.items():
                parameter.copy_(torch.tensor(plan.parameter(i, name, tuple(parameter.shape))))
                parameter.requires_grad_(plan.is_trained(i, name))
            for i, part in enumerate(self.parts):
                if isinstance(part, BatchNorm):
                    for name, numbers in plan.statistics(i).items():
                        getattr(part, name).copy_(torch.tensor(numbers))

    def set_mode(self, training: bool) -> None:
        self.train(training)
        for layer, part in zip(self.plan.layers, self.parts, strict=True):
            part.train(training and layer.training)

    def forward(self, inputs: Sequence[Any]) -> list[Any]:
        layers = [_called(layer, part) for layer, part in zip(self.plan.layers, self.parts, strict=True)]
        return run_steps(self.plan, TORCH, layers, inputs)


def _made(layer: Layer) -> Any:
    if layer.kind == "Parameter":
        return torch.nn.ParameterDict({"data": torch.zeros(layer.options["shape"])})
    kind: Any = BatchNorm if layer.kind.startswith("BatchNorm") else getattr(torch.nn, layer.kind)
    return kind(**layer.options)


def _called(layer: Layer, part: Any) -> Any:
    if layer.kind == "Parameter":
        return part["data"]
    if layer.kind == "MultiheadAttention":
        return lambda x: part(x, x, x, need_weights=False)[0]
    if layer.kind in ("LSTM", "GRU", "RNN"):
        return lambda x: part(x)[0]
    return part


def _array(x: Any) -> Array:
    array: Array = x.detach().numpy().copy()
    return array


def outcome_on_torch(plan: Plan, on_tape: Outcome) -> Outcome:
    """The outcome of a plan in PyTorch; only the tape knows where kinks are."""
    net = Network(plan)
    inputs = [torch.tensor(array) for array in plan.input_arrays()]
    net.set_mode(False)
    first = [_array(y) for y in net(inputs)]
    net.set_mode(True)
    for x in inputs:
        x.requires_grad_(x.dtype == torch.float64)
    outputs = net(inputs)
    total = torch.zeros(()).double()
    for y, v in zip(outputs, plan.cotangents([_array(y) for y in outputs]), strict=True):
        total = total + (y * torch.tensor(v)).sum()
    if total.requires_grad:
        total.backward()
    result = Outcome(
        outputs=[_array(y) for y in outputs],
        gradients={key: None if p.grad is None else _array(p.grad) for key, p in net.by_key.items()},
        input_gradients=[None if x.grad is None else _array(x.grad) for x in inputs],
        at_first=first,
        decays_without_gradient=on_tape.decays_without_gradient,
        kinks=on_tape.kinks,
    )
    targets = [torch.tensor(target) for target in plan.targets(result.outputs)]
    losses = [getattr(torch.nn, kind)(**options) for kind, options in plan.losses]
    kind, options = plan.optimizer
    trained = [p for p in net.by_key.values() if p.requires_grad]
    optimizer = getattr(torch.optim, kind)(trained, **options) if trained else None
    for number in range(STEPS):
        outputs = net([torch.tensor(array) for array in plan.input_arrays(number)])
        total = sum(loss(y, target) for loss, y, target in zip(losses, outputs, targets, strict=True))
        result.losses.append(total.item())
        if optimizer is not None:
            optimizer.zero_grad()
            if total.requires_grad:
                total.backward()
            optimizer.step()
    result.parameters = {key: _array(p) for key, p in net.by_key.items()}
    net.set_mode(False)
    result.at_last = [_array(y) for y in net([torch.tensor(array) for array in plan.input_arrays()])]
    return result


def expected(plan: Plan) -> Outcome:
    """By PyTorch, with which the tape has to agree."""
    on_tape = outcome_on_tape(plan)
    on_torch = outcome_on_torch(plan, on_tape)
    compare_outcomes(on_tape, on_torch)
    return on_torch


@pytest.mark.parametrize("portion", range(PORTIONS))
def test_networks(portion: int) -> None:
    for seed in range(portion, NETWORKS, PORTIONS):
        plan = draw(seed)
        if failure_of(plan, expected) is not None:
            pytest.fail(report(plan, expected))

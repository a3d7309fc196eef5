"""Networks beside an oracle: ``nn`` against an autograd of the tests' own, or against PyTorch.

An :class:`Outcome` holds all that a plan of ``random_networks.py`` should give, in float64. :func:`check` runs the plan by
every way that ``nn`` has: float64, the engine in use, replayed, compiled, trained, in inference mode, from two threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np

import tape_layers
from openbnns import nn
from openbnns.nn.recording import untouched
from openbnns.tensors.wide import float64_memory
from random_networks import LARGEST, SMALLEST_KINK, Layer, OnTape, Plan, run_steps, smallest
from tape import Array, Tensor, tensor

STEPS = 3  # of the optimizer


@dataclass
class Outcome:
    """All that a network does, in float64; what has no gradient has None."""

    outputs: list[Array]
    gradients: dict[tuple[int, str], Array | None]
    input_gradients: list[Array | None]
    at_first: list[Array]  # outputs in inference mode, before any training
    decays_without_gradient: bool  # whether weight decay would change a parameter that nothing depends on
    losses: list[float] = field(default_factory=list)
    parameters: dict[tuple[int, str], Array] = field(default_factory=dict)  # after all steps
    at_last: list[Array] = field(default_factory=list)  # outputs in inference mode
    kinks: tuple[float, float, float, float] = (np.inf,) * 4  # of outputs, at first, of all steps, at last


def outcome_on_tape(plan: Plan) -> Outcome:
    net = OnTape(plan)
    arrays = plan.input_arrays()
    net.training = False
    _, first = net.run(arrays)
    net.training = True
    inputs, outputs = net.run(arrays)
    total = tensor(0.0)
    for y, v in zip(outputs, plan.cotangents([y.data for y in outputs]), strict=True):
        total = total + (y * v).sum()
    total.backward()
    total_kink = total.kink
    result = Outcome(
        outputs=[y.data for y in outputs],
        gradients={key: p.grad if plan.is_trained(*key) else None for key, p in net.parameters.items()},
        input_gradients=[None if name.startswith("i") else x.grad for name, x in zip(plan.inputs, inputs, strict=True)],
        at_first=[y.data for y in first],
        decays_without_gradient="weight_decay" in plan.optimizer[1]
        and any(p.grad is None and plan.is_trained(*key) for key, p in net.parameters.items()),
    )
    targets = plan.targets(result.outputs)
    states: dict[tuple[int, str], dict[str, Array]] = {key: {} for key in net.parameters}
    kind, options = plan.optimizer
    step_kink = np.inf
    for number in range(STEPS):
        _, outputs = net.run(plan.input_arrays(number))
        total = tensor(0.0)
        for y, target, (loss, settings) in zip(outputs, targets, plan.losses, strict=True):
            given = dict(settings)
            reduction = given.pop("reduction")
            losses = tape_layers.LOSSES[loss](y, target, **given)
            total = total + (losses.sum() if reduction == "sum" else losses.mean())
        for p in net.parameters.values():
            p.grad = None
        total.backward()
        step_kink = min(step_kink, total.kink)
        result.losses.append(float(total.data))
        for key, p in list(net.parameters.items()):
            if p.grad is not None and plan.is_trained(*key):
                moved = tape_layers.OPTIMIZERS[kind](p.data, p.grad, states[key], number + 1, options)
                net.parameters[key] = Tensor(moved)
    result.parameters = {key: p.data for key, p in net.parameters.items()}
    net.training = False
    _, last = net.run(arrays)
    result.at_last = [y.data for y in last]
    result.kinks = (total_kink, min(y.kink for y in first), step_kink, min(y.kink for y in last))
    return result


# The network of nn.

NN = SimpleNamespace(**{name: getattr(nn.functional, name) for name in nn.functional.__all__})
NN.array = lambda array: array.astype(np.float32)
NN.mask = lambda array: array
NN.picked = nn.functional.index_select


class Network(nn.Module):
    """A plan as a network."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.parts = nn.ModuleList(_Part(layer) for layer in plan.layers)
        for (i, name), parameter in self.by_key().items():
            parameter.data[...] = plan.parameter(i, name, parameter.shape)
            parameter.requires_grad = plan.is_trained(i, name)
        for i, layer in enumerate(plan.layers):
            if layer.kind.startswith("BatchNorm"):
                for name, numbers in plan.statistics(i).items():
                    getattr(self.parts[i].layer, name)[...] = numbers
        self.set_mode(True)

    def by_key(self) -> dict[tuple[int, str], Any]:
        return {
            (i, name.removeprefix("layer.")): parameter
            for i, part in enumerate(self.parts)
            for name, parameter in part.named_parameters()
        }

    def set_mode(self, training: bool) -> Network:
        self.train(training)
        for layer, part in zip(self.plan.layers, self.parts, strict=True):
            part.train(training and layer.training)
        return self

    def forward(self, *inputs: Any) -> Any:
        outputs = run_steps(self.plan, NN, [part.used() for part in self.parts], inputs)
        return tuple(outputs) if len(outputs) > 1 else outputs[0]


class _Part(nn.Module):
    """A layer or a parameter of a network."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        if layer.kind == "Parameter":
            self.data = nn.Parameter(np.zeros(layer.options["shape"], np.float32))
        else:
            self.layer = getattr(nn, layer.kind)(**layer.options)

    def used(self) -> Any:
        return self.data if "data" in self._parameters else self

    def forward(self, x: Any) -> Any:
        if isinstance(self.layer, nn.MultiheadAttention):
            return self.layer(x, x, x)[0]
        return self.layer(x)


class Disagreement(AssertionError):
    """A network does something else than it should."""


def compare(what: str, ours: Any, theirs: Any, tolerance: float, floor: float = 1.0) -> None:
    """Numbers may differ by ``tolerance`` times the largest of them, or times ``floor``."""
    if ours is None or theirs is None:
        if ours is not None or theirs is not None:
            raise Disagreement(f"{what}: {'None' if ours is None else 'an array'} instead of the other")
        return
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        raise Disagreement(f"{what}: shape {a.shape} instead of {b.shape}")
    if not np.isfinite(a).all():
        raise Disagreement(f"{what}: not finite")
    if a.size:
        error, scale = float(np.abs(a - b).max()), max(floor, float(np.abs(b).max()))
        if error > tolerance * scale:
            k = np.unravel_index(np.abs(a - b).argmax(), a.shape)
            raise Disagreement(f"{what}: {a[k]:.9g} instead of {b[k]:.9g} at {tuple(map(int, k))}")


WIDE = 1e-9  # tolerance of float64
NARROW = 2e-4  # of float32, and of a gradient relative to the largest of all gradients


def check(plan: Plan, expected: Outcome) -> None:
    """Compare everything that ``nn`` does with a plan; raises Disagreement."""
    if min(expected.kinks) == 0:  # where slopes are a matter of taste
        return
    _check_float64(plan, expected)
    _check_native(plan, expected)


def listed(outputs: Any) -> list[Any]:
    """One array, or a tuple of them, as a list."""
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def structured(arrays: Sequence[Any]) -> Any:
    """The other way round."""
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def narrow(arrays: Sequence[Array]) -> list[Array]:
    """As users pass them: float32, or integers."""
    return [x.astype(np.float32) if x.dtype.kind == "f" else x for x in arrays]


def _check_gradients(
    where: str, plan: Plan, net: Network, given: Sequence[Any], expected: Outcome, tolerance: float
) -> None:
    largest = max([0.05, *(float(np.abs(g).max()) for g in expected.gradients.values() if g is not None)])
    for (i, name), parameter in net.by_key().items():
        wanted = expected.gradients[i, name]
        if plan.is_trained(i, name) and parameter.used and wanted is not None:
            compare(f"{where}: gradient of {name} of layer {i}", parameter.grad, wanted, tolerance, largest)
    largest = max([largest, *(float(np.abs(g).max()) for g in expected.input_gradients if g is not None)])
    for name, gradient, wanted in zip(plan.inputs, given, expected.input_gradients, strict=True):
        zeros = np.zeros_like(gradient) if gradient is not None and wanted is None else wanted
        if gradient is None and zeros is not None and not zeros.any():
            continue
        compare(f"{where}: gradient of {name}", gradient, zeros, tolerance, largest)


def _check_float64(plan: Plan, expected: Outcome) -> None:
    """The reference engine without rounding, as gradient checks run it; the network does not outlive the block."""
    arrays = plan.input_arrays()
    net = Network(plan)
    with float64_memory(), untouched(net, np.float64):
        for training, wanted in ((False, expected.at_first), (True, expected.outputs)):
            where = f"float64, {'training' if training else 'inference'}"
            for i, (y, z) in enumerate(zip(listed(net.set_mode(training)(*arrays)), wanted, strict=True)):
                compare(f"{where}: output {i}", y, z, WIDE)
        gradients = net.backward(structured(plan.cotangents(expected.outputs)))
        _check_gradients(where, plan, net, listed(gradients), expected, WIDE)


def _check_native(plan: Plan, expected: Outcome) -> None:
    """Float32 on the engine in use, by every way that runs it."""
    arrays = narrow(plan.input_arrays())
    now, first, steps, last = (kink > SMALLEST_KINK for kink in expected.kinks)
    net = Network(plan)
    if first:
        net.set_mode(False)
        _check_inference("inference", plan, net, arrays, expected.at_first)
        net.set_mode(True)
    if not now:
        return
    before = {name: array.copy() for name, array in net.state_dict().items()}
    cotangents = structured(plan.cotangents(expected.outputs))
    for turn in ("first run", "second run"):  # recorded, then replayed
        net.load_state_dict(before)
        for i, (y, z) in enumerate(zip(listed(net(*arrays)), expected.outputs, strict=True)):
            compare(f"{turn}: output {i}", y, z, NARROW)
        gradients = net.backward(cotangents)
        _check_gradients(turn, plan, net, listed(gradients), expected, NARROW)
    if not any(plan.is_trained(*key) and p.used for key, p in net.by_key().items()):
        return
    _check_fewer_gradients(net, arrays, cotangents)
    if expected.decays_without_gradient:  # which nn does, and PyTorch does not
        return
    if steps and all(np.abs(p).max() < 5 * LARGEST for p in expected.parameters.values() if p.size):
        net.load_state_dict(before)
        net(*arrays)  # moves the statistics, as it did for what is expected
        _check_training(plan, net, expected)
        if last:
            _check_after_training(plan, net.set_mode(False), arrays, expected)


def _check_after_training(plan: Plan, net: Network, arrays: Sequence[Array], expected: Outcome) -> None:
    """The weights that training left are those of inference; training may have made much of a rounding error in a step."""
    where, fresh = "inference after training", Network(plan).set_mode(False)
    fresh.load_state_dict(net.state_dict())
    for i, (y, z) in enumerate(zip(listed(net(*arrays)), listed(fresh(*arrays)), strict=True)):
        if y.tobytes() != z.tobytes():
            raise Disagreement(f"{where}: output {i} differs from that of a new network with the same weights")
    for key, parameter in net.by_key().items():
        parameter.data[...] = expected.parameters[key]
    _check_inference(where, plan, net, arrays, expected.at_last)


def _check_inference(where: str, plan: Plan, net: Network, arrays: Sequence[Array], wanted: Sequence[Array]) -> None:
    actual = listed(net(*arrays))
    for i, (y, z) in enumerate(zip(actual, wanted, strict=True)):
        compare(f"{where}: output {i}", y, z, NARROW)
    infer = net.compile_inference(plan.batch)
    for turn in ("first", "second"):
        for i, (y, z) in enumerate(zip(listed(infer(*arrays)), wanted, strict=True)):
            compare(f"{where}: output {i} of compile_inference, {turn} call", y, z, NARROW)
    _check_threads(where, plan, net, arrays, actual)


def _check_threads(where: str, plan: Plan, net: Network, arrays: Sequence[Array], wanted: Sequence[Array]) -> None:
    """Two threads, each with samples of its own, get the results that one thread gets, bit by bit."""
    others = narrow(plan.input_arrays(1))
    expected = [wanted, listed(net(*others))]
    wrong: list[str] = []

    def call(number: int, samples: Sequence[Array]) -> None:
        for _ in range(5):
            for i, (y, z) in enumerate(zip(listed(net(*samples)), expected[number], strict=True)):
                if y.tobytes() != np.asarray(z).tobytes():
                    wrong.append(f"{where}: output {i} of thread {number} while another thread calls")

    threads = [Thread(target=call, args=pair) for pair in enumerate((arrays, others))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise Disagreement(wrong[0])


def _check_fewer_gradients(net: Network, arrays: Sequence[Array], cotangents: Any) -> None:
    """Without those of the inputs, the gradients of the parameters are the same, bit by bit."""
    net(*arrays)
    net.backward(cotangents)
    gradients = {key: p.grad.copy() for key, p in net.by_key().items() if p.used}
    net(*arrays)
    net.backward(cotangents, input_gradient=False)
    for (i, name), parameter in net.by_key().items():
        if parameter.used and parameter.grad.tobytes() != gradients[i, name].tobytes():
            raise Disagreement(f"gradient of {name} of layer {i} without those of the inputs differs")


def _check_training(plan: Plan, net: Network, expected: Outcome) -> None:
    """Some steps of the optimizer, by hand and compiled: the same to the last bit, and as expected."""
    copy = Network(plan)
    copy.load_state_dict(net.state_dict())
    losses = [getattr(nn, kind)(**options) for kind, options in plan.losses]
    kind, options = plan.optimizer
    optimizer = getattr(nn, kind)(net.parameters(), **options)
    compiled = copy.compile_step(
        losses if len(losses) > 1 else losses[0],
        getattr(nn, kind)(copy.parameters(), **options),
        plan.batch,
    )
    for number in range(STEPS):
        arrays = narrow(plan.input_arrays(number))
        targets = narrow(plan.targets(expected.outputs))
        outputs = listed(net(*arrays))
        pairs = [loss(y, t) for loss, y, t in zip(losses, outputs, targets, strict=True)]
        value = sum(float(value) for value, _ in pairs)
        net.backward(structured([gradient for _, gradient in pairs]), input_gradient=False)
        optimizer.step()
        compare(f"loss of step {number}", value, expected.losses[number], 5 * NARROW)
        at_once = compiled(structured(arrays), structured(targets))
        compare(f"loss of compiled step {number}", at_once, value, 1e-6)
    by_hand, at_once = net.state_dict(), copy.state_dict()
    for name, array in by_hand.items():
        if array.tobytes() != at_once[name].tobytes():
            raise Disagreement(f"{name} after {STEPS} compiled steps differs from that after {STEPS} steps by hand")
    for (i, name), parameter in net.by_key().items():
        compare(f"{name} of layer {i} after {STEPS} steps", parameter.data, expected.parameters[i, name], 10 * NARROW)


def compare_outcomes(one: Outcome, other: Outcome) -> None:
    """Two outcomes in float64, for what any autograd must give: an autograd of ours is checked by PyTorch's."""
    for name in ("outputs", "at_first", "at_last", "losses"):
        for i, (a, b) in enumerate(zip(getattr(one, name), getattr(other, name), strict=True)):
            compare(f"tape: {name} {i}", a, b, WIDE)
    for key, gradient in one.gradients.items():
        compare(f"tape: gradient of {key}", gradient, other.gradients[key], WIDE)
        compare(f"tape: {key} at last", one.parameters[key], other.parameters[key], WIDE)
    for i, (a, b) in enumerate(zip(one.input_gradients, other.input_gradients, strict=True)):
        compare(f"tape: gradient of input {i}", a, b, WIDE)


# Failures.

Expected = Callable[[Plan], Outcome]


def failure_of(plan: Plan, expected: Expected = outcome_on_tape) -> str | None:
    """The first fault of a plan in ``nn``; None if there is none."""
    try:
        check(plan, expected(plan))
    except Exception as error:  # a crash is a failure like any other
        return f"{type(error).__name__}: {error}"
    return None


def report(plan: Plan, expected: Expected = outcome_on_tape) -> str:
    """The fault of a network, and the smallest network that fails in the same way."""
    told = failure_of(plan, expected)
    assert told is not None
    kind = told.split(":")[0]

    def fails(candidate: Plan) -> bool:
        try:
            outcome_on_tape(candidate)
        except Exception:
            return False  # no network at all
        return (failure_of(candidate, expected) or "").startswith(kind)

    small = smallest(plan, fails)
    return f"{told}\nThe smallest network that fails: {failure_of(small, expected)}\n{small}"

"""Optimizers of networks: steps from PyTorch's formulas in float64, settings of groups, states, several batches per step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import Array
from networks import Net, copies, numbers, problem
from openbnns import GradientClipping, nn
from openbnns.nn.checkpoints import CheckpointError

# The algorithms as PyTorch's pages state them, for one parameter: (w, gradient, memory, step, settings) -> w.


def sgd(w: Array, g: Array, kept: dict[str, Array], t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0) * w
    if o.get("momentum"):
        kept["b"] = g if t == 1 else o["momentum"] * kept["b"] + (1 - o.get("dampening", 0)) * g
        g = g + o["momentum"] * kept["b"] if o.get("nesterov") else kept["b"]
    return np.asarray(w - o["lr"] * g)


def adam(w: Array, g: Array, kept: dict[str, Array], t: int, o: dict[str, Any]) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    if o.get("decoupled"):
        w = w - o["lr"] * o.get("weight_decay", 0.01) * w
    else:
        g = g + o.get("weight_decay", 0) * w
    kept["m"] = b1 * kept.get("m", 0 * w) + (1 - b1) * g
    kept["v"] = b2 * kept.get("v", 0 * w) + (1 - b2) * g * g
    v = kept["v"]
    if o.get("amsgrad"):
        v = kept["x"] = np.maximum(kept.get("x", 0 * w), v)
    root = np.sqrt(v / (1 - b2**t)) + o.get("eps", 1e-8)
    return np.asarray(w - o["lr"] * kept["m"] / (1 - b1**t) / root)


def rmsprop(w: Array, g: Array, kept: dict[str, Array], t: int, o: dict[str, Any]) -> Array:
    a = o.get("alpha", 0.99)
    g = g + o.get("weight_decay", 0) * w
    kept["v"] = a * kept.get("v", 0 * w) + (1 - a) * g * g
    v = kept["v"]
    if o.get("centered"):
        kept["u"] = a * kept.get("u", 0 * w) + (1 - a) * g
        v = v - kept["u"] ** 2
    step = g / (np.sqrt(v) + o.get("eps", 1e-8))
    if o.get("momentum"):
        step = kept["b"] = o["momentum"] * kept.get("b", 0 * w) + step
    return np.asarray(w - o["lr"] * step)


def adagrad(w: Array, g: Array, kept: dict[str, Array], t: int, o: dict[str, Any]) -> Array:
    g = g + o.get("weight_decay", 0) * w
    kept["s"] = kept.get("s", 0 * w + o.get("initial_accumulator_value", 0)) + g * g
    rate = o["lr"] / (1 + (t - 1) * o.get("lr_decay", 0))
    return np.asarray(w - rate * g / (np.sqrt(kept["s"]) + o.get("eps", 1e-10)))


def adamax(w: Array, g: Array, kept: dict[str, Array], t: int, o: dict[str, Any]) -> Array:
    b1, b2 = o.get("betas", (0.9, 0.999))
    g = g + o.get("weight_decay", 0) * w
    kept["m"] = b1 * kept.get("m", 0 * w) + (1 - b1) * g
    kept["u"] = np.maximum(b2 * kept.get("u", 0 * w), np.abs(g) + o.get("eps", 1e-8))
    return np.asarray(w - o["lr"] / (1 - b1**t) * kept["m"] / kept["u"])


CASES: dict[str, tuple[Any, Callable[..., Array], dict[str, Any]]] = {
    "sgd": (nn.SGD, sgd, {}),
    "sgd, decay": (nn.SGD, sgd, {"weight_decay": 0.3}),
    "sgd, momentum": (nn.SGD, sgd, {"momentum": 0.9, "weight_decay": 0.1}),
    "sgd, dampening": (nn.SGD, sgd, {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.1}),
    "sgd, all of it damped": (nn.SGD, sgd, {"momentum": 0.9, "dampening": 1.0}),
    "sgd, dampening alone": (nn.SGD, sgd, {"dampening": 0.4}),
    "sgd, nesterov": (nn.SGD, sgd, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    "adam": (nn.Adam, adam, {"weight_decay": 0.1, "eps": 1e-3}),
    "adam, amsgrad": (nn.Adam, adam, {"amsgrad": True, "betas": (0.8, 0.9)}),
    "adamw": (nn.AdamW, lambda *a: adam(*a[:4], {**a[4], "decoupled": True}), {"weight_decay": 0.2}),
    "rmsprop": (nn.RMSprop, rmsprop, {"alpha": 0.9, "eps": 1e-2}),
    "rmsprop, all": (nn.RMSprop, rmsprop, {"momentum": 0.7, "centered": True, "weight_decay": 0.1, "eps": 1e-2}),
    "adagrad": (nn.Adagrad, adagrad, {}),
    "adagrad, all": (
        nn.Adagrad, adagrad, {"lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-2},
    ),
    "adamax": (nn.Adamax, adamax, {}),
    "adamax, all": (nn.Adamax, adamax, {"betas": (0.7, 0.8), "eps": 0.3, "weight_decay": 0.2}),
}  # fmt: skip


def gradients(i: int) -> list[Array]:
    """Gradients of two parameters: of 37 numbers, so that vectors have a rest, and of 6."""
    return [numbers(37, seed=2 * i) * 2.0 ** (i % 5), numbers(2, 3, seed=2 * i + 1)]


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(numbers(37, seed=100)), nn.Parameter(numbers(2, 3, seed=101))]


def run(optimizer: nn.Optimizer, begin: int, end: int) -> None:
    for i in range(begin, end):
        for p, g in zip(optimizer.parameters, gradients(i), strict=True):
            p.grad = g
        optimizer.step()


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_steps(name: str, engine: Any, maximize: bool) -> None:
    make, formula, options = CASES[name]
    ours = parameters()
    wanted, memory = [np.float64(p.data) for p in ours], [{}, {}]  # type: ignore[var-annotated]
    with bn.engine(engine):
        optimizer = make(ours, lr=0.05, maximize=maximize, **options)
        for i in range(12):
            rate = 0.05 / (1 + i % 3)
            optimizer.lr = rate
            for k, g in enumerate(gradients(i)):
                ours[k].grad = g
                signed = np.float64(g) * (-1 if maximize else 1)
                wanted[k] = formula(wanted[k], signed, memory[k], i + 1, {**options, "lr": rate})
            optimizer.step()
    for p, w in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(p.data, w, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("make", [nn.Adagrad, nn.Adamax])
def test_clipping_and_frozen_parameters(make: Any) -> None:
    """The optimizers that are ours prepare gradients as those of BNNS do."""
    ours, others = parameters(), parameters()
    clipped = make(ours, lr=0.1, clipping=GradientClipping.by_global_norm(0.5))
    plain = make(others, lr=0.1)
    for i in range(3):
        given = gradients(i)
        norm = np.sqrt(sum(float(np.sum(np.float64(g) ** 2)) for g in given))
        for k, g in enumerate(given):
            ours[k].grad, others[k].grad = g, g * min(1, 0.5 / norm)
        clipped.step()
        plain.step()
    for p, q in zip(ours, others, strict=True):
        np.testing.assert_allclose(p.data, q.data, rtol=1e-5, atol=1e-6)
    ours[1].requires_grad = False
    before = ours[1].data.copy()
    run(clipped, 3, 4)
    np.testing.assert_array_equal(ours[1].data, before)


# Settings of groups.


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (lambda p: nn.SGD(p, lr=0.1, momentum=0.9), "momentum", 0.5),
        (lambda p: nn.SGD(p, lr=0.1, momentum=0.9), "nesterov", True),
        (lambda p: nn.SGD(p, lr=0.1, momentum=0.9), "dampening", 0.5),
        (lambda p: nn.SGD(p, lr=0.1), "weight_decay", 0.5),
        (lambda p: nn.Adam(p, lr=0.1), "betas", (0.5, 0.6)),
        (lambda p: nn.AdamW(p, lr=0.1), "weight_decay", 0.9),
        (lambda p: nn.AdamW(p, lr=0.1), "maximize", True),
        (lambda p: nn.RMSprop(p, lr=0.1), "eps", 0.5),
        (lambda p: nn.Adagrad(p, lr=0.1), "lr_decay", 0.5),
        (lambda p: nn.Adamax(p, lr=0.1), "eps", 0.5),
    ],
)
def test_settings_can_change_between_steps(make: Callable[..., nn.Optimizer], name: str, value: Any) -> None:
    """From there on, it goes as with an optimizer that has the accumulators of this one and the new setting."""
    ours, others = parameters(), parameters()
    first = make(ours)
    run(first, 0, 3)
    first.param_groups[0][name] = value
    assert first.param_groups[0][name] == value
    state = {key: array.copy() for key, array in first.state_dict().items()}
    options = {key: setting for key, setting in first.param_groups[0].items() if key not in ("params", "lr", name)}
    second = type(first)(others, lr=0.1, **options, **{name: value})  # type: ignore[call-arg]
    second.load_state_dict(state, settings=False)
    for p, q in zip(others, ours, strict=True):
        p.data = q.data
    run(first, 3, 6)
    run(second, 3, 6)
    unchanged = parameters()
    third = make(unchanged)
    run(third, 0, 6)
    for p, q, r in zip(ours, others, unchanged, strict=True):
        np.testing.assert_array_equal(p.data, q.data)
        assert not np.array_equal(p.data, r.data)


def test_settings_that_cannot_change() -> None:
    sgd = nn.SGD(parameters(), lr=0.1)
    group = sgd.param_groups[0]
    for name, value, error, message in [
        (
            "momentum",
            0.9,
            ValueError,
            r"SGD: momentum cannot go from 0\.0 to 0\.9, because that takes other accumulators",
        ),
        ("momentun", 0.9, KeyError, "'momentun' cannot be set. Did you mean 'momentum'"),
        ("params", [], KeyError, "Use add_param_group"),
        ("weight_decay", -1, ValueError, "weight_decay is -1"),
        ("lr", -1, ValueError, "lr is -1. It must be at least 0"),
        ("lr", "0.1", TypeError, "lr must be a number, not str"),
    ]:
        with pytest.raises(error, match=message):
            group[name] = value
    assert group["momentum"] == 0.0 and group["weight_decay"] == 0.0 and group["lr"] == 0.1
    with pytest.raises(AttributeError, match=r"param_groups\[0\]\[name\] = value"):
        sgd.momentum = 0.9  # type: ignore[attr-defined]
    for make, message in [
        (lambda: nn.SGD(0.1, momentum=0.9, dampening=0.5, nesterov=True), "nesterov needs dampening 0, not 0.5"),
        (lambda: nn.SGD(0.1, momentum=0.9, dampening=2), "dampening is 2. It must be between 0 and 1"),
        (lambda: nn.Adamax(betas=(1.0, 0.9)), "beta1 is 1. It must be below 1"),
        (lambda: nn.Adagrad(lr_decay=-1), "lr_decay is -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match="maximize must be True or False, not 1"):
        nn.Adam(0.1, maximize=1)  # type: ignore[arg-type]


def test_groups_can_be_added() -> None:
    ours, others = parameters(), parameters()
    one = nn.Adam(ours[:1], lr=0.1)
    alone = [nn.Adam(others[:1], lr=0.1), nn.Adam(others[1:], lr=0.02, eps=0.1)]
    for i in range(6):
        if i == 3:
            one.add_param_group({"params": ours[1], "lr": 0.02, "eps": 0.1})
        for k, g in enumerate(gradients(i)):
            ours[k].grad = others[k].grad = g
        one.step()
        alone[0].step()
        if i >= 3:
            alone[1].step()
    for p, q in zip(ours, others, strict=True):
        np.testing.assert_array_equal(p.data, q.data)
    assert [group["lr"] for group in one.param_groups] == [0.1, 0.02]
    with pytest.raises(ValueError, match="a parameter is given more than once"):
        one.add_param_group({"params": ours[0]})
    with pytest.raises(ValueError, match="no option 'momentum'"):
        one.add_param_group({"params": [nn.Parameter([1.0])], "momentum": 0.5})
    with pytest.raises(ValueError, match="made without parameters"):
        nn.SGD(0.1).add_param_group({"params": ours[0]})
    assert len(one.param_groups) == 2 and len(one.parameters) == 2


# States.


@pytest.mark.parametrize("name", CASES)
def test_going_on_from_a_state(name: str) -> None:
    make, _, options = CASES[name]
    whole, first, later = parameters(), parameters(), parameters()
    run(make(whole, lr=0.05, **options), 0, 9)
    begun = make(first, lr=0.05, **options)
    run(begun, 0, 4)
    for p, q in zip(later, first, strict=True):
        p.data = q.data
    going = (
        make(later, lr=0.7)
        if "momentum" not in options and not options.get("amsgrad")
        else make(later, lr=0.7, **options)
    )
    going.load_state_dict({key: array.copy() for key, array in begun.state_dict().items()})
    assert [{**group, "params": 0} for group in going.param_groups] == [{**g, "params": 0} for g in begun.param_groups]
    run(going, 4, 9)
    for p, q in zip(later, whole, strict=True):
        np.testing.assert_array_equal(p.data, q.data)


def test_a_state_holds_the_settings_of_every_group() -> None:
    groups = [
        {"params": p, "lr": rate, "weight_decay": rate / 2} for p, rate in zip(parameters(), (0.3, 0.0), strict=True)
    ]
    one = nn.SGD(groups, lr=0.1, momentum=0.9)
    one.lr = 0.05
    two = nn.SGD([{"params": p} for p in parameters()], lr=0.1, momentum=0.5)
    two.load_state_dict(one.state_dict())
    assert [group["lr"] for group in two.param_groups] == pytest.approx([0.15, 0.0]) and two.lr == 0.05
    assert [group["weight_decay"] for group in two.param_groups] == [0.15, 0.0]
    assert [group["momentum"] for group in two.param_groups] == [0.9, 0.9]
    two.lr = 0.1
    assert [group["lr"] for group in two.param_groups] == pytest.approx([0.3, 0.0])
    bare = {name: array for name, array in one.state_dict().items() if not name.startswith("settings.")}
    three = nn.SGD([{"params": p} for p in parameters()], lr=0.7, momentum=0.5)
    with pytest.raises(ValueError, match=r"missing: settings\."):
        three.load_state_dict(bare)
    three.load_state_dict(bare, settings=False)
    assert three.lr == 0.7 and three.param_groups[0]["momentum"] == 0.5


def test_states_that_do_not_fit() -> None:
    sgd = nn.SGD(parameters(), lr=0.1, momentum=0.9)
    run(sgd, 0, 2)
    before = {name: array.copy() for name, array in sgd.state_dict().items()}
    for state, message in [
        (
            nn.Adam(parameters(), lr=0.5).state_dict(),
            r"has 4 accumulators, 2 are needed \(missing: settings.damp.*not known: acc",
        ),
        ({**before, "settings.momentum": np.array([2.0])}, "momentum is 2.0. It must be between 0 and 1"),
        ({**before, "steps": np.zeros(3)}, r"steps has shape \(3,\), not \(2,\)"),
        ({**before, "settings.lr": np.zeros(2)}, r"settings.lr has shape \(2,\), not \(1,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            sgd.load_state_dict(state)
    for name, array in sgd.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def fit(folder: Path, epochs: int, optimizer: nn.Optimizer, resume: Any = False) -> nn.Module:
    x, y = problem()
    net = Net().build((4,), seed=0)
    nn.Trainer(net, optimizer=optimizer, batch_size=16, out=folder, quiet=True).fit(x, y, epochs=epochs, resume=resume)
    return net


@pytest.mark.parametrize("name", CASES)
def test_trainers_resume_with_every_optimizer(name: str, tmp_path: Path) -> None:
    make, _, options = CASES[name]
    whole = copies(fit(tmp_path / "a", 4, make(0.01, **options)))
    fit(tmp_path / "b", 2, make(0.01, **options))
    for key, array in fit(tmp_path / "b", 4, make(0.01, **options), True).state_dict().items():
        np.testing.assert_array_equal(array, whole[key])


def test_trainers_notice_and_keep_their_own_settings(tmp_path: Path) -> None:
    fit(tmp_path, 2, nn.SGD(0.01, momentum=0.9))
    with pytest.raises(CheckpointError, match=r"optimizer, dampening: None in the checkpoint, 0\.5 now"):
        fit(tmp_path, 4, nn.SGD(0.01, momentum=0.9, dampening=0.5), True)
    sgd = nn.SGD(0.02, momentum=0.5, dampening=0.5)
    fit(tmp_path, 4, sgd, "override")
    group = sgd.param_groups[0]
    assert (group["lr"], group["momentum"], group["dampening"]) == (0.02, 0.5, 0.5)


# Several batches per step.


def test_gradients_of_several_batches() -> None:
    x, y = problem(24)
    ours, theirs = (nn.Sequential(nn.Linear(5), nn.Tanh(), nn.Linear(3)).build((4,), seed=0) for _ in range(2))
    mine, other = nn.Adam(ours.parameters(), lr=0.1), nn.Adam(theirs.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for _ in range(3):
        for start in range(0, 24, 8):
            batch = slice(start, start + 8)
            _, gradient = criterion(ours(x[batch]), y[batch])
            ours.backward(gradient, accumulate=mine.waiting)
            mine.step(every=3)
            assert mine.waiting == (start < 16)
        _, gradient = criterion(theirs(x), y)
        theirs.backward(gradient)
        other.step()
    assert mine.state_dict()["steps"].tolist() == [3, 3, 3, 3]
    for name, array in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name], array, rtol=1e-4, atol=1e-5)


def test_a_rest_of_batches() -> None:
    (p,) = [nn.Parameter(np.zeros(1))]
    sgd = nn.SGD([p], lr=1.0)
    p.grad = [3.0]
    sgd.step(every=4)
    p.grad = p.grad + 1.0
    assert sgd.waiting and not p.data.any()
    sgd.step()  # the mean of both
    assert not sgd.waiting and p.data.tolist() == [-2.0]
    p.grad = [5.0]
    sgd.step(every=2)
    sgd.zero_grad()
    assert not sgd.waiting and p.grad.tolist() == [0.0]
    with pytest.raises(ValueError, match=r"SGD\.step: every is 0\. It must be at least 1"):
        sgd.step(every=0)
    with pytest.raises(TypeError, match=r"every must be a whole number"):
        sgd.step(every=1.5)  # type: ignore[arg-type]

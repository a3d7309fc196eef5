"""Which parameters are trained: those handed to the optimizer, and of these not the frozen ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from networks import NETWORKS, Net, changed, copies, numbers, problem
from openbnns import AdamOptimizer, GradientClipping, compat, nn
from openbnns.nn.checkpoints import CheckpointError
from openbnns.nn.recording import recorded_graph

HEAD = {"head.weight", "head.bias"}
STATISTICS = {"body.1.running_mean", "body.1.running_var"}


# Parameters handed to the optimizer.


@pytest.mark.parametrize("when", ["before it is built", "after"])
def test_only_the_parameters_handed_over_are_trained(when: str) -> None:
    x, y = problem()
    net = Net()
    if when == "after":
        net.build((4,), seed=0)
    optimizer = nn.AdamW(net.head.parameters(), lr=0.05, weight_decay=0.1)
    net.build((4,), seed=0)
    before = copies(net)
    history = nn.Trainer(net, optimizer=optimizer, quiet=True).fit(x, y, epochs=3)
    assert changed(net, before) == HEAD | STATISTICS
    assert history[-1]["loss"] < history[0]["loss"]


def test_several_lists_of_parameters() -> None:
    x, y = problem()
    net = Net().build((4,), seed=0)
    before = copies(net)
    optimizer = nn.SGD([*net.head.parameters(), *net.body[3].parameters()], lr=0.1)
    nn.Trainer(net, optimizer=optimizer, quiet=True).fit(x, y, epochs=1)
    assert changed(net, before) == HEAD | STATISTICS | {"body.3.weight", "body.3.bias"}


def test_groups_have_options_of_their_own() -> None:
    net = nn.Sequential(nn.Linear(3), nn.Linear(2)).build((4,), seed=0)
    for p in net.parameters():
        p.grad = np.ones(p.shape)
    before = copies(net)
    groups = [{"params": net[0].parameters(), "lr": 0.25, "weight_decay": 1.0}, {"params": net[1].parameters()}]
    optimizer = nn.SGD(groups, lr=0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5]
    assert optimizer.param_groups[0]["weight_decay"] == 1.0 and optimizer.param_groups[1]["weight_decay"] == 0.0
    optimizer.step()
    np.testing.assert_allclose(net[0].weight.data, before["0.weight"] - 0.25 * (1 + before["0.weight"]), rtol=1e-6)
    np.testing.assert_allclose(net[1].weight.data, before["1.weight"] - 0.5, rtol=1e-6)
    optimizer.lr = 0.1  # as schedules do: shares stay
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.05, 0.1])
    optimizer.param_groups[0]["lr"] = 0.3
    optimizer.lr = 0.2
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.6, 0.2])
    single = nn.SGD([{"params": list(net.parameters()), "lr": 0.125}], lr=0.5)
    assert single.lr == single.param_groups[0]["lr"] == 0.125
    single.param_groups[0]["lr"] = 0.0
    assert single.lr == 0.0
    single.lr = 0.5
    assert single.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: nn.SGD([{"params": p, "momentun": 0.9}]), ValueError, "no option 'momentun'. Did you mean 'momentum'"),
        (lambda p: nn.SGD([{"lr": 0.1}]), TypeError, r"a group of parameters is \{'lr': 0.1\}. Pass \{'params'"),
        (lambda p: nn.SGD([{"params": []}]), ValueError, "a group has no parameters to train"),
        (lambda p: nn.SGD([]), ValueError, "there are no parameters to train"),
        (lambda p: nn.SGD([*p, p[0]]), ValueError, "a parameter is given more than once"),
        (lambda p: nn.SGD([{"params": p}, {"params": p[:1]}]), ValueError, "a parameter is given more than once"),
        (lambda p: nn.SGD([{"params": p[:1], "lr": 1.0}, {"params": p[1:]}], lr=0.0), ValueError, "lr must not be 0"),
        (lambda p: nn.SGD([{"params": p, "momentum": 2.0}]), ValueError, "momentum is 2.0"),
        (lambda p: nn.SGD([{"params": 5}]), TypeError, "not iterable"),
        (lambda p: nn.SGD(p, dampening=1.5), ValueError, "dampening is 1.5. It must be between 0 and 1"),
        (lambda p: nn.SGD(p, nesterov=True), ValueError, "nesterov needs momentum"),
    ],
)  # fmt: skip
def test_bad_groups(make: Callable[[list[nn.Parameter]], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(list(nn.Linear(3, 2).build((3,)).parameters()))


def test_parameters_of_another_network_are_refused() -> None:
    x, y = problem()
    net, other = Net().build((4,), seed=0), Net().build((4,), seed=1)
    before = copies(net)
    with pytest.raises(
        ValueError, match=r"Adam: 2 of the 2 parameters that it was given, such as .*are not of this network"
    ):
        nn.Trainer(net, optimizer=nn.Adam(other.head.parameters(), lr=0.1), quiet=True).fit(x, y, epochs=1)
    mixed = nn.Adam([*net.head.parameters(), *other.head.parameters()], lr=0.1)
    with pytest.raises(ValueError, match="2 of the 4 parameters"):
        nn.Trainer(net, optimizer=mixed, quiet=True).fit(x, y, epochs=1)
    optimizer = nn.Adam(net.parameters(), lr=0.1)
    net.head = nn.Linear(3)  # made after the optimizer, which would train the one before
    with pytest.raises(ValueError, match="after the last of its parts was replaced"):
        nn.Trainer(net, optimizer=optimizer, quiet=True).fit(x, y, epochs=1)
    assert all(np.array_equal(array, before[name]) for name, array in net.state_dict().items() if name not in HEAD)


def test_an_optimizer_without_parameters_takes_the_network_of_its_trainer() -> None:
    x, y = problem()
    optimizer = nn.Adam(0.05)
    for seed in (0, 1):
        net = Net().build((4,), seed=seed)
        before = copies(net)
        nn.Trainer(net, optimizer=optimizer, quiet=True).fit(x, y, epochs=1)
        assert changed(net, before) == set(before)


# Frozen parameters.


@pytest.mark.parametrize("name", NETWORKS)
def test_frozen_parameters_get_no_gradient_and_the_others_the_same(name: str, engine: str) -> None:
    net, shape = NETWORKS[name]()
    net.build(shape, seed=1)
    x = numbers(4, *shape)
    dy = numbers(*net(x).shape, seed=2)
    dx = net.backward(dy)
    wanted = {path: p.grad.copy() for path, p in net.named_parameters()}
    random = np.random.RandomState(3)
    for choice in range(8):
        frozen = {path for path in wanted if random.random_sample() < 0.5} if choice else set(wanted)
        for path, p in net.named_parameters():
            p.requires_grad = path not in frozen
            p.grad = np.full(p.shape, 7.0)
        for input_gradient in (True, False):
            net(x)
            given = net.backward(dy, input_gradient=input_gradient)
            if input_gradient:
                np.testing.assert_allclose(given, dx, rtol=1e-5, atol=1e-6)
            else:
                assert given is None
            for path, p in net.named_parameters():
                if path in frozen:
                    assert (p.grad == 7).all(), path
                else:
                    np.testing.assert_allclose(p.grad, wanted[path], rtol=1e-5, atol=1e-6, err_msg=path)
                    p.grad = np.full(p.shape, 5.0)


def test_frozen_gradients_with_accumulation() -> None:
    net = Net().build((4,), seed=0)
    net.body.requires_grad_(False)
    x, dy = numbers(6, 4), numbers(6, 3, seed=1)
    net(x)
    net.backward(dy)
    once = net.head.weight.grad.copy()
    net.body[0].weight.grad = np.ones((6, 4))
    net(x)
    net.backward(dy, accumulate=True)
    np.testing.assert_allclose(net.head.weight.grad, 2 * once, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(net.body[0].weight.grad, np.ones((6, 4)))


def test_backward_ends_at_the_first_trained_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(5), nn.Linear(4), nn.Linear(3), nn.Linear(2)).build((6,), seed=0)
    net[:2].requires_grad_(False)
    asked: list[tuple[int, bool, list[bool]]] = []
    ran: list[int] = []
    for i, operation in enumerate(recorded_graph(net).operations):

        def backward(x: Any, y: Any, dy: Any, dx: Any, dp: Any, i: int = i, make: Any = operation.backward) -> Any:
            asked.append((i, dx[0] is not None, [g is not None for g in dp]))
            call = make(x, y, dy, dx, dp)
            return lambda: (ran.append(i), call())

        monkeypatch.setattr(operation, "backward", backward)
    net[2].bias.requires_grad = False
    program = net.program(3, training=True)
    program.backward()
    assert asked == [(3, True, [True, True]), (2, False, [True, False])] and ran == [3, 2]
    asked.clear()
    ran.clear()
    net(numbers(3, 6))
    net.backward(numbers(3, 2))
    # The last trained layer is there twice: to pass the gradient on, and to end with.
    assert [entry[:2] for entry in asked] == [(3, True), (2, True), (2, False), (1, True), (0, True)]
    assert [entry[2] for entry in asked] == [[True, True], [True, False], [True, False], [False, False], [False, False]]
    assert ran == [3, 2, 1, 0]
    ran.clear()
    with pytest.raises(RuntimeError, match="or an earlier backward has used it up"):
        net.backward(numbers(3, 2))
    net(numbers(3, 6))
    net.backward(numbers(3, 2), input_gradient=False)
    assert ran == [3, 2]


def test_freezing_between_steps() -> None:
    x, dy = numbers(6, 4), numbers(6, 3, seed=1)
    net = Net().requires_grad_(False)  # before sizes are known
    net.build((4,), seed=0)
    optimizer = nn.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.5)

    def step() -> set[str]:
        before = copies(net)
        net(x)
        net.backward(dy)
        optimizer.step()
        return changed(net, before)

    assert step() == STATISTICS
    net.head.requires_grad_()
    assert step() == HEAD | STATISTICS
    net.head.bias.requires_grad = False
    net.body[0].weight.requires_grad_(True)
    assert step() == {"head.weight", "body.0.weight"} | STATISTICS
    assert repr(net.head.bias) == "Parameter(shape=(3,), requires_grad=False)"
    assert net.requires_grad_() is net and step() == set(net.state_dict())


@pytest.mark.parametrize("make", [nn.Adam, nn.AdamW, nn.RMSprop, nn.SGD])
def test_every_parameter_counts_its_own_steps(make: Callable[..., nn.Optimizer]) -> None:
    """A parameter that was frozen at first is updated like one whose optimizer started later."""
    options = {"momentum": 0.9} if make in (nn.SGD, nn.RMSprop) else {}
    late, early, alone = (nn.Parameter(numbers(5, seed=seed)) for seed in (1, 2, 1))
    both, other = make([early, late], lr=0.1, **options), make([alone], lr=0.1, **options)
    late.requires_grad = False
    for i in range(12):
        late.requires_grad = i >= 6
        for p in (early, late, alone):
            p.grad = numbers(5, seed=20 + i)
        both.step()
        if i >= 6:
            other.step()
    np.testing.assert_array_equal(late.data, alone.data)


@pytest.mark.parametrize("groups", [False, True])
def test_clipping_counts_the_norm_of_what_is_trained(groups: bool) -> None:
    parameters = [nn.Parameter(np.zeros(2)) for _ in range(4)]
    gradients = [[3.0, 0.0], [0.0, 4.0], [100.0, 0.0], [0.0, 100.0]]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g
    given: Any = [{"params": parameters[:1]}, {"params": parameters[1:3], "lr": 2.0}] if groups else parameters[:3]
    sgd = nn.SGD(given, lr=1.0, clipping=GradientClipping.by_global_norm(1.0))
    parameters[2].requires_grad = False
    sgd.step()
    np.testing.assert_allclose(parameters[0].data, [-0.6, 0], rtol=1e-6)
    np.testing.assert_allclose(parameters[1].data, [0, -1.6 if groups else -0.8], rtol=1e-6)
    assert not parameters[2].data.any() and not parameters[3].data.any()
    parameters[1].requires_grad = False  # one bundle is left: its norm is its own, not the one known before
    parameters[0].data = [0, 0]
    sgd.step()
    np.testing.assert_allclose(parameters[0].data, [-1, 0], rtol=1e-6)


def test_nothing_to_train() -> None:
    x, y = problem()
    net = Net().requires_grad_(False)
    with pytest.raises(
        ValueError, match="nothing would be trained, because requires_grad is False for every parameter"
    ):
        nn.Trainer(net, quiet=True).fit(x, y, epochs=1)


def run(folder: Path | None, epochs: int, resume: bool = False, frozen: str = "body") -> nn.Module:
    x, y = problem()
    net = Net().build((4,), seed=0)
    getattr(net, frozen).requires_grad_(False)
    trainer = nn.Trainer(net, optimizer=nn.Adam(0.05), batch_size=16, clip_norm=0.5, out=folder, quiet=True)
    trainer.fit(x, y, epochs=epochs, resume=resume)
    assert trainer.history[-1]["gradient_norms"][f"{frozen}{'.0' if frozen == 'body' else ''}.weight"] == 0.0
    return net


def test_resuming_with_frozen_parameters(tmp_path: Path) -> None:
    whole = run(None, 4)
    fresh = Net().build((4,), seed=0)
    assert changed(whole, copies(fresh)) == HEAD | STATISTICS
    run(tmp_path, 2)
    assert not changed(run(tmp_path, 4, resume=True), copies(whole))
    with pytest.raises(
        CheckpointError, match=r"not trained: \['body\.0\.weight'.* in the checkpoint, \['head\.weight', "
    ):
        run(tmp_path, 6, resume=True, frozen="head")


def test_a_layer_that_is_never_called_does_not_stop_training() -> None:
    class Spare(Net):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.Linear(7)

    x, y = problem()
    net = Spare()
    optimizer = nn.Adam(net.parameters(), lr=0.01)
    nn.Trainer(net, optimizer=optimizer, quiet=True).fit(x, y, epochs=2)
    assert not net.spare.weight.sized and repr(net.spare.weight) == "Parameter(not built)"
    with pytest.raises(RuntimeError, match=r"Linear\.weight: has no values yet, because sizes are not known"):
        net.spare.weight.data  # noqa: B018


# What optimizers compute; tests/nn/test_training_vs_torch.py compares with PyTorch.


@pytest.mark.parametrize("eps", [1e-8, 0.5])
def test_adam_adds_epsilon_to_the_corrected_root(eps: float) -> None:
    """As PyTorch does, whatever the switch says; the layer class does as BNNS unless the switch says otherwise."""
    gradient = np.float32([0.01, -1, 30])
    for torch_form in (False, True):
        with compat.using(adam_epsilon_torch=torch_form):
            w, plain = nn.Parameter(np.zeros(3)), np.zeros(3, np.float32)
            w.grad = gradient
            nn.Adam([w], lr=0.1, eps=eps).step()
            np.testing.assert_allclose(w.data, -0.1 * gradient / (abs(gradient) + eps), rtol=1e-5)
            bnns = AdamOptimizer(learning_rate=0.1, epsilon=eps)
            bnns.step([plain], [gradient], bnns.zero_accumulators([plain]))
            scale = 1.0 if torch_form else np.sqrt(1e-3)
            np.testing.assert_allclose(plain, -0.1 * gradient / (abs(gradient) + eps / scale), rtol=1e-4)


def test_a_new_learning_rate_applies_to_the_momentum_of_rmsprop() -> None:
    """W -= lr d with d = momentum d + g / root: what was accumulated holds no learning rate."""
    w = nn.Parameter([0.0])
    optimizer = nn.RMSprop([w], lr=1.0, alpha=0.0, momentum=0.5)
    position, d = 0.0, 0.0
    for rate in (0.5, 0.0, 2.0, 2.0, 0.0, 0.25):
        optimizer.lr = rate
        w.grad = [4.0]  # alpha 0: the root is the gradient itself
        state = optimizer.state_dict()
        optimizer.step()
        d = 0.5 * d + 1.0
        position -= rate * d
        assert w.data[0] == pytest.approx(position, rel=1e-6) and optimizer.lr == rate
        again = nn.RMSprop([nn.Parameter([0.0])], lr=1.0, alpha=0.0, momentum=0.5)
        again.load_state_dict({name: array.copy() for name, array in optimizer.state_dict().items()})
        assert again.state_dict()["rates"].tolist() == [rate or 1.0]
        assert state["steps"].tolist() != again.state_dict()["steps"].tolist()
        optimizer, values = again, w.data
        (w,) = optimizer.parameters
        w.data = values


def test_a_parameter_of_one_number_has_no_axes(tmp_path: Path) -> None:
    """As PyTorch's, so that its weights load; NumPy's ``ascontiguousarray`` would give it one."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.linear = nn.Parameter(2.0), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.linear(x) * self.scale

    net = Scaled().build((3,), seed=0)
    assert net.scale.shape == net.scale.grad.shape == net.state_dict()["scale"].shape == ()
    net.load_state_dict({**net.state_dict(), "scale": np.float32(3.0)})
    x, dy = numbers(2, 3), numbers(2, 3, seed=1)
    y = net(x)
    net.backward(dy)
    np.testing.assert_allclose(net.scale.grad, (y / 3 * dy).sum(), rtol=1e-5)
    net.save(tmp_path / "net.safetensors")
    other = Scaled().build((3,), seed=1)
    other.load(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(other(x), y)

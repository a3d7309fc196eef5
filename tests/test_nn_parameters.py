"""Which parameters are trained: those handed to the optimizer, not the frozen ones; shared ones once; none in hiding."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import GradientClipping, nn
from openbnns.nn import weights
from openbnns.nn.checkpoints import CheckpointError
from test_nn import NETWORKS

Array = np.ndarray


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


class Net(nn.Module):
    """A body with running statistics, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6), nn.BatchNorm1d(), nn.Tanh(), nn.Linear(5), nn.ReLU())
        self.head = nn.Linear(3)

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.head(self.body(x))
        return value


def problem(count: int = 40) -> tuple[Array, Array]:
    return numbers(count, 4), np.random.RandomState(1).randint(0, 3, count)


def copies(net: nn.Module) -> dict[str, Array]:
    return {name: array.copy() for name, array in net.state_dict().items()}


def changed(net: nn.Module, before: dict[str, Array]) -> set[str]:
    return {name for name, array in net.state_dict().items() if not np.array_equal(array, before[name])}


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
        (lambda p: nn.SGD(p, dampening=0.5), ValueError, "dampening is 0.5, but BNNS has none"),
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


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", NETWORKS)
def test_frozen_parameters_get_no_gradient_and_the_others_the_same(name: str, engine: str) -> None:
    with openbnns.engine(engine):
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
    assert net._graph is not None
    asked: list[tuple[int, bool, list[bool]]] = []
    ran: list[int] = []
    for i, operation in enumerate(net._graph.operations):

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
    assert [entry[2] for entry in asked] == [[True, True], [True, False], [False, False], [False, False]]
    assert ran == [3, 2, 1, 0]
    ran.clear()
    with pytest.raises(RuntimeError, match="gone back through already, which uses up what it kept"):
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
    """One that was frozen at first goes the way of one that an optimizer of its own began with."""
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


# Shared parameters.


class Tied(nn.Module):
    """A language model whose last layer has the weights of the first."""

    def __init__(self, order: str = "out from emb", tie: bool = True) -> None:
        super().__init__()
        self.emb, self.mix, self.out = nn.Embedding(11, 6), nn.Linear(6), nn.Linear(11, bias=False)
        if tie:
            self.tie(order)

    def tie(self, order: str = "out from emb") -> None:
        if order == "out from emb":
            self.out.weight = self.emb.weight
        else:
            self.emb.weight = self.out.weight

    def forward(self, x: nn.Value) -> nn.Value:
        value: nn.Value = self.out(nn.Tanh()(self.mix(self.emb(x))))
        return value


TOKENS = np.random.RandomState(5).randint(0, 11, (4, 7))


def test_sharing_before_and_after_building_is_the_same() -> None:
    early, late = Tied().build((7,), seed=0), Tied(tie=False).build((7,), seed=0)
    late.tie()
    late.load_state_dict(early.state_dict())
    dy = numbers(4, 7, 11)
    for net in (early, late):
        assert net.out.weight is net.emb.weight
        assert [name for name, _ in net.named_parameters()] == ["emb.weight", "mix.weight", "mix.bias"]
        assert list(net.state_dict()) == ["emb.weight", "mix.weight", "mix.bias", "out.weight"]
        assert net.state_dict()["out.weight"] is net.state_dict()["emb.weight"]
        net(TOKENS)
        net.backward(dy)
    np.testing.assert_array_equal(early(TOKENS), late(TOKENS))
    np.testing.assert_array_equal(early.emb.weight.grad, late.emb.weight.grad)
    apart = Tied(tie=False).build((7,), seed=0)
    apart.load_state_dict(early.state_dict())
    apart(TOKENS)
    apart.backward(dy)
    np.testing.assert_allclose(
        early.emb.weight.grad, apart.emb.weight.grad + apart.out.weight.grad, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("order", ["out from emb", "emb from out"])
def test_shared_parameters_begin_as_the_layer_they_come_from_has_them(order: str) -> None:
    net = Tied(order).build((7,), seed=0)
    spread = float(net.emb.weight.data.std())
    bound = 1 / np.sqrt(6)
    if order == "out from emb":
        assert spread > 0.8  # standard normal
    else:
        assert abs(net.emb.weight.data).max() <= bound and spread > bound / 3


def test_shared_parameters_train_as_one() -> None:
    net = Tied()
    optimizer = nn.Adam(net.parameters(), lr=0.05)
    trainer = nn.Trainer(net, nn.CrossEntropyLoss(dim=-1), optimizer, quiet=True)
    history = trainer.fit(np.tile(TOKENS, (8, 1)), np.tile(TOKENS, (8, 1)), epochs=20)
    assert history[-1]["accuracy"] > 0.9 and net.out.weight is net.emb.weight
    assert len(optimizer.accumulators) == 2 * 3


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("built", [False, True])
def test_copies_share_what_is_shared(duplicate: Callable[[Tied], Tied], built: bool) -> None:
    net = Tied()
    if built:
        net.build((7,), seed=0)
    twin = duplicate(net)
    assert twin.out.weight is twin.emb.weight and twin.emb.weight is not net.emb.weight
    twin.build((7,), seed=0)
    net.build((7,), seed=0)
    np.testing.assert_array_equal(twin(TOKENS), net(TOKENS))


def test_shared_parameters_in_files(tmp_path: Path) -> None:
    path = tmp_path / "tied.safetensors"
    net, other, apart = Tied().build((7,), seed=0), Tied().build((7,), seed=1), Tied(tie=False).build((7,), seed=2)
    net.save(path)
    arrays, metadata = weights.decode(path.read_bytes(), str(path))
    assert sorted(arrays) == ["emb.weight", "mix.bias", "mix.weight"] and metadata == {"out.weight": "emb.weight"}
    assert other.load(path) == [] and other.out.weight is other.emb.weight
    np.testing.assert_array_equal(other(TOKENS), net(TOKENS))
    with pytest.raises(nn.Mismatch, match=r"out\.weight: missing"):
        apart.load(path)
    for name in ("emb.weight", "out.weight"):  # either name will do
        state = {key: value + 1 for key, value in net.state_dict().items() if key not in ("emb.weight", "out.weight")}
        other.load_state_dict({**state, name: np.full((11, 6), 3.0)})
        assert (other.emb.weight.data == 3).all()
    before = copies(other)
    with pytest.raises(
        nn.Mismatch, match=r"emb\.weight and out\.weight: one shared parameter of the network, but diff"
    ):
        other.load_state_dict(apart.state_dict())
    assert not changed(other, before)


def test_a_shared_layer_stands_under_both_names() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Linear(4), nn.BatchNorm1d())
            self.two = self.one

        def forward(self, x: nn.Value) -> nn.Value:
            value: nn.Value = self.two(self.one(x))
            return value

    net = Twice().build((4,), seed=0)
    names = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    assert list(net.state_dict()) == [f"{side}.{name}" for side in ("one", "two") for name in names]
    assert [name for name, _ in net.named_parameters()] == [f"one.{name}" for name in names[:4]]
    assert [name for name, _ in net.named_modules()] == ["", "one", "one.0", "one.1"]
    assert len(list(net.named_buffers())) == 2
    twin = Twice().build((4,), seed=1)
    twin.load_state_dict(net.state_dict())
    x = numbers(5, 4)
    np.testing.assert_array_equal(net(x), twin(x))


def test_shared_parameters_must_fit() -> None:
    net = nn.Sequential(nn.Linear(4), nn.Linear(5))
    net[1].weight = net[0].weight
    with pytest.raises(ValueError, match=r"Linear\.weight: has shape \(4, 3\), but \(5, 4\) is needed here"):
        net.build((3,))
    layer = nn.Linear(3, 2)
    layer.weight = None
    with pytest.raises(ValueError, match=r"Linear\.weight: is None\. Assign an nn\.Parameter of shape \(2, 3\)"):
        layer.build((3,))


def test_parameters_set_before_building_leave_the_others_alone() -> None:
    layer, norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
    layer.weight, norm.weight = nn.Parameter(np.ones((2, 3))), nn.Parameter([2.0, 3.0])
    net = nn.Sequential(layer, norm).build((3,), seed=0)
    assert sorted(net.state_dict()) == [
        "0.bias", "0.weight", "1.bias", "1.running_mean", "1.running_var", "1.weight",
    ]  # fmt: skip
    assert (layer.weight.data == 1).all() and norm.weight.data.tolist() == [2.0, 3.0]


# Modules in hiding.


def made(keep: Callable[[nn.Module], None], use: Callable[[Any, Any], Any]) -> nn.Module:
    class Hiding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4)
            keep(self)

        def forward(self, x: nn.Value) -> nn.Value:
            value: nn.Value = use(self, self.first(x))
            return value

    return Hiding()


def in_list(net: Any) -> None:
    net.layers = []
    net.layers.append(nn.Sequential(nn.ReLU(), nn.Linear(4)))


def in_tuple(net: Any) -> None:
    net.layers = ([nn.BatchNorm1d(affine=False)],)


def in_dict(net: Any) -> None:
    net._heads = {"left": nn.Linear(4)}


def put_in_forward(net: Any, x: Any) -> Any:
    net.late = nn.Linear(4)
    return net.late(x)


OUTSIDE = nn.Linear(4)


@pytest.mark.parametrize(
    ("keep", "use", "message"),
    [
        (in_list, lambda net, x: net.layers[0](x), r"Hiding\.layers is a list that holds a Linear, so the network would run "
         r"it, but neither train nor save its parameters\. Use self\.layers = nn\.ModuleList\(\[\.\.\.\]\)"),
        (in_tuple, lambda net, x: net.layers[0][0](x), r"Hiding\.layers is a tuple that holds a BatchNorm1d, .*ModuleList"),
        (in_dict, lambda net, x: net._heads["left"](x), r"Hiding\._heads is a dict that holds a Linear, .*nn\.ModuleDict"),
        (lambda net: None, lambda net, x: nn.Linear(4)(x), r"Hiding\.forward runs a Linear that was made inside forward, or "
         r"that is kept outside .* Make it in __init__ and keep it as an attribute: self\.linear = nn\.Linear"),
        (lambda net: None, lambda net, x: OUTSIDE(x), "kept outside the network"),
        (lambda net: None, put_in_forward, r"Hiding\.forward puts a new Linear into the network each time"),
    ],
)  # fmt: skip
def test_modules_that_would_be_run_but_not_trained(
    keep: Callable[[nn.Module], None], use: Callable[[Any, Any], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        nn.Sequential(made(keep, use), nn.Linear(2)).build((3,))


def test_modules_without_parameters_may_be_made_anywhere() -> None:
    def keep(net: Any) -> None:
        net._hidden = nn.Linear(4)  # a leading underscore is no hiding place
        net.twice = [net.first, net._hidden]
        net.activations = [nn.ReLU(), nn.Tanh()]

    def use(net: Any, x: Any) -> Any:
        return nn.Dropout(0.5)(net.activations[1](nn.Sequential(*net.twice)(x)))

    net = made(keep, use).build((4,), seed=0)
    assert list(net.state_dict()) == ["first.weight", "first.bias", "_hidden.weight", "_hidden.bias"]
    assert net(numbers(3, 4)).shape == (3, 4)


def test_parts_removed_or_misassigned() -> None:
    net = Net().build((4,), seed=0)
    with pytest.raises(TypeError, match=r"Net\.head is a module, and 5 is none"):
        net.head = 5  # type: ignore[assignment]
    net.head = None  # type: ignore[assignment]
    assert not [name for name in net.state_dict() if name.startswith("head")] and net.head is None
    del net.body[1].bias
    assert "body.1.bias" not in net.state_dict()
    with pytest.raises(AttributeError):
        del net.nothing


def test_module_list() -> None:
    layers = [nn.Linear(size) for size in (5, 6, 7)]
    held = nn.ModuleList(layers[:1])
    held += [layers[1]]
    held.append(layers[2]).extend([])
    assert list(held) == layers and len(held) == 3 and held[-1] is layers[2] and layers[1] in held
    assert isinstance(held[1:], nn.ModuleList) and list(held[1:]) == layers[1:]
    assert [name for name, _ in held[1:].named_modules()] == ["", "0", "1"]
    held.insert(1, nn.ReLU())
    assert held.pop(1).__class__ is nn.ReLU and list(held) == layers
    del held[0]
    held[0] = nn.Tanh()
    assert [name for name, _ in held.named_modules()] == ["", "0", "1"] and isinstance(held[0], nn.Tanh)
    assert len(held + [nn.ReLU()]) == 3 and len(held) == 2  # noqa: RUF005
    for bad, message in (
        (lambda: held.append(nn.ReLU), r"ModuleList\.append: the argument is .*Call it to make one"),
        (lambda: nn.ModuleList([5]), "ModuleList: part 0 is 5, which is no module"),
        (lambda: nn.ModuleList(nn.ReLU()), "takes a list of modules, not one ReLU"),
        (lambda: held(numbers(2, 3)), "ModuleList has no forward"),
    ):
        with pytest.raises((TypeError, NotImplementedError), match=message):
            bad()
    with pytest.raises(IndexError, match="there is no module 2, as it has 2"):
        held[2]


def test_module_dict() -> None:
    held = nn.ModuleDict({"one": nn.Linear(3)})
    held["two"] = nn.ReLU()
    held.update([("three", nn.Tanh())])
    assert list(held) == list(held.keys()) == ["one", "two", "three"] and len(held) == 3 and "two" in held
    assert [type(m) for m in held.values()] == [nn.Linear, nn.ReLU, nn.Tanh] == [type(m) for _, m in held.items()]
    assert [name for name, _ in held.named_parameters()] == ["one.weight", "one.bias"]
    assert isinstance(held.pop("two"), nn.ReLU)
    del held["three"]
    assert list(held) == ["one"]
    held.clear()
    assert not len(held)
    with pytest.raises(KeyError, match=r"there is no 'one'\. It has no modules"):
        held["one"]
    with pytest.raises(ValueError, match=r"a module cannot be called 'a\.b'"):
        held["a.b"] = nn.ReLU()
    with pytest.raises(TypeError, match="ModuleDict: 'a' is 5, which is no module"):
        held["a"] = 5  # type: ignore[assignment]


def test_series_changed_after_building_run_as_they_are() -> None:
    net = nn.Sequential(nn.Sequential(nn.Linear(3)), nn.Flatten())
    x = numbers(2, 4)
    first = net(x)
    net[0].append(nn.ReLU())
    np.testing.assert_array_equal(net(x), np.maximum(first, 0))
    net[0][1] = nn.Linear(5)
    assert net(x).shape == (2, 5)
    del net[0][1]
    np.testing.assert_array_equal(net(x), first)
    tail = nn.Sequential(nn.Linear(3), nn.ReLU(), nn.Linear(2)).build((4,), seed=0)[1:]
    assert list(tail.state_dict()) == ["2.weight", "2.bias"] and tail(numbers(1, 3)).shape == (1, 2)
    assert [name for name, _ in tail.append(nn.Tanh()).named_modules()] == ["", "1", "2", "3"]


# Normalizations of single values.


@pytest.mark.parametrize(
    ("layer", "shape", "batch", "message"),
    [
        (lambda: nn.BatchNorm1d(), (5,), 1, r"BatchNorm1d: there is one value per channel in training, as the input is of "
         r"shape \(1, 5\).*batches of at least two samples, or eval\(\)"),
        (lambda: nn.BatchNorm2d(), (5, 1, 1), 1, "BatchNorm2d: there is one value per channel in training"),
        (lambda: nn.BatchNorm1d(track_running_stats=False), (5,), 1, "BatchNorm1d: there is one value per channel in training"),
        (lambda: nn.Sequential(nn.Linear(4), nn.BatchNorm1d(), nn.ReLU()), (3,), 1, "BatchNorm1d: there is one value"),
        (lambda: nn.Sequential(nn.Conv2d(4, 3), nn.BatchNorm2d()), (2, 3, 3), 1, "BatchNorm2d: there is one value"),
        (lambda: nn.InstanceNorm2d(), (5, 1, 1), 7, "InstanceNorm2d: there is one value per channel in training.*more than one "
         "pixel"),
        (lambda: nn.GroupNorm(5), (5, 1, 1), 1, "GroupNorm: there is one value per group"),
        (lambda: nn.GroupNorm(5), (5,), 1, "GroupNorm: there is one value per group"),
    ],
)  # fmt: skip
def test_single_values_are_not_normalized(
    layer: Callable[[], nn.Module], shape: tuple[int, ...], batch: int, message: str
) -> None:
    net = layer().build(shape, seed=0)
    before = copies(net)
    with pytest.raises(ValueError, match=message):
        net(numbers(batch, *shape))
    assert not changed(net, before)


def test_single_values_that_pytorch_normalizes_as_well() -> None:
    assert nn.BatchNorm1d().build((5,)).eval()(numbers(1, 5)).shape == (1, 5)
    assert nn.InstanceNorm2d(track_running_stats=True).build((5, 1, 1)).eval()(numbers(1, 5, 1, 1)).shape == (
        1,
        5,
        1,
        1,
    )
    assert nn.BatchNorm2d()(numbers(1, 5, 1, 2)).shape == (1, 5, 1, 2)
    assert nn.GroupNorm(5)(numbers(2, 5, 1, 1)).shape == (2, 5, 1, 1)
    assert nn.LayerNorm()(numbers(1, 1)).shape == (1, 1)
    for make in (nn.BatchNorm2d, nn.InstanceNorm2d):  # statistics of the batch itself at inference
        with pytest.raises(ValueError, match=r"Norm2d: there is one value per channel, as"):
            make(track_running_stats=False).eval()(numbers(1, 5, 1, 1))


def test_a_last_batch_of_one_sample_is_found_before_the_first_step() -> None:
    x, y = problem(33)
    net = Net().build((4,), seed=0)
    before = copies(net)
    with pytest.raises(
        ValueError, match=r"33 samples in batches of 16 leave 1 for the last one.*BatchNorm1d.*another batch_s"
    ):
        nn.Trainer(net, batch_size=16, quiet=True).fit(x, y, epochs=1)
    assert not changed(net, before)

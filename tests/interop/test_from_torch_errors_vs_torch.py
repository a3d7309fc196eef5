"""Refusals of ``nn.from_torch``: the operation, its place and the cure are named, and the module stays as it was."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.interop.torch import Unsupported
from torch_networks import F, T, floats, tokens, torch

pytestmark = pytest.mark.peers

X = floats(3, 4, 5)
INDEX = torch.zeros(1, 2, 1, dtype=torch.long)


class Inner(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.linear, self.norm = function, T.Linear(5, 5), T.BatchNorm1d(4)
        self.stray = [T.Parameter(torch.ones(5))]

    def forward(self, *inputs: Any) -> Any:
        x = self.norm(self.linear(inputs[0])) if inputs[0].is_floating_point() else inputs[0]
        return self.function(self, x, *inputs[1:])


class Outer(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.blocks = T.ModuleList([Inner(function)])

    def forward(self, *inputs: Any) -> Any:
        return self.blocks[0](*inputs)


class Doubled(torch.autograd.Function):  # type: ignore[misc, name-defined]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy * 3


def changed_through_memory(x: Any) -> Any:
    y = x * 1
    y.diagonal(0, 1, 2).mul_(2)
    return y + 1


def assigned_at_computed_places(x: Any) -> Any:
    y = x * 1
    y[:, x[0].argmax(0)] = 0
    return y


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    SCRIPTED = torch.jit.script(T.ReLU())


def packed(x: Any) -> Any:
    rnn = torch.nn.utils.rnn
    lengths = (x[:, 0, 0] > 0).long() + 2
    samples = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return rnn.pad_packed_sequence(samples, batch_first=True)[0]


def detaching(x: Any) -> Any:
    return x + torch.from_numpy(x.detach().numpy())


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "unknown": (lambda s, x: torch.erfinv(x), r"torch\.erfinv has no counterpart"),
    "unknown in torch.nn.functional": (lambda s, x: F.fractional_max_pool2d(x, 2, 1), r"fractional_max_pool2d has no"),
    "unknown method": (lambda s, x: x.erfinv_(), r"Tensor\.erfinv_ has no counterpart"),
    "branch": (lambda s, x: x if x.sum() > 0 else -x, r"__bool__ turns numbers .* Choose with torch\.where"),
    "item": (lambda s, x: x * x.mean().item(), r"item turns numbers"),
    "numpy": (lambda s, x: detaching(x), r"numpy turns numbers"),
    "option": (lambda s, x: x.scatter(1, INDEX, 2.0, reduce="add"), r"torch\.scatter: reduce='add' has no counterpart"),
    "mask as an index": (lambda s, x: x[:, x[0, :, 0] < 9], r"what depends on a mask is chosen with torch\.where"),
    "assignment": (lambda s, x: assigned_at_computed_places(x), r"places that are computed\. Use torch\.scatter"),
    "indices of volumes": (lambda s, x: F.adaptive_max_pool3d(x[:, None, None], 1, True)[0], r"adaptive_max_pool3d"),
    "antialias": (
        lambda s, x: F.interpolate(x[:, None], scale_factor=2, mode="lanczos", antialias=True),
        r"interpolate: antialias=True with mode='lanczos' has no counterpart",
    ),
    "keyword": (lambda s, x: torch.linalg.vector_norm(x, dtype=torch.float64), r"options \['dtype'\] have no counterpart"),
    "dropout that never ends": (lambda s, x: F.dropout(x, 0.5), r"training=True acts in evaluation too.*training=self\.training"),
    "attention that drops in evaluation": (
        lambda s, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1), r"dropout_p acts in evaluation too",
    ),
    "shapes by mode": (lambda s, x: (x if s.training else x[:, :2]) + 1, r"gives other shapes in training"),
    "statistics by mode": (lambda s, x: x if s.training else s.norm(x), r"norm keeps statistics, but is called in evaluation"),
    "batch sizes": (lambda s, x: x * 2 if len(x) > 2 else x.relu(), r"different things for batches of 2, 3 and 5 samples"),
    "an option by mode": (lambda s, x: x.cumsum(1 if s.training else 2), r"1 in training and 2 in evaluation"),
    "as many numbers as a mask has places": (
        lambda s, x: x.clone().__setitem__(x > 1, x[0, 0]), r"as many numbers as the mask has places.*torch\.where\(mask, y, x\)",
    ),
    "scripted": (lambda s, x: SCRIPTED(x), r"ReLU is compiled by torch\.jit.*without torch\.jit\.script"),
    "as many steps as the longest sample": (
        lambda s, x: packed(x), r"as many steps as the longest sample has.*Pass total_length=4, the number of steps",
    ),
    "random constant": (lambda s, x: x + torch.tensor(np.random.rand(5)), r"differs from run to run"),
    "samples picked twice": (
        lambda s, x: x[torch.arange(len(x))[:, None], :, torch.tensor([0, 2])],
        r"numbers of the samples must be the index of the batch",
    ),
    "constant by size": (lambda s, x: x + torch.hann_window(len(x))[:, None, None], r"constant changes with the size"),
    "size by size": (lambda s, x: x * (2 ** len(x)), r"depends on the size of the batch \(4 for 2, 8 for 3, 32 for 5 samples\)"),
    "one tensor per sample": (
        lambda s, x: torch.stack([part.relu() for part in x]),
        r"function unbind gives 2, 3, 5 tensors for batches of 2, 3 and 5 samples.*batch_axis=None",
    ),
    "layers that are dropped at random": (
        lambda s, x: x if s.training and torch.rand([]) * 2 < 1 else x * 2,
        r"a random number decides here what forward does.*with a probability of 0 for that, such as encoder_layerdrop=0\.0",
    ),
    "view": (lambda s, x: changed_through_memory(x), r"changed in place through another view"),
    "attribute": (lambda s, x: setattr(x, "data", x * 2) or x, r"x\.data = \.\.\. changes a tensor in a way"),
    "own backward": (lambda s, x: Doubled.apply(x) + 1, r"Doubled, a torch\.autograd\.Function, has a backward pass of its own"),
    "stray parameter": (lambda s, x: x * s.stray[0], r"parameter which the module does not hold"),
    "complex": (lambda s, x: torch.fft.rfft(x).sqrt().abs(), r"torch\.sqrt: complex numbers have no counterpart"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, message = FUNCTIONS[name]
    module = Outer(function)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.get_rng_state()
    with pytest.raises(Unsupported, match=message) as caught:
        nn.from_torch(module, X)
    place = re.search(r"in (?:blocks\.0(?:\.norm)? \(\w+\)|RecursiveScriptModule), (\S+) line (\d+)", str(caught.value))
    assert place is not None, str(caught.value)
    assert place[1] == __file__
    assert int(place[2]) > 10
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert module.training
    assert not hasattr(torch.nn.Module.__call__, "recorder")


MODULES: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "momentum": (lambda: T.BatchNorm1d(4, momentum=None), X, r"nn\.BatchNorm1d: momentum=None.*\(in 0 \(BatchNorm1d\)"),
    "max_norm": (lambda: T.Embedding(5, 3, max_norm=1.0), tokens(5, 3, 4), r"nn\.Embedding: max_norm=1\.0 has no"),
    "proj_size": (lambda: T.LSTM(5, 4, proj_size=2, batch_first=True), X, r"nn\.LSTM: proj_size=2 has no counterpart"),
    "softmax": (lambda: T.Softmax(), X, r"nn\.Softmax: dim is None. Give the axis"),
    "volumes with indices": (
        lambda: T.MaxPool3d(1, return_indices=True),
        floats(3, 4, 2, 2, 2),
        r"nn\.MaxPool3d: .*return_indices",
    ),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore:Implicit dimension", "ignore:LSTM with projections")
def test_modules(name: str) -> None:
    make, x, message = MODULES[name]
    with pytest.raises(Unsupported, match=message):
        nn.from_torch(T.Sequential(make()), x)


def test_modules_that_are_not_used_may_be_anything() -> None:
    class Spare(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.spare = T.Linear(5, 2), T.BatchNorm1d(4, momentum=None)
            self.volume = T.MaxPool3d(2, return_indices=True)

        def forward(self, x: Any) -> Any:
            return self.linear(x)

    module = Spare()
    net = nn.from_torch(module, X)
    assert set(net.state_dict()) == set(module.state_dict()) - {"spare.num_batches_tracked"}
    module.load_state_dict(nn.to_torch_state_dict(net), strict=True)


def test_arguments() -> None:
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module, not a Sequential"):
        nn.from_torch(nn.Sequential(), X)
    with pytest.raises(ValueError, match=r"input of the example, of shape \(\), has no axis 0 that could be the batch"):
        nn.from_torch(T.Linear(5, 2), np.float32(1))
    with pytest.raises(ValueError, match="at least one sample"):
        nn.from_torch(T.Linear(5, 2), np.zeros((0, 5), np.float32))
    with pytest.raises(ValueError, match=r"Linear\.forward does not take them: .*pass a tuple with it: \(example,\)"):
        nn.from_torch(T.Linear(2, 2), {"batch": floats(3, 2)})
    with pytest.raises(
        TypeError, match=r"input\['x'\] of the example is a NoneType, but must be an array, .*Wrap the module"
    ):
        nn.from_torch(T.Linear(2, 2), ({"x": None},))
    with pytest.raises(TypeError, match=r"input of the example has the key None\. Dictionaries have texts"):
        nn.from_torch(T.Linear(2, 2), ({None: floats(3, 2)},))
    with pytest.raises(ValueError, match=r"3, 2 samples\. Pass the same number .*buffer of the module"):
        nn.from_torch(T.Bilinear(5, 5, 2), (X[:, 0], X[:2, 0]))
    with pytest.raises(TypeError, match="takes a network of openbnns"):
        nn.to_torch_state_dict(T.Linear(2, 3))
    net = nn.from_torch(T.Linear(5, 2), X)
    with pytest.raises(
        ValueError, match=r"input has shape \(2, 5\), but the module was recorded on \(N, 4, 5\)\. Convert"
    ):
        net(X[:2, 0])


def test_a_module_that_does_not_take_its_example() -> None:
    message = (
        r"Linear fails in PyTorch itself on 2 samples of the example, in training mode \(RuntimeError: mat1 and mat2"
    )
    with pytest.raises(ValueError, match=message) as caught:
        nn.from_torch(T.Linear(4, 2), X)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert T.Linear(5, 2)(torch.tensor(X)).shape == (3, 4, 2)  # nothing is left patched


class Flagged(T.Module):  # type: ignore[misc, name-defined]
    """A flag for gradient checkpoints, as encoders of speech have it."""

    def forward(self, x: Any) -> Any:
        y = x[:, None]
        if self.training:
            y.requires_grad = True
        return y * 2


def test_a_move_to_where_it_is() -> None:
    module = Outer(lambda s, x: s.linear.float()(x))
    net = nn.from_torch(module.eval(), X)
    np.testing.assert_allclose(net(X), module(torch.tensor(X)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_flag_that_holds_anyway() -> None:
    net = nn.from_torch(Flagged(), X)
    np.testing.assert_array_equal(net(X), 2 * X[:, None])
    np.testing.assert_array_equal(net.train().backward(np.ones_like(net(X))), np.full_like(X, 2))


class Optional(T.Module):  # type: ignore[misc, name-defined]
    """Layers that are given nothing, as those of a Perceiver are."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing, self.linear = T.Identity(), T.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        return self.linear(x), self.nothing(None)


class Cache:
    """Something that is not a tensor, like the caches of language models are."""


class Giving(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self, result: Callable[..., Any]) -> None:
        super().__init__()
        self.result, self.same = result, T.Identity()

    def forward(self, x: Any) -> Any:
        return self.result(self, x)


def test_things_that_are_no_tensors() -> None:
    with pytest.raises(Unsupported, match=r"forward gives no tensor, but Cache\. Wrap the module in one"):
        nn.from_torch(Giving(lambda s, x: {"cache": [Cache()]}), X)
    with pytest.raises(
        Unsupported, match=r"an object of class Cache is an argument that cannot be converted \(in same"
    ):
        nn.from_torch(Giving(lambda s, x: (x, s.same(Cache()))), X)


def test_a_failure_that_the_recorder_causes() -> None:
    with pytest.raises(
        Unsupported, match=r"fails while it is recorded \(RuntimeError: cannot resize.*line \d+.*by itself"
    ):
        nn.from_torch(Giving(lambda s, x: x.resize_(len(x), 2)), X)


def test_layers_of_nothing() -> None:
    module = Optional()
    net = nn.from_torch(module, X)
    np.testing.assert_allclose(net(X), module(torch.tensor(X))[0].detach().numpy(), rtol=1e-5, atol=1e-6)


class Scaled(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.scale = T.Parameter(torch.tensor(1.5))
        self.register_buffer("shift", torch.tensor(3.0))
        self.register_buffer("factor", torch.tensor(-2.0), persistent=False)

    def forward(self, x: Any) -> Any:
        return x * self.scale.exp() + self.shift * self.factor * self.scale


def test_numbers_as_parameters_and_buffers() -> None:
    module, cotangent = Scaled(), floats(3, 4, 5)
    net = nn.from_torch(module, X).train()
    y = module(torch.tensor(X))
    y.backward(torch.tensor(cotangent))
    np.testing.assert_allclose(net(X), y.detach().numpy(), rtol=1e-6)
    net.backward(cotangent)
    np.testing.assert_allclose(net.scale.grad, [module.scale.grad.item()], rtol=1e-5)
    module.load_state_dict(net.to_torch_state_dict())
    net.load_state_dict(Scaled().state_dict())


def test_parts_do_not_run_alone() -> None:
    net = nn.from_torch(Outer(lambda s, x: x * 2), X)
    with pytest.raises(NotImplementedError, match=r"Inner is a part .* nn\.from_torch\(module\.part, example\)"):
        net.blocks[0](X)

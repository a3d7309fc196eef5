"""Patterns of real models in small modules: everything that ``make test-pytorch-models`` has found once is here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from torch_networks import check, floats, tokens, torch

pytestmark = pytest.mark.peers
T, F = torch.nn, torch.nn.functional


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)
    nn.manual_seed(3)


class Model(T.Module):
    """A module whose forward is a function; it has a layer, a table and some weights to use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.linear, self.rows = function, T.Linear(6, 6), T.Embedding(40, 6)
        self.weight = T.Parameter(torch.randn(5, 4, 2))
        self.pad = T.ZeroPad2d((0, 0, 1, -1))
        self.rates = T.Parameter(torch.rand(6) + 0.5)

    def forward(self, *inputs: Any) -> Any:
        x = self.linear(inputs[0]) if inputs[0].is_floating_point() else inputs[0]
        return self.function(self, x, *inputs[1:])


class Cubed(torch.autograd.Function):
    """A function whose backward pass is its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor * x * x * x

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return 3 * ctx.factor * ctx.saved_tensors[0] ** 2 * dy, None


class Scaled(torch.autograd.Function):
    """The same in the newer form."""

    @staticmethod
    def forward(x: Any, scale: Any) -> Any:
        return x.tanh() * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        x, scale = ctx.saved_tensors
        return dy * scale * (1 - x.tanh() ** 2), (dy * x.tanh()).sum((0, 1))


class Rounded(torch.autograd.Function):
    """A function whose backward pass is not its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy


cubed, rounded = Cubed.apply, Rounded.apply  # as many programs name them, long before a conversion


def in_place_through_views(x: Any) -> Any:
    z = torch.zeros(len(x), 6, 5)
    z.transpose(1, 2)[:, 1:].copy_(x[:, :4])
    y = x * 0
    first = y[:, 0]
    y.view(len(x), 30)[:, 6:12].copy_(x[:, 1])
    y.transpose(1, 2)[:, :, 3].add_(x[:, 2])
    y[:, 2:4].unsqueeze(1).permute(0, 3, 2, 1).select(1, 4).mul_(3)
    first += 1
    y.narrow(1, 4, 1)[..., 2:] -= x[:, 4:, :4]
    return y * first.sum(1)[:, None, None] + z.mT


def mask_of_windows(x: Any) -> Any:
    mask = torch.arange(20.0).reshape(2, 10).repeat(len(x), 1)  # as many copies as there are samples
    return x.reshape(len(x) * 2, 15)[:, :10] * mask


def checked(x: Any) -> Any:
    assert (
        x.abs().max().item()
        < 1e9
    )  # fmt: skip
    if not torch.isfinite(x).all() or torch.isnan(x).any():
        x = torch.clamp(x, -1, 1)
    return x + 1


def positions(s: Any, ids: Any) -> Any:
    mask = ids.ne(1).int()
    numbers = (torch.cumsum(mask, dim=1).type_as(mask) * mask).long() + 1
    return s.rows(numbers) * s.rows(ids.t()).transpose(0, 1)


def grouped(s: Any, x: Any) -> Any:
    heads = x.reshape(len(x), 5, 3, 2).transpose(1, 2)
    query = torch.cat([heads, 2 * heads], 1)
    return F.scaled_dot_product_attention(query, heads, heads.sin(), enable_gqa=True)


def attended(s: Any, x: Any) -> Any:
    x = x.transpose(0, 1)
    weight = s.weight.reshape(-1)[:36].reshape(6, 6)
    return F.multi_head_attention_forward(
        x, x, x, 6, 3, torch.cat([weight, weight.t(), s.linear.weight]), torch.cat([s.rates, s.rates, s.linear.bias]), None,
        None, False, 0.0, weight, s.rates, training=s.training,
    )[0]  # fmt: skip


TRAITS: dict[str, tuple[Callable[..., Any], Any]] = {
    "positions that are counted": (positions, tokens(40, 3, 7)),
    "words that are moved on": (
        lambda s, ids: s.rows(torch.zeros_like(ids).copy_(ids.roll(1, 1)).masked_fill(ids == 3, 1)), tokens(40, 3, 7),
    ),
    "large whole numbers": (lambda s, ids: s.rows((ids + 7) * 1000003 % 37 + ids // 9), tokens(30, 3, 7, low=9)),
    "whole numbers and the size of the batch": (lambda s, ids: s.rows((ids * 3 + len(ids)) % 40), tokens(30, 3, 7)),
    "changes through views": (lambda s, x: in_place_through_views(x), floats(3, 5, 6)),
    "a mask of windows": (lambda s, x: mask_of_windows(x), floats(3, 5, 6)),
    "an identity of samples": (
        lambda s, x: torch.eye(len(x), dtype=x.dtype).tril() @ x.flatten(1) * torch.arange(1, len(x) + 1)[:, None],
        floats(3, 5, 6),
    ),
    "assertions and infinities": (lambda s, x: checked(x), floats(3, 5, 6)),
    "a constant by mode": (lambda s, x: x * torch.full((6,), 2.0 if s.training else 3.0), floats(3, 5, 6)),
    "a number by mode": (lambda s, x: (x * (2.0 if s.training else 3.0)).sin() * 2.0, floats(3, 5, 6)),
    "a custom function": (lambda s, x: Cubed.apply(x, 0.5) + Scaled.apply(x, s.rates), floats(3, 5, 6)),
    "attention as a function": (attended, floats(3, 5, 6)),
    "heads that share keys": (grouped, floats(3, 5, 6)),
    "condition second": (lambda s, x: x.where(x > 0, x.tanh()) + x.sin().where(condition=x < 1, other=0.5 * x), floats(3, 5, 6)),
    "computed scales of normalizations": (
        lambda s, x: F.batch_norm(x.transpose(1, 2), None, None, s.rates * 2, s.rates.exp(), True).transpose(1, 2)
        + F.layer_norm(x, (6,), s.rates.sqrt()) + F.group_norm(x.transpose(1, 2), 3, s.rates * 3).transpose(1, 2),
        floats(3, 5, 6),
    ),
    "computed kernels": (
        lambda s, x: F.conv1d(
            x, F.batch_norm(s.weight[None].flatten(2), None, None, training=True)[0, :, :4].reshape(2, 5, 2)
        ),
        floats(3, 5, 6),
    ),
    "padding without channels": (lambda s, x: s.pad(x), floats(3, 5, 6)),
    "overlapping chunks": (lambda s, x: x.as_strided((len(x), 4, 12), (30, 6, 1)).sin(), floats(3, 5, 6)),
    "named factors": (lambda s, x: x.baddbmm(batch1=x, batch2=x.new_ones(len(x), 6, 6), alpha=0.5), floats(3, 5, 6)),
    "a transform of images": (
        lambda s, x: torch.fft.irfft2(
            torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(s.weight), s=(5, 6), norm="ortho"
        ),
        floats(3, 5, 6),
    ),
    "a transform of all axes": (
        lambda s, x: torch.fft.fftn(x, dim=(1, 2)).real + torch.fft.ifft(x, n=6, dim=1).abs()[:, :5], floats(3, 5, 6),
    ),
    "rotations": (
        lambda s, x: torch.view_as_real(
            torch.view_as_complex(x.reshape(len(x), 5, 3, 2)) * torch.polar(torch.ones(5, 3), torch.arange(15.0).reshape(5, 3))
        ).flatten(2),
        floats(3, 5, 6),
    ),
    "complex arithmetic": (
        lambda s, x: (torch.fft.fft(x) * torch.fft.fft(x * x).conj() - 2 * torch.fft.fft(x.sin()) + x).imag
        + torch.complex(x, x.exp()).angle(),
        floats(3, 5, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAITS)
def test_traits(name: str) -> None:
    function, inputs = TRAITS[name]
    check(Model(function), inputs)


def test_a_function_whose_backward_is_not_its_gradient() -> None:
    class Straight(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.round()

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return dy

    with pytest.raises(
        nn.pytorch.Unsupported, match=r"Straight, a torch\.autograd\.Function, has a backward pass of its"
    ):
        nn.from_torch(Model(lambda s, x: Straight.apply(x)), floats(2, 5, 6))


def test_functions_that_were_named_before_the_conversion() -> None:
    check(Model(lambda s, x: cubed(x * s.rates, 0.5) + Scaled.apply(x, s.rates)), floats(3, 5, 6))
    with pytest.raises(
        nn.pytorch.Unsupported, match=r"Rounded, a torch\.autograd\.Function, has a backward pass of its"
    ):
        nn.from_torch(Model(lambda s, x: rounded(x)), floats(2, 5, 6))


def test_lists_with_gaps() -> None:
    class Gaps(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.parts = T.ModuleList([T.Linear(6, 6), None, T.ModuleList([None, T.Linear(6, 4)])])

        def forward(self, x: Any) -> Any:
            return self.parts[2][1](self.parts[0](x)) if self.parts[1] is None else x

    check(Gaps(), floats(3, 5, 6))


def test_parts_of_constants_that_grow_with_the_batch() -> None:
    def forward(s: Any, x: Any) -> Any:
        places = torch.stack(torch.meshgrid(torch.arange(5), torch.arange(6), indexing="ij"), -1)[None].repeat(
            len(x), 1, 1, 1
        )
        rows, columns = places.reshape(-1, 2).split([1, 1], -1)
        first, second = (2.0 * places.reshape(-1, 2) / 5 - 1).unbind(-1)
        return x.reshape(-1, 1) * torch.cat([rows / 5, columns / 6], -1) + (first * second)[:, None]

    check(Model(forward), floats(3, 5, 6))


def test_code_that_fails_only_in_an_export() -> None:
    def forward(s: Any, x: Any) -> Any:
        mask = None if torch.compiler.is_compiling() else x.new_ones(5)
        return x * mask[:, None] * s.rates

    check(Model(forward), floats(3, 5, 6))


def test_inputs_that_are_numbers(tmp_path: Path) -> None:
    class Timed(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = T.Linear(6, 4)

        def forward(self, x: Any, t: Any) -> Any:
            return self.linear(x) * torch.sin(t)

    module, x = Timed(), floats(3, 6)
    with pytest.raises(ValueError, match=r"t of the example, of shape \(\), has no axis 0 .*batch_axis=\{'t': None\}"):
        nn.from_torch(module, (x, np.float32(0.5)))
    net = nn.from_torch(module, (x, np.float32(0.5)), batch_axis={"t": None})
    expected = module(torch.tensor(x), torch.tensor(1.25)).detach().numpy()
    net.save_model(tmp_path / "timed.safetensors")
    net.to_onnx(tmp_path / "timed.onnx")
    for each in (net, nn.load_model(tmp_path / "timed.safetensors"), nn.from_onnx(tmp_path / "timed.onnx")):
        np.testing.assert_allclose(each(x, np.float32(1.25)), expected, atol=1e-6)
    net.train()(x, np.float32(1.25))
    into_x, into_t = net.backward(np.ones((3, 4), np.float32))
    assert into_x.shape == (3, 6) and into_t.shape == ()
    assert into_t == pytest.approx(module.linear(torch.tensor(x)).sum().item() * np.cos(1.25), rel=1e-4)
    with pytest.raises(ValueError, match=r"input 0 is .* of shape \(\)"):
        net(np.float32(1.0), np.float32(1.0))


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float64"])
def test_other_types(name: str) -> None:
    module = T.Sequential(T.Linear(6, 32), T.LayerNorm(32), T.ReLU(), T.Linear(32, 4)).to(getattr(torch, name))
    net = nn.from_torch(module, floats(3, 6))
    exact = copy.deepcopy(module).double()
    x = floats(5, 6)
    np.testing.assert_allclose(net(x), exact(torch.tensor(x).double()).detach().numpy(), atol=1e-5)
    net.load_state_dict(module.state_dict())
    module.load_state_dict(net.to_torch_state_dict())


def test_weights_that_are_complex() -> None:
    class Operator(T.Module):  # type: ignore[misc, name-defined]
        """A layer of a Fourier neural operator."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = T.Parameter(torch.randn(2, 3, 2, dtype=torch.cfloat))

        def forward(self, x: Any) -> Any:
            spectrum = torch.fft.rfft(x)
            low = torch.zeros(len(x), 3, spectrum.shape[-1], dtype=torch.cfloat)
            low[..., :2] = torch.einsum("nix,iox->nox", spectrum[..., :2], self.weight)
            return torch.fft.irfft(low, x.shape[-1])

    module, x = Operator(), floats(4, 2, 9)
    net = nn.from_torch(module, x)
    y = net.train()(x)
    expected = module(torch.tensor(x))
    np.testing.assert_allclose(y, expected.detach().numpy(), atol=1e-6)
    gradient = floats(*y.shape, seed=3)
    net.backward(gradient)
    expected.backward(torch.tensor(gradient))
    own = torch.view_as_real(module.weight.grad).numpy()
    np.testing.assert_allclose(dict(net.named_parameters())["weight"].grad, own, atol=1e-5)
    state = net.to_torch_state_dict()
    assert state["weight"].dtype == torch.complex64
    module.load_state_dict({"weight": state["weight"] * 2})
    net.load_state_dict(module.state_dict())
    np.testing.assert_allclose(net(x), 2 * y, atol=1e-5)


def test_tables_that_the_first_run_makes() -> None:
    def forward(s: Any, x: Any) -> Any:
        if not hasattr(s, "table"):
            s.table = x.detach().new_ones(6) * (x.detach() * 0 + 1).mean()
        return x * s.table

    check(Model(forward), floats(3, 5, 6))


class Biases(T.Module):
    """A table for evaluation that is made of weights, kept from call to call and forgotten in training, as in LeViT."""

    def __init__(self) -> None:
        super().__init__()
        self.biases, self.kept = T.Parameter(torch.randn(4, 3)), dict[str, Any]()

    def train(self, mode: bool = True) -> Any:
        if mode:
            self.kept = {}
        return super().train(mode)

    def forward(self, x: Any) -> Any:
        if self.training:
            return x + self.biases[:, [0, 2, 1, 2, 0]]
        if "table" not in self.kept:
            self.kept["table"] = self.biases[:, [0, 2, 1, 2, 0]]
        return x + self.kept["table"]


@pytest.mark.parametrize("called", [False, True])
def test_tables_of_weights_that_evaluation_keeps(called: bool) -> None:
    module = Biases().eval()
    if called:
        module(torch.randn(1, 4, 5))
    net = nn.from_torch(module, floats(2, 4, 5))
    net.load_state_dict({"biases": 2 * module.biases.detach().numpy()})
    x = np.zeros((3, 4, 5), np.float32)
    for mode in (True, False):
        expected = np.broadcast_to(2 * module.biases.detach().numpy()[:, [0, 2, 1, 2, 0]], x.shape)
        np.testing.assert_allclose(net.train(mode)(x), expected, rtol=1e-6)


def test_outputs_that_rounding_decides() -> None:
    def forward(s: Any, x: Any) -> Any:
        x = x.sigmoid()
        for _ in range(40):
            x = 3.99 * x * (1 - x)
        return x

    module, x = Model(forward).eval(), floats(7, 5, 6)
    net = nn.from_torch(module, x)
    exact = copy.deepcopy(module).double()(torch.tensor(x).double()).detach().numpy()
    assert np.abs(module(torch.tensor(x)).detach().numpy() - exact).max() > 0.1  # without which this shows nothing
    assert net(x).shape == exact.shape


def test_one_tensor_per_sample_in_a_batch_of_fixed_size() -> None:
    module, x = Model(lambda s, x: torch.stack([part.relu() for part in x])).eval(), floats(3, 5, 6)
    net = nn.from_torch(module, x, batch_axis=None)
    np.testing.assert_allclose(net(x), module(torch.tensor(x)).detach().numpy(), atol=1e-6)


def test_checks_of_torch() -> None:
    def forward(s: Any, x: Any) -> Any:
        torch._check_tensor_all(x.tanh() < 1.5)
        return x * 2

    check(Model(forward), floats(3, 5, 6))


def test_an_identity_of_several_tensors() -> None:
    class Pyramid(T.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.neck, self.rest = T.Linear(6, 6), T.Identity(), T.Identity()

        def forward(self, x: Any) -> Any:
            a, b = self.neck((self.linear(x), x.tanh()))
            return self.rest(a * b)

    check(Pyramid(), floats(3, 5, 6))


class DropsItself(torch.autograd.Function):
    """A dropout whose backward pass is written out, as in SEW-D."""

    @staticmethod
    def forward(ctx: Any, x: Any, p: float) -> Any:
        mask = torch.empty_like(x).bernoulli_(p).to(torch.bool)
        ctx.p = p
        ctx.save_for_backward(mask)
        return x.masked_fill(mask, 0) / (1 - p)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy.masked_fill(ctx.saved_tensors[0], 0) / (1 - ctx.p), None


def test_a_function_that_draws_random_numbers() -> None:
    module = Model(lambda s, x: DropsItself.apply(x, 0.4) if s.training else x)
    x = floats(200, 5, 6)
    net = nn.from_torch(module, x[:2]).train()
    made = net(x)
    assert abs((made == 0).mean() - 0.4) < 0.05
    kept = module.eval()(torch.tensor(x)).detach().numpy() / 0.6
    np.testing.assert_allclose(made, np.where(made == 0, 0, kept), atol=1e-5)


class Cache:
    """An object as language models keep one."""


@dataclass
class Answer:
    logits: Any
    hidden: list[Any]
    loss: Any = None


def test_results_that_are_a_dataclass() -> None:
    net = nn.from_torch(Model(lambda s, x: Answer(x.tanh(), [x, x * 2])), floats(2, 5, 6))
    outputs = net(floats(3, 5, 6))
    assert list(outputs) == ["logits", "hidden"]
    np.testing.assert_allclose(outputs["logits"], np.tanh(outputs["hidden"][0]), atol=1e-6)


def test_the_row_of_the_padding() -> None:
    """It is read as it is, also if it is loaded later, and has no gradient."""
    module = T.Sequential(T.Embedding(9, 4, padding_idx=2), T.Linear(4, 3))
    ids = tokens(4, 3, 7)
    net = check(module, ids)
    with torch.no_grad():
        module[0].weight.normal_()
    check(module, ids)
    net.load_state_dict({name: x.numpy() for name, x in module.state_dict().items()})
    np.testing.assert_allclose(net.eval()(ids), module(torch.tensor(ids)).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("first", [True, False])
def test_packed_sequences(kind: str, first: bool) -> None:
    class Tagger(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(T, kind)(6, 5, 2, bidirectional=True, batch_first=first)
            self.state = T.Parameter(torch.randn(4, 1, 5))

        def forward(self, x: Any, lengths: Any) -> Any:
            rnn = T.utils.rnn
            x = x if first else x.transpose(0, 1)
            packed = rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=first, enforce_sorted=False)
            start = self.state * lengths[:, None]  # others for every sample
            y, states = self.rnn(packed, (start, start.sin()) if kind == "LSTM" else start)
            y, counts = rnn.pad_packed_sequence(y, batch_first=first, padding_value=0.5, total_length=7)
            states = states if kind == "LSTM" else (states,)
            return y if first else y.transpose(0, 1), counts, [s.transpose(0, 1) for s in states]

    check(Tagger(), floats(4, 7, 6), tokens(8, 4, low=1))


def test_samples_that_are_sorted_by_their_lengths() -> None:
    class Reader(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = T.LSTM(6, 5, batch_first=True)

        def forward(self, x: Any, lengths: Any) -> Any:
            return self.rnn(T.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[1][0][-1]

    module, x, lengths = Reader().eval(), floats(6, 7, 6), np.array([7, 5, 5, 3, 2, 1])
    net = nn.from_torch(module, (x[:4], lengths[:4]))
    for count in (1, 6):
        expected = module(torch.tensor(x[:count]), torch.tensor(lengths[:count])).detach().numpy()
        np.testing.assert_allclose(net(x[:count], lengths[:count]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("computed", [True, False])
def test_positions_that_see_nothing(kind: str, computed: bool) -> None:
    """Attention gives zeros there, and no gradient."""

    def forward(s: Any, x: Any) -> Any:
        seen = torch.arange(5)[:, None] > torch.arange(5)  # nothing for the first position
        if computed:
            seen = seen & (x[..., :1] < 9)
        mask = seen if kind == "bool" else torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, -torch.inf)
        return F.scaled_dot_product_attention(x, x.sin(), x, mask)

    check(Model(forward), floats(3, 5, 6))


def test_buffers_that_training_changes() -> None:
    class Average(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = T.Linear(6, 6), T.BatchNorm1d(6)
            self.register_buffer("mean", torch.zeros(6))

        def forward(self, x: Any) -> Any:
            y = self.norm(self.linear(x))
            if self.training:
                self.mean.mul_(0.9).add_(0.1 * y.detach().mean(0))
            return y - self.mean

    module = Average()
    with pytest.warns(UserWarning, match=r"forward changes 1 buffer \(mean\)\. The network leaves them as they are"):
        net = nn.from_torch(module, floats(3, 6))
    assert not module.mean.any()
    x = floats(4, 6)
    np.testing.assert_allclose(net.eval()(x), module.eval()(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_results_that_hold_more_than_tensors() -> None:
    def forward(s: Any, x: Any) -> Any:
        result = {"logits": x, "cache": Cache(), "hidden": (x.sin(), x.cos())}
        return result if s.training else result | {"memory": [x * 2]}

    with pytest.warns(UserWarning) as caught:
        net = nn.from_torch(Model(forward), floats(2, 5, 6))
    (message,) = (str(each.message) for each in caught)
    for part in (
        r"result['cache'] (Cache)",
        r"result['memory'] (result of evaluation alone)",
        "model.config.use_cache = False",
    ):
        assert part in message
    x = floats(7, 5, 6, seed=1)
    predictions = net.predict(x, batch_size=3)
    assert list(predictions.outputs) == ["logits", "hidden"]
    np.testing.assert_allclose(predictions["logits"], net.eval()(x)["logits"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(predictions[2]["hidden"][1], predictions["hidden"][1][2])
    assert (len(predictions), len(list(predictions))) == (7, 7)
    assert (
        repr(predictions) == "Predictions of 7 samples, outputs:\n  logits: (7, 5, 6)\n  hidden: (7, 5, 6), (7, 5, 6)"
    )
    with pytest.raises(
        TypeError, match=r"gives a dict of outputs, not one array\. Take one: predictions\.outputs\['logits'\]"
    ):
        np.asarray(predictions)


def test_inputs_by_name() -> None:
    class Optional(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = T.Linear(6, 4)

        def forward(self, x: Any, mask: Any = None, scale: Any = None) -> Any:
            y = self.linear(x)
            y = y if mask is None else y.masked_fill(mask[..., None] == 0, -1.0)
            return y if scale is None else y * scale

    module, x, scale = Optional().eval(), floats(3, 5, 6), floats(3, 1, 4)
    net = nn.from_torch(module, {"x": x, "scale": scale})
    expected = module(torch.tensor(x), scale=torch.tensor(scale)).detach().numpy()
    np.testing.assert_allclose(net(scale=scale, x=x), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"It takes x, scale"):
        net(x, mask=scale)


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_in_place(seed: int) -> None:
    """Whatever is a view of what, and changed through which of them: the network does the same."""

    def forward(s: Any, x: Any) -> Any:
        rng = np.random.default_rng(seed)
        alive = [x * 1, torch.zeros(len(x), 4, 6)]
        for _ in range(9):
            y = alive[rng.integers(len(alive))]
            axis = int(rng.integers(1, y.ndim)) if y.ndim > 1 else 0
            match rng.integers(9) if y.ndim > 1 else 8:
                case 0:
                    alive.append(y[:, : y.shape[1] - 1] if y.shape[1] > 1 else y[:, :1])
                case 1:
                    alive.append(y.transpose(axis, -1))
                case 2:
                    alive.append(y.unsqueeze(axis))
                case 3:
                    alive.append(y.select(axis, -1) if y.ndim > 2 else y[:, None])
                case 4:
                    alive.append(y.narrow(axis, y.shape[axis] // 2, 1))
                case 5:
                    y.mul_(1.5).add_(0.1)
                case 6:
                    y[:, -1] = y[:, 0].clone().sin()
                case 7:
                    y += x.sum((1, 2)).reshape(-1, *[1] * (y.ndim - 1))
                case 8:
                    alive.append(y.clone().tanh() * 1.5)  # in place of nothing that PyTorch keeps
        return tuple(y + 0 for y in alive)

    check(Model(forward), floats(3, 4, 6))

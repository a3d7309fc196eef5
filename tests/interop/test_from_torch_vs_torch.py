"""Networks converted by ``nn.from_torch``: outputs, gradients, names and weights."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from torch_networks import (
    GPT,
    VAE,
    Discriminator,
    EncoderModel,
    GRUTagger,
    LeNet,
    LSTMLanguageModel,
    MobileNetV2,
    MultiheadGPT,
    ResNet,
    SamplingVAE,
    Translator,
    UNet,
    ViT,
    check,
    floats,
    generator,
    tokens,
    torch,
)

pytestmark = pytest.mark.peers


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)
    nn.manual_seed(3)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (LeNet, (floats(3, 1, 28, 28),)),
        (ResNet, (floats(3, 3, 65, 63),)),
        (MobileNetV2, (floats(3, 3, 33, 29),)),
        (UNet, (floats(3, 2, 21, 18),)),
        (VAE, (floats(3, 6, 6), floats(3, 5, seed=1))),
        (generator, (floats(3, 9, 1, 1),)),
        (Discriminator, (floats(3, 1, 16, 16),)),
        (LSTMLanguageModel, (tokens(23, 3, 9),)),
        (lambda: LSTMLanguageModel(batch_first=False), (tokens(23, 3, 9),)),
        (GRUTagger, (tokens(30, 3, 8),)),
        (ViT, (floats(3, 3, 16, 16),)),
        (GPT, (tokens(29, 3, 7),)),
        (lambda: GPT(flash=False), (tokens(29, 3, 7),)),
        (GPT, (tokens(29, 3, 7), tokens(29, 3, 7, seed=1))),
        (MultiheadGPT, (tokens(19, 3, 8),)),
        (lambda: EncoderModel(batch_first=True, norm_first=False), (tokens(19, 3, 6, low=1),)),
        (lambda: EncoderModel(batch_first=False, norm_first=True), (tokens(19, 3, 6, low=1),)),
        (Translator, (floats(3, 6, 5), floats(3, 4, 6, seed=1))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_networks(make: Any, inputs: tuple[Any, ...]) -> None:
    check(make(), *inputs)


@pytest.mark.parametrize("kind", [LeNet, UNet])
def test_trains_as_in_pytorch(kind: Any) -> None:
    shape = (1, 28, 28) if kind is LeNet else (2, 20, 20)
    module = kind()
    net = nn.from_torch(module, floats(2, *shape))
    theirs = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    ours = nn.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loss = nn.CrossEntropyLoss()
    for step in range(10):
        x = floats(6, *shape, seed=step)
        y = tokens(3, 6, seed=step) if kind is LeNet else tokens(3, 6, 20, 20, seed=step)
        theirs.zero_grad()
        expected = torch.nn.functional.cross_entropy(module(torch.tensor(x)), torch.tensor(y))
        expected.backward()
        theirs.step()
        value, gradient = loss(net(x), y)
        net.backward(gradient)
        ours.step()
        assert value == pytest.approx(expected.item(), rel=1e-4), step


def test_the_trainer_takes_it(tmp_path: Path) -> None:
    net = nn.from_torch(LeNet(), floats(2, 1, 28, 28))
    trainer = nn.Trainer(net, nn.NLLLoss(), "adam", batch_size=8, seed=1, quiet=True, out=tmp_path)
    trainer.fit(floats(32, 1, 28, 28), tokens(10, 32), epochs=2)
    assert trainer.history[-1]["loss"] < trainer.history[0]["loss"]


def test_saved_copied_and_pickled_networks_are_the_same(tmp_path: Path) -> None:
    module, x = GPT(), tokens(29, 2, 7)
    net = nn.from_torch(module, x).eval()
    y = net(x)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(twin(x), y)
        twin.lm_head.weight.data[:] = 0
        assert not twin(x).any()
    np.testing.assert_array_equal(net(x), y)
    net.save(tmp_path / "weights.safetensors")
    other = nn.from_torch(GPT(), x).eval()
    assert np.abs(other(x) - y).max() > 0.1
    other.load(tmp_path / "weights.safetensors")
    np.testing.assert_array_equal(other(x), y)
    again = GPT()
    again.load_state_dict(other.to_torch_state_dict())
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), module.parameters(), strict=True))


def test_what_is_shared_stays_shared() -> None:
    class Shared(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(4, 4)
            self.second, self.third = self.first, torch.nn.Linear(4, 4)
            self.third.weight = self.first.weight

        def forward(self, x: Any) -> Any:
            return self.third(self.second(self.first(x)))

    net = check(Shared(), floats(3, 4))
    assert net.first is net.second
    assert net.third.weight is net.first.weight
    assert len(list(net.parameters())) == 3


def test_dropout_follows_the_mode() -> None:
    class Dropped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = torch.nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            rate = 0.25 if self.training else 0.0  # as models of transformers have it
            return self.drop(x), torch.nn.functional.dropout(x, rate, self.training)

    net, x = nn.from_torch(Dropped().eval(), np.ones((2, 500), np.float32)), np.ones((4, 500), np.float32)
    assert not net.training
    assert all((y == 1).all() for y in net(x))
    half, quarter = net.train()(x)
    assert set(np.unique(half)) == {0, 2}
    assert 0.4 < (half == 0).mean() < 0.6
    assert 0.2 < (quarter == 0).mean() < 0.3


def test_model_files_hold_the_network(tmp_path: Path) -> None:
    module, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).eval(), floats(2, 4)
    net, path = nn.from_torch(module, x), tmp_path / "m.safetensors"
    net.save_model(path)
    more = floats(5, 4)
    np.testing.assert_array_equal(nn.load_model(path)(more), net(more))
    torch.nn.init.zeros_(module[0].weight)
    np.testing.assert_array_equal(nn.load_model(path, network=nn.from_torch(module, x))(x), net(x))
    net.to_onnx(tmp_path / "m.onnx")
    nn.from_onnx(tmp_path / "m.onnx").save_model(path)
    np.testing.assert_allclose(nn.load_model(path)(x), net(x), rtol=1e-6)


class TokenEncoder(torch.nn.Module):
    """A BERT in small: tokens, positions from a buffer, padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(30, 16), torch.nn.Embedding(12, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 5)
        self.register_buffer("numbers", torch.arange(12)[None])

    def forward(self, tokens: Any, mask: Any) -> Any:
        x = self.words(tokens) + self.places(self.numbers[:, : tokens.shape[1]])
        return self.head(self.encoder(x, src_key_padding_mask=mask == 0)[:, 0])


def test_an_encoder_of_tokens_comes_back_from_a_file(tmp_path: Path) -> None:
    from every_layer import assert_same

    random = np.random.RandomState(0)
    module = TokenEncoder()
    net = nn.from_torch(module, (torch.zeros(3, 7, dtype=torch.long), torch.ones(3, 7, dtype=torch.long)))
    net.save_model(tmp_path / "m.safetensors")
    again = nn.load_model(tmp_path / "m.safetensors")
    tokens, mask = random.randint(0, 30, (5, 7)), np.ones((5, 7), np.int64)
    mask[1, 3:] = 0
    assert_same(net, again, (tokens, mask))
    expected = module.eval()(torch.tensor(tokens), torch.tensor(mask)).detach().numpy()
    np.testing.assert_allclose(again.eval()(mask=mask, tokens=tokens), expected, rtol=1e-4, atol=1e-5)


def test_dropout_of_everything() -> None:
    class Dropped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)
            self.drop = torch.nn.Dropout(1.0)

        def forward(self, x: Any) -> Any:
            y = self.drop(self.first(x)) + torch.nn.functional.dropout(x, 1.0, self.training)
            return self.last(y)

    module, x = Dropped().train(), floats(5, 4)
    net = check(module, x).train()
    module.train()
    given, cotangent = torch.tensor(x, requires_grad=True), floats(5, 3)
    expected = module(given)
    np.testing.assert_allclose(net(x), expected.detach().numpy(), rtol=1e-6)
    expected.backward(torch.tensor(cotangent))
    np.testing.assert_array_equal(net.backward(cotangent), given.grad.numpy())
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(
            dict(net.named_parameters())[name].grad, parameter.grad.numpy(), rtol=1e-5, atol=1e-6
        )


class Filled(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return (
            x.new_empty(x.shape).bernoulli_(0.3),
            torch.empty(len(x), 1000).uniform_(-2, 3),
            torch.empty_like(x).normal_(2, 3),
        )


class DropPath(torch.nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Any) -> Any:
        if self.rate == 0.0 or not self.training:
            return x
        keep = 1 - self.rate
        random = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        if keep > 0.0:
            random.div_(keep)
        return x * random


def test_paths_are_dropped_in_training_alone() -> None:
    class Paths(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.linear = DropPath(0.25), DropPath(0.5), torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.first(x), x + self.second(self.linear(x))

    module, x = Paths(), np.ones((400, 3), np.float32)
    net = nn.from_torch(module, x[:2])
    dropped, summed = net(x)
    assert all(np.allclose(row, 0) or np.allclose(row, 4 / 3) for row in dropped)
    assert 0.18 < (dropped[:, 0] == 0).mean() < 0.32
    assert 0.4 < np.isclose(summed, 1).all(1).mean() < 0.6
    net.backward((np.zeros_like(dropped), np.ones_like(summed)))
    kept = 400 - np.isclose(summed, 1).all(1).sum()
    np.testing.assert_allclose(net.linear.bias.grad, 2 * kept, rtol=1e-5)
    dropped, summed = net.eval()(x)
    np.testing.assert_array_equal(dropped, x)
    np.testing.assert_allclose(summed, x + module.linear(torch.tensor(x)).detach().numpy(), atol=1e-6)


def test_a_scale_is_told_from_what_drops_a_path() -> None:
    """As in ConvNeXt: both are products, of which evaluation has one."""

    class Block(torch.nn.Module):
        def __init__(self, rate: float) -> None:
            super().__init__()
            self.linear, self.drop = torch.nn.Linear(3, 3), DropPath(rate)
            self.scale = torch.nn.Parameter(torch.rand(3) + 0.5)

        def forward(self, x: Any) -> Any:
            result = self.scale * self.linear(x)
            result = self.drop(result)
            result += x
            return result

    module, x = torch.nn.Sequential(*(Block(rate) for rate in (0.0, 0.25, 0.5, 0.5))), floats(400, 3)
    net = nn.from_torch(module, x[:2])
    expected = module.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(net.eval()(x), expected, rtol=1e-5, atol=1e-5)
    y = net.train()(x)
    first = module[0](torch.tensor(x)).detach().numpy()
    assert 0.03 < np.isclose(y, first, atol=1e-5).all(1).mean() < 0.1  # 0.25 * 0.5 * 0.5 of all drop every path


def test_what_looks_at_numbers_may_ask_whether_it_is_exported() -> None:
    """As masks do in transformers: torch.compiler.is_exporting() holds while a module is converted."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(6, 6)

        def forward(self, x: Any, mask: Any) -> Any:
            q = self.linear(x)
            if not torch.compiler.is_exporting() and bool(mask.all()):
                return torch.nn.functional.scaled_dot_product_attention(q, q, q)
            samples, keys = torch.arange(len(mask))[:, None, None], torch.arange(mask.shape[1])[None, None, :]
            allowed = mask.to(torch.bool)[samples, keys] & torch.ones(mask.shape[1], 1, dtype=torch.bool)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=allowed)

    mask = (np.random.default_rng(2).random((3, 5)) < 0.6).astype(np.int64)
    mask[:, 0] = 1
    check(Masked(), floats(3, 5, 6), mask)
    assert not torch.compiler.is_exporting()


def test_random_numbers_are_drawn_anew() -> None:
    class Noise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            noise = torch.rand(x.size(0), 1000) + 2
            return x + torch.randn_like(x), x.new_zeros(1) + noise, torch.rand_like(x), torch.randn(len(x), 1000)

    net, x = nn.from_torch(Noise(), np.zeros((1, 1000), np.float32)), np.zeros((5, 1000), np.float32)
    for training in (True, False):
        normal, shifted, uniform, other = net.train(training)(x)
        assert not np.array_equal(net(x)[0], normal)
        assert abs(normal.mean()) < 0.1
        assert 0.9 < normal.std() < 1.1
        assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() < 1
        assert 2 <= shifted.min() < 2.01
        assert 0.9 < other.std() < 1.1
    noise = nn.from_torch(Filled(), np.zeros((1, 1000), np.float32))(np.zeros((5, 1000), np.float32))
    assert set(np.unique(noise[0])) == {0, 1}
    assert 0.25 < noise[0].mean() < 0.35
    assert -2 <= noise[1].min() < -1.9 < 2.9 < noise[1].max() < 3
    assert 1.8 < noise[2].mean() < 2.2
    assert 2.8 < noise[2].std() < 3.2
    vae = nn.from_torch(SamplingVAE(), floats(2, 6, 6))
    output, mu, _ = vae(floats(4, 6, 6))
    assert output.shape == (4, 36)
    vae.backward((np.ones_like(output), np.zeros_like(mu), None))
    assert np.abs(vae.fc22.weight.grad).max() > 0


class Shuffled(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x[torch.randperm(len(x))], torch.bernoulli(x), x.bernoulli(0.2), torch.randperm(7)


def test_samples_are_shuffled_anew() -> None:
    x = np.linspace(0.1, 0.9, 40, dtype=np.float32)[:, None].repeat(200, 1)
    net = nn.from_torch(Shuffled(), x[:3])
    mixed, drawn, rare, order = net(x)
    assert not np.array_equal(net(x)[0], mixed)
    np.testing.assert_array_equal(np.sort(mixed, 0), x)
    np.testing.assert_allclose(drawn.mean(1), x[:, 0], atol=0.2)
    assert set(np.unique(drawn)) == set(np.unique(rare)) == {0, 1}
    assert 0.18 < rare.mean() < 0.22
    assert sorted(order) == list(range(7))


def test_examples_of_every_kind() -> None:
    x, t = floats(2, 6, 5), floats(2, 4, 6, seed=1)
    module = Translator().eval()
    expected = module(torch.tensor(x), torch.tensor(t)).detach().numpy()
    for example in ((x, t), [torch.tensor(x), t], {"target": t, "source": x}):
        net = nn.from_torch(module, example)
        np.testing.assert_allclose(net(source=x, target=t), expected, atol=1e-5)
    np.testing.assert_allclose(nn.from_torch(module, (x, t))(x, target=t), expected, atol=1e-5)
    with pytest.raises(TypeError, match="It takes target, source"):
        net(x, tgt=t)
    linear = nn.from_torch(torch.nn.Linear(5, 2).double(), x)
    assert linear(x).dtype == np.float32


def test_lazy_and_hooked_modules() -> None:
    lazy, x = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(2)), floats(3, 7)
    net = nn.from_torch(lazy, x)
    np.testing.assert_allclose(net(x), lazy(torch.tensor(x)).detach().numpy(), atol=1e-6)
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(5, 3))
    net = check(normed, floats(3, 5))
    assert sorted(net.state_dict()) == sorted(normed.state_dict())
    hooked = torch.nn.Sequential(torch.nn.Linear(5, 3))
    hooked[0].register_forward_hook(lambda module, given, output: output * 2)
    check(hooked, floats(3, 5))


def test_names_that_modules_use_themselves() -> None:
    class Names(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.build, self.run, self._kind = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.summary = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("save", torch.full((4,), 2.0))

        def forward(self, x: Any) -> Any:
            return self._kind(self.run(self.build(x) * self.summary)) + self.save

    net = check(Names(), floats(3, 4))
    assert "build" in net.summary()


def test_the_summary_names_what_users_wrote() -> None:
    text = nn.from_torch(MobileNetV2(), floats(2, 3, 33, 29)).summary()
    assert "features.1.conv.0.0" in text
    assert "classifier.1" in text


def test_half_of_the_result_may_be_none() -> None:
    net = nn.from_torch(GPT(), tokens(29, 2, 7))
    assert net(tokens(29, 3, 7)).shape == (3, 7, 29)


def test_state_dicts_of_our_own_networks() -> None:
    ours = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(2), nn.LSTM(9, 5, bidirectional=True), nn.Linear(10, 8),
        nn.TransformerEncoderLayer(8, 2, 16), nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
    )  # fmt: skip
    t = torch.nn
    theirs = t.Sequential(
        t.Conv2d(3, 4, 3), t.BatchNorm2d(4), t.Flatten(2), t.LSTM(9, 5, bidirectional=True), t.Linear(10, 8),
        t.TransformerEncoderLayer(8, 2, 16), t.InstanceNorm1d(4, affine=True, track_running_stats=True),
    )  # fmt: skip
    state = ours.to_torch_state_dict()
    theirs.load_state_dict(state, strict=True)
    assert state["1.num_batches_tracked"].dtype == torch.int64
    state["0.weight"].fill_(0)  # a copy
    assert ours[0].weight.data.any()


def test_modes_of_parts() -> None:
    """A frozen batch norm and a dropout that is switched off stay so, with PyTorch's gradients through both."""
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)
    )
    module[1].running_mean += torch.arange(4)
    module[1].eval()
    module[2].eval()
    x = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    net = nn.from_torch(module, x)
    assert [part.training for part in net.children()] == [True, False, False, True]
    given = torch.tensor(x, requires_grad=True)
    y = module(given)
    y.pow(2).sum().backward()
    output = net(x)
    np.testing.assert_allclose(output, y.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net.backward(2 * output), given.grad.numpy(), rtol=1e-4, atol=1e-5)
    for parameter, theirs in zip(net.parameters(), module.parameters(), strict=True):
        np.testing.assert_allclose(parameter.grad, theirs.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(net.state_dict()["1.running_mean"], module[1].running_mean.numpy())

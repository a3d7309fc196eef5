"""Networks: what they compute, their gradients, their memory, their weights and their messages."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openbnns
from networks import numbers
from openbnns import nn
from openbnns.nn import initialisers, losses, weights
from openbnns.nn._memory import Block, plan


def random(seed: int = 0) -> np.random.RandomState:
    return np.random.RandomState(seed)


# Memory.


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 12), st.integers(0, 12)), max_size=25))
def test_blocks_that_live_together_do_not_overlap(raw: list[tuple[int, int, int]]) -> None:
    blocks = [Block(size, min(a, b), max(a, b)) for size, a, b in raw]
    total = plan(blocks)
    for i, one in enumerate(blocks):
        assert one.offset >= 0 and one.offset % 64 == 0 and one.offset + one.size <= total
        for other in blocks[:i]:
            if one.start <= other.end and other.start <= one.end and one.size and other.size:
                assert one.offset + one.size <= other.offset or other.offset + other.size <= one.offset


def test_memory_of_a_chain_is_shared() -> None:
    net = nn.Sequential(*(nn.Sequential(nn.Linear(256), nn.ReLU()) for _ in range(10))).build((256,), seed=0)
    one = 32 * 256 * 4
    inference = net.program(32, training=False).arena_bytes
    training = net.program(32, training=True).arena_bytes
    assert inference <= 4 * one  # input, and two buffers that take turns
    assert training <= 15 * one  # ten kept outputs, the input, and gradients that take turns


def test_results_do_not_depend_on_what_memory_held() -> None:
    net = nn.Sequential(nn.Conv2d(4, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3))
    x, dy = numbers(3, 2, 6, 6), numbers(3, 3, seed=1)
    first, dx = net(x), net.backward(dy)
    for program in net._programs.values():
        program._memory.view(np.float32)[...] = np.nan
    np.testing.assert_array_equal(net(x), first)
    np.testing.assert_array_equal(net.backward(dy), dx)


# Values and gradients.


class Branches(nn.Module):
    """Every way in which values can be joined and used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right, self.last = nn.Linear(6), nn.Linear(6), nn.Linear(6), nn.Linear(4)
        self.join = nn.Concatenate(axis=-1)

    def forward(self, x: nn.Value) -> nn.Value:
        stem = nn.Tanh()(self.stem(x))
        twice = self.left(stem) + self.left(nn.Sigmoid()(stem))  # one layer used two times
        return self.last(self.join(twice + stem, self.right(stem), stem))


class Cross(nn.Module):
    """Attention with shared and separate inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.MultiheadAttention(6, 2) for _ in range(3))
        self.left, self.right = nn.Linear(6), nn.Linear(6)

    def forward(self, x: nn.Value) -> nn.Value:
        a, b = self.left(x), self.right(x)
        return self.one(a, b, b) + self.two(a, a, b) + self.three(a, b, a)


NETWORKS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(7), nn.Tanh(), nn.Linear(5), nn.GELU(), nn.Linear(3)), (4,)),
    "images": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 3, padding=1, stride=2), nn.SiLU(), nn.AvgPool2d(2), nn.ConvTranspose2d(3, 2, stride=2),
            nn.Softplus(), nn.GlobalAvgPool2d(), nn.Linear(3), nn.LogSoftmax(),
        ),
        (2, 9, 8),
    ),
    "residual": lambda: (
        nn.Sequential(
            nn.Linear(6), nn.Residual(nn.Linear(6), nn.Tanh(), nn.Linear(6)), nn.Residual(nn.Linear(6)),
            nn.Residual(nn.Tanh(), nn.Linear(3), shortcut=nn.Linear(3)), nn.Add(nn.Linear(2), nn.Linear(2)),
        ),
        (5,),
    ),
    "normalized": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 3, padding=1), nn.BatchNorm2d(), nn.Tanh(), nn.Conv2d(4, 1), nn.GroupNorm(2), nn.InstanceNorm2d(),
            nn.Flatten(), nn.Linear(5), nn.BatchNorm1d(), nn.Sigmoid(), nn.LayerNorm(), nn.Linear(2),
        ),
        (2, 5, 4),
    ),
    "lstm": lambda: (nn.Sequential(nn.LSTM(4, num_layers=2), nn.LSTM(3, last_only=True), nn.Linear(2)), (5, 3)),
    "lstm, both directions": lambda: (
        nn.Sequential(nn.LSTM(4, num_layers=2, bidirectional=True), nn.LSTM(3, bidirectional=True, last_only=True), nn.Linear(2)),
        (5, 3),
    ),
    "transformer": lambda: (
        nn.Sequential(nn.Linear(8), nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", causal=True), nn.Flatten(), nn.Linear(2)),
        (4, 3),
    ),
    "cross attention": lambda: (Cross(), (4, 6)),
    "branches": lambda: (Branches(), (5,)),
    "sequence": lambda: (nn.Sequential(nn.Linear(6), nn.Tanh(), nn.Softmax(), nn.Reshape(2, -1), nn.Linear(3)), (4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    """Along random directions, with a random cotangent, on the float64 engine; the network itself stores float32."""
    with openbnns.engine("reference"):
        net, shape = NETWORKS[name]()
        net.build(shape, seed=1)
        x = numbers(16, *shape)  # enough for statistics that do not hang on one sample
        v = numbers(*net(x).shape, seed=2).astype(np.float64)
        dx = net.backward(v)
        step = 5e-3
        points = [(x, dx)] + [(p.data, p.grad.copy()) for p in net.parameters()]
        for index, (array, gradient) in enumerate(points):
            u = numbers(*array.shape, seed=10 + index)
            start = array.copy()
            results = []
            for factor in (2, 1, -1, -2):
                array[...] = start + factor * step * u
                results.append(float(np.sum(v * net(x))))
            array[...] = start
            numeric = (8 * (results[1] - results[2]) - (results[0] - results[3])) / (12 * step)
            analytic = float(np.sum(gradient.astype(np.float64) * u))
            assert analytic == pytest.approx(numeric, rel=2e-3, abs=2e-3), (name, index)


@pytest.mark.parametrize("name", NETWORKS)
def test_engines_agree(name: str) -> None:
    results = []
    for engine in ("native", "reference"):
        with openbnns.engine(engine):
            net, shape = NETWORKS[name]()
            net.build(shape, seed=5)
            y = net(numbers(3, *shape))
            dx = net.backward(numbers(*y.shape, seed=1))
            results.append([y, dx, *(p.grad for p in net.parameters())])
    for native, reference in zip(*results, strict=True):
        np.testing.assert_allclose(native, reference, rtol=2e-5, atol=2e-6)


def test_accumulated_gradients_add_up() -> None:
    net = nn.Sequential(nn.Linear(3), nn.Tanh(), nn.Linear(2))
    x, dy = numbers(4, 5), numbers(4, 2, seed=1)
    net(x)
    net.backward(dy)
    once = [p.grad.copy() for p in net.parameters()]
    net(x)
    net.backward(dy, accumulate=True)
    for gradient, p in zip(once, net.parameters(), strict=True):
        np.testing.assert_allclose(p.grad, 2 * gradient, rtol=1e-6)


def test_one_sample_at_a_time_equals_the_batch() -> None:
    net = nn.Sequential(nn.Conv2d(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2)).eval()
    x = numbers(5, 1, 6, 7)
    whole = net(x)
    parts = np.concatenate([net(x[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)


def test_results_are_the_callers() -> None:
    net = nn.Sequential(nn.Linear(3))
    first = net(numbers(2, 4))
    kept = first.copy()
    net(numbers(2, 4, seed=9))
    np.testing.assert_array_equal(first, kept)


def test_dropout_in_training_and_not_at_inference() -> None:
    net = nn.Sequential(nn.Dropout(0.5))
    x = np.ones((4, 100), np.float32)
    y = net(x)
    assert set(np.unique(y)) == {0.0, 2.0}
    np.testing.assert_array_equal(net.backward(x), y)
    assert not np.array_equal(net(x), y)
    np.testing.assert_array_equal(net.eval()(x), x)


def test_embedding() -> None:
    net = nn.Sequential(nn.Embedding(10, 3, padding_idx=0), nn.Flatten(), nn.Linear(2))
    x = np.array([[1, 2, 0], [2, 2, 9]])
    net(x)
    assert net.backward(numbers(2, 2)) is None
    used = np.abs(net[0].weight.grad).sum(axis=1) > 0
    assert np.flatnonzero(used).tolist() == [1, 2, 9]
    with pytest.raises(ValueError, match="must be the first layer"):
        nn.Sequential(nn.Linear(3), nn.Embedding(4, 2)).build((2,))
    with pytest.raises(openbnns.BNNSError, match="10"):
        net(np.array([[1, 2, 10]]))


def test_moving_statistics() -> None:
    net = nn.Sequential(nn.BatchNorm1d(momentum=0.25))
    x = numbers(50, 3) * 2 + 1
    net(x)
    np.testing.assert_allclose(net[0].running_mean, 0.25 * x.mean(0), rtol=1e-4)
    np.testing.assert_allclose(net[0].running_var, 0.75 + 0.25 * x.var(0), rtol=1e-4)
    y = net.eval()(x)
    np.testing.assert_allclose(y, (x - net[0].running_mean) / np.sqrt(net[0].running_var + 1e-5), rtol=1e-4, atol=1e-5)


# Fusing.


def test_convolution_normalization_and_activation_become_one() -> None:
    net = nn.Sequential(
        nn.Conv2d(4, 3), nn.BatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.Linear(3), nn.BatchNorm1d(), nn.Tanh()
    )
    net.build((1, 6, 6), seed=0)
    assert [len(op.modules) for op in net._graph.operations] == [3, 3]


def test_activations_are_fused_where_the_output_tells_the_slope() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4), nn.Tanh(), nn.Linear(4), nn.GELU())
    net.build((1, 5, 5), seed=0)
    assert [len(op.modules) for op in net._graph.operations] == [2, 2, 1, 1]


def test_a_value_that_is_used_twice_is_not_fused_away() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.relu = nn.Linear(3), nn.ReLU()

        def forward(self, x: nn.Value) -> nn.Value:
            z = self.linear(x)
            return z + self.relu(z)

    net = Twice()
    x = numbers(4, 3)
    z = x @ net.build((3,), seed=0).linear.weight.data.T + net.linear.bias.data
    np.testing.assert_allclose(net(x), z + np.maximum(z, 0), rtol=1e-5)


# Sizes.


def test_sizes_may_be_given_or_inferred() -> None:
    inferred = nn.Sequential(nn.Conv2d(8, 3), nn.Flatten(), nn.Linear(5)).build((3, 6, 6), seed=1)
    given_ = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(128, 5)).build((3, 6, 6), seed=1)
    for a, b in zip(inferred.parameters(), given_.parameters(), strict=True):
        np.testing.assert_array_equal(a.data, b.data)


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (nn.Sequential(nn.Linear(4, 2)), (3,), "Linear: made for 4 inputs, but its input has 3"),
        (nn.Sequential(nn.Conv2d(4, 3)), (7,), r"Conv2d: needs samples \(channels, height, width\), but gets \(7,\)"),
        (nn.Sequential(nn.Conv2d(4, 9)), (1, 5, 5), "leaves nothing with kernel"),
        (nn.Sequential(nn.Conv2d(4, 3, groups=3)), (6, 5, 5), "3 groups do not divide 6 input and 4 output"),
        (nn.Sequential(nn.MaxPool2d(7)), (1, 5, 5), "smaller than the window"),
        (nn.Sequential(nn.Reshape(3, 3)), (10,), "has 10 elements, which do not fill"),
        (nn.Residual(nn.Linear(4)), (3,), "cannot be added to its output. Give a shortcut"),
        (nn.Concatenate(nn.Linear(2), nn.Linear(3), axis=1), (4,), "axis 1 is not one of"),
    ],
)
def test_sizes_that_do_not_fit(network: nn.Module, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network.build(shape)


def test_bad_use() -> None:
    with pytest.raises(TypeError, match=r"part 1 is .*ReLU.*Call it to make one"):
        nn.Sequential(nn.Linear(2), nn.ReLU)
    net = nn.Sequential(nn.Linear(2))
    with pytest.raises(RuntimeError, match="sizes are not known yet"):
        net.state_dict()
    with pytest.raises(RuntimeError, match="no forward pass in training mode"):
        net.backward(np.zeros((1, 2)))
    net(numbers(3, 4))
    with pytest.raises(ValueError, match=r"output_gradient has shape \(3, 3\)"):
        net.backward(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"input 0 has shape \(3, 5\), but the network is built for \(N, 4\)"):
        net(numbers(3, 5))
    with pytest.raises(ValueError, match="built for samples of"):
        net.build((7,))
    with pytest.raises(ValueError, match="at least one sample"):
        net(np.zeros((0, 4), np.float32))
    with pytest.raises(ValueError, match="array of numbers"):
        net(np.array([["a", "b", "c", "d"]]))
    net.eval()(numbers(3, 4))
    with pytest.raises(RuntimeError, match="no forward pass in training mode"):
        net.backward(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="There is no initialiser 'kaimin'"):
        nn.Sequential(nn.Linear(2, weight_init="kaimin")).build((2,))
    with pytest.raises(NotImplementedError, match="has no forward"):
        nn.Module().build((2,))
    for make in (lambda: nn.Linear(), lambda: nn.Conv2d(3), lambda: nn.Conv2d(1, 2, 3, 1, 0, 1, 1, True, 4)):
        with pytest.raises(TypeError):
            make()
    for make in (
        lambda: nn.Linear(0),
        lambda: nn.Conv2d(4, (1, 2, 3)),
        lambda: nn.GELU("erf"),
        lambda: nn.MaxPool2d(2, padding=2),
    ):
        with pytest.raises(ValueError):
            make()


# Weights.


def test_weights_go_through_a_file(tmp_path) -> None:
    make = lambda: nn.Sequential(nn.Conv2d(4, 3), nn.Flatten(), nn.Linear(3))  # noqa: E731
    one, other = make().build((1, 5, 5), seed=1), make().build((1, 5, 5), seed=2)
    one.save(tmp_path / "w.safetensors")
    assert other.load(tmp_path / "w.safetensors") == []
    x = numbers(2, 1, 5, 5)
    np.testing.assert_array_equal(one(x), other(x))


def test_every_mismatch_is_listed_and_nothing_changes() -> None:
    net = nn.Sequential(nn.Linear(3), nn.Linear(2)).build((4,), seed=1)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    given_ = {"0.weight": np.zeros((3, 5)), "0.bias": np.ones(3), "1.weight": np.zeros((2, 3)), "2.bias": np.zeros(2)}
    with pytest.raises(nn.Mismatch) as caught:
        net.load_state_dict(given_)
    text = str(caught.value)
    assert "0.weight: shape (3, 5) given, (3, 4) needed" in text
    assert "1.bias: missing" in text and "2.bias: not in the network" in text and "3 mismatch(es)" in text
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])
    del given_["0.weight"]
    assert len(net.load_state_dict(given_, strict=False)) == 3
    np.testing.assert_array_equal(net.state_dict()["0.bias"], np.ones(3))


@given(
    st.dictionaries(
        st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=6),
        st.tuples(st.sampled_from(["f4", "f8", "i8", "u1", "f2", "?"]), st.lists(st.integers(0, 4), max_size=3)),
        max_size=4,
    )
)
def test_safetensors_round_trip(spec: dict[str, tuple[str, list[int]]]) -> None:
    arrays = {name: (random(len(name)).uniform(0, 9, shape)).astype(kind) for name, (kind, shape) in spec.items()}
    read, metadata = weights.decode(weights.encode(arrays, {"a": "b"}))
    assert metadata == {"a": "b"} and list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_safetensors_layout() -> None:
    """Byte for byte, as other readers expect it."""
    data = weights.encode({"w": np.array([[1, 2]], np.float32)})
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert data[8 + length :] == np.array([1, 2], "<f4").tobytes()


def test_bfloat16_is_read_as_float32() -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    data = struct.pack("<Q", len(header)) + header + np.array([0x3F80, 0xC000], "<u2").tobytes()
    np.testing.assert_array_equal(weights.decode(data)[0]["w"], np.array([1, -2], np.float32))


def test_damaged_files_never_crash() -> None:
    good = weights.encode({"w": numbers(3, 4), "b": numbers(4)})
    for cut in range(0, len(good), 7):
        with pytest.raises(weights.DamagedFile):
            weights.decode(good[:cut])
    source = random(3)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(3):
            bad[source.randint(len(bad))] = source.randint(256)
        with contextlib.suppress(weights.DamagedFile):
            weights.decode(bytes(bad))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
        {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]},
        {"shape": [1]},
        "nonsense",
    ],
)
def test_headers_that_lie(entry: object) -> None:
    header = json.dumps({"w": entry}).encode()
    with pytest.raises(weights.DamagedFile, match="w: "):
        weights.decode(struct.pack("<Q", len(header)) + header + bytes(4))


# Initial values and summary.


def test_initialisers() -> None:
    shape = (64, 32, 3, 3)
    source = random(0)
    assert np.abs(initialisers.kaiming_uniform(shape, source)).max() == pytest.approx(np.sqrt(6 / 288), rel=0.01)
    assert initialisers.kaiming_normal(shape, source).std() == pytest.approx(np.sqrt(2 / 288), rel=0.02)
    assert np.abs(initialisers.xavier_uniform(shape, source)).max() == pytest.approx(np.sqrt(6 / (288 + 576)), rel=0.01)
    assert initialisers.xavier_normal(shape, source).std() == pytest.approx(np.sqrt(2 / (288 + 576)), rel=0.02)
    q = initialisers.orthogonal((4, 9), source)
    np.testing.assert_allclose(q @ q.T, np.eye(4), atol=1e-6)
    same = [nn.Sequential(nn.Linear(3)).build((4,), seed=7)[0].weight.data for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_summary_and_repr() -> None:
    net = nn.Sequential(nn.Conv2d(8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(10))
    assert "Conv2d(?, 8, kernel_size=(3, 3), padding=(1, 1))" in repr(net)
    text = net.build((1, 8, 8), seed=0).summary()
    assert "Conv2d + ReLU" in text and "(8, 4, 4)" in text and "1,370 parameters" in text


# Losses.


def test_losses_refuse_what_does_not_fit() -> None:
    scores = numbers(4, 3)
    with pytest.raises(ValueError, match=r"need class numbers of shape \(4,\)"):
        losses.CrossEntropyLoss()(scores, np.zeros((4, 2), np.int64))
    with pytest.raises(TypeError, match="Pass class numbers as integers"):
        losses.CrossEntropyLoss()(scores, np.zeros(4))
    with pytest.raises(ValueError, match=r"class number 3 is out of range.*0 to 2"):
        losses.CrossEntropyLoss()(scores, np.array([0, 1, 2, 3]))
    with pytest.raises(ValueError, match="class number -1 is out of range"):
        losses.CrossEntropyLoss()(scores, np.array([0, 1, 2, -1]))
    with pytest.raises(ValueError, match="targets have shape"):
        losses.MSELoss()(scores, np.zeros(4))
    with pytest.raises(ValueError, match="targets contain nan at"):
        losses.MSELoss()(scores, np.full((4, 3), np.nan))
    for make in (lambda: losses.HuberLoss(0), lambda: losses.CrossEntropyLoss(1.0)):
        with pytest.raises(ValueError):
            make()


@pytest.mark.parametrize(
    ("make", "same_as"),
    [
        (lambda: nn.Linear(in_features=3, out_features=2, bias=False), lambda: nn.Linear(3, 2, False)),
        (lambda: nn.Linear(out_features=2), lambda: nn.Linear(2)),
        (lambda: nn.Conv2d(1, 8, 3, 2, 1), lambda: nn.Conv2d(1, 8, 3, stride=2, padding=1)),
        (lambda: nn.Conv2d(in_channels=4, out_channels=8, kernel_size=3, groups=2), lambda: nn.Conv2d(4, 8, 3, 1, 0, 1, 2)),
        (lambda: nn.Conv2d(8, kernel_size=3), lambda: nn.Conv2d(8, 3)),
        (lambda: nn.ConvTranspose2d(2, 3, 3, 2, 1, 1), lambda: nn.ConvTranspose2d(2, 3, 3, 2, padding=1, output_padding=1)),
        (lambda: nn.LSTM(3, 5, 2), lambda: nn.LSTM(input_size=3, hidden_size=5, num_layers=2)),
        (lambda: nn.LSTM(3, 5, 1, True, True, 0.5, True), lambda: nn.LSTM(3, 5, dropout=0.5, bidirectional=True)),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: nn.MultiheadAttention(8, 2)),
        (lambda: nn.ReLU(inplace=True), lambda: nn.ReLU(True)), (lambda: nn.Flatten(1), lambda: nn.Flatten()),
        (lambda: nn.LeakyReLU(0.2, inplace=True), lambda: nn.LeakyReLU(0.2)),
        (lambda: nn.Dropout(0.3, True), lambda: nn.Dropout(0.3)),
    ],
)  # fmt: skip
def test_arguments_as_in_pytorch(make: Callable[[], nn.Module], same_as: Callable[[], nn.Module]) -> None:
    """By position in PyTorch's order, or by its names."""
    one, other = make(), same_as()
    assert repr(one) == repr(other)
    parts = (nn.Module, nn.Parameter)
    settings = [
        {k: v for k, v in vars(m).items() if not k.startswith("_") and not isinstance(v, parts)} for m in (one, other)
    ]
    assert settings[0] == settings[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Linear(in_features=3), "Linear takes the number of outputs"),
        (lambda: nn.Linear(3, 2, True, 4), "Linear takes the number of outputs"),
        (lambda: nn.Conv2d(1, 8, 3, 2, stride=1), "stride is given twice: by position and by name"),
        (lambda: nn.Conv2d(1, 8, 3, output_padding=1), "belongs to ConvTranspose2d"),
        (lambda: nn.LSTM(), "LSTM takes the hidden size"),
        (lambda: nn.LSTM(3, 5, 1, True, False), "batch_first is False"),
        (lambda: nn.MultiheadAttention(8, 2, batch_first=False), "MultiheadAttention: batch_first is False"),
        (lambda: nn.Flatten(2), "start_dim is 2"),
    ],
)
def test_arguments_that_do_not_fit(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize("name", ["images", "normalized", "lstm, both directions", "transformer"])
def test_copies_are_networks_of_their_own(name: str, duplicate: Callable[[nn.Module], nn.Module]) -> None:
    net, shape = NETWORKS[name]()
    assert repr(duplicate(net)) == repr(net)  # before it is built, too
    net.build(shape, seed=3)
    x = numbers(4, *shape)
    dy = numbers(*net(x).shape, seed=1)  # moves the statistics
    net.backward(dy)
    twin = duplicate(net)
    assert twin.built and list(twin.state_dict()) == list(net.state_dict())
    np.testing.assert_array_equal(twin.eval()(x), net.eval()(x))
    twin.train()
    net.train()
    for one in (net, twin):
        one(x)
        one.backward(dy)
    for (path, mine), (_, theirs) in zip(net.named_parameters(), twin.named_parameters(), strict=True):
        np.testing.assert_array_equal(mine.grad, theirs.grad, err_msg=path)
        theirs.data += 1
        assert not np.array_equal(mine.data, theirs.data)
    for (_, mine), (_, theirs) in zip(net.named_buffers(), twin.named_buffers(), strict=True):
        assert mine is not theirs


def test_layers_and_filters_are_not_copied() -> None:
    layer = openbnns.ActivationLayer(function=openbnns.ActivationFunction.tanh(), input=openbnns.Shape.vector(2))
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(
            TypeError, match="ActivationLayer holds memory of the compiled core, so it cannot be copied"
        ):
            duplicate(layer)
        with pytest.raises(TypeError, match="a filter cannot be copied or pickled"):
            duplicate(layer.bnns_filter)


# Values, parameters and parts that are assigned to after the network was built.


def test_assigned_values_reach_network_and_optimizer() -> None:
    x, ones = numbers(4, 3), np.ones((2, 3))
    net = nn.Sequential(nn.Linear(3, 2, bias=False), nn.BatchNorm1d(2))
    before = net(x)
    layer = net[0]
    assert isinstance(layer, nn.Linear) and layer.weight is not None
    optimizer = nn.SGD(net.parameters(), lr=0.5)
    memory = layer.weight.data
    layer.weight.data = ones
    assert layer.weight.data is memory
    np.testing.assert_array_equal(net.state_dict()["0.weight"], ones)
    assert not np.allclose(net(x), before)
    net[1].running_mean = np.float32([5, 6])  # type: ignore[assignment]
    net[1].running_var = np.float32([4, 4])  # type: ignore[assignment]
    expected = (x.sum(1, keepdims=True) - [5, 6]) / np.sqrt(4 + 1e-5)
    np.testing.assert_allclose(net.eval()(x), expected, rtol=1e-5, atol=1e-6)
    layer.weight.grad = 2 * ones
    optimizer.step()
    np.testing.assert_array_equal(layer.weight.data, ones - 1)
    layer.weight.grad = None
    assert not layer.weight.grad.any()
    layer.weight.grad = ones
    optimizer.zero_grad()
    assert not layer.weight.grad.any()
    with pytest.raises(ValueError, match=r"Parameter\.data: shape \(3, 2\) given, \(2, 3\) needed"):
        layer.weight.data = ones.T
    with pytest.raises(TypeError, match=r"Linear\.weight is a Parameter\. .* assign to weight\.data"):
        layer.weight = ones  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"requires_grad must be True or False, not 'no'"):
        layer.weight.requires_grad = "no"  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        layer.weight.gradient = ones  # type: ignore[attr-defined]
    assert layer.weight.requires_grad and layer.weight.numel() == 6 and np.asarray(layer.weight).shape == (2, 3)


def test_parts_put_in_place_of_others_take_part() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(3, 4), nn.Tanh()), nn.Linear(4, 2)

        def forward(self, *inputs: nn.Value) -> nn.Value:
            value: nn.Value = self.head(self.body(*inputs))
            return value

    x, net, other = numbers(5, 3), Net(), nn.Sequential(nn.Linear(3, 2)).build((3,), seed=1)
    untouched = other(x)
    net(x)
    body = net.body(x)
    net.head = nn.Linear(4, 6)
    assert net(x).shape == (5, 6) and net.head.weight is not None and net.head.bias is not None
    np.testing.assert_allclose(net(x), body @ net.head.weight.data.T + net.head.bias.data, rtol=1e-5, atol=1e-6)
    net.head.weight = nn.Parameter(np.ones((6, 4)))
    net.head.bias = None
    np.testing.assert_allclose(net(x), np.tile(body.sum(1, keepdims=True), 6), rtol=1e-5, atol=1e-6)
    net.backward(np.ones((5, 6)))
    np.testing.assert_allclose(net.head.weight.grad, np.tile(body.sum(0), (6, 1)), rtol=1e-5, atol=1e-5)
    assert list(net.state_dict()) == ["body.0.weight", "body.0.bias", "head.weight"]
    np.testing.assert_array_equal(other(x), untouched)


def test_sequential_of_named_parts() -> None:
    net = nn.Sequential({"one": nn.Linear(3, 4), "act": nn.ReLU(), "two": nn.Linear(4, 2)})
    assert net(numbers(5, 3)).shape == (5, 2) and len(net) == 3
    assert list(net.state_dict()) == ["one.weight", "one.bias", "two.weight", "two.bias"]
    for name in ("a.b", "", "train", 3):
        with pytest.raises(ValueError, match="cannot be called"):
            nn.Sequential({name: nn.ReLU()})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="part 0 is 5, which is no module"):
        nn.Sequential({"one": 5})  # type: ignore[dict-item]


def test_optimizers_as_in_pytorch() -> None:
    parameters = list(nn.Linear(3, 2).build((3,)).parameters())
    make: Callable[..., nn.Optimizer]
    for make, further in ((nn.SGD, {"momentum": 0.9}), (nn.Adam, {"betas": (0.8, 0.9)}), (nn.RMSprop, {"alpha": 0.5})):
        optimizer = make(parameters, 0.25, **further)
        assert optimizer.learning_rate == 0.25 and optimizer.parameters == parameters
        assert make(parameters, 0.25, *further.values()).state_dict().keys() == optimizer.state_dict().keys()
        with pytest.raises(TypeError, match=r"the learning rate is given twice, as 0\.25 and as lr"):
            make(parameters, 0.25, lr=0.1)
    assert len(nn.SGD(parameters, 0.25, 0.9).accumulators) == 2
    assert len(nn.SGD(0.25, 0.9).state_dict()) == 1


def test_saving_into_no_folder(tmp_path: object) -> None:
    with pytest.raises(FileNotFoundError, match=r"m\.safetensors: there is no folder .*nowhere\. Make it first"):
        nn.Linear(3, 2).build((3,)).save(f"{tmp_path}/nowhere/m.safetensors")


def test_options_changed_after_building_count() -> None:
    x = numbers(400, 3)
    net = nn.Sequential(nn.BatchNorm1d(3), nn.LeakyReLU(0.1), nn.Dropout(0.5))
    net(x)
    net[0].momentum, net[0].eps, net[1].negative_slope, net[2].p = 1.0, 3.0, 0.5, 0.0  # type: ignore[assignment]
    y = (x - x.mean(0)) / np.sqrt(x.var(0) + 3)
    np.testing.assert_allclose(net(x), np.where(y < 0, 0.5 * y, y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net[0].running_mean, x.mean(0), rtol=1e-4, atol=1e-6)  # type: ignore[arg-type]


def test_what_an_optimizer_does_not_know_is_refused() -> None:
    optimizer = nn.SGD(0.5)
    optimizer.lr = 0.25
    assert optimizer.learning_rate == optimizer.lr == 0.25
    with pytest.raises(AttributeError, match=r"SGD: 'weight_decay' cannot be set\. learning_rate, or lr, may change"):
        optimizer.weight_decay = 0.1  # type: ignore[attr-defined]


def test_building_one_network_leaves_the_plans_of_others() -> None:
    x = numbers(4, 1, 6, 6)
    net = nn.Sequential(nn.Conv2d(2, 3, padding="same"), nn.ReLU())
    net(x)
    plans = list(net._programs.values())
    for _ in range(2):
        nn.Sequential(nn.Conv2d(2, 3, padding="same"), nn.ReLU(), nn.Flatten(), nn.Linear(2))(x)
        net(x)
    assert list(net._programs.values()) == plans


def test_optimizers_show_their_settings() -> None:
    assert repr(nn.SGD(0.1, momentum=0.9)).startswith("SGD(learning_rate=0.1, momentum=0.9,")
    assert repr(nn.Adam()).startswith("Adam(learning_rate=0.001, beta1=0.9,")

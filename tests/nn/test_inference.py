"""Networks that are frozen for inference: the numbers of a call in eval, whatever happens to the network afterwards."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from helpers import Array
from helpers import assert_bitwise as assert_same_bits
from networks import numbers
from openbnns import capi, nn
from openbnns.graph import operations
from openbnns.nn.inference import CompiledInference
from openbnns.nn.recording import recorded_graph, recording_of


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(40, 33), nn.ReLU(), nn.Dropout(0.3), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3))


def normalized() -> nn.Module:
    return nn.Sequential(
        nn.Linear(40, 33, bias=False), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 9),
        nn.BatchNorm1d(9, affine=False), nn.LayerNorm(9), nn.Linear(9, 3),
    )  # fmt: skip


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 20, 3, padding=1, bias=False), nn.BatchNorm2d(20), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 24, 3, padding=1), nn.BatchNorm2d(24), nn.MaxPool2d(2), nn.Conv2d(24, 16, 1),
        nn.ConvTranspose2d(16, 8, 2, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8),
        nn.BatchNorm2d(8), nn.Conv2d(8, 6, (10, 14)), nn.BatchNorm2d(6), nn.InstanceNorm2d(6, track_running_stats=True),
        nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip


def residual() -> nn.Module:
    def body() -> nn.Module:
        return nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))

    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.Residual(body()), nn.ReLU(), nn.Residual(body()), nn.ReLU(), nn.GlobalAvgPool2d()
    )


def signals() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(5, 18, 3), nn.BatchNorm1d(18), nn.GELU(), nn.ConvTranspose1d(18, 4, 3, stride=2), nn.BatchNorm1d(4),
        nn.Flatten(), nn.Linear(3),
    )  # fmt: skip


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(5, 18), nn.GRU(18, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.gru(self.lstm(x)[0])[0][:, -1])


def encoder() -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 16), nn.TransformerEncoderLayer(16, 4, 40, 0.1), nn.TransformerEncoderLayer(16, 2, 20, causal=True),
        nn.Flatten(), nn.Linear(3),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (40,)),
    "normalized": (normalized, (40,)),
    "images": (images, (3, 24, 32)),
    "residual": (residual, (3, 12, 12)),
    "signals": (signals, (5, 21)),
    "reader": (Reader, (7, 5)),
    "encoder": (encoder, (12, 5)),
}


def trained(make: Callable[[], nn.Module], sample: tuple[int, ...]) -> nn.Module:
    """With statistics and parameters of normalizations that are not those of the start."""
    net = make().build(sample, seed=3)
    random = np.random.RandomState(4)
    for name, array in net.state_dict().items():
        if "running_var" in name:
            array[...] = 0.5 + random.random_sample(array.shape)
        elif "running_mean" in name or (array.ndim == 1 and "weight" in name):
            array[...] = 0.3 + random.standard_normal(array.shape)
    return net.eval()


def assert_bitwise(got: Array, wanted: Array) -> None:
    assert_same_bits(got, wanted, "result")


def assert_close(got: Array, wanted: Array) -> None:
    np.testing.assert_allclose(got, wanted, rtol=0, atol=3e-6 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("batch", [1, 5, 16])
@pytest.mark.parametrize("kind", NETWORKS)
def test_numbers_are_those_of_a_call_in_eval(kind: str, batch: int) -> None:
    make, sample = NETWORKS[kind]
    net, x = trained(make, sample), numbers(batch, *sample)
    wanted = net(x)
    infer = net.train().compile_inference(batch)
    for _ in range(3):  # recorded, replayed, and again
        assert_close(infer(x), wanted)
    other = numbers(batch, *sample, seed=1)
    assert_close(infer(other), net.eval()(other))


def test_bits_are_the_same_without_batch_normalization() -> None:
    for kind in ("mlp", "encoder", "reader"):
        make, sample = NETWORKS[kind]
        net, x = trained(make, sample), numbers(16, *sample)
        assert_bitwise(net.compile_inference(16)(x), net(x))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    net, x = trained(images, (3, 24, 32)), numbers(4, 3, 24, 32)
    infer, before, results = net.compile_inference(4), bn.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            bn.set_num_threads(threads)
            results.append(infer(x))
    finally:
        bn.set_num_threads(before)
    assert_bitwise(results[0], results[1])
    assert_bitwise(results[0], results[2])


def test_batch_normalizations_are_folded_and_dropout_is_left_out() -> None:
    infer = trained(images, (3, 24, 32)).compile_inference(2)
    graph = recorded_graph(infer._frozen)
    assert graph is not None
    assert not any(isinstance(op, operations.Normalization) and op.type.case == "batch" for op in graph.operations)
    folded = [op for op in graph.operations if isinstance(op, operations.Convolution) and op.normalization is not None]
    assert len(folded) == 5 and all(op.folds for op in folded)
    mlp_graph = recorded_graph(trained(mlp, (40,)).compile_inference(2)._frozen)
    assert mlp_graph is not None
    assert [type(op).__name__ for op in mlp_graph.operations] == ["Linear"] * 3


def test_statistics_of_the_batch_are_not_folded() -> None:
    net = nn.Sequential(nn.Linear(40, 9), nn.BatchNorm1d(9, track_running_stats=False), nn.ReLU()).build((40,)).eval()
    x = numbers(6, 40)
    assert_bitwise(net.compile_inference(6)(x), net(x))


def test_what_happens_to_the_network_later_is_not_seen() -> None:
    net, x = trained(normalized, (40,)), numbers(16, 40)
    infer = net.compile_inference(16)
    wanted, views = infer(x), list(net.state_dict().values())
    for array in views:  # through views of the parameters and statistics
        array += 1
    assert_bitwise(infer(x), wanted)
    net.train()
    step = net.compile_step("cross_entropy", nn.SGD(net.parameters(), lr=0.1), 16)
    step(x, np.arange(16) % 3)
    assert_bitwise(infer(x), wanted)
    assert np.abs(net.eval()(x) - wanted).max() > 1e-2
    np.testing.assert_allclose(net.compile_inference(16)(x), net(x), rtol=1e-3)  # the layer norm magnifies differences


def test_the_network_itself_stays_as_it_is() -> None:
    net, x = trained(residual, (3, 12, 12)).train(), numbers(2, 3, 12, 12)
    net.backward(np.ones_like(net(x)))
    before = {name: array.copy() for name, array in net.state_dict().items()}
    gradients = [p.grad.copy() for p in net.parameters()]
    net.compile_inference(2)(x)
    assert net.training and all(p.requires_grad for p in net.parameters())
    for name, array in net.state_dict().items():
        assert_bitwise(array, before[name])
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        assert_bitwise(parameter.grad, gradient)


@pytest.mark.parametrize("write", ["view", "item", "assigned", "loaded", "step", "whole step"])
def test_a_call_in_eval_follows_every_write(write: str) -> None:
    net, x = trained(mlp, (40,)), numbers(16, 40)
    view = net.state_dict()["0.weight"]
    first = [net(x) for _ in range(3)][-1]
    if write == "view":
        view *= 2
    elif write == "item":
        net[0].weight[:] = 2 * view
    elif write == "assigned":
        net[0].weight.data = 2 * view
    elif write == "loaded":
        net.load_state_dict({name: 2 * array for name, array in net.state_dict().items()})
    else:
        net.train()
        optimizer = nn.SGD(net.parameters(), lr=0.5)
        if write == "step":
            net.backward(net(x))
            optimizer.step()
        else:
            net.compile_step("cross_entropy", optimizer, 16)(x, np.arange(16) % 3)
        net.eval()
    changed = net(x)
    assert np.abs(changed - first).max() > 1e-3
    twin = mlp().build((40,)).eval()
    twin.load_state_dict(net.state_dict())
    assert_bitwise(changed, twin(x))


def test_weights_are_kept_until_somebody_may_have_written_to_them() -> None:
    net, x = trained(mlp, (40,)), numbers(16, 40)
    first = [net(x) for _ in range(3)][-1]
    known = recording_of(net, False).weights_version()
    assert known != 0 and recording_of(net, False).weights_version() == known
    net[0].weight._data *= 2  # without notice: proves that the weights are not read
    assert_bitwise(net(x), first)
    view = net[0].weight.data[3:].T  # which holds what was handed out
    assert recording_of(net, False).weights_version() == 0
    seen = net(x)
    assert np.abs(seen - first).max() > 1e-3
    view += 1
    assert np.abs(net(x) - seen).max() > 1e-3
    last = net(x)
    del view
    again = recording_of(net, False).weights_version()
    assert again not in (0, known)
    assert_bitwise(net(x), last)
    assert recording_of(net, False).weights_version() == again


def test_arrays_of_others_are_never_taken_for_granted() -> None:
    array = numbers(3, 40)

    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(40, 3)
            self.linear.weight = nn.Parameter(array)

        def forward(self, x: Any) -> Any:
            return self.linear(x)

    net, x = Given().build((40,)).eval(), numbers(16, 40)
    for _ in range(3):
        net(x)
    assert recording_of(net, False).weights_version() == 0
    array *= 2
    assert_close(net(x), x @ array.T + net.linear.bias.data)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_of_parameters_are_followed(how: Callable[[nn.Parameter], nn.Parameter]) -> None:
    layer, x = nn.Linear(40, 20).build((40,)).eval(), numbers(16, 40)
    twin = how(layer.weight)
    other = nn.Linear(40, 20)
    other.weight, other.bias = twin, layer.bias
    other.build((40,)).eval()
    for _ in range(3):
        assert_bitwise(layer(x), other(x))
    twin.data[:] = numbers(20, 40, seed=3)
    shared = np.shares_memory(twin.data, layer.weight.data)
    assert shared == (how is copy.copy)
    for net in (layer, other):
        assert_close(net(x), x @ net.weight.data.T + net.bias.data)


def test_filters_that_own_their_weights_keep_them() -> None:
    x, w = numbers(64, 40), numbers(48, 40, seed=1)
    image, kernels = numbers(9, 20, 16, 16), numbers(30, 20, 3, 3, seed=2)
    flags = capi.BNNSFilterParameters(flags=capi.BNNSFlagsUseClientPtr)
    shapes = {"input": bn.Shape.image_chw(16, 16, 20), "output": bn.Shape.image_chw(14, 14, 30)}
    for make, given in (
        (lambda f: bn.FullyConnectedLayer(weights=w, filter_parameters=f), x),
        (lambda f: bn.ConvolutionLayer(weights=kernels, filter_parameters=f, **shapes), image),
    ):
        own, clients = make(None), make(flags)
        wanted = clients.apply(given)
        for _ in range(2):
            assert_bitwise(own.apply(given), wanted)
        own.bnns_filter.weights.fixed[...] = 0  # proves that they are not read any more
        assert_bitwise(own.apply(given), wanted)
        saved = w.copy(), kernels.copy()
        w[...], kernels[...] = 2 * w, 2 * kernels
        assert_close(clients.apply(given), 2 * wanted)
        w[...], kernels[...] = saved


def test_results_go_where_out_says() -> None:
    net, x = trained(mlp, (40,)), numbers(5, 40)
    infer = net.compile_inference(5)
    wanted = net(x)
    mine = np.full((5, 3), np.nan, np.float32)
    assert infer(x, out=mine) is mine
    assert_bitwise(mine, wanted)
    planned = infer(x, out=infer.outputs)
    assert planned is infer.outputs
    assert_bitwise(planned, wanted)
    assert not np.shares_memory(infer(x), planned)
    infer.inputs[0][...] = 2 * x
    assert_bitwise(infer(*infer.inputs, out=infer.outputs), net(2 * x))
    assert_bitwise(planned, net(2 * x))  # the same memory


def test_inputs_are_read_wherever_they_lie() -> None:
    net = nn.Sequential(nn.Linear(40, 33), nn.Residual(nn.Linear(33, 33)), nn.Linear(33, 40)).build((40,)).eval()
    infer, x = net.compile_inference(5), numbers(5, 40)
    wanted = net(x)
    wide, turned = np.zeros((5, 80), np.float32), np.asfortranarray(x)
    wide[:, ::2] = x
    odd = np.zeros(4 * x.size + 1, np.uint8)[1:].view(np.float32).reshape(5, 40)  # not aligned
    odd[...] = x
    for run in (infer, net):
        for _ in range(2):
            for given in (x, x.copy(), wide[:, ::2], turned, odd, x):
                assert_bitwise(run(given), wanted)
    results = infer(x, out=infer.outputs)
    wanted = net(results.copy())
    assert_bitwise(infer(results), wanted)  # which lie in memory that the call writes to
    planned = infer.inputs[0]
    planned[...] = 2 * x
    assert_bitwise(infer(planned), net(2 * x))
    assert_bitwise(planned, 2 * x)


def test_results_that_are_inputs() -> None:
    for net in (nn.Flatten(), nn.Identity(), nn.Dropout(0.5)):
        infer, results = net.build((2, 3)).eval().compile_inference(4), []
        for seed in (1, 2, 3):
            x = numbers(4, 2, 3, seed=seed)
            results.append((infer(x), net(x), x.reshape(net(x).shape)))
        for result, by_call, wanted in results:
            assert_bitwise(result, wanted)
            assert_bitwise(by_call, wanted)


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, a: Any, b: Any) -> Any:
        return {"sum": self.one(a) + self.two(b), "parts": (self.one(a), self.two(b))}


def test_several_inputs_and_outputs() -> None:
    net = Both().build((4,), (2,)).eval()
    a, b = numbers(3, 4), numbers(3, 2, seed=1)
    infer, wanted = net.compile_inference(3), net(a, b)
    for actual in (infer(a, b), infer(b=b, a=a), infer(a, b, out=infer.outputs)):
        assert_bitwise(actual["sum"], wanted["sum"])
        assert_bitwise(actual["parts"][1], wanted["parts"][1])
    with pytest.raises(ValueError, match="out must be a dictionary with 'sum', 'parts', as forward gives it"):
        infer(a, b, out=np.empty((3, 3), np.float32))
    with pytest.raises(TypeError, match=r"takes 2 inputs, 1 given"):
        infer(a)


def test_threads_may_call_at_the_same_time() -> None:
    net = trained(images, (3, 24, 32))
    infer = net.compile_inference(2)
    batches = [numbers(2, 3, 24, 32, seed=i) for i in range(8)]
    wanted = [infer(x) for x in batches]
    start = threading.Barrier(4)

    def work(worker: int) -> list[Array]:
        start.wait()
        return [infer(batches[(worker + i) % 8]) for i in range(24)]

    with ThreadPoolExecutor(4) as pool:
        for worker, results in enumerate(pool.map(work, range(4))):
            for i, result in enumerate(results):
                assert_bitwise(result, wanted[(worker + i) % 8])


def test_the_reference_engine_and_strict_mode_agree() -> None:
    net, x = trained(images, (3, 24, 32)), numbers(2, 3, 24, 32)
    infer = net.compile_inference(2)
    wanted = infer(x)
    with bn.engine("reference"):
        np.testing.assert_allclose(infer(x), wanted, rtol=0, atol=1e-5)
    with bn.strict():
        assert_bitwise(infer(x), wanted)
    assert_bitwise(infer(x), wanted)


def test_a_network_that_is_not_built_learns_its_sizes_from_the_first_batch() -> None:
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), numbers(5, 4)
    infer = net.compile_inference(5)
    with pytest.raises(RuntimeError, match="the shape of samples is not known yet"):
        infer.inputs  # noqa: B018
    assert_bitwise(infer(x), net.eval()(x))
    with pytest.raises(RuntimeError, match=r"Linear.compile_inference: sizes are not known yet"):
        nn.Linear(3).compile_inference(2)


def test_other_numbers_are_converted() -> None:
    net, x = trained(mlp, (40,)), np.arange(200).reshape(5, 40)
    infer = net.compile_inference(5)
    for kind in (np.int32, np.float64, np.float16):
        assert_bitwise(infer(x.astype(kind)), net(x.astype(np.float32)))
    assert_bitwise(infer(np.asfortranarray(x, np.float32)), net(x.astype(np.float32)))
    assert_bitwise(infer(x.tolist()), net(x.astype(np.float32)))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            np.ones((4, 40), np.float32),
            ValueError,
            r"input 0 has shape \(4, 40\), but \(5, 40\) is needed.*compile for",
        ),
        (np.ones((5, 41), np.float32), ValueError, r"input 0 has shape \(5, 41\), but \(5, 40\) is needed"),
        (np.ones(40, np.float32), ValueError, r"input 0 has shape \(40,\), but \(5, 40\) is needed"),
        (np.ones((5, 40), np.complex64), TypeError, "input 0 is complex64. Pass an array of numbers"),
        (np.full((5, 40), "a"), TypeError, "input 0 is <U1. Pass an array of numbers"),
    ],
)
def test_bad_inputs_are_refused_and_change_nothing(given: Any, error: type[Exception], message: str) -> None:
    infer = trained(mlp, (40,)).compile_inference(5)
    x = numbers(5, 40)
    wanted = infer(x, out=infer.outputs).copy()
    with pytest.raises(error, match=message):
        infer(given)
    assert_bitwise(infer.outputs, wanted)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((5, 4), np.float32), r"out must be float32 of shape \(5, 3\), not float32 of shape \(5, 4\)"),
        (np.empty((5, 3), np.float64), r"out must be float32 of shape \(5, 3\), not float64"),
        ("planned", r"out must be float32 of shape \(5, 3\), not a str"),
    ],
)
def test_bad_out_is_refused(out: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained(mlp, (40,)).compile_inference(5)(numbers(5, 40), out=out)


def test_read_only_out_is_refused() -> None:
    out = np.zeros((5, 3), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        trained(mlp, (40,)).compile_inference(5)(numbers(5, 40), out=out)


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)])
def test_bad_sizes_are_refused(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="compile_inference: batch_size"):
        mlp().compile_inference(size)


def test_whole_numbers_are_asked_for() -> None:
    net = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 2)).build((2,)).eval()
    infer, x = net.compile_inference(3), np.array([[1, 2], [3, 4], [5, 6]])
    assert_bitwise(infer(x), net(x))
    with pytest.raises(ValueError, match="input 0 is float64, but the network takes whole numbers"):
        infer(x + 0.5)


def test_a_network_that_cannot_be_copied_says_why() -> None:
    net = mlp()
    net.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"compile_inference: Sequential cannot be copied \(TypeError.*lock"):
        net.compile_inference(1)


def test_it_says_what_it_is() -> None:
    infer = mlp().compile_inference(4)
    assert isinstance(infer, CompiledInference)
    assert repr(infer) == "CompiledInference(Sequential, batch_size=4)"

"""``nn.from_torch`` with free sizes: networks of graphs, sequences of any length, and other axes for the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.interop.torch import Unsupported
from torch_networks import F, T, floats, tokens, torch

pytestmark = pytest.mark.peers

GRAPH = {"x": ("N", 4), "edge_index": (2, "E"), "weight": ("E",)}


class GCN(T.Module):  # type: ignore[misc, name-defined]
    """Graph convolutions, normalized by degrees, with loops of every node."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = T.Linear(4, 6), T.Linear(6, 3)

    def forward(self, x: Any, edge_index: Any, weight: Any) -> Any:
        nodes = torch.arange(x.shape[0])
        source, target = torch.cat([edge_index, nodes.repeat(2, 1)], 1)
        weight = torch.cat([weight, torch.ones(x.shape[0])])
        scale = torch.zeros(x.shape[0]).index_add(0, target, weight).rsqrt()
        weight = scale[source] * weight * scale[target]

        def propagated(h: Any) -> Any:
            return torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None])

        return propagated(self.second(propagated(self.first(x)).relu()))


class GAT(T.Module):  # type: ignore[misc, name-defined]
    """Attention over the edges of a graph, and the mean of its nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.score = T.Linear(4, 6), T.Linear(12, 1)

    def forward(self, x: Any, edge_index: Any, weight: Any) -> Any:
        h = self.linear(x)
        source, target = edge_index
        a = F.leaky_relu(self.score(torch.cat([h[source], h[target]], 1)).squeeze(1)).exp() * weight
        total = torch.zeros(x.size(0)).scatter_add(0, target, a)
        h = torch.zeros_like(h).scatter_add(0, target[:, None].expand(-1, 6), h[source] * (a / total[target])[:, None])
        return {"nodes": h, "graph": h.sum(0) / x.size(0), "edges": h[source] * h[target]}


def graph(nodes: int, edges: int) -> tuple[Any, ...]:
    weight = np.abs(floats(edges, seed=nodes)) + 0.1
    return floats(nodes, 4, seed=edges), tokens(nodes, 2, edges, seed=nodes + edges), weight.astype(np.float32)


def compared(net: Any, module: Any, x: Any) -> None:
    """Values and all gradients are those of PyTorch."""
    given = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in x]
    expected, results = module(*given), net(*x)
    named = isinstance(expected, dict)
    pairs = [(results[k], expected[k]) for k in expected] if named else [(results, expected)]
    cotangents = [floats(*y.shape, seed=3 + i) for i, (y, _) in enumerate(pairs)]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-4, atol=1e-5)
    module.zero_grad()
    torch.autograd.backward([y for _, y in pairs], [torch.tensor(c) for c in cotangents])
    gradients = net.backward(dict(zip(expected, cotangents, strict=True)) if named else cotangents[0])
    for ours, tensor in zip(gradients if len(x) > 1 else [gradients], given, strict=True):
        if tensor.requires_grad:
            np.testing.assert_allclose(ours, tensor.grad, rtol=1e-3, atol=1e-4)
    for (path, p), q in zip(net.named_parameters(), module.parameters(), strict=True):
        np.testing.assert_allclose(p.grad, q.grad, rtol=1e-3, atol=1e-4, err_msg=path)


@pytest.mark.parametrize("kind", [GCN, GAT])
def test_networks_of_graphs(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = kind()
    net = nn.from_torch(module, graph(4, 9), input_shapes=GRAPH)
    random = np.random.default_rng(0)
    sizes = [(4, 9), (1, 1), (5, 5), (9, 4), *random.integers(1, 40, (10, 2)).tolist()]
    for nodes, edges in sizes:
        compared(net, module, graph(nodes, edges))
    x = graph(6, 11)
    y = net.eval()(*x)
    net.save_model(tmp_path / "model.safetensors")
    net.to_onnx(tmp_path / "model.onnx")
    read = nn.load_model(tmp_path / "model.safetensors")(*x)
    written = nn.from_onnx(tmp_path / "model.onnx")
    results = written(*x)
    assert [port.shape for port in written._ports] == [("N", 4), (2, "E"), ("E",)]
    if kind is GCN:
        y, read, results = {"y": y}, {"y": read}, [results]
    for name, other in zip(y, results, strict=True):
        np.testing.assert_array_equal(read[name], y[name])
        np.testing.assert_allclose(other, y[name], rtol=1e-5, atol=1e-6)


def test_a_graph_in_a_dictionary_trains_as_in_pytorch() -> None:
    class Wrapped(GCN):
        def forward(self, data: Any) -> Any:
            return super().forward(data["x"], data["edge_index"], data["weight"])

    torch.manual_seed(0)
    module = Wrapped()
    names = {f"data_{name}": shape for name, shape in GRAPH.items()}
    net = nn.from_torch(module, (dict(zip(GRAPH, graph(3, 4), strict=True)),), input_shapes=names)
    theirs, ours = torch.optim.SGD(module.parameters(), lr=0.1), nn.SGD(net.parameters(), lr=0.1)
    loss = nn.CrossEntropyLoss()
    for nodes, edges in ((7, 20), (5, 3), (12, 30)):
        data, labels = dict(zip(GRAPH, graph(nodes, edges), strict=True)), tokens(3, nodes)
        theirs.zero_grad()
        expected = F.cross_entropy(module({k: torch.tensor(v) for k, v in data.items()}), torch.tensor(labels))
        expected.backward()
        theirs.step()
        value, gradient = loss(net(data), labels)
        net.backward(gradient)
        ours.step()
        assert value == pytest.approx(expected.item(), rel=1e-4)


class Sequence(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.table, self.attention = T.Embedding(9, 8), T.MultiheadAttention(8, 2, batch_first=True)
        self.places = T.Embedding(40, 8)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        return self.attention(x, x, x, need_weights=False)[0].mean(1)


class Image(T.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = T.Conv2d(2, 4, 3, padding=1), T.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.out(self.conv(x).relu().flatten(2).mean(2))


def test_sequences_of_any_length() -> None:
    torch.manual_seed(0)
    module = Sequence()
    net = nn.from_torch(module, tokens(9, 2, 5), input_shapes={"ids": ("N", "T")})
    for samples, length in ((2, 5), (3, 1), (1, 17), (6, 6)):
        compared(net, module, [tokens(9, samples, length)])
    same = nn.from_torch(module, tokens(9, 2, 5), input_shapes={"ids": ("T",)})  # the batch stays free
    np.testing.assert_array_equal(same.eval()(tokens(9, 4, 8)), net.eval()(tokens(9, 4, 8)))


def test_images_of_any_size() -> None:
    torch.manual_seed(0)
    module = Image()
    net = nn.from_torch(module, floats(1, 2, 6, 7), input_shapes={"x": ("N", 2, "H", "W")})
    for shape in ((1, 2, 6, 7), (3, 2, 5, 5), (2, 2, 1, 9)):
        compared(net, module, [floats(*shape)])
    fixed = nn.from_torch(module, floats(3, 2, 6, 7), batch_axis=None)
    compared(fixed, module, [floats(3, 2, 6, 7)])
    with pytest.raises(ValueError, match=r"x has shape \(2, 2, 6, 7\), .* recorded on \(3, 2, 6, 7\)\. .*input_shapes"):
        fixed(floats(2, 2, 6, 7))


def test_other_axes_for_the_batch() -> None:
    torch.manual_seed(0)
    module = T.LSTM(5, 4)
    net = nn.from_torch(module, floats(6, 2, 5), batch_axis=1)
    for samples in (1, 2, 5):
        x = floats(6, samples, 5, seed=samples)
        np.testing.assert_allclose(net.eval()(x)[0], module(torch.tensor(x))[0].detach(), rtol=1e-4, atol=1e-5)

    class Anchored(T.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, anchors: Any) -> Any:
            return x[:, None] - anchors[None]

    two = nn.from_torch(Anchored(), (floats(2, 3), floats(7, 3)), batch_axis={"anchors": None})
    compared(two, Anchored(), [floats(5, 3), floats(7, 3, seed=1)])


def test_a_size_of_two_axes() -> None:
    class Dense(T.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = T.Linear(4, 3)

        def forward(self, x: Any, adjacency: Any) -> Any:
            return (adjacency / adjacency.shape[0] + torch.eye(len(x))) @ self.linear(x)

    module, shapes = Dense(), {"x": ("V", 4), "adjacency": ("V", "V")}
    net = nn.from_torch(module, (floats(3, 4), floats(3, 3)), input_shapes=shapes)
    for nodes in (3, 1, 8):
        compared(net, module, [floats(nodes, 4), floats(nodes, nodes)])
    with pytest.raises(ValueError, match=r"the size V is 3 in x and 3 in adjacency and 2 in adjacency\."):
        nn.from_torch(module, (floats(3, 4), floats(3, 2)), input_shapes=shapes)
    with pytest.raises(
        ValueError, match=r"adjacency has shape \(5, 4\), .* on \(V, V\)\. Pass inputs with the same sizes"
    ):
        net(floats(5, 4), floats(5, 4))


def test_refused() -> None:
    example = graph(4, 9)
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, r"the examples have 4, 2, 9 samples\. .*name sizes that differ, .*input_shapes="),
        (
            {"input_shapes": {"edges": (2, "E")}},
            r"input_shapes has 'edges', but the inputs .* are x, edge_index, weight",
        ),
        ({"batch_axis": {"edges": 0}}, r"batch_axis has 'edges', but the inputs"),
        (
            {"batch_axis": {"x": 3}},
            r"x of the example, of shape \(4, 4\), has no axis 3 that could be the batch\..*'x': \.\.\.",
        ),
        (
            {"input_shapes": {**GRAPH, "x": ("N", 5)}},
            r"input_shapes has \('N', 5\) for x, whose example has shape \(4, 4\)",
        ),
        ({"input_shapes": {**GRAPH, "x": ("N", "4")}}, r"input_shapes has \('N', '4'\) for x"),
        ({"input_shapes": {**GRAPH, "weight": ("N",)}}, r"have 4, 9 samples"),
        ({"input_shapes": {**GRAPH, "x": ("E", 4)}}, r"the size E is 4 in x and 9 in edge_index and 9 in weight"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            nn.from_torch(GCN(), example, **options)
    net = nn.from_torch(GCN(), example, input_shapes=GRAPH)
    for x, message in (
        (
            (example[0], example[1], example[2][:5]),
            r"weight has shape \(5,\), .* on \(E\)\. Pass .* same sizes; .* E=9\.$",
        ),
        (
            (example[0][:, :3], *example[1:]),
            r"x has shape \(4, 3\), .* recorded on \(N, 4\)\. Convert .*input_shapes\.$",
        ),
        (
            (example[0], example[1][:, :0], example[2]),
            r"edge_index has shape \(2, 0\), .*\. Free sizes are at least 1\.$",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            net(*x)

    class Halved(T.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2 if x.shape[1] > 5 else x.relu()

    with pytest.raises(
        Unsupported, match=r"different things for sizes of \(N=2, T=5\) and \(N=3, T=5\) and \(N=2, T=6\) and"
    ):
        nn.from_torch(Halved(), floats(2, 5), input_shapes={"x": ("N", "T")})

    class Power(T.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x * 2 ** x.shape[1]

    with pytest.raises(Unsupported, match=r"depends on free sizes \(32 for \(N=2, T=5\), 32 for \(N=3, T=5\), 64 for"):
        nn.from_torch(Power(), floats(2, 5), input_shapes={"x": ("N", "T")})

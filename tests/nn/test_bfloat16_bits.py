"""Products in bfloat16 to the last bit: of whole numbers, whose sums float32 holds exactly in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openbnns as bn
import tape
import tape_layers
from bfloat16_formulas import Spatial, bfloat16, rounded, whole
from openbnns import engines, nn
from openbnns.nn import functional as F
from tape import Tensor

Array = NDArray[Any]

LARGEST = 2.0**24  # sum of absolute values, so that all sums are exact


@pytest.fixture(autouse=True)
def _plain_sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without Winograd's method, which rounds; on a CPU without products in bfloat16, none are rounded."""
    if not engines._core.multiplies_bfloat16():
        monkeypatch.setattr(engines, "check_precision", lambda name, who, *choices: name)
    bn.set_accuracy("exact")
    yield
    bn.set_accuracy("fast")
    bn.set_num_threads(0)


class Products:
    """A comparison of products with their definition, of operands all rounded or all as they are; it counts both."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def check(self, what: str, got: Array, product: Callable[..., Array], *operands: Array) -> None:
        if np.max(product(*map(np.abs, operands)), initial=0) >= LARGEST:
            self.counts[what, "too large"] += 1
            return
        wanted = {name: product(*(f(x) for x in operands)) for name, f in (("plain", np.float64), ("rounded", rounded))}
        equal = [name for name, numbers in wanted.items() if np.array_equal(got, numbers)]
        assert equal, f"{what}: differs from both by {[np.abs(got - numbers).max() for numbers in wanted.values()]}"
        self.counts[what, equal[0] if len(equal) == 1 else "the same"] += 1

    def kinds(self, what: str) -> set[str]:
        """The kinds of operands that were found, with numbers that tell them apart."""
        return {kind for (name, kind), _ in self.counts.items() if name == what} - {"too large", "the same"}

    def share(self, what: str) -> float:
        """The share of products of rounded operands."""
        assert self.counts[what, "too large"] < 0.05 * sum(n for (name, _), n in self.counts.items() if name == what)
        return self.counts[what, "rounded"] / (self.counts[what, "rounded"] + self.counts[what, "plain"])


ROUNDED = {"rounded"} if engines._core is not None and engines._core.multiplies_bfloat16() else {"plain"}


def run(net: nn.Module, rng: np.random.Generator, *x: Array) -> tuple[Array, Array, list[Array]]:
    """Output, its gradient, and the gradients of inputs and parameters, which are the same on any number of threads."""
    results: list[list[Array]] = []
    dy = None
    for threads in (1, 2, 3):
        bn.set_num_threads(threads)
        y = net(*x).copy()
        dy = whole(rng, y.shape) if dy is None else dy
        net.zero_grad()
        dx = net.backward(dy)
        given = dx if isinstance(dx, tuple) else (dx,)
        results.append([y, *(g.copy() for g in given), *(p.grad.copy() for p in net.parameters())])
    for other in results[1:]:
        assert all(map(np.array_equal, other, results[0]))
    assert dy is not None
    return results[0][0], dy, results[0][1:]


def filled(net: nn.Module, rng: np.random.Generator, *sample: int) -> nn.Module:
    """The network in training mode and in bfloat16, with whole numbers as parameters."""
    bfloat16(net).build(sample, seed=1).train()
    for parameter in net.parameters():
        parameter.data[...] = whole(rng, parameter.shape)
    return net


def drawn(rng: np.random.Generator, low: int, high: int, count: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(low, high, count))


def test_linear_layers() -> None:
    products = Products()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        lead, (inputs, outputs) = drawn(rng, 1, 13, int(rng.integers(1, 4))), drawn(rng, 1, 200, 2)
        net, x = filled(nn.Linear(inputs, outputs), rng, *lead[1:], inputs), whole(rng, (*lead, inputs))
        y, dy, (dx, dw, db) = run(net, rng, x)
        x, y, dy, dx = (a.reshape(-1, a.shape[-1]) for a in (x, y, dy, dx))
        rows = "few rows" if len(x) <= 8 else "rows"
        products.check(f"y of {rows}", y - net.bias.data, lambda a, w: a @ w.T, x, net.weight.data)
        products.check(f"dx of {rows}", dx, lambda a, w: a @ w, dy, net.weight.data)
        products.check(f"dw of {rows}", dw, lambda a, b: a.T @ b, dy, x)
        assert np.array_equal(db, dy.sum(0))
    for what in ("y of rows", "dx of rows", "dw of rows"):
        assert products.kinds(what) == ROUNDED
    assert products.kinds("y of few rows") == {"plain"}


class MatrixProduct(nn.Module):
    def __init__(self, transposed: tuple[int, ...]) -> None:
        super().__init__()
        self.transposed = transposed

    def forward(self, a: Any, b: Any) -> Any:
        first, second = (x.transpose(-1, -2) if t else x for x, t in zip((a, b), self.transposed, strict=True))
        return F.matmul(first, second)


def test_products_of_values() -> None:
    products = Products()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        (rows, steps, columns), transposed = drawn(rng, 1, 90, 3), drawn(rng, 0, 2, 2)
        lead = (2, *drawn(rng, 1, 4, int(rng.integers(0, 3))))
        a, b = whole(rng, (*lead, rows, steps)), whole(rng, (*lead, steps, columns))
        turned = [np.ascontiguousarray(_turned(x)) if t else x for x, t in zip((a, b), transposed, strict=True)]
        y, dy, gradients = run(bfloat16(MatrixProduct(transposed)).train(), rng, *turned)
        da, db = (_turned(x) if t else x for x, t in zip(gradients, transposed, strict=True))
        products.check("y", y, lambda a, b: a @ b, a, b)
        products.check("da", da, lambda dy, b: dy @ _turned(b), dy, b)
        products.check("db", db, lambda a, dy: _turned(a) @ dy, a, dy)
    for what in ("y", "da", "db"):
        assert products.share(what) > 0.9 or {"plain"} == ROUNDED


def _turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def draw_convolution(rng: np.random.Generator) -> Spatial:
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    kernel, stride, dilation = drawn(rng, 1, 6, 2), drawn(rng, 1, 4, 2), drawn(rng, 1, 3, 2)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(int(rng.integers(0, r)) for r in reach)
    size = [int(rng.integers(max(1, r - 2 * p), r + 12)) for r, p in zip(reach, padding, strict=True)]
    batch, (inputs, outputs) = int(rng.integers(1, 6)), drawn(rng, 1, 40 // groups, 2)
    x = (batch, groups * inputs, size[0], size[1])
    return Spatial(x, groups * outputs, kernel, stride, padding, dilation, groups)  # type: ignore[arg-type]


def test_convolutions() -> None:
    products = Products()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        c = draw_convolution(rng)
        net, x = filled(c.build(), rng, *c.x[1:]), whole(rng, c.x)
        w = net.weight.data
        y, dy, (dx, dw, db) = run(net, rng, x)
        products.check("y", y - net.bias.data[:, None, None], lambda x, w, c=c, y=y: c.forward(x, w, y), x, w)
        products.check("dx", dx, lambda dy, w, c=c: c.input_gradient(dy, w), dy, w)
        products.check("dw", dw, lambda x, dy, c=c, w=w: c.weights_gradient(x, dy, w), x, dy)
        assert np.array_equal(db, dy.sum((0, 2, 3)))
    for what in ("y", "dx", "dw"):
        assert products.share(what) > 0.6 or {"plain"} == ROUNDED


def test_transposed_convolutions() -> None:
    """Their output is the input gradient of a convolution, and the other way round."""
    products = Products()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        kernel, stride, size, (inputs, outputs) = (drawn(rng, *ends, 2) for ends in ((1, 5), (1, 4), (1, 12), (1, 40)))
        padding = tuple(int(rng.integers(0, k)) for k in kernel)
        height, width = ((n - 1) * s - 2 * p + k for n, s, p, k in zip(size, stride, padding, kernel, strict=True))
        if min(height, width) < 1:
            continue
        x = whole(rng, (int(rng.integers(1, 5)), inputs, *size))
        c = Spatial((len(x), outputs, height, width), inputs, kernel, stride, padding)  # type: ignore[arg-type]
        net = filled(nn.ConvTranspose2d(inputs, outputs, kernel, stride=stride, padding=padding), rng, *x.shape[1:])
        w = net.weight.data
        y, dy, (dx, dw, db) = run(net, rng, x)
        products.check("y", y - net.bias.data[:, None, None], lambda x, w, c=c: c.input_gradient(x, w), x, w)
        products.check("dx", dx, lambda dy, w, c=c, x=x: c.forward(dy, w, x), dy, w)
        products.check("dw", dw, lambda dy, x, c=c, w=w: c.weights_gradient(dy, x, w), dy, x)
        assert np.array_equal(db, dy.sum((0, 2, 3)))
    for what in ("y", "dx", "dw"):
        assert products.share(what) > 0.6 or {"plain"} == ROUNDED


# Networks, in which operands of later products are sums of earlier ones.


class Network(nn.Module):
    """Random layers on the value before them, and sums of values of one shape."""

    def __init__(self, rng: np.random.Generator, channels: int) -> None:
        super().__init__()
        kinds = ["pool", "pool", *rng.choice(["relu", "sum"], 3), "convolution"]
        self.kinds = ["convolution", *rng.permutation(kinds)]
        self.options = [{"stride": int(s), "padding": int(p)} for s, p in rng.integers((1, 1), (3, 3), (2, 2))]
        width = int(rng.integers(16, 20))  # fewer are products of float32
        self.layers = nn.ModuleList(
            nn.Conv2d(c, width, int(k), **o)
            for c, k, o in zip((channels, width), rng.choice([1, 2, 3], 2), self.options, strict=True)
        )
        self.last = nn.Linear(int(rng.integers(13, 20)))

    def values(self, x: Any, relu: Any, pool: Any, convolutions: list[Any]) -> Any:
        """The value before the last layer, from tensors of ``nn`` or of ``tape``."""
        left, values = list(convolutions), [x]
        for kind in self.kinds:
            v = values[-1]
            if kind == "convolution":
                v = left.pop(0)(v)
            elif kind == "sum":
                v = v + next((other for other in values[:-1] if other.shape == v.shape), v)
            else:
                v = relu(v) if kind == "relu" else pool(v)
            values.append(v)
        return values[-1].flatten(1)

    def forward(self, x: Any) -> Any:
        return self.last(self.values(x, F.relu, lambda v: F.max_pool2d(v, 2, 1), list(self.layers)))

    def on_tape(self, x: Array) -> tuple[Tensor, list[Tensor]]:
        """The output, and the input and all parameters."""
        leaves = [Tensor(x)]

        def layer(kind: str, ours: nn.Module, options: dict[str, Any]) -> Callable[[Tensor], Tensor]:
            parameters = {name: Tensor(p.data) for name, p in ours.named_parameters()}
            leaves.extend(parameters.values())
            return lambda v: tape_layers.LAYERS[kind](parameters, options, v, True)

        convolutions = [layer("Conv2d", *pair) for pair in zip(self.layers, self.options, strict=True)]
        last = layer("Linear", self.last, {})
        pool = {"kernel_size": 2, "stride": 1}
        values = self.values(
            leaves[0], lambda v: tape.elementwise(v, np.maximum(v.data, 0), v.data > 0),
            lambda v: tape_layers.LAYERS["MaxPool2d"]({}, pool, v, True), convolutions,
        )  # fmt: skip
        return last(values), leaves


def _rounded_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of tensors with the same leading axes, or of a matrix b; in both directions from rounded operands."""
    r = rounded if {"rounded"} == ROUNDED else np.asarray
    to_a, to_b = tape._summed(a), tape._summed(b)
    return Tensor(
        r(a.data) @ r(b.data),
        [(a, lambda dy: to_a(r(dy) @ _turned(r(b.data)))), (b, lambda dy: to_b(_turned(r(a.data)) @ r(dy)))],
    )


def test_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "__matmul__", _rounded_product)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        channels, (batch, *size) = int(rng.integers(16, 20)), drawn(rng, 11, 14, 3)
        net = filled(Network(rng, channels), rng, channels, *size)
        for parameter in net.parameters():
            parameter.data[...] = np.rint(parameter.data / 150)
        x = np.rint(whole(rng, (batch, channels, *size)) / 16)
        y, dy, gradients = run(net, rng, x)
        expected, leaves = net.on_tape(x)  # type: ignore[operator]
        expected.backward(dy)
        assert np.array_equal(y, expected.data), seed
        for ours, leaf in zip(gradients, leaves, strict=True):
            assert leaf.grad is not None and np.array_equal(ours, leaf.grad), seed

"""Products of quantized numbers on the kernels for bytes: the results of the same graphs in float32, wherever they apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openbnns import nn
from openbnns.graph.program import Program
from openbnns.nn import functional as F
from openbnns.nn.recording import recording_of


def fixed(array: Any) -> Any:
    """An array that nothing can write to."""
    made = np.array(array, np.float32, order="C")
    made.flags.writeable = False
    return made


class Quantized(nn.Module):
    """A product of steps of random kind with weights of random kind, and a second product of the same steps."""

    def __init__(self, random: np.random.RandomState, inputs: int, outputs: int) -> None:
        super().__init__()
        self.low = (0, -128)[random.randint(2)]
        self.zero = (float(self.low + random.randint(256)), 0.0, None)[random.randint(3)]
        self.step = (0.02, 1.0)[random.randint(2)]
        self.turned, self.twice = bool(random.randint(2)), bool(random.randint(2))
        least = (-128, -119, 0, -200)[random.randint(4)]
        w = random.randint(least, least + 256, (inputs, outputs))
        w[0, :2] = least, least + 255
        self.w = fixed(w.T if self.turned else w)
        kind = random.randint(4)
        self.scale: Any = (
            nn.Parameter(0.5 + random.random_sample(outputs)) if kind == 0 else (1.0, 0.25, None)[kind - 1]
        )

    def product(self, x: Any, zero: Any, q: Any) -> Any:
        a = q if zero is None else q - zero
        a = a * self.step if self.step != 1 else a
        w, trained = x.graph.constant(self.w), isinstance(self.scale, nn.Parameter)
        if trained:
            w = w * (self.scale[:, None] if self.turned else self.scale)
        y = F.matmul(a, F.transpose(w, 0, 1) if self.turned else w)
        return y if trained or self.scale is None else y * self.scale

    def forward(self, x: Any) -> Any:
        zero: Any = self.zero
        if zero is None:
            zero = F.clamp(F.round(F.amin(x) * -50.0), 0.0, 255.0) if self.low == 0 else None
        q = F.round(x / 0.02)
        q = F.clamp(q if zero is None else q + zero, float(self.low), self.low + 255.0)
        y = self.product(x, zero, q)
        return y + self.product(x, zero, q) if self.twice else y


def kinds(program: Program) -> list[str]:
    return [type(operation).__name__ for operation in program.graph.operations]


def in_float32(net: nn.Module, x: Any) -> Any:
    program = Program(recording_of(net, False, (x.shape,)).graph, {"N": len(x)}, training=False)
    assert "QuantizedLinear" not in kinds(program)
    program.fill(0, x)
    program.forward()
    return program.output.copy()


@pytest.mark.parametrize("seed", range(60))
def test_results_are_those_in_float32(seed: int) -> None:
    random = np.random.RandomState(seed)
    inputs, outputs = random.randint(8, 70), random.randint(8, 40)
    net = Quantized(random, inputs, outputs)
    shape = (inputs,) if seed % 3 else (5, inputs)
    net.build(shape).eval()
    for batch in (1, 3, 17):
        x = (3 * random.standard_normal((batch, *shape))).astype(np.float32)
        expected = in_float32(net, x)
        np.testing.assert_allclose(net(x), expected, 1e-5, 1e-5 * np.abs(expected).max())
        assert np.ptp(expected) > 0
        assert "QuantizedLinear" in kinds(net.program(batch, training=False))
        assert "QuantizedLinear" not in kinds(net.train().program(batch, training=True))
        net.eval()
    for parameter in net.parameters():
        parameter.data *= 2
        np.testing.assert_allclose(net(x), in_float32(net, x), 1e-5, 2e-5 * np.abs(expected).max())


def test_sums_are_exact() -> None:
    """Sums of the largest bytes and weights, which float32 could not all add up without rounding."""
    inputs = 33_000

    class Largest(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.matmul(F.clamp(F.round(x), 0.0, 255.0), weights)

    weights = fixed(np.repeat([[127.0, -128.0]], inputs, 0))
    weights.flags.writeable = True
    weights[-1] = 126, -127
    weights.flags.writeable = False
    net, x = Largest().eval(), np.full((2, inputs), 300, np.float32)
    x[1, 1] = 254
    sums = np.clip(x, 0, 255).astype(np.int64) @ weights.astype(np.int64)
    np.testing.assert_array_equal(net(x), sums.astype(np.float32))


@pytest.mark.parametrize(
    "kind", ["fraction", "range", "written", "trained", "not whole", "narrow", "infinite", "point"]
)
def test_other_products_stay_in_float32(kind: str) -> None:
    random = np.random.RandomState(1)
    w = random.randint(-128, 128, (16, 9)).astype(np.float32)
    w[0, 0], w[0, 1] = -128, 127
    if kind in ("fraction", "range", "infinite"):
        w[3, 2] = {"fraction": 0.5, "range": 129, "infinite": np.inf}[kind]

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(w) if kind == "trained" else w if kind == "written" else fixed(w)

        def forward(self, x: Any) -> Any:
            q = x * 9.0 if kind == "not whole" else F.round(x * 9.0)
            q = F.clamp(q, 0.0, 200.0 if kind == "narrow" else 255.0)
            return F.matmul(q - 256.0 if kind == "point" else q, self.w)

    net, x = Other().eval(), random.standard_normal((3, 16)).astype(np.float32)
    net(x)
    assert "QuantizedLinear" not in kinds(net.program(3, training=False))
    np.testing.assert_array_equal(net(x), in_float32(net, x))

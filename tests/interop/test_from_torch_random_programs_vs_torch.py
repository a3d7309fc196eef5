"""Random programs on numbers, whole numbers and masks, as models have them around their layers, beside PyTorch.

All arithmetic is exact: numbers are small multiples of a quarter, so that nothing may differ, and comparisons, orders and
lookups come out alike. A network is called again and again, with other samples and other batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from onnx_networks import by_reference
from openbnns import nn
from torch_networks import torch

pytestmark = pytest.mark.peers
T = torch.nn

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
MOST = 400  # elements of a sample


def kind_of(x: Any) -> str:
    return "f" if x.is_floating_point() else "b" if x.dtype == torch.bool else "i"


def tamed(x: Any) -> Any:
    """Numbers with a few bits again."""
    return torch.remainder(x, 16.0) - 8.0 if kind_of(x) == "f" else x % 4096


class Program(T.Module):
    """Steps that are drawn from a seed while ``forward`` runs, always the same ones."""

    def __init__(self, seed: int, length: int) -> None:
        super().__init__()
        self.seed, self.length = seed, length
        random = np.random.default_rng(seed)
        self.table = T.Parameter(torch.tensor(random.integers(-8, 9, (7, 3)) / 4).float())
        self.rows = T.Embedding(7, 4)
        self.rows.weight.data = torch.tensor(random.integers(-8, 9, (7, 4)) / 4).float()

    def forward(self, *inputs: Any) -> Any:
        self.random, self.values = np.random.default_rng(self.seed), list(inputs)
        for _ in range(self.length):
            made = self.one(STEPS)(self)
            for x in made if isinstance(made, tuple) else [made]:
                if x is not None and x.ndim <= 5 and np.prod(x.shape[1:]) <= MOST:
                    self.values.append(x)
        return (self.values[-1], *(self.one(self.values) for _ in range(int(self.random.integers(2, 7)))))

    def one(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def value(self, kinds: str, allowed: Callable[[Any], bool] = lambda x: x.ndim > 1) -> Any:
        """A value of one of these kinds, rather a late one; None if there is none."""
        candidates = [x for x in self.values if kind_of(x) in kinds and allowed(x)]
        if not candidates:
            return None
        late = min(int(self.random.exponential(2.5)), len(candidates) - 1)
        return candidates[-1 - late] if self.chance(0.7) else self.one(candidates)

    def pair(self, kinds: str) -> Any:
        a = self.value(kinds)
        if a is None:
            return None

        def fits(x: Any) -> bool:
            return x.ndim == a.ndim and all(
                n == m or 1 in (n, m) for n, m in zip(x.shape[1:], a.shape[1:], strict=True)
            )

        pair = a, self.value(kinds, fits)
        return pair if self.chance(0.5) else pair[::-1]

    def axis(self, x: Any) -> int:
        return int(self.random.integers(1, x.ndim))


def arithmetic(p: Program) -> Any:
    if (pair := p.pair(p.one("fi"))) is not None:
        return tamed(p.one([torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum])(*pair))
    return None


def quotient(p: Program) -> Any:
    if (pair := p.pair("i")) is not None:
        a, divisor = pair[0], torch.where(pair[1] == 0, 3, pair[1])
        rounding = p.one(["floor", "trunc"])
        return p.one([lambda: torch.div(a, divisor, rounding_mode=rounding), lambda: torch.remainder(a, divisor),
                      lambda: torch.fmod(a, divisor)])()  # fmt: skip
    return None


def comparison(p: Program) -> Any:
    function = getattr(torch, p.one(COMPARISONS))
    if p.chance(0.5) and (pair := p.pair(p.one(["f", "i", "fi"]))) is not None:
        return function(*pair)
    if (x := p.value("fi")) is not None:
        return function(x, p.one([0, 1, 0.5, -0.25, 1.75] if kind_of(x) == "f" else [0, 1, 3]))
    return None


def logic(p: Program) -> Any:
    if (pair := p.pair("b")) is not None:
        y = p.one([torch.logical_and, torch.logical_or, torch.logical_xor, torch.eq])(*pair)
        return ~y if p.chance(0.3) else y
    return None


def choice(p: Program) -> Any:
    if (mask := p.value("b")) is not None:
        kind = p.one("fi")
        a, b = (p.value(kind, lambda x: x.shape == mask.shape) for _ in range(2))
        if a is not None:
            return p.one([lambda: torch.where(mask, a, b), lambda: a.masked_fill(mask, -3), lambda: a * mask])()
    return None


def conversion(p: Program) -> Any:
    if (x := p.value("fib")) is not None:
        small = x % 16 if kind_of(x) == "i" else x
        return p.one([lambda: small.float(), lambda: x.long(), lambda: x.bool(), lambda: small.int().long()])()
    return None


def function(p: Program) -> Any:
    if (x := p.value("f")) is not None:
        return p.one([
            torch.neg, torch.abs, torch.relu, torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign, torch.frac,
            lambda x: x.clamp(-1, 2), lambda x: tamed(x * x), lambda x: torch.fmod(x, -1.5), lambda x: 1 - x * 0.5,
        ])(x)  # fmt: skip
    return None


def reduction(p: Program) -> Any:
    if (x := p.value("fib")) is not None:
        names = ["any", "all"] if kind_of(x) == "b" else ["sum", "amax", "amin", "argmax", "argmin"]
        return getattr(torch, p.one(names))(x, p.axis(x), keepdim=p.chance(0.6))
    return None


def order(p: Program) -> Any:
    if (x := p.value("fi")) is not None:
        if p.chance(0.5):
            return tuple(torch.sort(x, stable=True, dim=p.axis(x), descending=p.chance(0.5)))
        return torch.cumsum(x, p.one([0, p.axis(x)]))
    return None


def lookup(p: Program) -> Any:
    x, numbers = p.value("fib"), p.value("i", lambda x: x.ndim < 4)
    if x is None or numbers is None:
        return None
    axis = p.axis(x)
    kind = p.one(["along", "along", "rows", "table", "select"])
    if kind == "rows":
        return p.rows(numbers % 7)
    if kind == "table":
        return p.table[numbers % 7]
    if kind == "select":
        places = p.random.integers(0, x.shape[axis], int(p.random.integers(1, 5)))
        return x.index_select(axis, torch.tensor(places))
    if numbers.ndim == x.ndim and numbers.transpose(0, axis).shape[1:] == x.transpose(0, axis).shape[1:]:
        return torch.gather(x, axis, numbers % x.shape[axis])
    return None


def move(p: Program) -> Any:
    if (x := p.value("fib")) is None:
        return None
    axis = p.axis(x)
    n = int(x.shape[axis])
    same = p.value(kind_of(x), lambda y: y.shape == x.shape and y.dtype == x.dtype)
    return p.one([
        lambda: x.transpose(axis, p.axis(x)), lambda: x.flip(axis), lambda: x.narrow(axis, n // 2, n - n // 2),
        lambda: x.unsqueeze(axis), lambda: x.flatten(1), lambda: x.roll(1, axis), lambda: torch.cat([x, same], axis),
        lambda: torch.stack([x, same], axis), lambda: x.expand(*(3 if i == axis and n == 1 else -1 for i in range(x.ndim))),
    ])()  # fmt: skip


STEPS = [
    arithmetic, arithmetic, quotient, comparison, comparison, comparison, logic, choice, choice, conversion, function,
    function, reduction, order, lookup, lookup, move, move,
]  # fmt: skip


def samples(random: Any, kinds: list[str], shape: tuple[int, ...]) -> list[Any]:
    whole = [random.integers(-9, 10, shape) for _ in kinds]
    made = {"f": lambda x: (x / 4).astype(np.float32), "i": lambda x: x, "b": lambda x: x > 0}
    return [made[kind](x) for x, kind in zip(whole, kinds, strict=True)]


@pytest.mark.parametrize("portion", range(10))
def test_programs(portion: int) -> None:
    for seed in range(portion, 100, 10):
        random = np.random.default_rng(seed)
        base = tuple(int(n) for n in random.choice([1, 2, 3, 5], random.integers(1, 4)))
        kinds = [str(kind) for kind in random.choice(list("ffib"), random.integers(1, 4))]
        program = Program(seed, int(random.integers(4, 30))).eval()
        net = nn.from_torch(program, tuple(samples(random, kinds, (3, *base)))).eval()
        for turn, batch in enumerate((3, 1, 2, 17, 3)):
            given = samples(random, kinds, (batch, *base))
            openbnns.set_num_threads(1 + turn % 2)
            try:
                outputs = net(*given)
            finally:
                openbnns.set_num_threads(0)
            with torch.no_grad():
                expected = program(*map(torch.tensor, given))
            pairs = zip(outputs if isinstance(outputs, tuple) else [outputs], expected, strict=True)
            for i, (y, wanted) in enumerate(pairs):
                np.testing.assert_array_equal(y, wanted.numpy(), f"seed {seed}, turn {turn}, output {i}")


LARGE = [0, 1, -1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62]


@pytest.mark.parametrize("name", COMPARISONS)
def test_large_whole_numbers_are_compared_as_they_are(name: str, tmp_path: Path) -> None:
    class Compared(T.Module):
        def forward(self, a: Any, b: Any) -> Any:
            compare = getattr(torch, name)
            return compare(a, b), compare(a, 2**24 + 1), compare(a, b > 0), a.bool(), torch.logical_not(b)

    random = np.random.default_rng(0)
    given = [random.choice(LARGE, (9, 5)) for _ in range(2)]
    module = Compared()
    net = nn.from_torch(module, tuple(given)).eval()
    expected = [y.numpy() for y in module(*map(torch.tensor, given))]
    net.to_onnx(tmp_path / "m.onnx")
    for outputs in (net(*given), net(*given), by_reference(tmp_path / "m.onnx", given)):
        for y, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(y, wanted)

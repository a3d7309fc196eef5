"""Random ONNX graphs of numbers, whole numbers and masks, called again and again, beside ONNX's own evaluator.

All arithmetic is exact: numbers are small multiples of a quarter, so that nothing may differ, and comparisons and lookups
come out alike.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from onnx_networks import BOOL, FLOAT, INT64, by_reference, node, write
from openbnns import nn

KINDS = {"f": FLOAT, "i": INT64, "b": BOOL}
LARGE = [0, 1, -1, 5, 2**31, 2**31 - 1, -(2**31) - 1, 2**53 + 1, -(2**53) - 1, 2**40 + 3]
Value = tuple[str, str, tuple[int, ...]]  # name, kind, shape


class Drawing:
    """Nodes and constants of a graph that is being drawn, and the values there are."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: dict[str, Any] = {}
        self.values: list[Value] = []

    def one(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def constant(self, array: Any, kind: str = "i") -> str:
        name = f"c{len(self.weights)}"
        self.weights[name] = np.asarray(array, {"f": np.float32, "i": np.int64, "b": np.bool_}[kind])
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(op, " ".join(inputs), " ".join(names), **attributes))
        return names[0]

    def add(self, name: str, kind: str, shape: Any) -> None:
        self.values.append((name, kind, tuple(shape)))

    def value(self, kinds: str, allowed: Callable[[tuple[int, ...]], bool] = lambda shape: True) -> Value | None:
        """One of these kinds, rather a late one."""
        candidates = [v for v in self.values if v[1] in kinds and allowed(v[2])]
        if not candidates:
            return None
        late = min(int(self.random.exponential(2.5)), len(candidates) - 1)
        return candidates[-1 - late] if self.chance(0.7) else self.one(candidates)

    def pair(self, kind: str) -> tuple[Value, Value, tuple[int, ...]] | None:
        """Two values of a kind, or a value and a constant, in any order, and the shape of what they give."""
        a = self.value(kind)
        if a is None:
            return None
        b = self.value(
            kind, lambda shape: shape == a[2] or (len(shape) == len(a[2]) and 1 in shape and fits(shape, a[2]))
        )
        if b is None or self.chance(0.3):
            size = self.one([(), a[2][-1:]])
            numbers = {"f": self.random.integers(-8, 9, size) / 4, "b": self.random.integers(0, 2, size)}
            b = self.constant(numbers.get(kind, self.random.integers(-5, 6, size)), kind), kind, size
        return *((a, b) if self.chance(0.5) else (b, a)), np.broadcast_shapes(a[2], b[2])

    def tamed(self, name: str) -> str:
        """Numbers with a few bits again."""
        return self.node("Mod", name, self.constant(16, "f"), fmod=1)


def fits(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(one, other, strict=True))


def arithmetic(d: Drawing) -> None:
    if pair := d.pair(d.one("fi")):
        (a, kind, _), (b, *_), shape = pair
        y = d.node(d.one(["Add", "Sub", "Mul", "Max", "Min"]), a, b)
        d.add(d.tamed(y) if kind == "f" else y, kind, shape)


def quotient(d: Drawing) -> None:
    if pair := d.pair("i"):
        (a, *_), (b, *_), shape = pair
        divisor = d.node("Where", d.node("Equal", b, d.constant(0)), d.constant(3), b)
        d.add(d.node("Div", a, divisor) if d.chance(0.4) else d.node("Mod", a, divisor, fmod=d.one([0, 1])), "i", shape)


def comparison(d: Drawing) -> None:
    if pair := d.pair(d.one("fi")):
        names = ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]
        d.add(d.node(d.one(names), pair[0][0], pair[1][0]), "b", pair[2])


def logic(d: Drawing) -> None:
    if pair := d.pair("b"):
        y = d.node(d.one(["And", "Or", "Xor", "Equal"]), pair[0][0], pair[1][0])
        d.add(d.node("Not", y) if d.chance(0.3) else y, "b", pair[2])


def choice(d: Drawing) -> None:
    mask, pair = d.value("b"), d.pair(d.one("fi"))
    if mask and pair and len(mask[2]) == len(pair[2]) and fits(mask[2], pair[2]):
        y = d.node("Where", mask[0], pair[0][0], pair[1][0])
        d.add(y, pair[0][1], np.broadcast_shapes(mask[2], pair[2]))


def conversion(d: Drawing) -> None:
    if x := d.value("fib"):
        to = d.one("fib")
        small = d.node("Mod", x[0], d.constant(64)) if x[1] == "i" and to == "f" else x[0]
        d.add(d.node("Cast", small, to=KINDS[to]), to, x[2])


def function(d: Drawing) -> None:
    if x := d.value("fi"):
        names = ["Neg", "Abs", "Sign", "Clip"] + ["Floor", "Ceil", "Round", "Relu"] * (x[1] == "f")
        name = d.one(names)
        bounds = [d.constant(-3, x[1]), d.constant(5, x[1])] if name == "Clip" else []
        d.add(d.node(name, x[0], *bounds), x[1], x[2])


def reduction(d: Drawing) -> None:
    if x := d.value("fi", lambda shape: len(shape) > 0):
        axis, keep = int(d.random.integers(len(x[2]))), d.one([0, 1])
        shape = tuple(1 if i == axis else n for i, n in enumerate(x[2]) if keep or i != axis)
        name = d.one(["ReduceSum", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "CumSum"])
        if name == "CumSum":
            options = {"exclusive": d.one([0, 1]), "reverse": d.one([0, 1])}
            d.add(d.node(name, x[0], d.constant(axis), **options), x[1], x[2])
        elif name.startswith("Arg"):
            d.add(d.node(name, x[0], axis=axis, keepdims=keep), "i", shape)
        else:
            d.add(d.node(name, x[0], d.constant([axis]), keepdims=keep), x[1], shape)


def largest(d: Drawing) -> None:
    if x := d.value("fi", lambda shape: len(shape) > 0):
        axis = int(d.random.integers(len(x[2])))
        count = int(d.random.integers(1, x[2][axis] + 1))
        y = d.node("TopK", x[0], d.constant([count]), outputs=2, axis=axis, largest=d.one([0, 1]))
        d.add(y, x[1], [count if i == axis else n for i, n in enumerate(x[2])])


def lookup(d: Drawing) -> None:
    x = d.value("fib", lambda shape: len(shape) > 0)
    axis = int(d.random.integers(len(x[2]))) if x else 0
    if x and d.chance(0.5):
        if numbers := d.value("i", lambda shape: len(shape) < 3):
            places = d.node("Mod", numbers[0], d.constant(x[2][axis]))
            if d.chance(0.3):
                places = d.node("Sub", places, d.constant(x[2][axis]))  # from the end
            d.add(d.node("Gather", x[0], places, axis=axis), x[1], x[2][:axis] + numbers[2] + x[2][axis + 1 :])
    elif x:
        numbers = d.value("i", lambda shape: shape[:axis] == x[2][:axis] and shape[axis + 1 :] == x[2][axis + 1 :])
        if numbers and len(numbers[2]) == len(x[2]):
            places = d.node("Mod", numbers[0], d.constant(x[2][axis]))
            d.add(d.node("GatherElements", x[0], places, axis=axis), x[1], numbers[2])


def move(d: Drawing) -> None:
    x = d.value("fib", lambda shape: len(shape) > 0)
    if not x:
        return
    name, kind, shape = x
    axis = int(d.random.integers(len(shape)))
    op = d.one(["Transpose", "Slice", "Concat", "Unsqueeze", "Expand", "Reshape"])
    if op == "Transpose":
        order = [int(i) for i in d.random.permutation(len(shape))]
        d.add(d.node(op, name, perm=order), kind, [shape[i] for i in order])
    elif op == "Slice":
        begin, end, step = d.one([(0, shape[axis], 2), (shape[axis] // 2, shape[axis], 1), (-1, -shape[axis] - 1, -1)])
        count = len(range(shape[axis])[begin : end if step > 0 else None : step])
        y = d.node(op, name, *(d.constant([n]) for n in (begin, end, axis, step)))
        d.add(y, kind, [count if i == axis else n for i, n in enumerate(shape)])
    elif op == "Concat":
        other = d.value(kind, lambda s: shape[:axis] == s[:axis] and shape[axis + 1 :] == s[axis + 1 :])
        if other and len(other[2]) == len(shape):
            sizes = [n + other[2][axis] if i == axis else n for i, n in enumerate(shape)]
            d.add(d.node(op, name, other[0], axis=axis), kind, sizes)
    elif op == "Unsqueeze":
        d.add(d.node(op, name, d.constant([axis])), kind, (*shape[:axis], 1, *shape[axis:]))
    elif op == "Expand":
        sizes = [3 if n == 1 and i else n for i, n in enumerate(shape)]
        d.add(d.node(op, name, d.constant(sizes)), kind, sizes)
    else:
        d.add(d.node(op, name, d.constant([shape[0], -1])), kind, [shape[0], int(np.prod(shape[1:]))])


STEPS = [
    arithmetic, arithmetic, quotient, comparison, comparison, logic, choice, choice, conversion, conversion, function,
    reduction, largest, lookup, lookup, move, move, move,
]  # fmt: skip


def samples(random: Any, kind: str, shape: tuple[int, ...], large: bool) -> Any:
    if kind == "f":
        return np.asarray(random.integers(-16, 17, shape) / 4, np.float32)
    if kind == "b":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    return np.asarray(random.choice(LARGE, shape) if large else random.integers(-9, 10, shape), np.int64)


def compare(path: Path, net: nn.Module, given: list[Any], what: str) -> None:
    openbnns.set_num_threads(1 + len(what) % 2)
    try:
        outputs = net(*given)
    finally:
        openbnns.set_num_threads(0)
    for i, (y, wanted) in enumerate(
        zip(outputs if isinstance(outputs, tuple) else [outputs], by_reference(path, given), strict=True)
    ):
        if wanted.dtype != np.bool_:  # masks are of either type
            assert (y.dtype.kind == "f") == (wanted.dtype.kind == "f"), f"{what}, output {i}"
        np.testing.assert_array_equal(y, wanted, f"{what}, output {i}")


@pytest.mark.parametrize("portion", range(10))
@np.errstate(all="ignore")
def test_numbers_whole_numbers_and_masks(portion: int, tmp_path: Path) -> None:
    for seed in range(portion, 200, 10):
        d = Drawing(seed)
        base = tuple(int(n) for n in d.random.choice([1, 2, 3, 5], d.random.integers(1, 4)))
        for i in range(int(d.random.integers(1, 4))):
            d.add(f"x{i}", d.one("ffib"), base if d.chance(0.7) else (*base[:1], *(1 for _ in base[1:])))
        inputs = list(d.values)
        for _ in range(int(d.random.integers(3, 22))):
            before = len(d.values)
            d.one(STEPS)(d)
            if any(np.prod(shape) > 600 or len(shape) > 6 for _, _, shape in d.values[before:]):
                del d.values[before:]
        made = d.values[len(inputs) :]
        if not made:
            continue
        outputs = dict.fromkeys([made[-1][0], *(d.one(made)[0] for _ in range(int(d.random.integers(0, 4))))])
        kinds = {name: KINDS[kind] for name, kind, _ in d.values}
        path = write(tmp_path / "m.onnx", d.nodes, {n: s for n, _, s in inputs}, [*outputs], d.weights, 18, kinds)
        net = nn.from_onnx(path).eval()
        for turn in range(4):
            given = [samples(d.random, kind, shape, large=seed % 2 == 1) for _, kind, shape in inputs]
            compare(path, net, given, f"seed {seed}, turn {turn}")


class Rows:
    """Tensors (rows, width) of a graph that is being drawn; those with one number have as many rows."""

    def __init__(self, d: Drawing, width: int) -> None:
        self.d, self.width = d, width
        self.tensors, self.groups = [(0, "x")], 1
        self.places: list[str] = []

    def add(self, name: str, group: int | None = None) -> None:
        self.tensors.append((self.groups if group is None else group, name))
        self.groups += group is None

    def step(self) -> None:
        d = self.d
        group, x = self.tensors[-1] if d.chance(0.6) else d.one(self.tensors)
        kind = d.one(
            ["some", "some", "compress", "function", "two", "join", "weights", "count", "numbers", "first", "where"]
        )
        edge = d.constant(d.one([-2, -1, 0, 0.5, 1, 3]), "f")
        if kind in ("some", "compress"):
            name = d.one(["ReduceSum", "ReduceMax"])
            mask = d.node(d.one(["Greater", "Less"]), d.node(name, x, d.constant([1]), keepdims=0), edge)
            if kind == "compress":
                self.add(d.node("Compress", x, mask, axis=0))
                return
            places = d.node("Squeeze", d.node("NonZero", mask), d.constant([0]))
            other = d.one([name for number, name in self.tensors if number == group])
            self.places.append(places)
            self.add(d.node("Gather", x, places, axis=0))
            self.add(d.node("Gather", other, places, axis=0), self.groups - 1)
        elif kind == "function":
            self.add(d.node(d.one(["Neg", "Abs", "Relu", "Floor"]), x), group)
        elif kind == "two":
            other = d.one([name for number, name in self.tensors if number == group])
            self.add(d.tamed(d.node(d.one(["Add", "Sub", "Max", "Mul"]), x, other)), group)
        elif kind == "join":
            self.add(d.node("Concat", x, d.one(self.tensors)[1], axis=0))
        elif kind == "weights":
            weights = d.constant(d.random.integers(-2, 3, (self.width, self.width)), "f")
            self.add(d.tamed(d.node("MatMul", x, weights)), group)
        elif kind == "count":
            count = d.node("Gather", d.node("Shape", x), d.constant(0))
            self.add(d.tamed(d.node("Add", x, d.node("Cast", count, to=FLOAT))), group)
        elif kind == "numbers":
            count = d.node("Gather", d.node("Shape", x), d.constant(0))
            numbers = d.node("Cast", d.node("Range", d.constant(0), count, d.constant(1)), to=FLOAT)
            self.add(d.tamed(d.node("Add", x, d.node("Unsqueeze", numbers, d.constant([1])))), group)
        elif kind == "first":
            end = d.constant([int(d.random.integers(1, 5))])
            self.add(d.node("Slice", x, d.constant([0]), end, d.constant([0])))
        else:
            self.add(d.node("Where", d.node("Greater", x, edge), x, edge), group)


@pytest.mark.parametrize("portion", range(6))
def test_sizes_that_depend_on_numbers(portion: int, tmp_path: Path) -> None:
    for seed in range(portion, 60, 6):
        d = Drawing(seed)
        rows = Rows(d, int(d.one([1, 2, 3, 5])))
        for _ in range(int(d.random.integers(3, 14))):
            rows.step()
        made = [name for _, name in rows.tensors[1:]]
        outputs = dict.fromkeys(
            [made[-1], *(d.one(made) for _ in range(int(d.random.integers(0, 3)))), *rows.places[-1:]]
        )
        kinds = dict.fromkeys(rows.places, INT64)
        path = write(tmp_path / "m.onnx", d.nodes, {"x": ("N", rows.width)}, [*outputs], d.weights, 18, kinds)
        net = nn.from_onnx(path).eval()
        for turn in range(8):
            shape = int(d.random.choice([1, 2, 3, 3, 3, 5, 8, 20])), rows.width
            x = np.full(shape, -9, np.float32) if d.chance(0.15) else d.random.integers(-8, 9, shape) / np.float32(2)
            compare(path, net, [x.astype(np.float32)], f"seed {seed}, turn {turn}")

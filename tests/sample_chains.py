"""Random chains of operations on one sample, as ONNX files and as ML programs.

A chain knows nothing of samples: it is drawn for shapes whose first size is 1, as exporters write them. Sizes are small and
often 1, so that many axes might be taken for that of the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from onnx_networks import node, write
from openbnns.interop import coreml

Shape = tuple[int, ...]


@dataclass
class Step:
    """An operation on the values of these numbers; its results have the numbers that follow."""

    kind: str
    inputs: list[int]
    outputs: list[Shape]
    options: dict[str, Any] = field(default_factory=dict)


class Chain:
    """A chain of ``length`` operations that begins with an input of shape (1, ...); ``homing`` are those that return the
    first axis to the front where it was moved away."""

    def __init__(self, seed: int, length: int = 5, homing: float = 0.7) -> None:
        self.random = np.random.default_rng(seed)
        rank = int(self.random.integers(2, 5))
        self.shape: Shape = (1, *self.random.choice([1, 2, 2, 3, 4], rank - 1).tolist())
        self.steps: list[Step] = []
        self.shapes: list[Shape] = [self.shape]
        self.weights: dict[str, Any] = {}
        for _ in range(length):
            self.grow(homing)
        if self.shapes[-1][:1] != (1,):
            self.add("reshape", [self.last], [(1, *self.shapes[-1])], shape=(1, *self.shapes[-1]))
        elif self.chance(0.3):
            shape = (1, math.prod(self.shapes[-1]))
            self.add("reshape", [self.last], [shape], shape=shape)

    @property
    def last(self) -> int:
        return len(self.shapes) - 1

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def add(self, kind: str, inputs: list[int], outputs: list[Shape], **options: Any) -> None:
        self.steps.append(Step(kind, inputs, outputs, options))
        self.shapes += outputs

    def weight(self, shape: Shape) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = self.random.standard_normal(shape).astype(np.float32)
        return name

    def grow(self, homing: float) -> None:
        """One more operation, or some between a transposition and the one back."""
        shape = self.shapes[-1]
        if len(shape) > 1 and self.chance(0.3):
            order = self.random.permutation(len(shape)).tolist()
            if self.chance(0.4):
                order = [0, *(axis for axis in order if axis)]
            self.transpose(order)
            if self.chance(homing):
                self.along_the_last()
                if len(self.shapes[-1]) == len(order):
                    self.transpose(np.argsort(order).tolist())
            return
        kinds = [
            self.reshape,
            self.along_the_last,
            self.ones,
            self.part,
            self.join,
            self.reduce,
            self.multiply,
            self.flatten,
            self.copies,
            self.cut,
        ]
        kinds[int(self.random.integers(len(kinds)))]()

    def transpose(self, order: list[int]) -> None:
        self.add("transpose", [self.last], [tuple(self.shapes[-1][axis] for axis in order)], order=order)

    def reshape(self) -> None:
        """Factors of the number of elements, behind a first size of 1 or in any order."""
        shape = self.shapes[-1]
        left, sizes = math.prod(shape), list[int]()
        while left > 1 and len(sizes) < 3:
            factors = [n for n in range(2, left + 1) if left % n == 0]
            sizes.append(int(self.random.choice(factors)))
            left //= sizes[-1]
        if left > 1:
            sizes.append(left)
        for _ in range(int(self.random.integers(0, 2))):
            sizes.insert(int(self.random.integers(len(sizes) + 1)), 1)
        made = tuple([1, *sizes] if self.chance(0.7) else sizes or [1])
        given = list(made)
        if self.chance(0.3):
            given[int(self.random.integers(len(given)))] = -1
        self.add("reshape", [self.last], [made], shape=tuple(given))

    def along_the_last(self) -> None:
        shape = self.shapes[-1]
        if len(shape) < 2 or self.chance(0.4):
            self.add("softmax" if shape and self.chance(0.5) else "relu", [self.last], [shape])
            return
        width = int(self.random.choice([1, 2, 3]))
        self.add("linear", [self.last], [(*shape[:-1], width)], weight=self.weight((shape[-1], width)))

    def ones(self) -> None:
        """An axis of size 1 more, or less."""
        shape = self.shapes[-1]
        places = [axis for axis, n in enumerate(shape) if n == 1]
        if places and len(shape) > 2 and self.chance(0.5):
            axis = int(self.random.choice(places))
            self.add("squeeze", [self.last], [shape[:axis] + shape[axis + 1 :]], axis=axis)
        elif len(shape) < 5:
            axis = int(self.random.integers(len(shape) + 1))
            self.add("unsqueeze", [self.last], [(*shape[:axis], 1, *shape[axis:])], axis=axis)

    def part(self) -> None:
        shape = self.shapes[-1]
        axes = [axis for axis, n in enumerate(shape) if n % 2 == 0]
        if axes:
            axis = int(self.random.choice(axes))
            half = (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])
            self.add("split", [self.last], [half, half], axis=axis)
            if self.chance(0.5):
                self.add("add", [self.last - 1, self.last], [half])

    def join(self) -> None:
        """The last value beside another one, or one of all values beside itself, or a constant."""
        shape = self.shapes[-1]
        axis = int(self.random.integers(max(1, len(shape) - 1))) + (len(shape) > 1)
        axis = min(axis, len(shape) - 1)
        alike = [i for i, other in enumerate(self.shapes[:-1]) if other == shape]
        if self.chance(0.3):
            self.add("add", [self.last], [shape], weight=self.weight(shape))
            return
        other = int(self.random.choice(alike)) if alike else self.last
        joined = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        if math.prod(joined) <= 96:
            self.add("concat", [self.last, other], [joined], axis=axis)

    def reduce(self) -> None:
        shape = self.shapes[-1]
        if len(shape) < 2:
            return
        axis = int(self.random.integers(0 if self.chance(0.2) else 1, len(shape)))
        kept = self.chance(0.5)
        made = (*shape[:axis], *([1] if kept else []), *shape[axis + 1 :])
        self.add("reduce", [self.last], [made], axis=axis, keep=kept)

    def multiply(self) -> None:
        """The product with itself, transposed: of all rows with all."""
        shape = self.shapes[-1]
        if len(shape) > 1 and shape[-2] <= 6:
            self.add("product", [self.last], [(*shape[:-1], shape[-2])])

    def flatten(self) -> None:
        shape = self.shapes[-1]
        axis = int(self.random.integers(1, max(2, len(shape))))
        made = (math.prod(shape[:axis]), math.prod(shape[axis:]))
        self.add("flatten", [self.last], [made], axis=axis)

    def copies(self) -> None:
        shape = self.shapes[-1]
        axis = int(self.random.integers(len(shape)))
        if math.prod(shape) <= 48:
            made = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
            self.add("tile", [self.last], [made], counts=[1 + (i == axis) for i in range(len(shape))])

    def cut(self) -> None:
        """The first entry along an axis, or all but that one, and sometimes without the axis."""
        shape = self.shapes[-1]
        axis = int(self.random.integers(0 if self.chance(0.2) else 1, max(2, len(shape))))
        if axis >= len(shape):
            return
        if len(shape) > 2 and self.chance(0.5):
            self.add("take", [self.last], [shape[:axis] + shape[axis + 1 :]], axis=axis)
            return
        begin = int(shape[axis] > 1 and self.chance(0.5))
        count = shape[axis] - 1 if begin else 1
        made = (*shape[:axis], count, *shape[axis + 1 :])
        bounds = [begin if i == axis else 0 for i in range(len(shape))]
        self.add("slice", [self.last], [made], axis=axis, begin=bounds)

    # Files.

    def to_onnx(self, path: Path) -> Path:
        nodes, weights, numbers = [], dict(self.weights), 0
        names = ["x"]

        def whole(values: Any) -> str:
            weights[f"k{len(weights)}"] = np.array(values, np.int64)
            return f"k{len(weights) - 1}"

        for step in self.steps:
            given, o = [names[i] for i in step.inputs], step.options
            made = [f"v{numbers + i}" for i in range(len(step.outputs))]
            numbers += len(made)
            both = " ".join([*given, *([o["weight"]] if "weight" in o else [])])
            match step.kind:
                case "transpose":
                    nodes.append(node("Transpose", both, made[0], perm=o["order"]))
                case "reshape":
                    nodes.append(node("Reshape", f"{both} {whole(o['shape'])}", made[0]))
                case "squeeze" | "unsqueeze":
                    nodes.append(node(step.kind.title(), f"{both} {whole([o['axis']])}", made[0]))
                case "softmax":
                    nodes.append(node("Softmax", both, made[0], axis=-1))
                case "relu":
                    nodes.append(node("Relu", both, made[0]))
                case "linear":
                    nodes.append(node("MatMul", both, made[0]))
                case "split":
                    nodes.append(node("Split", both, " ".join(made), axis=o["axis"], num_outputs=2))
                case "add":
                    nodes.append(node("Add", both, made[0]))
                case "concat":
                    nodes.append(node("Concat", both, made[0], axis=o["axis"]))
                case "reduce":
                    nodes.append(node("ReduceMean", f"{both} {whole([o['axis']])}", made[0], keepdims=int(o["keep"])))
                case "flatten":
                    nodes.append(node("Flatten", both, made[0], axis=o["axis"]))
                case "tile":
                    nodes.append(node("Tile", f"{both} {whole(o['counts'])}", made[0]))
                case "take":
                    nodes.append(node("Gather", f"{both} {whole(0)}", made[0], axis=o["axis"]))
                case "slice":
                    axis, (shape,) = o["axis"], step.outputs
                    bounds = [[o["begin"][axis]], [o["begin"][axis] + shape[axis]], [axis]]
                    nodes.append(node("Slice", f"{both} {' '.join(map(whole, bounds))}", made[0]))
                case "product":
                    rank = len(step.outputs[0])
                    order = [*range(rank - 2), rank - 1, rank - 2]
                    nodes.append(node("Transpose", both, f"t{numbers}", perm=order))
                    nodes.append(node("MatMul", f"{both} t{numbers}", made[0]))
            names += made
        return write(path, nodes, {"x": list(self.shape)}, [names[-1]], weights)

    def to_coreml(self, path: Path) -> Any:
        names, lines = ["x"], list[str]()
        for name, array in self.weights.items():
            lines.append(f"{_type(array.shape)} {name} = const()[val = {_type(array.shape)}({array.tolist()})];")
        for step in self.steps:
            given, o = [names[i] for i in step.inputs], step.options
            made = [f"v{len(names) + i}" for i in range(len(step.outputs))]
            x, rank = given[0], len(step.outputs[0])
            second = o.get("weight") or (given[1] if len(given) > 1 else x)
            axes = f"tensor<int32, [1]>([{o.get('axis')}])"
            text = {
                "transpose": f"transpose(perm = {_whole(o.get('order', ()))}, x = {x})",
                "reshape": f"reshape(shape = {_whole(o.get('shape', ()))}, x = {x})",
                "squeeze": f"squeeze(axes = {axes}, x = {x})",
                "unsqueeze": f"expand_dims(axes = {axes}, x = {x})",
                "softmax": f"softmax(axis = int32({rank - 1}), x = {x})",
                "relu": f"relu(x = {x})",
                "linear": f"matmul(transpose_x = bool(false), transpose_y = bool(false), x = {x}, y = {second})",
                "split": f"split(axis = int32({o.get('axis')}), num_splits = int32(2), x = {x})",
                "add": f"add(x = {x}, y = {second})",
                "concat": f"concat(axis = int32({o.get('axis')}), interleave = bool(false), values = ({x}, {second}))",
                "reduce": f"reduce_mean(axes = {axes}, keep_dims = bool({str(o.get('keep')).lower()}), x = {x})",
                "flatten": f"flatten2d(axis = int32({o.get('axis')}), x = {x})",
                "tile": f"tile(reps = {_whole(o.get('counts', ()))}, x = {x})",
                "take": f"gather(axis = int32({o.get('axis')}), indices = int32(0), x = {x})",
                "slice": f"slice_by_size(begin = {_whole(o.get('begin', ()))}, size = {_whole(step.outputs[0])}, x = {x})",
                "product": f"matmul(transpose_x = bool(false), transpose_y = bool(true), x = {x}, y = {x})",
            }[step.kind]
            outputs = ", ".join(f"{_type(shape)} {name}" for shape, name in zip(step.outputs, made, strict=True))
            lines.append(f"{outputs} = {text};")
            names += made
        body = "\n".join(lines)
        text = f"program(1.3) {{ func main<ios17>({_type(self.shape)} x) {{\n{body}\n}} -> ({names[-1]}); }}"
        return coreml.write_package(coreml.make_model(coreml.parse(text)), path)


def _type(shape: Shape) -> str:
    return f"tensor<fp32, {list(shape)}>"


def _whole(numbers: Any) -> str:
    return f"tensor<int32, [{len(numbers)}]>({list(numbers)})"

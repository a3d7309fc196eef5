"""Fused layers of Python: one, two or three inputs, gradients left out, given, or added to what is there."""

from __future__ import annotations

from typing import Any

import numpy as np

import openbnns as bn

from .arithmetic import tame
from .core import Array, Case, Draw, Outcome

ONE = [f for f in bn.ArithmeticUnaryFunction if f.name not in ("FLOOR", "CEIL", "ROUND", "SIGN", "ACOSH")]
TWO = [bn.ArithmeticBinaryFunction[name] for name in ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE", "MIN", "MAX")]
THREE = [bn.ArithmeticTernaryFunction.MULTIPLY_ADD, bn.ArithmeticTernaryFunction.SELECT]
ACTIVATIONS = [
    bn.ActivationFunction.identity(), bn.ActivationFunction.rectified_linear(), bn.ActivationFunction.tanh(),
    bn.ActivationFunction.sigmoid(), bn.ActivationFunction.leaky_rectified_linear(alpha=0.3),
    bn.ActivationFunction.elu(alpha=0.7),
]  # fmt: skip
SAMPLE, PARAMETER, CONSTANT = (getattr(bn.DescriptorType, name) for name in ("SAMPLE", "PARAMETER", "CONSTANT"))


class Fused:
    """A chain of two layers, its operands, and the calls to make."""

    def __init__(self, draw: Draw) -> None:
        self.batch, channels = draw.size(5), int(draw.one([1, 2, 4, 6, 17]))
        self.kind = draw.one(["one", "two", "two", "three", "convolution", "fully connected"])
        plane = (draw.size(5), draw.size(5))
        self.roles = [SAMPLE]
        if self.kind == "fully connected":
            inputs = draw.size(20)
            self.shapes, self.y_shape = [(inputs,)], (channels,)
            self.first: Any = bn.FusedFullyConnectedParameters(
                weights=draw.floats(channels, inputs), bias=draw.floats(channels) if draw.chance(0.7) else None
            )
        elif self.kind == "convolution":
            inputs, kernel = draw.size(4), int(draw.one([1, 3]))
            self.shapes, self.y_shape = [(inputs, *plane)], (channels, *plane)
            self.first = bn.FusedConvolutionParameters(
                type=bn.ConvolutionType.STANDARD, weights=draw.floats(channels, inputs, kernel, kernel),
                bias=draw.floats(channels) if draw.chance(0.7) else None,
                padding=bn.ConvolutionPadding.symmetric(x=kernel // 2, y=kernel // 2),
            )  # fmt: skip
        else:
            self._draw_arithmetic(draw, (channels, *plane))
        self._draw_normalization(draw, channels)
        self.sizes = [(self.batch, *s) if r == SAMPLE else s for s, r in zip(self.shapes, self.roles, strict=True)]
        self.values = [self._operand(draw, i) for i in range(len(self.sizes))]
        self.dy = draw.floats(self.batch, *self.y_shape)
        self.parameters = self._parameter_shapes()
        self.given = [draw.one(["new", "given", "none"]) for _ in range(len(self.sizes) + len(self.parameters))]
        self.accumulate = draw.chance(0.4)
        self.in_training = draw.chance(0.9)
        self.twice = draw.chance(0.3)

    def _draw_arithmetic(self, draw: Draw, shape: tuple[int, ...]) -> None:
        count = ("one", "two", "three").index(self.kind) + 1
        self.function = draw.one([ONE, TWO, THREE][count - 1])
        self.shapes, self.y_shape = [shape] * count, shape
        self.roles = [SAMPLE] + [draw.one([SAMPLE, PARAMETER, CONSTANT]) for _ in range(count - 1)]
        make = (
            bn.FusedUnaryArithmeticParameters, bn.FusedBinaryArithmeticParameters, bn.FusedTernaryArithmeticParameters
        )[count - 1]  # fmt: skip
        names = ["input"] if count == 1 else [f"input_{'abc'[i]}" for i in range(count)]
        roles = {f"{name}_descriptor_type": role for name, role in zip(names, self.roles, strict=True)}
        self.first = make(function=self.function, output_descriptor_type=SAMPLE, **roles)

    def _draw_normalization(self, draw: Draw, channels: int) -> None:
        groups = int(draw.one([g for g in range(1, channels + 1) if channels % g == 0]))
        planes = len(self.y_shape) == 3
        kinds: list[Any] = [bn.NormalizationType.batch, lambda **_: bn.NormalizationType.group(group_count=groups)]
        if planes:
            axis = draw.one([0, 1, 2])
            kinds += [bn.NormalizationType.instance, lambda **_: bn.NormalizationType.layer(normalization_axis=axis)]
        self.type = draw.one(kinds)
        size = self.y_shape if self.type().case == "layer" else (channels,)
        self.beta, self.gamma = (draw.floats(*size) if draw.chance(0.8) else None for _ in range(2))
        self.activation, self.momentum = draw.one(ACTIVATIONS), draw.one([0.0, 0.1, 0.9])
        self.moving = [np.abs(draw.floats(channels)) for _ in range(2)] if draw.chance(0.4) else None

    def _operand(self, draw: Draw, number: int) -> Array:
        values = draw.floats(*self.sizes[number])
        function = getattr(self, "function", None)
        return values if function is None else tame(int(function.value), number)(values).astype(np.float32)

    def _parameter_shapes(self) -> list[Any]:
        first = [] if not hasattr(self.first, "weights") else [self.first.weights, self.first.bias]
        return [None if p is None else p.shape for p in (*first, self.beta, self.gamma)]

    def layer(self, moving: list[Array] | None) -> Any:
        options = {} if moving is None else {"moving_mean": moving[0], "moving_variance": moving[1]}
        norm = bn.FusedNormalizationParameters(
            type=self.type(**options), beta=self.beta, gamma=self.gamma, momentum=self.momentum, epsilon=0.1,
            activation=self.activation,
        )  # fmt: skip
        shapes = [_shape(s) for s in self.shapes]
        names = ["input"] if len(shapes) == 1 else [f"input_{'abc'[i]}" for i in range(len(shapes))]
        return bn.FusedParametersLayer(
            **dict(zip(names, shapes, strict=True)),
            output=_shape(self.y_shape),
            fused_layer_parameters=[self.first, norm],
        )


def _shape(sizes: tuple[int, ...]) -> Any:
    return bn.Shape.vector(*sizes) if len(sizes) == 1 else bn.Shape.image_chw(*sizes[::-1])


def fused_layers(draw: Draw) -> Case:
    """Forward, then backward once or twice, by position."""
    f = Fused(draw)

    def run(out: Outcome) -> None:
        moving = None if f.moving is None else [m.copy() for m in f.moving]
        try:
            layer = f.layer(moving)
            phase = bn.LearningPhase.TRAINING if f.in_training else bn.LearningPhase.INFERENCE
            inputs = [x.copy() for x in f.values]
            y = layer.apply(*inputs, phase=phase)
            out.memory.append(("y", y, False))
            for _ in range(1 + f.twice):
                _backward(f, layer, inputs, y, out)
        except bn.BNNSError as error:
            out.statuses.append(False)
            out.messages.append(str(error))
        out.memory += [("moving", m, False) for m in moving or ()]

    return f"{f.kind} {getattr(f, 'function', '')} {f.sizes} {f.type().case} {f.roles} {f.given} {f.accumulate}", run


def _backward(f: Fused, layer: Any, inputs: list[Array], y: Array, out: Outcome) -> None:
    shapes = [*f.sizes, *f.parameters]
    count = len(f.sizes)
    given: list[Any] = []
    for i, (shape, how) in enumerate(zip(shapes, f.given, strict=True)):
        constant = i < count and f.roles[i] == CONSTANT
        if shape is None or constant:
            given.append(None)
        elif how == "given":
            given.append(np.full(shape, 0.5, np.float32))
        else:
            given.append(bn.skip if how == "none" else None)
    gradients = layer.apply_backward(
        *inputs, y, f.dy, *given[:count], given[count:], accumulate=f.accumulate and all(h != "new" for h in f.given)
    )
    results = [*gradients[:-1], *gradients.parameters]
    for number, (result, where) in enumerate(zip(results, given, strict=True)):
        if isinstance(where, np.ndarray) and result is not where:
            raise AssertionError(f"gradient {number} is not the array that was given")
        out.statuses.append(result is None)
        out.messages.append(None)
        if result is not None:
            out.memory.append((f"gradient {number}", result, False))


FAMILIES = {"fused_layers": fused_layers}

"""Random networks as data: drawn from a seed, shown as text, taken apart when one fails.

A :class:`Plan` has inputs, layers, steps in the order in which they run, outputs, a loss for each output and an optimizer.
One table says what each kind of step computes, in a text that ``nn``, PyTorch and ``tape.py`` all understand.
``network_checks.py`` compares what they make of a plan.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import tape_layers
from tape import Array, Tensor

LARGEST = 20.0  # number in a network, so that float32 suffices
SMALLEST_KINK = 1e-4  # distance that rounding to float32 does not bridge


@dataclass(frozen=True)
class Layer:
    """A layer or, as ``Parameter``, an array that is trained."""

    kind: str
    options: Mapping[str, Any]
    training: bool = True

    def __str__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.kind}({options}){'' if self.training else '.eval()'}"


@dataclass(frozen=True)
class Step:
    """``outputs`` by name, from inputs by name; ``layers`` are the numbers of the layers that it calls."""

    kind: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    options: tuple[Any, ...] = ()
    layers: tuple[int, ...] = ()

    def __str__(self) -> str:
        given = [*self.inputs, *(f"layer {i}" for i in self.layers), *map(repr, self.options)]
        return f"{', '.join(self.outputs)} = {self.kind}({', '.join(given)})"


@dataclass(frozen=True)
class Plan:
    """A network, and how it is trained."""

    seed: int
    batch: int
    inputs: Mapping[str, tuple[int, ...]]  # shapes of samples; names that begin with i are of integers
    layers: tuple[Layer, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    losses: tuple[tuple[str, Mapping[str, Any]], ...]
    optimizer: tuple[str, Mapping[str, Any]]
    frozen: float = 0.0  # share of the parameters

    def __str__(self) -> str:
        lines = [f"batch {self.batch}, seed of the numbers {self.seed}, share of frozen parameters {self.frozen}"]
        lines += [f"{name}: sample {shape}" for name, shape in self.inputs.items()]
        used = sorted({i for step in self.steps for i in step.layers})
        lines += [f"layer {i}: {self.layers[i]}" for i in used]
        lines += [*map(str, self.steps), f"return {', '.join(self.outputs)}"]
        lines += [f"loss {kind} {dict(options)}" for kind, options in self.losses]
        lines.append(f"optimizer {self.optimizer[0]} {dict(self.optimizer[1])}")
        return "\n".join(f"  {line}" for line in lines)

    def random(self, *key: object) -> np.random.Generator:
        """Random numbers for one purpose; the same ones whatever else the plan consists of."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(key).encode())])

    def input_arrays(self, turn: int = 0) -> list[Array]:
        return [
            self.random("input", name, turn).integers(0, 5, (self.batch, *shape))
            if name.startswith("i")
            else _float32(self.random("input", name, turn).standard_normal((self.batch, *shape)))
            for name, shape in self.inputs.items()
        ]

    def parameter(self, layer: int, name: str, shape: tuple[int, ...]) -> Array:
        spread = 0.5 if len(shape) < 2 else min(0.5, np.prod(shape[1:]) ** -0.5)
        return _float32(self.random("parameter", layer, name).standard_normal(shape) * spread)

    def is_trained(self, layer: int, name: str) -> bool:
        return bool(self.random("frozen", layer, name).random() >= self.frozen)

    def statistics(self, layer: int) -> dict[str, Array]:
        random, size = self.random("statistics", layer), self.layers[layer].options["num_features"]
        return {
            "running_mean": _float32(random.standard_normal(size) * 0.3),
            "running_var": _float32(random.random(size) + 0.5),
        }

    def cotangents(self, outputs: Sequence[Array]) -> list[Array]:
        return [_float32(self.random("cotangent", i).standard_normal(y.shape)) for i, y in enumerate(outputs)]

    def targets(self, outputs: Sequence[Array]) -> list[Array]:
        return [
            self._target(i, kind, y.shape) for i, ((kind, _), y) in enumerate(zip(self.losses, outputs, strict=True))
        ]

    def _target(self, number: int, kind: str, shape: tuple[int, ...]) -> Array:
        random = self.random("target", number)
        if kind in ("CrossEntropyLoss", "NLLLoss"):
            return random.integers(0, shape[1], (shape[0], *shape[2:]))
        if kind in ("BCEWithLogitsLoss", "BCELoss", "KLDivLoss"):
            return _float32(random.random(shape) * 0.9 + 0.05)
        if kind == "HingeEmbeddingLoss":
            return _float32(random.choice([-1.0, 1.0], shape))
        return _float32(random.standard_normal(shape))


def _float32(array: Array) -> Array:
    """Numbers that float32 holds exactly, in float64."""
    return array.astype(np.float32).astype(np.float64)


# What each kind of step computes, from a namespace of functions, layers, inputs and options.

RUN: dict[str, Callable[..., Any]] = {
    "add": lambda F, a, b: a + b,
    "sub": lambda F, a, b: a - b,
    "mul": lambda F, a, b: a * b,
    "ratio": lambda F, a, b: a / (b * b + 1.0),
    "maximum": lambda F, a, b: F.maximum(a, b),
    "minimum": lambda F, a, b: F.minimum(a, b),
    "function": lambda F, x, name: getattr(F, name)(x),
    "leaky_relu": lambda F, x, slope: F.leaky_relu(x, slope),
    "exp": lambda F, x: F.exp(F.tanh(x)),
    "log": lambda F, x: F.log(x * x + 1.0),
    "sqrt": lambda F, x: F.sqrt(x * x + 0.5),
    "scalar": lambda F, x, a, b: x * a + b,
    "from scalar": lambda F, x, a: a - x,
    "neg": lambda F, x: -x,
    "power": lambda F, x, n: x**n,
    "detach": lambda F, x: x.detach(),
    "add parameter": lambda F, p, x: x + p,
    "mul parameter": lambda F, p, x: x * p,
    "add twice": lambda F, p, x: (p + x) + p * x,
    "add array": lambda F, x, seed, shape: x + F.array(_constant(seed, shape)),
    "mul array": lambda F, x, seed, shape: x * F.array(_constant(seed, shape)),
    "where": lambda F, a, b, seed, shape: F.where(F.mask(_constant(seed, shape) > 0), a, b),
    "choose": lambda F, a, b: F.where(a > b, a * 0.5, b),
    "sort": lambda F, x, dim, down: x.sort(dim, descending=down)[0],
    "topk": lambda F, x, k, dim: x.topk(k, dim)[0],
    "cumsum": lambda F, x, dim: x.cumsum(dim),
    "interleave": lambda F, x, n, dim: x.repeat_interleave(n, dim),
    "neighbours": lambda F, x, dim: x - x.roll(1, dim),
    "sum": lambda F, x, dim, keep: x.sum(dim, keep),
    "mean": lambda F, x, dim, keep: x.mean(dim, keep),
    "amax": lambda F, x, dim, keep: x.amax(dim, keep),
    "amin": lambda F, x, dim, keep: x.amin(dim, keep),
    "var": lambda F, x, dim: x.var(dim, correction=0, keepdim=True),
    "logsumexp": lambda F, x, dim, keep: F.logsumexp(x, dim, keep),
    "probability": lambda F, x: F.sigmoid(F.tanh(x) * 4.0),  # whose logarithms float32 knows
    "softmax": lambda F, x, dim: F.softmax(x, dim),
    "log_softmax": lambda F, x, dim: F.log_softmax(x, dim),
    "centred": lambda F, x, dim: x - x.mean(dim, True),
    "reshape": lambda F, x, *sizes: x.reshape(x.shape[0], *sizes),
    "flatten": lambda F, x: x.flatten(1),
    "permute": lambda F, x, *order: x.permute(*order),
    "transpose": lambda F, x, a, b: x.transpose(a, b),
    "unsqueeze": lambda F, x, dim: x.unsqueeze(dim),
    "squeeze": lambda F, x, dim: x.squeeze(dim),
    "slice": lambda F, x, dim, a, b, step: x[(slice(None),) * dim + (slice(a, b, step),)],
    "select": lambda F, x, dim, i: x[(slice(None),) * dim + (i,)],
    "pick": lambda F, x, dim, numbers: F.picked(x, dim, numbers),
    "flip": lambda F, x, dim: x.flip(dim),
    "roll": lambda F, x, n, dim: x.roll(n, dim),
    "expand": lambda F, x, *sizes: x.expand(*sizes),
    "repeat": lambda F, x, *times: x.repeat(*times),
    "chunk": lambda F, x, n, dim: tuple(x.chunk(n, dim)),
    "pad": lambda F, x, sizes: F.pad(x, sizes),
    "cat": lambda F, *parts: F.cat(list(parts[:-1]), parts[-1]),
    "stack": lambda F, *parts: F.stack(list(parts[:-1]), parts[-1]),
    "matmul": lambda F, a, b: a @ b.transpose(-2, -1),
    "attend": lambda F, q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    "layer": lambda F, layer, x: layer(x),
    "layer of rows": lambda F, layer, x: layer(x.reshape(-1, x.shape[-1])).reshape(x.shape[0], *x.shape[1:-1], -1),
    "residual": lambda F, layer, x: x + layer(x),
    "residual of residual": lambda F, layer, x: x + (x + layer(x)),
    "linear": lambda F, weight, x: F.linear(x, weight),
}  # fmt: skip

EPSILONS = (2**-3, 2**-7)  # of normalizations, which float32 holds exactly

FUNCTIONS = (
    "relu", "tanh", "sigmoid", "silu", "gelu", "softplus", "elu", "softsign", "hardtanh", "hardswish", "mish",
    "logsigmoid", "relu6", "abs", "square", "sin", "cos", "softshrink",
)  # fmt: skip


def _constant(seed: int, shape: Sequence[int]) -> Array:
    return _float32(np.random.default_rng(seed).standard_normal(tuple(shape)))


def run_steps(plan: Plan, F: Any, layers: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The outputs, from values, tensors or arrays of any kind that ``F`` and ``layers`` take."""
    values = dict(zip(plan.inputs, inputs, strict=True))
    for step in plan.steps:
        values.update(zip(step.outputs, run_step(step, F, layers, values), strict=True))
    return [values[name] for name in plan.outputs]


def run_step(step: Step, F: Any, layers: Sequence[Any], values: Mapping[str, Any]) -> Sequence[Any]:
    given = [values[name] for name in step.inputs]
    result = RUN[step.kind](F, *(layers[i] for i in step.layers), *given, *step.options)
    return result if isinstance(result, tuple) and len(step.outputs) > 1 else [result]


# The network on the tape.

TAPE = SimpleNamespace(**{name: getattr(tape_layers, name) for name in dir(tape_layers)})
TAPE.array = TAPE.mask = lambda array: array
TAPE.picked = lambda x, dim, numbers: x.index_select(dim, numbers)


class OnTape:
    """A plan with parameters, computed by ``tape_layers``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.parameters: dict[tuple[int, str], Tensor] = {}
        self.statistics: dict[int, dict[str, Array]] = {}
        self.training = True
        for i, layer in enumerate(plan.layers):
            self.add(i, layer)

    def add(self, i: int, layer: Layer) -> None:
        for name, shape in parameter_shapes(layer).items():
            self.parameters[i, name] = Tensor(self.plan.parameter(i, name, shape))
        if layer.kind.startswith("BatchNorm"):
            self.statistics[i] = self.plan.statistics(i)

    def layer(self, i: int, layer: Layer) -> Any:
        if layer.kind == "Parameter":
            return self.parameters[i, "data"]
        own = {name: p for (number, name), p in self.parameters.items() if number == i}
        more = [self.statistics[i]] if i in self.statistics else []
        return lambda x: tape_layers.LAYERS[layer.kind](own, layer.options, x, self.training and layer.training, *more)

    def run(self, arrays: Sequence[Array]) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs and outputs."""
        inputs = [Tensor(array) for array in arrays]
        layers = [self.layer(i, layer) for i, layer in enumerate(self.plan.layers)]
        return inputs, run_steps(self.plan, TAPE, layers, inputs)


def parameter_shapes(layer: Layer) -> dict[str, tuple[int, ...]]:
    """The parameters of a layer by name, with PyTorch's shapes."""
    o = layer.options
    kind = layer.kind
    if kind == "Parameter":
        return {"data": o["shape"]}
    if kind == "Linear":
        weight: tuple[int, ...] = (o["out_features"], o["in_features"])
    elif kind in ("Conv1d", "Conv2d"):
        weight = (o["out_channels"], o["in_channels"] // o.get("groups", 1), *[o["kernel_size"]] * int(kind[4]))
    elif kind == "ConvTranspose2d":
        weight = (o["in_channels"], o["out_channels"], o["kernel_size"], o["kernel_size"])
    elif kind == "Embedding":
        return {"weight": (o["num_embeddings"], o["embedding_dim"])}
    elif kind == "PReLU":
        return {"weight": (o["num_parameters"],)}
    elif kind == "RMSNorm":
        return {"weight": tuple(o["normalized_shape"])}
    elif kind in ("BatchNorm1d", "BatchNorm2d", "GroupNorm", "LayerNorm"):
        shape = o.get("normalized_shape") or (o.get("num_features") or o["num_channels"],)
        affine = o.get("affine", o.get("elementwise_affine", True))
        return {"weight": tuple(shape), "bias": tuple(shape)} if affine else {}
    elif kind == "MultiheadAttention":
        n = o["embed_dim"]
        return {
            "in_proj_weight": (3 * n, n),
            "in_proj_bias": (3 * n,),
            "out_proj.weight": (n, n),
            "out_proj.bias": (n,),
        }
    elif kind in ("LSTM", "GRU", "RNN"):
        n, gates = o["hidden_size"], {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * o["hidden_size"]
        shapes = {"weight_ih_l0": (gates, o["input_size"]), "weight_hh_l0": (gates, n)}
        return {**shapes, "bias_ih_l0": (gates,), "bias_hh_l0": (gates,)}
    else:
        return {}
    bias = weight[1] if kind == "ConvTranspose2d" else weight[0]
    return {"weight": weight, "bias": (bias,)} if o.get("bias", True) else {"weight": weight}


# Drawing.


class Drawing:
    """A plan while it is drawn. Every step is run on the tape at once, which tells shapes, and whether numbers stay tame."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, 37])
        batch = int(self.one([2, 3, 5]))
        self.plan = Plan(seed, batch, {}, (), (), (), (), ("SGD", {"lr": 0.1}))
        self.values: dict[str, Tensor] = {}
        self.tape = OnTape(self.plan)

    def one(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def add_input(self, name: str, shape: tuple[int, ...]) -> None:
        self.plan = replace(self.plan, inputs={**self.plan.inputs, name: shape})
        self.values[name] = Tensor(self.plan.input_arrays()[-1])

    def layer(self, kind: str, **options: Any) -> int:
        """The number of a new layer."""
        training = kind != "Dropout" and not self.chance(0.2)  # two libraries do not drop the same elements
        made = Layer(kind, options, training)
        self.plan = replace(self.plan, layers=(*self.plan.layers, made))
        self.tape.plan = self.plan
        self.tape.add(len(self.plan.layers) - 1, made)
        return len(self.plan.layers) - 1

    def old_layer(self, kind: str, **options: Any) -> int:
        """One that there is already, if possible; else a new one."""
        same = [i for i, layer in enumerate(self.plan.layers) if layer.kind == kind and layer.options == options]
        return int(self.one(same)) if same and self.chance(0.6) else self.layer(kind, **options)

    def value(
        self, allowed: Callable[[tuple[int, ...]], bool] = lambda shape: True
    ) -> tuple[str, tuple[int, ...]] | None:
        """A value whose shape of samples is allowed, rather a late one, and that shape."""
        names = [
            name for name, x in self.values.items() if not name.startswith("i") and x.ndim and allowed(x.shape[1:])
        ]
        if not names:
            return None
        late = min(int(self.random.exponential(3.0)), len(names) - 1)
        name = names[-1 - late] if self.chance(0.7) else self.one(names)
        return name, self.values[name].shape[1:]

    def step(self, kind: str, inputs: Sequence[str], *options: Any, layers: Sequence[int] = (), count: int = 1) -> bool:
        """Add a step, if its results are numbers that float32 computes well."""
        outputs = tuple(f"v{len(self.values) + i}" for i in range(count))
        made = Step(kind, outputs, tuple(inputs), options, tuple(layers))
        known = [self.tape.layer(i, layer) for i, layer in enumerate(self.plan.layers)]
        with np.errstate(all="ignore"):
            results = run_step(made, TAPE, known, self.values)
        for y in results:
            size = y.data.size / len(y.data) if y.ndim and len(y.data) else 0
            if not 0 < size <= 300 or not np.abs(y.data).max() <= LARGEST or y.kink <= SMALLEST_KINK:
                return False
        self.values.update(zip(outputs, results, strict=True))
        self.plan = replace(self.plan, steps=(*self.plan.steps, made))
        return True


def draw(seed: int) -> Plan:
    """The network of a seed."""
    d = Drawing(seed)
    base = d.one(
        [(d.number(1, 7),), (d.number(1, 7),), (d.number(2, 5), d.number(1, 6)), (d.number(1, 4), 5, 4), (1, 12, 12)]
    )
    d.add_input("x0", base)
    if d.chance(0.3):
        d.add_input("x1", d.one([base, base, base[-1:], (*base[:-1], 1)]))
    if d.chance(0.1):
        d.add_input("i0", (d.number(1, 4),))
    sums = d.chance(0.4)
    kinds = list(DRAWN)
    weights = np.array([DRAWN[kind] * (10 if sums and kind is _sum else 1) for kind in kinds], float)
    if d.chance(0.9):
        _layer(d)
    length = d.number(2, 6) if d.chance(0.3) else d.number(5, 20)
    for _ in range(4 * length):
        if len(d.plan.steps) >= length:
            break
        kinds[int(d.random.choice(len(kinds), p=weights / weights.sum()))](d)
    return _finished(d)


def _two(d: Drawing) -> tuple[str, str] | None:
    """Two values of one shape, sometimes the same one."""
    first = d.value()
    if first is None:
        return None
    second = d.value(lambda shape: shape == first[1])
    assert second is not None
    return (first[0], second[0]) if d.chance(0.5) else (second[0], first[0])


def _sum(d: Drawing) -> None:
    if pair := _two(d):
        d.step(d.one(["add", "add", "add", "sub"]), pair)


def _binary(d: Drawing) -> None:
    if pair := _two(d):
        d.step(d.one(["mul", "mul", "ratio", "maximum", "minimum"]), pair)


def _function(d: Drawing) -> None:
    name, _ = d.value() or ("", ())
    kind = d.one(["function"] * 6 + ["leaky_relu", "exp", "log", "sqrt", "scalar", "from scalar", "neg", "power"])
    options = {
        "function": [d.one(FUNCTIONS)], "leaky_relu": [0.125], "scalar": [d.one([2.0, 0.5, -1.0]), d.one([0.0, 1.0, -0.5])],
        "from scalar": [1.5], "power": [d.one([2, 3])],
    }.get(kind, [])  # fmt: skip
    d.step(kind, [name], *options)


def _part_of(d: Drawing, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that is broadcast to this one."""
    part = tuple(1 if d.chance(0.3) else n for n in shape)
    return part[d.number(0, len(part)) :] if d.chance(0.4) else part


def _with_parameter(d: Drawing) -> None:
    name, shape = d.value() or ("", ())
    part = _part_of(d, shape) if d.chance(0.5) else shape
    i = d.old_layer("Parameter", shape=part)
    d.step(d.one(["add parameter", "add parameter", "mul parameter", "add twice"]), [name], layers=[i])


def _with_array(d: Drawing) -> None:
    name, shape = d.value() or ("", ())
    if d.chance(0.3) and (pair := _two(d)):
        shape = d.values[pair[0]].shape[1:]
        d.step("where", pair, d.number(0, 99), shape)
        return
    d.step(d.one(["add array", "mul array"]), [name], d.number(0, 99), _part_of(d, shape))


def _broadcast(d: Drawing) -> None:
    """Values of which one is repeated along axes of size 1."""
    large = d.value()
    if large is None:
        return

    def fits(shape: tuple[int, ...]) -> bool:
        pairs = zip(shape, large[1], strict=True) if len(shape) == len(large[1]) else [(0, 1)]
        return shape != large[1] and all(n in (1, m) for n, m in pairs)

    small = d.value(fits)
    if small is not None:
        d.step(d.one(["add", "sub", "mul"]), d.one([(large[0], small[0]), (small[0], large[0])]))


def _reduction(d: Drawing) -> None:
    name, shape = d.value(lambda s: len(s) >= 1) or ("", ())
    if not name:
        return
    axis = d.number(1, len(shape))
    kind = d.one(["sum", "mean", "amax", "amin", "var", "logsumexp", "centred", "softmax", "log_softmax"])
    if kind in ("var", "softmax", "log_softmax"):
        d.step(kind, [name], axis)
    elif kind == "centred":
        d.step(kind, [name], d.one([0, axis]))
    else:
        several = kind in ("sum", "mean") and len(shape) > 1 and d.chance(0.4)
        keep = d.chance(0.7) or len(shape) == 1
        d.step(kind, [name], (1, len(shape)) if several else axis, keep or (several and len(shape) == 2))


def _shape(d: Drawing) -> None:
    name, shape = d.value(lambda s: len(s) >= 1) or ("", ())
    if not name:
        return
    rank, axis = len(shape) + 1, d.number(1, len(shape))
    n, count = shape[axis - 1], int(np.prod(shape))
    kind = d.one([
        "reshape", "reshape", "flatten", "permute", "transpose", "unsqueeze", "squeeze", "slice", "slice", "select", "pick",
        "flip", "roll", "expand", "repeat", "pad",
    ])  # fmt: skip
    if kind == "reshape":
        a = d.one([k for k in range(1, count + 1) if count % k == 0])
        d.step(kind, [name], *d.one([(a, count // a), (count,), (count // a, a)]))
    elif kind == "flatten":
        d.step(kind, [name])
    elif kind == "permute" and rank > 2:
        d.step(kind, [name], 0, *(int(i) + 1 for i in d.random.permutation(rank - 1)))
    elif kind == "transpose" and rank > 2:
        d.step(kind, [name], axis, d.number(1, rank - 1))
    elif kind == "unsqueeze" and rank < 5:
        d.step(kind, [name], d.number(1, rank))
    elif kind == "squeeze" and 1 in shape and rank > 2:
        d.step(kind, [name], shape.index(1) + 1)
    elif kind == "slice" and n > 1:
        begin = d.number(0, n - 1)
        d.step(kind, [name], axis, begin, d.number(begin + 1, n), d.one([1, 1, 2]))
    elif kind == "select" and rank > 2:
        d.step(kind, [name], axis, d.number(0, n - 1))
    elif kind == "pick":
        d.step(kind, [name], axis, tuple(d.number(0, n - 1) for _ in range(d.number(1, 4))))
    elif kind == "flip":
        d.step(kind, [name], axis)
    elif kind == "roll":
        d.step(kind, [name], d.number(-2, 2), axis)
    elif kind == "expand" and n == 1:
        d.step(kind, [name], *(3 if i == axis else -1 for i in range(rank)))
    elif kind == "repeat":
        d.step(kind, [name], *(2 if i == axis else 1 for i in range(rank)))
    elif kind == "pad":
        d.step(kind, [name], (d.number(0, 2), d.number(0, 2)))


def _join(d: Drawing) -> None:
    first = d.value(lambda s: len(s) >= 1)
    if first is None:
        return
    name, shape = first
    axis = d.number(1, len(shape))
    kind = d.one(["cat", "cat", "stack", "chunk"])
    if kind == "chunk":
        if shape[axis - 1] % 2 == 0:
            d.step(kind, [name], 2, axis, count=2)
        return
    free = axis - 1 if kind == "cat" else -1  # the axis along which sizes may differ

    def fits(other: tuple[int, ...]) -> bool:
        return len(other) == len(shape) and all(other[k] == n for k, n in enumerate(shape) if k != free)

    others = [d.value(fits) for _ in range(d.number(1, 2))]
    d.step(kind, [name, *(other[0] for other in others if other)], axis)


def _product(d: Drawing) -> None:
    first = d.value(lambda s: len(s) == 2)
    if first is None:
        return
    name, shape = first
    if d.chance(0.5):
        second = d.value(lambda s: len(s) == 2 and s[-1] == shape[-1])
        assert second is not None
        d.step("matmul", [name, second[0]])
    else:
        keys = [d.value(lambda s: s == shape) for _ in range(2)]
        d.step("attend", [name, *(key[0] for key in keys if key)], d.chance(0.3))


def _order(d: Drawing) -> None:
    """Comparisons, order and sums along an axis, also along that of the samples."""
    if d.chance(0.3) and (pair := _two(d)):
        d.step("choose", pair)
        return
    name, shape = d.value(lambda s: len(s) >= 1) or ("", ())
    if not name:
        return
    axis = d.number(1, len(shape))
    kind = d.one(["sort", "topk", "cumsum", "cumsum", "interleave", "neighbours"])
    if kind == "sort":
        d.step(kind, [name], d.one([0, axis]), d.chance(0.5))
    elif kind == "topk":
        d.step(kind, [name], d.number(1, shape[axis - 1]), axis)
    elif kind == "interleave":
        d.step(kind, [name], 2, axis)
    else:
        d.step(kind, [name], d.one([0, axis]))


def _detach(d: Drawing) -> None:
    if value := d.value():
        d.step("detach", [value[0]])


def _width(d: Drawing, shape: tuple[int, ...], same: bool) -> int:
    return shape[-1] if same else d.number(1, 6)


def _norm(d: Drawing, channels: int) -> dict[str, Any]:
    return {"num_features": channels, "eps": d.one(EPSILONS), "affine": d.chance(0.8)}


def _recurrent(d: Drawing, shape: tuple[int, ...], same: bool) -> dict[str, Any]:
    return {"input_size": shape[-1], "hidden_size": _width(d, shape, same), "batch_first": True}


def _convolution(d: Drawing, shape: tuple[int, ...], same: bool) -> dict[str, Any]:
    channels = shape[0]
    options = {"in_channels": channels, "out_channels": channels, "kernel_size": 3, "padding": 1, "bias": d.chance(0.8)}
    if not same:
        return {**options, "out_channels": d.number(1, 5), "kernel_size": d.one([1, 3]), "stride": d.number(1, 2)}
    return {**options, "groups": channels} if d.chance(0.3) else options


def _transposed(d: Drawing, shape: tuple[int, ...], same: bool) -> dict[str, Any]:
    options = {"in_channels": shape[0], "out_channels": d.number(1, 4), "kernel_size": 3, "padding": 1}
    return {**options, "stride": d.number(1, 2)}


def _pooling(d: Drawing, shape: tuple[int, ...], same: bool) -> dict[str, Any]:
    size = d.number(2, 3)
    return {"kernel_size": size, "stride": d.number(1, size), "padding": d.number(0, size // 2)}


LAYERS: dict[str, tuple[str, float, Callable[[Drawing, tuple[int, ...], bool], dict[str, Any]]]] = {
    "Linear": ("123", 6, lambda d, s, same: {
        "in_features": s[-1], "out_features": _width(d, s, same), "bias": d.chance(0.8)}),
    "LayerNorm": ("123", 1, lambda d, s, same: {"normalized_shape": s[-d.number(1, len(s)) :], "eps": d.one(EPSILONS)}),
    "RMSNorm": ("123", 1, lambda d, s, same: {"normalized_shape": s[-1:], "eps": d.one(EPSILONS)}),
    "PReLU": ("123", 1, lambda d, s, same: {"num_parameters": d.one([1, s[0]])}),
    "Dropout": ("123", 1, lambda d, s, same: {"p": 0.5}),
    "BatchNorm1d": ("12", 2, lambda d, s, same: _norm(d, s[0])),
    "BatchNorm2d": ("3", 2, lambda d, s, same: _norm(d, s[0])),
    "GroupNorm": ("23", 1, lambda d, s, same: {
        "num_groups": d.one([g for g in range(1, s[0] + 1) if s[0] % g == 0]), "num_channels": s[0],
        "eps": d.one(EPSILONS)}),
    "LSTM": ("2", 1, _recurrent),
    "GRU": ("2", 1, _recurrent),
    "RNN": ("2", 1, _recurrent),
    "MultiheadAttention": ("2", 1, lambda d, s, same: {
        "embed_dim": s[-1], "num_heads": d.one([h for h in (1, 2, 3) if s[-1] % h == 0]), "batch_first": True}),
    "Conv1d": ("2", 2, _convolution),
    "Conv2d": ("3", 4, _convolution),
    "ConvTranspose2d": ("3", 1, _transposed),
    "MaxPool2d": ("3", 1, _pooling),
    "AvgPool2d": ("3", 1, _pooling),
}  # fmt: skip
"""For samples of which ranks, how often, and with which options, among them some that keep the shape (``same``)."""


def _layer(d: Drawing) -> None:
    """A layer that takes some value, new or used before, by itself or around a sum."""
    tokens = [name for name in d.values if name.startswith("i")]
    if tokens and d.chance(0.3):
        d.step("layer", tokens, layers=[d.old_layer("Embedding", num_embeddings=5, embedding_dim=d.number(1, 6))])
        return
    value = d.value(lambda s: len(s) >= 1)
    if value is None:
        return
    name, shape = value
    if d.chance(0.05):
        d.step("linear", [name], layers=[d.old_layer("Parameter", shape=(d.number(1, 6), shape[-1]))])
        return
    fitting = {kind: weight for kind, (ranks, weight, _) in LAYERS.items() if str(len(shape)) in ranks} or {
        "Linear": 1.0
    }
    weights = np.array(list(fitting.values()))
    kind = list(fitting)[int(d.random.choice(len(fitting), p=weights / weights.sum()))]
    same = d.chance(0.5)
    options = LAYERS[kind][2](d, shape, same)
    if kind.endswith("2d") and min(shape[1:]) + 2 * options.get("padding", 0) < options.get("kernel_size", 0):
        return
    i = d.old_layer(kind, **options)
    before = len(d.plan.steps)
    if d.chance(0.3) and d.tape.layer(i, d.plan.layers[i])(d.values[name]).shape == d.values[name].shape:
        d.step(d.one(["residual", "residual of residual"]), [name], layers=[i])
    if len(d.plan.steps) == before:
        d.step("layer of rows" if kind == "Linear" and d.chance(0.2) else "layer", [name], layers=[i])


def _chain(d: Drawing) -> None:
    """Layers that are computed as one: weights, a normalization, an activation, a pooling."""
    value = d.value(lambda s: len(s) in (1, 3))
    if value is None:
        return
    name, shape = value
    if len(shape) == 1:
        count = d.number(2, 6)
        i = d.layer("Linear", in_features=shape[0], out_features=count)
    else:
        count = d.number(1, 2)
        i = d.layer("Conv2d", in_channels=shape[0], out_channels=count, kernel_size=3, padding=1)
    kind = f"BatchNorm{1 if len(shape) == 1 else 2}d"
    steps: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [("layer", (), (i,))]
    if d.chance(0.8):
        steps.append(("layer", (), (d.layer(kind, num_features=count, eps=d.one(EPSILONS)),)))
    if d.chance(0.7):
        steps.append(("function", (d.one(["relu", "relu", "tanh", "gelu", "silu"]),), ()))
    if len(shape) == 3 and min(shape[1:]) > 1 and d.chance(0.7):
        steps.append(("layer", (), (d.old_layer("MaxPool2d", kernel_size=2, stride=2, padding=0),)))
    for step, options, layers in steps:
        if not d.step(step, [name], *options, layers=layers):
            return
        name = d.plan.steps[-1].outputs[0]


DRAWN: dict[Callable[[Drawing], None], float] = {
    _sum: 6, _binary: 2, _function: 5, _with_parameter: 2, _with_array: 1, _broadcast: 1.5, _reduction: 2,
    _shape: 4, _join: 2.5, _product: 1, _detach: 0.3, _order: 1.5, _layer: 6, _chain: 1.5,
}  # fmt: skip

OPTIMIZERS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.02, "momentum": 0.9}),
    ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "eps": 0.1}),
    ("Adam", {"lr": 0.01, "eps": 0.1, "amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.01, "eps": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "eps": 0.1}),
    ("RMSprop", {"lr": 0.01, "eps": 0.1, "centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.02, "eps": 0.1}),
    ("Adamax", {"lr": 0.01, "eps": 0.1}),
)
"""With large ``eps``: where a gradient is next to nothing, a small one makes a whole step of what rounding left of it."""


LOSSES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("MSELoss", {}), ("MSELoss", {}), ("L1Loss", {}), ("SmoothL1Loss", {"beta": 0.7}), ("HuberLoss", {"delta": 0.6}),
    ("BCEWithLogitsLoss", {}), ("HingeEmbeddingLoss", {"margin": 0.8}),
)  # fmt: skip


def _finished(d: Drawing) -> Plan:
    """Join what nothing reads, and choose outputs, their losses and the optimizer."""
    if d.chance(0.8):
        _join_ends(d)
    names = [name for name, x in d.values.items() if not name.startswith("i") and x.ndim > 1]
    chosen = [names[-1]]
    while len(chosen) < 4 and d.chance(0.35):
        chosen.append(d.one(names))
    outputs, losses = [], []
    for name in chosen:
        kind, options = d.one(LOSSES)
        if d.chance(0.4):  # one for a certain last step
            kind, last, given = d.one([
                ("BCELoss", "probability", ()), ("KLDivLoss", "log_softmax", (-1,)), ("NLLLoss", "log_softmax", (1,)),
                ("CrossEntropyLoss", "", ()),
            ])  # fmt: skip
            options = {"label_smoothing": d.one([0.0, 0.1])} if kind == "CrossEntropyLoss" else {}
            if last and d.step(last, [name], *given):
                name = d.plan.steps[-1].outputs[0]
            elif last:
                kind, options = "MSELoss", {}
        outputs.append(name)
        losses.append(
            (kind, {**options, "reduction": d.one(["mean", "mean", "sum"]) if kind != "KLDivLoss" else "sum"})
        )
    frozen = d.one([0.0, 0.0, 0.0, 0.2, 0.5])
    return without_unused(
        replace(d.plan, outputs=tuple(outputs), losses=tuple(losses), optimizer=d.one(OPTIMIZERS), frozen=frozen)
    )


def _join_ends(d: Drawing) -> None:
    """Let one value depend on all that there are."""
    ends: list[str] = []
    read = {name for step in d.plan.steps for name in step.inputs}
    for name in [name for name in d.values if name not in read]:
        if not name.startswith("i") and d.values[name].ndim > 1:
            if d.values[name].ndim > 2 and d.step("flatten", [name]):
                name = d.plan.steps[-1].outputs[0]
            ends.append(name)
    if len(ends) > 1:
        d.step("cat", ends, 1)
    joined = d.value(lambda s: len(s) == 1)
    if joined is not None and d.chance(0.7):
        i = d.layer("Linear", in_features=joined[1][0], out_features=d.number(1, 5))
        d.step("layer", [joined[0]], layers=[i])


def without_unused(plan: Plan) -> Plan:
    """A plan without the steps that nothing depends on; inputs and the numbers of layers stay."""
    used = set(plan.outputs)
    steps: list[Step] = []
    for step in reversed(plan.steps):
        if used & set(step.outputs):
            steps.append(step)
            used |= set(step.inputs)
    return replace(plan, steps=tuple(reversed(steps)))


# Taking apart.


def smallest(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The plan with everything left out that it fails without."""
    done = False
    while not done:
        done = True
        for candidate in _smaller(plan):
            if fails(candidate):
                plan, done = candidate, False
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    if len(plan.outputs) > 1:
        for i in range(len(plan.outputs)):
            fewer = [pair for k, pair in enumerate(zip(plan.outputs, plan.losses, strict=True)) if k != i]
            yield without_unused(
                replace(plan, outputs=tuple(name for name, _ in fewer), losses=tuple(loss for _, loss in fewer))
            )
    for i, step in enumerate(plan.steps):
        for instead in dict.fromkeys(step.inputs):
            if not instead.startswith("i"):
                names = dict.fromkeys(step.outputs, instead)
                rest = [
                    replace(other, inputs=tuple(names.get(name, name) for name in other.inputs))
                    for other in (*plan.steps[:i], *plan.steps[i + 1 :])
                ]
                yield without_unused(
                    replace(plan, steps=tuple(rest), outputs=tuple(names.get(name, name) for name in plan.outputs))
                )
        if step.kind in ("cat", "stack") and len(step.inputs) > 1:
            for k in range(len(step.inputs)):
                fewer_inputs = step.inputs[:k] + step.inputs[k + 1 :]
                yield without_unused(
                    replace(plan, steps=(*plan.steps[:i], replace(step, inputs=fewer_inputs), *plan.steps[i + 1 :]))
                )
        if step.kind.startswith("residual"):
            yield replace(plan, steps=(*plan.steps[:i], replace(step, kind="layer"), *plan.steps[i + 1 :]))
    read = {name for step in plan.steps for name in step.inputs} | set(plan.outputs)
    if not plan.inputs.keys() <= read and len(plan.inputs) > 1 and plan.inputs.keys() & read:
        yield replace(plan, inputs={name: shape for name, shape in plan.inputs.items() if name in read})
    if plan.frozen:
        yield replace(plan, frozen=0.0)
    if plan.batch > 2:
        yield replace(plan, batch=2)
    if plan.optimizer != OPTIMIZERS[0]:
        yield replace(plan, optimizer=OPTIMIZERS[0])
    plain = ("MSELoss", {"reduction": "mean"})
    if any(loss != plain for loss in plan.losses):
        yield replace(plan, losses=(plain,) * len(plan.losses))

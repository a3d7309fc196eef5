"""Neural networks of the old kind as ML programs: files since 2019, whose layers take arrays of any rank.

All values of such a network are floats, also those that count or decide. A layer may give its result the name of an earlier
one, as bodies of loops do; the program has a new name for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....files import memory_limit
from ....files.safetensors import DamagedFile
from ...protobuf import Message
from ..description import ArrayFeature, Description, Feature, ImageFeature
from ..program import Argument as ProgramArgument
from ..program import (
    Block,
    Constant,
    DictionaryType,
    Function,
    ListType,
    NamedType,
    Operation,
    Program,
    TensorType,
    ValueType,
    constant,
)  # fmt: skip
from .refusal import Refused, Unsupported

OPSET = "ios17"
_NETWORKS = (500, 403, 303)  # network, classifier, regressor
_BRANCH, _LOOP, _COPY = 605, 615, 600
_DEEPEST = 16
_MOST_TURNS = 2**31 - 1

Value = Any
"""The name of a value of the program, or an array, number or text, which becomes a constant."""

Layer = Callable[["Writer", Message, "list[Value]"], "Value | tuple[Value, ...]"]
"""A function that writes the operations of a layer with these inputs and returns its outputs."""

LAYERS: dict[int, tuple[str, Layer]] = {}
"""By the number that the format has for a kind of layers: its name, and the function that writes it."""


def layer(**numbers: int) -> Callable[[Layer], Layer]:
    """Enter a function for kinds of layers, by name and number."""

    def decorate(function: Layer) -> Layer:
        for name, number in numbers.items():
            assert number not in LAYERS, name
            LAYERS[number] = name, function
        return function

    return decorate


def takes_any_rank(model: Message) -> bool:
    """True for a network whose arrays have the shapes that the description says, without axes of sequence and batch."""
    network = next((model.message(number) for number in _NETWORKS if model.has(number)), None)
    if network is None:
        return False
    images = [one.message(3).has(4) for one in model.message(2).messages(1)]
    # The number of each mapping: how arrays, and how images become values of the network.
    return bool(network.integer(5)) if not all(images) else bool(network.integer(6))


def program_of(model: Message, description: Description, who: str) -> Program:
    """The program of a network; raises Unsupported with all layers that cannot be part of it."""
    number = next(number for number in _NETWORKS if model.has(number))
    network = model.message(number, "network")
    w = Writer(description.inputs, who)
    w.scale_images(network.messages(2, "preprocessing"), description.inputs)
    w.write(network.messages(1, "a layer"))
    if w.problems:
        raise Unsupported(who, w.problems)
    outputs = []
    choice = {description.predicted_feature, description.predicted_probabilities} - {""} if number == 403 else set()
    for feature in description.outputs:
        if feature.name not in choice:
            outputs.append(w.named(w.value_of(feature.name), feature.name))
    if number == 403:
        texts, whole = network.message(100).texts(1), network.message(101).signed_integers(1)
        scores = network.text(200) or w.last
        label, probabilities = description.predicted_feature, description.predicted_probabilities
        outputs += w.classified(w.value_of(scores), texts or whole, [label, probabilities or f"{label}_probabilities"])
    block = Block([], w.operations, outputs)
    return Program({"main": Function("main", w.inputs, OPSET, block)}, "1.0")


class Writer:
    """The operations of a network, or of a part of it that a loop or a branch runs."""

    def __init__(self, features: Sequence[Feature], who: str) -> None:
        self.who = who
        self.inputs = [NamedType(feature.name, _input_type(feature, who)) for feature in features]
        self.operations: list[Operation] = []
        self.problems: list[tuple[str, str, str]] = []
        self.values: dict[str, Value] = {port.name: port.name for port in self.inputs}  # of the network, by name
        self.last = ""
        self.layer = "layer"  # the one that is being written
        self.written: dict[str, None] = {}  # names that layers of this part give
        self._taken = {port.name for port in self.inputs}
        self._depth = 0

    # Operations.

    def __call__(self, kind: str, *, outputs: int = 1, element: str | None = None, **arguments: Value) -> Any:
        """Add an operation and give the name of its result, or a tuple of them. Arguments that are None are left out."""
        inputs = {key: self._arguments(held) for key, held in arguments.items() if held is not None}
        elements = [element or "fp32"] * outputs
        names = [self._unique(f"{self.layer}_{kind}") for _ in elements]
        ports = [NamedType(name, TensorType(e, None)) for name, e in zip(names, elements, strict=True)]
        self.operations.append(Operation(kind, inputs, ports))
        return names[0] if outputs == 1 else tuple(names)

    def _arguments(self, held: Value) -> tuple[ProgramArgument, ...]:
        if isinstance(held, list) and any(_is_name(one) for one in held):
            return tuple(one if _is_name(one) else constant(one) for one in held)
        return (held if _is_name(held) else constant(np.asarray(held) if isinstance(held, bool) else held),)

    def whole(self, x: Value) -> Value:
        """Floats as whole numbers."""
        if not _is_name(x):
            return np.asarray(x).astype(np.int32)
        return self("cast", x=x, dtype=Text("int32"), element="int32")

    def truth(self, x: Value) -> Value:
        """Floats as a mask."""
        if not _is_name(x):
            return np.asarray(x) != 0
        return self("cast", x=x, dtype=Text("bool"), element="bool")

    def floats(self, x: Value) -> Value:
        """Whole numbers or a mask as floats."""
        return self("cast", x=x, dtype=Text("fp32"))

    def scalar(self, x: Value) -> Value:
        """A value of one number without axes."""
        if not _is_name(x):
            return np.asarray(x, np.float32).reshape(())
        return self("squeeze", x=x)

    def set_element(self, name: str, element: str) -> None:
        """State the type of a result of the latest operation, if results differ in it."""
        outputs = self.operations[-1].outputs
        kind = TensorType(element, None)
        self.operations[-1].outputs = [NamedType(name, kind) if port.name == name else port for port in outputs]

    def _unique(self, wish: str) -> str:
        plain = "_".join(re.findall(r"\w+", wish, re.ASCII)).strip("_") or "value"
        name, number = plain, 2
        while name in self._taken:
            name, number = f"{plain}_{number}", number + 1
        self._taken.add(name)
        return name

    # Layers.

    def value_of(self, name: str) -> Value:
        if name not in self.values:
            raise DamagedFile(f"{self.who}: no layer gives {name!r}. The file is damaged, or of another kind.")
        return self.values[name]

    def write(self, layers: Iterable[Message]) -> None:
        """Write layers in their order; those that are refused are kept as problems."""
        for message in layers:
            number = next((n for n in message.fields if n >= 100), 0)
            name, given, made = message.text(1), message.texts(2), message.texts(3)
            kind = LAYERS[number][0] if number in LAYERS else f"type {number}"
            self.layer = name or kind
            try:
                missing = [one for one in given if one not in self.values]
                if missing:
                    raise Refused("its inputs come from layers that were refused, or from nowhere.")
                held = message.message(number, f"{name} ({kind})")
                if number == _COPY:
                    results: Any = self.values[given[0]] if given else ()
                elif number == _BRANCH:
                    self._branch(held, self.values[given[0]])
                    continue
                elif number == _LOOP:
                    self._loop(held, given)
                    continue
                elif number not in LAYERS:
                    raise Refused("there is no such layer here, or none that is supported.")
                else:
                    results = LAYERS[number][1](self, held, [self.values[one] for one in given])
                listed = results if isinstance(results, tuple) else (results,)
                if len(listed) < len(made):
                    raise Refused(f"it gives {len(listed)} values here, but {len(made)} are named.")
            except (IndexError, ValueError, TypeError, ArithmeticError) as error:
                if isinstance(error, DamagedFile):
                    raise
                raise message.damage(f"{name} ({kind}): {error}") from error
            except Refused as reason:
                self.problems.append((name, kind, str(reason)))
                continue
            for output, value in zip(made, listed, strict=False):
                self._give(output, value)

    def _give(self, name: str, value: Value) -> None:
        self.values[name], self.written[name], self.last = value, None, name

    def named(self, value: Value, name: str) -> str:
        """The value under the name of an output."""
        if not _is_name(value):
            value = self._constant(value)
        if value == name:
            return name
        maker = next((one for one in self.operations if any(port.name == value for port in one.outputs)), None)
        read_inside = any(operation.blocks for operation in self.operations)
        if maker is None or name in self._taken or read_inside or any(port.name == value for port in self.inputs):
            given = name if name not in self._taken else self._unique(name)
            self._taken.add(given)
            self.operations.append(Operation("identity", {"x": (value,)}, [NamedType(given, TensorType("fp32", None))]))
            return given
        self._renamed(value, name)
        return name

    def _renamed(self, old: str, new: str) -> None:
        self._taken.add(new)
        for one in self.operations:
            one.outputs = [NamedType(new, port.type) if port.name == old else port for port in one.outputs]
            one.inputs = {
                key: tuple(new if _is_name(a) and a == old else a for a in held) for key, held in one.inputs.items()
            }
        self.values = {key: new if _is_name(held) and held == old else held for key, held in self.values.items()}

    def _constant(self, value: Any) -> str:
        held = constant(np.asarray(value))
        name = self._unique(f"{self.layer}_const")
        self.operations.append(Operation("const", {}, [NamedType(name, held.type)], attributes={"val": held}))
        return name

    def scale_images(self, messages: Sequence[Message], features: Sequence[Feature]) -> None:
        """Scale images and add to their channels, as the preprocessing of a network says."""
        kinds = {feature.name: feature.type for feature in features}
        for message in messages:
            name = message.text(1) or features[0].name
            kind = kinds.get(name)
            if message.has(11):
                self.problems.append((name, "preprocessing", "mean images are not supported."))
                continue
            if not isinstance(kind, ImageFeature):
                raise message.damage(f"the preprocessing is for {name!r}, which is not an image")
            scaler = message.message(10, "scaler")
            channels = {"RGB": (22, 21, 20), "BGR": (20, 21, 22)}.get(kind.color_space, (30,))
            scale, bias = (
                scaler.number(10, 1.0),
                np.array([scaler.number(n) for n in channels], np.float32).reshape(-1, 1, 1),
            )
            self.layer = name
            value = self.values[name]
            value = value if scale == 1 else self("mul", x=value, y=np.float32(scale))
            self.values[name] = self("add", x=value, y=bias) if bias.any() else value

    # Control flow.

    def _inside(self) -> Writer:
        if self._depth >= _DEEPEST:
            raise Refused("loops and branches are nested too deeply.")
        inner = Writer([], self.who)
        inner.values, inner._taken = dict(self.values), self._taken
        inner._depth, inner.problems = self._depth + 1, self.problems
        return inner

    def _branch(self, message: Message, condition: Value) -> None:
        parts = []
        for number in (1, 2):
            part = self._inside()
            part.write(message.message(number).messages(1, "a layer"))
            parts.append(part)
        # Values that only one way gives, and nothing before it, are its own.
        given = [name for part in parts for name in part.written]
        shared = [name for name in dict.fromkeys(given) if all(name in part.values for part in parts)]
        if not shared:
            return
        blocks = [part.block([], shared) for part in parts]
        self._control("cond", {"pred": (self.truth_as_name(condition),)}, blocks, shared)

    def truth_as_name(self, x: Value) -> str:
        y = self.truth(x)
        return y if _is_name(y) else self._constant(np.asarray(y))

    def block(self, inputs: list[NamedType], names: Sequence[str]) -> Block:
        """The operations as a block that gives values of the network."""
        outputs = [one if _is_name(one) else self._constant(one) for one in (self.values[name] for name in names)]
        return Block(inputs, self.operations, outputs)

    def _loop(self, message: Message, given: Sequence[str]) -> None:
        condition, body = message.message(3).messages(1, "a layer"), message.message(4).messages(1, "a layer")
        variable, most = message.text(2), message.integer(1) or _MOST_TURNS
        if given:  # the number of turns
            raise Refused("loops whose number of turns is computed are not supported.")
        changed = _written([*condition, *body])
        kept = [name for name in changed if name in self.values] + ([variable] if variable in self.values else [])
        kept = list(dict.fromkeys(kept))
        counter = "turns of " + self.layer
        start = [one if _is_name(one) else self._constant(one) for one in (self.values[name] for name in kept)]
        start.append(self._constant(np.float32(0)))
        blocks = []
        for layers in (condition, body):
            part = self._inside()
            ports = [
                NamedType(part._unique(f"{self.layer}_{name}"), TensorType("fp32", None)) for name in [*kept, counter]
            ]
            part.values |= {name: port.name for name, port in zip([*kept, counter], ports, strict=True)}
            part.layer = self.layer
            # What the condition computes is computed again by the body, which may read it.
            part.write(condition)
            if layers is body:
                part.write(body)
                part._give(counter, part("add", x=part.values[counter], y=np.float32(1)))
                blocks.append(part.block(ports, [*kept, counter]))
                continue
            going = part("less", x=part.values[counter], y=np.float32(most), element="bool")
            if variable:
                going = part("logical_and", x=going, y=part.truth(part.value_of(variable)), element="bool")
            blocks.append(Block(ports, part.operations, [going]))
        self._control("while_loop", {"loop_vars": tuple(start)}, blocks, [*kept, counter])

    def _control(self, kind: str, inputs: dict[str, Any], blocks: list[Block], names: Sequence[str]) -> None:
        ports = [NamedType(self._unique(f"{self.layer}_{name}"), TensorType("fp32", None)) for name in names]
        self.operations.append(Operation(kind, inputs, ports, blocks))
        for name, port in zip(names, ports, strict=True):
            self._give(name, port.name)

    # Classes.

    def classified(self, scores: Value, classes: Sequence[str | int], names: Sequence[str]) -> list[str]:
        """Add the choice of a class: a label and probabilities by class."""
        if not classes:
            raise DamagedFile(f"{self.who}: the classifier has no classes. The file is damaged, or of another kind.")
        entry = TensorType("string" if isinstance(classes[0], str) else "int64", ())
        held: Any = [Constant(entry, one if isinstance(one, str) else np.asarray(one, np.int64)) for one in classes]
        listed = Constant(ListType(entry, len(held)), tuple(held))
        types: list[ValueType] = [entry, DictionaryType(entry, TensorType("fp64", ()))]
        ports = [NamedType(name, kind) for name, kind in zip(names, types, strict=True)]
        for name in names:
            if name in self._taken:
                self._renamed(name, self._unique(f"{name}_value"))
                scores = self.values.get(scores, scores) if scores == name else scores
        inputs: dict[str, Any] = {"probabilities": (scores,), "classes": (listed,)}
        self.operations.append(Operation("classify", inputs, ports))
        return list(names)


class Text(str):
    """A setting, not the name of a value."""


def _is_name(x: Any) -> bool:
    return isinstance(x, str) and not isinstance(x, Text)


def _written(layers: Iterable[Message]) -> list[str]:
    """The names that layers give, those of the parts of branches and loops included."""
    names: dict[str, None] = {}
    for one in layers:
        names.update(dict.fromkeys(one.texts(3)))
        for number, parts in ((_BRANCH, (1, 2)), (_LOOP, (3, 4))):
            if one.has(number):
                for part in parts:
                    names.update(dict.fromkeys(_written(one.message(number).message(part).messages(1))))
    return list(names)


def _input_type(feature: Feature, who: str) -> TensorType:
    kind = feature.type
    if isinstance(kind, ImageFeature):
        free = bool(kind.enumerated or kind.width_range)
        channels = 1 if kind.color_space.startswith("grayscale") else 3
        return TensorType("fp32", (1, channels, *((None, None) if free else (kind.height, kind.width))))
    if not isinstance(kind, ArrayFeature):
        raise DamagedFile(f"{who}: the input {feature.name!r} is neither an image nor an array.")
    shapes = [kind.shape, *kind.enumerated]
    if len({len(shape) for shape in shapes}) > 1:
        return TensorType("fp32", None)
    sizes: list[int | None] = [
        n if len(set(all_n)) == 1 else None for n, *all_n in zip(kind.shape, *shapes, strict=True)
    ]
    if kind.ranges and len(kind.ranges) == len(sizes):
        sizes = [low if low == high else None for low, high in kind.ranges]
    memory_limit.check(4 * int(np.prod([n or 1 for n in sizes], dtype=object)), f"{who}: an input", DamagedFile)
    return TensorType("fp32", tuple(sizes))

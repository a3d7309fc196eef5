"""Neural networks in ``.mlmodel`` files of Core ML as networks that can be trained.

These files are protocol buffers; no other package is needed to read them. Files since 2019 may have layers for arrays of any
rank, which become operations of an ML program; those since 2021 may hold an ML program itself.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from ....files import memory_limit
from ....files.safetensors import DamagedFile
from ....files.untrusted import open_regular
from ....nn.containers import Sequential
from ....nn.files.model_file import ModelCard
from ....nn.module import Module
from ...protobuf import Message
from ..description import read_description
from ..models import Model
from ..network import from_layers
from .branched_network import CoreMLNetwork, Step
from .layers import CONVERT, Shape
from .program import program_of, takes_any_rank
from .refusal import Refused, Unsupported

_NETWORKS = (500, 403, 303)  # network, classifier, regressor
_KINDS = {
    100: "convolution", 120: "pooling", 130: "activation", 140: "innerProduct", 150: "embedding", 160: "batchnorm",
    165: "mvn", 170: "l2normalize", 175: "softmax", 180: "lrn", 190: "crop", 200: "padding", 210: "upsample",
    211: "resizeBilinear", 212: "cropResize", 220: "unary", 230: "add", 231: "multiply", 240: "average", 245: "scale",
    250: "bias", 260: "max", 261: "min", 270: "dot", 280: "reduce", 290: "loadConstant", 300: "reshape", 301: "flatten",
    310: "permute", 320: "concat", 330: "split", 340: "sequenceRepeat", 345: "reorganizeData", 350: "slice",
    400: "simpleRecurrent", 410: "gru", 420: "uniDirectionalLSTM", 430: "biDirectionalLSTM", 500: "custom",
}  # fmt: skip


def from_mlmodel(path: Any) -> Module:
    """A network with the layers and weights of a neural network in an ``.mlmodel`` file of Core ML.

    It is a ``Sequential`` if each layer follows the one before, and can be trained, saved and exported like any other. Files
    of iOS 13 and newer, whose layers take arrays of any rank, become the network that :func:`openbnns.nn.from_coreml` would
    give for the same ML program; it takes any number of samples where its layers allow that. If
    the file is a classifier, the network gives scores, without the softmax at the end, and its model card has the classes.
    Layers that cannot be converted are listed with their names and types, all at once.

    >>> from openbnns import nn
    >>> nn.from_mlmodel("missing.mlmodel")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.mlmodel'
    """
    with open_regular(path, DamagedFile) as (file, _):
        data = file.read()
    message = Message(memoryview(data), str(path))
    if takes_any_rank(message):
        description = read_description(message.message(2, "description"))
        program = program_of(message, description, str(path))
        return from_layers(Model(program, description, message.integer(1)), path)
    return network_of(message, path).module


class NeuralNetwork(NamedTuple):
    """A network, with the names that its file has for inputs and outputs, and its classes if it is a classifier."""

    module: Module
    inputs: list[str]
    outputs: list[str]
    classes: list[Any]


def network_of(model: Message, path: Any, *, softmax: bool = False) -> NeuralNetwork:
    """The network of a model's message; with ``softmax`` a classifier gives probabilities, if its file does."""
    kind = next((number for number in _NETWORKS if model.has(number)), None)
    if kind is None:
        other = " It is an ML program, which has no layers." if model.has(502) else ""
        raise DamagedFile(f"{path}: holds no neural network of Core ML.{other}")
    try:
        reading = _Reading(path, model, model.message(kind, "network"), classifier=kind == 403)
        module = reading.network(softmax)
        return NeuralNetwork(module, [name for name, _ in reading.inputs], reading.outputs, reading.classes)
    except (OverflowError, MemoryError) as error:
        raise DamagedFile(f"{path}: its sizes are impossible ({error}).") from None


class _Reading:
    def __init__(self, path: Any, model: Message, network: Message, *, classifier: bool) -> None:
        self.path, self.source, self.classifier = path, network, classifier
        self.inputs = _input_shapes(model.message(2, "description"))
        self.shapes: dict[str, Shape] = dict(self.inputs)
        self.steps: list[Step] = []
        self.problems: list[tuple[str, str, str]] = []
        self._taken: set[str] = set()

    def network(self, softmax: bool) -> Module:
        self._prepare()
        layers = self.source.messages(1, "a layer")
        labels = list(map(str, self.classes))
        for i, layer in enumerate(layers):
            last = labels and not softmax and i == len(layers) - 1 and layer.has(175)
            if not last:  # the softmax of a classifier
                self._read(layer)
        if self.problems:
            raise Unsupported(self.path, self.problems)
        if not self.steps:
            raise DamagedFile(f"{self.path}: the network has no layers.")
        net = self._assembled()
        net.build(*(shape for _, shape in self.inputs))
        for step in self.steps:
            if step.weights:
                start = step.path if isinstance(net, Sequential) else f"layers.{step.path}"
                net.load_state_dict({f"{start}.{n}": array for n, array in step.weights.items()}, strict=False)
        if labels:
            net._card = ModelCard(task="classification", classes=tuple(labels))
        return net.eval()

    @property
    def classes(self) -> list[Any]:
        """The classes of a classifier: texts, or whole numbers."""
        if not self.classifier:
            return []
        return self.source.message(100, "labels").texts(1) or self.source.message(101, "labels").signed_integers(1)

    def _assembled(self) -> Module:
        names = [name for name, _ in self.inputs]
        previous = names[0] if len(names) == 1 else ""
        chain = True
        for step in self.steps:
            chain = chain and step.inputs == [previous] and step.module is not None
            previous = step.output
        if chain:
            return Sequential(OrderedDict((step.path, step.module) for step in self.steps if step.module is not None))
        return CoreMLNetwork(self.steps, names, self.outputs)

    @property
    def outputs(self) -> list[str]:
        """Values that no layer takes."""
        used = {name for step in self.steps for name in step.inputs}
        return [step.output for step in self.steps if step.output not in used]

    def _prepare(self) -> None:
        """Scaling of images, which comes first."""
        for message in self.source.messages(2, "preprocessing"):
            name = message.text(1) or self.inputs[0][0]
            if message.has(11):
                self.problems.append((name, "preprocessing", "mean images are not supported."))
                continue
            scaler = message.message(10, "scaler")
            channels = self.shapes.get(name, (1,))[0]
            scale = np.full(1, scaler.number(10, 1.0), np.float32)
            biases = [22, 21, 20] if channels == 3 else [30]
            bias = np.array([scaler.number(n) for n in biases], np.float32).reshape(-1, 1, 1)
            # A value takes the place of the input from here on.
            step = Step(name, self._path("preprocessing"), [name], name)
            step.function = lambda x, s=scale, b=bias: x * s + b
            self.steps.append(step)

    def _path(self, wish: str) -> str:
        plain = "_".join(re.findall(r"\w+", wish, flags=re.ASCII)).strip("_") or "layer"
        path, number = plain, 2
        while path in self._taken or hasattr(Module, path):
            path, number = f"{plain}_{number}", number + 1
        self._taken.add(path)
        return path

    def _read(self, layer: Message) -> None:
        name = layer.text(1) or f"layer {len(self.steps)}"
        number = next((n for n in layer.fields if n >= 100), 0)
        kind = _KINDS.get(number, f"type {number}")
        inputs, outputs = layer.texts(2), layer.texts(3)
        try:
            convert = CONVERT.get(kind)
            if convert is None:
                raise Refused("there is no such layer here, or it is not supported.")
            if not inputs or len(outputs) != 1 or any(name not in self.shapes for name in inputs):
                raise Refused("its inputs come from layers that were refused, or from nowhere.")
            shapes = [self.shapes[name] for name in inputs]
            message = layer.message(number, f"{name} ({kind})")
            step = Step(name, self._path(name), inputs, outputs[0])
            shape = convert(step, message, shapes)
            if min(shape) < 1:
                raise message.damage(f"gives {shape}, which no sample can be")
            memory_limit.check(4 * math.prod(shape), f"{message.who}: its result {shape} for one sample", DamagedFile)
        except Refused as reason:
            self.problems.append((name, kind, str(reason)))
            return
        self.shapes[step.output] = shape
        self.steps.append(step)


def _input_shapes(description: Message) -> list[tuple[str, Shape]]:
    shapes = []
    for message in description.messages(1, "an input"):
        kind = message.message(3, "type")
        if kind.has(4):
            image = kind.message(4, "image")
            shape: Shape = (1 if image.integer(3) == 10 else 3, image.integer(2), image.integer(1))
        elif kind.has(5):
            shape = tuple(kind.message(5, "array").integers(1))
        else:
            raise message.damage("an input is neither an image nor an array")
        if not shape or min(shape) < 1 or len(shape) not in (1, 3):
            raise message.damage(f"an input has shape {shape}, but (channels,) or (channels, height, width) is needed")
        memory_limit.check(4 * math.prod(shape), f"{message.who}: an input of shape {shape}", DamagedFile)
        shapes.append((message.text(1), shape))
    if not shapes:
        raise description.damage("there are no inputs")
    return shapes

"""Networks as packages with ML programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ....graph.graph import Graph
from ....graph.sizes import Guard, Size, is_same_shape, number_of
from ....nn.data.preprocessing.arrays import ArrayPreparation
from ....nn.data.preprocessing.images import ImagePreparation
from ....nn.exported import Package
from ....nn.files.model_file import ModelCard
from ....nn.module import Module
from ....nn.names import input_names, step_names
from ....nn.recording import input_shapes, latest_input_shapes, separate_graph
from ...converted.recorded import Choice, Recorded
from ...converted.tensors import Misfit
from ..description import ArrayFeature, Description, Feature, Range, description_of
from ..errors import CoreMLError
from ..models import make_model, write_package
from .program_builder import ProgramBuilder, Refused, Value, Var

_MOST = 1024
"""The largest number of samples that a program with a flexible batch says it takes; other sizes go up to 16 times their own."""
_ELEMENTS = {"float32": "fp32", "float16": "fp16"}


class NotInCoreML(ValueError):
    """An error for a network with layers that cannot be part of an ML program. ``layers`` lists each with the reason."""

    def __init__(self, refused: Sequence[tuple[str, str]]) -> None:
        self.layers = list(refused)
        listed = "".join(f"\n  {name}: {reason}" for name, reason in self.layers)
        super().__init__(f"to_coreml: this network cannot be written as an ML program:{listed}")


def to_coreml(
    network: Module, path: Any, *, precision: str, batch_size: int | None, classes: Sequence[str] | None
) -> Package:
    """Write an ML program; see :meth:`Module.to_coreml`."""
    to = Path(path)
    if to.suffix != ".mlpackage":
        raise ValueError(f"to_coreml: the name is {to.name!r}. An ML program is a package: end it in .mlpackage.")
    if precision not in _ELEMENTS:
        raise ValueError(f"to_coreml: precision is {precision!r}. Use one of {', '.join(_ELEMENTS)}.")
    if not network.built:
        raise RuntimeError("to_coreml: the network is not built, so its sizes are not known. Call build(...) first.")
    card = network.model_card or ModelCard()
    labels = list(classes if classes is not None else card.classes if card.task == "classification" else ())
    choice = Choice(labels, "classLabel", "classLabel_probs") if labels else None
    read = network._choice if isinstance(network, Recorded) else None
    if choice is not None and read is not None:  # a classifier keeps its names, and numbers stay numbers
        same = classes is None and labels == list(map(str, read.classes))
        choice = Choice(read.classes if same else labels, read.label, read.probabilities)
    samples = 1 if labels and batch_size is None else batch_size  # a classifier has one answer
    # A size that is not free has the number of the latest run.
    shapes = latest_input_shapes(network) if samples is None else input_shapes(network, samples)
    graph, _ = separate_graph(network, shapes, training=False)
    if labels and (len(graph.outputs) != 1 or not is_same_shape(graph.output.shape[1:], (len(labels),))):
        raise ValueError(
            f"to_coreml: there are {len(labels)} classes, but the network gives {graph.output.shape[1:]}. Pass one for each "
            "output."
        )
    return _Writing(network, graph, card, _ELEMENTS[precision], samples is None, choice).write(to)


class _Writing:
    def __init__(
        self, network: Module, graph: Graph, card: ModelCard, element: str, flexible: bool, choice: Choice | None
    ) -> None:
        self.network, self.graph, self.card, self.choice = network, graph, card, choice
        self.sizes: Mapping[str, str | int] = graph.sizes.numbers
        self.limits: dict[str, Range] = {}
        if flexible:
            free = graph.sizes.without_guards()
            self.limits = _limits(graph.sizes.guards, free)
            known = {name: low for name, (low, high) in self.limits.items() if low == high}
            self.sizes = {name: known.get(str(n), n) for name, n in free.items()}
        self.flexible = {str(n): graph.sizes.numbers[name] for name, n in self.sizes.items() if isinstance(n, str)}
        names = {id(parameter): name for name, parameter in network.named_parameters()}
        self.builder = ProgramBuilder(self.sizes, self.flexible, element, names)
        if choice is not None:
            self.builder.reserve(choice.label, choice.probabilities)

    def write(self, to: Path) -> Package:
        b = self.builder
        inputs = [
            b.input(name, value) for name, value in zip(input_names(self.network), self.graph.inputs, strict=True)
        ]
        outputs, rows = self._body(inputs)
        program = b.program(outputs)
        to.parent.mkdir(parents=True, exist_ok=True)
        write_package(make_model(program, self._described(description_of(program, str(to)))), to)
        return Package(to, rows)

    def _body(self, inputs: list[Var]) -> tuple[list[str], list[tuple[str, str]]]:
        b = self.builder
        rows: list[tuple[str, str]] = []
        problems: dict[tuple[str, str], None] = {}
        for value, var in zip(self.graph.inputs, inputs, strict=True):
            b.name_next("preparation")
            half = b.element != "fp32" and value.dtype == np.float32
            prepared = self._prepared(b.floats(var) if half else var)
            b.begin(value, var, prepared)
            if prepared is not var and b.made != ["cast"]:
                rows.append(("preparation", ", ".join(b.made)))
        operations = self.graph.operations
        for operation, place in zip(operations, step_names(self.network, operations), strict=True):
            name = f"{place.path}: {place.kind}" if place.path else place.kind
            b.name_next(place.path.split(", ")[0] or place.kind)
            try:
                b.write(operation)
                rows.append((name, ", ".join(b.made) or "nothing"))
            except (Refused, Misfit, CoreMLError) as reason:
                problems[name, f"{str(reason).rstrip('.')}."] = None
                for value in operation.outputs:  # so that what follows is looked at, too
                    kind = np.float32 if value.dtype == np.float32 else np.int32
                    b.set(value, np.zeros([number_of(n) for n in value.shape], kind))
        if problems:
            raise NotInCoreML(list(problems))
        b.name_next("result")
        if self.choice is not None:
            probabilities = b("softmax", x=b.get(self.graph.output), axis=-1)
            if b.element != "fp32":
                probabilities = b("cast", x=probabilities, dtype="fp32")
            return b.classify(probabilities, self.choice), rows
        count = len(self.graph.outputs)
        made = [f"output_{i}" for i in range(count)] if count > 1 else ["output"]
        names = getattr(self.network, "_results", None) or made
        return [
            self._result(b.get(v), i, name) for i, (v, name) in enumerate(zip(self.graph.outputs, names, strict=True))
        ], rows

    def _prepared(self, x: Value) -> Value:
        """A sample after the preparation that the model file describes, as far as samples are numbers."""
        preparation, b = self.card.preparation, self.builder
        if isinstance(preparation, ImagePreparation) or (
            isinstance(preparation, ArrayPreparation) and preparation.pixels
        ):
            return b("mul", x=x, y=np.float32(1 / 255))
        if isinstance(preparation, ArrayPreparation) and preparation.mean is not None and preparation.std is not None:
            centered = b("sub", x=x, y=preparation.mean.astype(np.float32))
            return b("real_div", x=centered, y=preparation.std.astype(np.float32))
        return x

    def _result(self, y: Value, index: int, name: str) -> str:
        b = self.builder
        if self.card.target_mean is not None and self.card.target_std is not None and index == 0:
            scaled = b("mul", x=y, y=np.array(self.card.target_std, np.float32))
            y = b("add", x=scaled, y=np.array(self.card.target_mean, np.float32))
        if b.element != "fp32" and isinstance(y, Var) and y.tensor.kind == "f":
            return str(b("cast", x=y, dtype="fp32", called=name).name)
        return str(b("identity", x=y, called=name).name)

    def _described(self, description: Description) -> Description:
        """The description of the program with the sizes that inputs may have, and what the model file says."""
        for i, (feature, value) in enumerate(zip(description.inputs, self.graph.inputs, strict=True)):
            limits = [self._range(n, axis) for axis, n in enumerate(value.shape)]
            if isinstance(feature.type, ArrayFeature) and any(low != high for _, (low, high) in limits):
                kind = ArrayFeature(tuple(n for n, _ in limits), feature.type.element, (), tuple(r for _, r in limits))
                description.inputs[i] = Feature(feature.name, kind)
        if self.choice is not None:
            label, probabilities = description.outputs
            description.predicted_feature, description.predicted_probabilities = label.name, probabilities.name
        card, about = self.card, description.metadata
        about.description = f"{type(self.network).__name__}, written by OpenBNNS"
        if card.preparation is not None:
            about.user_defined["openbnns.preparation"] = " ".join(card.preparation.sentences())
            if columns := getattr(card.preparation, "columns", ()):
                about.user_defined["openbnns.columns"] = ", ".join(columns)
        if card.task is not None:
            about.user_defined["openbnns.task"] = card.task
        return description

    def _range(self, size: Any, axis: int) -> tuple[int, Range]:
        """The default of a size of an input, and its limits."""
        known = self.builder.size(size)
        if isinstance(known, int):
            return known, (known, known)
        assert isinstance(size, Size)
        default = 1 if axis == 0 else number_of(size)
        low, high = self.limits.get(str(known), (1, None))
        high = max(_MOST, 16 * default) if high is None else high
        return min(max(default, low), high), (low, high)


def _limits(guards: Sequence[Guard], free: Mapping[str, str | int]) -> dict[str, Range]:
    """The least and the greatest number that each free size can have, as far as the guards of one size alone say it."""
    limits: dict[str, Range] = {}
    for guard in guards:
        difference = (guard.left - guard.right).replaced(free)
        factors = [factors for factors, _ in difference.terms if factors]
        if not guard.required or len(factors) != 1 or len(factors[0]) != 1 or not isinstance(factors[0][0], str):
            continue  # it is not about a multiple of one size
        if guard.relation == "==" and not guard.holds:
            continue  # one number that it cannot be leaves all others
        name = factors[0][0]
        offset = difference.value({name: 0})
        slope = difference.value({name: 1}) - offset
        low, high = limits.get(name, (1, None))
        least = -(offset // slope)  # where the difference is 0, upwards
        if guard.relation == "==" or slope > 0:
            low = max(low, least)
        if guard.relation == "==" or slope < 0:
            most = offset // -slope
            high = most if high is None else min(high, most)
        limits[name] = low, high
    return limits

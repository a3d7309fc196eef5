"""Stages of predictions: ML programs, neural networks of the old kind, suppression of boxes; a pipeline has several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from .._spelling import did_you_mean
from ..interop import coreml
from ..interop.coreml import (
    ArrayFeature,
    Feature,
    FunctionDescription,
    ImageFeature,
    ScalarFeature,
    StateFeature,
    mlmodel,
    suppression,
)  # fmt: skip
from ..interop.coreml.elements import Array
from ..interop.coreml.execution import MOST_SIGNATURES, Signature, signature_of
from . import images


class Stage(Protocol):
    """A model, or a part of a pipeline."""

    about: FunctionDescription

    @property
    def names(self) -> list[str]:
        """The names of its inputs."""

    def prepare(self) -> None:
        """Refuse a model that cannot run."""

    def new_state(self) -> coreml.State:
        """States as they are before the first prediction."""

    def predict(self, data: Mapping[str, Any], state: coreml.State | None) -> dict[str, Any]:
        """The outputs by name."""


def stages_of(model: coreml.Model, function: str | None, precision: coreml.Precision | None, who: str) -> list[Stage]:
    """The stages of a model, in their order."""
    if model.parts:
        parts = enumerate(model.parts)
        return [stage for i, part in parts for stage in stages_of(part, None, precision, f"{who}: part {i}")]
    if model.program is not None:
        return [ProgramStage(model, function, precision, who)]
    if model.kind.startswith("neuralNetwork"):
        assert model.message is not None
        if mlmodel.takes_any_rank(model.message):
            program = mlmodel.program_of(model.message, model.description, str(model.path))
            return [ProgramStage(replace(model, program=program), function, precision, who)]
        return [NetworkStage(model, who)]
    if model.kind == "nonMaximumSuppression":
        return [SuppressionStage(model, who)]
    raise coreml.CoreMLError(
        f"{who}: has the kind {model.kind}. ML programs, neural networks, nonMaximumSuppression and pipelines of these run."
    )


class ProgramStage:
    """A function of an ML program."""

    def __init__(self, model: coreml.Model, function: str | None, precision: coreml.Precision | None, who: str) -> None:
        program, description = model.program, model.description
        assert program is not None
        names = list(program.functions)
        chosen = function or description.default_function or ("main" if "main" in names else names[0])
        if chosen not in names:
            raise ValueError(
                f"{who}: there is no function {chosen!r}. It has {', '.join(map(repr, names))}.{did_you_mean(chosen, names)}"
            )
        self.function, self.precision = program.functions[chosen], precision
        self.about = description.of(chosen)
        self._who = who
        self._features = {feature.name: feature for feature in self.about.inputs}
        self._outputs = {feature.name: feature.type for feature in self.about.outputs}
        self._executable: coreml.Executable | None = None
        self._passed: set[Signature] = set()  # those of inputs that the description allows as they are

    @property
    def names(self) -> list[str]:
        return list(self._features)

    @property
    def executable(self) -> coreml.Executable:
        if self._executable is None:
            self._executable = coreml.Executable(self.function, self.precision)
        return self._executable

    def prepare(self) -> None:
        assert self.executable is not None

    def new_state(self) -> coreml.State:
        return self.executable.new_state()

    def predict(self, data: Mapping[str, Any], state: coreml.State | None) -> dict[str, Any]:
        executable = self.executable
        signature = signature_of(data)
        passed = signature in self._passed
        outputs = executable.repeated(signature, data, state) if passed else None
        if outputs is None:
            inputs = data if passed else self._checked(data, signature)
            if executable.states and state is None:
                raise ValueError(f"{self._who}: the model has states. Pass state=model.make_state().")
            outputs = executable.run(inputs, state)
        wide = self.precision == "float32"
        return {
            name: _output(name, value, self._outputs.get(name), self._who, wide=wide) for name, value in outputs.items()
        }

    def _checked(self, data: Mapping[str, Any], signature: Signature | None) -> Mapping[str, Any]:
        """Inputs as the program takes them, those with defaults included."""
        features = self._features  # a name that is not there is refused by the program, which says those that are
        inputs = {
            name: _input(features[name], given, self._who) if name in features else given
            for name, given in data.items()
        }
        for argument in self.executable.inputs:
            feature = features.get(argument.name)
            if argument.name not in inputs and feature is not None and feature.optional:
                inputs[argument.name] = _default(feature, self._who)
        # Whole numbers may come as floats, if these have nothing behind the point: those are looked at each time.
        if signature is not None and len(inputs) == len(data) and all(inputs[name] is x for name, x in data.items()):
            if len(self._passed) >= MOST_SIGNATURES:
                self._passed.clear()
            self._passed.add(signature)
        return inputs


class NetworkStage:
    """A neural network of the old kind, for one sample at a time."""

    def __init__(self, model: coreml.Model, who: str) -> None:
        self._model, self._who = model, who
        self.about: FunctionDescription = model.description
        self._features = {feature.name: feature for feature in self.about.inputs}
        self._network: mlmodel.NeuralNetwork | None = None

    @property
    def names(self) -> list[str]:
        return list(self._features)

    def prepare(self) -> None:
        if self._network is None:
            assert self._model.message is not None
            self._network = mlmodel.network_of(self._model.message, self._model.path, softmax=True)

    def new_state(self) -> coreml.State:
        return coreml.State([])

    def predict(self, data: Mapping[str, Any], state: coreml.State | None) -> dict[str, Any]:
        self.prepare()
        assert self._network is not None
        samples = []
        for name in self._network.inputs:
            if name not in data:
                takes = ", ".join(map(repr, self.names))
                raise ValueError(f"{self._who}: the input {name!r} is missing. It takes {takes}.")
            array = np.asarray(_input(self._features[name], data[name], self._who), np.float32)
            samples.append(array if isinstance(self._features[name].type, ImageFeature) else array[None])
        results = self._network.module(*samples)
        listed = results if isinstance(results, tuple) else (results,)
        outputs: dict[str, Any] = {name: y[0] for name, y in zip(self._network.outputs, listed, strict=True)}
        label, probabilities = self.about.predicted_feature, self.about.predicted_probabilities
        if label:
            classes = self._network.classes
            scores = outputs[self._network.outputs[0]].reshape(-1)
            outputs[label] = classes[int(np.argmax(scores))]
            outputs[probabilities] = dict(zip(classes, scores.tolist(), strict=True))
        kinds = {feature.name: feature.type for feature in self.about.outputs}
        return {name: _output(name, outputs[name], kind, self._who) for name, kind in kinds.items()}


class SuppressionStage:
    """Suppression of boxes that overlap with better ones, as the end of a detector's pipeline."""

    def __init__(self, model: coreml.Model, who: str) -> None:
        assert model.message is not None
        self._who, self._options = who, suppression.read(model.message)
        self.about: FunctionDescription = model.description

    @property
    def names(self) -> list[str]:
        return [name for name in self._options.inputs if name]

    def prepare(self) -> None:
        """Nothing can keep it from running."""

    def new_state(self) -> coreml.State:
        return coreml.State([])

    def predict(self, data: Mapping[str, Any], state: coreml.State | None) -> dict[str, Any]:
        for name in self._options.inputs[:2]:
            if name not in data:
                raise ValueError(f"{self._who}: no stage before the suppression of boxes gives {name!r}.")
        return suppression.suppressed(self._options, data)


def _input(feature: Feature, given: Any, who: str) -> Any:
    """An input as a program takes it."""
    who, kind = f"{who}: the input {feature.name!r}", feature.type
    if images.is_image(given):
        if not isinstance(kind, ImageFeature):
            raise TypeError(f"{who} is an image, but the model takes {_shown(kind)}.")
        return images.array_of(given, kind, who)
    if isinstance(kind, ImageFeature):
        raise TypeError(f"{who} is a {type(given).__name__}, but the model takes an image. Pass one of Pillow.")
    array = np.asarray(given)
    if isinstance(kind, ArrayFeature):
        array = _fitting_shape(array, kind, who)
        if "int" in kind.element and array.dtype.kind == "f" and (array == np.rint(array)).all():
            array = array.astype(kind.element)
    return array


def _output(name: str, value: Any, kind: Any, who: str, *, wide: bool = False) -> Any:
    """A result as coremltools gives it; with ``wide``, float16 comes as float32."""
    if isinstance(kind, ArrayFeature) and type(value) is np.ndarray and value.dtype == kind.element and value.ndim:
        return value
    if isinstance(kind, ImageFeature):
        return images.image_of(value, kind, f"{who}: the output {name!r}")
    if not isinstance(value, np.ndarray):
        return value
    if isinstance(kind, ScalarFeature):
        return value.item()
    if isinstance(kind, ArrayFeature) and not (wide and kind.element == "float16"):
        with np.errstate(over="ignore"):
            value = value.astype(kind.element, copy=False)
    return value.reshape(value.shape or (1,))  # Core ML has no arrays without axes


def _shown(kind: Any) -> str:
    return f"an array of {kind.element} of shape {kind.shape}" if isinstance(kind, ArrayFeature) else str(kind)


def _fitting_shape(array: Array, kind: ArrayFeature, who: str) -> Array:
    """The array, if the description allows its shape."""
    if kind.enumerated and array.shape not in (kind.shape, *kind.enumerated):
        shapes = ", ".join(map(str, kind.enumerated))
        raise ValueError(f"{who} has shape {array.shape}, but the model takes one of {shapes}.")
    if kind.ranges and (
        len(kind.ranges) != array.ndim
        or any(
            n < low or (high is not None and n > high) for n, (low, high) in zip(array.shape, kind.ranges, strict=True)
        )
    ):
        shown = ", ".join(
            str(low) if low == high else f"{low} to {'any' if high is None else high}" for low, high in kind.ranges
        )
        raise ValueError(f"{who} has shape {array.shape}, but the model takes ({shown}).")
    return array


def _default(feature: Feature, who: str) -> Array:
    kind = feature.type.array if isinstance(feature.type, StateFeature) else feature.type
    if not isinstance(kind, ArrayFeature):
        raise ValueError(f"{who}: the input {feature.name!r} is missing, and has no default.")
    return np.full(kind.shape, 0 if kind.default is None else kind.default, kind.element)

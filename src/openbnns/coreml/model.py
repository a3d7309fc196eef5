"""Models that predict, with the names of coremltools."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._spelling import did_you_mean
from ..interop import coreml
from ..interop.coreml import ArrayFeature, Feature, ImageFeature, ScalarFeature, StateFeature
from ..interop.coreml.elements import Array
from . import images
from .compute_units import ComputeUnit


class MLState:
    """The numbers that a stateful model keeps from one prediction to the next; :meth:`MLModel.make_state` makes it."""

    def __init__(self, held: coreml.State) -> None:
        self._held = held

    def read_state(self, name: str) -> Array:
        """A copy of a state."""
        return np.array(self._array(name, "read_state"))

    def write_state(self, name: str, value: Any) -> None:
        """Replace a state by an array of its shape."""
        target, given = self._array(name, "write_state"), np.asarray(value)
        if given.shape != target.shape:
            raise ValueError(f"write_state: {name!r} has shape {target.shape}, but {given.shape} is given.")
        target[...] = given

    def _array(self, name: str, who: str) -> Array:
        arrays = self._held.arrays
        if name not in arrays:
            raise ValueError(f"{who}: there is no state {name!r}. There are {', '.join(map(repr, arrays))}.")
        return arrays[name]


class Descriptions(Mapping[str, str]):
    """The descriptions of inputs or outputs of a model, by name."""

    def __init__(self, features: list[Feature]) -> None:
        self._features = {feature.name: feature for feature in features}

    def __getitem__(self, name: str) -> str:
        return self._features[name].description

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __repr__(self) -> str:
        return f"Features({','.join(self._features)})"


class MLModel:
    """A Core ML model that predicts: an ``.mlpackage``, ``.mlmodelc``, ``model.mil`` or ``.mlmodel`` that holds ML programs.

    ``function_name`` chooses among several functions. Numbers are computed in float32, and outputs are rounded to the types
    of the model; ``precision="float16"`` rounds after every operation as a device with float16 units does, and ``"float32"``
    nowhere. ``compute_units`` is taken for the sake of programs that pass it: everything is computed on the CPU.

    >>> import numpy as np, tempfile
    >>> from openbnns import nn
    >>> from openbnns.coreml import MLModel
    >>> from openbnns.interop import coreml
    >>> text = '''program(1.3) { func main<ios17>(tensor<fp32, [2]> x) {
    ...     tensor<fp32, [2]> y = square(x = x); } -> (y); }'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = coreml.write_package(coreml.make_model(coreml.parse(text)), f"{folder}/square.mlpackage")
    ...     MLModel(path).predict({"x": np.float32([3, 4])})
    {'y': array([ 9., 16.], dtype=float32)}
    """

    def __init__(
        self, model: str | os.PathLike[str], *, function_name: str | None = None,
        compute_units: ComputeUnit = ComputeUnit.ALL, precision: coreml.Precision | None = None,
        skip_model_load: bool = False, optimization_hints: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.compute_unit, self.function_name = compute_units, function_name
        self._model = coreml.read(model)
        self._who = f"MLModel({str(model)!r})"
        self._stages = [_Stage(part, name, precision, self._who) for part, name in self._parts()]
        self._description = self._stages[0].about if len(self._stages) == 1 else self._model.description
        if not skip_model_load:
            for stage in self._stages:
                stage.prepare()

    def _parts(self) -> list[tuple[coreml.Model, str | None]]:
        model = self._model
        if model.program is not None:
            return [(model, self.function_name)]
        if self.function_name is not None:
            raise ValueError(
                f"{self._who}: is of the kind {model.kind}, which has no functions. Leave function_name out."
            )
        strange = [part.kind for part in model.parts if part.program is None]
        if model.parts and not strange:
            return [(part, None) for part in model.parts]
        if strange:
            raise coreml.CoreMLError(
                f"{self._who}: is a pipeline with parts of the kinds {', '.join(sorted(set(strange)))}. Only ML programs run."
            )
        cure = " Use nn.from_mlmodel(path)." if model.kind.startswith("neuralNetwork") else ""
        raise coreml.CoreMLError(f"{self._who}: is of the kind {model.kind}. Only ML programs run here.{cure}")

    def __repr__(self) -> str:
        about = self._description
        ports = "\n".join(
            f"{title} {{\n{''.join(f'  {feature.name}: {feature.type}' + chr(10) for feature in features)}}}"
            for title, features in (("input", about.inputs), ("output", about.outputs))
        )
        return f"MLModel({self._model.path})\n{ports}"

    # What the model says about itself.

    @property
    def input_description(self) -> Descriptions:
        return Descriptions(self._description.inputs)

    @property
    def output_description(self) -> Descriptions:
        return Descriptions(self._description.outputs)

    @property
    def short_description(self) -> str:
        return self._model.description.metadata.description

    @property
    def author(self) -> str:
        return self._model.description.metadata.author

    @property
    def license(self) -> str:
        return self._model.description.metadata.license

    @property
    def version(self) -> str:
        return self._model.description.metadata.version

    @property
    def user_defined_metadata(self) -> dict[str, str]:
        return self._model.description.metadata.user_defined

    # Predictions.

    def make_state(self) -> MLState:
        """States as they are before the first prediction."""
        if len(self._stages) > 1:
            raise ValueError(f"{self._who}: is a pipeline, which has no states.")
        return MLState(self._stages[0].executable.new_state())

    def predict(self, data: Any, state: MLState | None = None) -> Any:
        """The outputs by name, for inputs by name: arrays, lists or numbers, and images of Pillow.

        A list of dictionaries gives a list of predictions. A stateful model needs a ``state`` from :meth:`make_state`.
        """
        if isinstance(data, list) and all(isinstance(one, Mapping) for one in data):
            if state is not None:
                raise ValueError(
                    "MLModel.predict: a state is for one prediction at a time. Pass a dictionary, not a list."
                )
            return [self._predicted(one, None) for one in data]
        if not isinstance(data, Mapping):
            raise TypeError(
                f"MLModel.predict: data is a {type(data).__name__}. Pass a dictionary of inputs by name, or a list of such."
            )
        return self._predicted(data, state)

    def _predicted(self, data: Mapping[str, Any], state: MLState | None) -> dict[str, Any]:
        held = None if state is None else state._held
        if len(self._stages) == 1:
            return self._stages[0].predict(data, held)
        values = dict(data)
        for stage in self._stages:
            wanted = {name: values[name] for name in stage.names if name in values}
            values |= stage.predict(wanted, held)
        return {feature.name: values[feature.name] for feature in self._description.outputs}


class _Stage:
    """A model of one program: all of it, or a part of a pipeline."""

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

    @property
    def names(self) -> list[str]:
        return list(self._features)

    @property
    def executable(self) -> coreml.Executable:
        if self._executable is None:
            self._executable = coreml.Executable(self.function, self.precision)
        return self._executable

    def prepare(self) -> None:
        """Refuse a program that cannot run."""
        assert self.executable is not None

    def predict(self, data: Mapping[str, Any], state: coreml.State | None) -> dict[str, Any]:
        executable = self.executable
        inputs = {name: self._input(name, given) for name, given in data.items()}
        for argument in executable.inputs:
            feature = self._features.get(argument.name)
            if argument.name not in inputs and feature is not None and feature.optional:
                inputs[argument.name] = _default(feature, self._who)
        if executable.states and state is None:
            raise ValueError(f"{self._who}: the model has states. Pass state=model.make_state().")
        found = executable.run(inputs, state)
        return {name: self._output(name, value) for name, value in found.items()}

    def _input(self, name: str, given: Any) -> Any:
        feature = self._features.get(name)
        if feature is None:
            return given  # which the program refuses, with the names that it has
        who, kind = f"{self._who}: the input {name!r}", feature.type
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

    def _output(self, name: str, value: Any) -> Any:
        kind = self._outputs.get(name)
        if isinstance(kind, ImageFeature):
            return images.image_of(value, kind, f"{self._who}: the output {name!r}")
        if not isinstance(value, np.ndarray):
            return value
        if isinstance(kind, ScalarFeature):
            return value.item()
        if isinstance(kind, ArrayFeature) and not (self.precision == "float32" and kind.element == "float16"):
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

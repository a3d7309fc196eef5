"""Models that predict, with the names of coremltools."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._spelling import did_you_mean
from ..interop import coreml
from ..interop.coreml import Feature
from ..interop.coreml.elements import Array
from .compute_units import ComputeUnit
from .specification import Specification
from .stages import stages_of


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
    """A Core ML model that predicts: an ``.mlpackage``, ``.mlmodelc``, ``model.mil`` or ``.mlmodel``.

    Besides ML programs, neural networks of the old kind run, as far as :func:`openbnns.nn.from_mlmodel` reads them, and
    pipelines of these, with suppression of boxes that overlap. ``function_name`` chooses among several functions. Numbers are
    computed in float32, and outputs are rounded to the types of the model; ``precision="float16"`` rounds after every
    operation as a device with float16 units does, and ``"float32"`` nowhere. ``compute_units`` is taken for the sake of
    programs that pass it: everything is computed on the CPU.

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
        if function_name is not None and self._model.program is None:
            kind = self._model.kind
            raise ValueError(f"{self._who}: is of the kind {kind}, which has no functions. Leave function_name out.")
        self._stages = stages_of(self._model, function_name, precision, self._who)
        self._description = self._stages[0].about if len(self._stages) == 1 else self._model.description
        if not skip_model_load:
            for stage in self._stages:
                stage.prepare()

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

    def get_spec(self) -> Specification:
        """The description of the model, with the names that coremltools' message has for its fields."""
        return Specification.of(self._model)

    # Predictions.

    def make_state(self) -> MLState:
        """States as they are before the first prediction."""
        if len(self._stages) > 1:
            raise ValueError(f"{self._who}: is a pipeline, which has no states. Pass no state to predict.")
        return MLState(self._stages[0].new_state())

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
        for name in data:
            if not any(name in stage.names for stage in self._stages):
                names = list(self.input_description)
                raise ValueError(
                    f"{self._who}: there is no input {name!r}. It takes {', '.join(map(repr, names))}.{did_you_mean(name, names)}"
                )
        for stage in self._stages:
            values |= stage.predict({name: values[name] for name in stage.names if name in values}, held)
        return {feature.name: values[feature.name] for feature in self._description.outputs}


class CompiledMLModel(MLModel):
    """An ``.mlmodelc`` that predicts, with the arguments of coremltools' class.

    >>> from openbnns.coreml import CompiledMLModel
    >>> CompiledMLModel("model.mlpackage")
    Traceback (most recent call last):
        ...
    ValueError: CompiledMLModel: the name is 'model.mlpackage', but a compiled model ends in .mlmodelc. Use MLModel(path).
    """

    def __init__(
        self, path: str | os.PathLike[str], compute_units: ComputeUnit = ComputeUnit.ALL,
        function_name: str | None = None, optimization_hints: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        name = os.path.basename(os.fspath(path).rstrip("/"))
        if not name.endswith(".mlmodelc"):
            raise ValueError(
                f"CompiledMLModel: the name is {name!r}, but a compiled model ends in .mlmodelc. Use MLModel(path)."
            )
        super().__init__(path, function_name=function_name, compute_units=compute_units)

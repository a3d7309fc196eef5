"""The description of a model with the field names of Core ML's message, as programs for coremltools read it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..interop import coreml
from ..interop.coreml import ArrayFeature, DictionaryFeature, ImageFeature, ScalarFeature, StateFeature
from ..interop.coreml.description import ARRAY_TYPES, COLOR_SPACES

_NUMBERS = {name: number for number, name in (ARRAY_TYPES | COLOR_SPACES).items()}


@dataclass(frozen=True)
class MultiArrayType:
    """``multiArrayType``: the default shape, and the number of the element type."""

    shape: list[int]
    dataType: int


@dataclass(frozen=True)
class ImageType:
    """``imageType``: the size, and the number of the color space (10 grayscale, 20 RGB, 30 BGR)."""

    width: int
    height: int
    colorSpace: int


@dataclass(frozen=True)
class FeatureType:
    """The type of a feature: ``WhichOneof("Type")`` names the field that it has."""

    name: str
    value: Any
    isOptional: bool = False

    def WhichOneof(self, group: str) -> str:
        """The name of the field that is set."""
        if group != "Type":
            raise ValueError(f"FeatureType.WhichOneof: there is no group {group!r}. Use 'Type'.")
        return self.name

    def HasField(self, name: str) -> bool:
        """True if the type is of this kind."""
        return name == self.name

    def __getattr__(self, name: str) -> Any:
        if name == self.name:
            return self.value
        raise AttributeError(f"the feature has the type {self.name}, not {name}.")


@dataclass(frozen=True)
class FeatureDescription:
    """An input, output or state."""

    name: str
    shortDescription: str
    type: FeatureType


@dataclass(frozen=True)
class Metadata:
    """Text about a model."""

    shortDescription: str
    versionString: str
    author: str
    license: str
    userDefined: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelDescription:
    """The features of a model."""

    input: list[FeatureDescription]
    output: list[FeatureDescription]
    state: list[FeatureDescription]
    predictedFeatureName: str
    predictedProbabilitiesName: str
    metadata: Metadata


@dataclass(frozen=True)
class Specification:
    """The part of a model's message that describes it; ``WhichOneof("Type")`` names its kind."""

    specificationVersion: int
    description: ModelDescription
    kind: str

    @classmethod
    def of(cls, model: coreml.Model) -> Specification:
        """The specification of a model that was read."""
        about = model.description
        held = about.metadata
        metadata = Metadata(held.description, held.version, held.author, held.license, held.user_defined)
        inputs, outputs, states = (
            [_feature(one) for one in listed] for listed in (about.inputs, about.outputs, about.states)
        )
        described = ModelDescription(
            inputs, outputs, states, about.predicted_feature, about.predicted_probabilities, metadata
        )
        return cls(model.specification_version, described, model.kind)

    def WhichOneof(self, group: str) -> str:
        """The kind of the model, such as ``mlProgram``."""
        if group != "Type":
            raise ValueError(f"Specification.WhichOneof: there is no group {group!r}. Use 'Type'.")
        return self.kind


def _feature(feature: coreml.Feature) -> FeatureDescription:
    name, value = _typed(feature.type)
    return FeatureDescription(feature.name, feature.description, FeatureType(name, value, feature.optional))


def _typed(kind: Any) -> tuple[str, Any]:
    if isinstance(kind, ArrayFeature):
        return "multiArrayType", MultiArrayType(list(kind.shape), _NUMBERS[kind.element])
    if isinstance(kind, ImageFeature):
        return "imageType", ImageType(kind.width, kind.height, _NUMBERS[kind.color_space])
    if isinstance(kind, ScalarFeature):
        return f"{kind.kind}Type", kind
    if isinstance(kind, DictionaryFeature):
        return "dictionaryType", kind
    if isinstance(kind, StateFeature):
        return "stateType", MultiArrayType(list(kind.array.shape), _NUMBERS[kind.array.element])
    return "sequenceType", kind

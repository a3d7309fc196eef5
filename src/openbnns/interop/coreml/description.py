"""The description of a model: its features (inputs, outputs, states), functions and metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..protobuf import Field, Message, encode, varint
from .elements import ELEMENTS
from .errors import CoreMLError
from .program import Constant, DictionaryType, Function, ListType, Program, StateType, TensorType, TupleType, ValueType

ARRAY_TYPES = {65568: "float32", 65600: "float64", 131104: "int32", 131080: "int8", 65552: "float16"}
"""Element types of multi-arrays, with the names of NumPy."""
COLOR_SPACES = {10: "grayscale", 20: "RGB", 30: "BGR", 40: "grayscale float16"}
_ARRAY_NUMBERS = {name: number for number, name in ARRAY_TYPES.items()}
_COLOR_NUMBERS = {name: number for number, name in COLOR_SPACES.items()}
_MOST_AXES = 32

Range = tuple[int, "int | None"]
"""The least and the greatest size; None: no limit."""


@dataclass(frozen=True)
class ArrayFeature:
    """A multi-array. ``shape`` is the default; other shapes are ``enumerated`` or in ``ranges``, one for each axis."""

    shape: tuple[int, ...]
    element: str
    enumerated: tuple[tuple[int, ...], ...] = ()
    ranges: tuple[Range, ...] = ()
    default: float | None = None


@dataclass(frozen=True)
class ImageFeature:
    """An image. Other sizes than ``width`` and ``height`` are ``enumerated`` (width, height) or in ranges."""

    width: int
    height: int
    color_space: str
    enumerated: tuple[tuple[int, int], ...] = ()
    width_range: Range | None = None
    height_range: Range | None = None


@dataclass(frozen=True)
class ScalarFeature:
    """A single value: ``kind`` is "int64", "double" or "string"."""

    kind: str


@dataclass(frozen=True)
class DictionaryFeature:
    """Numbers by key, which are "int64" or "string"."""

    key: str


@dataclass(frozen=True)
class SequenceFeature:
    """A sequence of "int64" or "string"."""

    entry: str
    length: Range | None = None


@dataclass(frozen=True)
class StateFeature:
    """An array that stays from one prediction to the next."""

    array: ArrayFeature


FeatureType = ArrayFeature | ImageFeature | ScalarFeature | DictionaryFeature | SequenceFeature | StateFeature


@dataclass(frozen=True)
class Feature:
    """An input, output or state by name."""

    name: str
    type: FeatureType
    description: str = ""
    optional: bool = False


@dataclass
class FunctionDescription:
    """The features of a function. A classifier names the outputs that hold the label and the probabilities."""

    name: str = ""
    inputs: list[Feature] = field(default_factory=list)
    outputs: list[Feature] = field(default_factory=list)
    states: list[Feature] = field(default_factory=list)
    predicted_feature: str = ""
    predicted_probabilities: str = ""


@dataclass
class Metadata:
    """Text about a model."""

    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    user_defined: dict[str, str] = field(default_factory=dict)


@dataclass
class Description(FunctionDescription):
    """The description of a model: of its only function, or of ``functions`` if there are several (iOS 18)."""

    functions: list[FunctionDescription] = field(default_factory=list)
    default_function: str = ""
    metadata: Metadata = field(default_factory=Metadata)

    def of(self, function: str) -> FunctionDescription:
        """The description of a function."""
        return next((entry for entry in self.functions if entry.name == function), self)


# Reading.

# Fields of inputs, outputs and states, and of the predicted feature and probabilities.
_OF_MODEL = (1, 10, 13), (11, 12)
_OF_FUNCTION = (2, 3, 6), (4, 5)
_Numbers = tuple[tuple[int, int, int], tuple[int, int]]


def read_description(message: Message) -> Description:
    """The description of a model."""
    about = message.message(100)
    user = {entry.text(1): entry.text(2) for entry in about.messages(100)}
    description = Description(
        functions=[
            _features(FunctionDescription(entry.text(1)), entry, _OF_FUNCTION) for entry in message.messages(20)
        ],
        default_function=message.text(21),
        metadata=Metadata(about.text(1), about.text(2), about.text(3), about.text(4), user),
    )
    _features(description, message, _OF_MODEL)
    return description


def _features(description: FunctionDescription, message: Message, numbers: _Numbers) -> FunctionDescription:
    kinds = ("an input", description.inputs), ("an output", description.outputs), ("a state", description.states)
    for number, (what, into) in zip(numbers[0], kinds, strict=True):
        into += [_feature(entry) for entry in message.messages(number, what)]
        if len({feature.name for feature in into}) < len(into):
            raise message.damage(f"{what} has the name of another one")
    description.predicted_feature, description.predicted_probabilities = (message.text(number) for number in numbers[1])
    return description


def _feature(message: Message) -> Feature:
    name = message.text(1)
    if not name:
        raise message.damage("has no name")
    message.who = f"{message.who} {name!r}"
    kind = message.message(3)
    return Feature(name, _feature_type(kind), message.text(2), bool(kind.integer(1000)))


def _feature_type(kind: Message) -> FeatureType:
    for number, name in ((1, "int64"), (2, "double"), (3, "string")):
        if kind.has(number):
            return ScalarFeature(name)
    if kind.has(4):
        return _image(kind.message(4))
    if kind.has(5):
        return _array(kind.message(5))
    if kind.has(6):
        return DictionaryFeature("int64" if kind.message(6).has(1) else "string")
    if kind.has(7):
        sequence = kind.message(7)
        return SequenceFeature(
            "int64" if sequence.has(1) else "string", _range(sequence.message(101)) if sequence.has(101) else None
        )
    if kind.has(8):
        return StateFeature(_array(kind.message(8).message(1)))
    raise kind.damage("has no type that is known")


def _array(message: Message) -> ArrayFeature:
    element = ARRAY_TYPES.get(message.integer(2) or _ARRAY_NUMBERS["float32"])  # old models may leave it out
    if element is None:
        raise message.damage(f"is a multi-array of the unknown type {message.integer(2)}")
    default: float | None = None
    if message.has(41):
        default = float(message.signed(41))
    elif message.has(51):
        default = message.number(51)
    return ArrayFeature(
        _shape(message),
        element,
        tuple(_shape(entry) for entry in message.message(21).messages(1)),
        tuple(_range(entry) for entry in message.message(31).messages(1)),
        default,
    )


def _shape(message: Message) -> tuple[int, ...]:
    shape = tuple(message.signed_integers(1))
    if len(shape) > _MOST_AXES or any(not 0 <= n < 2**60 for n in shape):
        raise message.damage(f"is a multi-array of shape {shape[:_MOST_AXES]}, which none can have")
    return shape


def _range(message: Message) -> Range:
    low, high = message.integer(1), message.signed(2)
    if low >= 2**60 or (0 <= high < low):
        raise message.damage(f"has sizes from {low} to {high}")
    return low, None if high < 0 else high


def _image(message: Message) -> ImageFeature:
    space = COLOR_SPACES.get(message.integer(3))
    width, height = message.signed(1), message.signed(2)
    if space is None or not 0 <= width < 2**31 or not 0 <= height < 2**31:
        raise message.damage(f"is an image of {width} x {height} in the color space {message.integer(3)}")
    sizes = tuple((entry.integer(1), entry.integer(2)) for entry in message.message(21).messages(1))
    if not message.has(31):
        return ImageFeature(width, height, space, sizes)
    ranges = message.message(31)
    return ImageFeature(width, height, space, sizes, _range(ranges.message(1)), _range(ranges.message(2)))


# Writing.


def write_description(description: Description) -> bytes:
    """The message of a description."""
    about = description.metadata
    said = about.description, about.version, about.author, about.license
    texts: list[Field] = [(number, text) for number, text in enumerate(said, 1) if text]
    user: list[Field] = [(100, encode([(1, key), (2, text)])) for key, text in about.user_defined.items()]
    fields = [*_feature_fields(description, _OF_MODEL)]
    fields += [
        (20, encode([(1, entry.name), *_feature_fields(entry, _OF_FUNCTION)])) for entry in description.functions
    ]
    if description.default_function:
        fields.append((21, description.default_function))
    return encode([*fields, (100, encode([*texts, *user]))])


def _feature_fields(description: FunctionDescription, numbers: _Numbers) -> list[Field]:
    fields: list[Field] = []
    for number, features in zip(numbers[0], (description.inputs, description.outputs, description.states), strict=True):
        for feature in features:
            kind: list[Field] = [_feature_field(feature.type), *([(1000, True)] if feature.optional else [])]
            about: list[Field] = [(2, feature.description)] if feature.description else []
            fields.append((number, encode([(1, feature.name), *about, (3, encode(kind))])))
    predicted = zip(numbers[1], (description.predicted_feature, description.predicted_probabilities), strict=True)
    return [*fields, *((number, name) for number, name in predicted if name)]


def _feature_field(kind: FeatureType) -> Field:
    if isinstance(kind, ScalarFeature):
        return {"int64": 1, "double": 2, "string": 3}[kind.kind], b""
    if isinstance(kind, ImageFeature):
        fields: list[Field] = [(1, kind.width), (2, kind.height), (3, _COLOR_NUMBERS[kind.color_space])]
        if kind.enumerated:
            fields.append((21, encode((1, encode([(1, w), (2, h)])) for w, h in kind.enumerated)))
        if kind.width_range and kind.height_range:
            fields.append((31, encode([(1, _range_message(kind.width_range)), (2, _range_message(kind.height_range))])))
        return 4, encode(fields)
    if isinstance(kind, ArrayFeature):
        return 5, _array_message(kind)
    if isinstance(kind, DictionaryFeature):
        return 6, encode([(1 if kind.key == "int64" else 2, b"")])
    if isinstance(kind, SequenceFeature):
        length: list[Field] = [(101, _range_message(kind.length))] if kind.length else []
        return 7, encode([(1 if kind.entry == "int64" else 3, b""), *length])
    return 8, encode([(1, _array_message(kind.array))])


def _shape_bytes(shape: Iterable[int]) -> bytes:
    return b"".join(varint(n) for n in shape)


def _array_message(kind: ArrayFeature) -> bytes:
    if kind.element not in _ARRAY_NUMBERS:
        raise CoreMLError(
            f"no package can have multi-arrays of {kind.element}. They can be {', '.join(_ARRAY_NUMBERS)}."
        )
    fields: list[Field] = [(1, _shape_bytes(kind.shape))] if kind.shape else []
    fields.append((2, _ARRAY_NUMBERS[kind.element]))
    if kind.enumerated:
        fields.append((21, encode((1, encode([(1, _shape_bytes(shape))])) for shape in kind.enumerated)))
    if kind.ranges:
        fields.append((31, encode((1, _range_message(entry)) for entry in kind.ranges)))
    if kind.default is not None:
        fields.append((41, int(kind.default)) if "int" in kind.element else (51, float(kind.default)))
    return encode(fields)


def _range_message(sizes: Range) -> bytes:
    return encode([(1, sizes[0]), (2, -1 if sizes[1] is None else sizes[1])])


# Descriptions out of other places.


def description_of(program: Program, who: str = "the program") -> Description:
    """The description that follows from a program: multi-arrays of the types of its inputs and outputs."""
    described = [_described(function, who) for function in program.functions.values()]
    default = "main" if "main" in program.functions else described[0].name
    if len(described) == 1:
        only = described[0]
        return Description("", only.inputs, only.outputs, only.states)
    return Description(functions=described, default_function=default)


def _described(function: Function, who: str) -> FunctionDescription:
    where = f"{function.place or who}: function {function.name!r}"
    defaults, ranges, enumerated = flexible_shapes(function, where)
    description = FunctionDescription(function.name)
    for port in function.inputs:
        kind = _feature_of(port.type, f"{where}: input {port.name!r}")
        if isinstance(kind, ArrayFeature) and port.name in defaults:
            shapes = enumerated.get(port.name, ())
            kind = ArrayFeature(defaults[port.name], kind.element, shapes, ranges.get(port.name, ()))
        into = description.states if isinstance(kind, StateFeature) else description.inputs
        into.append(Feature(port.name, kind))
    for port in function.output_types():
        description.outputs.append(Feature(port.name, _feature_of(port.type, f"{where}: output {port.name!r}")))
    return description


def _feature_of(type: ValueType, who: str) -> FeatureType:
    if isinstance(type, StateType):
        array = _feature_of(type.wrapped, who)
        if isinstance(array, ArrayFeature):
            return StateFeature(array)
    if isinstance(type, DictionaryType):
        return DictionaryFeature("int64" if type.key == TensorType("int64", ()) else "string")
    if isinstance(type, TensorType):
        if type.shape == () and type.element in ("string", "int64"):
            return ScalarFeature(type.element)
        if type.element != "string":
            # Core ML gives booleans as int32. Texts can have types that no multi-array of a package has.
            element = "int32" if type.element == "bool" else ELEMENTS[type.element].numpy.name
            sizes = type.shape or ()
            ranges = tuple((1, None) if n is None else (n, n) for n in sizes) if None in sizes else ()
            return ArrayFeature(tuple(1 if n is None else n for n in sizes), element, (), ranges)
    if isinstance(type, ListType) and type.entry in (TensorType("string", ()), TensorType("int64", ())):
        assert isinstance(type.entry, TensorType)
        return SequenceFeature(type.entry.element)
    raise CoreMLError(f"{who} has the type {type}, which no input or output of a model can have.")


FLEXIBLE = "FlexibleShapeInformation"
"""The attribute of functions that holds, in texts only, what the description of a package says about sizes of inputs."""

Shapes = dict[str, tuple[int, ...]]


def flexible_shapes(
    function: Function, who: str
) -> tuple[Shapes, dict[str, tuple[Range, ...]], dict[str, tuple[tuple[int, ...], ...]]]:
    """Default shapes, ranges of sizes and enumerated shapes of inputs, out of an attribute of the function."""
    defaults: Shapes = {}
    ranges: dict[str, tuple[Range, ...]] = {}
    enumerated: dict[str, list[tuple[int, ...]]] = {}
    held = function.attributes.get(FLEXIBLE)
    try:
        for key, table in held.python if held is not None else []:
            if key == "DefaultShapes":
                defaults = {name: tuple(int(n) for n in shape) for name, shape in table.items()}
            elif key == "RangeDims":
                for name, limits in table.items():
                    ranges[name] = tuple((int(low), None if high < 0 else int(high)) for low, high in limits)
            elif key == "EnumeratedShapes":
                for shapes in table.values():
                    for name, shape in shapes.items():
                        enumerated.setdefault(name, []).append(tuple(int(n) for n in shape))
    except (TypeError, ValueError, AttributeError):
        raise CoreMLError(f"{who}: {FLEXIBLE} has another form than is known.") from None
    return defaults, ranges, {name: tuple(shapes) for name, shapes in enumerated.items()}


def flexible_attribute(about: FunctionDescription) -> Constant | None:
    """The attribute that says in a text which sizes inputs can have; None if they are all fixed.

    How texts list enumerated shapes is not known, so that these inputs have only their default there.
    """
    arrays = {
        f.name: f.type
        for f in about.inputs
        if isinstance(f.type, ArrayFeature) and (f.type.ranges or f.type.enumerated)
    }
    if not arrays:
        return None
    text, sizes, pair = TensorType("string", ()), TensorType("int32", (None,)), TensorType("int32", (2,))
    limits = ListType(pair, None)
    defaults, ranges = [], []
    for name in sorted(arrays):
        key, kind = Constant(text, name), arrays[name]
        defaults.append((key, Constant(sizes, np.array(kind.shape, np.int32))))
        if kind.ranges:
            rows = [np.array([low, -1 if high is None else high], np.int32) for low, high in kind.ranges]
            ranges.append((key, Constant(limits, tuple(Constant(pair, row) for row in rows))))
    tables = [
        ("DefaultShapes", DictionaryType(text, sizes), defaults),
        ("RangeDims", DictionaryType(text, limits), ranges),
    ]
    entries = [
        Constant(TupleType((text, kind)), (Constant(text, key), Constant(kind, tuple(table))))
        for key, kind, table in tables
        if table
    ]
    return Constant(TupleType(tuple(entry.type for entry in entries)), tuple(entries))


def write_metadata(description: Description, version: int) -> str:
    """The ``metadata.json`` of a compiled model, from which :func:`read_metadata` gives the description again.

    How files of Apple's compiler list other sizes of images is not known: their fields have names of ours.
    """
    about = description.metadata
    held: dict[str, Any] = {
        "shortDescription": about.description, "version": about.version, "author": about.author, "license": about.license,
        "userDefinedMetadata": about.user_defined, "specificationVersion": version,
        "modelType": {"name": "MLModelType_mlProgram"}, **_written_schemas(description),
    }  # fmt: skip
    if description.functions:
        held["functions"] = [{"name": one.name, **_written_schemas(one)} for one in description.functions]
        held["defaultFunctionName"] = description.default_function
    if description.predicted_feature:
        held["classLabelName"] = description.predicted_feature
        held["predictedProbabilitiesName"] = description.predicted_probabilities
    return json.dumps([held], indent=2, ensure_ascii=False) + "\n"


def _written_schemas(about: FunctionDescription) -> dict[str, list[dict[str, str]]]:
    listed = {"inputSchema": about.inputs, "outputSchema": about.outputs, "stateSchema": about.states}
    return {
        key: [
            {
                "name": feature.name, "shortDescription": feature.description,
                "isOptional": "1" if feature.optional else "0", **_written_schema(feature.type),
            }
            for feature in features
        ]
        for key, features in listed.items()
    }  # fmt: skip


def _written_schema(kind: FeatureType) -> dict[str, str]:
    if isinstance(kind, StateFeature):
        return {**_written_schema(kind.array), "type": "State"}
    if isinstance(kind, ArrayFeature):
        element = "Double" if kind.element == "float64" else kind.element.capitalize()
        held = {"type": "MultiArray", "dataType": element, "shape": str(list(kind.shape))}
        held["hasShapeFlexibility"] = "1" if kind.enumerated or kind.ranges else "0"
        if kind.enumerated:
            held["enumeratedShapes"] = str([list(shape) for shape in kind.enumerated])
        if kind.ranges:
            held["shapeRange"] = str([[low, -1 if high is None else high] for low, high in kind.ranges])
        if kind.default is not None:
            held["defaultValue"] = str(kind.default)
        return held
    if isinstance(kind, ImageFeature):
        space = {"grayscale": "Grayscale", "grayscale float16": "GrayscaleFloat16"}.get(
            kind.color_space, kind.color_space
        )
        held = {"type": "Image", "width": str(kind.width), "height": str(kind.height), "colorspace": space}
        if kind.enumerated:
            held["enumeratedWidthsAndHeights"] = str([list(size) for size in kind.enumerated])
        if kind.width_range and kind.height_range:
            ends = [[low, -1 if high is None else high] for low, high in (kind.width_range, kind.height_range)]
            held["widthAndHeightRange"] = str(ends)
        return held
    if isinstance(kind, DictionaryFeature):
        return {"type": "Dictionary", "keyType": "Int64" if kind.key == "int64" else "String"}
    if isinstance(kind, SequenceFeature):
        return {"type": "Sequence", "entryType": "Int64" if kind.entry == "int64" else "String"}
    return {"type": kind.kind.capitalize()}


def read_metadata(text: str, who: str) -> Description:
    """The description in the ``metadata.json`` of a compiled model, which says less than the one that is compiled in."""
    try:
        (held,) = json.loads(text)
        description = Description(
            default_function=held.get("defaultFunctionName", ""),
            metadata=Metadata(
                held.get("shortDescription", ""), held.get("version", ""), held.get("author", ""), held.get("license", ""),
                {str(key): str(entry) for key, entry in held.get("userDefinedMetadata", {}).items()},
            ),
        )  # fmt: skip
        _schemas(description, held)
        for entry in held.get("functions") or []:
            function = FunctionDescription(str(entry["name"]))
            _schemas(function, entry)
            description.functions.append(function)
        description.predicted_feature = str(held.get("classLabelName") or held.get("predictedFeatureName") or "")
        description.predicted_probabilities = str(held.get("predictedProbabilitiesName") or "")
        return description
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CoreMLError(f"{who}: does not describe a compiled model ({type(error).__name__}: {error}).") from None


def _schemas(description: FunctionDescription, held: Any) -> None:
    schemas = {
        "inputSchema": description.inputs,
        "outputSchema": description.outputs,
        "stateSchema": description.states,
    }
    for key, into in schemas.items():
        into += [
            Feature(
                str(entry["name"]),
                _schema(entry),
                str(entry.get("shortDescription", "")),
                entry.get("isOptional") == "1",
            )
            for entry in held.get(key) or []
        ]


def _schema(entry: Any) -> FeatureType:
    kind = entry["type"]
    if kind in ("MultiArray", "State"):
        shape = _sizes(json.loads(entry.get("shape") or "[]"))
        shapes = tuple(_sizes(sizes) for sizes in json.loads(entry.get("enumeratedShapes") or "[]"))
        ranges = _ranges(entry.get("shapeRange"))
        default = float(entry["defaultValue"]) if "defaultValue" in entry else None
        array = ArrayFeature(
            shape, {"Double": "float64"}.get(entry["dataType"], str(entry["dataType"]).lower()), shapes, ranges, default
        )
        if array.element not in _ARRAY_NUMBERS:
            raise ValueError(f"the element type {entry['dataType']!r}")
        return StateFeature(array) if kind == "State" else array
    if kind == "Image":
        space = {"RGB": "RGB", "BGR": "BGR", "GrayscaleFloat16": "grayscale float16"}.get(
            entry["colorspace"], "grayscale"
        )
        sizes = tuple((int(w), int(h)) for w, h in json.loads(entry.get("enumeratedWidthsAndHeights") or "[]"))
        width, height = _ranges(entry.get("widthAndHeightRange")) or (None, None)
        return ImageFeature(int(entry["width"]), int(entry["height"]), space, sizes, width, height)
    if kind == "Dictionary":
        return DictionaryFeature("int64" if entry.get("keyType") == "Int64" else "string")
    if kind in ("String", "Int64", "Double"):
        return ScalarFeature(kind.lower())
    if kind == "Sequence":
        return SequenceFeature("int64" if entry.get("entryType") == "Int64" else "string")
    raise ValueError(f"the type {kind!r}")


def _ranges(text: str | None) -> tuple[Range, ...]:
    return tuple((int(low), None if high < 0 else int(high)) for low, high in json.loads(text or "[]"))


def _sizes(values: Any) -> tuple[int, ...]:
    sizes = tuple(int(n) for n in values)
    if len(sizes) > _MOST_AXES or any(not 0 <= n < 2**60 for n in sizes):
        raise ValueError(f"the shape {sizes[:_MOST_AXES]}")
    return sizes

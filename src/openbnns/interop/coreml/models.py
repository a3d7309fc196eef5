"""Models: packages, compiled folders and single files, read and written."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import struct
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...files.untrusted import open_regular
from ..protobuf import Field, Message, encode
from .blobs import BlobWriter, Weights, path_inside
from .description import (
    FLEXIBLE,
    Description,
    description_of,
    flexible_attribute,
    read_description,
    read_metadata,
    write_description,
    write_metadata,
)
from .errors import CoreMLError
from .messages import read_program, write_program
from .program import Constant, ListType, Program
from .text import parse
from .text_writing import render

OPSET_VERSIONS = {"ios14": 5, "ios15": 6, "ios16": 7, "ios17": 8, "ios18": 9, "ios26": 10}
"""The specification version that each opset needs at least. Version 5 cannot hold ML programs, so that 6 is written for it."""

_MOST_JSON = 2**24
_MOST_TEXT = 2**27
_MOST_MESSAGE = 2**31
_PROGRAM = 502
_PIPELINES = {200: "pipelineClassifier", 201: "pipelineRegressor", 202: "pipeline"}
_KINDS = {
    **_PIPELINES, 300: "glmRegressor", 301: "supportVectorRegressor", 302: "treeEnsembleRegressor",
    303: "neuralNetworkRegressor", 304: "bayesianProbitRegressor", 400: "glmClassifier", 401: "supportVectorClassifier",
    402: "treeEnsembleClassifier", 403: "neuralNetworkClassifier", 404: "kNearestNeighborsClassifier", 500: "neuralNetwork",
    501: "itemSimilarityRecommender", _PROGRAM: "mlProgram", 555: "customModel", 556: "linkedModel",
    560: "classConfidenceThresholding", 600: "oneHotEncoder", 601: "imputer", 602: "featureVectorizer", 603: "dictVectorizer",
    604: "scaler", 606: "categoricalMapping", 607: "normalizer", 609: "arrayFeatureExtractor", 610: "nonMaximumSuppression",
    900: "identity", 2000: "textClassifier", 2001: "wordTagger", 2002: "visionFeaturePrint",
    2003: "soundAnalysisPreprocessing", 2004: "gazetteer", 2005: "wordEmbedding", 2006: "audioFeaturePrint",
    3000: "serializedModel",
}  # fmt: skip
_DEEPEST_PIPELINE = 4


@dataclass
class Model:
    """A model: its description and its program.

    ``kind`` is the name that Core ML's format gives it: "mlProgram"; a pipeline has ``parts`` instead of a program, and
    models of other kinds have neither, but the ``message`` that their file holds.
    """

    program: Program | None
    description: Description
    specification_version: int
    kind: str = "mlProgram"
    parts: list[Model] = field(default_factory=list)
    path: Path | None = field(default=None, compare=False)
    message: Message | None = field(default=None, compare=False, repr=False)

    @property
    def class_labels(self) -> list[Any]:
        """The classes of a classifier, out of its classify operation; none if it is not one."""
        for function in self.program.functions.values() if self.program else ():
            constants = {}
            for operation in function.walk():
                if operation.type == "const":
                    constants[operation.outputs[0].name] = operation.attributes["val"]
                elif operation.type == "classify":
                    for argument in operation.inputs.get("classes", ()):
                        held = argument if isinstance(argument, Constant) else constants.get(argument)
                        if held is not None and isinstance(held.type, ListType):
                            return list(held.python)
        return []


def read(path: str | os.PathLike[str]) -> Model:
    """The model of an ``.mlpackage``, ``.mlmodelc``, ``.mlmodel`` or ``model.mil``. Weights are mapped, not read.

    Raises CoreMLError, or DamagedFile of which it is a kind, for whatever is wrong with a file; the message says where.
    """
    place = Path(path)
    try:
        if place.is_dir():
            # Compiled models with a manifest of another kind are about, so that model.mil comes first.
            if (place / "Manifest.json").exists() and not (place / "model.mil").exists():
                return _package(place)
            return _compiled(place)
        if place.suffix == ".mil":
            return _text_file(place)
        if not place.exists():
            raise FileNotFoundError(f"there is no file or folder {place}.")
        return _message_file(_mapped(place, _MOST_MESSAGE), place)
    except (RecursionError, MemoryError, OverflowError) as error:
        raise CoreMLError(f"{place}: cannot be read ({type(error).__name__}). It is damaged, or hostile.") from None


def _mapped(path: Path, most: int) -> memoryview:
    """The bytes of a file, which stay mapped as long as something refers to them."""
    try:
        with open_regular(path, CoreMLError) as (file, size):
            if size > most:
                raise CoreMLError(f"{path}: has {size} bytes, more than the {most} that such a file can have.")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
    except OSError as error:
        raise CoreMLError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _text(path: Path, most: int) -> str:
    try:
        return bytes(_mapped(path, most)).decode()
    except UnicodeDecodeError as error:
        raise CoreMLError(f"{path}: is not text in UTF-8 (byte {error.start}).") from None


# Packages.


def _package(folder: Path) -> Model:
    manifest = folder / "Manifest.json"
    text = _text(manifest, _MOST_JSON)
    try:
        held = json.loads(text)
        item = held["itemInfoEntries"][held["rootModelIdentifier"]]["path"]
        path = path_inside(folder / "Data", item)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CoreMLError(f"{manifest}: does not name the model of the package ({reason}).") from None
    if path is None:
        raise CoreMLError(f"{manifest}: the model is at {item!r}, which is outside of the package. It is not read.")
    if path.is_dir():
        raise CoreMLError(f"{manifest}: the model is at {item!r}, which is a folder.")
    model = _message_file(_mapped(path, _MOST_MESSAGE), path)
    model.path = folder
    return model


def _message_file(data: memoryview, path: Path) -> Model:
    if not len(data):
        raise CoreMLError(f"{path}: is empty.")
    return _message_model(Message(data, str(path)), Weights(path.parent), path, 0)


def _message_model(message: Message, weights: Weights, path: Path, depth: int) -> Model:
    version = message.integer(1)
    kinds = [number for number in message.fields if number in _KINDS]
    if len(kinds) != 1 or not version:
        raise message.damage(
            f"is not a Core ML model: it has specification version {version} and {len(kinds)} kinds of contents"
        )
    (number,) = kinds
    description = read_description(message.message(2, "description"))
    model = Model(None, description, version, _KINDS[number], path=path)
    if number == _PROGRAM:
        model.program = read_program(message.message(_PROGRAM), weights, version)
        model.program.check(str(path))
    elif number in _PIPELINES:
        if depth > _DEEPEST_PIPELINE:
            raise message.damage("pipelines are nested too deeply")
        inner = message.message(number) if number == 202 else message.message(number).message(1)
        names = inner.texts(2)
        for i, part in enumerate(inner.messages(1)):
            part.who = f"{path}: part {names[i] if i < len(names) else i}"
            model.parts.append(_message_model(part, weights, path, depth + 1))
    else:
        model.message = message
    return model


# Compiled models.


def _compiled(folder: Path) -> Model:
    program = folder / "model.mil"
    if program.exists():
        return _text_file(program, folder)
    parts: list[Model] = []
    while (folder / f"model{len(parts)}").is_dir() and len(parts) < 64:
        parts.append(_compiled(folder / f"model{len(parts)}"))
    description, version = _compiled_description(folder)
    if parts and description is not None:
        return Model(None, description, version, "pipeline", parts, folder)
    if (folder / "model.espresso.net").exists():
        raise CoreMLError(
            f"{folder}: is a compiled neural network of the old kind. Read its .mlmodel file: nn.from_coreml(path)."
        )
    raise CoreMLError(
        f"{folder}: holds neither Manifest.json (as an .mlpackage does) nor model.mil (as an .mlmodelc does)."
    )


def compiled_program(path: Path) -> tuple[Program, Description | None]:
    """The program of an ``.mlmodelc`` or ``model.mil`` as its text says, and the description beside it."""
    text = path / "model.mil" if path.is_dir() else path
    return _parsed(text), _compiled_description(text.parent)[0]


def _parsed(path: Path) -> Program:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    return parse(_text(path, _MOST_TEXT), Weights(path.parent), str(path))


def _text_file(path: Path, folder: Path | None = None) -> Model:
    program = _parsed(path)
    description, version = _compiled_description(path.parent)
    needed = max(OPSET_VERSIONS.get(function.opset, 0) for function in program.functions.values())
    if description is None or not _describes(description, program):
        description = description_of(program, str(path))
    least = 9 if program.dialect != "1.0" else 6
    return Model(_fixed(program), description, max(version, needed, least), path=folder or path)


def _describes(description: Description, program: Program) -> bool:
    """True if a description that lies beside a text is that of its program."""
    for name, function in program.functions.items():
        about = description.of(name)
        if {port.name for port in function.inputs} != {feature.name for feature in (*about.inputs, *about.states)}:
            return False
        if set(function.block.outputs) != {feature.name for feature in about.outputs}:
            return False
    return True


def _compiled_description(folder: Path) -> tuple[Description | None, int]:
    """The description of a compiled model and its specification version; 0 if nothing says it."""
    if (folder / "coremldata.bin").exists():
        metadata = _coremldata(_mapped(folder / "coremldata.bin", _MOST_JSON), str(folder / "coremldata.bin"))
        if metadata is not None:
            return metadata
    if (folder / "metadata.json").exists():
        return read_metadata(_text(folder / "metadata.json", _MOST_JSON), str(folder / "metadata.json")), 0
    return None, 0


def _coremldata(data: memoryview, who: str) -> tuple[Description, int] | None:
    """Description and version in a ``coremldata.bin``; None if it has another layout than is known.

    At 0 stands the kind of the model, at 0x1C the length of a name, which begins at 0x24; behind it the version, and after 28
    more bytes the length of the description and the description.
    """
    if len(data) < 0x24:
        return None
    kind, length = struct.unpack_from("<I24xI", data)
    start = 0x24 + length + 0x20
    if kind not in _KINDS or start + 8 > len(data):
        return None
    (version,), (size,) = struct.unpack_from("<I", data, 0x24 + length), struct.unpack_from("<Q", data, start)
    if size > len(data) - start - 8:
        return None
    return read_description(Message(data[start + 8 : start + 8 + size], who)), version


# Writing.


def _fixed(program: Program) -> Program:
    """The program without what its functions say about sizes of inputs, which the description of a model has."""
    functions = {}
    for name, function in program.functions.items():
        attributes = {key: value for key, value in function.attributes.items() if key != FLEXIBLE}
        functions[name] = replace(function, attributes=attributes)
    return replace(program, functions=functions)


def make_model(program: Program, description: Description | None = None) -> Model:
    """A model with a program, and the description that follows from it unless one is given."""
    needed = max(OPSET_VERSIONS.get(function.opset, 0) for function in program.functions.values())
    version = max(needed, 9 if program.dialect != "1.0" else 6)
    return Model(_fixed(program), description or description_of(program), version)


def write_package(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write an ``.mlpackage``; one that is there is replaced as a whole, or not at all."""
    to = Path(path)
    if to.suffix != ".mlpackage":
        raise ValueError(f"write_package: the name is {to.name!r}. End it in .mlpackage.")
    program = _writable(model, "write_package")
    with _replaced(to) as folder:
        data = folder / "Data" / "com.apple.CoreML"
        (data / "weights").mkdir(parents=True)
        with (data / "weights" / "weight.bin").open("wb") as file:
            blobs = BlobWriter(file)
            message = write_program(program, blobs)
            blobs.close()
        fields: list[Field] = [
            (1, model.specification_version),
            (2, write_description(model.description)),
            (_PROGRAM, message),
        ]
        (data / "model.mlmodel").write_bytes(encode(fields))
        items = [("com.apple.CoreML/model.mlmodel", "model.mlmodel", "CoreML Model Specification")]
        if blobs.count:
            items.append(("com.apple.CoreML/weights", "weights", "CoreML Model Weights"))
        else:
            shutil.rmtree(data / "weights")
        (folder / "Manifest.json").write_text(_manifest(items), encoding="utf-8")
    return to


def _manifest(items: list[tuple[str, str, str]]) -> str:
    entries = {
        str(uuid.uuid5(uuid.NAMESPACE_URL, path)).upper(): {
            "author": "com.apple.CoreML", "description": about, "name": name, "path": path,
        }
        for path, name, about in items
    }  # fmt: skip
    held = {"fileFormatVersion": "1.0.0", "itemInfoEntries": entries, "rootModelIdentifier": next(iter(entries))}
    return json.dumps(held, indent=4) + "\n"


def write_compiled(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write ``model.mil``, its weights and its description as an ``.mlmodelc`` folder, which is what BNNSGraph takes on a Mac.

    Core ML's own loader needs more, which only Apple's compiler writes: use the ``.mlpackage`` there.
    """
    to = Path(path)
    if to.suffix != ".mlmodelc":
        raise ValueError(f"write_compiled: the name is {to.name!r}. End it in .mlmodelc.")
    program = _writable(model, "write_compiled")
    with _replaced(to) as folder:
        (folder / "weights").mkdir(parents=True)
        with (folder / "weights" / "weight.bin").open("wb") as file:
            blobs = BlobWriter(file)
            text = render(_flexible(program, model.description), blobs)
            blobs.close()
        (folder / "model.mil").write_text(text, encoding="utf-8")
        metadata = write_metadata(model.description, model.specification_version)
        (folder / "metadata.json").write_text(metadata, encoding="utf-8")
        if not blobs.count:
            shutil.rmtree(folder / "weights")
    return to


def _flexible(program: Program, description: Description) -> Program:
    """The program with what its description says about sizes of inputs."""
    functions = {}
    for name, function in program.functions.items():
        held = flexible_attribute(description.of(name))
        added = {} if held is None else {FLEXIBLE: held}
        functions[name] = replace(function, attributes=function.attributes | added)
    return replace(program, functions=functions)


def _writable(model: Model, who: str) -> Program:
    if model.program is None:
        raise ValueError(f"{who}: the model is of the kind {model.kind}. Only ML programs can be written.")
    model.program.check(who)
    return model.program


@contextmanager
def _replaced(to: Path) -> Iterator[Path]:
    """A new folder beside the target, which takes its place in the end."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.stem}-") as beside:
        made = Path(beside) / to.name
        made.mkdir()
        yield made
        if to.exists():
            to.rename(Path(beside) / "before")
        made.rename(to)

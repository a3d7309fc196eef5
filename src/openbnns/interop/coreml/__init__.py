"""Core ML's ML programs as data: read from and written to packages and texts."""

from .blobs import Weights
from .compression import decompressed, dequantize, quantize
from .description import (
    ArrayFeature,
    Description,
    DictionaryFeature,
    Feature,
    FunctionDescription,
    ImageFeature,
    Metadata,
    ScalarFeature,
    SequenceFeature,
    StateFeature,
)
from .errors import CoreMLError
from .execution import Argument, Executable, Precision, State
from .models import Model, make_model, read, write_compiled, write_package
from .operations import Bound, Reference, Scope, bind, kind_of
from .program import (
    Block,
    Constant,
    DictionaryType,
    Function,
    ListType,
    NamedType,
    Operation,
    Program,
    StateType,
    TensorType,
    TupleType,
    constant,
)
from .text import parse
from .text_writing import render

__all__ = [
    "read", "write_package", "write_compiled", "parse", "render", "make_model", "Model", "CoreMLError", "Weights",
    "Program", "Function", "Block", "Operation", "NamedType", "Constant", "constant",
    "Executable", "State", "Argument", "Precision",
    "Scope", "Reference", "Bound", "bind", "kind_of", "decompressed", "quantize", "dequantize",
    "TensorType", "ListType", "TupleType", "DictionaryType", "StateType",
    "Description", "FunctionDescription", "Metadata", "Feature", "ArrayFeature", "ImageFeature", "ScalarFeature",
    "DictionaryFeature", "SequenceFeature", "StateFeature",
]  # fmt: skip

"""Enums and structs against the facts in tools/facts and the rules of the C language."""

from __future__ import annotations

import copy
import enum
import importlib
import importlib.util
import inspect
import json
import keyword
import math
import pickle
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from openbnns.abi import enums, structs
from openbnns.abi import values as _values
from openbnns.abi.enums import BNNSActivationFunction, BNNSDataType
from openbnns.abi.structs import (
    BNNSActivation,
    BNNSFilterParameters,
    BNNSLayerParametersArithmetic,
    BNNSLayerParametersConvolution,
    BNNSLayerParametersFullyConnected,
    BNNSLayerParametersPadding,
    BNNSLSTMGateDescriptor,
    BNNSNDArrayDescriptor,
    BNNSTensor,
    FixedList,
    Struct,
)

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "tools" / "facts"
CONSTANTS: dict[str, dict[str, int]] = json.loads((FACTS / "constants.json").read_text(encoding="utf-8"))
MACROS = CONSTANTS.pop("_macros")
STRUCTS: dict[str, dict[str, Any]] = json.loads((FACTS / "structs.json").read_text(encoding="utf-8"))
STRUCTS.pop("_typedefs")
FIELDS = [(name, fact) for name, struct in STRUCTS.items() for fact in struct["fields"]]
MASKS = {"BNNSFlags", "BNNSLayerFlags", "BNNSEmbeddingFlags", "BNNSGraphMessageLevel"}


def python_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_abi", ROOT / "tools" / "generate_abi.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses looks the module up while its classes are being made
    sys.modules["generate_abi"] = module
    spec.loader.exec_module(module)
    return module


# ---- generated files and examples


def test_committed_files_are_what_the_generator_writes() -> None:
    generator = load_generator()
    assert Path(enums.__file__).read_text(encoding="utf-8") == generator.enums_source()
    assert Path(structs.__file__).read_text(encoding="utf-8") == generator.structs_source()


# ---- enums


@pytest.mark.parametrize("name", CONSTANTS)
def test_enum_has_every_member_and_value(name: str) -> None:
    enum_class = getattr(enums, name)
    assert issubclass(enum_class, enum.IntFlag if name in MASKS else enum.IntEnum)
    assert {member: int(value) for member, value in enum_class.__members__.items()} == CONSTANTS[name]
    for member in CONSTANTS[name]:
        assert getattr(enums, member) is enum_class[member]
        assert {name, member} <= set(enums.__all__)


def test_macros() -> None:
    assert {name: getattr(enums, name) for name in MACROS} == MACROS == {"BNNS_MAX_TENSOR_DIMENSION": 8}


def test_enum_prints_its_c_name_and_formats_as_a_number() -> None:
    value = enums.BNNSDataTypeFloat32
    assert (repr(value), str(value), f"{value}", f"{value:#x}", f"{value:d}") == (
        *("BNNSDataTypeFloat32",) * 3,
        "0x10020",
        "65568",
    )
    assert repr(enums.BNNSFlagsUseClientPtr) == str(enums.BNNSFlagsUseClientPtr) == "BNNSFlagsUseClientPtr"
    assert repr(enums.BNNSFlags(0)) == "0"
    assert repr(enums.BNNSFlags(3)) == "BNNSFlagsUseClientPtr|0x2"
    both = enums.BNNSLayerFlagsLSTMBidirectional | enums.BNNSLayerFlagsLSTMDefaultActivations
    assert f"{both}" == "BNNSLayerFlagsLSTMBidirectional|BNNSLayerFlagsLSTMDefaultActivations"
    assert f"{both:d}" == "3"


# ---- structs against the facts


def default_of(c_type: str, name: str, meaning: str) -> Any:
    """The zero value of a C type as Python sees it."""
    c_type = re.sub(r" _N\w+$", "", c_type)
    base, _, dimensions = c_type.partition("[")
    if dimensions:
        value = default_of(base, "", "")
        for length in reversed([int(n) for n in dimensions.rstrip("]").split("][")]):
            value = [copy.deepcopy(value) for _ in range(length)]
        return value
    if "*" in c_type or c_type in ("BNNSAlloc", "BNNSFree"):
        return None
    if c_type in STRUCTS:
        return getattr(structs, c_type)()
    return 1.0 if name == "data_scale" else 0


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_has_every_field_in_order_with_its_default(name: str) -> None:
    struct_class = getattr(structs, name)
    names = [python_name(fact["name"]) for fact in STRUCTS[name]["fields"]]
    assert issubclass(struct_class, Struct)
    assert list(struct_class.__slots__) == names
    assert name in structs.__all__
    instance = struct_class()
    assert not hasattr(instance, "__dict__")
    for fact in STRUCTS[name]["fields"]:
        value = getattr(instance, python_name(fact["name"]))
        assert value == default_of(fact["type"], fact["name"], fact["meaning"]), fact["name"]
    assert repr(instance) == f"{name}()"


@pytest.mark.parametrize("name", STRUCTS)
def test_struct_docstring_names_every_field(name: str) -> None:
    text = getattr(structs, name).__doc__ or ""
    for fact in STRUCTS[name]["fields"]:
        assert f"{python_name(fact['name'])}: " in text


def sample_value(c_type: str) -> Any:
    """A value other than the default."""
    c_type = re.sub(r" _N\w+$", "", c_type)
    if c_type.endswith("]"):
        base, _, dimensions = c_type.partition("[")
        values = [sample_value(base)]
        return [values] if "][" in dimensions else values
    if "*" in c_type or c_type in ("BNNSAlloc", "BNNSFree"):
        return bytearray(8)
    if c_type in CONSTANTS:
        return max(CONSTANTS[c_type].values())
    if c_type == "BNNSActivation":
        return BNNSActivation(alpha=2)
    if c_type in STRUCTS:
        struct_class = getattr(structs, c_type)
        first = STRUCTS[c_type]["fields"][0]
        return struct_class(**{python_name(first["name"]): sample_value(first["type"])})
    return True if c_type == "bool" else 2


@pytest.mark.parametrize("name", STRUCTS)
def test_every_field_is_a_keyword_argument_and_can_be_written(name: str) -> None:
    for fact in STRUCTS[name]["fields"]:
        check_field(getattr(structs, name), fact)


def check_field(struct_class: Any, fact: dict[str, str]) -> None:
    field = python_name(fact["name"])
    value = sample_value(fact["type"])
    built = struct_class(**{field: value})
    written = struct_class()
    setattr(written, field, value)
    assert built == written
    c_type = fact["type"].partition("[")[0]
    if "*" in c_type:
        assert getattr(built, field) is value
    elif c_type in CONSTANTS and c_type not in MASKS:
        assert type(getattr(built, field)) is getattr(enums, c_type)
    if value:
        assert f"{field}=" in repr(built)
        assert built != struct_class()


def test_masks_held_in_plain_integers_keep_their_names() -> None:
    assert BNNSFilterParameters(flags=1).flags is enums.BNNSFlagsUseClientPtr
    assert structs.BNNSLayerParametersLSTM(lstm_flags=2).lstm_flags is enums.BNNSLayerFlagsLSTMDefaultActivations
    assert isinstance(BNNSFilterParameters(flags=0xFF).flags, enums.BNNSFlags)


# ---- C semantics


def image(width: int = 4, data: Any = None) -> BNNSNDArrayDescriptor:
    return BNNSNDArrayDescriptor(
        layout=enums.BNNSDataLayoutImageCHW,
        size=(width, 3, 2),
        data=data,
        data_type=enums.BNNSDataTypeFloat32,
    )


def test_structs_are_held_by_value() -> None:
    memory = np.zeros(24, np.float32)
    descriptor = image(4, memory)
    layer = BNNSLayerParametersFullyConnected(i_desc=descriptor, o_desc=descriptor)
    descriptor.size[0] = 9
    descriptor.layout = enums.BNNSDataLayoutVector
    layer.w_desc = descriptor
    descriptor.size = [7]
    assert layer.i_desc == image(4, memory) and layer.o_desc == image(4, memory)
    assert layer.i_desc is not layer.o_desc
    assert list(layer.w_desc.size) == [9, 3, 2, 0, 0, 0, 0, 0]
    assert layer.i_desc.data is layer.w_desc.data is memory
    layer.i_desc.size[1] = 5
    assert layer.o_desc.size[1] == 3


def test_defaults_are_not_shared() -> None:
    one, other = BNNSLayerParametersConvolution(), BNNSLayerParametersConvolution()
    one.i_desc.size[0] = 1
    one.pad[3] = 2
    one.activation.alpha = 3
    assert other == BNNSLayerParametersConvolution()


def test_arrays_of_structs_hold_copies() -> None:
    weights = image()
    gate = BNNSLSTMGateDescriptor(iw_desc=[weights])
    weights.size[0] = 100
    assert len(gate.iw_desc) == 2 and gate.iw_desc[0] == image() and gate.iw_desc[1] == BNNSNDArrayDescriptor()
    gate.iw_desc[1] = weights
    weights.size[0] = 200
    assert gate.iw_desc[1].size[0] == 100
    twin = gate.copy()
    twin.iw_desc[0].size[0] = 1
    assert gate.iw_desc[0] == image()
    with pytest.raises(TypeError, match="expected a BNNSNDArrayDescriptor, got int 3"):
        gate.iw_desc[0] = 3


def test_pointers_to_structs_are_shared() -> None:
    operands = structs.BNNSArithmeticUnary(in_=image())
    layer = BNNSLayerParametersArithmetic(arithmetic_function_fields=operands)
    assert layer.arithmetic_function_fields is operands
    assert layer.copy().arithmetic_function_fields is operands


@pytest.mark.parametrize("duplicate", [lambda s: s.copy(), copy.copy], ids=["method", "copy module"])
def test_copy_shares_memory_only(duplicate: Any) -> None:
    memory = np.zeros(24, np.float32)
    layer = BNNSLayerParametersConvolution(i_desc=image(4, memory), pad=(1, 2), groups=2)
    twin = duplicate(layer)
    assert twin == layer and twin is not layer and type(twin) is type(layer)
    assert twin.i_desc.data is memory
    twin.i_desc.size[0], twin.pad[0], twin.groups = 8, 8, 8
    assert layer == BNNSLayerParametersConvolution(i_desc=image(4, memory), pad=(1, 2), groups=2)


def test_pickle_and_deepcopy_keep_arrays_fixed() -> None:
    padding = BNNSLayerParametersPadding(i_desc=image(), padding_size=[(1, 2)])
    for twin in (pickle.loads(pickle.dumps(padding)), copy.deepcopy(padding)):
        assert twin == padding
        assert type(twin.padding_size) is type(twin.padding_size[0]) is type(twin.i_desc.size) is FixedList


def test_equality_compares_fields_and_pointers_by_identity() -> None:
    memory, equal_memory = np.zeros(3), np.zeros(3)
    assert image(data=memory) == image(data=memory)
    assert image(data=memory) != image(data=equal_memory)
    assert image(data=4096) == image(data=4096)
    assert image(4) != image(5)
    assert BNNSNDArrayDescriptor() != BNNSActivation()
    with pytest.raises(TypeError, match="unhashable"):
        hash(image())


def test_repr_shows_what_is_set_and_describes_memory() -> None:
    assert repr(image(data=np.zeros((2, 3, 4), np.float32))) == (
        "BNNSNDArrayDescriptor(layout=BNNSDataLayoutImageCHW, size=[4, 3, 2], data=<float32 array (2, 3, 4)>, "
        "data_type=BNNSDataTypeFloat32)"
    )
    assert repr(BNNSNDArrayDescriptor(data=255, data_scale=0)) == "BNNSNDArrayDescriptor(data=0xff, data_scale=0.0)"
    assert "data=<bytearray>" in repr(BNNSNDArrayDescriptor(data=bytearray(4)))
    assert "operation='ij,jk->ik'" in repr(structs.BNNSLayerParametersTensorContraction(operation="ij,jk->ik"))
    assert "padding_size=[[1, 2], [], [0, 3]]" in repr(BNNSLayerParametersPadding(padding_size=[(1, 2), (), (0, 3)]))


# ---- what fields accept


def test_enum_fields_take_members_and_integers() -> None:
    descriptor = BNNSNDArrayDescriptor(layout=0x30000, data_type=np.uint32(0x10020))
    assert descriptor.layout is enums.BNNSDataLayoutImageCHW
    assert descriptor.data_type is enums.BNNSDataTypeFloat32
    descriptor.layout = 12345
    assert descriptor.layout == 12345 and type(descriptor.layout) is int
    descriptor.layout = enums.BNNSDataTypeFloat32
    assert type(descriptor.layout) is int
    assert BNNSActivation(function=30).function is enums.BNNSActivationFunctionHardSwish


def test_integer_fields_take_anything_that_counts() -> None:
    descriptor = BNNSNDArrayDescriptor(size=np.array([2, 3]), stride=range(1, 3))  # type: ignore[arg-type]
    assert list(descriptor.size[:3]) == [2, 3, 0] and all(type(entry) is int for entry in descriptor.size)
    assert list(descriptor.stride[:3]) == [1, 2, 0]
    embedding = structs.BNNSLayerParametersEmbedding(padding_idx=2**64 - 1)
    assert embedding.padding_idx == 2**64 - 1
    assert BNNSTensor(shape=(-1, 3)).shape[0] == -1


def test_number_and_bool_fields() -> None:
    layer = structs.BNNSLayerParametersBroadcastMatMul(alpha=np.float32(0.5), beta=1, transA=1, transB=np.True_)  # type: ignore[arg-type]
    assert (layer.alpha, layer.beta, layer.transA, layer.transB) == (0.5, 1.0, True, True)
    assert type(layer.alpha) is type(layer.beta) is float and type(layer.transA) is type(layer.transB) is bool
    assert math.isnan(BNNSActivation(alpha=math.nan).alpha)


def test_float_fields_hold_single_precision() -> None:
    """As in C: otherwise a program in C and the same in Python differ in the last digits."""
    adam = structs.BNNSOptimizerAdamFields(learning_rate=0.1)
    assert adam.learning_rate == float(np.float32(0.1)) != 0.1
    adam.learning_rate /= 10
    assert adam.learning_rate == float(np.float32(0.01))
    assert repr(adam) == "BNNSOptimizerAdamFields(learning_rate=0.01)"
    adam.learning_rate = 1e39
    assert adam.learning_rate == math.inf
    adam.beta1 = np.float64(1e-60)
    assert adam.beta1 == 0


@pytest.mark.parametrize(
    ("struct_class", "field", "value", "kind", "message"),
    [
        (BNNSNDArrayDescriptor, "size", 3, TypeError, "size: expected a sequence of up to 8 entries, got int 3"),
        (BNNSNDArrayDescriptor, "size", "abc", TypeError, "size: expected a sequence"),
        (BNNSNDArrayDescriptor, "size", {1: 2}, TypeError, "size: expected a sequence"),
        (BNNSNDArrayDescriptor, "size", range(1, 10), ValueError, "size: takes at most 8 entries, got 9"),
        (
            BNNSNDArrayDescriptor,
            "size",
            (1, 2.5),
            TypeError,
            r"size: entry 1: expected an integer \(size_t\), got float",
        ),
        (BNNSNDArrayDescriptor, "size", (1, -2), ValueError, "size: entry 1: -2 is outside the range of size_t"),
        (BNNSNDArrayDescriptor, "size", (2**64,), ValueError, "outside the range of size_t"),
        (BNNSNDArrayDescriptor, "layout", "vector", TypeError, "layout: expected a BNNSDataLayout, got str 'vector'"),
        (BNNSNDArrayDescriptor, "layout", -1, ValueError, "outside the range of uint32_t"),
        (BNNSNDArrayDescriptor, "data_scale", "1", TypeError, r"data_scale: expected a number \(float\), got str '1'"),
        (BNNSNDArrayDescriptor, "data_scale", 10**400, ValueError, "too large"),
        (BNNSLayerParametersConvolution, "pad", (1,) * 5, ValueError, "pad: takes at most 4 entries, got 5"),
        (BNNSLayerParametersConvolution, "groups", -1, ValueError, "groups: -1 is outside"),
        (BNNSLayerParametersConvolution, "groups", 1.0, TypeError, "groups: expected an integer"),
        (BNNSLayerParametersConvolution, "i_desc", 5, TypeError, "i_desc: expected a BNNSNDArrayDescriptor, got int 5"),
        (BNNSLayerParametersConvolution, "i_desc", BNNSActivation(), TypeError, "expected a BNNSNDArrayDescriptor"),
        (BNNSLayerParametersPadding, "padding_size", [1, 2], TypeError, "entry 0: expected a sequence of up to 2"),
        (
            BNNSLayerParametersPadding,
            "padding_size",
            [(1, 2, 3)],
            ValueError,
            "entry 0: takes at most 2 entries, got 3",
        ),
        (structs.BNNSLayerParametersResize, "align_corners", "no", TypeError, "align_corners: expected a bool"),
        (structs.BNNSLayerParametersDropout, "control", 256, ValueError, "uint8_t, 0 to 255"),
        (BNNSActivation, "iscale", 2**31, ValueError, "int32_t"),
    ],
)
def test_wrong_values_are_named(
    struct_class: type[Struct], field: str, value: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as constructed:
        struct_class(**{field: value})
    instance = struct_class()
    with pytest.raises(kind) as assigned:
        setattr(instance, field, value)
    assert str(constructed.value) == str(assigned.value)
    assert str(assigned.value).startswith(f"{struct_class.__name__}.{field}: ")
    assert instance == struct_class()


def test_absent_structs_are_empty_ones() -> None:
    assert BNNSLayerParametersFullyConnected(bias=None).bias == BNNSNDArrayDescriptor()
    with pytest.raises(TypeError, match=r"got NoneType None; BNNSNDArrayDescriptor\(\) is the empty one"):
        BNNSLayerParametersFullyConnected().bias = None  # type: ignore[assignment]


def test_only_the_fields_exist() -> None:
    descriptor = BNNSNDArrayDescriptor()
    with pytest.raises(
        AttributeError, match=r"^BNNSNDArrayDescriptor: there is no field 'sizes'\. Did you mean size\?$"
    ):
        descriptor.sizes = (1,)
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del descriptor.size
    with pytest.raises(TypeError, match=r"^BNNSNDArrayDescriptor: there is no field 'sizes'\. Did you mean size\?$"):
        BNNSNDArrayDescriptor(sizes=(1,))  # type: ignore[call-arg]


def test_fields_without_names_come_in_c_order() -> None:
    activation = BNNSActivation(BNNSActivationFunction.BNNSActivationFunctionClamp, -1, beta=2)
    assert activation == BNNSActivation(function=8, alpha=-1, beta=2)
    for struct_class in map(structs.__dict__.__getitem__, STRUCTS):
        parameters = inspect.signature(struct_class).parameters.values()
        assert struct_class(*(parameter.default for parameter in parameters)) == struct_class()
    with pytest.raises(TypeError, match=r"^BNNSFilterParameters has 4 fields, but 5 values are given$"):
        BNNSFilterParameters(0, 0, None, None, None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^BNNSActivation.__init__\(\) got multiple values for argument 'alpha'$"):
        BNNSActivation(1, 2.0, alpha=3)  # type: ignore[misc]
    with pytest.raises(
        TypeError, match=r"^BNNSActivation.function: expected a BNNSActivationFunction, got str 'tanh'$"
    ):
        BNNSActivation("tanh")  # type: ignore[arg-type]


def test_a_function_stands_for_an_activation() -> None:
    tanh = BNNSActivationFunction.BNNSActivationFunctionTanh
    parameters = BNNSLayerParametersFullyConnected(activation=tanh)
    assert parameters.activation == BNNSActivation(function=tanh)
    parameters.activation = BNNSActivationFunction.BNNSActivationFunctionAbs
    assert parameters.activation == BNNSActivation(function=6)
    with pytest.raises(TypeError, match="expected a BNNSActivation, got int 4"):
        parameters.activation = 4  # type: ignore[assignment]
    with pytest.raises(TypeError, match="expected a BNNSActivation, got BNNSDataType"):
        parameters.activation = BNNSDataType.BNNSDataTypeFloat32
    with pytest.raises(TypeError, match="expected a BNNSNDArrayDescriptor, got BNNSActivationFunction"):
        parameters.bias = tanh


@pytest.mark.parametrize("name", STRUCTS)
def test_signature_of_a_constructor_shows_every_field_and_its_default(name: str) -> None:
    struct_class = getattr(structs, name)
    parameters = inspect.signature(struct_class).parameters
    assert list(parameters) == list(struct_class.__slots__)
    for parameter in parameters.values():
        assert parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        assert repr(parameter.default) in ("0", "0.0", "False", "None", "()", "1.0")
        assert (repr(parameter.default) == "1.0") == (parameter.name == "data_scale")
    assert struct_class(**{field: parameter.default for field, parameter in parameters.items()}) == struct_class()


def test_signature_of_a_constructor_shows_the_types_it_takes() -> None:
    types = {name: p.annotation for name, p in inspect.signature(BNNSLayerParametersPadding).parameters.items()}
    assert types == {
        "i_desc": BNNSNDArrayDescriptor | None,
        "o_desc": BNNSNDArrayDescriptor | None,
        "padding_size": Sequence[Sequence[int]],
        "padding_mode": enums.BNNSPaddingMode | int,
        "padding_value": int,
    }


def test_a_struct_may_be_derived_from() -> None:
    class Named(BNNSActivation):
        """No fields of its own."""

    assert inspect.signature(Named) == inspect.signature(BNNSActivation)
    assert repr(Named(alpha=2)) == "Named(alpha=2.0)"


# ---- arrays of fixed length


def test_fixed_list_is_a_list_that_keeps_its_length() -> None:
    size = BNNSNDArrayDescriptor(size=(5, 4)).size
    assert isinstance(size, list) and len(size) == 8 and size == [5, 4, 0, 0, 0, 0, 0, 0]
    size[0], size[-1] = 6, np.int32(7)
    size[1:3] = (8, 9)
    assert size == [6, 8, 9, 0, 0, 0, 0, 7] and type(size[-1]) is int
    size.reverse()
    assert size[0] == 7
    assert type(size.copy()) is FixedList and size.copy() == size


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.append(1),
        lambda s: s.extend([1]),
        lambda s: s.insert(0, 1),
        lambda s: s.pop(),
        lambda s: s.remove(0),
        lambda s: s.clear(),
        lambda s: s.__delitem__(0),
        lambda s: s.__iadd__([1]),
        lambda s: s.__imul__(2),
    ],
    ids=["append", "extend", "insert", "pop", "remove", "clear", "del", "+=", "*="],
)
def test_fixed_list_refuses_to_change_length(change: Any) -> None:
    size = BNNSNDArrayDescriptor(size=(5, 4)).size
    with pytest.raises(TypeError, match=r"fixed length \(8\) cannot grow or shrink"):
        change(size)
    assert size == [5, 4, 0, 0, 0, 0, 0, 0]


def test_fixed_list_checks_entries() -> None:
    size = BNNSNDArrayDescriptor(size=(5, 4)).size
    with pytest.raises(TypeError, match="expected an integer"):
        size[0] = 1.5
    with pytest.raises(ValueError, match="outside the range of size_t"):
        size[0] = -1
    with pytest.raises(ValueError, match="takes 2 values here, got 1"):
        size[0:2] = [1]
    with pytest.raises(IndexError):
        size[8] = 1
    assert size == [5, 4, 0, 0, 0, 0, 0, 0]


def test_two_dimensional_array() -> None:
    padding = BNNSLayerParametersPadding()
    padding.padding_size[1] = (2,)
    padding.padding_size[1][1] = 3
    assert padding.padding_size[:3] == [[0, 0], [2, 3], [0, 0]]
    with pytest.raises(TypeError, match="fixed length"):
        padding.padding_size[1].append(1)


def test_reading_fields_is_a_slot_access() -> None:
    for name in ("flags", "layout", "size", "stride", "data", "data_type"):
        assert type(BNNSNDArrayDescriptor.__dict__[name]).__name__ == "member_descriptor"
    assert "__getattribute__" not in _values.Struct.__dict__

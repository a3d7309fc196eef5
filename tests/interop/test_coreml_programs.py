"""ML programs as data: texts, packages and compiled models, read, written and read again."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

import coreml_programs
import fuzz_coreml
from openbnns.files.safetensors import DamagedFile
from openbnns.interop import coreml
from openbnns.interop.coreml.blobs import FILE_NAME
from openbnns.interop.coreml.description import read_metadata, write_metadata
from openbnns.interop.coreml.elements import ELEMENTS, packed, unpacked
from openbnns.interop.protobuf import encode

TEXTS = {"1.0": coreml_programs.OLD, "1.3": coreml_programs.NEW}


def body(*lines: str, inputs: str = "tensor<fp32, [2]> x", output: str = "y") -> str:
    """A program in which the first operation stands in line 3."""
    operations = "\n".join(lines)
    return f"program(1.3) {{\nfunc main<ios17>({inputs}) {{\n{operations}\n}} -> ({output});\n}}"


# Texts.


@pytest.mark.parametrize("dialect", TEXTS)
def test_texts_come_back_as_they_were(dialect: str) -> None:
    program = coreml.parse(TEXTS[dialect])
    assert program.dialect == dialect
    text = coreml.render(program)
    again = coreml.parse(text)
    assert again == program
    assert coreml.render(again) == text
    # Apart from the notation of numbers and the order of inputs, which are fixed, it is the text that was read.
    if dialect == "1.0":
        decimal = "0x1p+0, 0x1.4p+1, -0x1.eb851ep-6, inf"
        assert text == TEXTS[dialect].replace("1, 2.5, -3e-2, inf", decimal)


def test_values_of_constants_in_texts() -> None:
    held = {}
    for operation in coreml.parse(coreml_programs.NEW).functions["main"].walk():
        if operation.type == "const":
            held[operation.outputs[0].name] = operation.attributes["val"]
    assert held["small"].array.tolist() == [-8, 7, 0] and held["small"].array.dtype == np.int8
    assert held["flags"].array.tolist() == [True, False]
    assert held["words"].array.tolist() == ["a", 'b, "c"']
    assert held["labels"].python == ["no", "yes"]
    assert held["nothing"].array.shape == (0, 3)
    assert held["halves"].array.tolist() == [1.0, -3.0]
    assert held["one"].python == 1
    old = coreml.parse(coreml_programs.OLD)
    (w, *_) = old.functions["main"].block.operations
    expected = np.float32([[1, -0.1875, 0, 0.1], [1, 2.5, -0.03, np.inf], [2.0**-149, -0.0, -np.inf, np.nan]])
    assert w.attributes["val"].array.tobytes() == expected.tobytes()
    assert old.attributes["buildInfo"].python == {"coremlc-version": "1", 'a "quoted" \\ word': "é\n"}


def test_inner_blocks_see_the_outer_ones() -> None:
    function = coreml.parse(coreml_programs.NEW).functions["main"]
    loop = next(operation for operation in function.block.operations if operation.type == "while_loop")
    assert [block.outputs for block in loop.blocks] == [["more"], ["k", "u"]]
    assert [port.name for port in loop.blocks[1].inputs] == ["j", "t"]
    types = [operation.type for operation in function.walk()]
    assert types.index("while_loop") < types.index("greater") < types.index("sub") < types.index("cond")


def test_flexible_shapes_of_a_text_become_its_description() -> None:
    model = coreml.make_model(coreml.parse(coreml_programs.OLD))
    (feature,) = model.description.inputs
    assert feature.type == coreml.ArrayFeature((2, 4), "float32", (), ((1, None), (4, 4)))
    assert model.specification_version == 7


BAD_TEXTS = {
    "nonsense": (1, 1, "expected 'program', got 'nonsense'. The file is not an ML program"),
    "": (1, 1, "got the end of the text"),
    "program(1.3) {\n  func main<ios17>(fp33 x) {} -> (x);\n}": (2, 20, "'fp33' is not a type"),
    "program(1.3) {": (1, 15, "expected 'func', got the end of the text"),
    body("fp32 y = relu(x = z);"): (3, 1, "relu 'y' reads 'z' as x, which nothing before it computes"),
    body("tensor<fp32, [2]> y = relu(x = x)"): (4, 1, "expected ';', got '}'"),
    body("tensor<fp32, [2] y = relu(x = x);"): (3, 18, "expected '>', got 'y'"),
    body("  tensor<fp32, [a]> y = relu(x = x);"): (3, 17, "expected a size, got 'a'"),
    body("tensor<fp31, [2]> y = relu(x = x);"): (3, 8, "'fp31' is not an element type. Known are bool"),
    body("fp32 y = const()[val = fp32(true)];"): (3, 29, "expected a number, got 'true'"),
    body("int8 y = const()[val = int8(200)];"): (3, 29, "200 is outside of int8, which goes from -128 to 127"),
    body("uint2 y = const()[val = uint2(4)];"): (3, 31, "4 is outside of uint2"),
    body("fp16 y = const()[val = fp16(1e9)];"): (3, 29, "a number is outside of fp16"),
    body("int32 y = const()[val = int32(1.5)];"): (3, 31, "expected a whole number, got '1.5'"),
    body("bool y = const()[val = bool(1)];"): (3, 29, "expected true or false, got '1'"),
    body("string y = const()[val = string(a)];"): (3, 33, "expected text in quotes, got 'a'"),
    body('string y = const()[val = string("a)];'): (3, 33, "expected text in quotes, got '\"'"),
    body("tensor<int32, [2]> y = const()[val = tensor<int32, [2]>([1])];"): (3, 57, "axis 0 has 1 entry instead of 2"),
    body("tensor<int32, [1]> y = const()[val = tensor<int32, [1]>([1, 2])];"): (3, 61, "axis 0 has more than 1 entry"),
    body("fp32 y = const()[val = fp32(0x1p+99999)];"): (3, 29, "expected a number, got '0x1p+99999'"),
    body("fp32 y = relu(x = x, x = x);"): (3, 22, "there are two inputs 'x'"),
    body('fp32 y = relu(x = x)[a = string(""), a = string("")];'): (3, 38, "there are two attributes 'a'"),
    body("fp32 x = relu(x = x);"): (3, 1, "relu 'x': two values have the name 'x'"),
    body("fp32 y = const();"): (3, 1, "const 'y': a const has one output and an attribute val"),
    body("fp32 y = relu(x = x); §"): (3, 23, "expected a type, got '§'"),
    body("state<fp32> y = const()[val = state<fp32>(1)];"): (3, 43, "no constant can have the type state"),
    body("fp32 y = const()[val = fp32(BLOBFILE(path = string(\"w\"), offset = uint64(64)))];"):
        (3, 29, "the weights are in 'w'. Read the file, or give parse its Weights"),
    body("fp32 y = const()[val = fp32(BLOBFILE(path = string(\"w\")))];"): (3, 29, "BLOBFILE needs path = string"),
    body(f"{'list<' * 40}fp32{', 1>' * 40} y = relu(x = x);"): (3, 166, "types are nested more than 32 deep"),
    body(f"tensor<fp32, [{', '.join('1' * 40)}]> y = relu(x = x);"): (3, 1, "a tensor has 40 axes; 32 are the most"),
    body(f"tensor<fp32, [{9 * '9'}, {9 * '9'}, {9 * '9'}]> y = relu(x = x);"): (3, 1, "no tensor can have the shape"),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_errors_in_texts_name_line_and_column(text: str) -> None:
    line, column, reason = BAD_TEXTS[text]
    with pytest.raises(coreml.CoreMLError) as error:
        coreml.parse(text, name="a.mil")
    assert f"a.mil:{line}:{column}: " in str(error.value)
    assert reason in str(error.value)


def test_functions_and_outputs_are_checked_as_a_whole() -> None:
    with pytest.raises(coreml.CoreMLError, match=r"a\.mil:4:6: nothing computes the output 'q'"):
        coreml.parse(body("fp32 y = relu(x = x);", output="q"), name="a.mil")
    with pytest.raises(coreml.CoreMLError, match=r"a\.mil:2:1: function 'main': two values have the name 'x'"):
        coreml.parse(body("fp32 y = relu(x = x);", inputs="fp32 x, fp32 x"), name="a.mil")
    with pytest.raises(coreml.CoreMLError, match=r"a\.mil: the program has no functions"):
        coreml.parse("program(1.3) {}", name="a.mil")


def test_texts_can_have_inputs_that_packages_cannot(tmp_path: Path) -> None:
    model = coreml.make_model(coreml.parse(body("uint8 y = identity(x = x);", inputs="tensor<uint8, [2]> x")))
    assert model.description.inputs[0].type == coreml.ArrayFeature((2,), "uint8")
    with pytest.raises(coreml.CoreMLError, match=r"no package can have multi-arrays of uint8\. They can be float32"):
        coreml.write_package(model, tmp_path / "a.mlpackage")
    path = tmp_path / "a.mil"
    path.write_text(body("fp32 y = relu(x = fp32(1));", inputs="tuple<fp32> x"))
    assert f"{path}:2:1: function 'main': input 'x' has the type tuple" in refusal(path)
    attribute = '[FlexibleShapeInformation = dict<string, string>({{"x", "y"}})]'
    path.write_text(body("fp32 y = relu(x = x);").replace(") {", f") {attribute} {{", 2))
    assert "has another form than is known" in refusal(path)


def test_two_functions_of_one_name() -> None:
    text = "program(1.3) {\nfunc f<ios17>() {} -> ();\n func f<ios17>() {} -> ();\n}"
    with pytest.raises(coreml.CoreMLError, match=r"model\.mil:3:2: two functions have the name 'f'"):
        coreml.parse(text)


def test_names_that_no_text_can_have() -> None:
    program = coreml.parse(body("fp32 y = relu(x = x);"))
    (relu,) = program.functions["main"].block.operations
    relu.outputs[:] = [coreml.NamedType("a.b", relu.outputs[0].type)]
    with pytest.raises(coreml.CoreMLError, match=r"the name 'a\.b' cannot be part of a text"):
        coreml.render(program)


def test_a_large_text_is_read_in_linear_time() -> None:
    lines = [f"tensor<fp32, [2]> y{i} = relu(x = {f'y{i - 1}' if i else 'x'});" for i in range(5000)]
    numbers = ", ".join(["0x1.8p-3"] * 20000)
    lines.append(f"tensor<fp32, [20000]> w = const()[val = tensor<fp32, [20000]>([{numbers}])];")
    program = coreml.parse(body(*lines, output="w"))
    assert program.functions["main"].block.operations[-1].attributes["val"].array.sum() == 20000 * 0.1875


# Constants.


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 6])
def test_packed_numbers_stand_lowest_bits_first(bits: int) -> None:
    values = np.random.default_rng(bits).integers(0, 2**bits, 37).astype(np.uint8)
    data = packed(values, bits)
    whole = sum(int(value) << (bits * i) for i, value in enumerate(values))
    assert data.tobytes() == whole.to_bytes((37 * bits + 7) // 8, "little")
    assert (unpacked(data, bits, 37) == values).all()


def test_signed_packed_numbers() -> None:
    held = coreml.constant([-8, -1, 0, 7, 3], "int4")
    assert held.value.tolist() == [0xF8, 0x70, 0x03]
    assert held.array.tolist() == [-8, -1, 0, 7, 3]
    with pytest.raises(ValueError, match="int4 holds numbers from -8 to 7, got 0 to 8"):
        coreml.constant([0, 8], "int4")


def test_floats_of_eight_bits() -> None:
    """All values of e5m2 are the upper halves of float16; e4m3fn by its definition."""
    bits = np.arange(256, dtype=np.uint8)
    half = (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    e5m2 = coreml.Constant(coreml.TensorType("fp8e5m2", (256,)), bits).array
    assert np.array_equal(e5m2, half, equal_nan=True)
    e4m3 = coreml.Constant(coreml.TensorType("fp8e4m3fn", (256,)), bits).array
    assert e4m3[0x7E] == 448 and e4m3[0x01] == 2.0**-9 and e4m3[0x08] == 2.0**-6 and e4m3[0xB8] == -1
    assert np.flatnonzero(np.isnan(e4m3)).tolist() == [0x7F, 0xFF]


def test_constants_from_python() -> None:
    assert coreml.constant("a").python == "a"
    assert coreml.constant({"k": 2}).python == {"k": 2}
    assert coreml.constant(np.float16([1, 2])).type == coreml.TensorType("fp16", (2,))
    assert coreml.constant(True).type == coreml.TensorType("bool", ())
    with pytest.raises(TypeError, match="no element type for complex64"):
        coreml.constant(np.complex64(1))


# Packages.


def test_packages_come_back_as_they_were(tmp_path: Path) -> None:
    model = coreml_programs.classifier()
    path = coreml.write_package(model, tmp_path / "model.mlpackage")
    again = coreml.read(path)
    assert again == model
    assert again.class_labels == ["cat", "dog", "ant"]
    weights = {
        op.outputs[0].name: op.attributes["val"] for op in again.program.functions["main"].walk() if op.type == "const"
    }
    assert not weights["weight"].value.flags.writeable and not weights["weight"].value.flags.owndata
    manifest = json.loads((path / "Manifest.json").read_text())
    assert manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"] == "com.apple.CoreML/model.mlmodel"
    written = (path / "Data/com.apple.CoreML/weights/weight.bin").read_bytes()
    assert struct.unpack_from("<II", written) == (2, 2)
    assert struct.unpack_from("<IIQQQ", written, 64) == (0xDEADBEEF, 2, 720, 128, 0)
    assert (np.frombuffer(written, "<f4", 180, 128).reshape(3, 60) == weights["weight"].array).all()


def test_every_program_comes_back_from_every_kind_of_file(tmp_path: Path) -> None:
    for path in coreml_programs.packages(tmp_path):
        model = coreml.read(path)
        assert model.program is not None
        again = coreml.read(coreml.write_package(model, tmp_path / "again.mlpackage"))
        assert again.program == model.program and again.description == model.description
        text = coreml.read(coreml.write_compiled(model, tmp_path / "again.mlmodelc"))
        assert text.program == model.program
        assert text.description == model.description
        assert coreml.read(tmp_path / "again.mlmodelc" / "model.mil").program == model.program


def test_a_compiled_model_keeps_its_description(tmp_path: Path) -> None:
    """All that a text cannot say: images, classes, enumerated shapes, defaults and words."""
    array, several = coreml.ArrayFeature, ((1, 2), (3, 2))
    inputs = [
        coreml.Feature("p", coreml.ImageFeature(5, 4, space), "what to see")
        for space in ("RGB", "BGR", "grayscale", "grayscale float16")
    ]
    inputs += [
        coreml.Feature("a", array((1, 2), "float32", several)),
        coreml.Feature("b", array((1, 2), "int32", (), ((1, None), (2, 2)))),
        coreml.Feature("c", array((2,), "float64", default=2.5), optional=True),
    ]
    outputs = [
        coreml.Feature("label", coreml.ScalarFeature("int64")),
        coreml.Feature("odds", coreml.DictionaryFeature("int64")),
        coreml.Feature("names", coreml.SequenceFeature("int64")),
    ]
    states = [coreml.Feature("s", coreml.StateFeature(array((1, 2), "float16")))]
    described = coreml.Description("", inputs, outputs, states, "label", "odds")
    described.metadata = coreml.Metadata("what it is", "2", "me", "free", {"key": "été"})
    assert read_metadata(write_metadata(described, 9), "m") == described
    functions = coreml.Description(functions=[coreml.FunctionDescription("one", inputs)], default_function="one")
    assert read_metadata(write_metadata(functions, 9), "m") == functions


def test_a_bare_file_is_read_like_its_package(tmp_path: Path) -> None:
    path = coreml.write_package(coreml_programs.classifier(), tmp_path / "model.mlpackage")
    inside = path / "Data" / "com.apple.CoreML"
    assert coreml.read(inside / "model.mlmodel") == coreml.read(path)


def test_weights_that_are_equal_are_stored_once(tmp_path: Path) -> None:
    w = "tensor<fp32, [16]>([" + ", ".join(["1"] * 16) + "])"
    text = body(f"tensor<fp32, [16]> a = const()[val = {w}];", f"tensor<fp32, [16]> y = add(x = {w}, y = a);")
    path = coreml.write_compiled(coreml.make_model(coreml.parse(text)), tmp_path / "a.mlmodelc")
    assert (path / "weights" / "weight.bin").stat().st_size == 64 + 64 + 64
    assert coreml.read(path).program == coreml.parse(text)


def test_opening_takes_no_memory_for_weights(tmp_path: Path) -> None:
    import tracemalloc

    size = 2**22
    held = coreml.Constant(coreml.TensorType("fp32", (size,)), np.zeros(size, np.float32))
    y = coreml.NamedType("y", held.type)
    block = coreml.Block([], [coreml.Operation("const", {}, [y], attributes={"val": held})], ["y"])
    model = coreml.make_model(coreml.Program({"main": coreml.Function("main", [], "ios17", block)}))
    path = coreml.write_package(model, tmp_path / "large.mlpackage")
    tracemalloc.start()
    coreml.read(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2**20


def test_compiled_models_with_other_files_beside(tmp_path: Path) -> None:
    model = coreml.make_model(coreml.parse(coreml_programs.OLD))
    path = coreml.write_compiled(model, tmp_path / "m.mlmodelc")
    (path / "Manifest.json").write_text('{"name": "a manifest of another kind"}')
    schema = {
        "name": "x",
        "type": "MultiArray",
        "dataType": "Float32",
        "shape": "[2, 4]",
        "shapeRange": "[[1, 5], [4, 4]]",
    }
    result = {"name": "y", "type": "MultiArray", "dataType": "Float32", "shape": "[]"}
    metadata = [{"inputSchema": [schema], "outputSchema": [result], "userDefinedMetadata": {"a": "b"}}]
    (path / "metadata.json").write_text(json.dumps(metadata))
    read = coreml.read(path)
    assert read.description.inputs[0].type == coreml.ArrayFeature((2, 4), "float32", (), ((1, 5), (4, 4)))
    assert read.description.metadata.user_defined == {"a": "b"}
    # What Core ML's compiler adds says more, and comes first.
    from openbnns.interop.coreml.description import write_description

    model.description.metadata.author = "me"
    message = write_description(model.description)
    header = struct.pack("<II20xI4x7sI28xQ", 502, 5, 7, b"generic", 8, len(message))
    (path / "coremldata.bin").write_bytes(header + message + bytes(16))
    read = coreml.read(path)
    assert read.description == model.description and read.specification_version == 8


def test_a_description_of_another_program_is_not_taken(tmp_path: Path) -> None:
    path = coreml.write_compiled(coreml.make_model(coreml.parse(coreml_programs.OLD)), tmp_path / "m.mlmodelc")
    other = {"name": "other", "type": "Image", "width": "2", "height": "2", "colorspace": "RGB"}
    (path / "metadata.json").write_text(json.dumps([{"inputSchema": [other], "outputSchema": []}]))
    assert [feature.name for feature in coreml.read(path).description.inputs] == ["x"]


def test_pipelines_have_parts(tmp_path: Path) -> None:
    package = coreml.write_package(coreml_programs.classifier(), tmp_path / "one.mlpackage")
    inside = package / "Data" / "com.apple.CoreML"
    part = (inside / "model.mlmodel").read_bytes()
    network = encode([(1, 4), (2, b""), (500, b"")])
    pipeline = encode([(1, part), (1, network), (2, "first"), (2, "second")])
    (inside / "model.mlmodel").write_bytes(encode([(1, 9), (2, b""), (202, pipeline)]))
    model = coreml.read(package)
    assert model.kind == "pipeline" and model.program is None
    assert [inner.kind for inner in model.parts] == ["mlProgram", "neuralNetwork"]
    assert model.parts[0].program == coreml_programs.classifier().program
    with pytest.raises(ValueError, match=r"the model is of the kind pipeline\. Only ML programs can be written"):
        coreml.write_package(model, tmp_path / "two.mlpackage")
    for _ in range(6):
        part = encode([(1, 9), (2, b""), (200, encode([(1, encode([(1, part)]))]))])
    (inside / "model.mlmodel").write_bytes(part)
    assert "pipelines are nested too deeply" in refusal(package)


def test_compiled_pipelines_have_parts(tmp_path: Path) -> None:
    folder = tmp_path / "all.mlmodelc"
    for number, text in enumerate(TEXTS.values()):
        made = coreml.write_compiled(coreml.make_model(coreml.parse(text)), tmp_path / f"{number}.mlmodelc")
        shutil.copytree(made, folder / f"model{number}")
    (folder / "metadata.json").write_text('[{"inputSchema": [], "outputSchema": []}]')
    assert [part.program.dialect for part in coreml.read(folder).parts if part.program] == ["1.0", "1.3"]


# Damage.


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return coreml.write_package(coreml_programs.classifier(), tmp_path / "model.mlpackage")


def refusal(path: Path) -> str:
    with pytest.raises(DamagedFile) as error:
        coreml.read(path)
    assert str(path.parent) in str(error.value)
    return str(error.value)


def change_weights(package: Path, place: int, data: bytes) -> None:
    file = package / "Data/com.apple.CoreML/weights/weight.bin"
    whole = bytearray(file.read_bytes())
    whole[place : place + len(data)] = data
    file.write_bytes(bytes(whole))


@pytest.mark.parametrize(
    ("place", "data", "reason"),
    [
        (4, struct.pack("<I", 1), "has version 1; version 2 is read"),
        (64, b"\0\0\0\0", "begin with 0x00000000 instead of 0xdeadbeef"),
        (68, struct.pack("<I", 1), r"are fp16, but the program says tensor<fp32, \[3, 60\]>"),
        (68, struct.pack("<I", 99), "are elements of the unknown type 99"),
        (72, struct.pack("<Q", 719), "have 719 bytes, but .* takes 720"),
        (80, struct.pack("<Q", 2**63), "The file is cut|It is cut or damaged"),
    ],
)
def test_damaged_weights(package: Path, place: int, data: bytes, reason: str) -> None:
    import re

    change_weights(package, place, data)
    message = refusal(package)
    assert re.search(reason, message) and "const 'weight'" in message


def test_missing_and_cut_weights(package: Path) -> None:
    file = package / "Data/com.apple.CoreML/weights/weight.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:70])
    assert "lie outside of the file, which has 70 bytes" in refusal(package)
    file.write_bytes(b"")
    assert "has 0 bytes, too few" in refusal(package)
    file.unlink()
    assert "cannot be read (No such file or directory)" in refusal(package)


@pytest.mark.parametrize("name", ["/etc/passwd", "@model_path/../../secret", "..", "", "a\\b", "@model_path/link"])
def test_weights_outside_of_the_model_are_not_read(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(struct.pack("<II56x", 1, 2) + struct.pack("<IIQQ32x", 0xDEADBEEF, 2, 8, 128) + bytes(64))
    folder = tmp_path / "m.mlmodelc"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    quoted = name.replace("\\", "\\\\")
    line = f'tensor<fp32, [2]> y = const()[val = tensor<fp32, [2]>(BLOBFILE(path = string("{quoted}"), offset = uint64(64)))];'
    (folder / "model.mil").write_text(body(line))
    message = refusal(folder)
    assert "outside of the model. It is not read" in message and "model.mil:3:55" in message


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("{", "does not name the model of the package"),
        ("[]", "does not name the model"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {}}', "does not name the model"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "../../x"}}}', "outside of the package"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "/etc/passwd"}}}', "outside of the package"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "com.apple.CoreML"}}}', "which is a folder"),
        ('{"rootModelIdentifier": "a", "itemInfoEntries": {"a": {"path": "nothing"}}}', "No such file"),
    ],
)
def test_damaged_manifests(package: Path, manifest: str, reason: str) -> None:
    (package / "Manifest.json").write_text(manifest)
    assert reason in refusal(package)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        coreml.read(tmp_path / "nothing.mlpackage")
    (tmp_path / "empty").mkdir()
    assert "holds neither Manifest.json" in refusal(tmp_path / "empty")
    (tmp_path / "empty" / "model.espresso.net").touch()
    assert "is a compiled neural network of the old kind" in refusal(tmp_path / "empty")
    (tmp_path / "a.mlmodel").write_bytes(b"")
    assert "is empty" in refusal(tmp_path / "a.mlmodel")
    (tmp_path / "a.mlmodel").write_bytes(b"\x08\x07")
    assert "is not a Core ML model" in refusal(tmp_path / "a.mlmodel")
    (tmp_path / "a.mil").write_bytes(b"program(1.3) \xff")
    assert "is not text in UTF-8 (byte 13)" in refusal(tmp_path / "a.mil")


def test_files_can_only_be_written_under_their_endings(tmp_path: Path) -> None:
    model = coreml_programs.classifier()
    with pytest.raises(ValueError, match=r"write_package: the name is 'a.zip'. End it in .mlpackage"):
        coreml.write_package(model, tmp_path / "a.zip")
    with pytest.raises(ValueError, match=r"write_compiled: the name is 'a.zip'. End it in .mlmodelc"):
        coreml.write_compiled(model, tmp_path / "a.zip")
    text_only = coreml.parse(coreml_programs.NEW)
    path = coreml.write_package(model, tmp_path / "a.mlpackage")
    with pytest.raises(
        coreml.CoreMLError, match="relu 'result' has an opset of its own, 'ios17', which only texts can say"
    ):
        coreml.write_package(coreml.make_model(text_only), path)
    assert coreml.read(path) == model  # a failure leaves what was there
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.mlpackage"]
    shutil.rmtree(path)


def test_all_element_types_have_numbers_of_their_own() -> None:
    for key in ("number", "blob"):
        numbers = [getattr(element, key) for element in ELEMENTS.values() if getattr(element, key) is not None]
        assert len(set(numbers)) == len(numbers)
    assert FILE_NAME == "@model_path/weights/weight.bin"


def test_damaged_files_of_all_kinds() -> None:
    """A sample of what ``make fuzz`` tries."""
    outcomes = fuzz_coreml.run(150, seed=1)
    assert sum(outcomes.values()) == 150 and outcomes["read"] < 75

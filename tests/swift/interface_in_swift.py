"""The Swift package as the compiler sees it: every declaration of the facts, and C functions and structs as macOS has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from openbnns.clib import swift
from swift import interface
from swift.swift_tools import PROGRAMS, ROOT, Module, run

pytest_plugins = ["swift.swift_fixtures"]

FACTS = ROOT / "tools" / "facts"
GLOBALS = "(globals)"
"""C constants, which Swift imports without our help."""

C_NAMES = {
    "size_t": "Int", "ssize_t": "Int", "float": "Float", "bool": "Bool", "uint32_t": "UInt32", "int32_t": "Int32",
    "uint8_t": "UInt8", "uint64_t": "UInt64", "char": "CChar",
}  # fmt: skip


def facts(name: str) -> Any:
    return json.loads((FACTS / name).read_text(encoding="utf-8"))


def emit_module(folder: Path, version: str) -> Path:
    """The module without its code, in a language mode and without a warning; the text of its interface."""
    path = folder / "Accelerate.swiftinterface"
    sources = sorted((swift.package() / "Sources" / "Accelerate").rglob("*.swift"))
    run(
        "swiftc", "-swift-version", version, "-warnings-as-errors", "-parse-as-library", "-module-name", "Accelerate",
        f"-I{swift.package() / 'Sources' / 'COpenBNNS'}", "-enable-library-evolution", "-emit-module", "-emit-module-path",
        folder / "Accelerate.swiftmodule", "-emit-module-interface-path", path, *sources, cwd=folder,
    )  # fmt: skip
    return path


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, interface.Declared]:
    """The declarations that swiftc finds in the sources."""
    return interface.read(emit_module(tmp_path_factory.mktemp("interface"), "6").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "count"), [("swift_overlay.json", 517), ("swift_graph.json", 219)])
def test_every_declaration_is_there(name: str, count: int, declared: dict[str, interface.Declared]) -> None:
    present, missing = 0, []
    for type in facts(name)["types"]:
        if type["name"] == GLOBALS:
            continue
        ours = declared[type["name"]]
        expected = interface.expected(type)
        missing += [f"{type['name']}: {member}" for member in sorted(expected - ours.members)]
        present += len(expected & ours.members)
        inherited = {*type["conforms"], *filter(None, [type.get("superclass")])}
        missing += [f"{type['name']}: {inherits}" for inherits in sorted(inherited - ours.inherits)]
        assert ours.kind == type.get("kind", "extension"), type["name"]
    assert missing == []
    assert present == count


def test_a_missing_declaration_would_be_noticed(declared: dict[str, interface.Declared]) -> None:
    """The reader sees labels, types, defaults, whether something throws, and who can set a property."""
    members = declared["BNNS.PoolingType"].members | declared["BNNS.AdamOptimizer"].members
    case = (
        "case max(indices: UnsafeMutableBufferPointer<Int>? = nil, xDilationStride: Int = 0, yDilationStride: Int = 0)"
    )
    assert {case, "var timeStep: Float { get set }", "var accumulatorCountMultiplier: Int { get }"} <= members
    assert case.replace("= nil", "") not in members
    step = next(m for m in declared["BNNSOptimizer"].members if m.startswith("func step") and "= nil" in m)
    assert step.endswith("filterParameters: BNNSFilterParameters? = nil) throws")


def swift_type(c_type: str) -> str:
    """A type of a field as Swift imports it."""
    array = re.fullmatch(r"(.+?)((?:\[\d+\])+)", c_type.replace(" ", "").replace("const", "const "))
    if array:
        inner = swift_type(array[1])
        for count in reversed(re.findall(r"\d+", array[2])):
            inner = f"({', '.join([inner] * int(count))})"
        return inner
    words = c_type.replace("*", " * ").split()
    optional = "" if "_Nonnull" in words else "?"
    if "*" not in words:
        name = words[0]
        return f"{name}?" if "_Nullable" in words else C_NAMES.get(name, name)
    target = next(word for word in words if word != "const")
    mutable = "" if words[0] == "const" else "Mutable"
    if target == "void":
        return f"Unsafe{mutable}RawPointer{optional}"
    return f"Unsafe{mutable}Pointer<{C_NAMES.get(target, target)}>{optional}"


def test_c_functions_and_structs_have_the_types_of_macos(module: Module, tmp_path: Path) -> None:
    checks = []
    for one in facts("swift_signatures.json")["functions"]:
        returns = "Void" if one["returns"] in ("Void", "()", "") else one["returns"]
        wanted = f"(({', '.join(one['parameters'])}) -> {returns}).self"
        checks.append(f'check("{one["function"]}", type(of: {one["function"]}) == {wanted})')
    for name, struct in facts("structs.json").items():
        for field in [] if name.startswith("_") else struct["fields"]:
            path, wanted = f"\\{name}.{field['name']}", f"WritableKeyPath<{name}, {swift_type(field['type'])}>.self"
            checks.append(f'check("{name}.{field["name"]}", type(of: {path}) == {wanted})')
    assert len(checks) > 400
    source = tmp_path / "main.swift"
    source.write_text(
        "import Accelerate\nnonisolated(unsafe) var wrong: [String] = []\n"
        "func check(_ name: String, _ right: Bool) { if !right { wrong.append(name) } }\n"
        + "\n".join(checks) + "\nprint(wrong)\n", encoding="utf-8",
    )  # fmt: skip
    program = module.compile(source, name="types", options=("-Onone",))
    assert run(program, cwd=tmp_path).stdout.strip() == "[]"


@pytest.mark.parametrize("version", ["5", "6"])
def test_both_language_modes_compile_without_warnings(version: str, tmp_path: Path) -> None:
    emit_module(tmp_path, version)
    names = ("builder", "calls", "classes", "graph", "memory", "vectors")
    for source in (*(PROGRAMS / f"{name}.swift" for name in names), ROOT / "examples" / "swift" / "digits.swift"):
        options = ("-typecheck", "-parse-as-library", "-swift-version", version, "-warnings-as-errors")
        run("swiftc", *options, PROGRAMS / "support.swift", source, *swift.swift_flags(tmp_path)[:2], cwd=tmp_path)

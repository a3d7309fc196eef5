"""The C header: names, numbers and layouts of the facts, for every compiler of this machine, and words for every function."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from c_compilers import C_PROGRAMS, INCLUDE, STRICT, Compiler, compilers, environment_of_programs
from openbnns.clib import flags

ROOT = Path(__file__).resolve().parents[2]
FACTS = Path(__file__).resolve().parents[2] / "tools" / "facts"
COMPILERS = compilers()
HEADERS = [
    "openbnns/bnns.h",
    "Accelerate/Accelerate.h",
    "vecLib/vecLib.h",
    "vecLib/BNNS/bnns.h",
    "vecLib/BNNS/bnns_constants.h",
    "vecLib/BNNS/bnns_structures.h",
    "vecLib/BNNS/bnns_graph.h",
]
every_compiler = pytest.mark.parametrize("compiler", COMPILERS, ids=str)


def facts(name: str) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text(encoding="utf-8"))
    return {key: value for key, value in held.items() if not key.startswith("_")}


def compile_only(compiler: Compiler, folder: Path, text: str, *options: str) -> None:
    source = folder / f"program{compiler.suffix}"
    source.write_text(text, encoding="utf-8")
    result = compiler.run(*STRICT, *options, f"-I{INCLUDE}", "-c", source, "-o", folder / "program.o")
    assert result.returncode == 0, result.stderr


def test_there_are_compilers_of_both_languages() -> None:
    assert {compiler.suffix for compiler in COMPILERS} == {".c", ".cpp"}


def test_the_header_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "make_header.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@every_compiler
@pytest.mark.parametrize("header", HEADERS)
def test_each_header_stands_alone(compiler: Compiler, header: str, tmp_path: Path) -> None:
    program = (
        f"#include <{header}>\n#include <{header}>\nBNNSFilter filter;\nint main(void) {{ return filter != 0; }}\n"
    )
    compile_only(compiler, tmp_path, program)


@every_compiler
def test_layouts(compiler: Compiler, tmp_path: Path) -> None:
    """Size of every struct, offset and size of every field, as measured where BNNS comes from."""
    lines = ["#include <Accelerate/Accelerate.h>", "#include <assert.h>", "#include <stddef.h>"]
    for name, struct in facts("structs").items():
        lines.append(f'static_assert(sizeof({name}) == {struct["sizeof_lp64"]}, "{name}");')
        for field in struct["fields"]:
            where = f"{name}, {field['name']}"
            lines.append(f'static_assert(offsetof({where}) == {field["offset_lp64"]}, "{where}");')
    assert len(lines) > 390
    compile_only(compiler, tmp_path, "\n".join([*lines, "int main(void) { return 0; }", ""]))


@every_compiler
def test_constants(compiler: Compiler, tmp_path: Path) -> None:
    """Value of every constant; every enum has 32 bits and no sign."""
    lines = ["#include <openbnns/bnns.h>", "#include <assert.h>"]
    for name, members in facts("constants").items():
        lines.append(f'static_assert(sizeof({name}) == 4 && ({name})-1 > 0, "{name}");')
        lines += [f'static_assert({member} == {value}, "{member}");' for member, value in members.items()]
    lines.append('static_assert(BNNS_MAX_TENSOR_DIMENSION == 8, "rank");')
    compile_only(compiler, tmp_path, "\n".join([*lines, "int main(void) { return 0; }", ""]))


def plain(c_type: str) -> str:
    return " ".join(re.sub(r"_N\w+", "", c_type).split())


@every_compiler
def test_functions(compiler: Compiler, tmp_path: Path) -> None:
    """Every function can be assigned to a pointer of the type that the facts describe."""
    functions = facts("functions") | facts("own_functions")
    assert len(functions) == 97 + 42 + 5
    lines = ["#include <openbnns/bnns.h>", "int main(void) {", "  int count = 0;"]
    for first, function in functions.items():
        types = ", ".join(plain(parameter["type"]) for parameter in function["parameters"]) or "void"
        for name in filter(None, (first, function.get("also"))):
            lines.append(f"  {{ {plain(function['returns']['type'])} (*f)({types}) = {name}; count += f != 0; }}")
    lines += [
        "  { const char *(*f)(void) = openbnns_last_error; count += f != 0; }",
        "  { const char *(*f)(void) = openbnns_version; count += f != 0; }",
        "  { int (*f)(const char *) = openbnns_set_compat; count += f != 0; }",
    ]
    compile_only(compiler, tmp_path, "\n".join([*lines, "  return count - 157;", "}", ""]), "-Wno-address")


@every_compiler
@pytest.mark.parametrize("program", ["first_generation.c", "as_on_macos.c"])
def test_programs_written_for_macos_compile(compiler: Compiler, program: str, tmp_path: Path) -> None:
    """As C, and as C++20, which has designated initializers."""
    if compiler.suffix == ".cpp":
        compiler = replace(compiler, standard="c++20")
    compile_only(compiler, tmp_path, (C_PROGRAMS / program).read_text(encoding="utf-8"))


def test_enums_are_types_of_their_own_in_cpp(tmp_path: Path) -> None:
    """As on macOS: C++ programs overload on them."""
    compiler = next(c for c in COMPILERS if c.suffix == ".cpp")
    compile_only(
        compiler,
        tmp_path,
        "#include <openbnns/bnns.h>\n"
        'static const char *name(BNNSDataType) { return "type"; }\n'
        'static const char *name(BNNSDataLayout) { return "layout"; }\n'
        "int main() { return name(BNNSDataTypeFloat32)[0] == name(BNNSDataLayoutVector)[0]; }\n",
    )


@pytest.mark.parametrize(
    "words", ["@import Accelerate;", "#import <Accelerate/Accelerate.h>", "#pragma clang module import Accelerate"]
)
@pytest.mark.parametrize("compiler", [c for c in COMPILERS if c.command[0] == "clang"], ids=str)
def test_the_module_for_swift(compiler: Compiler, words: str, tmp_path: Path) -> None:
    """Swift reads module maps with Clang. The module, imported as Objective-C does it, has functions and constants."""
    source, program = tmp_path / "program.m", tmp_path / "program"
    source.write_text(
        f"{words}\nint main(void) {{ return BNNSDataLayoutGetRank(BNNSDataLayoutImageCHW) != 3; }}\n", encoding="utf-8"
    )
    modules = ["-fmodules", f"-fmodules-cache-path={tmp_path / 'modules'}"]
    result = compiler.run(*STRICT, *modules, *flags.compile_flags(), source, "-o", program, *flags.link_flags())
    assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "modules").rglob("Accelerate-*.pcm"))) == 1
    ran = subprocess.run([program], env=environment_of_programs(OPENBNNS_PYTHON=sys.executable), check=False)
    assert ran.returncode == 0


def test_every_function_is_explained() -> None:
    """Each has a comment right before it that ends with what it returns."""
    text = (INCLUDE / "openbnns" / "bnns.h").read_text(encoding="utf-8")
    for name, function in facts("functions").items():
        match = re.search(rf"/\*\*((?:(?!\*/).)*)\*/\n[\w \*]*\b{name}\(", text, re.DOTALL)
        assert match, name
        words = match[1].split()
        assert len(words) > 4, name
        assert ("Returns" in words) == (function["returns"]["type"] != "void"), name
        if "also" in function:
            assert f"\n{function['returns']['type']} {function['also']}(" in text


def test_the_module_map_names_what_there_is() -> None:
    folder = INCLUDE / "Accelerate"
    for header in re.findall(r'header "(.*)"', (folder / "module.modulemap").read_text(encoding="utf-8")):
        assert (folder / header).exists()

"""Programs in C, C++, Zig, Rust and Swift, and hosts that have Python: built with the library that is installed, and run.

GCC is always here, because building the package needs it; other compilers are used if they are here, and then really.
``make test-c`` brings Zig and CMake.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from c_compilers import C_PROGRAMS, INCLUDE, LIBRARY, PACKAGE, STRICT, Compiler, compilers
from openbnns.clib import flags

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NUMPY = Path(np.__file__).resolve().parents[1]
COMPILERS = [compiler for compiler in compilers() if compiler.standard in ("c11", "c++17")]
C_COMPILERS = [compiler for compiler in COMPILERS if compiler.suffix == ".c"]
CPP_COMPILERS = [compiler for compiler in COMPILERS if compiler.suffix == ".cpp"]


def environment() -> dict[str, str]:
    """No variable helps a program to find anything; only a library that is not installed cannot know its Python."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LD_", "OPENBNNS"))
    }
    return variables if PACKAGE.parent == NUMPY else variables | {"OPENBNNS_PYTHON": sys.executable}


def output_of(*command: str | Path, cwd: Path | None = None) -> str:
    """What a program prints; it has to succeed."""
    run = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, check=False)
    assert run.returncode == 0, f"{command[0]} ended with {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout + run.stderr


def built(compiler: Compiler, source: Path, folder: Path) -> Path:
    """The program of a source file, compiled without a warning and linked as `openbnns c-flags` says."""
    program = folder / source.stem
    result = compiler.run(
        *STRICT, "-O2", *flags.compile_flags(), source, "-o", program, *flags.link_flags(), "-lm", "-pthread"
    )
    assert result.returncode == 0, result.stderr
    return program


def losses_of(text: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^ *\d+  (\S+)$", text, re.MULTILINE)]


@pytest.fixture(scope="module")
def losses_in_python() -> list[float]:
    """Of 30 steps of examples/digits_capi.py with seed 5."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import digits_capi

        return digits_capi.train(seed=5, steps=30)[1]


@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_digits(compiler: Compiler, tmp_path: Path, losses_in_python: list[float]) -> None:
    """The losses are those of the Python program under the C names, to the last bit."""
    text = output_of(built(compiler, EXAMPLES / "c" / "digits.c", tmp_path), "30", "5")
    assert np.float32(losses_of(text)).tolist() == np.float32(losses_in_python).tolist()
    assert re.search(r"Reads \d+\.\d % of 320 new images correctly\.", text)


@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_perceptron(compiler: Compiler, tmp_path: Path) -> None:
    """It learns; the program itself says so."""
    assert output_of(built(compiler, EXAMPLES / "c" / "mlp.c", tmp_path)).count("points right") == 9


@pytest.mark.parametrize("compiler", CPP_COMPILERS, ids=str)
def test_attention(compiler: Compiler, tmp_path: Path) -> None:
    """Eleven gradients, each compared with finite differences by the program."""
    assert len(output_of(built(compiler, EXAMPLES / "c" / "attention.cpp", tmp_path)).splitlines()) == 12


@pytest.mark.parametrize("program", ["first_generation.c", "as_on_macos.c", "graph_stubs.c"])
@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_programs_as_written_for_macos(compiler: Compiler, program: str, tmp_path: Path) -> None:
    stubs = Compiler((*compiler.command, "-DOPENBNNS_GRAPH_STUBS"), compiler.standard)
    output_of(built(stubs, C_PROGRAMS / program, tmp_path))


def test_every_function_of_the_header_is_in_the_library(tmp_path: Path) -> None:
    declared = re.findall(r"^[\w \*]+?\b((?:BNNS|openbnns_)\w+)\(", (INCLUDE / "openbnns" / "bnns.h").read_text(), re.M)
    assert len(declared) == 100
    lines = ["#include <openbnns/bnns.h>", "int main(void) {", "  void *volatile found;"]
    lines += [f"  found = (void *)(size_t){name};" for name in declared]
    source = tmp_path / "all.c"
    source.write_text("\n".join([*lines, "  return found == NULL;", "}", ""]))
    output_of(built(C_COMPILERS[0], source, tmp_path))


# Other languages.


@dataclass(frozen=True)
class Toolchain:
    """How a language that is no C builds a program."""

    name: str
    source: Path

    def build(self, folder: Path) -> Path:
        program = folder / self.name
        getattr(self, f"_build_{self.name}")(program)
        return program

    def _build_zig(self, program: Path) -> None:
        zig = (sys.executable, "-m", "ziglang")
        header = INCLUDE / "openbnns" / "bnns.h"
        translated = program.parent / "bnns.zig"
        with translated.open("w") as file:
            subprocess.run([*zig, "translate-c", "-lc", f"-I{INCLUDE}", header], stdout=file, check=True)
        subprocess.run(
            [*zig, "build-exe", "-lc", "--dep", "bnns", f"-Mroot={self.source}", f"-Mbnns={translated}",
             f"-L{LIBRARY.parent}", "-lopenbnns", "-rpath", LIBRARY.parent, f"-femit-bin={program}"],
            check=True,
        )  # fmt: skip

    def _build_rust(self, program: Path) -> None:
        subprocess.run(
            ["rustc", "-D", "warnings", "-O", self.source, "-L", LIBRARY.parent, "-o", program, "-C",
             f"link-arg=-Wl,-rpath,{LIBRARY.parent}"],
            check=True,
        )  # fmt: skip

    def _build_swift(self, program: Path) -> None:
        subprocess.run(
            ["swiftc", self.source, "-o", program, "-I", INCLUDE, "-L", LIBRARY.parent, "-Xlinker", "-rpath", "-Xlinker",
             LIBRARY.parent],
            check=True,
        )  # fmt: skip


def toolchains() -> list[Toolchain]:
    found = [Toolchain("zig", EXAMPLES / "zig" / "threads.zig")] if importlib.util.find_spec("ziglang") else []
    found += [Toolchain("rust", EXAMPLES / "rust" / "threads.rs")] if shutil.which("rustc") else []
    found += [Toolchain("swift", EXAMPLES / "swift" / "layer.swift")] if shutil.which("swiftc") else []
    return found


def test_other_languages(tmp_path: Path) -> None:
    """Zig and Rust with four threads each, Swift with the module Accelerate; each program checks its numbers."""
    for toolchain in toolchains():
        text = output_of(toolchain.build(tmp_path))
        assert "all numbers are right" in text or toolchain.name == "swift"


# Builds.


def test_pkg_config(tmp_path: Path) -> None:
    """The file as pkg-config reads it, from wherever it lies: variables expand to the folders of the package."""
    file = PACKAGE / "lib" / "pkgconfig" / "openbnns.pc"
    text = file.read_text(encoding="utf-8")
    variables = {"pcfiledir": str(file.parent)}
    fields: dict[str, str] = {}
    for line in text.splitlines():
        expanded = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], line)
        if assignment := re.fullmatch(r"(\w+)=(.*)", expanded):
            variables[assignment[1]] = assignment[2]
        elif field := re.fullmatch(r"(\w+): (.*)", expanded):
            fields[field[1]] = field[2]
    if shutil.which("pkg-config"):
        asked = ["pkg-config", "--cflags", "--libs", str(file)]
        words = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        assert words == [*fields["Cflags"].split(), *fields["Libs"].split()]
    program = tmp_path / "program"
    source = EXAMPLES / "c" / "mlp.c"
    result = C_COMPILERS[0].run(source, "-o", program, *fields["Cflags"].split(), *fields["Libs"].split(), "-lm")
    assert result.returncode == 0, result.stderr
    assert "points right" in output_of(program)


def test_cmake(tmp_path: Path) -> None:
    """A project that asks for the package, also for a version that there is, and for one that there is not."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if cmake is None:
        return  # `make test-c` brings it
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(program LANGUAGES C)\n"
        "find_package(OpenBNNS ${WANTED} REQUIRED)\nfind_package(OpenBNNS REQUIRED)\n"
        f"add_executable(program {EXAMPLES / 'c' / 'mlp.c'})\n"
        "target_link_libraries(program PRIVATE OpenBNNS::OpenBNNS m)\n"
    )

    def configure(wanted: str) -> subprocess.CompletedProcess[str]:
        build = tmp_path / f"build-{wanted}"
        options = [
            f"-DCMAKE_PREFIX_PATH={PACKAGE}",
            f"-DWANTED={wanted}",
            "-DCMAKE_C_COMPILER=gcc",
            "-G",
            "Unix Makefiles",
        ]
        command = [cmake, "-S", tmp_path, "-B", build, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for wanted in ("", "0.1"):
        result = configure(wanted)
        assert result.returncode == 0, result.stderr
    output_of(cmake, "--build", tmp_path / "build-0.1")
    assert "points right" in output_of(tmp_path / "build-0.1" / "program")
    for wanted in ("99", "1000.1"):
        assert "requested version" in configure(wanted).stderr


# Hosts that have Python.


def test_the_same_interpreter() -> None:
    text = subprocess.run(
        [sys.executable, EXAMPLES / "c" / "host_python.py"], capture_output=True, text=True, check=True
    ).stdout
    assert "and the C library share openbnns" in text


def test_another_interpreter(tmp_path: Path) -> None:
    """One that does not know openbnns: the library brings it. NumPy it has, here or from the folder of the library."""
    script = EXAMPLES / "c" / "host_python.py"
    variables = environment() | ({} if PACKAGE.parent == NUMPY else {"PYTHONPATH": str(NUMPY)})
    knows = subprocess.run([sys.executable, "-S", "-c", "import openbnns"], env=variables, cwd=tmp_path, check=False)
    assert knows.returncode != 0
    run = subprocess.run(
        [sys.executable, "-S", script, LIBRARY],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "and the C library share openbnns" in run.stdout


# The docs page.


def test_the_programs_of_the_page(tmp_path: Path) -> None:
    """Each C program of docs/c.md compiles without a warning and prints what the page says."""
    page = (ROOT / "docs" / "c.md").read_text(encoding="utf-8")
    programs = re.findall(r"```c\n(.*?)```\n(?:.*?)```text\n(.*?)```", page, re.DOTALL)
    assert programs
    for number, (program, expected) in enumerate(programs):
        source = tmp_path / f"program{number}.c"
        source.write_text(program, encoding="utf-8")
        assert output_of(built(C_COMPILERS[0], source, tmp_path)) == expected

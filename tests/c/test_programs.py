"""Programs in C and C++, and hosts that have Python: built with the library that is installed, and run.

GCC is always here, because building the package needs it; other compilers are used if they are here, and then really
(``c_tools.py``). ``make test-c`` brings Zig, CMake and pkg-config.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import c_tools
from c_compilers import (
    C_PROGRAMS,
    INCLUDE,
    LIBRARY,
    PACKAGE,
    STRICT,
    Compiler,
    compilers,
    environment_of_programs,
)
from openbnns.clib import flags

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NUMPY = Path(np.__file__).resolve().parents[1]
COMPILERS = [compiler for compiler in compilers() if compiler.standard in ("c11", "c++17")]
C_COMPILERS = [compiler for compiler in COMPILERS if compiler.suffix == ".c"]
CPP_COMPILERS = [compiler for compiler in COMPILERS if compiler.suffix == ".cpp"]


def environment() -> dict[str, str]:
    """No variable helps a program to find anything; only a library that is not installed cannot know its Python."""
    return environment_of_programs(OPENBNNS_PYTHON=None if PACKAGE.parent == NUMPY else sys.executable)


def output_of(*command: str | Path, cwd: Path | None = None) -> str:
    """The output of a program, which has to succeed."""
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
    """Losses of 30 steps of examples/digits_capi.py with seed 5."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        import digits_capi

        return digits_capi.train(seed=5, steps=30)[1]


@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_first_program(compiler: Compiler, tmp_path: Path) -> None:
    text = output_of(built(compiler, EXAMPLES / "c" / "first.c", tmp_path))
    assert text.startswith("y = 2.000 x + 1.000, loss ")


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


@pytest.mark.parametrize("program", ["first_generation.c", "as_on_macos.c"])
@pytest.mark.parametrize("compiler", C_COMPILERS, ids=str)
def test_programs_as_written_for_macos(compiler: Compiler, program: str, tmp_path: Path) -> None:
    output_of(built(compiler, C_PROGRAMS / program, tmp_path))


def test_every_function_of_the_header_is_in_the_library(tmp_path: Path) -> None:
    declared = re.findall(r"^[\w \*]+?\b((?:BNNS|openbnns_)\w+)\(", (INCLUDE / "openbnns" / "bnns.h").read_text(), re.M)
    assert len(declared) == 97 + 42 + 5 + 10 + 3
    lines = ["#include <openbnns/bnns.h>", "int main(void) {", "  void *volatile found;"]
    lines += [f"  found = (void *)(size_t){name};" for name in declared]
    source = tmp_path / "all.c"
    source.write_text("\n".join([*lines, "  return found == NULL;", "}", ""]))
    output_of(built(C_COMPILERS[0], source, tmp_path))


def test_tools_that_were_promised_are_here() -> None:
    """Nothing is left out in silence: what ``make test-c`` brings is here, and the summary of a run names the rest."""
    assert [name for name in c_tools.promised() if name not in c_tools.NAMES] == []
    assert [name for name in c_tools.promised() if name in c_tools.missing()] == []


# Builds. Each way for C11 and for C++17, without a warning, with every compiler.

SOURCES = {".c": (EXAMPLES / "c" / "mlp.c", "points right"), ".cpp": (EXAMPLES / "c" / "attention.cpp", "gradient")}


def build_and_run(compiler: Compiler, words: list[str], folder: Path) -> None:
    """A program of the language, with the words that a build tool gives."""
    source, expected = SOURCES[compiler.suffix]
    result = compiler.run(*STRICT, "-O1", source, "-o", folder / "program", *words, "-lm")
    assert result.returncode == 0, result.stderr
    assert expected in output_of(folder / "program")


@pytest.mark.parametrize("compiler", COMPILERS, ids=str)
def test_c_flags(compiler: Compiler, tmp_path: Path) -> None:
    """As a shell puts the words of `openbnns c-flags` into a command."""
    asked = subprocess.run([sys.executable, "-m", "openbnns", "c-flags"], capture_output=True, text=True, check=True)
    build_and_run(compiler, shlex.split(asked.stdout), tmp_path)


@pytest.mark.parametrize("compiler", COMPILERS, ids=str)
def test_pkg_config(compiler: Compiler, tmp_path: Path) -> None:
    """The file as pkg-config reads it, from wherever it lies: variables expand to the folders of the package."""
    file = PACKAGE / "lib" / "pkgconfig" / "openbnns.pc"
    variables = {"pcfiledir": str(file.parent)}
    fields: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        expanded = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], line)
        if assignment := re.fullmatch(r"(\w+)=(.*)", expanded):
            variables[assignment[1]] = assignment[2]
        elif field := re.fullmatch(r"(\w+): (.*)", expanded):
            fields[field[1]] = field[2]
    words = [*fields["Cflags"].split(), *fields["Libs"].split()]
    if tool := c_tools.command("pkg-config"):
        asked = [*tool, "--cflags", "--libs", str(file)]
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        assert [Path(word).name for word in told] == [Path(word).name for word in words]
        words = told
    build_and_run(compiler, words, tmp_path)


@dataclass(frozen=True)
class Project:
    """A CMake project with a program in C11 and one in C++17."""

    folder: Path
    c: str
    cpp: str

    def write(self) -> None:
        lines = [
            "cmake_minimum_required(VERSION 3.18)",
            "project(programs LANGUAGES C CXX)",
            "set(CMAKE_C_STANDARD 11)",
            "set(CMAKE_CXX_STANDARD 17)",
            "set(CMAKE_C_EXTENSIONS OFF)",
            "set(CMAKE_CXX_EXTENSIONS OFF)",
            "find_package(OpenBNNS ${WANTED} REQUIRED)",
            "find_package(OpenBNNS REQUIRED)",
            f"add_compile_options({' '.join(STRICT)})",
        ]
        for suffix, (source, _) in SOURCES.items():
            lines += [
                f"add_executable(program{suffix} {source})",
                f"target_link_libraries(program{suffix} PRIVATE OpenBNNS::OpenBNNS m)",
            ]
        (self.folder / "CMakeLists.txt").write_text("\n".join([*lines, ""]))

    def configure(self, wanted: str) -> subprocess.CompletedProcess[str]:
        command = [*CMAKE, "-S", self.folder, "-B", self.folder / f"build-{wanted}", f"-DCMAKE_PREFIX_PATH={PACKAGE}",
                   f"-DWANTED={wanted}", f"-DCMAKE_C_COMPILER={self.c}", f"-DCMAKE_CXX_COMPILER={self.cpp}",
                   "-G", "Unix Makefiles"]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, check=False)


CMAKE = c_tools.command("cmake") or ()
PAIRS = [pair for pair in (("gcc", "g++"), ("clang", "clang++")) if CMAKE and all(map(c_tools.command, pair))]


@pytest.mark.parametrize(("c", "cpp"), PAIRS)
def test_cmake(c: str, cpp: str, tmp_path: Path) -> None:
    """A project that asks for the package, also for a version that there is, and for one that there is not."""
    project = Project(tmp_path, c, cpp)
    project.write()
    for wanted in ("", "0.1"):
        result = project.configure(wanted)
        assert result.returncode == 0, result.stderr
    output_of(*CMAKE, "--build", tmp_path / "build-0.1")
    for suffix, (_, expected) in SOURCES.items():
        assert expected in output_of(tmp_path / "build-0.1" / f"program{suffix}")
    for wanted in ("99", "1000.1"):
        assert "requested version" in project.configure(wanted).stderr


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


# The docs pages.


@pytest.mark.parametrize("page", ["c.md", "graphs.md"])
def test_the_programs_of_the_page(page: str, tmp_path: Path) -> None:
    """Each C program compiles without a warning and prints what the page says, where long lines are broken."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    programs = re.findall(r"```c\n(.*?)```\n(?:.*?)```text\n(.*?)```", text, re.DOTALL)
    assert programs
    for number, (program, expected) in enumerate(programs):
        source = tmp_path / f"program{number}.c"
        source.write_text(program, encoding="utf-8")
        assert output_of(built(C_COMPILERS[0], source, tmp_path), cwd=tmp_path).split() == expected.split()

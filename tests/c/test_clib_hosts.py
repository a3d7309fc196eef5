"""The C library in programs that have no Python: threads, forks, signals, exits, handles; and where it finds its Python."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import c_tools
from c_compilers import C_PROGRAMS, LIBRARY, PACKAGE, STRICT, compilers, environment_of_programs
from openbnns.clib import flags

CASES = [
    "threads", "errors", "many_threads", "early_forks", "forks", "leave", "signals", "memory", "handles", "destruction",
    "allocators", "packing", "names",
]  # fmt: skip
VERSION = "{}.{}".format(*sys.version_info)
NUMPY = ["numpy", *(p.name for p in Path(np.__file__).resolve().parents[1].glob("numpy.libs"))]


def build(path: Path, *options: str) -> Path:
    """``hosts.c``, built as `openbnns c-flags` says."""
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    built = compiler.run(
        *STRICT,
        "-O2",
        *options,
        *flags.compile_flags(),
        C_PROGRAMS / "hosts.c",
        "-o",
        path,
        *flags.link_flags(),
        "-pthread",
    )
    assert built.returncode == 0, built.stderr
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("hosts") / "hosts")


def run(program: Path, case: str, **variables: str | None) -> subprocess.CompletedProcess[str]:
    """A program in an environment that says nothing of Python but what is given."""
    given = environment_of_programs(**{"OPENBNNS_PYTHON": sys.executable, **variables})
    return subprocess.run([program, case], capture_output=True, text=True, env=given, timeout=600, check=False)


@pytest.mark.parametrize("case", CASES)
def test_hosts(program: Path, case: str) -> None:
    result = run(program, case)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_variables_of_the_host_for_python_are_not_ours(program: Path) -> None:
    result = run(program, "names", PYTHONHOME="/nowhere", PYTHONPATH="/nowhere", PYTHONSTARTUP="/nowhere")
    assert (result.returncode, result.stderr) == (0, "")


def refusal(program: Path, **variables: str | None) -> str:
    """The one line that a program prints which finds no usable Python; its calls fail, and nothing else happens."""
    result = run(program, "nothing", **variables)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0] == f"openbnns: {result.stdout.strip()}"
    return lines[0]


def test_no_interpreter(program: Path, tmp_path: Path) -> None:
    assert re.search("OPENBNNS_PYTHON is /nowhere, .*Set it to a Python", refusal(program, OPENBNNS_PYTHON="/nowhere"))
    assert "OPENBNNS_PYTHON is" in refusal(program, OPENBNNS_PYTHON=str(tmp_path))
    assert "does not run as a Python interpreter" in refusal(program, OPENBNNS_PYTHON=script(tmp_path, "exit 1"))


def script(folder: Path, *lines: str) -> str:
    """A program that stands in for an interpreter."""
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / "python3"
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_python_without_a_shared_library(program: Path, tmp_path: Path) -> None:
    """Answer the library's questions as this interpreter does, and as one without a shared library would."""
    real = f'exec "{sys.executable}" "$@"'
    done = run(program, "names", OPENBNNS_PYTHON=script(tmp_path, real))
    assert (done.returncode, done.stderr) == (0, "")
    built_without = "import sys, sysconfig; sysconfig.get_config_vars().update(Py_ENABLE_SHARED=0); exec(sys.argv[1])"
    line = refusal(program, OPENBNNS_PYTHON=script(tmp_path, f'exec "{sys.executable}" -I -c "{built_without}" "$4"'))
    assert "has no shared libpython" in line and "--enable-shared" in line
    removed = "import sys, sysconfig; sysconfig.get_config_vars().update(LIBDIR='/nowhere'); exec(sys.argv[1])"
    line = refusal(program, OPENBNNS_PYTHON=script(tmp_path, f'exec "{sys.executable}" -I -c "{removed}" "$4"'))
    assert "has no shared libpython" in line and f"libpython{VERSION}" in line


def test_python_of_another_version(program: Path, tmp_path: Path) -> None:
    line = refusal(program, OPENBNNS_PYTHON=script(tmp_path, "echo 3.7", "echo /nowhere/libpython3.7.so"))
    assert f"is Python 3.7, but this library belongs to OpenBNNS for Python {VERSION}" in line


def test_host_with_a_python_that_is_too_old(tmp_path: Path) -> None:
    """Which is recognized by its version, before anything that it lacks is missed."""
    line = refusal(build(tmp_path / "hosts", "-rdynamic", '-DHOST_PYTHON="3.7.16"'), OPENBNNS_PYTHON=None)
    assert f"the Python of this process is 3.7.16, but this library belongs to OpenBNNS for Python {VERSION}" in line
    assert f"Use Python {VERSION}, or the library of an OpenBNNS that is installed for the other." in line


IN_ANOTHER_PYTHON = """
import ctypes, sys
before = list(sys.path)
library = ctypes.CDLL(sys.argv[1])
library.openbnns_last_error.restype = ctypes.c_char_p
assert library.BNNSFilterApply(None, None, None) == -1
assert library.BNNSFilterApply(None, None, None) == -1
assert sys.path == before, "the folder of another version was added to sys.path"
print(library.openbnns_last_error().decode())
"""


@pytest.mark.parametrize("with_package", [False, True])
def test_hosts_with_another_python(with_package: bool) -> None:
    """Interpreters of other versions that are here: without an OpenBNNS, and with one that has nothing compiled for them."""
    for python in c_tools.other_pythons():
        given = environment_of_programs(PYTHONPATH=str(PACKAGE.parent) if with_package else None)
        isolated = [] if with_package else ["-S"]  # with an OpenBNNS of its own, the library would work
        command = [python, *isolated, "-c", IN_ANOTHER_PYTHON, LIBRARY]
        asked = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
        assert asked.returncode == 0, f"{python} ended with {asked.returncode}\n{asked.stderr}"
        assert f"but this library belongs to OpenBNNS for Python {VERSION}" in asked.stdout
        assert asked.stderr.endswith(f"openbnns: {asked.stdout}")  # after the package's own warning if NumPy is there


def test_library_that_is_none(program: Path) -> None:
    assert "Python's library cannot be loaded" in refusal(program, OPENBNNS_LIBPYTHON="/dev/null")


def test_wrong_switches(program: Path) -> None:
    assert "no preset or switch 'macos99'" in refusal(program, OPENBNNS_COMPAT="macos99")


def environment(folder: Path, *packages: str) -> Path:
    """A virtual environment with links to some of the packages that are here, as installers make them, too."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = folder / "lib" / f"python{VERSION}" / "site-packages"
    for package in packages:
        source = PACKAGE if package == "openbnns" else Path(np.__file__).resolve().parents[1] / package
        if package == "openbnns":
            (site / package / "lib").mkdir(parents=True)
            for entry in source.iterdir():
                if entry.name != "lib":
                    (site / package / entry.name).symlink_to(entry)
            (site / package / "lib" / "libopenbnns.so").symlink_to(source / "lib" / "libopenbnns.so")
        else:
            (site / package).symlink_to(source)
    return site


def test_environment_without_numpy(program: Path, tmp_path: Path) -> None:
    site = environment(tmp_path / "bare", "openbnns")
    library = site / "openbnns" / "lib" / "libopenbnns.so"
    line = refusal(program, OPENBNNS_PYTHON=None, LD_PRELOAD=str(library))
    assert "OpenBNNS cannot be imported" in line and "No module named 'numpy'" in line
    (site / "numpy").mkdir()  # as a broken one does: a page of advice, and the reason behind it
    (site / "numpy" / "__init__.py").write_text(
        "try:\n    import nothing_compiled\nexcept ImportError as error:\n"
        "    raise ImportError('\\n\\nREAD THIS FOR ADVICE\\nof many lines') from error\n"
    )
    line = refusal(program, OPENBNNS_PYTHON=None, LD_PRELOAD=str(library))
    assert line.endswith("No module named 'nothing_compiled'")


def test_system_that_is_too_old(program: Path, tmp_path: Path) -> None:
    """Compiled parts that need a newer C library than there is: the loader's reason, and no more than a line."""
    site = environment(tmp_path / "old", "openbnns", *NUMPY)
    newer, version = tmp_path / "libc.so.6", tmp_path / "newer.map"
    version.write_text("GLIBC_2.99 { global: new_function; };\n")
    for entry in (site / "openbnns").glob("_core*.so"):
        entry.unlink()
        compiler = next(c for c in compilers() if c.standard == "gnu17")
        sources = {
            newer: "int new_function(void) { return 1; }",
            entry: "int new_function(void); int f(void) { return new_function(); }",
        }
        for target, text in sources.items():
            source = tmp_path / "source.c"
            source.write_text(text)
            rest = [f"-Wl,--version-script={version}", "-Wl,-soname,libc.so.6"] if target == newer else [newer]
            made = compiler.run("-shared", "-fPIC", "-nostdlib", source, "-o", target, *rest)
            assert made.returncode == 0, made.stderr
    line = refusal(program, OPENBNNS_PYTHON=None, LD_PRELOAD=str(site / "openbnns" / "lib" / "libopenbnns.so"))
    assert "the compiled core cannot be loaded" in line and "`GLIBC_2.99' not found" in line


def test_environment_of_the_library(program: Path, tmp_path: Path) -> None:
    """It is found from where the library lies, also after a move; without its interpreter it does not count as one."""
    place = environment(tmp_path / "first", "openbnns", *NUMPY) / "openbnns" / "lib"
    alone: dict[str, str | None] = {"OPENBNNS_PYTHON": None}
    done = run(program, "names", **alone, LD_PRELOAD=str(place / "libopenbnns.so"))
    assert (done.returncode, done.stderr) == (0, "")
    shutil.move(tmp_path / "first", tmp_path / "second")
    moved = tmp_path / "second" / place.relative_to(tmp_path / "first") / "libopenbnns.so"
    done = run(program, "names", **alone, LD_PRELOAD=str(moved))
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("python", "python3", f"python{VERSION}"):  # the Python that it was made from has gone
        (tmp_path / "second" / "bin" / name).unlink(missing_ok=True)
        (tmp_path / "second" / "bin" / name).symlink_to("/nowhere/bin/python3")
    line = refusal(program, **alone, LD_PRELOAD=str(moved))
    assert "has no Python any more" in line and str(tmp_path / "second") in line


def test_log(program: Path) -> None:
    result = run(program, "allocators", OPENBNNS_LOG="1")
    assert result.returncode == 0
    assert "openbnns: BNNSFilterCreateLayerFullyConnected: filter_params.alloc_memory is set" in result.stderr


def test_strict_mode_warns_about_a_filter_destroyed_twice(program: Path) -> None:
    result = run(program, "handles", OPENBNNS_STRICT="1")
    assert result.returncode == 0
    assert "StrictWarning: BNNSFilterDestroy: the filter has been destroyed already. Destroy it once" in result.stderr


def test_exports() -> None:
    """The names of the facts and those of our own, and nothing of a Python or of C++ at run time."""
    from openbnns import capi
    from openbnns.clib.layouts import FUNCTIONS

    own = {"openbnns_last_error", "openbnns_version", "openbnns_set_compat"}
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", flags.require_library()], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    second = {f"{name}_v2" for name, _, _ in FUNCTIONS if f"{name}_v2" in capi.__all__}
    assert len(FUNCTIONS) == 97 + 42 + 5 and len(second) == 10
    assert names == {name for name, _, _ in FUNCTIONS} | second | own
    needed = subprocess.run(["readelf", "-d", flags.require_library()], capture_output=True, text=True, check=True)
    assert not [line for line in needed.stdout.splitlines() if "NEEDED" in line and ("python" in line or "++" in line)]
    assert "NODELETE" in needed.stdout


def test_tables_are_up_to_date() -> None:
    """The files are what tools/generate_clib.py writes."""
    tool = Path(__file__).resolve().parents[2] / "tools" / "generate_clib.py"
    checked = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr

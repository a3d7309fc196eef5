"""Builds of `make train` and `make test`: each only what it needs, nothing twice, and never tests on kernels for one CPU."""

from __future__ import annotations

import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (".compiler", ".created", ".build-tools", ".test-tools")
ALL, NATIVE = "tools/build.py all", "tools/build.py native"


@pytest.fixture
def stamps(tmp_path: Path) -> Path:
    """An environment with all tools, in which nothing is installed."""
    for name in TOOLS:
        touch(tmp_path / name, later=1000)
    return tmp_path


def touch(stamp: Path, *, later: float) -> None:
    """A time after all sources were written, in seconds."""
    newest = max(
        path.stat().st_mtime for part in ("src", "core", "cmake", "tools") for path in (ROOT / part).rglob("*")
    )
    stamp.touch()
    os.utime(stamp, (newest + later, newest + later))


def commands(target: str, stamps: Path) -> str:
    """The commands that make would run."""
    if shutil.which("make") is None:
        raise RuntimeError("there is no make, which everything else is started with")
    command = ["make", "--dry-run", "--no-print-directory", f"VENV={stamps}", target]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_training_needs_one_instruction_set_and_tests_all(stamps: Path) -> None:
    train, test = commands("train", stamps), commands("test", stamps)
    assert NATIVE in train and ALL not in train
    assert ALL in test and NATIVE not in test
    assert f"rm -f {stamps}/.installed" in train, "else tests would run on what training has installed"


def test_training_may_be_repeated(stamps: Path) -> None:
    assert "openbnns train --out out --force" in commands("train", stamps)


def test_after_training(stamps: Path) -> None:
    touch(stamps / ".native", later=2000)
    assert "build.py" not in commands("train", stamps)
    assert ALL in commands("test", stamps)


def test_after_tests(stamps: Path) -> None:
    touch(stamps / ".installed", later=2000)
    touch(stamps / ".native", later=2000)
    assert "build.py" not in commands("train", stamps) + commands("test", stamps)
    touch(stamps / ".build-tools", later=3000)  # as a change of a source does
    assert NATIVE in commands("train", stamps)
    assert ALL in commands("test", stamps)


SYSTEMS = {
    ("ubuntu", "debian"): "apt-get install g++",
    ("debian", ""): "apt-get install g++",
    ("fedora", ""): "dnf install gcc-c++",
    ("rocky", "rhel centos fedora"): "dnf install gcc-c++",
    ("opensuse-leap", "suse opensuse"): "zypper install gcc-c++",
    ("manjaro", "arch"): "pacman -S gcc",
    ("alpine", ""): "apk add g++",
    ("unheard-of", ""): "GCC 11 or newer, or Clang, with the package manager of this system",
}
"""The packages to install, by ID and ID_LIKE of /etc/os-release."""


@pytest.mark.parametrize("system", SYSTEMS)
def test_without_a_compiler_one_line_names_the_package(system: tuple[str, str], tmp_path: Path) -> None:
    """By make, before it makes or installs anything, on a search path without compilers."""
    started = tmp_path / "started.py"  # as the Python of that system
    started.write_text(
        "import platform, runpy, sys\n"
        "platform.system = lambda: 'Linux'\n"
        f"platform.freedesktop_os_release = lambda: dict(ID={system[0]!r}, ID_LIKE={system[1]!r})\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n",
        encoding="utf-8",
    )
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "find", "echo", "mkdir", "touch"):
        if path := shutil.which(name):
            (programs / name).symlink_to(path)
    venv = tmp_path / "venv"
    done = subprocess.run(
        [str(shutil.which("make")), f"VENV={venv}", f"PYTHON={sys.executable} {started}", "train"],
        cwd=ROOT, env={"PATH": str(programs)}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0 and not venv.exists()
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert line.startswith("There is no C++ compiler (c++, g++, clang++), which building needs. Install one: ")
    assert line.endswith(SYSTEMS[system])


def test_a_compiler_that_is_named_but_not_there() -> None:
    tool = [sys.executable, "tools/need_compiler.py"]
    missing = subprocess.run(
        tool,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "CXX": "g++-77 -m64"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert missing.stderr == "CXX names the compiler g++-77, which is not there: unset it, or correct it.\n"


def test_workflows_call_targets_that_exist(stamps: Path) -> None:
    """Workflows of .github, in which a name from the matrix stands for each of its values."""
    called = set()
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        for command in re.findall(r"- run: (?:.* )?make (.+)", text):
            targets = re.sub(r'\b[A-Z]+=("[^"]*"|\$\{\{.*?\}\})', "", command)  # without variables
            called |= set(re.sub(r"\$\{\{.*?\}\}", "", targets).split())
            for name in re.findall(r"\$\{\{ matrix\.(\w+) \}\}", targets):
                called |= {word for value in re.findall(rf"\b{name}: ([\w -]+)", text) for word in value.split()}
    assert called >= {"check", "test", "wheels", "test-wheels", "test-debian11", "test-arm64", "test-sdist"}
    for target in called:
        commands(target, stamps)  # or make says that there is no rule for it


def test_core_tests_name_no_instruction_set() -> None:
    """Each is compiled for one, and a build may have no other: a name would not link (`make test-core ISAS=native`)."""
    for source in sorted((ROOT / "core" / "tests").iterdir()):
        assert not re.search(r"\b(base|avx2|avx512)::|kernels_(base|avx2|avx512)\b", source.read_text()), source.name


def test_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {name for names in re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE) for name in names.split()}
    told = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert {line.split()[1] for line in told.splitlines()} == targets - {"help"}
    assert targets >= FIXED


FIXED = {
    "train", "test", "test-peers", "test-core", "test-c", "test-mpi", "test-swift", "test-models", "wheels", "docs", "release",
    "bench", "check", "fuzz", "sanitize", "scoreboard", "clean", "help",
}  # fmt: skip
"""Names that people and pipelines rely on."""


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("install")


def test_groups_of_packages_are_those_of_the_project(install: ModuleType) -> None:
    """Every group that the Makefile and its scripts install is in pyproject.toml, and each package has one version there."""
    groups = install.groups()
    texts = [ROOT / "Makefile", *(ROOT / "tools").glob("*.sh")]
    called = re.findall(r"(?:\$\(INSTALL\)|tools/install\.py\"?)((?: [\w-]+)+)", "\n".join(map(Path.read_text, texts)))
    named = {name for names in called for name in names.split() if not name.startswith("-")}
    assert named >= {"run", "build", "cross"} and named <= set(groups)
    stamps = set(re.findall(r"\$\(VENV\)/\.([\w-]+)-tools", (ROOT / "Makefile").read_text())) - {"build"}
    assert stamps >= {"test", "check", "bench"} and stamps <= set(groups)
    every = {package for name in groups for package in install.requirements(name, groups)}
    names = [re.split(r"[<>=; ]", package)[0] for package in every if package not in ("cmake", "ninja")]
    assert len(names) == len(set(names))
    assert set(install.requirements("test", groups)) >= {"onnx>=1.16", "pillow>=10", "pytest>=7.4"}
    assert [*install.requirements("numpy==1.24", groups)] == ["numpy==1.24"]


def test_hooks_run_what_make_check_runs() -> None:
    checks = runpy.run_path(str(ROOT / "tools" / "check.py"))["CHECKS"]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"id: (.+)", hooks) == [*checks]
    assert re.findall(r"entry: \.venv/bin/python tools/check\.py (.+)", hooks) == [*checks]

"""Build wheels that run on other machines: ``python tools/build_wheels.py [--target aarch64-linux-gnu] [PYTHON ...]``.

Zig's Clang compiles against the headers and the symbol versions of an old C library, and links a C++ library of its own
statically, so that a wheel needs nothing but the C library, in this version or any later one. One folder of object files
serves all Pythons: kernels do not depend on Python and are compiled once per target.

Without names, all interpreters from 3.10 to 3.14 are used that are in the search path or lie beside the one that runs this.
They also serve for other processors of 64 bits, because Python's headers say the same there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import ziglang

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = [f"3.{minor}" for minor in range(10, 15)]
BUILD = "from scikit_build_core.build import build_wheel; import json, sys; build_wheel(sys.argv[1], json.loads(sys.argv[2]))"

# Zig has names of its own for processors.
WRAPPER = """#!/bin/sh
for word; do
  shift
  case "$word" in
    -march=x86-64-v3) word=-march=x86_64_v3 ;;
    -march=x86-64-v4) word=-march=x86_64_v4 ;;
  esac
  set -- "$@" "$word"
done
exec "{zig}" {command} "$@"
"""


@dataclass(frozen=True)
class Target:
    """What the wheels are for, as Zig calls it and as wheels do."""

    name: str
    processor: str
    system: str
    zig: str
    tag: str


TARGETS = {
    target.name: target
    for target in (
        Target("x86_64-linux-gnu", "x86_64", "Linux", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
        Target("aarch64-linux-gnu", "aarch64", "Linux", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
        Target("x86_64-linux-musl", "x86_64", "Linux", "x86_64-linux-musl", "musllinux_1_2_x86_64"),
        Target("aarch64-linux-musl", "aarch64", "Linux", "aarch64-linux-musl", "musllinux_1_2_aarch64"),
    )
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, default="x86_64-linux-gnu")
    parser.add_argument("--isas", default="all", help="instruction sets; wheels for others have all of them (default)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "wheels")
    parser.add_argument("pythons", nargs="*", type=Path, help="interpreters to build for")
    options = parser.parse_args()
    target = TARGETS[options.target]
    pythons = options.pythons or interpreters()
    compiler = write_compiler(target)
    print(f"Wheels for {target.name}, Python {', '.join(version_of(p) for p in pythons)}", flush=True)
    for python in pythons:
        wheel = build(python, target, compiler, options.isas, options.out)
        print(f"{wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB", flush=True)


def interpreters() -> list[Path]:
    """One for each version, the first that is found and runs."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted(Path(sys.base_prefix).parent.glob("3.*/bin"), reverse=True)
    found = []
    for version in VERSIONS:
        programs = (folder / f"python{version}" for folder in folders)
        found += [p for p in programs if os.access(p, os.X_OK) and version_of(p) == version][:1]
    return found


def version_of(python: Path) -> str:
    """Empty if it does not run."""
    command = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2] + getattr(sys, 'abiflags', ''))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def write_compiler(target: Target) -> Path:
    """Programs that call Zig for the target, because CMake wants each tool to be one file."""
    folder = ROOT / "build" / "zig" / target.zig
    folder.mkdir(parents=True, exist_ok=True)
    zig = Path(ziglang.__file__).with_name("zig")
    for name, command in {"c++": f"c++ -target {target.zig} -g0", "ar": "ar", "ranlib": "ranlib"}.items():
        program = folder / name
        program.write_text(WRAPPER.format(zig=zig, command=command), encoding="utf-8")
        program.chmod(0o755)
    return folder


def build(python: Path, target: Target, tools: Path, isas: str, out: Path) -> Path:
    """The wheel for one Python, under the name that says where it runs."""
    version = version_of(python)
    environment = ROOT / "build" / "wheels" / f"python{version}"
    own = environment / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
        install = [sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "scikit-build-core>=0.10", "nanobind>=2.4", "wheel>=0.44"], check=True)
    made = ROOT / "build" / "wheels" / "made"
    shutil.rmtree(made, ignore_errors=True)
    settings = {
        "build-dir": f"build/wheels/{target.name}",
        "install.strip": "false",  # the linker does it, for any processor
        "cmake.define.OPENBNNS_ISAS": isas,
        "cmake.define.CMAKE_CXX_COMPILER": str(tools / "c++"),
        "cmake.define.CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # which Zig cannot use
        "cmake.define.CMAKE_AR": str(tools / "ar"),
        "cmake.define.CMAKE_RANLIB": str(tools / "ranlib"),
        "cmake.define.CMAKE_SYSTEM_NAME": target.system,
        "cmake.define.CMAKE_SYSTEM_PROCESSOR": target.processor,
        "cmake.define.CMAKE_MODULE_LINKER_FLAGS": "-Wl,-s",
        "cmake.define.CMAKE_SHARED_LINKER_FLAGS": "-Wl,-s",
    }
    suffix = f".cpython-{version.replace('.', '')}-{target.name}.so"
    # The tools of the environment that runs this: CMake and Ninja.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = os.environ | {"PATH": path, "SETUPTOOLS_EXT_SUFFIX": suffix}
    subprocess.run([own, "-c", BUILD, str(made), json.dumps(settings)], cwd=ROOT, env=variables, check=True)
    retag = [own, "-m", "wheel", "tags", "--remove", "--platform-tag", target.tag]
    subprocess.run([*retag, *made.glob("*.whl")], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = made.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


if __name__ == "__main__":
    main()

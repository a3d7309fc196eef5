"""Build wheels that run on other machines: ``python tools/build_wheels.py [--target aarch64-linux-gnu] [PYTHON ...]``.

Zig's Clang compiles against the headers and the symbol versions of an old C library, and links a C++ library of its own
statically, so that a wheel needs nothing but the C library, in this version or any later one. One folder of object files
serves all Pythons: kernels do not depend on Python and are compiled once per target.

Without names, all interpreters from 3.11 to 3.14 are used that are in the search path, lie beside the one that runs this, or
are in build/pythons, where tools/roots/compile_python.sh and unpack_python.sh put them.
They also serve for other processors of 64 bits, because Python's headers say the same there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from zig import ROOT, TARGETS, Target, cmake_definitions

VERSIONS = [*(f"3.{minor}" for minor in range(11, 15)), "3.13t", "3.14t"]  # the last two are free-threaded
BUILD = "from scikit_build_core.build import build_wheel; import json, sys; build_wheel(sys.argv[1], json.loads(sys.argv[2]))"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=[name for name in TARGETS if "linux" in name], default="x86_64-linux-gnu")
    parser.add_argument("--isas", default="all", help="instruction sets; wheels for others have all of them (default)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "wheels")
    parser.add_argument("pythons", nargs="*", type=Path, help="interpreters to build for")
    options = parser.parse_args()
    target = TARGETS[options.target]
    pythons = options.pythons or interpreters()
    print(f"Wheels for {target.name}, Python {', '.join(version_of(p) for p in pythons)}", flush=True)
    for python in pythons:
        wheel = build(python, target, options.isas, options.out)
        print(f"{wheel.name}  {wheel.stat().st_size / 1e6:.2f} MB", flush=True)


def interpreters() -> list[Path]:
    """One for each version, the first that is found and runs."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted(Path(sys.base_prefix).parent.glob("3.*/bin"), reverse=True)
    folders += sorted(ROOT.glob("build/pythons/3.*/bin"))
    chosen = []
    for version in VERSIONS:
        programs = (folder / f"python{version}" for folder in folders)
        chosen += [p for p in programs if os.access(p, os.X_OK) and version_of(p) == version][:1]
    return chosen


def version_of(python: Path) -> str:
    """Empty if it does not run."""
    command = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2] + getattr(sys, 'abiflags', ''))"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def build_tools() -> Path:
    """A folder with what builds a wheel, in Python alone, for every interpreter: to another copy of it, a folder of object files
    would be a stranger's, to be emptied."""
    folder = ROOT / "build" / "wheels" / "tools"
    if not folder.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder]
        subprocess.run([*install, "scikit-build-core>=0.10", "nanobind>=2.4", "wheel>=0.44"], check=True)
    return folder


def build(python: Path, target: Target, isas: str, out: Path) -> Path:
    """The wheel for one Python, under the name that says where it runs."""
    settings = {
        "build-dir": str(ROOT / "build" / "wheels" / target.name),
        "install.strip": "false",  # the linker does it, for any processor
        "cmake.define.OPENBNNS_ISAS": isas,
        "cmake.define.CMAKE_MODULE_LINKER_FLAGS": "-Wl,-s",
        "cmake.define.CMAKE_SHARED_LINKER_FLAGS": "-Wl,-s",
        **{f"cmake.define.{name}": value for name, value in cmake_definitions(target).items()},
    }
    suffix = f".cpython-{version_of(python).replace('.', '')}-{target.name}.so"
    (Path(settings["build-dir"]) / "CMakeCache.txt").unlink(missing_ok=True)  # which knows the Python before this one
    made = ROOT / "build" / "wheels" / "made"
    shutil.rmtree(made, ignore_errors=True)
    together = os.environ | {"PYTHONPATH": str(build_tools()), "SETUPTOOLS_EXT_SUFFIX": suffix}
    subprocess.run([python, "-c", BUILD, str(made), json.dumps(settings)], cwd=ROOT, env=together, check=True)
    retag = [python, "-m", "wheel", "tags", "--remove", "--platform-tag", target.tag, *made.glob("*.whl")]
    subprocess.run(retag, env=together, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = made.glob("*.whl")
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(wheel, out / wheel.name))


if __name__ == "__main__":
    main()

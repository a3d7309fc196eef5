"""Test wheels on every Python and NumPy that they are for: ``python tools/test_pythons.py [--portion 1/4] [PYTHON ...]``.

For each interpreter that `make wheels` finds, the wheel of this machine in dist/wheels is installed into an environment of its
own, once with the oldest NumPy that both support and once with the newest, and the suite runs there, or the portion of it
that is asked for. With --compile, wheels are made with the compiler of this machine instead, which takes a fraction of the
time if `make` has compiled the kernels before. Ends with a table.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from pathlib import Path

from build_wheels import build_here, interpreters, version_of

from zig import ROOT

OLDEST_NUMPY = {"3.10": "1.24.0", "3.11": "1.24.0", "3.12": "1.26.0", "3.13": "2.1.0", "3.14": "2.3.2",
                "3.13t": "2.1.0", "3.14t": "2.3.2"}  # fmt: skip
"""The first with a wheel for this Python, and not before the first that OpenBNNS takes."""

TOOLS = ["pytest>=7.4", "pytest-xdist>=3.3", "hypothesis>=6.80", "mypy>=1.10", "mpi4py>=4.0", "mpich>=4.2",
         "pillow>=10", "onnx>=1.16"]  # fmt: skip

VERSIONS = "import sys, numpy; print('Python', sys.version.split()[0], 'NumPy', numpy.__version__)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portion", default="1/1", help="as in pytest's option of that name")
    parser.add_argument("--numpy", choices=["oldest", "newest"], action="append", help="only this one")
    parser.add_argument("--workers", default="2", help="tests at a time")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files or folders (default: all)")
    parser.add_argument("--compile", action="store_true", help="make the wheels, for this machine only")
    parser.add_argument("--pythons", nargs="+", type=Path, default=interpreters(), help="default: all that are found")
    options = parser.parse_args()
    rows, good = [], True
    for python in options.pythons:
        wheel = build_here(python, ROOT / "dist" / "pythons") if options.compile else wheel_for(version_of(python))
        for age in options.numpy or ["oldest", "newest"]:
            own = make_environment(python, age, wheel)
            versions = subprocess.run([own, "-c", VERSIONS], check=True, capture_output=True, text=True).stdout.strip()
            print(f"== {versions} ({age} NumPy)", flush=True)
            suite = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", options.workers, "-m", "not peers"]
            command = [*suite, "--portion", options.portion, *options.tests]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
            last = done.stdout.rstrip().splitlines()[-1]
            rows.append(f"{versions}: {last}")
            good &= done.returncode == 0
            print(done.stdout if done.returncode else last, flush=True)
    print("\n".join(["", f"Portion {options.portion} of {' '.join(options.tests)}:", *rows]))
    if not good:
        raise SystemExit(1)


def wheel_for(version: str) -> Path:
    """The wheel that `make wheels` has made for one Python."""
    tag = "cp" + version.replace(".", "")
    name = f"openbnns-*-{tag.rstrip('t')}-{tag}-manylinux*_{platform.machine()}.whl"
    wheels = sorted((ROOT / "dist" / "wheels").glob(name))
    if len(wheels) != 1:
        raise SystemExit(f"dist/wheels has {len(wheels)} wheels for Python {version}, not one: run `make wheels`.")
    return wheels[0]


def make_environment(python: Path, age: str, wheel: Path) -> Path:
    """Its interpreter. The wheel is installed anew, everything else only once."""
    version = version_of(python)
    folder = ROOT / "build" / "pythons" / "environments" / f"{version}-{age}"
    own = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", own, "install", "--quiet", "--disable-pip-version-check"]
    if not (folder / ".complete").exists():
        subprocess.run([python, "-m", "venv", "--without-pip", "--clear", folder], check=True)
        oldest = OLDEST_NUMPY[version]
        numpy = f"numpy=={oldest}" if age == "oldest" else "numpy"
        subprocess.run([*install, "--only-binary=:all:", numpy, *TOOLS], check=True)
        (folder / ".complete").touch()
    subprocess.run([*install, "--force-reinstall", "--no-deps", wheel], check=True)
    return own


if __name__ == "__main__":
    main()

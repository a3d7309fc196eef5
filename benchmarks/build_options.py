"""The effect of an option of the build: builds OpenBNNS with and without it for this CPU, and measures both in turns.

python benchmarks/build_options.py OPENBNNS_HARDENING=OFF --only call/
python benchmarks/build_options.py OPENBNNS_O3=OFF --only pooling

The ratios are those of versions.py, time with the given definitions of CMake over time without them: above 1, the build as it
is by default is faster. The first run compiles twice, some minutes without a compiler cache; both builds stay in
build/.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from scikit_build_core.build import build_wheel

BUILD = Path("build").resolve()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("definitions", nargs="+", metavar="NAME=VALUE", help="definitions of CMake")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="benchmarks with this in their name")
    parser.add_argument("--build-only", action="store_true", help="to measure later, when the machine is quiet")
    options = parser.parse_args()
    pythons = [environment(options.definitions), environment([])]
    if options.build_only:
        return 0
    versions = Path(__file__).with_name("versions.py")
    return subprocess.call([sys.executable, versions, *pythons, "--only", options.only])


def environment(definitions: list[str]) -> Path:
    """A Python with this interpreter's packages, but OpenBNNS built with these definitions."""
    label = re.sub(r"\W+", "-", "_".join(definitions) or "default")
    folder = BUILD / "options" / label
    # As deep as the folder of `make`: a compiler cache knows files by their paths from there.
    settings = {"build-dir": str(BUILD / f"options-{label}"), "cmake.define.OPENBNNS_ISAS": "native"}
    for definition in definitions:
        name, _, value = definition.partition("=")
        settings[f"cmake.define.{name}"] = value
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / build_wheel(str(folder), settings)
    packages = folder / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", packages, wheel]
    subprocess.run(install, check=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


if __name__ == "__main__":
    sys.exit(main())

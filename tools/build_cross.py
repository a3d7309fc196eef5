"""Compile the C++ tests of the kernels for another machine with Zig: ``python tools/build_cross.py --target aarch64-linux-gnu``.

They need no Python, so that they show what a compiler and a C library make of the kernels where there is no Python for the
target. ``make test-cross`` runs what can be run here, and looks at the rest.
"""

from __future__ import annotations

import argparse
import subprocess

from zig import ROOT, TARGETS, cmake_definitions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, default="aarch64-linux-gnu")
    target = TARGETS[parser.parse_args().target]
    folder = ROOT / "build" / "cross" / target.name
    definitions = {
        "CMAKE_BUILD_TYPE": "Release",
        "OPENBNNS_CORE_TESTS": "ON",
        **cmake_definitions(target),
    }
    print(f"Kernels and their C++ tests for {target.name}: some minutes", flush=True)
    words = [f"-D{name}={value}" for name, value in definitions.items()]
    configure = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "--log-level=WARNING", *words]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True)


if __name__ == "__main__":
    main()

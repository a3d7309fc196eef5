"""Build the wheel and install it into the environment that runs this: ``python tools/build.py {all,native}``.

``all`` has kernels for every instruction set, as wheels for others need them; ``native`` only for that of this CPU, which
takes a third of the time. Both share a folder of object files, so that neither compiles what the other has compiled.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from scikit_build_core.build import build_wheel

PROCESSOR_SECONDS = {"all": 600, "native": 160}
"""Processor seconds to compile with GCC 12 on a busy Xeon of 2.8 GHz. Only for the announcement."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("isas", choices=PROCESSOR_SECONDS)
    isas = parser.parse_args().isas
    began = time.perf_counter()
    announce(isas)
    folder = Path("dist", isas)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ.setdefault("NINJA_STATUS", "  [%f of %t, %es] ")
    name = build_wheel(str(folder), {"cmake.define.OPENBNNS_ISAS": isas, "build-dir": "build/install"})
    print("Installing the wheel: a few seconds", flush=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--force-reinstall",
        "--no-deps",
    ]
    later = ["--no-compile"] if isas == "native" else []  # Python compiles the modules that it imports
    subprocess.run([*pip, *later, str(folder / name)], check=True)
    print(
        f"Installed {name}, {(folder / name).stat().st_size / 1e6:.1f} MB, after {time.perf_counter() - began:.0f} s."
    )


def announce(isas: str) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    what = "the instruction set of this CPU" if isas == "native" else "all instruction sets"
    again = ", much less if most of it has been compiled before" if Path("build/install").exists() else ""
    cache = next(filter(shutil.which, ("ccache", "sccache")), None)
    cached = f" {cache} keeps what is compiled." if cache else ""
    seconds = round(PROCESSOR_SECONDS[isas] / cores, -1)
    print(f"Building OpenBNNS for {what}: about {seconds:.0f} s on {cores} cores{again}.{cached}", flush=True)


if __name__ == "__main__":
    main()

"""Time and memory of opening a Core ML package of 100 MB, and of the first prediction.

    python benchmarks/core_ml_opening.py [--megabytes 100]

Every figure is of a process of its own: seconds of ``MLModel(path)``, and resident memory after it beyond that of an empty
process that has imported the package; then the same of the first prediction. Weights stay mapped, so that the kernel counts
those that were read as memory of the process, but may drop them: ``own`` leaves them out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH = 1024


def memory() -> tuple[float, float]:
    """Resident megabytes of this process: all, and those that are not mapped from files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "RssAnon"))}
    return held["VmRSS"], held["RssAnon"]


def write(folder: Path, megabytes: int, element: str) -> Path:
    """A package of square products, one behind the other."""
    import numpy as np

    from openbnns.interop import coreml

    size, random = {"fp32": 4, "fp16": 2}[element], np.random.default_rng(0)
    layers = max(1, round(megabytes * 1e6 / (size * WIDTH * WIDTH)))
    ports = coreml.NamedType("x", coreml.TensorType(element, (1, WIDTH)))
    operations, name = [], "x"
    for i in range(layers):
        weight = coreml.constant((random.standard_normal((WIDTH, WIDTH)) / 32).astype(np.float32), element)
        operations.append(
            coreml.Operation("const", {}, [coreml.NamedType(f"w{i}", weight.type)], attributes={"val": weight})
        )
        inputs = {"x": (name,), "weight": (f"w{i}",)}
        name = f"y{i}"
        operations.append(coreml.Operation("linear", inputs, [coreml.NamedType(name, ports.type)]))
    block = coreml.Block([], operations, [name])
    program = coreml.Program({"main": coreml.Function("main", [ports], "ios17", block)})
    return coreml.write_package(coreml.make_model(program), folder / f"{element}.mlpackage")


def measure(path: str) -> None:
    """Print seconds and megabytes of opening, and of the first prediction."""
    import numpy as np

    from openbnns.coreml import MLModel

    before, start = memory(), time.perf_counter()
    model = MLModel(path)
    opened, middle = memory(), time.perf_counter()
    model.predict({"x": np.ones((1, WIDTH), np.float32)})
    after, end = memory(), time.perf_counter()
    steps = (middle - start, opened, before), (end - middle, after, opened)
    print(
        *(f"{seconds:.2f} s, {now[0] - then[0]:.1f} MB, own {now[1] - then[1]:.1f} MB;" for seconds, now, then in steps)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100, help="of weights")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory() as folder:
        for element in ("fp32", "fp16"):
            path = write(Path(folder), options.megabytes, element)
            for kind in ("mlpackage", "mlmodelc"):
                if kind == "mlmodelc":
                    from openbnns.interop import coreml

                    path = coreml.write_compiled(coreml.read(path), Path(folder) / f"{element}.mlmodelc")
                said = subprocess.run(
                    [sys.executable, __file__, "--measure", str(path)], check=True, capture_output=True, text=True
                )
                print(f"{element} .{kind}: open and first prediction: {said.stdout.strip()}")


if __name__ == "__main__":
    main()

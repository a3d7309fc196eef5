"""Reading and standardizing a large CSV file, beside pandas with its C engine: processor time and memory.

The file has a column of classes and as many columns of numbers as ``--columns`` says, less one. Each side runs in a process of
its own, several times in turns; the fastest run counts. Ours also splits into training, validation and test rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

OURS = "openbnns, read, standardize and split"
READ, READ_AND_STANDARDIZE = "pandas, read", "pandas, read and standardize"
BLOCK = 10_000  # rows that are made once and written again and again: making text is slow, and no reader can tell


class Run(NamedTuple):
    seconds: float  # of the processor
    peak: float  # MB of memory, the file and the interpreter included


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3, help="runs of each side, in turns (default: 3)")
    parser.add_argument("--side", choices=(OURS, READ, READ_AND_STANDARDIZE), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    chosen = options()
    if chosen.side:
        print(json.dumps(measure(chosen.side, chosen.file)))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "table.csv")
        write(file, chosen.rows, chosen.columns)
        runs: dict[str, list[Run]] = {side: [] for side in (OURS, READ, READ_AND_STANDARDIZE)}
        for _ in range(chosen.runs):
            for side, measured in runs.items():
                measured.append(in_a_process(side, file))
        megabytes = file.stat().st_size / 1e6
    print(f"{chosen.rows:,} rows of {chosen.columns} columns, {megabytes:.0f} MB")
    best = {side: min(measured) for side, measured in runs.items()}
    for side, run in best.items():
        print(f"{side:40} {run.seconds:6.2f} s of the processor {run.peak:8.0f} MB")
    ours = best[OURS]
    for side in (READ, READ_AND_STANDARDIZE):
        print(f"time against {side}: {ours.seconds / best[side].seconds:.2f} (at most 1.5)")
    print(f"memory in sizes of the file: {ours.peak / megabytes:.2f} (at most 2)")


def write(file: Path, rows: int, columns: int) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(50, 20, (min(BLOCK, rows), columns - 1))
    labels = rng.choice(["low", "middle", "high"], len(numbers))
    lines = [",".join([*(f"{n:.6f}" for n in row), label]) for row, label in zip(numbers, labels, strict=True)]
    with file.open("w") as out:
        out.write(",".join([*(f"x{i}" for i in range(columns - 1)), "kind"]) + "\n")
        for start in range(0, rows, BLOCK):
            out.write("\n".join(lines[: rows - start]) + "\n")


def in_a_process(side: str, file: Path) -> Run:
    command = [sys.executable, __file__, "--side", side, "--file", str(file)]
    return Run(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def measure(side: str, file: Path) -> Run:
    if side == OURS:
        from openbnns import nn

        began = processor_seconds()
        data = nn.data.load(file, stream=False)
        assert data.classes == 3
    else:
        import pandas

        began = processor_seconds()
        frame = pandas.read_csv(file, engine="c")
        if side == READ_AND_STANDARDIZE:
            numbers = frame.iloc[:, :-1]
            frame = (numbers - numbers.mean()) / numbers.std()
    return Run(processor_seconds() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

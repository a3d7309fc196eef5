"""Executions of a graph of two kernels, from C and from Python, beside the kernels alone: ``python benchmarks/graph_calls.py``.

It shows what an execution costs before and after the kernels, with sizes that alternate, and on two threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np

import openbnns
from harness import Figure, Settings
from openbnns import graph, nn

SIZE = 8
_WEIGHTS = [[0.125] * SIZE] * SIZE
PROGRAM = f"""program(1.3) {{ func main<ios16>(tensor<fp32, [?, {SIZE}]> x) {{
    tensor<fp32, [{SIZE}, {SIZE}]> w = const()[val = tensor<fp32, [{SIZE}, {SIZE}]>({_WEIGHTS})];
    tensor<fp32, [?, {SIZE}]> h = linear(x = x, weight = w);
    tensor<fp32, [?, {SIZE}]> y = linear(x = h, weight = w); }} -> (y); }}"""

# What is measured, its name in the program, unit, scale, target.
_FIGURES = {
    "graph calls/two kernels alone": ("kernels", "us", 1e-3, None),
    "graph calls/execution from C": ("execute", "us", 1e-3, 0.4),
    "graph calls/execution from C, tensors of two sizes in turn": ("of_two_sizes", "us", 1e-3, 0.6),
    "graph calls/execution from C, two batch sizes set in turn": ("set_and_execute", "us", 1e-3, None),
}


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    if not Path(openbnns.__file__).parent.joinpath("lib", "libopenbnns.so").exists():
        return {}
    made: dict[str, Callable[[Settings], Figure]] = {name: partial(from_c, name=name) for name in _FIGURES}
    return made | {figure.__name__.replace("_", " "): figure for figure in (from_python, compiled_inference, threads)}


@cache
def _model() -> str:
    path = Path(tempfile.mkdtemp(prefix="openbnns-graph-"), "model.mil")
    path.write_text(PROGRAM)
    return str(path)


@cache
def _program() -> str:
    from openbnns.clib import flags

    source, program = Path(__file__).with_suffix(".c"), Path(_model()).with_name("graph_calls")
    command = ["cc", "-O2", *flags.compile_flags(), str(source), "-o", program, *flags.link_flags(), "-pthread"]
    subprocess.run(command, check=True)
    return str(program)


def _measured(case: str) -> float:
    environment = dict(os.environ, OPENBNNS_PYTHON=sys.executable, OPENBNNS_NUM_THREADS="1")
    run = subprocess.run([_program(), case, _model()], capture_output=True, check=True, text=True, env=environment)
    return float(run.stdout)


def from_c(settings: Settings, *, name: str) -> Figure:
    """The fastest round of a loop in C."""
    case, unit, scale, target = _FIGURES[name]
    return Figure(name, _measured(case) * scale, unit, target, at_most=True)


def _fastest(call: Callable[[], object]) -> float:
    """Microseconds of a call."""
    for _ in range(10):
        call()
    return min(timeit.repeat(call, number=5000, repeat=9)) / 5000 * 1e6


def from_python(settings: Settings) -> Figure:
    """``Context.execute``, which gives new arrays."""
    context, x = graph.Context(_model()), np.ones((1, SIZE), np.float32)
    return Figure(
        "graph calls/execution from Python", _fastest(lambda: context.execute({"x": x})), "us", 3.4, at_most=True
    )


def compiled_inference(settings: Settings) -> Figure:
    """A network of the two layers, compiled for inference."""
    infer = nn.Sequential(nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)).compile_inference(1)
    x = np.ones((1, SIZE), np.float32)
    return Figure(
        "graph calls/the same network by compile_inference", _fastest(lambda: infer(x)), "us", 3.4, at_most=True
    )


def threads(settings: Settings) -> Figure:
    """Executions per second of two threads with a context each, against one."""
    return Figure("graph calls/two threads with a context each", _measured("threads"), "x one", 1.9)


def main() -> None:
    for measure in figures().values():
        figure = measure(Settings())
        target = "" if figure.target is None else f"   {'at most' if figure.at_most else 'at least'} {figure.target:g}"
        print(f"{figure.name:62} {figure.value:8.2f} {figure.unit}{target}")


if __name__ == "__main__":
    main()

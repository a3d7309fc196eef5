"""Debuggers and profilers see through our frames: stacks can be unwound from inside every kernel to the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from c_compilers import C_PROGRAMS, compilers
from helpers import python

PROGRAM = """
import ctypes, sys, time
import numpy as np
import openbnns as bn

bn.set_num_threads(1)
rng = np.random.default_rng(0)
x = rng.standard_normal((64, 256), dtype=np.float32)
image = rng.standard_normal((4, 16, 64, 64), dtype=np.float32)
dense = bn.FullyConnectedLayer(weights=rng.standard_normal((256, 256), dtype=np.float32))
tanh = bn.ActivationLayer(function=bn.ActivationFunction.tanh(), input=bn.Shape.vector(256))
softmax = bn.ActivationLayer(function=bn.ActivationFunction.softmax(), input=bn.Shape.vector(256))
pool = bn.PoolingLayer(type=bn.PoolingType.max(), input=bn.Shape.image_chw(64, 64, 16), kernel_size=2, stride=2)
calls = {work}

def mapping(path):
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file if line.rstrip().endswith(path)]
    ends = [end for line in lines for end in line[0].split("-")]
    return int(min(ends, key=lambda e: int(e, 16)), 16), int(max(ends, key=lambda e: int(e, 16)), 16)

profiler = ctypes.CDLL(sys.argv[1])
profiler.frame_of.restype = ctypes.c_void_p
first, last = mapping(bn.engines._core.__file__)
for call in calls:
    call()
profiler.begin_samples()
until = time.process_time() + 0.3
while time.process_time() < until:
    for call in calls:
        call()
inside = ended = 0
for i in range(profiler.end_samples()):
    ours = [first <= (profiler.frame_of(i, k) or 0) < last for k in range(profiler.depth_of(i))]
    inside += any(ours)
    ended += bool(ours[-1])
print(inside, ended)
"""

WORK = {
    "products": "[lambda: dense.apply(x)]",
    "elementwise": "[lambda: tanh.apply(x)]",
    "softmax": "[lambda: softmax.apply(x)]",
    "pooling": "[lambda: pool.apply(image)]",
}


@pytest.fixture(scope="module")
def profiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profiler") / "stack_samples.so"
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    built = compiler.run("-O2", "-shared", "-fPIC", C_PROGRAMS / "stack_samples.c", "-o", path)
    assert built.returncode == 0, built.stderr
    return path


@pytest.mark.parametrize("work", WORK)
def test_stacks_reach_the_interpreter(profiler: Path, work: str) -> None:
    done = python("-c", PROGRAM.format(work=WORK[work]), str(profiler))
    assert done.returncode == 0, done.stderr
    inside, ended = map(int, done.stdout.split())
    assert inside > 20, "the samples missed the kernels"
    assert ended == 0, f"{ended} of {inside} stacks end inside the compiled module"

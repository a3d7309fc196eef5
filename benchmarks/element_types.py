"""How fast are forward calls on Float16, BFloat16 and Int8, against ours on Float32 and against PyTorch's on the same type?

python benchmarks/element_types.py                      on one thread
python benchmarks/element_types.py --threads 2
python benchmarks/element_types.py --isa avx2           ours without AVX-512; PyTorch is left out

Times are the least of rounds in which all take turns; a ratio above 1 means that the type is faster than Float32, or that we
are faster than PyTorch. `owned`: the filter has copied its weights and keeps them packed; `client`: they stay in the caller's
memory and may change between calls.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import openbnns
from cases import created
from openbnns import _core, capi
from timing import repeat

TYPES = {"Float32": np.float32, "Float16": np.float16, "BFloat16": np.uint16, "Int8": np.int8}
SIZES = ((64, 512, 512), (512, 1024, 1024), (129, 785, 1001), (8, 1024, 1024), (1, 512, 512), (1, 4096, 4096))
ROUNDS = 15
SLICE = 0.004  # seconds that each type works per round


def elements(rng: np.random.Generator, name: str, *shape: int) -> Any:
    """Random stored numbers."""
    if name == "Int8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    values = rng.standard_normal(shape).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if name == "BFloat16" else values.astype(TYPES[name])


def our_step(name: str, size: tuple[int, int, int], client: bool) -> Callable[[], int]:
    """A forward call of a fully connected layer with input, weights and output of one type."""
    batch, inputs, outputs = size
    rng = np.random.default_rng(1)
    x, w, b = elements(rng, name, batch, inputs), elements(rng, name, outputs, inputs), np.zeros(outputs, np.float32)
    y = np.empty((batch, outputs), TYPES[name])

    def describe(layout: int, sizes: list[int], data: Any = None, kind: str = name) -> capi.BNNSNDArrayDescriptor:
        return capi.BNNSNDArrayDescriptor(
            layout=layout, size=sizes, data=data, data_type=getattr(capi, f"BNNSDataType{kind}"), data_scale=1 / 64
        )

    vector, matrix = capi.BNNSDataLayoutVector, capi.BNNSDataLayoutRowMajorMatrix
    layer = capi.BNNSLayerParametersFullyConnected(
        i_desc=describe(vector, [inputs]), o_desc=describe(vector, [outputs]), w_desc=describe(matrix, [inputs, outputs], w),
        bias=describe(vector, [outputs], b, "Float32"),
    )  # fmt: skip
    flags = capi.BNNSFlagsUseClientPtr if client else 0
    f = created(capi.BNNSFilterCreateLayerFullyConnected(layer, capi.BNNSFilterParameters(flags=flags)))
    return partial(capi.BNNSFilterApplyBatch, f, batch, x, 0, y, 0)


def torch_step(torch: Any, name: str, size: tuple[int, int, int]) -> Callable[[], Any] | None:
    """The same in PyTorch, which has no such layer of Int8."""
    if name == "Int8":
        return None
    batch, inputs, outputs = size
    kind = getattr(torch, name.lower())
    x, w, b = (torch.randn(shape).to(kind) for shape in ((batch, inputs), (outputs, inputs), (outputs,)))

    def step() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.linear(x, w, b)

    return step


def least_times(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each step, the least of several rounds."""
    counts = {
        name: max(1, int(SLICE / max(1e-7, min(repeat(step, 1) for _ in range(3))))) for name, step in steps.items()
    }
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(ROUNDS):
        for name, step in steps.items():
            best[name] = min(best[name], repeat(step, counts[name]))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", choices=["avx512", "avx2", "base"], help="the newest instructions that we may use")
    options = parser.parse_args()
    if options.isa and os.environ.get("OPENBNNS_ISA") != options.isa:
        environment = os.environ | {"OPENBNNS_ISA": options.isa}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)
    openbnns.set_num_threads(options.threads)
    torch = None
    if not options.isa:
        try:
            import torch
        except ImportError:
            print("PyTorch is not installed: ours only")
        else:
            torch.set_num_threads(options.threads)
    print(f"{_core.instruction_set()}, {options.threads} thread(s); fully connected, forward")
    for size in SIZES:
        for client in (False, True):
            steps: dict[str, Callable[[], Any]] = {name: our_step(name, size, client) for name in TYPES}
            for name in TYPES if torch is not None else ():
                peer = torch_step(torch, name, size)
                if peer is not None:
                    steps[f"torch {name}"] = peer
            best = least_times(steps)
            print(f"{size[0]} x {size[1]} -> {size[2]}, {'client' if client else 'owned'}")
            for name in TYPES:
                line = f"  {name:9}{best[name] * 1e6:10.1f} us  {best['Float32'] / best[name]:6.2f} of our Float32"
                if f"torch {name}" in best:
                    line += f"  {best[f'torch {name}'] / best[name]:6.2f} of PyTorch"
                print(line)


if __name__ == "__main__":
    main()

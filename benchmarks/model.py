"""A model file, or a usual network, beside PyTorch and JAX: ``python benchmarks/model.py [MODEL or mlp, cnn, transformer ...]``.

The same layers and weights, the same batch, as many threads, in turns; JAX jitted as a whole. Prints the times of inference
and of a training step, and how many times as fast as each of the others this library is.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import jax_counterparts
import torch_counterparts
from openbnns import get_num_threads
from openbnns.cli.bench import CASES, KINDS, Case, times

PEERS = {"PyTorch": torch_counterparts.convert, "JAX": jax_counterparts.convert}
TOLERANCE = 1e-3  # of outputs, as a fraction of the largest


def rival(peer: str, case: Case) -> Any:
    """The same network of a peer, or why there is none; it has to give the same outputs."""
    converted = PEERS[peer](case.network, case.x, get_num_threads())
    if isinstance(converted, str):
        return converted
    error = float(np.abs(np.asarray(converted.inference()()) - case.outputs).max())
    error /= max(1e-6, float(np.abs(case.outputs).max()))
    return converted if error <= TOLERANCE else f"not compared: its outputs differ by {error:.1e}"


def compare(case: Case, seconds: float) -> dict[str, Any]:
    """Seconds by kind and library, and why a library is missing."""
    rivals = {peer: rival(peer, case) for peer in PEERS}
    result: dict[str, Any] = {"without": {peer: why for peer, why in rivals.items() if isinstance(why, str)}}
    for kind in KINDS:
        arguments = (case.y, case.task) if kind == "training" else ()
        sides = {peer: getattr(r, kind)(*arguments) for peer, r in rivals.items() if not isinstance(r, str)}
        measured = times([getattr(case, kind)(), *sides.values()], seconds)
        result[kind] = dict(zip(["ours", *sides], measured, strict=True))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(CASES), metavar="MODEL")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to time each side (default: 1)")
    options = parser.parse_args()
    for name in options.models:
        result = compare(Case(name, options.batch_size), options.seconds)
        for kind in KINDS:
            ours = result[kind]["ours"]
            ratios = ", ".join(f"{t / ours:.2f} x {peer}" for peer, t in result[kind].items() if peer != "ours")
            print(f"{name}: {kind} {1e3 * ours:.3f} ms, {ratios}")
        for peer, why in result["without"].items():
            print(f"{name}: {peer} {why}")


if __name__ == "__main__":
    main()

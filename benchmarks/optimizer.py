"""Does a step of Adam keep up with memory, and does one over many small tensors stay cheap?

PyTorch runs ``torch.optim.Adam(fused=True)``, its fastest, on tensors of the same sizes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import openbnns
from cases import vector
from harness import Figure, Settings
from openbnns import capi, compat
from timing import alternate, sampler

# (tensors, elements of each) -> least ratio torch / ours
TARGETS = {(10, 1_000_000): 1.0, (20, 1_000): 5.0}


def figures() -> dict[str, Callable[[Settings], Figure]]:
    """Measurements by name."""
    return {
        f"optimizer/Adam {face} {tensors}x{elements}": partial(measure, face, tensors, elements)
        for tensors, elements in TARGETS
        for face in ("BNNSOptimizerStep", "AdamOptimizer")
    }


def measure(face: str, tensors: int, elements: int, settings: Settings) -> Figure:
    """Steps of both alternating, once they have shown the same result; epsilon is added where PyTorch adds it."""
    with compat.using(adam_epsilon_torch=True):
        return _measure(face, tensors, elements, settings)


def _measure(face: str, tensors: int, elements: int, settings: Settings) -> Figure:
    import torch

    rng = np.random.default_rng(0)
    w, g = ([rng.standard_normal(elements, dtype=np.float32) for _ in range(tensors)] for _ in range(2))
    states = [np.zeros(elements, np.float32) for _ in range(2 * tensors)]
    theirs = [torch.from_numpy(a.copy()).requires_grad_() for a in w]
    for p, gradient in zip(theirs, g, strict=True):
        p.grad = torch.from_numpy(gradient.copy())
    torch_step = torch.optim.Adam(theirs, lr=1e-3, fused=True).step
    ours = (_c_step if face == "BNNSOptimizerStep" else _class_step)(w, g, states)

    for _ in range(3):
        ours()
        torch_step()
    worst = max(float(np.abs(a - p.detach().numpy()).max()) for a, p in zip(w, theirs, strict=True))
    (mine, torchs), disturbance = alternate([sampler(ours), sampler(torch_step)], settings.seconds)
    ratio = statistics.median(t / o for o, t in zip(mine, torchs, strict=True))
    times = f"ours {statistics.median(mine) * 1e6:.1f} us, torch {statistics.median(torchs) * 1e6:.1f} us"
    note = f"{times}, largest difference {worst:.0e}, others took {disturbance:.0%}"
    name = f"optimizer/Adam {face} {tensors}x{elements}"
    return Figure(name, ratio if worst < 1e-5 else 0.0, "x torch", TARGETS[tensors, elements], note=note)


def _c_step(w: list[Any], g: list[Any], states: list[Any]) -> Callable[[], int]:
    fields = capi.BNNSOptimizerAdamFields(
        learning_rate=1e-3, beta1=0.9, beta2=0.999, time_step=1, epsilon=1e-8, gradient_scale=1
    )
    lists = [[vector(a.size, a) for a in group] for group in (w, g, states)]

    def step() -> int:
        status = capi.BNNSOptimizerStep(capi.BNNSOptimizerFunctionAdam, fields, len(w), *lists)
        fields.time_step += 1
        return status

    return step


def _class_step(w: list[Any], g: list[Any], states: list[Any]) -> Callable[[], int]:
    optimizer = openbnns.AdamOptimizer(learning_rate=1e-3)

    def step() -> int:
        optimizer.step(w, g, states)
        optimizer.time_step += 1.0
        return 0

    return step

"""How fast are LSTMs, from a small one on one sequence (all overhead) to a batch of long ones (all arithmetic)?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from cases import Arrays, Calls, Case, describe
from openbnns import capi

# batch, steps, inputs, hidden, target
SHAPES = ((1, 16, 32, 32, 5.0), (32, 64, 128, 256, 1.0), (8, 32, 64, 100, None))
_GATES = ("input_gate", "forget_gate", "candidate_gate", "output_gate")


def cases() -> list[Case]:
    return [_case(*shape) for shape in SHAPES]


def _case(batch: int, steps: int, inputs: int, hidden: int, target: float | None) -> Case:
    rows = batch * steps
    return Case(
        name=f"lstm/{batch} x {steps} steps, {inputs} -> {hidden}",
        shapes={
            "x": (steps, batch, inputs),
            "w": (4 * hidden, inputs),
            "u": (4 * hidden, hidden),
            "b": (4 * hidden,),
            "y": (steps, batch, hidden),
        },
        calls=_calls,
        peer=_peer,
        flops=3 * 2.0 * rows * 4 * hidden * (inputs + hidden),
        target=target,
    )


def _peer(torch: ModuleType) -> Callable[..., Any]:
    """PyTorch's own function under nn.LSTM, which has two biases; the second one is 0."""

    def forward(x: Any, w: Any, u: Any, b: Any) -> Any:
        state = torch.zeros(1, x.shape[1], u.shape[1])
        weights = [w, u, b, torch.zeros_like(b)]
        return torch.lstm(x, (state, state), weights, True, 1, 0.0, True, False, False)[0]

    return forward


def _params(a: Arrays, prefix: str) -> capi.BNNSLayerParametersLSTM:
    steps, batch, inputs = a["x"].shape
    hidden = a["y"].shape[2]

    def gate(g: int) -> capi.BNNSLSTMGateDescriptor:
        rows = slice(g * hidden, (g + 1) * hidden)
        matrix = partial(describe, capi.BNNSDataLayoutRowMajorMatrix)
        return capi.BNNSLSTMGateDescriptor(
            iw_desc=(matrix((inputs, hidden), a[prefix + "w"][rows]),),
            hw_desc=matrix((hidden, hidden), a[prefix + "u"][rows]),
            b_desc=describe(capi.BNNSDataLayoutVector, (hidden,), a[prefix + "b"][rows]),
        )

    sequence = partial(describe, capi.BNNSDataLayoutSNE)
    return capi.BNNSLayerParametersLSTM(
        input_size=inputs, hidden_size=hidden, batch_size=batch, num_layers=1, seq_len=steps,
        lstm_flags=capi.BNNSLayerFlagsLSTMDefaultActivations,
        input_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=sequence((inputs, batch, steps), a[prefix + "x"])),
        output_descriptor=capi.BNNSLSTMDataDescriptor(data_desc=sequence((hidden, batch, steps), a[prefix + "y"])),
        **{name: gate(g) for g, name in enumerate(_GATES)},
    )  # fmt: skip


def _calls(a: Arrays) -> Calls:
    for name in ("w", "u"):  # as networks are initialized: gates that do not saturate
        a[name] /= np.float32(np.sqrt(a["u"].shape[1]))
    p, delta = _params(a, ""), _params(a, "d")
    capacity = capi.BNNSComputeLSTMTrainingCacheCapacity(p)
    cache = np.zeros(capacity, np.uint8)
    return Calls(
        (p, delta),
        partial(capi.BNNSDirectApplyLSTMBatchTrainingCaching, p, None, cache, capacity),
        partial(capi.BNNSDirectApplyLSTMBatchBackward, p, delta, None, cache, capacity),
    )

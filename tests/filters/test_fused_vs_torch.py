"""Fused chains against PyTorch in float64: values, every gradient, moving statistics.

Runs with ``-m peers`` only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cases.fused import CASES, FusedCase, canonical, random_case
from helpers import IOHRWR, assert_within

pytestmark = pytest.mark.peers

F = torch.nn.functional

ACTIVATIONS: dict[str, Any] = {
    "Identity": lambda x, a: x * 1.0,
    "RectifiedLinear": lambda x, a: F.relu(x),
    "LeakyRectifiedLinear": lambda x, a: F.leaky_relu(x, a.alpha),
    "Sigmoid": lambda x, a: torch.sigmoid(x),
    "Tanh": lambda x, a: torch.tanh(x),
    "Softsign": lambda x, a: F.softsign(x),
    "ELU": lambda x, a: F.elu(x, a.alpha),
    "GELUApproximationSigmoid": lambda x, a: x * torch.sigmoid(1.702 * x),
}
OPERATIONS: dict[str, Any] = {
    "Add": lambda a, b: a + b,
    "Subtract": lambda a, b: a - b,
    "Multiply": lambda a, b: a * b,
    "Divide": lambda a, b: a / b,
    "MultiplyAdd": lambda a, b, c: a * b + c,
    "Square": torch.square,
    "Exp": torch.exp,
    "Tanh": torch.tanh,
    "SquareRoot": torch.sqrt,
    "Sin": torch.sin,
}


def known(case: FusedCase) -> bool:
    if case.activation.name not in ACTIVATIONS or not case.training:
        return False
    return not case.is_arithmetic or (case.first.function in OPERATIONS and not case.first.shared)


CHAINS = [case for case in [*CASES, *(random_case(k) for k in range(160, 400))] if known(case)]


def first_layer(case: FusedCase, t: dict[str, Any]) -> Any:
    first = case.first
    if case.is_arithmetic:
        return OPERATIONS[first.function](*(t[f"a{i}"] for i in range(first.count)))
    bias = t["b"][0] if "b" in t else None
    if case.chain == "fc":
        w = t["w"][0]
        w = w.T if first.w.layout.name.endswith("RowMajorMatrix") else w
        return F.linear(t["x"].reshape(len(t["x"]), -1), w, bias)
    axes = (3, 4, 2, 1) if first.w.layout == IOHRWR else (4, 3, 2, 1)
    w = t["w"].permute(0, *axes)[0]
    left, right, up, down = first.pad
    if first.symmetric != (0, 0):
        up = down = first.symmetric[0]
        left = right = first.symmetric[1]
    if case.chain == "tconv":
        # v(i, o, ky, kx) = w(o, i, KH-1-ky, KW-1-kx), with the kernel as its layout reads it
        v = w.permute(1, 0, 2, 3).flip(2, 3)
        h = F.conv_transpose2d(t["x"], v, bias, stride=first.step, dilation=first.dilation)
        rows, columns = case.first.y.size[1], case.first.y.size[0]
        h = F.pad(h, (0, max(0, left + columns - h.shape[3]), 0, max(0, up + rows - h.shape[2])))
        return h[:, :, up : up + rows, left : left + columns]
    h = F.conv2d(
        F.pad(t["x"], (left, right, up, down)), w, bias, stride=first.step, dilation=first.dilation, groups=first.groups
    )
    return h[:, :, : first.y.size[1], : first.y.size[0]]


def normalize(case: FusedCase, h: Any, t: dict[str, Any]) -> Any:
    norm, sample = case.norm, h.shape[1:]
    beta, gamma = t.get("beta"), t.get("gamma")
    if norm.kind == "Layer":
        axis = min(norm.axis, len(sample) - 1)
        z = F.layer_norm(h, sample[axis:], eps=norm.settings.epsilon)
        z = z if gamma is None else z * gamma
        return z if beta is None else z + beta
    if norm.kind == "Batch":
        flat = [None if p is None else p.reshape(-1) for p in (gamma, beta)]
        return F.batch_norm(h, None, None, *flat, True, 0.0, norm.settings.epsilon)
    # beta and gamma apart: PyTorch's group_norm cannot differentiate with only one of them
    channels = (1, -1, *[1] * (len(sample) - 1))
    z = F.group_norm(h, norm.groups if norm.kind == "Group" else sample[0], eps=norm.settings.epsilon)
    z = z if gamma is None else z * gamma.reshape(channels)
    return z if beta is None else z + beta.reshape(channels)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CHAINS])
def test_chain(case: FusedCase) -> None:
    values = case.values()
    run = case.run(values)
    run.forward()
    gradients = run.backward()
    tensors = {}
    for name, v in values.items():
        if name in ("dy", "moving_mean", "moving_variance"):
            continue
        numbers = v if name in ("w", "b") else canonical(v)
        tensors[name] = torch.from_numpy(np.ascontiguousarray(numbers)).requires_grad_()
    h = first_layer(case, tensors)
    shape = tuple(reversed(case.first.y.size))
    h = h.expand(case.batch, *h.shape[1:]).reshape(case.batch, *shape)
    y = ACTIVATIONS[case.activation.name](normalize(case, h, tensors), case.activation)
    expected = canonical(y.detach().numpy())
    assert_within(run.y.read(), expected, case.forward_bound(values, expected), "y")
    dy = values["dy"].copy()
    if (
        not case.activation.is_identity
    ):  # where rounding decides on which side of a kink a value lies, no gradient arrives
        dy[np.abs(expected) < 1e-5] = 0
        run.dy.write(dy)
        gradients = run.backward()
    y.backward(torch.from_numpy(np.ascontiguousarray(canonical(dy))))
    bounds = case.backward_bounds({**values, "dy": values["dy"]}, expected)
    for name, storage in gradients.items():
        gradient = tensors[name.removeprefix("d")].grad.numpy()
        wanted = gradient if name in ("dw", "db") else canonical(gradient)
        room = bounds[name] + 2e-6 * float(np.abs(wanted).max())
        assert_within(storage.read(), wanted, room, name)

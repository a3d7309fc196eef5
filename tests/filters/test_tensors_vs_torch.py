"""Cross-check of permute, padding, resize and quantization with PyTorch (``-m peers``): values and gradients in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import openbnns as ob
from cases import padding, permute, resize
from cases._base import native, parameters
from helpers import IMAGE, Array, assert_within

pytestmark = pytest.mark.peers

F = torch.nn.functional


def compare(case: Any, forward: Any, reverse: bool) -> None:
    """Our results against PyTorch's; ``reverse`` puts ImageCHW's size[] into C order for PyTorch, and back."""
    ours = native(case)
    order = (0, *range(len(case.x.size), 0, -1)) if reverse else tuple(range(1 + len(case.x.size)))

    def tensor(values: Array) -> Any:
        return torch.tensor(np.ascontiguousarray(values.transpose(order)), dtype=torch.float64)

    x = tensor(ours.values["x"]).requires_grad_()
    y = forward(x)
    y.backward(tensor(ours.values["dy"]))
    expected = y.detach().numpy().transpose(order)
    assert_within(case.y.decode(ours.y), expected, case.forward_bound(ours.values, expected) + 1e-6, f"{case.id}: y")
    bounds = case.backward_bounds(ours.values, expected)
    gradient = x.grad.numpy().transpose(order)
    assert_within(ours.gradients["dx"], gradient, bounds["dx"] + 1e-5, f"{case.id}: dx")


@pytest.mark.parametrize("case", parameters([c for c in permute.CASES if c.trains]))
def test_permute(case: Any) -> None:
    compare(case, lambda x: x.permute(0, *(1 + k for k in case.permutation)).contiguous(), reverse=False)


PADDED = [
    c for c in padding.CASES if c.trains and c.x.layout == IMAGE and c.pairs[2] == (0, 0) and c.mode != "Symmetric"
]


@pytest.mark.parametrize("case", parameters(PADDED))
def test_padding(case: Any) -> None:
    widths = [n for pair in case.pairs[:2] for n in pair]
    mode: dict[str, Any] = {"mode": "reflect"} if case.mode == "Reflect" else {"mode": "constant", "value": 0.625}
    compare(case, lambda x: F.pad(x, widths, **mode), reverse=True)


RESIZED = [c for c in resize.CASES if c.trains and c.x.layout == IMAGE and c.x.size[2] == c.y.size[2]]


@pytest.mark.parametrize("case", parameters(RESIZED))
def test_resize(case: Any) -> None:
    options: dict[str, Any] = {"mode": "nearest"}
    if case.method == "Linear":
        options = {"mode": "bilinear", "align_corners": case.align}
    compare(case, lambda x: F.interpolate(x, size=case.y.size[1::-1], **options), reverse=True)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantization(axis: int | None) -> None:
    """In PyTorch's float64 arithmetic, which rounds ties to even as well."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 7)).astype(np.float32) * 3
    count = 1 if axis is None else x.shape[axis]
    scale = 2.0 ** rng.integers(2, 6, count).astype(np.float32)
    zero = rng.integers(-5, 5, count)
    ours = ob.quantize(x, axis=axis, scale=scale, bias=zero.astype(np.float32))
    shape = [1, 1] if axis is None else [count if k == axis else 1 for k in range(2)]
    s, z = (torch.from_numpy(v.astype(np.float64)).reshape(shape) for v in (scale, zero))
    theirs = torch.clamp(torch.round(torch.from_numpy(x).double() * s + z), -128, 127)
    np.testing.assert_array_equal(ours, theirs.numpy())
    back = ob.dequantize(ours, axis=axis, scale=scale, bias=zero.astype(np.float32))
    np.testing.assert_array_equal(back, ((theirs - z) / s).float().numpy())

"""Do activations reach the speed of memory, and do small ones stay cheap?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from cases import Arrays, Calls, Case, created, vector
from openbnns import capi

# function, PyTorch's counterpart, target on 4 M elements, least share of the copy bandwidth there
FUNCTIONS: dict[str, tuple[int, Callable[[ModuleType], Callable[..., Any]], float, float | None]] = {
    "ReLU": (capi.BNNSActivationFunctionRectifiedLinear, lambda torch: torch.relu, 1.0, 0.8),
    "tanh": (capi.BNNSActivationFunctionTanh, lambda torch: torch.tanh, 1.3, None),
    "GELU": (capi.BNNSActivationFunctionGELU, lambda torch: torch.nn.functional.gelu, 1.5, None),
    "softmax": (capi.BNNSActivationFunctionSoftmax, lambda torch: partial(torch.softmax, dim=1), 1.3, None),
}
SMALL_TARGET = 5.0


def cases() -> list[Case]:
    return [
        _case(name, *shape, small=small)
        for small in (True, False)
        for name in FUNCTIONS
        for shape in [_shape(name, small)]
    ]


def _shape(name: str, small: bool) -> tuple[int, int]:
    if small:
        return 32, 64
    return (4096, 1000) if name == "softmax" else (4096, 1024)


def _case(name: str, batch: int, size: int, *, small: bool) -> Case:
    function, peer, target, share = FUNCTIONS[name]
    return Case(
        name=f"activation/{name} {batch}x{size}",
        shapes={"x": (batch, size), "y": (batch, size)},
        calls=partial(_calls, function=function),
        peer=peer,
        bytes=4.0 * batch * size * (2 + 3),  # x -> y; y, dy -> dx
        target=SMALL_TARGET if small else target,
        share_target=None if small else share,
    )


def _calls(a: Arrays, *, function: int) -> Calls:
    batch, size = a["x"].shape
    layer = capi.BNNSLayerParametersActivation(
        i_desc=vector(size), o_desc=vector(size), activation=capi.BNNSActivation(function=function)
    )
    f = created(capi.BNNSFilterCreateLayerActivation(layer))
    return Calls(
        f,
        partial(capi.BNNSFilterApplyBatch, f, batch, a["x"], 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardBatch, f, batch, a["x"], 0, vector(size, a["dx"]), 0, a["y"], 0,
            vector(size, a["dy"]), 0,
        ),
    )  # fmt: skip

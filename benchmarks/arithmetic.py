"""Do sums and products reach the speed of memory, with operands of one shape and with one repeated over the batch?"""

from __future__ import annotations

from functools import partial

from cases import Arrays, Calls, Case, created, vector
from openbnns import capi

FUNCTIONS = {"add": capi.BNNSArithmeticAdd, "multiply": capi.BNNSArithmeticMultiply}
SMALL, LARGE = (32, 64), (4096, 1024)


def cases() -> list[Case]:
    return [_case(f, *shape, repeated=r) for shape in (SMALL, LARGE) for f in FUNCTIONS for r in (False, True)]


def _case(name: str, batch: int, size: int, *, repeated: bool) -> Case:
    large = (batch, size) == LARGE
    operands = 1 if repeated else 2  # of full size; a repeated one causes no traffic
    forward = operands + 1  # operands -> y
    backward = 1 + operands + (operands if name == "multiply" else 0)  # dy (and operands) -> gradients
    second = f"({size})" if repeated else "same"
    return Case(
        name=f"arithmetic/{name} {batch}x{size}, {second}",
        shapes={"a": (batch, size), "b": (size,) if repeated else (batch, size), "y": (batch, size)},
        calls=partial(_calls, function=FUNCTIONS[name]),
        peer=lambda torch: torch.add if name == "add" else torch.mul,
        bytes=4.0 * batch * size * (forward + backward),
        target=1.0 if large else 5.0,
        share_target=0.8 if large else None,
        own_gradients=True,
    )


def _calls(a: Arrays, *, function: int) -> Calls:
    batch, size = a["a"].shape
    role = capi.BNNSSample if a["b"].ndim == 2 else capi.BNNSParameter
    fields = capi.BNNSArithmeticBinary(
        in1=vector(size), in1_type=capi.BNNSSample, in2=vector(size), in2_type=role, out=vector(size),
        out_type=capi.BNNSSample,
    )  # fmt: skip
    layer = capi.BNNSLayerParametersArithmetic(arithmetic_function=function, arithmetic_function_fields=fields)
    f = created(capi.BNNSFilterCreateLayerArithmetic(layer))
    operands, strides = [a["a"], a["b"]], [0, 0]
    gradients = [vector(size, a["da"]), vector(size, a["db"])]
    return Calls(
        f,
        partial(capi.BNNSArithmeticFilterApplyBatch, f, batch, 2, operands, strides, a["y"], 0),
        partial(
            capi.BNNSArithmeticFilterApplyBackwardBatch, f, batch, 2, operands, strides, gradients, strides, a["y"], 0,
            vector(size, a["dy"]), 0,
        ),
    )  # fmt: skip

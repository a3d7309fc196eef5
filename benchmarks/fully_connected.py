"""How fast are fully connected layers, from one of 8 inputs (all overhead) to large ones (all arithmetic)?"""

from __future__ import annotations

from functools import partial

from cases import Arrays, Calls, Case, created, describe, training_parameters, vector
from openbnns import capi

# batch, inputs, outputs, target
SHAPES: tuple[tuple[int, int, int, float | None], ...] = (
    (1, 8, 8, 5.0),
    (32, 64, 32, 5.0),
    (128, 784, 1024, 1.0),
    (2048, 1024, 256, 1.0),
    (7, 1024, 1024, None),
    (129, 785, 1001, None),
    (256, 512, 512, None),
    (512, 1024, 1024, None),
)


def cases() -> list[Case]:
    return [case(*shape) for shape in SHAPES]


def case(batch: int, inputs: int, outputs: int, target: float | None = None) -> Case:
    """A layer of this size against PyTorch's."""
    return Case(
        name=f"fully connected/{batch}x{inputs} -> {outputs}",
        shapes={"x": (batch, inputs), "w": (outputs, inputs), "b": (outputs,), "y": (batch, outputs)},
        calls=calls,
        peer=lambda torch: torch.nn.functional.linear,
        flops=3 * 2.0 * batch * inputs * outputs,
        target=target,
    )


def calls(a: Arrays) -> Calls:
    """A layer on these buffers."""
    (batch, inputs), outputs = a["x"].shape, a["y"].shape[1]

    def matrix(name: str) -> capi.BNNSNDArrayDescriptor:
        return describe(capi.BNNSDataLayoutRowMajorMatrix, (inputs, outputs), a[name])

    layer = capi.BNNSLayerParametersFullyConnected(
        i_desc=vector(inputs), w_desc=matrix("w"), o_desc=vector(outputs), bias=vector(outputs, a["b"])
    )
    f = created(capi.BNNSFilterCreateLayerFullyConnected(layer, training_parameters()))
    return Calls(
        f,
        partial(capi.BNNSFilterApplyBatch, f, batch, a["x"], 0, a["y"], 0),
        partial(
            capi.BNNSFilterApplyBackwardBatch, f, batch, a["x"], 0, vector(inputs, a["dx"]), 0, a["y"], 0,
            vector(outputs, a["dy"]), 0, matrix("dw"), vector(outputs, a["db"]),
        ),
    )  # fmt: skip

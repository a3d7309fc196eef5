"""Does normalization keep up with memory in training, next to PyTorch in either of its layouts?

A training forward keeps a copy of its input, because the backward call has none: one write more than PyTorch, which
holds on to the tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from cases import Arrays, Calls, Case, created, describe, training_parameters
from openbnns import capi


@dataclass(frozen=True)
class Shape:
    """One normalization of samples of (channels,) or (channels, height, width)."""

    kind: str
    batch: int
    size: tuple[int, ...]
    groups: int = 1

    @property
    def parameter(self) -> tuple[int, ...]:
        return self.size if self.kind == "layer" else self.size[:1]


EPSILON = 1e-5
KINDS = {
    "batch": capi.BNNSBatchNorm, "instance": capi.BNNSInstanceNorm, "layer": capi.BNNSLayerNorm,
    "group": capi.BNNSGroupNorm,
}  # fmt: skip

# PyTorch's layouts and the least ratio against the faster one.
CASES: tuple[tuple[Shape, tuple[str, ...], float], ...] = (
    (Shape("batch", 32, (64, 56, 56)), ("contiguous",), 3.0),
    (Shape("batch", 32, (64, 56, 56)), ("channels last",), 1.1),
    (Shape("layer", 2048, (256,)), ("contiguous",), 1.3),
    (Shape("layer", 512, (1024,)), ("contiguous",), 1.3),
    (Shape("group", 16, (128, 28, 28), 32), ("contiguous",), 2.0),
    (Shape("group", 32, (172, 7, 7), 4), ("contiguous",), 1.0),
    (Shape("instance", 16, (64, 32, 32)), ("contiguous",), 1.0),
    (Shape("batch", 128, (256,)), ("contiguous",), 1.5),
    (Shape("batch", 32, (32,)), ("contiguous",), 5.0),
    (Shape("layer", 32, (64,)), ("contiguous",), 5.0),
)


def cases() -> list[Case]:
    return [_case(*row) for row in CASES]


def _case(s: Shape, layouts: tuple[str, ...], target: float) -> Case:
    def peer(torch: ModuleType) -> Any:
        f = torch.nn.functional
        if s.kind == "batch":
            return lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True, eps=EPSILON)
        if s.kind == "instance":
            return lambda x, w, b: f.instance_norm(x, None, None, w, b, eps=EPSILON)
        if s.kind == "group":
            return lambda x, w, b: f.group_norm(x, s.groups, w, b, eps=EPSILON)
        return lambda x, w, b: f.layer_norm(x, s.size, w, b, eps=EPSILON)

    x = (s.batch, *s.size)
    count = s.batch
    for size in s.size:
        count *= size
    name = f"normalization/{s.kind} {'x'.join(map(str, x))}{f' in {s.groups} groups' if s.kind == 'group' else ''}"
    return Case(
        name=name if len(s.size) == 1 or s.kind != "batch" else f"{name}, against {layouts[0]}",
        shapes={"x": x, "w": s.parameter, "b": s.parameter, "y": x},
        calls=partial(_calls, s=s),
        peer=peer,
        bytes=4.0 * 6 * count,  # x in, y and the copy of x out; the copy and dy in, dx out
        target=target,
        layouts=layouts,
    )


def _calls(a: Arrays, *, s: Shape) -> Calls:
    def tensor(name: str, data: bool = True) -> capi.BNNSNDArrayDescriptor:
        array = a[name]
        shape = array.shape[1:] if name in ("x", "y", "dx", "dy") else array.shape
        layout = capi.BNNSDataLayoutVector if len(shape) == 1 else capi.BNNSDataLayoutImageCHW
        return describe(layout, shape[::-1], array if data else None)

    layer = capi.BNNSLayerParametersNormalization(
        i_desc=tensor("x", False), o_desc=tensor("y", False), beta_desc=tensor("b"), gamma_desc=tensor("w"),
        momentum=0.9, epsilon=EPSILON, num_groups=s.groups,
    )  # fmt: skip
    f = created(capi.BNNSFilterCreateLayerNormalization(KINDS[s.kind], layer, training_parameters()))
    return Calls(
        f,
        partial(capi.BNNSNormalizationFilterApplyBatch, f, s.batch, a["x"], 0, a["y"], 0, True),
        partial(
            capi.BNNSNormalizationFilterApplyBackwardBatch, f, s.batch, tensor("dx"), 0, None, 0, tensor("dy"), 0,
            tensor("db"), tensor("dw"),
        ),
    )  # fmt: skip

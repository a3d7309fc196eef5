"""Functions of positions: gather, scatter, sort, and cumulative sums."""

from __future__ import annotations

from typing import Any

from ....graph import functions as F
from ...converted.tensors import ForeignTensor
from ._registry import Call, adapted, add, exact, operation, plain, refuse_unless, whole

POSITIONS = "positions"

add(POSITIONS, "gather", adapted(F.gather, sparse_grad=False))
for _name in ("take_along_dim", "sort", "argsort", "topk"):
    add(POSITIONS, _name, adapted(getattr(F, _name)))
for _name in ("scatter_add", "index_add"):
    add(POSITIONS, _name, adapted(getattr(F, _name)))
    add(POSITIONS, f"{_name}_", adapted(getattr(F, _name)))


@operation(POSITIONS, "scatter", "scatter_")
def scatter(
    call: Call,
    input: ForeignTensor,
    dim: Any,
    index: ForeignTensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: Any = None,
) -> Any:
    refuse_unless("reduce", reduce, None)
    given = value if src is None else src
    source = given.numbers if isinstance(given, ForeignTensor) else plain(given, "value")
    return F.scatter(input.numbers, plain(dim, "dim"), whole(index), source)


@operation(POSITIONS, "cumsum", "cumsum_", "cumprod", "cumprod_")
def accumulated(call: Call, input: ForeignTensor, dim: Any, *, dtype: Any = None) -> Any:
    return (F.cumsum if call.name.startswith("cumsum") else F.cumprod)(exact(call, input), plain(dim, "dim"))


@operation(POSITIONS, "copy_")
def copy(call: Call, src: ForeignTensor, non_blocking: bool = False) -> Any:
    return F.expand(
        ForeignTensor(src.elements, src.kind).numbers if call.kinds[0] == "f" else src.elements, *call.shape
    )


@operation(POSITIONS, "fill_", "zero_")
def fill(call: Call, value: Any = 0.0) -> Any:
    if isinstance(value, ForeignTensor):
        return F.expand(value.numbers, *call.shape)
    return F.full(call.shape, plain(value, "value"))

"""Parts and joints of tensors, made of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._table import COMPOSITIONS, compose, composition

PARTS = "parts and joints"


@composition(PARTS, "hstack", "vstack", "row_stack", "dstack", "column_stack")
def hstack(torch: Any, tensors: Sequence[Any]) -> Any:
    return torch.cat([torch.atleast_1d(x) for x in tensors], 0 if tensors[0].dim() <= 1 else 1)


def vstack(torch: Any, tensors: Sequence[Any]) -> Any:
    return torch.cat([x.reshape(1, -1) if x.dim() < 2 else x for x in tensors])


COMPOSITIONS["vstack"] = COMPOSITIONS["row_stack"] = vstack
COMPOSITIONS["dstack"] = lambda torch, tensors: torch.cat(
    [x.reshape(1, -1, 1) if x.dim() < 2 else x if x.dim() > 2 else x.unsqueeze(2) for x in tensors], 2
)
COMPOSITIONS["column_stack"] = lambda torch, tensors: torch.cat(
    [x.reshape(-1, 1) if x.dim() < 2 else x for x in tensors], 1
)
compose(
    PARTS,
    hsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 0 if input.dim() == 1 else 1),
    vsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 0),
    dsplit=lambda torch, input, parts: torch.tensor_split(input, parts, 2),
    fliplr=lambda torch, input: input.flip(1),
    flipud=lambda torch, input: input.flip(0),
    diag=lambda torch, input, diagonal=0: (torch.diag_embed if input.dim() == 1 else torch.diagonal)(input, diagonal),
    take=lambda torch, input, index: input.reshape(-1)[index],
    H=lambda torch, input: input.mT,
    mH=lambda torch, input: input.mT,
)


def _replaced(x: Any, dim: int, key: Any, value: Any) -> Any:
    """A tensor with other entries along an axis."""
    made = x.clone().movedim(dim, 0)
    made[key] = value if not hasattr(value, "movedim") or value.dim() < x.dim() else value.movedim(dim, 0)
    return made.movedim(0, dim)


compose(
    PARTS,
    select_scatter=lambda torch, input, src, dim, index: _replaced(input, dim, index, src),
    slice_scatter=lambda torch, input, src, dim=0, start=None, end=None, step=1: _replaced(
        input, dim, slice(start, end, step), src
    ),
    index_fill=lambda torch, input, dim, index, value: _replaced(input, dim, index, value),
    index_copy=lambda torch, input, dim, index, source: _replaced(input, dim, index, source),
)

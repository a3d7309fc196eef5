"""Parts and joints of tensors, made of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    H=lambda torch, input: input.mT.conj() if input.is_complex() else input.mT,
    mH=lambda torch, input: input.mT.conj() if input.is_complex() else input.mT,
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


# Parts that are copies here, as everything is.

_COPIES: dict[str, Callable[..., Any]] = {
    "alias_copy": lambda torch, input: input.clone(),
    "expand_copy": lambda torch, input, size: input.expand(size),
    "permute_copy": lambda torch, input, dims: input.permute(dims),
    "view_copy": lambda torch, input, size: input.reshape(size),
    "unfold_copy": lambda torch, input, dimension, size, step: input.unfold(dimension, size, step),
}
for _name in (
    "diagonal", "narrow", "split_with_sizes", "squeeze", "transpose", "unbind", "unsqueeze", "t",
):  # fmt: skip
    _COPIES[f"{_name}_copy"] = lambda torch, input, *args, name=_name, **options: getattr(torch, name)(
        input, *args, **options
    )
compose(
    PARTS,
    **_COPIES,
    unsafe_chunk=lambda torch, input, chunks, dim=0: torch.chunk(input, chunks, dim),
    unsafe_split=lambda torch, input, split_size, dim=0: torch.split(input, split_size, dim),
    broadcast_tensors=lambda torch, *tensors: tuple(
        x.expand(torch.broadcast_shapes(*(each.shape for each in tensors))) for x in tensors
    ),
    diagflat=lambda torch, input, offset=0: torch.diag_embed(input.reshape(-1), offset),
    atleast_3d=lambda torch, input: (
        input if input.dim() > 2 else input.unsqueeze(-1) if input.dim() == 2 else input.reshape(1, -1, 1)
    ),
)


@composition(PARTS, "diagonal_scatter")
def diagonal_scatter(torch: Any, input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    rows, columns = torch.arange(input.shape[dim1]), torch.arange(input.shape[dim2])
    on = rows[:, None] + offset == columns  # the diagonal, on the two axes put last
    x = input.movedim((dim1, dim2), (-2, -1))
    wide = torch.zeros_like(x)
    index = torch.nonzero(on)
    wide[..., index[:, 0], index[:, 1]] = src
    return torch.where(on, wide, x).movedim((-2, -1), (dim1, dim2))


@composition(PARTS, "masked_scatter")
def masked_scatter(torch: Any, input: Any, mask: Any, source: Any) -> Any:
    """The numbers of another tensor, in order, in the places that a mask names."""
    input, mask = torch.broadcast_tensors(input, mask)
    places = (mask.reshape(-1).long().cumsum(0) - 1).clamp(min=0)
    taken = source.reshape(-1)[places.clamp(max=source.numel() - 1)]
    return torch.where(mask, taken.reshape(input.shape), input)


@composition(PARTS, "sum_to_size")
def sum_to_size(torch: Any, input: Any, *size: Any) -> Any:
    shape = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    front = input.dim() - len(shape)
    x = input.sum(tuple(range(front))) if front else input
    wide = tuple(axis for axis, n in enumerate(shape) if n == 1 and x.shape[axis] != 1)
    return x.sum(wide, keepdim=True) if wide else x

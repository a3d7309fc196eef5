"""Checks of the arguments of layers and of the samples that reach them."""

from __future__ import annotations

from typing import Any

from ..graph.checks import per_axis
from ..graph.sizes import AnySize
from ..graph.tensor import Tensor


def rows_and_columns(value: Any, who: str) -> tuple[int, int]:
    """(vertical, horizontal)."""
    rows, columns = per_axis(value, 2, who)
    return rows, columns


def positive(value: Any, who: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ValueError(f"{who} is {value!r}. Pass an integer of at least 1.")
    return int(value)


def optional(value: Any, who: str) -> int | None:
    """A size that may be left to the first input."""
    return None if value is None else positive(value, who)


def check_size(who: str, what: str, expected: int | None, got: AnySize, *, last: AnySize | None = None) -> None:
    """Refuse another size than a layer was made for; ``last`` is that of the last axis, where PyTorch's is another one."""
    if expected is not None and expected != got:
        cure = f"Look at the shape of the input, make the layer for {got} {what}, or leave the number out to infer it."
        if last == expected:
            cure = "They are the first axis of a sample, not the last: pass np.moveaxis(x, -1, 1)."
        raise ValueError(f"{who}: made for {expected} {what}, but its input has {got}. {cure}")


def check_rank(who: str, x: Tensor, rank: int, axes: str) -> None:
    if x.ndim != rank + 1:
        hint = " Put nn.Flatten() before it." if rank == 1 else " Put nn.Reshape(...) before it."
        if x.ndim == rank:
            hint = " The first axis of an input is the batch: for one sample pass x[None]."
            if axes.startswith("(channels"):
                hint += " For samples without channels pass x[:, None], or put nn.Reshape(...) before it."
        raise ValueError(f"{who}: needs samples {axes}, but gets {x.shape[1:]}.{hint}")

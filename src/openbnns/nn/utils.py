"""The counterpart of ``torch.nn.utils``: clipping of gradients between ``backward`` and ``step``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import compute_norm
from .._listing import of_module as _of_module
from .._spelling import spelled
from ..graph.parameter import Parameter
from ..graph.tensor import Array

_BLOCK = 1 << 16
_FEW = 1 << 12  # numbers, for which a native call is not worth it


def total_norm(arrays: Sequence[Array], norm_type: float = 2.0) -> float:
    """The norm of all numbers of these arrays together, summed in double precision."""
    if norm_type == math.inf:
        return max((float(np.abs(a).max()) for a in arrays if a.size), default=0.0)
    total = 0.0
    for array in arrays:
        flat = array.reshape(-1)
        if norm_type == 2.0 and flat.size > _FEW:
            total += float(compute_norm(flat)[0]) ** 2  # native, on all threads
            continue
        for start in range(0, flat.size, _BLOCK):  # in pieces, so that little memory is needed
            piece = flat[start : start + _BLOCK].astype(np.float64)
            if norm_type == 2.0:
                np.square(piece, out=piece)
            else:
                np.power(np.abs(piece, out=piece), norm_type, out=piece)
            total += float(piece.sum())
    return math.sqrt(total) if norm_type == 2.0 else total ** (1.0 / norm_type)


__all__ = ["clip_grad_norm_", "clip_grad_value_"]

__dir__ = _of_module(__name__)


@spelled
def clip_grad_norm_(
    parameters: Parameter | Iterable[Parameter],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> float:
    """Scale all gradients so that their norm together is at most ``max_norm``; gives the norm that they had.

    The factor is max_norm / (norm + 1e-6) if that is below 1, as in PyTorch. Frozen parameters do not count.
    ``norm_type`` may be ``math.inf`` for the largest number. An optimizer made with ``clipping=``, or a trainer with
    ``clip_norm``, does this in its own step, in the same pass over memory.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w = nn.Parameter(np.zeros(2))
    >>> w.grad = [3, 4]
    >>> nn.utils.clip_grad_norm_([w], max_norm=1.0)
    5.0
    >>> print(w.grad.round(4))
    [0.6 0.8]
    """
    who = "clip_grad_norm_"
    limit, kind = _number(who, "max_norm", max_norm), _number(who, "norm_type", norm_type)
    if not limit >= 0:
        raise ValueError(f"{who}: max_norm is {max_norm}. It must be at least 0.")
    if not kind > 0:
        raise ValueError(f"{who}: norm_type is {norm_type}. It must be above 0, such as 2, 1 or math.inf.")
    gradients = [p.grad for p in _trained(who, parameters)]
    norm = total_norm(gradients, kind)
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"{who}: the norm of the gradients is {norm}, so they cannot be clipped. Look at the loss, or use a smaller "
            "learning rate."
        )
    factor = limit / (norm + 1e-6)
    if not factor >= 1.0:  # also for NaN
        with np.errstate(invalid="ignore"):
            for gradient in gradients:
                gradient *= factor
    return norm


@spelled
def clip_grad_value_(parameters: Parameter | Iterable[Parameter], clip_value: float) -> None:
    """Put every number of the gradients between -``clip_value`` and ``clip_value``. Frozen parameters stay as they are.

    >>> import numpy as np
    >>> from openbnns import nn
    >>> w = nn.Parameter(np.zeros(3))
    >>> w.grad = [-7, 0.5, 2]
    >>> nn.utils.clip_grad_value_([w], clip_value=1.0)
    >>> w.grad.tolist()
    [-1.0, 0.5, 1.0]
    """
    limit = _number("clip_grad_value_", "clip_value", clip_value)
    if not limit >= 0:
        raise ValueError(f"clip_grad_value_: clip_value is {clip_value}. It must be at least 0.")
    for parameter in _trained("clip_grad_value_", parameters):
        np.clip(parameter.grad, -limit, limit, out=parameter.grad)


def _number(who: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{who}: {name} must be a number, not {value!r}.")
    return float(value)


def _trained(who: str, parameters: Any) -> list[Parameter]:
    given = [parameters] if isinstance(parameters, Parameter) else list(parameters)
    for parameter in given:
        if not isinstance(parameter, Parameter):
            raise TypeError(f"{who}: {type(parameter).__name__} given. Pass network.parameters().")
    return [p for p in given if p.requires_grad and p.used]

"""Strict mode: warnings about valid calls that are probably mistakes.

The docs page "Mistakes that BNNS does not report" lists what it looks for. While strict mode is on anywhere in the process,
filters do not use their fast calls, so that every call passes the checks that ask :func:`active`; while it is off, it
costs nothing.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Any

from . import engines

_PACKAGE = str(Path(__file__).parent) + os.sep


class StrictWarning(UserWarning):
    """A call that BNNS accepts and that is probably a mistake; see :func:`openbnns.strict`.

    >>> import openbnns
    >>> issubclass(openbnns.StrictWarning, UserWarning)  # warnings.simplefilter("error", openbnns.StrictWarning) raises it
    True
    """


# The places that have been warned about, or None while strict mode is off.
_places: ContextVar[set[tuple[str, int, str]] | None] = ContextVar("openbnns.strict", default=None)
_everywhere: set[tuple[str, int, str]] | None = None  # with OPENBNNS_STRICT=1


class strict:
    """Warn, in a ``with`` block, about probable mistakes that BNNS does not report: once per line that makes the call.

    ``enabled=False`` switches the warnings off in a nested block. The choice holds for this thread or asynchronous task
    only; meanwhile, calls are slower in the whole process. The environment variable ``OPENBNNS_STRICT=1`` switches strict
    mode on everywhere. Filters and layers created inside the block are watched more closely than existing ones.

    >>> import warnings
    >>> import numpy as np
    >>> import openbnns
    >>> from openbnns import Shape
    >>> from openbnns.capi import *
    >>> v = Shape.vector(2).descriptor()
    >>> f = BNNSFilterCreateLayerActivation(BNNSLayerParametersActivation(i_desc=v, o_desc=v))
    >>> x, y = np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32)
    >>> with openbnns.strict(), warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     status = BNNSFilterApply(f, x, y)
    >>> status, str(caught[0].message).split(". ")[0]
    (0, 'BNNSFilterApply: in and out hold 3 samples, but this call runs the first one only')
    """

    def __init__(self, enabled: bool = True) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"openbnns.strict: enabled must be True or False, not {type(enabled).__name__}.")
        self._enabled = enabled
        self._tokens: list[Token[set[tuple[str, int, str]] | None]] = []

    def __enter__(self) -> strict:
        self._tokens.append(_places.set(set() if self._enabled else _OFF))
        engines.watch_filters(int(self._enabled))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        engines.watch_filters(-int(self._enabled))
        _places.reset(self._tokens.pop())


_OFF: set[tuple[str, int, str]] = set()
"""A mark of strict mode that is switched off in a block."""


def _current() -> set[tuple[str, int, str]] | None:
    places = _places.get()
    return _everywhere if places is None else None if places is _OFF else places


def active() -> bool:
    """True if this thread, or task, is in strict mode."""
    return _current() is not None


def warn(text: str, kind: str) -> None:
    """Warn about a mistake of this ``kind``, a heading of docs/mistakes.md, at the line that called the package."""
    places = _current()
    if places is None:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    place = (frame.f_code.co_filename, frame.f_lineno, kind)
    if place not in places:
        places.add(place)
        warnings.warn(f"{text} See {kind!r} in docs/mistakes.md.", StrictWarning, stacklevel=level)


# The mistakes.


def batch_in_single_call(who: str, tensors: list[Any]) -> None:
    """``BNNSFilterApply`` on memory that holds several samples."""
    held = {t.name: _samples(t) for t in tensors}
    counts = set(held.values())
    if len(counts) == 1 and (count := counts.pop()) is not None and count > 1:
        warn(
            f"{who}: {' and '.join(held)} hold {count} samples, but this call runs the first one only. Use {who}Batch.",
            "A whole batch in a call for one sample",
        )


def _samples(tensor: Any) -> int | None:
    nbytes, sample = tensor.nbytes(), tensor.view.bytes_of(tensor.view.extent)
    return nbytes // sample if nbytes is not None and sample and nbytes % sample == 0 else None


def stride_zero(who: str, batch: Any, tensors: list[Any]) -> None:
    """A batch stride of 0, which means packed samples here, not one sample for all as in broadcasting."""
    zero = [t.name for t in tensors if t.data is not None and type(t.stride) is int and t.stride == 0]
    if type(batch) is int and batch > 1 and zero:
        strides = " and ".join(f"{name}_stride" for name in zero)
        numbers = " and ".join(str(t.view.extent) for t in tensors if t.name in zero)
        warn(
            f"{who}: batch_size is {batch} and {strides} 0, which means packed samples, not one sample repeated. "
            f"Pass {numbers} if packed samples are meant.",
            "A batch stride of 0",
        )


def overlapping_samples(who: str, batch: Any, tensors: list[Any]) -> None:
    """A batch stride that is smaller than a sample, so that samples share elements."""
    if type(batch) is not int or batch < 2:
        return
    for t in tensors:
        if t.data is not None and type(t.stride) is int and 0 < t.stride < t.view.extent:
            warn(
                f"{who}: {t.name}_stride is {t.stride}, but a sample has {t.view.extent} elements, so samples overlap. Pass "
                f"{t.view.extent} if they follow one another.",
                "A batch stride smaller than a sample",
            )


def destroyed_again(who: str, what: str = "filter") -> None:
    """A call that destroys what has been destroyed, which crashes on a Mac."""
    warn(
        f"{who}: the {what} has been destroyed already. Destroy it once, and forget the handle after that.",
        "A filter destroyed twice",
    )


def labels_of_nothing(who: str, empty: int, samples: int) -> None:
    """One-hot labels of which all are 0, so that a sample has no class and no loss."""
    warn(
        f"{who}: labels of {empty} of {samples} samples are all 0, so these samples have no class and teach nothing. Set the "
        "entry of the class to 1.",
        "One-hot labels that are all 0",
    )


def narrow_output(who: str, side: str, got: int, most: int) -> None:
    """A convolution whose output has fewer pixels than its input gives, so that the last ones are never computed."""
    warn(
        f"{who} {side} is {got}, but the convolution gives {most}: the last {most - got} are not computed. Describe {most}.",
        "An output narrower than what is computed",
    )


def transposed_array(who: str, shape: tuple[int, ...], data: Any) -> None:
    """Weights in an array whose axes are in a different order from the descriptor's."""
    given = getattr(data, "shape", None)
    if isinstance(given, tuple) and len(shape) > 1 and given != shape and sorted(given) == sorted(shape):
        cure = "the array's .T" if given == shape[::-1] else "np.transpose(array, ...)"
        warn(
            f"{who} is an array of shape {given}, but the descriptor reads its memory as {shape}. "
            f"Pass np.ascontiguousarray of {cure}, or describe the array as it is.",
            "A weights array of the transposed shape",
        )


def changed_copy(who: str) -> None:
    """Values that were copied at creation, and have been changed since in a filter that is trained."""
    warn(
        f"{who} has changed since then, but the filter made a copy and computes with the old values. Create it with "
        "BNNSFilterParameters(flags=BNNSFlagsUseClientPtr).",
        "BNNSFlagsUseClientPtr forgotten",
    )


def no_gradient(who: str) -> None:
    """An optimizer that multiplies all gradients by 0."""
    warn(
        f"{who}: gradient_scale is 0, so gradients have no effect. Set it to 1; a struct that is not filled in has 0.",
        "A gradient_scale of 0",
    )


def zero_variance(who: str) -> None:
    """A moving variance that starts at 0."""
    warn(
        f"{who} holds zeros, so the first inferences divide by almost nothing. Start the moving variance at 1.",
        "A moving variance that starts at 0",
    )


def full_smoothing(who: str) -> None:
    """Labels that are smoothed so much that nothing is left of them."""
    warn(
        f"{who} is 1, so all labels become the same and nothing can be learned. Use less than 1, such as 0.1.",
        "A label smoothing of 1",
    )


def shared_results(who: str, other: str) -> None:
    """Two results of a call in one place."""
    warn(
        f"{who} and {other} share memory, so one result overwrites the other. Give every result that you want its own "
        "memory.",
        "Two results in one place",
    )


def dropout_again(who: str) -> None:
    """A dropout filter that runs forward twice without a backward call in between, as in inference."""
    warn(
        f"{who}: this dropout filter runs forward again without a backward call in between. It drops elements in "
        "inference, too: leave it out there.",
        "Dropout outside training",
    )


def _read_environment() -> None:
    global _everywhere
    if os.environ.get("OPENBNNS_STRICT") == "1":
        _everywhere = set()
        engines.watch_filters(1)


_read_environment()

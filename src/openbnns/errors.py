"""Errors: what was wrong, kept for both faces.

Filters raise :class:`Problem`. The C face turns it into a status code, a log line and :func:`last_error`; the Python
face turns it into a :class:`BNNSError` that is also a ``ValueError`` or ``TypeError``.
"""

from __future__ import annotations

import threading
from typing import TypeVar

from . import engines

FAILURE = -1
"""Status code of a failed call."""


class Problem(Exception):
    """A call that cannot be executed; raised by filters, translated by the faces.

    ``kind`` is ``ValueError`` for values and shapes, ``TypeError`` for element types. ``unsupported`` marks a legal
    request that is not available (logged as information rather than as an error). ``code`` is the C status. ``cure`` is
    the end of the message, where a better one may be found later (see :mod:`openbnns.diagnosis`).
    """

    def __init__(
        self, finding: str, *, cure: str = "", kind: type[Exception] = ValueError, unsupported: bool = False,
        code: int = FAILURE,
    ) -> None:  # fmt: skip
        super().__init__(finding, cure)
        self.finding = finding
        self.cure = cure
        self.kind = kind
        self.unsupported = unsupported
        self.code = code

    @property
    def message(self) -> str:
        return f"{self.finding} {self.cure}" if self.cure else self.finding

    def __str__(self) -> str:
        return self.message

    def cured_by(self, cure: str) -> Problem:
        """The same problem with a better cure: in place of the old one, or appended if there was none."""
        return Problem(self.finding, cure=cure, kind=self.kind, unsupported=self.unsupported, code=self.code)


def out_of_memory(who: str) -> Problem:
    """The problem of a call for which there is not enough memory."""
    return Problem(f"{who}: there is not enough memory for this call. Use smaller sizes or a smaller batch.")


class BNNSError(Exception):
    """Base of everything OpenBNNS raises about a layer, a descriptor or an optimizer.

    >>> import numpy as np
    >>> from openbnns import *
    >>> try:
    ...     FullyConnectedLayer(input=Shape.vector(3), output=Shape.vector(2), weights=np.zeros((2, 4), np.float32))
    ... except BNNSError as error:
    ...     print(type(error).__name__, isinstance(error, ValueError))
    LayerCreationError True
    """

    _problem: Problem | None = None


class LayerCreationError(BNNSError):
    """A layer could not be built from its description.

    >>> import numpy as np
    >>> from openbnns import *
    >>> try:
    ...     ActivationLayer(function=ActivationFunction.abs(), input=Shape.vector(3), output=Shape.vector(4))
    ... except LayerCreationError as error:
    ...     print(str(error).split(". ")[0])
    ActivationLayer: input is Vector size (3,) Float32 and output is Vector size (4,) Float32
    """


class LayerApplyError(BNNSError):
    """An ``apply`` or ``apply_backward`` call failed; nothing was written.

    >>> import numpy as np
    >>> from openbnns import *
    >>> layer = ActivationLayer(function=ActivationFunction.abs(), input=Shape.vector(3))
    >>> try:
    ...     layer.apply(np.zeros(4, np.float32))
    ... except LayerApplyError as error:
    ...     print(error)
    ActivationLayer.apply: input has shape (4,), but this layer expects (3,), or (N, 3) with a batch.
    """


class OptimizerStepError(BNNSError):
    """An optimizer step failed; no parameter was changed.

    >>> import numpy as np
    >>> from openbnns import *
    >>> w = np.zeros(2, np.float32)
    >>> try:
    ...     SGDMomentumOptimizer(learning_rate=0.1).step([w], [np.zeros(3, np.float32)])
    ... except OptimizerStepError as error:
    ...     print(str(error).split(". ")[0])
    SGDMomentumOptimizer.step: gradients[0] has shape (3,), but parameters[0] has (2,)
    """


class InvalidDescriptorError(BNNSError):
    """A descriptor or array lacks usable data.

    >>> from openbnns import *
    >>> try:
    ...     Shape.vector(-1)
    ... except InvalidDescriptorError as error:
    ...     print(error)
    Shape: sizes must not be negative, got (-1,).
    """


_with_kind: dict[tuple[type[BNNSError], type[Exception]], type[BNNSError]] = {}


def as_exception(problem: Problem, family: type[BNNSError]) -> BNNSError:
    """The exception of the Python face: of class ``family`` and of the problem's kind at once."""
    key = (family, problem.kind)
    kind = _with_kind.get(key)
    if kind is None:
        made = type(family.__name__, key, {"__module__": family.__module__, "__doc__": family.__doc__})
        kind = _with_kind.setdefault(key, made)
    error = kind(problem.message)
    error._problem = problem
    return error


def problem_of(error: BNNSError) -> Problem | None:
    """The problem from which ``as_exception`` made an exception."""
    return error._problem


_thread = threading.local()
_Result = TypeVar("_Result")


def record(problem: Problem) -> int:
    """Log a failed call of the C face once, keep its message for :func:`last_error`, and return its status code."""
    import logging  # here, so that importing the package stays quick

    _thread.message = problem.message
    if engines._core is not None:
        engines._core.set_latest_call_failed(True)
    logger = logging.getLogger("openbnns")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # silent unless the caller sets up logging
    logger.log(logging.INFO if problem.unsupported else logging.ERROR, "%s", problem.message)
    return problem.code


def succeeded(result: _Result) -> _Result:
    """The end of a successful call of the C face, after which :func:`last_error` returns ``None``.

    Native calls clear the flag themselves, without coming here; see core/bindings/latest_call.h.
    """
    if engines._core is not None:
        engines._core.set_latest_call_failed(False)
    else:
        _thread.message = None
    return result


def last_error() -> str | None:
    """Why the latest ``openbnns.capi`` call of this thread failed; ``None`` if it succeeded, or there was none.

    Calls that release something do not change it, so that cleaning up does not hide the reason. Layers raise exceptions
    instead, which are not reported here; a successful call of a layer may clear the message.

    >>> import openbnns
    >>> from openbnns import capi
    >>> capi.BNNSFilterApply(None, None, None)
    -1
    >>> openbnns.last_error()
    'BNNSFilterApply: filter is NULL. Its creation failed or was skipped: check the creation call and its message.'
    >>> capi.BNNSDataLayoutGetRank(capi.BNNSDataLayoutVector), openbnns.last_error()
    (1, None)
    """
    if engines._core is not None and not engines._core.latest_call_failed():
        return None
    return getattr(_thread, "message", None)

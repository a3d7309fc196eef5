"""Functions of the values in ``forward``, with PyTorch's names; ``dim`` counts the batch axis, as there.

A network records them. Outside of one they compute with arrays, by programs that are kept for the next call with such
arguments.

>>> import numpy as np
>>> from openbnns import nn
>>> from openbnns.nn import functional as F
>>> class Pooled(nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.score = nn.Linear(1)
...     def forward(self, x):
...         return F.sum(F.softmax(self.score(x), dim=1) * x, dim=1)
>>> Pooled()(np.ones((2, 5, 3), np.float32)).shape
(2, 3)
"""

from ..._listing import of_module as _of_module
from ..._spelling import nearest as _nearest
from ...graph.functions import *  # noqa: F403
from ...graph.functions import NAMES as _NAMES
from ...graph.tensor import DEPENDS_ON_NUMBERS as _DEPENDS_ON_NUMBERS
from ...graph.tensor import document as _document

__all__ = [*_NAMES]

__dir__ = _of_module(__name__)

_document(globals(), __all__)


def __getattr__(name: str) -> object:
    """Raise the error for an unknown name, with the nearest known one or the reason that there is none."""
    if name in ("nonzero", "masked_select", "unique", "argwhere"):
        raise AttributeError(f"nn.functional.{name}: does not exist. {_DEPENDS_ON_NUMBERS}")

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{_nearest(name, __all__)}")

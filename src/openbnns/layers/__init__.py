"""The Python face: layers after the classes of the Swift overlay, on NumPy arrays or descriptors.

See :mod:`openbnns.layers.base` for the rules that all layers share.
"""

from .._lazy import attach as _attach
from ._names import HOMES as _HOMES

__getattr__, __dir__ = _attach(__name__, _HOMES)

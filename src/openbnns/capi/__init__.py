"""The C interface of classic BNNS under its own names.

Functions take the C parameters in the C order; a name that Python reserves has a trailing underscore (``in_``).
Creation returns a :class:`BNNSFilter` or ``None``; apply calls return 0, or a negative code, and then
:func:`openbnns.last_error` says what was wrong. Structs and enums carry the C field and member names.
"""

from .._lazy import attach as _attach
from ._names import HOMES as _HOMES

__getattr__, __dir__ = _attach(__name__, _HOMES, tables=(".abi.enums", ".abi.structs"))

"""Networks from PyTorch, and weights back to it. PyTorch is needed only while one of these functions runs."""

from ._converting import from_torch
from ._exporting import to_torch_state_dict
from ._supported import supported
from .errors import Unsupported

__all__ = ["Unsupported", "from_torch", "supported", "to_torch_state_dict"]

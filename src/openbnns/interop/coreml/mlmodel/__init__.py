"""Networks from ``.mlmodel`` files of Core ML."""

from ._network import CoreMLNetwork
from ._reading import Unsupported, from_mlmodel

__all__ = ["CoreMLNetwork", "Unsupported", "from_mlmodel"]

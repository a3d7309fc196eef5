"""Networks as ML programs, which Core ML and BNNSGraph run."""

from ....nn.exported import Package
from . import (  # noqa: F401  (each enters its writers)
    attention,
    control,
    elementwise,
    fourier,
    layers,
    positions,
    recurrent,
    shapes,
)
from .package import NotInCoreML, to_coreml

__all__ = ["NotInCoreML", "Package", "to_coreml"]

"""Networks as ML programs, which Core ML and BNNSGraph run."""

from ._writing import NotInCoreML, Package, to_coreml

__all__ = ["NotInCoreML", "Package", "to_coreml"]

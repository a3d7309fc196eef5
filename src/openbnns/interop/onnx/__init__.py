"""Networks from ONNX files, and networks as ONNX files. The package ``onnx`` is needed only while one of these functions runs."""

from ._supported import supported
from .errors import OnnxError, Unsupported
from .reading import from_onnx
from .writing import to_onnx

__all__ = ["OnnxError", "Unsupported", "from_onnx", "supported", "to_onnx"]

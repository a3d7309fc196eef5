"""Networks from ONNX files, and networks as ONNX files. The package ``onnx`` is needed only while one of these functions runs."""

from ..._lazy import attach

__getattr__, __dir__ = attach(
    __name__,
    {
        "_supported": ["supported"],
        "errors": ["OnnxError", "Unsupported"],
        "reading": ["from_onnx"],
        "writing": ["to_onnx"],
    },
)

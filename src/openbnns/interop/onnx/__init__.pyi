from ._supported import supported as supported
from .errors import OnnxError as OnnxError
from .errors import Unsupported as Unsupported
from .reading import from_onnx as from_onnx
from .writing import to_onnx as to_onnx

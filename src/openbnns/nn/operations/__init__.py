"""The operations of networks, each on one layer of ``openbnns``."""

from .activation import Activation
from .arithmetic import Arithmetic, broadcast
from .attention import Attention
from .convolution import Convolution
from .dropout import Dropout
from .embedding import Embedding
from .function import CustomFunction
from .linear import Linear
from .lstm import Lstm
from .moves import Concatenate, Detach, Expand, Permute, Pick, Slice, Split
from .normalization import Normalization
from .pooling import Pooling
from .product import Contraction, MatrixProduct
from .reduction import Reduction

__all__ = [
    "Activation", "Arithmetic", "Attention", "Concatenate", "Contraction", "Convolution", "CustomFunction", "Detach", "Dropout",
    "Embedding", "Expand", "Linear", "Lstm", "MatrixProduct", "Normalization", "Permute", "Pick", "Pooling",
    "Reduction", "Slice", "Split", "broadcast",
]  # fmt: skip

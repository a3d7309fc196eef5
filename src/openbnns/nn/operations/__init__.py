"""The operations of networks, each on one layer of ``openbnns``."""

from .activation import Activation
from .attention import Attention
from .combine import Add, Concatenate, Slice
from .convolution import Convolution
from .dropout import Dropout
from .embedding import Embedding
from .linear import Linear
from .lstm import Lstm
from .normalization import Normalization
from .pooling import Pooling

__all__ = [
    "Activation", "Add", "Attention", "Concatenate", "Convolution", "Dropout", "Embedding", "Linear", "Lstm",
    "Normalization", "Pooling", "Slice",
]  # fmt: skip

"""The operations of networks, each on one layer of ``openbnns``."""

from .activation import Activation
from .combine import Add, Concatenate
from .convolution import Convolution
from .dropout import Dropout
from .embedding import Embedding
from .linear import Linear
from .normalization import Normalization
from .pooling import Pooling

__all__ = [
    "Activation", "Add", "Concatenate", "Convolution", "Dropout", "Embedding", "Linear", "Normalization", "Pooling",
]  # fmt: skip

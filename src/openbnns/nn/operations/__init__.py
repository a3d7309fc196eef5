"""The operations of networks, each on one layer of ``openbnns``."""

from .activation import Activation
from .combine import Add, Concatenate
from .convolution import Convolution
from .linear import Linear
from .pooling import Pooling

__all__ = ["Activation", "Add", "Concatenate", "Convolution", "Linear", "Pooling"]

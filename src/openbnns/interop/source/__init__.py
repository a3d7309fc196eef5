"""Networks as source code that makes calls of BNNS: C and Swift, with the weights in a file."""

from ...nn.exported import Written
from .errors import NotInBNNS
from .files import to_c, to_swift

__all__ = ["NotInBNNS", "Written", "to_c", "to_swift"]

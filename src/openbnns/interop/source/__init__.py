"""Networks as source code that makes calls of BNNS: C and Swift, with the weights in a file."""

from ._writing import Written, to_c, to_swift
from .errors import NotInBNNS

__all__ = ["NotInBNNS", "Written", "to_c", "to_swift"]

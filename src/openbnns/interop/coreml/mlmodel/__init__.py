"""Networks from ``.mlmodel`` files of Core ML."""

from . import layer_operations  # its functions enter themselves into the table of layers
from .branched_network import CoreMLNetwork
from .neural_network import NeuralNetwork, from_mlmodel, network_of
from .program import program_of, takes_any_rank
from .refusal import Unsupported

__all__ = [
    "CoreMLNetwork", "NeuralNetwork", "Unsupported", "from_mlmodel", "layer_operations", "network_of", "program_of",
    "takes_any_rank",
]  # fmt: skip

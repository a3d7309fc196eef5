"""Networks from ``.mlmodel`` files of Core ML."""

from .branched_network import CoreMLNetwork
from .neural_network import NeuralNetwork, Unsupported, from_mlmodel, network_of

__all__ = ["CoreMLNetwork", "NeuralNetwork", "Unsupported", "from_mlmodel", "network_of"]

"""Layers for sequences (length, features), the batch in front: recurrent ones, attention, transformers, positions."""

from .attention import MultiheadAttention
from .encodings import LearnedEncoding, RotaryEncoding, SinusoidalEncoding
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .transformers import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "LearnedEncoding", "MultiheadAttention", "RNNCell", "RotaryEncoding",
    "SinusoidalEncoding", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

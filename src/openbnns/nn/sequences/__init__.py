"""Layers for sequences (length, features), the batch in front: recurrent ones, attention, transformers."""

from .attention import MultiheadAttention, TransformerEncoderLayer
from .recurrent import GRU, LSTM, RNN

__all__ = ["GRU", "LSTM", "RNN", "MultiheadAttention", "TransformerEncoderLayer"]

"""A tagger of words: embedding, a GRU in both directions, a tag for every word; padding counts nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn

from . import data
from .pair import Batch, Pair


@dataclass(frozen=True)
class Sizes:
    batch: int = 32
    length: int = 40
    words: int = 5000
    tags: int = 17
    width: int = 64
    hidden: int = 128


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Words (N, T) with zeros behind them, lengths (N,), and tags (N, T) with -100 behind them."""
    return data.stripped_words(random, sizes.batch, sizes.length, sizes.words, sizes.tags, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Tagger(nn.Module):
        def __init__(self, words, tags, width, hidden):
            super().__init__()
            self.embedding = nn.Embedding(words, width, padding_idx=0)
            self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * hidden, tags)

        def forward(self, x, lengths):
            packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
            packed, _ = self.gru(packed)
            h, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
            return self.head(h)

    class Training:
        def __init__(self, sizes):
            self.net = Tagger(sizes.words, sizes.tags, sizes.width, sizes.hidden)
            self.criterion = nn.CrossEntropyLoss(ignore_index=-100)
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3, fused=True)

        def step(self, words, lengths, tags):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(words, lengths).flatten(0, 1), tags.flatten())
            loss.backward()
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class Tagger(nn.Module):
    def __init__(self, words, tags, width, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, x, lengths):
        h, _ = self.gru(self.embedding(x), lengths=lengths)
        return self.head(h)


class Training:
    def __init__(self, sizes):
        self.net = Tagger(sizes.words, sizes.tags, sizes.width, sizes.hidden)
        self.criterion = nn.CrossEntropyLoss(ignore_index=-100, dim=-1)
        self.optimizer = nn.Adam(self.net.parameters(), lr=2e-3)

    def step(self, words, lengths, tags):
        loss, gradient = self.criterion(self.net(words, lengths), tags)
        self.net.backward(gradient, input_gradient=False)
        self.optimizer.step()
        return loss


PAIR = Pair(
    "GRU tagger, 2 x 128, T 40, batch 32", Training, pytorch, batch, full=Sizes(), small=Sizes(6, 9, 30, 5, 8, 12)
)

"""A language model on characters: embedding, two layers of LSTM, scores of the next character at every position."""

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
    length: int = 64
    vocabulary: int = 65
    width: int = 256


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Characters (N, T) and those that come next (N, T)."""
    return data.next_characters(random, sizes.batch, sizes.length, sizes.vocabulary, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn

    class CharacterModel(nn.Module):
        def __init__(self, vocabulary, width):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.head = nn.Linear(width, vocabulary)

        def forward(self, x):
            x, _ = self.lstm(self.embedding(x))
            return self.head(x)

    class Training:
        def __init__(self, sizes):
            self.net = CharacterModel(sizes.vocabulary, sizes.width)
            self.criterion = nn.CrossEntropyLoss()
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=2e-3, fused=True)

        def step(self, characters, following):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(characters).flatten(0, 1), following.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class CharacterModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        x, _ = self.lstm(self.embedding(x))
        return self.head(x)


class Training:
    def __init__(self, sizes):
        self.net = CharacterModel(sizes.vocabulary, sizes.width)
        self.criterion = nn.CrossEntropyLoss(dim=-1)
        self.optimizer = nn.Adam(self.net.parameters(), lr=2e-3)

    def step(self, characters, following):
        loss, gradient = self.criterion(self.net(characters), following)
        self.net.backward(gradient, input_gradient=False)
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss


PAIR = Pair(
    "character LSTM, 2 x 256, T 64, batch 32", Training, pytorch, batch, full=Sizes(), small=Sizes(4, 9, 11, 24)
)

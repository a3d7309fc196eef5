"""A small vision transformer: patches by a convolution, a class token, learned positions, layers with the norm in front."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.nn import functional as F

from . import data
from .pair import Batch, Pair

PATCH = 4


@dataclass(frozen=True)
class Sizes:
    batch: int = 16
    image: int = 32
    width: int = 192
    heads: int = 3
    depth: int = 6

    @property
    def positions(self) -> int:
        return 1 + (self.image // PATCH) ** 2


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 3, H, W) and their classes (N,)."""
    return data.coloured_digits(random, sizes.batch, sizes.image, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn

    class ViT(nn.Module):
        def __init__(self, positions, width, heads, depth, classes=10):
            super().__init__()
            self.patches = nn.Conv2d(3, width, PATCH, stride=PATCH)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.positions = nn.Parameter(0.02 * torch.randn(1, positions, width))
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(
                    width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                )
                for _ in range(depth)
            )
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, classes)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x[:, 0]))

    class Training:
        def __init__(self, sizes):
            self.net = ViT(sizes.positions, sizes.width, sizes.heads, sizes.depth)
            self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=3e-4, weight_decay=0.05, fused=True)

        def step(self, images, labels):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(images), labels)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class ViT(nn.Module):
    def __init__(self, positions, width, heads, depth, classes=10):
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH, stride=PATCH)
        self.token = nn.Parameter(np.zeros((1, 1, width)))
        self.positions = nn.Parameter(np.random.default_rng(0).normal(0, 0.02, (1, positions, width)))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = F.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x[:, 0]))


class Training:
    def __init__(self, sizes):
        self.net = ViT(sizes.positions, sizes.width, sizes.heads, sizes.depth)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = nn.AdamW(self.net.parameters(), lr=3e-4, weight_decay=0.05)

    def step(self, images, labels):
        loss, gradient = self.criterion(self.net(images), labels)
        self.net.backward(gradient, input_gradient=False)
        self.optimizer.step()
        return loss


PAIR = Pair(
    "ViT-tiny, 32 x 32, 6 x 192, batch 16", Training, pytorch, batch, full=Sizes(), small=Sizes(8, 16, 24, 3, 2)
)

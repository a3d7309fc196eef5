"""A small GPT: causal attention written out, learned positions, and a head that shares the table of the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.nn import functional as F

from . import data
from .pair import Batch, Pair


@dataclass(frozen=True)
class Sizes:
    batch: int = 16
    length: int = 128
    vocabulary: int = 65
    width: int = 128
    heads: int = 4
    depth: int = 4


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Tokens (N, T) and those that come next (N, T)."""
    return data.next_characters(random, sizes.batch, sizes.length, sizes.vocabulary, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.projection = nn.Linear(width, width)
            self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x):
            n, t, c = x.shape
            q, k, v = self.qkv(x).split(c, dim=2)
            q = q.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            k = k.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            v = v.view(n, t, self.heads, c // self.heads).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.projection(y.transpose(1, 2).contiguous().view(n, t, c))

        def forward(self, x):
            x = x + self.attend(self.ln1(x))
            return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))

    class GPT(nn.Module):
        def __init__(self, length, vocabulary, width, heads, depth):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(length, width)
            self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    class Training:
        def __init__(self, sizes):
            self.net = GPT(sizes.length, sizes.vocabulary, sizes.width, sizes.heads, sizes.depth)
            for table in (self.net.tokens, self.net.positions):
                nn.init.normal_(table.weight, std=0.02)
            self.criterion = nn.CrossEntropyLoss()
            self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)

        def step(self, tokens, following):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(tokens).flatten(0, 1), following.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(n, t, self.heads, c // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).contiguous().view(n, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, length, vocabulary, width, heads, depth):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(np.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Training:
    def __init__(self, sizes):
        self.net = GPT(sizes.length, sizes.vocabulary, sizes.width, sizes.heads, sizes.depth)
        for table in (self.net.tokens, self.net.positions):
            table.weight.data *= 0.02
        self.criterion = nn.CrossEntropyLoss(dim=-1)
        self.optimizer = nn.AdamW(self.net.parameters(), lr=1e-3, betas=(0.9, 0.95))

    def step(self, tokens, following):
        loss, gradient = self.criterion(self.net(tokens), following)
        self.net.backward(gradient, input_gradient=False)
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return loss


PAIR = Pair(
    "GPT-nano, 4 x 128, T 128, batch 16", Training, pytorch, batch, full=Sizes(), small=Sizes(4, 10, 11, 24, 3, 2)
)

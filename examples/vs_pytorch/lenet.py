"""LeNet-5 on digits: two convolutions with pooling, and three linear layers."""

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
    batch: int = 64


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 1, 28, 28) and their classes (N,)."""
    return data.grey_digits(random, sizes.batch, 28, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
            self.conv2 = nn.Conv2d(6, 16, 5)
            self.fc1 = nn.Linear(16 * 5 * 5, 120)
            self.fc2 = nn.Linear(120, 84)
            self.fc3 = nn.Linear(84, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            x = F.relu(self.fc1(x.flatten(1)))
            x = F.relu(self.fc2(x))
            return self.fc3(x)

    class Training:
        def __init__(self, sizes):
            self.net = LeNet()
            self.criterion = nn.CrossEntropyLoss()
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)

        def step(self, images, labels):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(images), labels)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class Training:
    def __init__(self, sizes):
        self.net = LeNet()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = nn.Adam(self.net.parameters(), lr=1e-3)

    def step(self, images, labels):
        loss, gradient = self.criterion(self.net(images), labels)
        self.net.backward(gradient, input_gradient=False)  # of the images, as in PyTorch
        self.optimizer.step()
        return loss


PAIR = Pair("LeNet-5, 28 x 28, batch 64", Training, pytorch, batch, full=Sizes(), small=Sizes(batch=16))

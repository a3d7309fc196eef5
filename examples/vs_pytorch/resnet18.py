"""ResNet-18 in the form for small images (CIFAR): residual blocks with batch normalization, no pooling at the start."""

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
    image: int = 32
    width: int = 64


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 3, H, W) and their classes (N,)."""
    return data.coloured_digits(random, sizes.batch, sizes.image, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class BasicBlock(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            nn.init.zeros_(self.bn2.weight)  # a block starts as its shortcut
            self.shortcut = nn.Sequential()
            if stride != 1 or inputs != width:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
                )

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            return F.relu(out + self.shortcut(x))

    class ResNet18(nn.Module):
        def __init__(self, width, classes=10):
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.layer1 = self.stage(width, width, stride=1)
            self.layer2 = self.stage(width, 2 * width, stride=2)
            self.layer3 = self.stage(2 * width, 4 * width, stride=2)
            self.layer4 = self.stage(4 * width, 8 * width, stride=2)
            self.linear = nn.Linear(8 * width, classes)

        @staticmethod
        def stage(inputs, width, stride):
            return nn.Sequential(BasicBlock(inputs, width, stride), BasicBlock(width, width, 1))

        def forward(self, x):
            x = F.relu(self.bn1(self.conv1(x)))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            x = F.adaptive_avg_pool2d(x, 1).flatten(1)
            return self.linear(x)

    class Training:
        def __init__(self, sizes):
            self.net = ResNet18(sizes.width)
            self.criterion = nn.CrossEntropyLoss()
            self.optimizer = torch.optim.SGD(
                self.net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, fused=True
            )

        def step(self, images, labels):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(images), labels)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.bn2.weight.data = np.zeros(width)  # a block starts as its shortcut
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = self.stage(width, width, stride=1)
        self.layer2 = self.stage(width, 2 * width, stride=2)
        self.layer3 = self.stage(2 * width, 4 * width, stride=2)
        self.layer4 = self.stage(4 * width, 8 * width, stride=2)
        self.linear = nn.Linear(8 * width, classes)

    @staticmethod
    def stage(inputs, width, stride):
        return nn.Sequential(BasicBlock(inputs, width, stride), BasicBlock(width, width, 1))

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.linear(x)


class Training:
    def __init__(self, sizes):
        self.net = ResNet18(sizes.width)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = nn.SGD(self.net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)

    def step(self, images, labels):
        loss, gradient = self.criterion(self.net(images), labels)
        self.net.backward(gradient, input_gradient=False)
        self.optimizer.step()
        return loss


PAIR = Pair("ResNet-18, 32 x 32, batch 16", Training, pytorch, batch, full=Sizes(), small=Sizes(8, 16, 8))

"""MobileNetV2 in the form for small images: inverted residuals, whose 3 x 3 convolutions see one channel each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.nn import functional as F

from . import data
from .pair import Batch, Pair

# Factor that a block widens its input by, channels it gives, number of such blocks, stride of the first.
BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
RATE, WARM_UP = 0.015, 1000  # learning rate, the usual one for such batches, and steps until it is reached
FEW_BLOCKS = ((1, 8, 1, 1), (6, 12, 2, 2), (6, 16, 2, 2))


@dataclass(frozen=True)
class Sizes:
    batch: int = 32
    image: int = 32
    blocks: tuple[tuple[int, int, int, int], ...] = BLOCKS
    first: int = 32
    last: int = 1280


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 3, H, W) and their classes (N,)."""
    return data.coloured_digits(random, sizes.batch, sizes.image, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    def conv_bn_relu(inputs, outputs, size, stride=1, groups=1):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        )

    class InvertedResidual(nn.Module):
        def __init__(self, inputs, outputs, stride, factor):
            super().__init__()
            wide = factor * inputs
            self.adds = stride == 1 and inputs == outputs
            self.conv = nn.Sequential(
                *([conv_bn_relu(inputs, wide, 1)] if factor != 1 else []),
                conv_bn_relu(wide, wide, 3, stride, groups=wide),
                nn.Conv2d(wide, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            if self.adds:
                nn.init.zeros_(self.conv[-1].weight)  # a block starts as its shortcut

        def forward(self, x):
            return x + self.conv(x) if self.adds else self.conv(x)

    class MobileNetV2(nn.Module):
        def __init__(self, blocks, first, last, classes=10):
            super().__init__()
            layers, channels = [conv_bn_relu(3, first, 3)], first
            for factor, width, count, stride in blocks:
                for i in range(count):
                    layers.append(InvertedResidual(channels, width, stride if i == 0 else 1, factor))
                    channels = width
            self.features = nn.Sequential(*layers, conv_bn_relu(channels, last, 1))
            self.classifier = nn.Linear(last, classes)

        def forward(self, x):
            x = self.features(x)
            x = F.adaptive_avg_pool2d(x, 1).flatten(1)
            return self.classifier(x)

    class Training:
        def __init__(self, sizes):
            self.net = MobileNetV2(sizes.blocks, sizes.first, sizes.last)
            self.criterion = nn.CrossEntropyLoss()
            self.optimizer = torch.optim.SGD(
                self.net.parameters(), lr=RATE, momentum=0.9, weight_decay=4e-5, fused=True
            )
            self.warm_up = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1 / WARM_UP, total_iters=WARM_UP)

        def step(self, images, labels):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(images), labels)
            loss.backward()
            self.optimizer.step()
            self.warm_up.step()
            return loss.item()

    return Training


# With OpenBNNS.


def conv_bn_relu(inputs, outputs, size, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, factor):
        super().__init__()
        wide = factor * inputs
        self.adds = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            *([conv_bn_relu(inputs, wide, 1)] if factor != 1 else []),
            conv_bn_relu(wide, wide, 3, stride, groups=wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        if self.adds:
            self.conv[-1].weight.data = np.zeros(outputs)  # a block starts as its shortcut

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    def __init__(self, blocks, first, last, classes=10):
        super().__init__()
        layers, channels = [conv_bn_relu(3, first, 3)], first
        for factor, width, count, stride in blocks:
            for i in range(count):
                layers.append(InvertedResidual(channels, width, stride if i == 0 else 1, factor))
                channels = width
        self.features = nn.Sequential(*layers, conv_bn_relu(channels, last, 1))
        self.classifier = nn.Linear(last, classes)

    def forward(self, x):
        x = self.features(x)
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.classifier(x)


class Training:
    def __init__(self, sizes):
        self.net = MobileNetV2(sizes.blocks, sizes.first, sizes.last)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = nn.SGD(self.net.parameters(), lr=RATE, momentum=0.9, weight_decay=4e-5)
        self.warm_up = nn.LinearLR(self.optimizer, 1 / WARM_UP, total_iters=WARM_UP)

    def step(self, images, labels):
        loss, gradient = self.criterion(self.net(images), labels)
        self.net.backward(gradient, input_gradient=False)
        self.optimizer.step()
        self.warm_up.step()
        return loss


PAIR = Pair(
    "MobileNetV2, 32 x 32, batch 32", Training, pytorch, batch, full=Sizes(), small=Sizes(16, 16, FEW_BLOCKS, 8, 32)
)

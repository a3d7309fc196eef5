"""U-Net, which marks the pixels of an object: down in four steps, up again, with a bridge at every size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.nn import functional as F

from . import data
from .pair import Batch, Pair

RATE, WARM_UP = 1e-3, 1000  # learning rate, and steps until it is reached


@dataclass(frozen=True)
class Sizes:
    batch: int = 8
    image: int = 64
    width: int = 32


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 3, H, W) and masks (N, 1, H, W)."""
    return data.digits_before_clouds(random, sizes.batch, sizes.image, held_out)


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class DoubleConv(nn.Sequential):
        def __init__(self, inputs, outputs):
            super().__init__(
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self, width):
            super().__init__()
            widths = [width, 2 * width, 4 * width, 8 * width]
            self.first = DoubleConv(3, width)
            self.downs = nn.ModuleList(DoubleConv(w, 2 * w) for w in widths)
            self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths))
            self.joins = nn.ModuleList(DoubleConv(2 * w, w) for w in reversed(widths))
            self.last = nn.Conv2d(width, 1, 1)

        def forward(self, x):
            x = self.first(x)
            bridges = []
            for down in self.downs:
                bridges.append(x)
                x = down(F.max_pool2d(x, 2))
            for up, join in zip(self.ups, self.joins, strict=True):
                x = join(torch.cat([bridges.pop(), up(x)], dim=1))
            return self.last(x)

    class Training:
        def __init__(self, sizes):
            self.net = UNet(sizes.width)
            self.criterion = nn.BCEWithLogitsLoss()
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=RATE, fused=True)
            self.warm_up = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1 / WARM_UP, total_iters=WARM_UP)

        def step(self, images, masks):
            self.optimizer.zero_grad()
            loss = self.criterion(self.net(images), masks)
            loss.backward()
            self.optimizer.step()
            self.warm_up.step()
            return loss.item()

    return Training


# With OpenBNNS.


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.first = DoubleConv(3, width)
        self.downs = nn.ModuleList(DoubleConv(w, 2 * w) for w in widths)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths))
        self.joins = nn.ModuleList(DoubleConv(2 * w, w) for w in reversed(widths))
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = self.first(x)
        bridges = []
        for down in self.downs:
            bridges.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(F.cat([bridges.pop(), up(x)], dim=1))
        return self.last(x)


class Training:
    def __init__(self, sizes):
        self.net = UNet(sizes.width)
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = nn.Adam(self.net.parameters(), lr=RATE)
        self.warm_up = nn.LinearLR(self.optimizer, 1 / WARM_UP, total_iters=WARM_UP)

    def step(self, images, masks):
        loss, gradient = self.criterion(self.net(images), masks)
        self.net.backward(gradient, input_gradient=False)
        self.optimizer.step()
        self.warm_up.step()
        return loss


PAIR = Pair("U-Net, 64 x 64, 32 channels, batch 8", Training, pytorch, batch, full=Sizes(), small=Sizes(4, 32, 4))

"""DCGAN: a generator of images and a discriminator that learns to tell them from real ones, with an optimizer each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn

from . import data
from .pair import Batch, Pair

CODE = 100  # numbers that an image is made from
RATE, WARM_UP = 2e-4, 1000  # learning rate, and steps until it is reached


@dataclass(frozen=True)
class Sizes:
    batch: int = 32
    width: int = 64


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 3, 64, 64) between -1 and 1, and codes (N, 100, 1, 1)."""
    codes = random.standard_normal((sizes.batch, CODE, 1, 1)).astype(np.float32)
    images, _ = data.coloured_digits(random, sizes.batch, 64, held_out)
    return images, codes


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn

    class Generator(nn.Sequential):
        def __init__(self, width):
            super().__init__(
                nn.ConvTranspose2d(CODE, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU(),
                nn.ConvTranspose2d(8 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(),
                nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
                nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
            )  # fmt: skip

    class Discriminator(nn.Sequential):
        def __init__(self, width):
            super().__init__(
                nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
                nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2),
                nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2),
                nn.Conv2d(4 * width, 8 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(8 * width), nn.LeakyReLU(0.2),
                nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False), nn.Flatten(),
            )  # fmt: skip

    def initialize(module):
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)

    class Training:
        def __init__(self, sizes):
            self.generator = Generator(sizes.width).apply(initialize)
            self.discriminator = Discriminator(sizes.width).apply(initialize)
            self.criterion = nn.BCEWithLogitsLoss()
            options = {"lr": RATE, "betas": (0.5, 0.999), "fused": True}
            self.generator_optimizer = torch.optim.Adam(self.generator.parameters(), **options)
            self.discriminator_optimizer = torch.optim.Adam(self.discriminator.parameters(), **options)
            self.warm_ups = [
                torch.optim.lr_scheduler.LinearLR(optimizer, 1 / WARM_UP, total_iters=WARM_UP)
                for optimizer in (self.generator_optimizer, self.discriminator_optimizer)
            ]
            self.ones, self.zeros = torch.ones(sizes.batch, 1), torch.zeros(sizes.batch, 1)

        def step(self, images, codes):
            # The discriminator learns from real images, then from those of the generator.
            self.discriminator_optimizer.zero_grad()
            on_real = self.criterion(self.discriminator(images), self.ones)
            on_real.backward()
            fakes = self.generator(codes)
            on_fakes = self.criterion(self.discriminator(fakes.detach()), self.zeros)
            on_fakes.backward()
            self.discriminator_optimizer.step()
            # The generator learns what makes the discriminator take them for real.
            self.generator_optimizer.zero_grad()
            loss = self.criterion(self.discriminator(fakes), self.ones)
            loss.backward()
            self.generator_optimizer.step()
            for warm_up in self.warm_ups:
                warm_up.step()
            return on_real.item() + on_fakes.item(), loss.item()

    return Training


# With OpenBNNS.


class Generator(nn.Sequential):
    def __init__(self, width):
        super().__init__(
            nn.ConvTranspose2d(CODE, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU(),
            nn.ConvTranspose2d(8 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip


class Discriminator(nn.Sequential):
    def __init__(self, width):
        super().__init__(
            nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(4 * width), nn.LeakyReLU(0.2),
            nn.Conv2d(4 * width, 8 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(8 * width), nn.LeakyReLU(0.2),
            nn.Conv2d(8 * width, 1, 4, 1, 0, bias=False), nn.Flatten(),
        )  # fmt: skip


def initialize(network, random):
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            module.weight.data = random.normal(0.0, 0.02, module.weight.shape)
        elif isinstance(module, nn.BatchNorm2d):
            module.weight.data = random.normal(1.0, 0.02, module.weight.shape)
    return network


class Training:
    def __init__(self, sizes):
        random = np.random.default_rng(0)
        self.generator = initialize(Generator(sizes.width), random)
        self.discriminator = initialize(Discriminator(sizes.width), random)
        self.criterion = nn.BCEWithLogitsLoss()
        options = {"lr": RATE, "betas": (0.5, 0.999)}
        self.generator_optimizer = nn.Adam(self.generator.parameters(), **options)
        self.discriminator_optimizer = nn.Adam(self.discriminator.parameters(), **options)
        self.warm_ups = [
            nn.LinearLR(optimizer, 1 / WARM_UP, total_iters=WARM_UP)
            for optimizer in (self.generator_optimizer, self.discriminator_optimizer)
        ]
        self.ones, self.zeros = np.ones((sizes.batch, 1)), np.zeros((sizes.batch, 1))

    def step(self, images, codes):
        # The discriminator learns from real images, then from those of the generator.
        on_real, gradient = self.criterion(self.discriminator(images), self.ones)
        self.discriminator.backward(gradient, input_gradient=False)
        fakes = self.generator(codes)
        on_fakes, gradient = self.criterion(self.discriminator(fakes), self.zeros)
        self.discriminator.backward(gradient, accumulate=True, input_gradient=False)
        self.discriminator_optimizer.step()
        # The generator learns what makes the discriminator take them for real.
        loss, gradient = self.criterion(self.discriminator(fakes), self.ones)
        self.generator.backward(self.discriminator.backward(gradient), input_gradient=False)
        self.generator_optimizer.step()
        for warm_up in self.warm_ups:
            warm_up.step()
        return on_real + on_fakes, loss


PAIR = Pair("DCGAN, 64 x 64, 64 channels, batch 32", Training, pytorch, batch, full=Sizes(), small=Sizes(8, 8))

"""Variational autoencoder of digits: linear layers, two outputs per code, and a loss of two terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openbnns import nn
from openbnns.nn import functional as F

from . import data
from .pair import Batch, Pair

PIXELS = 784


@dataclass(frozen=True)
class Sizes:
    batch: int = 128
    hidden: int = 400
    code: int = 20


def batch(sizes: Sizes, random: np.random.RandomState, held_out: bool = False) -> Batch:
    """Images (N, 784) between 0 and 1, and the noise (N, code), which PyTorch and NumPy would draw differently."""
    images, _ = data.grey_digits(random, sizes.batch, 28, held_out)
    noise = random.standard_normal((sizes.batch, sizes.code)).astype(np.float32)
    return images.reshape(sizes.batch, PIXELS), noise


# In PyTorch.


def pytorch() -> Any:
    import torch
    from torch import nn
    from torch.nn import functional as F

    class VAE(nn.Module):
        def __init__(self, hidden, code):
            super().__init__()
            self.fc1 = nn.Linear(PIXELS, hidden)
            self.mean, self.logvar = nn.Linear(hidden, code), nn.Linear(hidden, code)
            self.fc2 = nn.Linear(code, hidden)
            self.fc3 = nn.Linear(hidden, PIXELS)

        def forward(self, x, noise):
            h = F.relu(self.fc1(x))
            mean, logvar = self.mean(h), self.logvar(h)
            z = mean + noise * torch.exp(0.5 * logvar)
            return torch.sigmoid(self.fc3(F.relu(self.fc2(z)))), mean, logvar

    def criterion(outputs, images):
        """Likelihood of the images, and divergence of the codes from a normal distribution, per image."""
        result, mean, logvar = outputs
        likelihood = F.binary_cross_entropy(result, images, reduction="none").sum(dim=1)
        divergence = -0.5 * (1 + logvar - mean**2 - torch.exp(logvar)).sum(dim=1)
        return (likelihood + divergence).mean()

    class Training:
        def __init__(self, sizes):
            self.net = VAE(sizes.hidden, sizes.code)
            self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)

        def step(self, images, noise):
            self.optimizer.zero_grad()
            loss = criterion(self.net(images, noise), images)
            loss.backward()
            self.optimizer.step()
            return loss.item()

    return Training


# With OpenBNNS.


class VAE(nn.Module):
    def __init__(self, hidden, code):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, hidden)
        self.mean, self.logvar = nn.Linear(hidden, code), nn.Linear(hidden, code)
        self.fc2 = nn.Linear(code, hidden)
        self.fc3 = nn.Linear(hidden, PIXELS)

    def forward(self, x, noise):
        h = F.relu(self.fc1(x))
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + noise * F.exp(0.5 * logvar)
        return F.sigmoid(self.fc3(F.relu(self.fc2(z)))), mean, logvar


def loss_function(outputs, images):
    """Likelihood of the images, and divergence of the codes from a normal distribution, per image."""
    result, mean, logvar = outputs
    likelihood = F.binary_cross_entropy(result, images, reduction="none").sum(dim=1)
    divergence = -0.5 * (1 + logvar - mean**2 - F.exp(logvar)).sum(dim=1)
    return (likelihood + divergence).mean()


class Training:
    def __init__(self, sizes):
        self.net = VAE(sizes.hidden, sizes.code)
        self.criterion = nn.FunctionLoss(loss_function)
        self.optimizer = nn.Adam(self.net.parameters(), lr=1e-3)

    def step(self, images, noise):
        loss, gradients = self.criterion(self.net(images, noise), images)
        self.net.backward(gradients, input_gradient=False)
        self.optimizer.step()
        return loss


PAIR = Pair("VAE, 784-400-20, batch 128", Training, pytorch, batch, full=Sizes(), small=Sizes(16, 32, 4))

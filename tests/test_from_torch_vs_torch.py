"""Networks of PyTorch taken over by ``nn.from_torch``: outputs, gradients, names and weights."""

from __future__ import annotations

from typing import Any

import pytest

from torch_networks import (
    GPT,
    VAE,
    Discriminator,
    EncoderModel,
    GRUTagger,
    LeNet,
    LSTMLanguageModel,
    MobileNetV2,
    MultiheadGPT,
    ResNet,
    Translator,
    UNet,
    ViT,
    check,
    floats,
    generator,
    tokens,
    torch,
)

pytestmark = pytest.mark.peers


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (LeNet, (floats(3, 1, 28, 28),)),
        (ResNet, (floats(3, 3, 65, 63),)),
        (MobileNetV2, (floats(3, 3, 33, 29),)),
        (UNet, (floats(3, 2, 21, 18),)),
        (VAE, (floats(3, 6, 6), floats(3, 5, seed=1))),
        (generator, (floats(3, 9, 1, 1),)),
        (Discriminator, (floats(3, 1, 16, 16),)),
        (LSTMLanguageModel, (tokens(23, 3, 9),)),
        (lambda: LSTMLanguageModel(batch_first=False), (tokens(23, 3, 9),)),
        (GRUTagger, (tokens(30, 3, 8),)),
        (ViT, (floats(3, 3, 16, 16),)),
        (GPT, (tokens(29, 3, 7),)),
        (lambda: GPT(flash=False), (tokens(29, 3, 7),)),
        (GPT, (tokens(29, 3, 7), tokens(29, 3, 7, seed=1))),
        (MultiheadGPT, (tokens(19, 3, 8),)),
        (lambda: EncoderModel(batch_first=True, norm_first=False), (tokens(19, 3, 6, low=1),)),
        (lambda: EncoderModel(batch_first=False, norm_first=True), (tokens(19, 3, 6, low=1),)),
        (Translator, (floats(3, 6, 5), floats(3, 4, 6, seed=1))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_networks(make: Any, inputs: tuple[Any, ...]) -> None:
    check(make(), *inputs)

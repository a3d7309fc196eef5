"""Networks as people write them in PyTorch, small, and how a network from one is compared with it."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

from openbnns import nn

torch = pytest.importorskip("torch")
T, F = torch.nn, torch.nn.functional


class LeNet(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = T.Conv2d(1, 6, 5, padding=2), T.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = T.Linear(16 * 5 * 5, 120), T.Linear(120, 84), T.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), (2, 2))
        x = x.view(x.size(0), -1)
        x = F.dropout(F.relu(self.fc1(x), inplace=True), 0.0, self.training)
        return F.log_softmax(self.fc3(F.relu(self.fc2(x))), dim=1)


class BasicBlock(T.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = T.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1, self.relu = T.BatchNorm2d(outputs), T.ReLU(inplace=True)
        self.conv2, self.bn2 = T.Conv2d(outputs, outputs, 3, 1, 1, bias=False), T.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = T.Sequential(T.Conv2d(inputs, outputs, 1, stride, bias=False), T.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(T.Module):
    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.conv1, self.bn1 = T.Conv2d(3, width, 7, 2, 3, bias=False), T.BatchNorm2d(width)
        self.relu, self.maxpool = T.ReLU(inplace=True), T.MaxPool2d(3, 2, 1)
        for number in range(4):
            inputs = width * 2 ** max(0, number - 1)
            blocks = [BasicBlock(inputs, width * 2**number, 1 if number == 0 else 2)]
            blocks.append(BasicBlock(width * 2**number, width * 2**number))
            setattr(self, f"layer{number + 1}", T.Sequential(*blocks))
        self.avgpool, self.fc = T.AdaptiveAvgPool2d((1, 1)), T.Linear(width * 8, classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class InvertedResidual(T.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.use_res_connect = stride == 1 and inputs == outputs
        parts: list[Any] = []
        if expansion != 1:
            parts.append(ConvBNReLU(inputs, hidden, 1, 1, 1))
        parts += [ConvBNReLU(hidden, hidden, 3, stride, hidden), T.Conv2d(hidden, outputs, 1, bias=False)]
        self.conv = T.Sequential(*parts, T.BatchNorm2d(outputs))

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class ConvBNReLU(T.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, groups: int) -> None:
        super().__init__(
            T.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
            T.BatchNorm2d(outputs),
            T.ReLU6(inplace=True),
        )


class MobileNetV2(T.Module):
    def __init__(self) -> None:
        super().__init__()
        features: list[Any] = [ConvBNReLU(3, 8, 3, 2, 1)]
        width = 8
        for expansion, channels, count, stride in ((1, 4, 1, 1), (6, 8, 2, 2), (6, 12, 2, 1)):
            for i in range(count):
                features.append(InvertedResidual(width, channels, stride if i == 0 else 1, expansion))
                width = channels
        self.features = T.Sequential(*features, ConvBNReLU(width, 20, 1, 1, 1))
        self.classifier = T.Sequential(T.Dropout(0.0), T.Linear(20, 7))

    def forward(self, x: Any) -> Any:
        x = self.features(x)
        x = x.mean([2, 3])
        return self.classifier(x)


class UNet(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.middle = self.block(2, 6), self.block(6, 12), self.block(12, 12)
        self.up2, self.up1 = T.ConvTranspose2d(12, 12, 2, 2), T.Conv2d(12, 6, 1)
        self.join2, self.join1 = self.block(24, 12), self.block(12, 6)
        self.out = T.Conv2d(6, 3, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> Any:
        return T.Sequential(
            T.Conv2d(inputs, outputs, 3, padding=1), T.GroupNorm(3, outputs), T.LeakyReLU(0.1, inplace=True),
            T.Conv2d(outputs, outputs, 3, padding=1), T.BatchNorm2d(outputs), T.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.up2(self.middle(F.max_pool2d(b, kernel_size=2, stride=2)))
        diff_y, diff_x = b.size()[2] - c.size()[2], b.size()[3] - c.size()[3]
        c = F.pad(c, [diff_x // 2, diff_x - diff_x // 2, diff_y // 2, diff_y - diff_y // 2])
        d = self.join2(torch.cat([b, c], dim=1))
        d = F.interpolate(self.up1(d), size=a.shape[2:], mode="bilinear", align_corners=False)
        return self.out(self.join1(torch.cat((a, d), 1)))


class VAE(T.Module):
    """The noise is an input, so that results can be compared."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc21, self.fc22 = T.Linear(36, 20), T.Linear(20, 5), T.Linear(20, 5)
        self.fc3, self.fc4 = T.Linear(5, 20), T.Linear(20, 36)

    def encode(self, x: Any) -> Any:
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Any, logvar: Any, eps: Any) -> Any:
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z: Any) -> Any:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Any, eps: Any) -> Any:
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar, eps)
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
        return self.decode(z), mu, logvar, kl


class SamplingVAE(VAE):
    """A module that draws its noise itself."""

    def forward(self, x: Any) -> Any:  # type: ignore[override]
        mu, logvar = self.encode(x.flatten(1))
        z = self.reparameterize(mu, logvar, torch.randn_like(logvar))
        return self.decode(z), mu, logvar


def generator() -> Any:
    return T.Sequential(
        T.ConvTranspose2d(9, 16, 4, 1, 0, bias=False), T.BatchNorm2d(16), T.ReLU(True),
        T.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), T.BatchNorm2d(8), T.ReLU(True),
        T.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), T.Tanh(),
    )  # fmt: skip


class Discriminator(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = T.Sequential(
            T.Conv2d(1, 8, 4, 2, 1, bias=False), T.LeakyReLU(0.2, inplace=True),
            T.Conv2d(8, 16, 4, 2, 1, bias=False), T.BatchNorm2d(16), T.LeakyReLU(0.2, inplace=True),
            T.Conv2d(16, 1, 4, 1, 0, bias=False), T.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.main(x).view(-1, 1).squeeze(1)


class LSTMLanguageModel(T.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.encoder = T.Embedding(23, 12)
        self.rnn = T.LSTM(12, 12, 2, batch_first=batch_first, dropout=0.0)
        self.drop, self.decoder = T.Dropout(0.0), T.Linear(12, 23)
        self.decoder.weight = self.encoder.weight  # tied

    def forward(self, tokens: Any) -> Any:
        x = self.drop(self.encoder(tokens))
        if not self.batch_first:
            x = x.transpose(0, 1)
        batch = tokens.size(0)
        hidden = (torch.zeros(2, batch, 12, dtype=x.dtype), torch.zeros(2, batch, 12, dtype=x.dtype))
        output, (_h, _c) = self.rnn(x, hidden)
        scores = self.decoder(output)
        return scores if self.batch_first else scores.permute(1, 0, 2).contiguous()


class GRUTagger(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = T.Embedding(30, 8, padding_idx=0)
        self.gru = T.GRU(8, 7, num_layers=2, batch_first=True, bidirectional=True)
        self.tags, self.kind = T.Linear(14, 5), T.Linear(14, 3)

    def forward(self, tokens: Any) -> Any:
        output, hidden = self.gru(self.embedding(tokens))
        ends = torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)
        return {"tags": self.tags(output), "kind": self.kind(ends)}


class Attention(T.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.num_heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = T.Linear(dim, dim * 3), T.Linear(dim, dim)

    def forward(self, x: Any) -> Any:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        x = attn.softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class ViTBlock(T.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2 = T.LayerNorm(dim, eps=1e-6), Attention(dim, heads), T.LayerNorm(dim)
        self.mlp = T.Sequential(T.Linear(dim, 2 * dim), T.GELU(), T.Linear(2 * dim, dim))
        self.gamma = T.Parameter(0.5 * torch.ones(dim))

    def forward(self, x: Any) -> Any:
        x = x + self.gamma * self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(T.Module):
    def __init__(self, dim: int = 16, depth: int = 2) -> None:
        super().__init__()
        self.patch_embed = T.Conv2d(3, dim, 4, 4)
        self.cls_token = T.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = T.Parameter(0.1 * torch.randn(1, 20, dim))
        self.blocks = T.ModuleList([ViTBlock(dim, 4) for _ in range(depth)])
        self.norm, self.head = T.LayerNorm(dim), T.Linear(dim, 6)

    def forward(self, x: Any) -> Any:
        B = x.shape[0]
        assert x.shape[2] % 4 == 0
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(B, -1, -1), x), dim=1)
        x = x + self.pos_embed[:, : x.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class CausalSelfAttention(T.Module):
    def __init__(self, width: int, heads: int, block: int, flash: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj = T.Linear(width, 3 * width), T.Linear(width, width)
        self.n_head, self.n_embd, self.flash, self.dropout = heads, width, flash, 0.0
        self.resid_dropout = T.Dropout(0.0)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x: Any) -> Any:
        B, t, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, t, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, t, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, t, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            rate = self.dropout if self.training else 0
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=rate, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, t, C)
        return self.resid_dropout(self.c_proj(y))


class GPTBlock(T.Module):
    def __init__(self, width: int, heads: int, block: int, flash: bool) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = T.LayerNorm(width), T.LayerNorm(width, bias=False)
        self.attn = CausalSelfAttention(width, heads, block, flash)
        self.mlp = T.ModuleDict({"c_fc": T.Linear(width, 4 * width), "c_proj": T.Linear(4 * width, width)})

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        h = self.mlp["c_fc"](self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return x + self.mlp["c_proj"](h)


class GPT(T.Module):
    def __init__(self, flash: bool = True, width: int = 16, block: int = 12) -> None:
        super().__init__()
        self.block_size = block
        self.transformer = T.ModuleDict({
            "wte": T.Embedding(29, width), "wpe": T.Embedding(block, width), "drop": T.Dropout(0.0),
            "h": T.ModuleList([GPTBlock(width, 4, block, flash) for _ in range(2)]), "ln_f": T.LayerNorm(width),
        })  # fmt: skip
        self.lm_head = T.Linear(width, 29, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx: Any, targets: Any = None) -> Any:
        device = idx.device
        _b, t = idx.size()
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class MultiheadGPT(T.Module):
    """Causal attention by nn.MultiheadAttention with the batch in the middle, and positions from a buffer."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.token, self.attn = T.Embedding(19, width), T.MultiheadAttention(width, 3)
        self.register_buffer("pe", self.positions(10, width), persistent=False)
        self.norm, self.out = T.LayerNorm(width), T.Linear(width, 19)

    @staticmethod
    def positions(length: int, width: int) -> Any:
        position = torch.arange(length).unsqueeze(1)
        term = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        pe = torch.zeros(length, 1, width)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * term), torch.cos(position * term)
        return pe

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens).permute(1, 0, 2)
        x = x + self.pe[: x.size(0)]
        mask = torch.triu(torch.ones(x.size(0), x.size(0), dtype=torch.bool), diagonal=1)
        h = self.norm(x)
        y, weights = self.attn(h, h, h, attn_mask=mask, need_weights=True)
        return self.out((x + y).transpose(0, 1)), weights


class EncoderModel(T.Module):
    """nn.TransformerEncoder with a causal mask and padding that is found among the tokens."""

    def __init__(self, batch_first: bool, norm_first: bool) -> None:
        super().__init__()
        layer = T.TransformerEncoderLayer(
            12, 3, 20, dropout=0.0, activation="gelu" if norm_first else "relu", batch_first=batch_first,
            norm_first=norm_first,
        )  # fmt: skip
        self.batch_first = batch_first
        self.embedding = T.Embedding(19, 12)
        self.encoder = T.TransformerEncoder(layer, 2, T.LayerNorm(12), enable_nested_tensor=False)
        self.head = T.Linear(12, 4)

    def forward(self, tokens: Any) -> Any:
        padding = tokens == 0
        x = self.embedding(tokens) * math.sqrt(12)
        mask = torch.triu(torch.ones(tokens.size(1), tokens.size(1)), diagonal=1).bool()
        x = x if self.batch_first else x.transpose(0, 1)
        x = self.encoder(x, mask=mask, src_key_padding_mask=padding)
        x = x if self.batch_first else x.transpose(0, 1)
        return self.head(x)


class Translator(T.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = T.Transformer(8, 2, 1, 2, 16, dropout=0.0, batch_first=True)
        self.source, self.target = T.Linear(5, 8), T.Linear(6, 8)

    def forward(self, source: Any, target: Any) -> Any:
        mask = self.transformer.generate_square_subsequent_mask(target.size(1))
        return self.transformer(self.source(source), self.target(target), tgt_mask=mask)


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tokens(count: int, *shape: int, seed: int = 0, low: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, count, shape)


def tensors(result: Any) -> list[Any]:
    """The tensors among the outputs of a module."""
    if isinstance(result, dict):
        return [x for part in result.values() for x in tensors(part)]
    if isinstance(result, (tuple, list)):
        return [x for part in result for x in tensors(part)]
    return [] if result is None else [result]


def close(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    expected = expected.detach().numpy()
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    assert actual.shape == expected.shape, what
    worst = float(np.abs(actual - expected).max(initial=0))
    assert worst <= tolerance * largest, f"{what} differs by {worst} of {largest}"


def check(module: Any, *inputs: Any, tolerance: float = 1e-5, train: bool = True, seed: int = 0) -> Any:
    """Take a module over, and compare outputs in both modes, gradients, names and weights with PyTorch in float64."""
    training = module.training
    state = {name: value.clone() for name, value in module.state_dict().items()}
    net = nn.from_torch(module, inputs if len(inputs) > 1 else inputs[0])
    assert net.training == module.training == training
    for name, value in module.state_dict().items():
        assert torch.equal(value, state[name]), f"{name} of the module has changed"
    assert [n for n in module.state_dict() if not n.endswith("num_batches_tracked")] == list(net.state_dict())
    twin = copy.deepcopy(module).double()
    batches = [tuple(x[:2] for x in inputs), tuple(doubled(x) for x in inputs)]
    for batch in batches:
        twin.eval(), net.eval()
        expected, got = tensors(twin(*(double(x).clone() for x in batch))), tensors(net(*batch))
        assert len(expected) == len(got)
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            close(a, b, tolerance, f"output {number} in evaluation")
    if train:
        compare_training(twin, net, batches[1], tolerance, seed)
    copied = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1.0)
    fresh = nn.from_torch(module, inputs if len(inputs) > 1 else inputs[0])
    copied.load_state_dict(nn.to_torch_state_dict(fresh), strict=True)
    for name, parameter in copied.named_parameters():
        assert torch.equal(parameter, dict(module.named_parameters())[name]), name
    return net


def doubled(x: Any) -> Any:
    """Twice as many samples, none of them twice."""
    return np.concatenate([x, x[::-1] if x.dtype.kind == "i" else 0.9 * x[::-1]])


def double(array: Any) -> Any:
    tensor = torch.tensor(array)
    return tensor.double().requires_grad_() if tensor.is_floating_point() else tensor


def compare_training(twin: Any, net: Any, batch: tuple[Any, ...], tolerance: float, seed: int) -> None:
    twin.train(), net.train()
    given = [double(x) for x in batch]
    expected = tensors(twin(*(x.clone() for x in given)))  # which may be changed in place
    result = net(*batch)
    got = tensors(result)
    for number, (a, b) in enumerate(zip(got, expected, strict=True)):
        close(a, b, tolerance, f"output {number} in training")
    rng = np.random.default_rng(seed + 1)
    cotangents = [rng.standard_normal(a.shape).astype(np.float32) for a in got]
    loss = sum(
        (b * torch.tensor(c).double()).sum() for b, c in zip(expected, cotangents, strict=True) if b.requires_grad
    )
    loss.backward()
    dx = net.backward(refilled(result, iter(cotangents)))
    own = dict(net.named_parameters())
    for name, parameter in twin.named_parameters():
        if parameter.grad is not None:
            close(own[name].grad, parameter.grad, 5 * tolerance, f"gradient of {name}")
    for number, (a, x) in enumerate(zip(dx if len(batch) > 1 else [dx], given, strict=True)):
        if x.requires_grad:
            gradient = torch.zeros_like(x) if x.grad is None else x.grad
            close(a, gradient, 5 * tolerance, f"gradient of input {number}")


def refilled(result: Any, values: Any) -> Any:
    if isinstance(result, dict):
        return {name: refilled(part, values) for name, part in result.items()}
    if isinstance(result, (tuple, list)):
        return type(result)(refilled(part, values) for part in result)
    return next(values)

"""A network of this library in JAX, as someone who uses JAX would write it: pure functions of parameters, jitted whole.

Convolutions have their channels last, which is what XLA prefers on a CPU; a training step is one jitted function whose parameters
and optimizer state are donated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

NOT_KNOWN = "not compared: a layer has no counterpart in this list"

State: TypeAlias = dict[str, Any]
Layer: TypeAlias = Callable[["Pass", Any], Any]
"""From a pass and an input to an output."""


class Pass:
    """One trip through the network: where its layers find parameters and random numbers, and leave statistics."""

    def __init__(self, jax: Any, parameters: State, statistics: State, key: Any) -> None:
        self.jax, self.parameters, self.statistics, self._key = jax, parameters, statistics, key
        self.training = key is not None
        self.updated = dict(statistics)

    def drop(self, x: Any, p: float) -> Any:
        if not self.training or p == 0:
            return x
        random = self.jax.random
        self._key, key = random.split(self._key)
        return self.jax.numpy.where(random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)

    def linear(self, x: Any, name: str) -> Any:
        y = x @ self.parameters[f"{name}weight"].T
        bias = self.parameters.get(f"{name}bias")
        return y if bias is None else y + bias


class JaxNetwork:
    """The network of some layers, with the weights that they have."""

    def __init__(self, jax: Any, layers: list[Layer], network: Any, x: Any) -> None:
        self._jax, self._layers, self._images = jax, layers, x.ndim == 4
        trained = {name for name, _ in network.named_parameters()}
        numbers = {name: jax.numpy.array(array) for name, array in network.state_dict().items()}
        self.parameters = {name: self._kernel(a) for name, a in numbers.items() if name in trained}
        self.statistics = {name: array for name, array in numbers.items() if name not in trained}
        self._x = self.input(x)

    def input(self, x: Any) -> Any:
        """An array of samples on JAX's side, images with channels last."""
        x = self._jax.numpy.array(x)
        return x.transpose(0, 2, 3, 1) if self._images else x

    @staticmethod
    def _kernel(array: Any) -> Any:
        return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array

    def apply(self, parameters: State, statistics: State, x: Any, key: Any = None) -> tuple[Any, State]:
        """Outputs and statistics; with a key as in training, else as in inference."""
        context = Pass(self._jax, parameters, statistics, key)
        for layer in self._layers:
            x = layer(context, x)
        return x, context.updated

    def inference(self) -> Callable[[], Any]:
        run = self._jax.jit(lambda parameters, statistics, x: self.apply(parameters, statistics, x)[0])
        return lambda: run(self.parameters, self.statistics, self._x).block_until_ready()

    def training(self, y: Any, task: str, optimizer: str = "sgd", rate: float = 1e-4) -> Callable[[], float]:
        """A step on a batch; gives the loss."""
        jax = self._jax
        y = jax.numpy.array(y)
        update, start = _OPTIMIZERS[optimizer]

        def step(parameters: State, statistics: State, moments: Any, key: Any, x: Any, y: Any) -> Any:
            key, own = jax.random.split(key)

            def loss_of(parameters: State) -> tuple[Any, State]:
                outputs, updated = self.apply(parameters, statistics, x, own)
                return loss(jax, outputs, y, task), updated

            (value, updated), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
            parameters, moments = update(jax, parameters, gradients, moments, rate)
            return parameters, updated, moments, key, value

        compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        copied = jax.tree_util.tree_map(jax.numpy.copy, (self.parameters, self.statistics))
        state = [*copied, start(jax, copied[0]), jax.random.key(0)]

        def run() -> float:
            *state[:], value = compiled(*state, self._x, y)
            return float(value)

        return run


def convert(network: Any, x: Any, threads: int) -> JaxNetwork | str:
    """The same network in JAX, or why there is none."""
    try:
        with _on_cores(threads):
            jax = import_module("jax")
            jax.devices("cpu")
    except ImportError:
        return "JAX is not installed"
    layers = [_layer(layer, f"{i}.") for i, layer in enumerate(network)] if hasattr(network, "__iter__") else [None]
    known = [layer for layer in layers if layer is not None]
    return JaxNetwork(jax, known, network, x) if len(known) == len(layers) else NOT_KNOWN


@contextmanager
def _on_cores(threads: int) -> Iterator[None]:
    """While this process may use so many cores only: JAX makes as many threads as it may use cores when it starts."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def loss(jax: Any, outputs: Any, y: Any, task: str) -> Any:
    jnp = jax.numpy
    if task == "classification":
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1).mean()
    if task == "multilabel":
        return (jnp.logaddexp(0, outputs) - outputs * y).mean()
    return jnp.square(outputs - y).mean()


def _sgd(jax: Any, parameters: State, gradients: State, moments: Any, rate: float) -> tuple[State, Any]:
    return jax.tree_util.tree_map(lambda p, g: p - rate * g, parameters, gradients), moments


def _adam(jax: Any, parameters: State, gradients: State, moments: Any, rate: float) -> tuple[State, Any]:
    first, second, count = moments
    count = count + 1
    first = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    size, scale = rate / (1 - 0.9**count), jax.numpy.sqrt(1 - 0.999**count)
    parameters = jax.tree_util.tree_map(
        lambda p, m, v: p - size * m / (jax.numpy.sqrt(v) / scale + 1e-8), parameters, first, second
    )
    return parameters, (first, second, count)


def _no_moments(jax: Any, parameters: State) -> Any:
    return ()


def _adam_moments(jax: Any, parameters: State) -> Any:
    zeros = [jax.tree_util.tree_map(jax.numpy.zeros_like, parameters) for _ in range(2)]
    return (*zeros, jax.numpy.zeros((), jax.numpy.float32))


_OPTIMIZERS: dict[str, tuple[Callable[..., tuple[State, Any]], Callable[[Any, State], Any]]] = {
    "sgd": (_sgd, _no_moments),
    "adam": (_adam, _adam_moments),
}


# Layers.


def _layer(layer: Any, name: str) -> Layer | None:
    """The same layer in JAX, None if it is not in this list. The names of its parameters begin with ``name``."""
    from openbnns import nn

    if isinstance(layer, nn.Linear):
        return lambda context, x: context.linear(x, name)
    if isinstance(layer, nn.Conv2d) and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple):
        return _convolution(layer, name)
    if type(layer) is nn.Residual and layer.shortcut is None and isinstance(layer.body, nn.Sequential):
        return _residual([_layer(part, f"{name}body.{i}.") for i, part in enumerate(layer.body)])
    if type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d) and layer.affine and layer.track_running_stats:
        return _batch_norm(layer, name)
    if type(layer) is nn.MaxPool2d and not layer.ceil_mode and layer.dilation == (1, 1):
        return _max_pool(layer)
    if type(layer) is nn.Flatten:
        return _flatten(layer)
    if type(layer) is nn.Dropout:
        return lambda context, x: context.drop(x, layer.p)
    if type(layer) is nn.TransformerEncoderLayer and type(layer.activation) in (nn.ReLU, nn.GELU):
        return _encoder(layer, name)
    if type(layer).__name__ in ("Rows", "Identity"):  # sequences stay as they are
        return lambda context, x: x
    return _elementwise(layer)


def _elementwise(layer: Any) -> Layer | None:
    plain: dict[str, Layer] = {
        "ReLU": lambda context, x: context.jax.nn.relu(x),
        "Tanh": lambda context, x: context.jax.numpy.tanh(x),
        "GELU": lambda context, x: context.jax.nn.gelu(x, approximate=False),
        "Sigmoid": lambda context, x: context.jax.nn.sigmoid(x),
    }
    return plain.get(type(layer).__name__)


def _residual(parts: list[Layer | None]) -> Layer | None:
    known = [part for part in parts if part is not None]

    def apply(context: Pass, x: Any) -> Any:
        y = x
        for part in known:
            y = part(context, y)
        return x + y

    return apply if len(known) == len(parts) else None


def _convolution(layer: Any, name: str) -> Layer:
    def apply(context: Pass, x: Any) -> Any:
        y = context.jax.lax.conv_general_dilated(
            x, context.parameters[f"{name}weight"], layer.stride, [(p, p) for p in layer.padding], rhs_dilation=layer.dilation,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=layer.groups,
        )  # fmt: skip
        bias = context.parameters.get(f"{name}bias")
        return y if bias is None else y + bias

    return apply


def _batch_norm(layer: Any, name: str) -> Layer:
    def apply(context: Pass, x: Any) -> Any:
        jnp = context.jax.numpy
        mean, variance = (context.statistics[f"{name}running_{kind}"] for kind in ("mean", "var"))
        if context.training:
            count = math.prod(x.shape[:-1])
            axes = tuple(range(x.ndim - 1))
            now, spread = x.mean(axes), x.var(axes)
            unbiased = spread * (count / max(count - 1, 1))
            context.updated[f"{name}running_mean"] = (1 - layer.momentum) * mean + layer.momentum * now
            context.updated[f"{name}running_var"] = (1 - layer.momentum) * variance + layer.momentum * unbiased
            mean, variance = now, spread
        scale = context.parameters[f"{name}weight"] / jnp.sqrt(variance + layer.eps)
        return (x - mean) * scale + context.parameters[f"{name}bias"]

    return apply


def _max_pool(layer: Any) -> Layer:
    def apply(context: Pass, x: Any) -> Any:
        lax = context.jax.lax
        padding = [(0, 0), *((p, p) for p in layer.padding), (0, 0)]
        return lax.reduce_window(x, -math.inf, lax.max, (1, *layer.kernel_size, 1), (1, *layer.stride, 1), padding)

    return apply


def _flatten(layer: Any) -> Layer:
    def apply(context: Pass, x: Any) -> Any:
        if x.ndim == 4:  # elements in the order of the weights that follow
            x = x.transpose(0, 3, 1, 2)
        first, last = layer.start_dim % x.ndim, layer.end_dim % x.ndim
        return x.reshape(*x.shape[:first], -1, *x.shape[last + 1 :])

    return apply


def _encoder(layer: Any, name: str) -> Layer:
    heads, activate = layer.self_attn.num_heads, _elementwise(layer.activation)
    assert activate is not None

    def norm(context: Pass, x: Any, part: str) -> Any:
        z = (x - x.mean(-1, keepdims=True)) / context.jax.numpy.sqrt(
            x.var(-1, keepdims=True) + getattr(layer, part).eps
        )
        z = z * context.parameters[f"{name}{part}.weight"]
        bias = context.parameters.get(f"{name}{part}.bias")
        return z if bias is None else z + bias

    def attend(context: Pass, x: Any) -> Any:
        jax, jnp = context.jax, context.jax.numpy
        width = x.shape[-1] // heads
        projected = context.linear(x, f"{name}self_attn.in_proj_").reshape(*x.shape[:2], 3, heads, width)
        q, k, v = (projected[:, :, i] for i in range(3))
        scores = jnp.einsum("nthd,nshd->nhts", q, k) / math.sqrt(width)
        if layer.causal:
            scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -math.inf)
        weights = context.drop(jax.nn.softmax(scores), layer.self_attn.dropout)
        return context.linear(jnp.einsum("nhts,nshd->nthd", weights, v).reshape(x.shape), f"{name}self_attn.out_proj.")

    def feed(context: Pass, x: Any) -> Any:
        hidden = context.drop(activate(context, context.linear(x, f"{name}linear1.")), layer.dropout.p)
        return context.linear(hidden, f"{name}linear2.")

    def apply(context: Pass, x: Any) -> Any:
        for part, number in ((attend, 1), (feed, 2)):
            drop = getattr(layer, f"dropout{number}").p
            if layer.norm_first:
                x = x + context.drop(part(context, norm(context, x, f"norm{number}")), drop)
            else:
                x = norm(context, x + context.drop(part(context, x), drop), f"norm{number}")
        return x

    return apply

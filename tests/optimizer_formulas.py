"""Optimizer steps written out in NumPy, for tests of the function and of the classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from openbnns import capi, compat

FUNCTIONS = list(capi.BNNSOptimizerFunction)

SGD = [f for f in FUNCTIONS if "SGD" in f.name]

ADAM = [f for f in FUNCTIONS if "Adam" in f.name]


def roles_of(function: int, p: Any) -> int:
    if function in SGD:
        return 0 if p.momentum == 0 else 1
    if function in ADAM:
        return 3 if "AMSGrad" in capi.BNNSOptimizerFunction(function).name else 2
    return 1 + bool(p.centered) + (p.momentum != 0)


def written_out(function: int, p: Any, w: list[Any], gradients: list[Any], states: list[Any]) -> None:
    """One step in float64, in place, element by element from the formulas."""
    name = capi.BNNSOptimizerFunction(function).name
    count, roles = len(w), roles_of(function, p)
    scale_first = compat.switches.optimizer_scale_before_clip
    scaled = [p.gradient_scale * g for g in gradients] if scale_first else [g.copy() for g in gradients]
    kind = int(p.clipping_func) if hasattr(p, "clipping_func") else int(p.clip_gradients)
    if kind == 1:
        scaled = [np.minimum(np.maximum(g, p.clip_gradients_min), p.clip_gradients_max) for g in scaled]
    elif kind == 2:
        scaled = [g * min(1.0, p.clip_gradients_max_norm / math.sqrt(float((g * g).sum()))) for g in scaled]
    elif kind == 3:
        norm = p.clip_gradients_use_norm or math.sqrt(sum(float((g * g).sum()) for g in scaled))
        scaled = [g * min(1.0, p.clip_gradients_max_norm / norm) for g in scaled]
    for i in range(count):
        g = scaled[i] if scale_first else p.gradient_scale * scaled[i]
        decoupled = "AdamW" in name and not name.startswith("BNNSOptimizerFunctionAdamWith")
        if not decoupled and p.regularization_func == 1:
            g = g + p.regularization_scale * np.sign(w[i])
        if not decoupled and p.regularization_func == 2:
            g = g + p.regularization_scale * w[i]
        own = [states[role * count + i] for role in range(roles)]
        if function in SGD:
            sgd(p, w[i], g, own)
        elif function in ADAM:
            m, v = own[:2]
            m[:] = p.beta1 * m + (1 - p.beta1) * g
            v[:] = p.beta2 * v + (1 - p.beta2) * g**2
            used = v
            if roles == 3:
                own[2][:] = used = np.maximum(own[2], v)
            correction = math.sqrt(1 - p.beta2**p.time_step)
            epsilon = p.epsilon * (correction if compat.switches.adam_epsilon_torch else 1.0)
            move = p.learning_rate * correction / (1 - p.beta1**p.time_step) * m / (np.sqrt(used) + epsilon)
            w[i][:] = w[i] - (p.learning_rate * p.regularization_scale * w[i] if decoupled else 0.0) - move
        else:
            n = own.pop(0)
            n[:] = p.alpha * n + (1 - p.alpha) * g**2
            s = n
            if p.centered:
                u = own.pop(0)
                u[:] = p.alpha * u + (1 - p.alpha) * g
                s = n - u**2
            move = -p.learning_rate * g / (np.sqrt(s) + p.epsilon)
            if p.momentum:
                own[0][:] = move = p.momentum * own[0] + move
            w[i][:] = w[i] + move


def sgd(p: Any, w: Any, g: Any, own: list[Any]) -> None:
    lr, m = p.learning_rate, p.momentum
    if not own:
        w[:] = w - lr * g
        return
    (v,) = own
    old = v.copy()
    variant, nesterov = int(p.sgd_momentum_variant), bool(p.nesterov)
    if variant == 0:
        v[:] = m * old - lr * g
        w[:] = w + v + (m * (v - old) if nesterov else 0.0)
    elif nesterov:
        v[:] = m * old + g
        w[:] = w - lr * (m * v + g)
    elif variant == 1:
        v[:] = m * old + g
        w[:] = w - lr * v
    else:
        v[:] = m * old + lr * g
        w[:] = w - v

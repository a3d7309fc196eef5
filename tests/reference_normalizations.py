"""Normalizations of all kinds for tests of the reference engine, and arrays for their parameters."""

from differences import normal
from openbnns.parameters.normalization import Kind, Normalization
from openbnns.reference.activation import Array

EPSILON = 1e-3

NORMALIZATIONS = {
    "batch": Normalization(Kind.BATCH, EPSILON),
    "instance": Normalization(Kind.INSTANCE, EPSILON),
    "layer 0": Normalization(Kind.LAYER, EPSILON, axis=0),
    "layer 1": Normalization(Kind.LAYER, EPSILON, axis=1),
    "layer 2": Normalization(Kind.LAYER, EPSILON, axis=2),
    "group 1": Normalization(Kind.GROUP, EPSILON, groups=1),
    "group 3": Normalization(Kind.GROUP, EPSILON, groups=3),
    "group 6": Normalization(Kind.GROUP, EPSILON, groups=6),
}


def parameter_shape(n: Normalization, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[1:] if n.kind == Kind.LAYER else shape[1:2]


def parameters(n: Normalization, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """beta and gamma."""
    size = parameter_shape(n, shape)
    return normal(1, *size), normal(2, *size)

"""How an activation crosses into native code."""

from ..reference.activation import Activation


def spec(f: Activation) -> tuple[int, float, float]:
    """Function number, alpha and beta."""
    return int(f.function), f.alpha, f.beta

"""A layer with weights and the normalization behind it as one fused layer."""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import FusedParametersLayer, Shape
from ...layers import FusedNormalizationParameters, skip
from .._graph import Array, Call, Operation
from ._base import IN_PLACE, ActivatedOperation, wanted
from .normalization import Normalization, phase


class NormalizedOperation(ActivatedOperation):
    """An operation with weights that takes over a normalization, and an activation behind that."""

    normalization: Normalization | None = None
    weight: Any
    bias: Any

    def fuse(self, following: Operation) -> bool:
        if (
            isinstance(following, Normalization)
            and self.normalization is None
            and self.activation.case == "identity"
            and following.takes_whole_samples
            and following.inputs[0].shape == self.output.shape
        ):
            self.normalization = following
            self.parameters = [p for p in (self.weight, self.bias, following.beta, following.gamma) if p is not None]
            return True
        return super().fuse(following)

    def fused_parameters(self) -> Any:
        """The layer in front, as a part of a fused layer."""
        raise NotImplementedError

    def prepare_fused(self, input: Shape, output: Shape) -> None:
        n = self.normalization
        assert n is not None
        self.layer = FusedParametersLayer(
            input=input,
            output=output,
            fused_layer_parameters=[
                self.fused_parameters(),
                FusedNormalizationParameters(
                    type=n.type,
                    beta=None if n.beta is None else n.beta.data.reshape(-1),
                    gamma=None if n.gamma is None else n.gamma.data.reshape(-1),
                    momentum=n.momentum,
                    epsilon=n.epsilon,
                    activation=self.activation,
                ),
            ],
            filter_parameters=IN_PLACE,
        )

    def forward(self, x: list[Array], y: Array, training: bool) -> Call:
        if self.normalization is None:
            return partial(self.layer.apply, x[0], y)
        return partial(self.layer.apply, x[0], y, phase=phase(training))

    def backward(self, x: list[Array], y: Array, dy: Array, dx: list[Array | None], dp: list[Array | None]) -> Call:
        if self.normalization is None:
            return partial(self.layer.apply_backward, x[0], y, dy, wanted(dx[0]), *map(wanted, dp))
        given = iter(dp)
        slots = (self.weight, self.bias, self.normalization.beta, self.normalization.gamma)
        gradients = [skip if slot is None else wanted(next(given)) for slot in slots]
        return partial(
            self.layer.apply_backward,
            input=x[0],
            output=y,
            output_gradient=dy,
            generating_input_gradient=wanted(dx[0]),
            generating_parameter_gradients=gradients,
        )

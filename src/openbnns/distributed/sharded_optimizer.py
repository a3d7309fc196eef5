"""An optimizer with distributed accumulators: every rank keeps those of its chunks, and sends weights.

The user's optimizer stays the one whose settings count. A copy of it works on pieces of the parameters: the parts of them that
lie in the chunks of this rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph.parameter import Parameter
from ..graph.tensor import Array
from ..nn.batches import Span
from ..nn.optimizer_base import ParameterState
from ..nn.optimizers import Optimizer
from .communicator import Communicator
from .gradient_vector import Gradients
from .shared_memory import vector
from .tree_sums import block_squares


class ShardedOptimizer:
    """Steps over the chunks of this rank; ``own`` says where they are in the vector of gradients."""

    def __init__(self, optimizer: Optimizer, gradients: Gradients, comm: Communicator, own: Sequence[Span]) -> None:
        clipping = optimizer._clipping
        if clipping is not None and clipping.case == "by_norm":
            raise ValueError(
                "Communicator: shard_optimizer cuts parameters into chunks, so gradients cannot be clipped by the norm of each "
                "parameter. Clip by the norm of all of them (clip_norm), or by value."
            )
        self._outer, self._gradients, self._comm, self._own = optimizer, gradients, comm, list(own)
        self._weights = vector(len(gradients.vector))
        self._places: list[
            tuple[int, Span, Span]
        ] = []  # number of a state, where in its parameter, where in the vector
        spans = dict(zip(gradients.parameters, gradients.places, strict=True))
        states: list[ParameterState] = []
        for number, state in enumerate(optimizer.states):
            if state.parameter not in spans:
                continue
            start, stop = spans[state.parameter]
            for first, last in self._own:
                low, high = max(start, first), min(stop, last)
                if low < high:
                    piece = Parameter(state.parameter.data.reshape(-1)[low - start : high - start])
                    piece._grad = gradients.vector[low:high]
                    made = ParameterState(piece, state.group)
                    made.steps, made.rate = state.steps, state.rate
                    if state.accumulators is not None:
                        made.accumulators = [
                            a.reshape(-1)[low - start : high - start].copy() for a in state.accumulators
                        ]
                    states.append(made)
                    self._places.append((number, (low - start, high - start), (low, high)))
        for state in optimizer.states:
            if state.parameter in spans:  # those of frozen parameters stay whole
                state.accumulators = None  # which is what all this is for
        optimizer.regroup()
        self._inner = optimizer.with_states(states)
        self._inner.measure_norm_with(self._norm)
        self._counts = [state.steps for state in optimizer.states]
        self._trains = [state.parameter in spans for state in optimizer.states]

    def _norm(self) -> float:
        """The norm of all gradients: sums of squares of blocks from the ranks that have them, added exactly."""
        end = self._gradients.size
        sums = [block_squares(self._gradients.vector[a : min(b, end)]) for a, b in self._own if a < min(b, end)]
        everyone = self._comm.gather(np.concatenate([np.zeros(0), *sums]))
        return math.sqrt(math.fsum(value for squares in everyone for value in squares))

    def step(self) -> None:
        """Update the chunks of this rank, and get those of all others."""
        self._inner._clipping = self._outer._clipping
        if self._inner.states:
            self._inner.step()
        elif self._outer._clipping is not None and self._outer._clipping.case == "by_global_norm":
            self._norm()  # which the others wait for
        self._counts = [n + trains for n, trains in zip(self._counts, self._trains, strict=True)]
        for (_, _, (low, high)), piece in zip(self._places, self._inner.parameters, strict=True):
            self._weights[low:high] = piece.data
        self._comm.gather_chunks(self._weights, self._gradients.buckets)
        for parameter, (start, stop) in zip(self._gradients.parameters, self._gradients.places, strict=True):
            np.copyto(parameter.data.reshape(-1), self._weights[start:stop])

    # Checkpoints: the state is that of an optimizer that is not shared out.

    def state_dict(self) -> dict[str, Array]:
        """Collective. Whole on rank 0; elsewhere accumulators are left out."""
        self._inner.note_steps()
        own = [
            (number, span, state.made(int(state.group.bnns.accumulator_count_multiplier)), state.rate)
            for (number, span, _), state in zip(self._places, self._inner.states, strict=True)
        ]
        everyone = self._comm.gather_first(own)
        states = [ParameterState(state.parameter, state.group) for state in self._outer.states]
        for state, kept, count, trains in zip(states, self._outer.states, self._counts, self._trains, strict=True):
            state.steps = count
            if not trains:
                state.accumulators, state.rate = kept.accumulators, kept.rate
        for pieces in everyone:
            for number, (low, high), arrays, rate in pieces:
                states[number].rate = rate
                for target, array in zip(states[number].made(len(arrays)), arrays, strict=True):
                    target.reshape(-1)[low:high] = array
        return self._outer.with_states(states).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a complete state, which every rank is given."""
        states = [ParameterState(s.parameter, s.group) for s in self._outer.states]
        self._outer.with_states(states).load_state_dict(state, settings=False)
        self._inner.regroup()
        for (number, (low, high), _), piece in zip(self._places, self._inner.states, strict=True):
            piece.steps, piece.rate = states[number].steps, states[number].rate
            arrays = states[number].made(int(piece.group.bnns.accumulator_count_multiplier))
            piece.accumulators = [array.reshape(-1)[low:high].copy() for array in arrays]
        for given, kept, trains in zip(states, self._outer.states, self._trains, strict=True):
            if not trains:
                kept.accumulators, kept.rate = given.accumulators, given.rate
        self._counts = [s.steps for s in states]

    def gradient_norms(self) -> list[float]:
        """The norm of the gradient of every parameter, in their order in the vector. Collective."""
        squares = np.zeros((1, len(self._gradients.places)))
        for i, (start, stop) in enumerate(self._gradients.places):
            for first, last in self._own:
                piece = self._gradients.vector[max(start, first) : max(start, first, min(stop, last))]
                squares[0, i] += float(np.square(piece, dtype=np.float64).sum())
        rows = self._comm.gather_rows(squares, [1] * self._comm.size)
        return [math.sqrt(math.fsum(column)) for column in rows.T]

    def finish(self) -> None:
        """Return the complete state to the user's optimizer."""
        whole = self.state_dict()
        everything = self._comm.once(lambda: whole)
        self._outer.load_state_dict(everything, settings=False)

"""A network, and if wanted its loss and its optimizer, as calls of BNNS."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import engines
from ...filters.base import keeping_descriptions
from ...graph.graph import Graph
from ...graph.memory import Block
from ...graph.operation import Operation
from ...graph.operations import AttentionHeads, Recurrent
from ...graph.program import Program as NetworkProgram
from ...graph.sizes import is_same_shape
from ...graph.tensor import Array, Tensor
from ...nn.losses import BoundLoss, Loss
from ...nn.losses.classification import ClassBound
from ...nn.module import Module
from ...nn.names import argument_names, step_names
from ...nn.optimizer_base import Optimizer
from ...nn.recording import input_shapes, separate_graph
from .bnns_calls import Filters, Tracer, struct_value
from .code_memory import Names, Places
from .code_parts import Buffer, BufferPlace, Constant, Heading, Labels, NetworkSource, OptimizerStep, Program
from .errors import NotInBNNS, Refused

_CURES = {
    Recurrent: "BNNS has no such cell. Use nn.LSTM",
    AttentionHeads: "attention of heads that are already projected is not a call of BNNS. Use nn.MultiheadAttention",
}
"""The advice for operations that BNNS has no kernel for."""

_LOCALS = {
    "layer_params", "filter_params", "in_delta", "in_stride", "out_delta", "weights_delta", "bias_delta", "fields", "output",
    "parameters", "gradients", "accumulators", "targets", "loss", "values", "counts", "parameter", "gradient", "i", "c",
}  # fmt: skip
"""Names of variables in the code."""


def network_source(
    who: str, network: Module, name: str, batch: int, loss: Loss | None, optimizer: Optimizer | None
) -> NetworkSource:
    """The network for batches of this size; with a loss and an optimizer also a training step."""
    with keeping_descriptions():
        graph, _ = separate_graph(network, input_shapes(network, batch), training=loss is not None)
        # BNNS has no other way to multiply these.
        graph.arithmetic = engines.Arithmetic(graph.arithmetic.accuracy, engines.FLOAT32)
        for operation in graph.operations:
            if operation.repeatable or getattr(operation, "normalization", None) is not None:
                # BNNS keeps what it needs inside its filters, but for the output, which is passed to the backward call.
                operation.repeatable, operation.keeps_output = False, getattr(operation, "pooling", None) is None
        return _Writing(who, network, graph, name, batch).written(loss, optimizer)


class _Writing:
    def __init__(self, who: str, network: Module, graph: Graph, name: str, batch: int) -> None:
        self.who, self.network, self.graph, self.name, self.batch = who, network, graph, name, batch
        self.places = Places()
        self.filters = Filters(self.places)
        self.tracer = Tracer(self.places, self.filters, batch)
        self.problems: dict[tuple[str, str], None] = {}
        self.kept: list[Any] = []  # programs, whose memory must stay theirs
        self.labels = step_names(network, graph.operations)
        self.names = [_identifier(p.path.split(", ")[0], p.kind.split(" + ")[0]) for p in self.labels]
        self._kinds = {path: type(module).__name__ for path, module in network.named_modules()}
        for path, parameter in network.named_parameters():
            if parameter.used:
                self.places.add(parameter.data, self._owned(path), "weights", contents=True, path=path)
        for path, buffer in network.named_buffers():
            self.places.add(buffer, self._owned(path), "weights", contents=True, path=path)

    def _owned(self, path: str) -> str:
        """The name of a parameter or a buffer."""
        module, _, name = path.rpartition(".")
        return f"{_identifier(module, self._kinds[module])}_{name}" if module else name

    def written(self, loss: Loss | None, optimizer: Optimizer | None) -> NetworkSource:
        names = _argument_names(self.network, len(self.graph.inputs))
        predict = self._program(training=False)
        inputs = self._arguments(predict, names)
        outputs = self._outputs(predict)
        program = Program(inputs, [buffer for buffer, _ in outputs])
        self._trace_forward(predict, program)
        self._copy_outputs(predict, outputs, program)
        source = NetworkSource(self.name, self._description(), self.batch, self.filters.made, [], [], {}, program)
        card = self.network.model_card
        if card is not None and is_same_shape(self.graph.output.shape[1:], (len(card.classes),)):
            source.classes = card.classes
        if loss is not None and optimizer is not None and not self.problems:
            self._train(source, loss, optimizer, names)
        if self.problems:
            raise NotInBNNS(self.who, list(self.problems))
        source.caches = list(self.tracer.caches.values())
        source.buffers, source.bytes = self.places.finish()
        return source

    def _description(self) -> list[str]:
        lines = repr(self.network).splitlines()
        card = self.network.model_card
        if card is not None and card.preparation is not None:
            lines += ["", "for samples that are prepared like this:", *card.preparation.sentences()]
            lines += [f"{i}: {formula}" for i, formula in enumerate(card.preparation.formulas())]
        if card is not None and card.target_mean is not None and card.target_std is not None:
            lines += [
                "",
                "whose outputs y have mean 0 and deviation 1 in the training samples. In the units of the data:",
            ]
            names = card.classes or tuple("number" for _ in card.target_mean)
            scales = zip(names, card.target_std, card.target_mean, strict=True)
            lines += [f"{i}: {name} = {std:.9g} * y + {mean:.9g}" for i, (name, std, mean) in enumerate(scales)]
        return [_remark(line) for line in lines]

    # Memory.

    def _program(self, *, training: bool) -> NetworkProgram:
        program = NetworkProgram(self.graph, self.graph.sizes.numbers, training=training)
        self.kept.append(program)
        group = "train" if training else "predict"
        owners = {
            id(value): name for op, name in zip(self.graph.operations, self.names, strict=True) for value in op.outputs
        }
        given = dict(
            zip(map(id, self.graph.inputs), _argument_names(self.network, len(self.graph.inputs)), strict=True)
        )
        seen: dict[int, Buffer] = {}
        for blocks, ending in ((program.value_blocks, "out"), (program.gradient_blocks, "gradient")):
            for value, block in blocks.items():
                owner = owners.get(id(value)) or given.get(id(value), "value")
                wish = f"{owner}_{ending}" if ending == "out" or id(value) in given else f"{owner}_out_{ending}"
                self._place(program, block, value, wish, group, seen)
        last = 2 * len(self.graph.operations)
        for (index, _), block in program.added_blocks.items():
            self._place(program, block, None, f"{self.names[index]}_part", group, seen)
        for time, block in program.scratch_blocks.items():
            index = time if time < len(self.names) else last - time
            self._place(program, block, None, f"{self.names[index]}_work", group, seen)
        return program

    def _place(
        self,
        program: NetworkProgram,
        block: Block,
        value: Tensor | None,
        wish: str,
        group: str,
        seen: dict[int, Buffer],
    ) -> None:
        if id(block) in seen or not block.size:
            return
        dtype: np.dtype[Any] = np.dtype(np.float32) if value is None else value.dtype
        buffer = Buffer(
            self.places.name(group, wish), group, dtype, block.size // dtype.itemsize, start=block.start, end=block.end
        )
        seen[id(block)] = buffer
        self.places.add_block(program, block, buffer)

    def _arguments(self, program: NetworkProgram, names: list[str]) -> list[Buffer]:
        """The inputs, which stay where the caller has them."""
        buffers = []
        for value, name in zip(self.graph.inputs, names, strict=True):
            buffers.append(self._take_over(program, value, name))
            buffers[-1].constant = True
        return buffers

    def _outputs(self, program: NetworkProgram) -> list[tuple[Buffer, Tensor | None]]:
        """The results, written where the caller wants them; or to be copied there, if they lie elsewhere."""
        outputs: list[tuple[Buffer, Tensor | None]] = []
        taken: set[int] = set()
        for i, value in enumerate(self.graph.outputs):
            name = "output" if len(self.graph.outputs) == 1 else f"output_{i}"
            storage = value.storage
            if storage.leaf is not None or any(storage is given for given in self.graph.inputs) or id(storage) in taken:
                count = int(np.prod(value.concrete(self.graph.sizes.numbers)))
                outputs.append((Buffer(name, "argument", value.dtype, count), value))
            else:
                outputs.append((self._take_over(program, storage, name), None))
                taken.add(id(storage))
        return outputs

    def _take_over(self, program: NetworkProgram, value: Tensor, name: str) -> Buffer:
        """Let a value of a program lie in memory of the caller."""
        address = int(program._memory.ctypes.data) + program.value_blocks[value].offset
        for low, _, buffer in self.places._shared[id(program)]:
            if low == address and buffer.start == program.value_blocks[value].start:
                buffer.name, buffer.group = name, "argument"
                return buffer
        raise AssertionError(name)

    # Passes.

    def _trace_forward(self, program: NetworkProgram, into: Program) -> None:
        for index, (_, calls) in enumerate(program.forward_calls):
            self._trace(program, index, index, calls, into)

    def _trace(self, program: NetworkProgram, index: int, now: int, calls: list[Any], into: Program) -> None:
        place = self.labels[index]
        self.places.program, self.places.now = program, now
        self.places.step = self.filters.step = self.names[index]
        self.tracer.note = _remark(f"{place.path}: {place.kind}" if place.path else place.kind)
        for call in calls:
            try:
                into.steps += self.tracer.steps(call)
            except Refused as reason:
                self._refuse(self.graph.operations[index], self.tracer.note, str(reason))

    def _refuse(self, operation: Operation, note: str, reason: str) -> None:
        cure = next((cure for kind, cure in _CURES.items() if isinstance(operation, kind)), None)
        self.problems[note, f"{cure or reason}."] = None

    def _copy_outputs(
        self, program: NetworkProgram, outputs: list[tuple[Buffer, Tensor | None]], into: Program
    ) -> None:
        self.places.program, self.places.now = program, 2 * len(self.graph.operations)
        for (buffer, value), array in zip(outputs, program.outputs, strict=True):
            if value is not None:
                step = self.tracer.copies(np.empty(array.shape, array.dtype), array)[0]
                step.target, step.note = BufferPlace(buffer), "the result"  # type: ignore[union-attr]
                into.steps.append(step)

    # Training.

    def _train(self, source: NetworkSource, loss: Loss, optimizer: Optimizer, names: list[str]) -> None:
        program = self._program(training=True)
        last = 2 * len(self.graph.operations)
        source.train = Program(self._arguments(program, names), [])
        for path, parameter in self.network.named_parameters():
            if parameter.used and parameter.requires_grad:
                self.places.add(parameter.grad, f"{self._owned(path)}_gradient", "train")
        source.train.steps.append(Heading("Forward"))
        self._trace_forward(program, source.train)
        self.places.program, self.places.now = program, last // 2
        self.places.step = self.filters.step = "loss_layer"
        self.tracer.note = _remark(repr(loss))
        try:
            self._loss(source, loss, program)
        except Refused as reason:
            self.problems[repr(loss), f"{reason}."] = None
            return
        source.train.steps.append(Heading("Backward"))
        order = {id(operation): i for i, operation in enumerate(self.graph.operations)}
        for operation, calls in program.backward_calls:
            index = order[id(operation)]
            self._trace(program, index, last - index, calls, source.train)
        self._optimizer(source, optimizer)

    def _loss(self, source: NetworkSource, loss: Loss, program: NetworkProgram) -> None:
        assert source.train is not None
        if len(program.outputs) != 1:
            raise Refused("the source code has one loss, of a network with one output")
        output, gradient = program.outputs[0], program.output_gradients[0]
        if gradient is None:
            raise Refused("nothing that is trained has a part in the output")
        bound: Any = loss.bind(output, gradient)
        if type(bound).plain_call is BoundLoss.plain_call:
            raise Refused("it is not a loss of BNNS")
        classes = isinstance(bound, ClassBound)
        shape = bound.shape if classes else output.shape
        bound.take(np.zeros(shape, np.int64 if classes else np.float32))
        call = bound.plain_call()
        weighted = any(getattr(loss, name, None) is not None for name in ("weight", "pos_weight"))
        if call is None or weighted or not bound.is_plain():
            raise Refused(
                "its weights or its reduction are computed in Python; use a mean or a sum without class weights"
            )
        kind: np.dtype[Any] = np.dtype(np.int64 if classes else np.float32)
        targets = Buffer("targets", "argument", kind, int(np.prod(shape)), constant=True)
        source.targets = targets
        if isinstance(bound, ClassBound):
            rows, width = bound.labels.shape
            row = bound.labels[0]  # of class 0
            self.places.step = "labels"
            target = self.places.find(bound.labels, written=True)
            other = float(row[1]) if width > 1 else 0.0
            labels = Labels(target, BufferPlace(targets), rows, width, float(row[0]), other)
            source.train.steps.insert(0, labels)  # so that nothing has changed if a class number is wrong
        else:
            self.places.add_alias(bound.labels, targets)
        self.places.step = "loss"
        source.loss = self.places.find(bound.value_array, written=True)
        source.train.steps.append(Heading("Loss"))
        source.train.steps += self.tracer.steps(call)

    def _optimizer(self, source: NetworkSource, optimizer: Optimizer) -> None:
        groups, note = optimizer.plain_step_groups(), repr(optimizer)
        if groups is None:
            reason = "its steps are computed in Python. Leave out dampening and clipping across groups."
            self.problems[note, reason] = None
            return
        for number, bundle in enumerate(groups):
            bnns = bundle.bnns
            try:
                fields, function = bnns.bnns_fields, bnns.bnns_optimizer_function
            except (AttributeError, KeyError, NotImplementedError):
                self.problems[note, "it is not an optimizer of BNNS. Use SGD, Adam, AdamW or RMSprop."] = None
                return
            step = OptimizerStep(
                f"optimizer_{number}", Constant((function.name,), "BNNSOptimizerFunction"),
                struct_value(fields, self.places.find), hasattr(fields, "time_step"),
                float(fields.epsilon) if bundle.adds_epsilon_last else None, bundle.steps, [], [], [], [],
            )  # fmt: skip
            for state in bundle.states:
                step.parameters.append(self.places.find(state.parameter.data, written=True))
                step.counts_of.append(state.parameter.data.size)
                step.gradients.append(self.places.find(state.parameter.grad))
            for i, array in enumerate(bundle.accumulators):
                owner = bundle.states[i % len(bundle.states)].parameter
                name = self.places.find(owner.data).buffer.name
                begun = bool(array.any())  # a file has it if steps have been made
                group, role = "weights" if begun else "train", i // len(bundle.states)
                self.places.add(array, f"{name}_accumulator_{role}", group, contents=begun)
                step.accumulators.append(self.places.find(array, written=True))
            source.optimizers.append(step)


def _remark(text: str) -> str:
    """Words of users as a line of a comment, which they cannot end."""
    return "* /".join("".join(c if c.isprintable() else "?" for c in text).split("*/"))


def _identifier(path: str, kind: str) -> str:
    """The name of a layer: the user's, or if that is only a number, the kind and the number."""
    if path and not path.rsplit(".", 1)[-1].isdigit():
        return path
    return f"{kind.lower()}_{path}"


def _argument_names(network: Module, count: int) -> list[str]:
    """The names of the inputs, changed where the code uses the same names itself."""
    unique = Names(_LOCALS)
    return [unique.make(name) for name in argument_names(network, count)]


def contents(source: NetworkSource) -> bytes:
    """The file with the weights."""
    data = np.zeros(source.bytes["weights"], np.uint8)
    for buffer in source.buffers:
        if buffer.group == "weights":
            assert buffer.contents is not None
            flat: Array = np.ascontiguousarray(buffer.contents).reshape(-1).view(np.uint8)
            data[buffer.offset : buffer.offset + flat.size] = flat
    return data.tobytes()

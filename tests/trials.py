"""A filter on trial: guarded memory for every tensor of its forward and backward call, made from their records.

Nothing here knows a family: what a call takes, writes and needs is what the filter declares. Two families declare no
tensors, LSTM and crop-resize; theirs are trials of their own.
"""

from __future__ import annotations

import ctypes
import inspect
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

import openbnns
from cases import lstm
from cases._base import Row, succeed
from helpers import LAST_MAJOR_2D, LAST_MAJOR_4D, PACK32, Array, Storage, Tensor, layout
from openbnns import capi
from openbnns._words import Caller
from openbnns.calls.form import form
from openbnns.calls.signature import Argument, Call
from openbnns.capi._declared import DRIVERS
from openbnns.gradients import subject_of
from openbnns.tensors.operands import Parameter

CALLER = Caller("trial")
for _name in capi.__all__:  # each is loaded when first asked for, and only then known to drive a call
    getattr(capi, _name)


def tensor_of(operand: Any) -> Tensor:
    """The tensor that the descriptor of an operand describes."""
    view, layout = operand.view, capi.BNNSDataLayout(operand.view.layout.code)
    stride = () if layout == PACK32 else tuple(view.strides[axis] for axis in view.layout.stepped)
    return Tensor(layout, tuple(view.size), stride, capi.BNNSDataType(view.element.code), view.scale, view.bias)


class Calling:
    """One declared call of a filter, and the C function that makes it."""

    def __init__(self, filter: Any, call: str, choice: Any) -> None:
        self.filter, self.choice = filter, choice
        record = filter.declared(call, filter.choose(call, choice, CALLER))
        assert record is not None, f"{filter!r} does not declare {call}"
        self.record: Call = record
        if call in ATTENTION:
            self.function, self.chooses = ATTENTION[call], ()
        else:
            self.function, self.chooses = next(
                (function, chooses)
                for function, chooses in DRIVERS[call]
                if "batch_size" in inspect.signature(function).parameters and bool(chooses) == (choice is not None)
            )
        names = [name.rstrip("_") for name in inspect.signature(self.function).parameters]
        self.names = names[1:]
        tensors = [name for name in self.names if name not in self.chooses]
        # Some calls take fewer.
        self.arguments = [a for a in record.arguments if re.split(r"[.\[]", a.name)[0] in names]
        self.strides = {stride: name for name, stride in form(call, tensors).tensors if stride}

    def __call__(self, batch: int, given: Mapping[str, Any], strides: Mapping[str, int]) -> int:
        """The status of the C function on memory and descriptors by the names of the record."""
        chosen = dict(zip(self.chooses, self.choice if isinstance(self.choice, tuple) else [self.choice], strict=False))
        values = [
            batch if name == "batch_size"
            else chosen[name] if name in chosen
            else self._stride(self.strides[name], strides) if name in self.strides
            else self._tensor(name, given)
            for name in self.names
        ]  # fmt: skip
        return int(self.function(self.filter, *values))

    def _stride(self, name: str, strides: Mapping[str, int]) -> Any:
        if name in self.record.lists:
            return [strides.get(item.name, 0) for item in self.record.items(name)]
        return strides.get(name, 0)

    def _tensor(self, name: str, given: Mapping[str, Any]) -> Any:
        if name in self.record.lists:
            return [given.get(item.name) for item in self.record.items(name)]
        if name.endswith("_param_delta"):
            members = {m: given.get(f"{name}.{m}") for m in ("target_desc", "weights", "bias")}
            return capi.BNNSMHAProjectionParameters(**{m: v for m, v in members.items() if v is not None})
        if name == "backprop_cache_size":
            cache = given.get("backprop_cache")
            size = 0 if cache is None or isinstance(cache, int) else memoryview(cache).nbytes
            return size if self.record.backward else (ctypes.c_size_t(size) if size else None)
        return given.get(name)


ATTENTION = {
    "apply_attention": capi.BNNSApplyMultiheadAttention,
    "apply_backward_attention": capi.BNNSApplyMultiheadAttentionBackward,
}


class Trial:
    """A filter with memory for one batch."""

    def __init__(self, row: Row, made: Any, batch: int, gap: int) -> None:
        self.row, self.layer, self.batch, self.gap = row, made, batch, gap
        self.filter = getattr(made, "bnns_filter", made)
        default = self.filter.driving_calls()
        forward, backward = row.calls or default
        self.forward_call = Calling(self.filter, *forward)
        self.backward_call = None if backward is None else Calling(self.filter, *backward)
        self.subject = None if default[1] is None else subject_of(self.filter)
        self.random = np.random.default_rng(zlib.crc32(row.id.encode()))
        self.inputs: dict[str, Storage] = {}
        self.outputs: dict[str, Storage] = {}
        self.arriving: dict[str, Storage] = {}
        self._make_inputs()
        for a in self.forward_call.arguments:
            if a.writes and not a.described and a.tensor is not None:
                self.outputs[a.name] = self.storage(a)
        for a in self.backward_arguments:
            if a.gradient_of and not a.writes:
                self.arriving[a.name] = self.storage(a, self.numbers(a))

    # Memory.

    @property
    def backward_arguments(self) -> list[Argument]:
        """The gradients with an effect. Attention declares gradients of parameters that it may lack, which take NULL only."""
        if self.backward_call is None:
            return []
        return [a for a in self.backward_call.arguments if a.tensor is not None and a.native]

    @property
    def gradients(self) -> list[str]:
        """Names of the gradients that this filter has."""
        return [a.name for a in self.backward_arguments if a.writes]

    def storage(self, a: Argument, numbers: Array | None = None) -> Storage:
        """Memory for an argument, with canonical numbers or NaN."""
        batch, gap = (self.batch, self.gap if a.strided else 0) if a.batched else (1, 0)
        held = Storage(tensor_of(a.tensor), batch, gap)
        if numbers is not None:
            assert a.tensor is not None and not isinstance(a.tensor, Parameter)
            if held.tensor.is_integer:
                held.elements[:] = 0  # indices are checked when they are bound
            a.tensor.bind("trial", held.elements, batch, held.stride, output=True).write(numbers)
            held.before = held.memory.copy()
        return held

    def numbers(self, a: Argument) -> Array:
        assert a.tensor is not None
        shape = (self.batch if a.batched else 1, *a.tensor.shape)
        if self.subject is None or a.gradient_of:
            return self.random.standard_normal(shape)
        return self.subject.numbers(a.name, shape, self.random)

    def _make_inputs(self) -> None:
        others: Mapping[str, Array] = {} if self.subject is None else self.subject.others(self.batch)
        taken = [a for a in self.forward_call.record.arguments if not a.writes and (a.required or a.name in others)]
        values = {a.name: others[a.name] if a.name in others else self.numbers(a) for a in taken}
        if self.subject is not None:
            values |= self.subject.moved({a.name: values[a.name] for a in taken if a.required})
        self.inputs = {a.name: self.storage(a, values[a.name]) for a in taken}

    def all_tensors(self) -> dict[str, Storage]:
        return self.inputs | self.outputs | self.arriving

    def described(self, a: Argument, storage: Storage, accumulate: bool = False) -> Any:
        """The value that a call is given for an argument."""
        if not a.described:
            return storage.elements
        descriptor = storage.descriptor(int(accumulate))
        if storage.batch > 1 and not a.strided:  # attention has the batch stride in its descriptors
            descriptor.stride[2] = storage.stride
        return descriptor

    # Calls.

    def set_threads(self, count: int) -> None:
        self.filter.threads = count
        self.filter.redeclare()

    def forward(self, batch: int | None = None) -> dict[str, Array]:
        """Run forward; the outputs as they are stored."""
        succeed(self.try_forward(batch))
        return {name: storage.raw() for name, storage in self.outputs.items()}

    def try_forward(self, batch: int | None = None, **instead: Any) -> int:
        record, tensors = self.forward_call.record, self.inputs | self.outputs
        given = {n: self.described(record.by_name[n], s) for n, s in tensors.items()} | instead
        return self.forward_call(self.batch if batch is None else batch, given, self._strides(tensors))

    def new_gradients(self, wanted: Collection[str] | None = None) -> dict[str, Storage]:
        """Memory for gradients, full of NaN."""
        return {
            a.name: self.storage(a)
            for a in self.backward_arguments
            if a.writes and (wanted is None or a.name in wanted)
        }

    def backward(
        self, wanted: Collection[str] | None = None, old: Mapping[str, Array] | None = None, batch: int | None = None
    ) -> dict[str, Storage]:
        """Run backward into new memory; with ``old``, which holds stored elements, gradients are added to it."""
        results = self.new_gradients(wanted)
        _fill(results, old)
        succeed(self.try_backward(results, accumulate=old is not None, batch=batch))
        return results

    def try_backward(
        self, results: Mapping[str, Storage], *, without: Collection[str] = (), accumulate: bool = False,
        batch: int | None = None, instead: Mapping[str, Any] | None = None,
    ) -> int:  # fmt: skip
        """The status of a backward call; ``instead`` replaces what is given for some tensors."""
        assert self.backward_call is not None
        record = self.backward_call.record
        known = {n: s for n, s in self.all_tensors().items() if n in record.by_name and n not in without}
        tensors = known | dict(results)
        given = {
            n: self.described(record.by_name[n], s, accumulate and n in results) for n, s in tensors.items()
        } | dict(instead or {})  # fmt: skip
        return self.backward_call(self.batch if batch is None else batch, given, self._strides(tensors))

    def _strides(self, tensors: Mapping[str, Storage]) -> dict[str, int]:
        return {name: storage.stride for name, storage in tensors.items()}


class LstmTrial:
    """An LSTM, whose tensors are members of a struct and go by their numbers."""

    def __init__(self, case: lstm.LstmCase) -> None:
        self.case, self.values = case, case.values()
        self.gradients = [i for i in lstm.RESULTS if 0 not in case.shape(i)]
        self.arriving = {i: lstm.Memory(case, i, self.values[100 + i]).storage for i in lstm.OUTPUTS}
        self.set_threads(0)

    def set_threads(self, count: int) -> None:
        self.run = lstm.LstmRun(self.case, self.values, count)
        self.inputs = {i: m.storage for i, m in self.run.memory.items()}
        self.outputs = {i: m.storage for i, m in self.run.outputs.items()}

    def forward(self) -> dict[Any, Array]:
        self.run.forward()
        return {i: storage.raw() for i, storage in self.outputs.items()}

    def backward(
        self, wanted: Any = None, old: Any = None, elsewhere: Mapping[int, Array] | None = None
    ) -> dict[Any, Storage]:
        """The gradients wanted; more of them go to memory ``elsewhere``."""
        results = {i: Storage(self.case.tensor(i)) for i in (self.gradients if wanted is None else wanted)}
        _fill(results, old)
        described = {i: s.descriptor(int(old is not None)) for i, s in results.items()}
        for i, place in (elsewhere or {}).items():
            described[i] = Storage(self.case.tensor(i)).descriptor()
            described[i].data = place
        delta = lstm.params(self.case, described | {i: s.descriptor() for i, s in self.arriving.items()})
        cache = self.run.cache
        assert cache is not None
        status = capi.BNNSDirectApplyLSTMBatchBackward(self.run.params, delta, self.run.threads, cache, cache.nbytes)
        succeed(status)
        return results


class CropTrial:
    """Boxes cut out of images, by functions that take descriptors."""

    gradients = ("in_delta",)

    def __init__(self, **options: Any) -> None:
        random = np.random.default_rng(5)
        self.parameters = capi.BNNSLayerParametersCropResize(
            spatial_scale=1, method=capi.BNNSInterpolationMethodLinear, **options
        )
        self.x, self.y = Tensor(LAST_MAJOR_4D, (7, 5, 3, 2)), Tensor(layout("5DLastMajor"), (4, 3, 3, 2, 2))
        boxes = np.array([[0.3, 1.2, 4.1, 3.9], [2.0, 0.4, 8.5, 4.7]]).T  # the second one hangs over the border
        self.inputs = {
            "input": Storage(self.x, values=random.standard_normal((1, *self.x.size))),
            "roi": Storage(Tensor(LAST_MAJOR_2D, (4, 2)), values=boxes[None]),
        }
        self.outputs = {"output": Storage(self.y)}
        self.arriving = {"out_delta": Storage(self.y, values=random.standard_normal((1, *self.y.size)))}
        self.set_threads(0)

    def set_threads(self, count: int) -> None:
        self.filter_parameters = capi.BNNSFilterParameters(n_threads=count)

    def forward(self) -> dict[Any, Array]:
        x, roi, y = (s.descriptor() for s in (*self.inputs.values(), self.outputs["output"]))
        succeed(capi.BNNSCropResize(self.parameters, x, roi, y, self.filter_parameters))
        return {"output": self.outputs["output"].raw()}

    def backward(self, wanted: Any = None, old: Any = None) -> dict[Any, Storage]:
        results = {name: Storage(self.x) for name in (self.gradients if wanted is None else wanted)}
        _fill(results, old)
        for storage in results.values():
            dx, roi, dy = storage.descriptor(int(old is not None)), self.inputs["roi"], self.arriving["out_delta"]
            succeed(
                capi.BNNSCropResizeBackward(
                    self.parameters, dx, roi.descriptor(), dy.descriptor(), self.filter_parameters
                )
            )
        return results


def _fill(results: Mapping[Any, Storage], old: Mapping[Any, Array] | None) -> None:
    """Let results start with these elements, if there are any."""
    for name, storage in results.items() if old is not None else ():
        storage.elements[storage.places] = old[name]  # type: ignore[index]
        storage.before = storage.memory.copy()


class Face:
    """The Python layer of a trial: the same memory as arrays, under the names of its methods."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.layer = trial, trial.layer
        self.takes = set(inspect.signature(self.layer.apply_backward).parameters)

    @staticmethod
    def known(row: Row) -> bool:
        """True if the class of a row takes the tensors of the C call one by one. Attention keeps them itself."""
        return row.calls is None and isinstance(row.make(), openbnns.layers.base.Layer) and "attention" not in row.id

    def name(self, a: Argument) -> str:
        """The name of a tensor in the methods."""
        if not a.gradient_of:
            return PYTHON.get(a.name) or self._shown(a.name)
        if not a.writes:
            return "output_gradient"
        gradient = f"generating_{self._shown(a.gradient_of)}_gradient"
        return gradient if gradient in self.takes or "named" in self.takes else f"generating_{a.gradient_of}_gradient"

    def _shown(self, tensor: str) -> str:
        assert self.trial.subject is not None
        return self.trial.subject.name(tensor)

    def array(self, a: Argument, storage: Storage) -> Array:
        """The memory of a tensor in C order."""
        tensor = storage.tensor
        shape = tuple(tensor.size[axis] for axis in reversed(tensor.stepped))
        return storage.elements.reshape(storage.batch, *shape) if a.batched else storage.elements.reshape(shape)

    def apply_backward(self, results: Mapping[str, Storage], without: Collection[str] = ()) -> Any:
        """Run backward into these results; other gradients are skipped."""
        trial = self.trial
        assert trial.backward_call is not None
        record, named = trial.backward_call.record, dict[str, Any]()
        for a in trial.backward_arguments:
            if a.name in record.lists or a.name.partition("[")[0] == "delta_parameters":
                slots = named.setdefault("generating_parameter_gradients", [])
                slots.append(self.array(a, results[a.name]) if a.name in results else openbnns.skip)
            elif a.writes:
                named[self.name(a)] = self.array(a, results[a.name]) if a.name in results else openbnns.skip
            elif a.name in trial.all_tensors() and a.name not in without:
                named[self.name(a)] = self.array(a, trial.all_tensors()[a.name])
        return self.layer.apply_backward(**{n: v for n, v in named.items() if "named" in self.takes or n in self.takes})

    def apply(self) -> Any:
        """Run forward into the outputs."""
        record = self.trial.forward_call.record
        named = {
            self.name(a): self.array(a, self.trial.inputs[a.name])
            for a in record.arguments
            if a.name in self.trial.inputs
        }
        out = self.trial.outputs["out"]
        named["output"] = self.array(record.by_name["out"], out)
        if "phase" in inspect.signature(self.layer.apply).parameters:
            named["phase"] = openbnns.LearningPhase.TRAINING
        return self.layer.apply(**named)


PYTHON = {"in": "input", "out": "output"}

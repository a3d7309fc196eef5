"""One Python function per C function: it takes addresses and numbers, and calls its namesake in ``openbnns.capi``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .. import capi
from . import reading
from .layouts import FUNCTIONS, STRUCTS
from .reading import Address, descriptors, numbers32, pointers, reader, size_at, sizes

CFunction = Callable[..., Any]

_ARRAYS: dict[str, Callable[[Address, int], Any]] = {
    "void**": pointers, "BNNSNDArrayDescriptor**": descriptors, "size_t*": sizes,
}  # fmt: skip
_COUNT = "number_of_inputs"  # of the entries of every array of a call


def function(name: str, parameters: list[tuple[str, str]]) -> CFunction:
    """The function of this name; that of ``capi`` itself if it takes nothing but numbers and memory."""
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name.startswith("BNNSGraph"):
        from .graphs import SPECIAL  # only here: few programs have graphs

        return SPECIAL[name]
    if name.startswith("openbnns_graph_builder"):
        from . import graph_builders

        return graph_builders.SPECIAL[name]
    target: CFunction = getattr(capi, name)
    names = [parameter for parameter, _ in parameters]
    structs: list[tuple[int, Callable[[Address], Any]]] = []
    arrays: list[tuple[int, Callable[[Address, int], Any]]] = []
    for i, (parameter, c_type) in enumerate(parameters):
        if c_type in ("BNNSLayerParametersArithmetic*",):
            structs.append((i, reading.read_arithmetic))
        elif c_type.rstrip("*") in STRUCTS and c_type.count("*") == 1:
            structs.append((i, reader(c_type[:-1])))
        elif c_type in _ARRAYS and _COUNT in names:
            arrays.append((i, _ARRAYS[c_type]))
        elif c_type == "size_t*" and parameter != "indices":  # a size that the call reports
            structs.append((i, size_at))
    if not structs and not arrays:
        return target
    count = names.index(_COUNT) if arrays else 0

    def run(*given: Any) -> Any:
        arguments = list(given)
        for i, read in structs:
            arguments[i] = read(arguments[i])
        for i, read_array in arrays:
            arguments[i] = read_array(arguments[i], arguments[count])
        return target(*arguments)

    return run


# ---------------------------------------------------------------------------------------------------------------------
# Functions with arguments whose form depends on another argument

_descriptor = reader("BNNSNDArrayDescriptor")
_parameters = reader("BNNSFilterParameters")


def _create_loss(layer_params: Address, filter_params: Address) -> Any:
    return capi.BNNSFilterCreateLayerLoss(reading.read_loss(layer_params), _parameters(filter_params))


def _create_fused(number: int, filter_type: Address, layer_params: Address, filter_params: Address) -> Any:
    kinds, layers = numbers32(filter_type, number), pointers(layer_params, number)
    structs = None
    if layers is not None:
        structs = layers if kinds is None else list(map(reading.read_layer, kinds, layers))
    return capi.BNNSFilterCreateFusedLayer(number, kinds, structs, _parameters(filter_params))


def _slots(filter: Any) -> int:
    """How many parameter gradients a fused filter has places for."""
    return len(filter.slots) if isinstance(filter, capi.BNNSFilter) and hasattr(filter, "slots") else 0


def _fused_backward(
    filter: Any, batch: int, x: Address, x_stride: int, dx: Address, dx_stride: int, y: Address, y_stride: int,
    dy: Address, dy_stride: int, deltas: Address,
) -> int:  # fmt: skip
    return capi.BNNSFusedFilterApplyBackwardBatch(
        filter, batch, x, x_stride, _descriptor(dx), dx_stride, y, y_stride, _descriptor(dy), dy_stride,
        descriptors(deltas, _slots(filter)),
    )  # fmt: skip


def _fused_backward_several(
    filter: Any, batch: int, count: int, x: Address, x_stride: Address, dx: Address, dx_stride: Address, y: Address,
    y_stride: int, dy: Address, dy_stride: int, deltas: Address,
) -> int:  # fmt: skip
    return capi.BNNSFusedFilterApplyBackwardMultiInputBatch(
        filter, batch, count, pointers(x, count), sizes(x_stride, count), descriptors(dx, count),
        sizes(dx_stride, count), y, y_stride, _descriptor(dy), dy_stride, descriptors(deltas, _slots(filter)),
    )  # fmt: skip


def _optimizer_step(
    function: int, fields: Address, count: int, parameters: Address, gradients: Address, accumulators: Address,
    filter_params: Address,
) -> int:  # fmt: skip
    algorithm = reading.read_optimizer(function, fields)
    roles = reading.roles_of(function, algorithm, "BNNSOptimizerStep")
    return capi.BNNSOptimizerStep(
        function, algorithm, count, descriptors(parameters, count), descriptors(gradients, count),
        descriptors(accumulators, count * roles) if roles else None, _parameters(filter_params),
    )  # fmt: skip


def _clip_by_global_norm(dest: Address, src: Address, count: int, max_norm: float, use_norm: float) -> int:
    return capi.BNNSClipByGlobalNorm(descriptors(dest, count), descriptors(src, count), count, max_norm, use_norm)


def _get_pointer(result: int, filter: Any, target: int) -> None:
    descriptor = capi.BNNSGetPointer(filter, target)
    reading.write_descriptor(result, descriptor, 0 if descriptor.data is None else descriptor.data.ctypes.data)


_malloc = ctypes.CDLL(None).malloc
_malloc.argtypes, _malloc.restype = [ctypes.c_size_t], ctypes.c_void_p


def _sparsify(name: str) -> CFunction:
    target: CFunction = getattr(capi, name)

    def run(*given: Any) -> int:
        """The caller provides the memory for packed weights, or releases it with ``free``."""
        *inputs, out, sparsity, batch, workspace, workspace_size, filter_params = given
        descriptor = _descriptor(out)
        status: int = target(
            *map(_descriptor, inputs), descriptor, reader("BNNSSparsityParameters")(sparsity), batch, workspace,
            workspace_size, _parameters(filter_params),
        )  # fmt: skip
        if status == 0:
            data = descriptor.data
            if not isinstance(data, int):
                bytes_ = data.nbytes
                address = _malloc(max(bytes_, 1))
                if not address:
                    raise MemoryError
                ctypes.memmove(address, data.ctypes.data, bytes_)
                data = address
            reading.write_descriptor(out, descriptor, data)
        return status

    return run


_SPECIAL: dict[str, CFunction] = {
    "BNNSFilterCreateLayerLoss": _create_loss,
    "BNNSFilterCreateFusedLayer": _create_fused,
    "BNNSFusedFilterApplyBackwardBatch": _fused_backward,
    "BNNSFusedFilterApplyBackwardMultiInputBatch": _fused_backward_several,
    "BNNSOptimizerStep": _optimizer_step,
    "BNNSClipByGlobalNorm": _clip_by_global_norm,
    "BNNSGetPointer": _get_pointer,
    "BNNSNDArrayFullyConnectedSparsifySparseCOO": _sparsify("BNNSNDArrayFullyConnectedSparsifySparseCOO"),
    "BNNSNDArrayFullyConnectedSparsifySparseCSR": _sparsify("BNNSNDArrayFullyConnectedSparsifySparseCSR"),
}


class Functions(list[CFunction]):
    """The functions in the order of the library. Each is created when first called: families load on demand."""

    def __init__(self) -> None:
        super().__init__(map(self._later, range(len(FUNCTIONS))))

    def _later(self, number: int) -> CFunction:
        def run(*arguments: Any) -> Any:
            name, _, parameters = FUNCTIONS[number]
            self[number] = function(name, parameters)
            return self[number](*arguments)

        return run

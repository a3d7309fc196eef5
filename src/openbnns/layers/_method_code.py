"""The code of a declared method: straight-line Python that hands arrays of the right shape to native code.

The shapes of the leading arrays of a call tell its batch and the shapes of all its other tensors, which are looked up; what
is left is to compare them, to make what was left out, and to call the filter. Anything that does not fit goes to
``Method.checked``. This is what comes out for ``apply`` of a layer with one input::

    def apply(self, input, output, *, batch_size, **misspelled):
        while not misspelled and type(input) is ndarray:
            try:
                prepared = self._UnaryLayer_apply
            except AttributeError:
                prepared = METHOD.prepare(self)
            known = prepared.sizes.get(input.shape) or prepared.settle(input.shape)
            if known is None or (batch_size is not None and not (type(batch_size) is int and batch_size == known[1])):
                break
            batch, _, s_output, t_output, m_output = known
            r_output = m_output(s_output, t_output) if output is None else output
            if type(r_output) is not ndarray or r_output.shape != s_output:
                break
            if self._filter.native(prepared.forms[None])(batch, input, r_output) != 0:
                break
            return r_output
        return METHOD.checked(self, misspelled, {'input': input, 'output': output, 'batch_size': batch_size})
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._ports import Delta, skip

if TYPE_CHECKING:
    from ._methods import Method, TensorArgument


def compiled(method: Method) -> Callable[..., Any]:
    """The function that takes the place of a declared method."""
    function = method.function
    scope: dict[str, Any] = {
        "METHOD": method, "ndarray": np.ndarray, "skip": skip, "Delta": Delta, "empty": np.empty, "gradients": gradients,
        "new": tuple.__new__, "RESULT": method.returns, "CHOICES": method.choices, "__name__": function.__module__,
    }  # fmt: skip
    place = f"{function.__code__.co_filename}:{function.__qualname__}"  # its frames count as this package's
    exec(compile("\n".join(_lines(method)), place, "exec"), scope)
    made = scope[function.__name__]
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.declared = method
    return functools.wraps(function)(made)


def _lines(method: Method) -> list[str]:
    positional = [name for name in method.arguments if name not in method.keyword_only]
    keywords = ["*", *method.keyword_only] if method.keyword_only else []
    lines = [f"def {method.function.__name__}({', '.join(['self', *positional, *keywords, '**misspelled'])}):"]
    lines.append(f"    while {' and '.join(_conditions(method))}:")
    lines += [f"        {line}" for line in _attempt(method)]
    values = ", ".join(f"{name!r}: {name}" for name in method.arguments)
    lines.append(f"    return METHOD.checked(self, misspelled, {{{values}}})")
    return lines


def _conditions(method: Method) -> list[str]:
    """Conditions on the arguments that do not depend on the layer."""
    conditions = ["not misspelled"]
    for name in method.leading:
        is_array = f"type({name}) is ndarray"
        conditions.append(f"({name} is None or {is_array})" if len(method.leading) > 1 else is_array)
    if method.chooser:
        conditions.append(f"type({method.chooser}) is CHOICES")
    if "accumulate" in method.arguments:
        conditions.append("type(accumulate) is bool")
    return conditions


def _attempt(method: Method) -> list[str]:
    keys = [f"{name} is not None and {name}.shape" for name in method.leading]
    key = f"({', '.join(keys)})" if len(keys) > 1 else f"{method.leading[0]}.shape"
    lines = [
        "try:",
        f"    prepared = self.{method.attribute}",
        "except AttributeError:",
        "    prepared = METHOD.prepare(self)",
        f"key = {key}",
        "known = prepared.sizes.get(key) or prepared.settle(key)",
        "if known is None or (batch_size is not None and not (type(batch_size) is int and batch_size == known[1])):",
        "    break",
    ]
    unpacked, body = ["batch", "_"], []
    for tensor in method.tensors:
        names, checks = _one(tensor, method)
        unpacked += names
        body += checks
    chosen = method.chooser or "None"
    call = ", ".join(["batch", *_native_arguments(method)])
    return [
        *lines,
        f"{', '.join(unpacked)} = known",
        *body,
        f"if self._filter.native(prepared.forms[{chosen}])({call}) != 0:",
        "    break",
        f"return {_result(method)}",
    ]


def _one(tensor: TensorArgument, method: Method) -> tuple[list[str], list[str]]:
    """The lookups of a tensor, in the order of ``Prepared.settle``, and the lines that check and make it."""
    from ._methods import Role

    name, role, leads = tensor.name, tensor.role, tensor.name in method.leading
    shape, port, result, delta = f"s_{name}", f"p_{name}", f"r_{name}", f"d_{name}"
    looked_up = [] if leads else [shape]
    flags = "1 if accumulate else 0"
    if role is Role.COUNTED:
        return [], [
            f"if {name} is None:",
            f"    n_{name} = 0",
            f"elif type({name}) is ndarray and ({name}.size == 1) is broadcasts_{name}:",
            f"    n_{name} = {name}.size",
            "else:",
            "    break",
        ]
    if role is Role.INPUT:
        fits = f"{name} is not None and (type({name}) is not ndarray or {name}.shape != {shape})"
        return looked_up, [] if leads else [f"if {fits}:", "    break"]
    if role is Role.OUTPUT_GRADIENT:
        fits = f"type({name}) is not ndarray or {name}.shape != {shape}"
        return [*looked_up, port], [] if leads else [f"if {fits}:", "    break"]
    if role is Role.OUTPUT:
        return [shape, f"t_{name}", f"m_{name}"], [
            f"{result} = m_{name}({shape}, t_{name}) if {name} is None else {name}",
            f"if type({result}) is not ndarray or {result}.shape != {shape}:",
            "    break",
        ]
    if role is Role.GRADIENTS:
        return [f"e_{name}"], [
            f"made = gradients({name}, e_{name}, {flags})",
            "if made is None:",
            "    break",
            f"{result}, {delta} = made",
        ]
    return [shape, port], [
        f"if {name} is None and {port} is not None:",
        f"    {result} = empty({shape}, {port}.dtype)",
        f"    {delta} = Delta({port}, {result}, 0)",
        f"elif {name} is None or {name} is skip:",
        f"    {result} = {delta} = None",
        f"elif type({name}) is ndarray and {name}.shape == {shape}:",
        f"    {result} = {name}",
        f"    {delta} = Delta({port}, {name}, {flags})",
        "else:",
        "    break",
    ]


def _native_arguments(method: Method) -> list[str]:
    from ._methods import Role

    listed: dict[str, list[str]] = {}
    for tensor in method.tensors:
        name, role = tensor.name, tensor.role
        value = name
        if role is Role.OUTPUT:
            value = f"r_{name}"
        elif role is Role.OUTPUT_GRADIENT:
            value = f"Delta(p_{name}, {name}, 0)"
        elif role in (Role.GRADIENT, Role.GRADIENTS):
            value = f"d_{name}"
        elif role is Role.COUNTED:
            value = f"{name}, n_{name}"
        listed.setdefault(tensor.c_name.partition("[")[0], []).append(value)
    items = {tensor.c_name.partition("[")[0] for tensor in method.tensors if "[" in tensor.c_name}
    arguments = [f"[{', '.join(values)}]" if name in items else values[0] for name, values in listed.items()]
    return arguments + [f"self.{attribute}" for attribute in method.passes.values()]


def _result(method: Method) -> str:
    roles = {tensor.name for tensor in method.tensors}
    values = [f"r_{name}" if name in roles else "None" for name in method.result_names]
    return values[0] if method.returns is None else f"new(RESULT, ({', '.join(values)},))"


def gradients(values: Any, entries: list[Any], flags: int) -> tuple[list[Any], list[Any]] | None:
    """A list of gradient arguments as (what to return, what the native call takes); ``None`` if it needs the full checks.

    ``entries`` has the shape and the port of each.
    """
    if values is None or values is skip:
        values = [values] * len(entries)
    elif type(values) not in (list, tuple) or len(values) != len(entries):
        return None
    results: list[Any] = []
    deltas: list[Any] = []
    for value, (shape, port) in zip(values, entries, strict=True):
        if value is skip or (value is None and port is None):
            results.append(None)
            deltas.append(None)
        elif value is None:
            results.append(np.empty(shape, port.dtype))
            deltas.append(Delta(port, results[-1], 0))
        elif type(value) is np.ndarray and value.shape == shape:
            results.append(value)
            deltas.append(Delta(port, value, flags))
        else:
            return None
    return results, deltas

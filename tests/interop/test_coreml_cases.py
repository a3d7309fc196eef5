"""The recorded cases of coremltools' test suite: they can be read, their operations are known, and arrays fit their programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import mil_numpy
from coreml_cases import Case, cases
from coreml_programs import count_bound
from openbnns.interop import coreml
from openbnns.interop.coreml.elements import ELEMENTS
from openbnns.interop.coreml.operation_table import OPERATIONS


def fits(shape: tuple[int | None, ...] | None, array: np.ndarray) -> bool:
    """True if an array can have a shape; Core ML gives numbers without axes as arrays of one."""
    if shape is None or (shape == () and array.size == 1) or array.shape == ():
        return True
    return len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))


def check(case: Case, *, text: bool) -> None:
    program = case.program
    function = program.functions["main"]
    assert count_bound(function.block, coreml.Scope.of(function)) > 0
    if text:
        assert coreml.parse(coreml.render(program)) == program
    results = {port.name: port.type for port in function.output_types()}
    for inputs, outputs in case.calls:
        for port in function.inputs:
            if isinstance(port.type, coreml.TensorType):
                assert inputs[port.name].dtype == ELEMENTS[port.type.element].numpy
                assert fits(port.type.shape, inputs[port.name])
        for name, array in outputs.items():
            assert not np.isnan(array).all() or not array.size
            if isinstance(results[name], coreml.TensorType):
                assert fits(results[name].shape, array)


def test_all_cases_are_read_and_fit() -> None:
    wrong = {}
    for number, case in enumerate(cases()):
        try:
            check(case, text=number % 8 == 0)
        except (AssertionError, ValueError, KeyError) as error:
            wrong[case.test] = repr(error)[:300]
    assert wrong == {}


def test_cases_are_many_and_of_nearly_all_operations() -> None:
    counts = Counter(kind for case in cases() for kind in case.operations)
    assert len(cases()) > 2000
    assert len(counts) >= 150
    assert set(counts) <= set(OPERATIONS)
    # Answers that are all zero would prove little.
    empty = [
        case.test for case in cases() for _, outputs in case.calls if not any(array.any() for array in outputs.values())
    ]
    assert len(empty) < len(cases()) // 20
    page = (Path(__file__).parents[2] / "docs" / "core_ml.md").read_text(encoding="utf-8")
    assert f"runs {len(cases()):,} programs of {len(counts)} operations" in page


# Compressed weights, which cases use with these operations only.
AROUND = {"add", "cast", "const", "matmul", "mul", "sub"}


def results(case: Case) -> dict[str, Any]:
    """All values that the only call of a program computes, by name."""
    function = case.program.functions["main"]
    scope, values = coreml.Scope.of(function), dict(case.calls[0][0])

    def value(bound: Any) -> Any:
        if isinstance(bound, coreml.Constant):
            return bound.array if bound.type.element not in ("bool", "string") else bound.python
        return values[bound.name]

    for operation in function.block.operations:
        bound = coreml.bind(operation, scope)
        given = {name: value(held) for name, held in bound.items() if held is not None}
        if operation.type.startswith("constexpr_"):
            computed = coreml.decompressed(operation.type, given)
        elif operation.type in ("quantize", "dequantize"):
            computed = (coreml.quantize(**given) if operation.type == "quantize" else coreml.dequantize(**given),)
        elif operation.type == "const":
            computed = (given["val"],)
        else:
            computed = (mil_numpy.OPERATIONS[operation.type](**given),)
        values.update((port.name, result) for port, result in zip(operation.outputs, computed, strict=True))
        scope.add(operation)
    return values


def test_compressed_weights_give_what_is_expected() -> None:
    count, wrong = Counter[str](), []
    for case in cases():
        kinds = {
            kind for kind in case.operations if kind.startswith("constexpr_") or kind in ("quantize", "dequantize")
        }
        if not kinds or not set(case.operations) <= kinds | AROUND:
            continue
        count.update(kinds)
        values = results(case)
        for name, expected in case.calls[0][1].items():
            actual = np.asarray(values[name], np.float64)
            if not np.allclose(actual, expected, atol=case.atol, rtol=case.rtol):
                wrong.append(f"{case.test}: off by {np.abs(actual - expected).max()}")
    assert wrong == []
    assert len(count) == 9 and min(count.values()) > 3, count

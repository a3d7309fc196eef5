"""Repeated executions of graphs run in native code, and nothing tells them from those of Python: values, mistakes, settings."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns as bn
from c_compilers import C_PROGRAMS, STRICT, compilers, environment_of_programs
from c_contexts import DENSE, CContext, Graph, executions_in_python
from coreml_cases import Case, cases
from openbnns import graph
from openbnns.clib import flags
from openbnns.interop.coreml.elements import ELEMENTS

WEIGHTS = np.float32([[1, -2, 3, 0.5], [-1, 0.25, 2, -3], [0.5, 1, -1, 2]])
BIAS = np.float32([0.5, -1, 0.25, 2])
WARM = 4  # executions after which those that can be are native


def dense(x: np.ndarray) -> np.ndarray:
    """The values of DENSE, whose sums are exact."""
    result: np.ndarray = np.maximum(x @ WEIGHTS + BIAS, 0)
    return result


def batch(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 10, (rows, 3)).astype(np.float32)


def cast(source: str, target: str, count: int = 8) -> str:
    """A program that converts elements."""
    return f"""program(1.3) {{ func main<ios17>(tensor<{source}, [{count}]> x) {{
        tensor<{target}, [{count}]> y = cast(x = x, dtype = string("{target}")); }} -> (y); }}"""


@contextmanager
def all_native() -> Iterator[None]:
    """No execution reaches Python."""
    with executions_in_python() as seen:
        yield
    assert not seen


# Cases of coremltools.


def differing(case: Case, *, tensors: bool) -> tuple[str | None, bool]:
    """How repeated executions differ from those of Python, and if the last one was native."""
    compiled = Graph(case.program)
    arguments = compiled.description.function(None).arguments
    context, reference = CContext(compiled, tensors=tensors), graph.Context.of_graph(compiled.description)
    reference.native = None
    random, seen = np.random.default_rng(7), []
    recorded = case.calls[0][0]
    kept, states = (
        {a.name: np.zeros(a.shape, ELEMENTS[a.element].numpy) for a in arguments if a.intent == "inout"}
        for _ in range(2)
    )  # type: ignore[arg-type]
    for turn in range(WARM + 2):
        given = {
            name: x if turn < WARM else random.permutation(x.reshape(-1)).reshape(x.shape)
            for name, x in recorded.items()
        }
        try:
            expected = reference.execute(given | kept)
        except ValueError:  # permuted numbers may name nothing
            return None, not seen
        if turn == 0 and not tensors and any(None in argument.shape for argument in arguments):
            context.set_shapes(*[() if a.intent == "out" else given[a.name].shape for a in arguments])
        outputs = {name: np.full(x.shape, 1, x.dtype) for name, x in expected.items()}
        inputs = {name: np.ascontiguousarray(x) for name, x in given.items()}
        with executions_in_python() as seen:
            status = context.run(*[(outputs | inputs | states)[argument.name] for argument in arguments])
        if status != 0:
            return f"turn {turn} fails", False
        for name, x in {**expected, **kept}.items():
            if (outputs | states)[name].tobytes() != x.tobytes():
                return f"{name} differs in turn {turn}", False
    return None, not seen


def can_be_passed(case: Case) -> bool:
    function = case.program.functions["main"]
    random = any(kind.startswith("random") for kind in case.operations)
    types = [getattr(port.type, "wrapped", port.type) for port in (*function.inputs, *function.output_types())]
    elements = [getattr(type, "element", None) for type in types]
    return not random and all(element in ELEMENTS and element != "string" for element in elements)


def test_the_cases_of_coremltools_give_the_same_bits() -> None:
    """Recorded inputs, then permuted ones, as pointers and as tensors. Most programs are wholly native."""
    wrong, native, count = {}, 0, 0
    for number, case in enumerate(cases()):
        if number % 9 and "state<" not in case.text:
            continue
        if not can_be_passed(case):
            continue
        try:
            problem, was_native = differing(case, tensors=number % 3 == 0)
        except ValueError:  # the suite expects an error
            continue
        count, native = count + 1, native + was_native
        if problem:
            wrong[case.test] = problem
    assert wrong == {}
    assert count > 200 and native > 0.7 * count


# States.

SUMS = """program(1.3) { func main<ios18>(tensor<fp16, [3]> x, state<tensor<fp16, [3]>> sum, state<tensor<fp32, [2]>> count) {
    tensor<fp16, [3]> before = read_state(input = sum); tensor<fp16, [3]> s = add(x = before, y = x);
    write_state(data = s, input = sum); tensor<fp16, [3]> now = read_state(input = sum);
    tensor<fp16, [3]> twice = add(x = now, y = now); write_state(data = twice, input = sum);
    tensor<fp32, [2]> c = read_state(input = count); tensor<fp32, [2]> one = const()[val = tensor<fp32, [2]>([1, 2])];
    tensor<fp32, [2]> d = add(x = c, y = one); write_state(data = d, input = count);
    tensor<fp32, [3]> wide = cast(x = now, dtype = string("fp32")); } -> (wide, before); }"""


@pytest.mark.parametrize("tensors", [False, True])
def test_states(tensors: bool) -> None:
    """They are rounded when they are written, also for operations that read them again, and stay where the program has them."""
    context, random = CContext(SUMS, tensors=tensors), np.random.default_rng(2)
    names = [argument.name for argument in context.graph.description.function(None).arguments]
    total, count = np.zeros(3, np.float16), np.zeros(2, np.float32)
    for turn in range(20):
        if turn == 12:  # the states may lie elsewhere at every call
            total, count = total.copy(), count.copy()
        x, wide, before = random.standard_normal(3).astype(np.float16), np.zeros(3, np.float32), np.zeros(3, np.float16)
        arrays = {"x": x, "sum": total, "count": count, "wide": wide, "before": before}
        old, expected = total.copy(), total + x
        with np.errstate(over="ignore"), executions_in_python() as seen:
            assert context.run(*[arrays[name] for name in names]) == 0
        assert np.array_equal(wide, expected.astype(np.float32)) and np.array_equal(before, old)
        assert np.array_equal(total, expected + expected) and count.tolist() == [turn + 1, 2 * turn + 2]
        assert turn < WARM or not seen
        total *= np.float16(0.25)
    for missing in ("sum", "x", "wide"):  # a call that is refused changes no state
        held = total.tobytes(), count.tobytes()
        short = {**arrays, missing: arrays[missing][:2]}
        if not tensors:
            assert context.run(*[short[name] for name in names]) != 0
            assert (total.tobytes(), count.tobytes()) == held


def test_states_of_python() -> None:
    """A context keeps those that are left out; others are changed where they are."""
    context, plain = (graph.Context.of_graph(Graph(SUMS).description) for _ in range(2))
    plain.native = None
    for turn in range(8):
        x = np.float16([turn, 0.1, -1])
        assert outcomes(context, {"x": x}) == outcomes(plain, {"x": x})
    totals = [np.float16([1, 2, 3]), np.float16([1, 2, 3])]
    for turn in range(8):
        x = np.float16([turn, 0.1, -1]) * np.float16(0.1)
        for total, one in zip(totals, (context, plain), strict=True):
            total[:] = total * np.float16(0.25)
            one.execute({"x": x, "sum": total})
        assert totals[0].tobytes() == totals[1].tobytes()


def outcomes(context: graph.Context, inputs: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in context.execute(inputs).items()}


JOINED = """tensor<{0}, [2, 4, 3]> before = read_state(input = past);
    tensor<{0}, [2, 6, 3]> all = concat(axis = int32(1), interleave = bool(false), values = (before, x));
    tensor<{0}, [2, 6, 3]> y = square(x = all);"""
UPDATED = """tensor<{0}, [2, 4, 3]> before = read_state(input = past);
    tensor<{0}, [2, 4, 3]> all = slice_update(begin = tensor<int32, [3]>([0, 2, 0]), end = tensor<int32, [3]>([2, 4, 3]),
        update = x, x = before);
    tensor<{0}, [2, 4, 3]> y = square(x = all);"""


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("kind", ["fp32", "fp16"])
@pytest.mark.parametrize("body", [JOINED, UPDATED])
def test_streaming(body: str, kind: str, tensors: bool) -> None:
    """States advance in memory of the context, where programs find them."""
    text = f"""program(1.3) {{ func main<ios18>(state<tensor<{kind}, [2, 4, 3]>> past, tensor<{kind}, [2, 2, 3]> x)
        [BNNSOptions = dict<string, string>({{{{"StateMode", "Streaming"}}}})] {{ {body.format(kind)} }} -> (y); }}"""
    context = CContext(text, tensors=tensors, streaming=True)
    names = [argument.name for argument in context.graph.description.function(None).arguments]
    dtype, random = ELEMENTS[kind].numpy, np.random.default_rng(4)
    past, y = np.zeros((2, 4, 3), dtype), np.zeros((2, 6 if body is JOINED else 4, 3), dtype)
    places = set()
    for turn in range(12):
        x = random.standard_normal((2, 2, 3)).astype(dtype)
        passed = context.passing([{"x": x, "y": y, "past": None}[name] for name in names])
        with executions_in_python() as seen:
            assert context.execute(passed) == 0
        assert turn < WARM or not seen
        value = np.concatenate([past, x] if body is JOINED else [past[:, :2], x], 1)
        assert np.array_equal(y, np.square(value.astype(np.float32)).astype(dtype))
        past = value[:, 2:] if body is JOINED else np.roll(value, -2, 1)
        address, size = context.data_and_size(passed, names.index("past"))
        kept = np.frombuffer(ctypes.string_at(address, past.nbytes), dtype).reshape(past.shape)
        assert np.array_equal(kept, past) and size == past.nbytes
        places.add(address)
    assert len(places) == 1


def test_a_streaming_context_advances_as_it_is_told() -> None:
    """An update of an open size, after which the count may change."""
    text = """program(1.3) { func main<ios18>(state<tensor<fp32, [6]>> past, tensor<fp32, [?]> x)
        [BNNSOptions = dict<string, string>({{"StateMode", "Streaming"}})] {
        tensor<fp32, [6]> before = read_state(input = past);
        tensor<fp32, [6]> all = slice_update(
            begin = tensor<int32, [1]>([4]), end = tensor<int32, [1]>([6]), update = x, x = before);
        tensor<fp32, [6]> y = identity(x = all); } -> (y); }"""
    context, plain = (graph.Context.of_graph(Graph(text).description) for _ in range(2))
    plain.native = None
    for one in (context, plain):
        one.stream(None, {}, "test")
    for turn in range(20):
        if turn % 5 == 0:
            for one in (context, plain):
                one.streaming_advance(turn // 5)
        x = np.float32([turn, turn + 0.5])
        assert outcomes(context, {"x": x}) == outcomes(plain, {"x": x})
        assert context.latest is not None and plain.latest is not None
        assert np.array_equal(context.latest.state("past", "test"), plain.latest.state("past", "test"))


def test_an_execution_that_is_declined_leaves_states_alone() -> None:
    """A float that an int32 does not have: Python starts over from the states as they were."""
    text = """program(1.3) { func main<ios18>(tensor<fp32, [2]> x, state<tensor<fp32, [2]>> sum) {
        tensor<fp32, [2]> before = read_state(input = sum); tensor<fp32, [2]> s = add(x = before, y = x);
        write_state(data = s, input = sum); tensor<int32, [2]> y = cast(x = s, dtype = string("int32")); } -> (y); }"""
    context = CContext(text)
    names = [argument.name for argument in context.graph.description.function(None).arguments]
    total, y, sums = np.zeros(2, np.float32), np.zeros(2, np.int32), np.zeros(2, np.float32)
    for x in ([1, 2], [1, 2], [1, 2], [1, 2], [3e9, 1], [np.nan, 1], [1, 1]):
        arrays = {"x": np.float32(x), "sum": total, "y": y}
        assert context.run(*[arrays[name] for name in names]) == 0
        sums += np.float32(x)
        assert np.array_equal(total, sums, equal_nan=True)


# Sizes.


@pytest.mark.parametrize("tensors", [False, True])
def test_sizes_that_alternate(tensors: bool) -> None:
    """Each is native from its second turn on, and queries give the sizes of the latest execution."""
    context = CContext(DENSE, tensors=tensors)
    for turn in range(6):
        for rows in (1, 5, 2):
            x, z = batch(rows, turn), np.zeros((rows, 4), np.float32)
            if not tensors:
                assert context.set_shapes((), x.shape) == 0
            with executions_in_python() as seen:
                assert context.run(z, x) == 0
            assert turn < 2 or not seen
            assert np.array_equal(z, dense(x))
            assert context.shape("z") == (rows, 4) and context.shape("x") == (rows, 3)


def test_more_sizes_than_are_kept() -> None:
    context = CContext(DENSE)
    for turn in range(3):
        for rows in range(1, 40):
            x, z = batch(rows, turn), np.zeros((rows, 4), np.float32)
            assert context.set_shapes((), x.shape) == 0
            for _ in range(2):
                assert context.run(z, x) == 0
                assert np.array_equal(z, dense(x))


def test_functions_that_alternate() -> None:
    text = """program(1.3) {
        func first<ios16>(tensor<fp32, [2]> x) { tensor<fp32, [2]> y = relu(x = x); } -> (y);
        func main<ios16>(tensor<fp32, [2]> x) { tensor<fp32, [2]> y = square(x = x); } -> (y); }"""
    context, x, y = CContext(text), np.float32([-2, 3]), np.zeros(2, np.float32)
    for turn in range(6):
        for name, expected in (("first", [0, 3]), (None, [4, 9]), ("main", [4, 9])):
            with executions_in_python() as seen:
                assert context.run(y, x, function=name) == 0
            assert y.tolist() == expected and (turn < 2 or not seen)


def test_an_output_whose_size_follows_from_values() -> None:
    text = """program(1.3) { func main<ios16>(tensor<fp32, [4]> x) {
        tensor<int32, [?, 1]> y = non_zero(x = x); } -> (y); }"""
    context, fresh = CContext(text), np.zeros((4, 1), np.int32)
    for values in ([1, 0, 1, 1], [1, 0, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1]):
        y = np.full((4, 1), -1, np.int32)
        assert context.run(y, np.float32(values)) == 0
        places = np.flatnonzero(values)
        assert y[: len(places), 0].tolist() == places.tolist() and set(y[len(places) :, 0]) <= {-1}
    assert context.run(fresh[:1], np.float32([1, 1, 0, 0])) != 0


# Elements.


def warmed(text: str, *arrays: np.ndarray) -> CContext:
    """A context that is native for such arguments."""
    context = CContext(text)
    for _ in range(WARM):
        assert context.run(*arrays) == 0
    with all_native():
        assert context.run(*arrays) == 0
    return context


def test_every_float16_is_converted_as_numpy_does() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = np.zeros(halves.size, np.float32)
    context = warmed(cast("fp16", "fp32", halves.size), y, halves)
    with all_native():
        assert context.run(y, halves) == 0
    assert np.array_equal(y, halves.astype(np.float32), equal_nan=True)
    random = np.random.default_rng(1)
    near = halves.astype(np.float32)
    bits = random.integers(0, 1 << 32, 1 << 16, np.uint32).view(np.float32)
    back = np.zeros(halves.size, np.float16)
    context = warmed(cast("fp32", "fp16", halves.size), back, near)
    with np.errstate(all="ignore"):
        forms = [
            near,
            np.nextafter(near, np.float32(1e9)),
            np.nextafter(near, np.float32(-1e9)),
            bits,
            near * 1.00048828125,
        ]
        results = [values.astype(np.float16) for values in forms]
    for values, expected in zip(forms, results, strict=True):
        assert context.run(back, values) == 0
        assert np.array_equal(back, expected, equal_nan=True)
        same = ~np.isnan(expected)
        assert np.array_equal(back.view(np.uint16)[same], expected.view(np.uint16)[same])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32"])
def test_limits_of_integers(kind: str) -> None:
    """Floats that an integer type does not have are left to Python, and give what it gives."""
    limits = np.iinfo(kind)
    inside = np.float64([limits.min, limits.max, 0, 1.75, limits.max / 2, limits.min / 2, 3.5, 1])
    inside = np.where(np.float32(inside) > limits.max, np.nextafter(np.float32(limits.max), np.float32(0)), inside)
    y, z = np.zeros(8, kind), np.zeros(8, kind)
    context = CContext(cast("fp32", kind))
    for values in [inside.astype(np.float32)] * WARM + [
        np.float32([np.nan, np.inf, -np.inf, 3e9, -3e9, 70000, -200, 5])
    ]:
        assert context.run(y, values) == 0
        assert CContext(context.graph).run(z, values) == 0
        assert np.array_equal(y, z)


def test_any_byte_that_is_a_mask() -> None:
    text = """program(1.3) { func main<ios16>(tensor<bool, [4]> x, tensor<bool, [4]> y) {
        tensor<bool, [4]> z = logical_and(x = x, y = y); } -> (z); }"""
    context, z = CContext(text), np.zeros(4, bool)
    for x in ([1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 1, 0], [2, 0, 255, 0]):
        mask = np.array(x, np.uint8).view(bool)
        assert context.run(z, mask, np.ones(4, bool)) == 0
        assert z.view(np.uint8).tolist() == [1, 0, 1, 0]


# Memory.


def test_memory_that_overlaps_or_is_unaligned() -> None:
    x = batch(5, 3)
    context = warmed(DENSE.replace("?", "5"), np.zeros((5, 4), np.float32), x)
    for shift in range(90):
        memory = np.zeros(300, np.uint8)
        given, made = memory[100:160].view(np.uint8), memory[10 + shift : 90 + shift]
        given[:] = x.view(np.uint8).reshape(-1)
        with all_native():
            assert context.run(made, given) == 0
        assert np.array_equal(np.frombuffer(made.tobytes(), np.float32).reshape(5, 4), dense(x))


def test_strided_tensors() -> None:
    """Rows with gaps, transposed inputs and repeated ones are native; outputs keep their strides."""
    text = cast("fp16", "fp32").replace("[8]", "[4, 3, 2]")
    context = CContext(text, tensors=True)
    wide = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float16)
    forms: list[np.ndarray] = [
        wide[0, :, :, :2].transpose(1, 0, 2), wide[:, :, :, 0].T, np.broadcast_to(wide[0, 0, 0, :2], (4, 3, 2)),
        np.ascontiguousarray(wide[0, :, :, :2].transpose(1, 0, 2)), wide[0, :, ::-1][:, ::-1, ::2][:, :, :2].transpose(1, 0, 2),
    ]  # fmt: skip
    targets = [np.zeros((4, 3, 2), np.float32), np.zeros((4, 6, 4), np.float32)[:, ::2, ::2]]
    for turn in range(2 * WARM):
        for x in forms:
            for y in targets:
                y[:] = 0
                passed = context.passing([y, x])
                with executions_in_python() as seen:
                    assert context.execute(passed) == 0
                assert np.array_equal(y, x.astype(np.float32)) and (turn < WARM or not seen)
                tensor = context.passed[-1][0]
                assert list(tensor.stride[:3]) == [s // 4 for s in y.strides] and tensor.name == b"y"
    crossed = np.zeros((2, 3, 4), np.float32).T
    assert context.run(crossed, forms[0]) == 0 and np.array_equal(crossed, forms[0].astype(np.float32))


def test_nothing_around_arguments_is_touched() -> None:
    """Arguments end where memory that cannot be accessed begins, and begin where it ends."""
    libc, page = ctypes.CDLL(None), mmap.PAGESIZE
    region = mmap.mmap(-1, 7 * page)
    memory = np.frombuffer(region, np.uint8)
    for guard in (0, 2, 4, 6):
        assert libc.mprotect(ctypes.c_void_p(memory.ctypes.data + guard * page), ctypes.c_size_t(page), 0) == 0
    texts = {"fp32": cast("fp32", "fp32", 37), "fp16": cast("fp16", "fp16", 37), "int32": cast("int32", "int32", 37)}
    for kind, text in texts.items():
        dtype = ELEMENTS[kind].numpy
        x, y = np.arange(37).astype(dtype), np.zeros(37, dtype)
        context = warmed(text, y, x)
        size = x.nbytes
        for given in (memory[page : page + size], memory[2 * page - size : 2 * page]):
            for made in (memory[5 * page : 5 * page + size], memory[6 * page - size : 6 * page]):
                given[:], made[:] = x.view(np.uint8), 0
                with all_native():
                    assert context.run(made, given) == 0
                assert bytes(made) == x.tobytes()


# Mistakes and settings.


def test_mistakes_are_those_of_python() -> None:
    """Status, message and memory after a native context has been called wrongly, beside a new context."""
    x, z, short = batch(2), np.zeros((2, 4), np.float32), np.zeros(7, np.float32)
    calls: list[Callable[[CContext], int]] = [
        lambda c: c.run(short, x),
        lambda c: c.run(z, x[:1]),
        lambda c: c.run(None, x),
        lambda c: c.run(z, None),
        lambda c: c.execute(c.passing([z, x]), "other"),
        lambda c: c.execute(c.passing([z, x]), ""),
        lambda c: c.execute(c.passing([z, x]), count=1),
        lambda c: c.execute(c.passing([z, x]), count=1 << 60),
        lambda c: c.execute((type(c.handle) * 3)()),
        lambda c: c.execute_at(0, 2),
        lambda c: c.execute_at(0, 0),
    ]
    for tensors in (False, True):
        for call in calls:
            seen = []
            for turns in (0, WARM):
                context = CContext(DENSE)
                assert context.set_shapes((), (2, 3)) == 0
                for _ in range(turns):
                    assert context.run(z, x) == 0
                if tensors:
                    context.take_tensors(True)
                    for _ in range(turns):
                        assert context.run(z, x) == 0
                z[:] = 5
                status = call(context)
                seen.append((status, context.error() if status else None, z.tolist(), short.tolist()))
            assert seen[0] == seen[1]
    context.destroy()
    assert context.run(z, x) == -1 and "destroyed" in (context.error() or "")


def test_tensors_that_do_not_fit() -> None:
    """Other ranks, sizes, types and lengths, as a new context treats them."""
    x, z = batch(2), np.zeros((2, 4), np.float32)

    def changed(c: CContext, index: int, **fields: Any) -> tuple[int, str | None, list[Any]]:
        passed = c.passing([z, x])
        for name, value in fields.items():
            target = c.passed[-1][index]
            if isinstance(value, list):
                getattr(target, name)[: len(value)] = value
            else:
                setattr(target, name, value)
        z[:] = 5
        status = c.execute(passed)
        first = [
            (t.type, t.rank, list(t.shape), list(t.stride), t.bytes, t.name) for t in c.passed[-1]
        ]  # fmt: skip
        return status, c.error() if status else None, [z.tolist(), first]

    for index in (0, 1):
        for fields in (
            {"rank": 1}, {"rank": 3}, {"rank": 9}, {"shape": [3]}, {"shape": [-1]}, {"shape": [0, 0]}, {"stride": [-3, 1]},
            {"stride": [0, 0]}, {"stride": [0, 1]}, {"stride": [1 << 60, 1]}, {"stride": [1, 1]}, {"type": 0},
            {"type": 0x10010}, {"bytes": 23}, {"data": None}, {"shape": [1, 3]}, {"shape": [2, 2]},
        ):  # fmt: skip
            seen = []
            for turns in (0, WARM):
                context = CContext(DENSE, tensors=True)
                for _ in range(turns):
                    assert context.run(z, x) == 0
                if not turns:
                    assert context.set_shapes((), (2, 3)) == 0
                seen.append(changed(context, index, **fields))
            if fields != {"data": None}:
                assert seen[0] == seen[1], fields
            assert seen[0][:2] == seen[1][:2]


def convolution() -> str:
    """A program whose sums are exact, but not by Winograd's method."""
    weights = np.random.default_rng(3).integers(-4, 5, (40, 24, 3, 3)).tolist()
    return f"""program(1.3) {{ func main<ios16>(tensor<fp32, [1, 24, 19, 19]> x) {{
        tensor<fp32, [40, 24, 3, 3]> w = const()[val = tensor<fp32, [40, 24, 3, 3]>({weights})];
        tensor<int32, [2]> ones = const()[val = tensor<int32, [2]>([1, 1])];
        tensor<int32, [4]> pad = const()[val = tensor<int32, [4]>([1, 1, 1, 1])];
        tensor<fp32, [1, 40, 19, 19]> y = conv(dilations = ones, groups = int32(1), pad = pad, pad_type = string("custom"),
            strides = ones, weight = w, x = x); }} -> (y); }}"""


def test_settings_take_effect() -> None:
    """The accuracy of the process, and engine and strict mode of a block."""
    x = np.random.default_rng(0).integers(-4, 5, (1, 24, 19, 19)).astype(np.float32)
    y, other = (np.zeros((1, 40, 19, 19), np.float32) for _ in range(2))
    context = warmed(convolution(), y, x)
    results = {}
    try:
        for accuracy in ("exact", "fast", "exact", "fast"):
            bn.set_accuracy(accuracy)  # type: ignore[arg-type]
            for _ in range(WARM):
                assert context.run(y, x) == 0 and CContext(context.graph).run(other, x) == 0
                assert y.tobytes() == other.tobytes()
            with all_native():
                assert context.run(y, x) == 0 and y.tobytes() == other.tobytes()
            assert results.setdefault(accuracy, y.tobytes()) == y.tobytes()
    finally:
        bn.set_accuracy("fast")
    assert len(set(results.values())) == 2
    for setting in (bn.strict, lambda: bn.engine("reference")):
        with setting(), executions_in_python() as seen:
            assert context.run(y, x) == 0
        assert seen
    with all_native():
        assert context.run(y, x) == 0 and y.tobytes() == results["fast"]


def test_checks_of_values() -> None:
    """Native as long as all is finite; else Python reports it, once, and gives the result."""
    text = """program(1.3) { func main<ios16>(tensor<fp32, [4]> x) { tensor<fp16, [4]> h = cast(x = x, dtype = string("fp16"));
        tensor<fp16, [4]> y = log(epsilon = fp16(0), x = h); } -> (y); }"""
    said: list[str] = []
    context, y = CContext(text), np.zeros(4, np.float16)
    context.log(said.append)
    good, bad = np.float32([1, 2, 3, 4]), np.float32([1, -2, 3, 4])
    for check in (False, True, False, True):
        context.check_values(check)
        for _ in range(WARM):
            assert context.run(y, good) == 0
        with all_native():
            assert context.run(y, good) == 0 and not said
        assert context.run(y, bad) == 0
        assert len(said) == check and np.isnan(y[1]) and y[3] == np.float16(np.log(4))
        assert not check or "y has 1 NaN and 0 infinite" in said.pop()
        assert context.run(y, np.float32([1, 70000, 3, 4])) == 0
        assert not check or "h has 0 NaN and 1 infinite" in said.pop()


@pytest.mark.parametrize("tensors", [False, True])
def test_a_context_that_is_destroyed_while_it_executes(tensors: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it has begun, the execution fails as one that is late; after that, it ends as if nothing had happened."""
    from openbnns.capi import graph as functions

    x, z = batch(2), np.zeros((2, 4), np.float32)
    context = CContext(DENSE.replace("?", "2"), tensors=tensors)
    text_of = functions.text_of

    def destroying(*arguments: Any) -> Any:
        context.destroy()
        return text_of(*arguments)

    monkeypatch.setattr(functions, "text_of", destroying)
    assert context.run(z, x) == -1 and "context has been destroyed" in (context.error() or "")
    monkeypatch.setattr(functions, "text_of", text_of)
    context = CContext(DENSE.replace("?", "2"), tensors=tensors)
    context.check_values(True)
    context.log(lambda text: context.destroy())
    assert context.run(z, np.full_like(x, np.inf)) == 0 and np.isnan(z).any()
    assert context.run(z, x) == -1 and "context has been destroyed" in (context.error() or "")


def test_a_message_of_an_earlier_call_is_withdrawn() -> None:
    x, z = batch(5), np.zeros((5, 4), np.float32)
    context = warmed(DENSE.replace("?", "5"), z, x)
    assert context.run(z, x[:1]) != 0 and context.error() is not None
    with all_native():
        assert context.run(z, x) == 0
    assert context.error() is None


def test_random_numbers_are_drawn_once() -> None:
    text = """program(1.3) { func main<ios16>(tensor<fp32, [4]> x) {
        tensor<int32, [1]> n = const()[val = tensor<int32, [1]>([4])];
        tensor<fp32, [4]> r = random_uniform(high = fp32(1), low = fp32(0), seed = int32(5), shape = n);
        tensor<fp32, [4]> y = add(x = r, y = x); } -> (y); }"""
    rows = []
    for repeats in (1, 6):
        context, y = CContext(text), np.zeros(4, np.float32)
        drawn = []
        for _ in range(6):
            context = context if repeats > 1 else CContext(context.graph)
            assert context.run(y, np.zeros(4, np.float32)) == 0
            drawn.append(y.copy())
        rows.append(np.stack(drawn))
    assert (rows[0] == rows[0][0]).all() or rows[0].std() > 0
    again, y = CContext(text), np.zeros(4, np.float32)
    for row in rows[1]:
        assert again.run(y, np.zeros(4, np.float32)) == 0 and np.array_equal(y, row)


# Python.


def test_contexts_of_python_take_the_same_road() -> None:
    context = graph.Context.of_graph(Graph(DENSE).description)
    plain = graph.Context.of_graph(Graph(DENSE).description)
    plain.native = None
    kept = []
    for turn in range(6):
        for rows in (2, 7):
            x = batch(rows, turn)
            made = context.execute({"x": x})["z"]
            assert np.array_equal(made, plain.execute({"x": x})["z"]) and context.shape("z") == (rows, 4)
            kept.append((made, dense(x)))
    assert all(np.array_equal(made, expected) for made, expected in kept)  # each in memory of its own
    for turn in range(6):
        x, z = batch(2, turn), np.zeros((2, 4), np.float32)
        assert context.execute_arguments([z, x])[0] is z and np.array_equal(z, dense(x))
        assert np.array_equal(context.execute_arguments([None, x])[0], z)
        wide = np.zeros((4, 2), np.float32).T
        assert context.execute_arguments([wide, x])[0] is wide and np.array_equal(wide, z)
    for bad_output in (np.zeros((2, 4)), np.zeros((2, 3), np.float32), [0.0] * 8):
        with pytest.raises(bn.BNNSError, match=r"z is .*, but the output is float32"):
            context.execute_arguments([bad_output, batch(2)])
    x.flags.writeable = z.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        context.execute_arguments([z, x])
    wide = np.asfortranarray(batch(2))
    assert np.array_equal(context.execute({"x": wide})["z"], dense(wide))
    assert np.array_equal(context.execute({"x": batch(2).astype(np.int8)})["z"], dense(batch(2)))
    for bad in ({"x": batch(2).astype(np.float64) + 1j}, {"y": batch(2)}, {}, {"x": batch(2)[0]}):
        with pytest.raises((bn.BNNSError, TypeError)) as native:
            context.execute(bad)
        with pytest.raises((bn.BNNSError, TypeError)) as python:
            plain.execute(bad)
        assert str(native.value) == str(python.value)


FORKING = """
import os, sys, threading
import numpy as np
from openbnns import graph

context, stop = graph.Context(sys.argv[1]), threading.Event()


def sizes_in_turn():
    own, turn = graph.Context(sys.argv[1]), 0
    while not stop.is_set():
        turn += 1
        own.execute({"x": np.ones((1 + turn % 20, 3), np.float32)})


threads = [threading.Thread(target=sizes_in_turn) for _ in range(2)]
for thread in threads:
    thread.start()
for turn in range(15):
    child = os.fork()
    if child == 0:
        for rows in (1, 2, 1, 2, 3):
            assert context.execute({"x": np.zeros((rows, 3), np.float32)})["z"].shape == (rows, 4)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
"""


def test_children_of_a_process_with_threads(tmp_path: Path) -> None:
    """No child waits for a thread that it does not have."""
    (tmp_path / "model.mil").write_text(DENSE)
    words = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "model.mil")]
    result = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")


# Programs.


@pytest.fixture(scope="module")
def races(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("races") / "graph_races"
    compiler = next(c for c in compilers() if c.standard == "gnu17")
    built = compiler.run(
        *STRICT,
        "-O2",
        *flags.compile_flags(),
        C_PROGRAMS / "graph_races.c",
        "-o",
        path,
        *flags.link_flags(),
        "-pthread",
    )
    assert built.returncode == 0, built.stderr
    return path


@pytest.mark.parametrize("case", ["setters", "destruction", "forks", "contexts"])
def test_races(races: Path, case: str, tmp_path: Path) -> None:
    (tmp_path / "model.mil").write_text(DENSE)
    given = environment_of_programs(OPENBNNS_PYTHON=sys.executable)
    words = [races, case, tmp_path / "model.mil"]
    result = subprocess.run(words, capture_output=True, text=True, env=given, timeout=300, check=False)
    assert (result.returncode, result.stderr) == (0, "")

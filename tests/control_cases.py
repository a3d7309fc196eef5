"""ONNX models whose path depends on numbers, with samples that take all paths: to be read, trained and written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onnx_networks import BOOL, FLOAT, INT64, branching, floats, graph, info, looping, node, write

ONE = {"zero": np.float32(0), "one": np.float32(1), "first": np.int64([0]), "yes": np.array(True)}


class Case(NamedTuple):
    """``make`` writes a model, ``samples`` are inputs of runs; ``operators`` are to be in what is written."""

    make: Callable[[Path], Any]
    samples: Callable[[Any], list[list[Any]]]
    operators: str


def _body(nodes: list[Any], states: str, parts: Any = (), goes_on: str = "") -> Any:
    """The graph of a loop: the number of the step is i; a state s becomes s_; parts have shapes, and ``goes_on`` ends it."""
    named = states.split()
    nodes = [*nodes, node("Identity", goes_on or "before", "after")]
    ends = [info("after", BOOL, []), *(info(f"{s}_") for s in named), *parts]
    return graph(nodes, ends, [info("i", INT64, []), info("before", BOOL, []), *map(info, named)])


def _signs(*shape: int) -> Callable[[Any], list[list[Any]]]:
    def samples(random: Any) -> list[list[Any]]:
        rows = [random.standard_normal((n, *shape)).astype(np.float32) for n in (4, 1, 3, 4)]
        return [[np.abs(x) + 0.1] for x in rows[:2]] + [[-np.abs(x) - 0.1] for x in rows[2:]]

    return samples


def _steps(random: Any) -> list[list[Any]]:
    return [
        [random.standard_normal((n, 3)).astype(np.float32), np.array(count)]
        for n, count in ((4, 3), (2, 1), (3, 5), (1, 0), (5, 2))
    ]


def _nested(path: Path) -> Path:
    """A branch in a loop, which reads a value around the loop, a parameter around it, and one of its own."""
    then = graph([node("MatMul", "h w", "t1"), node("Add", "t1 shift", "t")], [info("t")])
    other = graph([node("Mul", "h factor", "e")], [info("e")], weights={"factor": floats(3)})
    nodes = [
        node("ReduceSum", "h", "total", keepdims=0), node("Greater", "total zero", "positive"),
        node("If", "positive", "g", then_branch=then, else_branch=other), node("Tanh", "g", "h_"),
        node("ReduceMean", "h_ first", "part", keepdims=0),
    ]  # fmt: skip
    body = _body(nodes, "h", [info("part", FLOAT, [3])])
    outside = [
        node("Mul", "x two", "h0"), node("ReduceMax", "x first", "shift"), node("Loop", "steps yes h0", "y parts", body=body),
    ]  # fmt: skip
    held = {**ONE, "w": floats(3, 3), "two": np.float32(2)}
    return write(path, outside, {"x": ["N", 3], "steps": []}, ["y", "parts"], held, kinds={"steps": INT64})


def _growing(path: Path) -> Path:
    """Every step adds the last row once more, so that sizes change; the number of the step is a number to compute with."""
    nodes = [
        node("Slice", "h last far first", "r"), node("Cast", "i", "j", to=FLOAT), node("Add", "r j", "s"),
        node("MatMul", "s w", "t"), node("Concat", "h t", "h_", axis=0),
    ]  # fmt: skip
    held = {**ONE, "w": 0.3 * floats(3, 3), "last": np.int64([-1]), "far": np.int64([2**40])}
    outside = [node("Loop", "steps yes x", "h1", body=_body(nodes, "h")), node("Mul", "h1 h1", "y")]
    return write(path, outside, {"x": ["N", 3], "steps": []}, ["y"], held, kinds={"steps": INT64})


def _while(path: Path) -> Path:
    """A loop that a number ends, perhaps before its first step, and that finds positions in each step."""
    nodes = [
        node("Mul", "h w", "h_"), node("ReduceMax", "h_", "m", keepdims=0), node("Greater", "m one", "goes"),
        node("Greater", "h_ zero", "mask"), node("NonZero", "mask", "places"),
        node("Transpose", "places", "turned", perm=[1, 0]), node("GatherND", "h_ turned", "found"),
        node("ReduceSum", "found", "part", keepdims=0),
    ]  # fmt: skip
    held = {**ONE, "w": np.float32([0.5, 0.6, -0.4])}
    outside = [
        node("ReduceMax", "x", "m0", keepdims=0), node("Greater", "m0 one", "go"),
        node("Loop", "~ go x", "y sums", body=_body(nodes, "h", [info("part", FLOAT, [])], "goes")),
    ]  # fmt: skip
    outside[-1].input[0] = ""
    return write(path, outside, {"x": ["N", 3]}, ["y", "sums"], held)


def _while_samples(random: Any) -> list[list[Any]]:
    return [[(s * random.uniform(0.5, 1, (n, 3))).astype(np.float32)] for s, n in ((4, 3), (0.5, 2), (40, 1), (2, 4))]


def _lists(path: Path) -> Path:
    """Branches that give lists, and a loop that carries one."""
    ways = [
        graph([node("Mul", "x w", f"{name}a"), node("SequenceConstruct", order.format(f"{name}a"), name)], [info(name)])
        for name, order in (("t", "x {}"), ("e", "{} x"))
    ]
    body = [
        node("SequenceAt", "s at0", "a"), node("SequenceAt", "s at1", "b"), node("Add", "a b", "d"),
        node("SequenceConstruct", "b d", "s_"),
    ]  # fmt: skip
    nodes = [
        node("ReduceSum", "x", "total", keepdims=0), node("Greater", "total zero", "c"),
        node("If", "c", "list", then_branch=ways[0], else_branch=ways[1]),
        node("Loop", "steps yes list", "ended", body=_body(body, "s")), node("ConcatFromSequence", "ended", "y", axis=1),
    ]  # fmt: skip
    held = {**ONE, "w": floats(3), "at0": np.int64(0), "at1": np.int64(1)}
    path = write(path, nodes, {"x": ["N", 3], "steps": []}, ["y"], held, kinds={"steps": INT64})
    return _with_sequences(path)


def _with_sequences(path: Path) -> Path:
    import onnx

    model = onnx.load(path)

    def correct(graph: Any) -> None:
        for value in [*graph.input, *graph.output]:
            if value.name in ("t", "e", "s", "s_"):
                kind = onnx.helper.make_tensor_type_proto(FLOAT, None)
                value.type.CopyFrom(onnx.helper.make_sequence_type_proto(kind))
        for one in graph.node:
            for attribute in one.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    correct(attribute.g)

    correct(model.graph)
    path.write_bytes(model.SerializeToString())
    return path


def _scanned(path: Path) -> Path:
    body = [node("MatMul", "h w", "p"), node("Add", "p x", "q"), node("Tanh", "q", "g"), node("Identity", "g", "o")]
    inner = graph(body, [info("g"), info("o")], [info("h"), info("x")])
    nodes = [
        node("Scan", "h0 x", "last all", body=inner, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
             scan_input_directions=[1], scan_output_directions=[1]),
        node("Compress", "z keep", "x", axis=1), node("ReduceMean", "z ax", "h0", keepdims=0),
    ]  # fmt: skip
    held = {"w": floats(3, 3), "ax": np.int64([1])}
    return write(
        path,
        [nodes[1], nodes[2], nodes[0]],
        {"z": ["N", "T", 3], "keep": ["T"]},
        ["last", "all"],
        held,
        kinds={"keep": BOOL},
    )


def _scan_samples(random: Any) -> list[list[Any]]:
    made = []
    for n, keep in ((2, [1, 0, 1, 1]), (1, [0, 0, 1, 0]), (3, [1, 1, 1, 1, 1])):
        made.append([random.standard_normal((n, len(keep), 3)).astype(np.float32), np.array(keep, bool)])
    return made


def _placeholder(path: Path) -> Path:
    """A state that the body gives but does not read begins as a single number, whatever its shape is after a step."""
    nodes = [
        node("MatMul", "h w", "p"), node("Tanh", "p", "h_"), node("Mul", "h_ two", "given_"),
        node("ReduceMax", "h_", "m", keepdims=0), node("Greater", "m limit", "goes"),
    ]  # fmt: skip
    held = {**ONE, "w": 0.4 * np.abs(floats(3, 3)), "two": np.float32(2), "limit": np.float32(0.2), "four": np.int64(4)}
    outside = [
        node("Loop", "four yes x zero", "h1 given", body=_body(nodes, "h given", (), "goes")), node("Add", "h1 given", "y"),
    ]  # fmt: skip
    return write(path, outside, {"x": ["N", 3]}, ["y", "given"], held)


def _late(path: Path) -> Path:
    """A state that begins to change one step after the one that it takes over, which is behind it."""
    nodes = [node("MatMul", "b w", "c"), node("Tanh", "c", "b_"), node("Identity", "b", "a_")]
    held = {**ONE, "w": floats(3, 3)}
    outside = [node("Loop", "steps yes x x", "y z", body=_body(nodes, "a b"))]
    return write(path, outside, {"x": ["N", 3], "steps": []}, ["y", "z"], held, kinds={"steps": INT64})


def _sized(path: Path) -> Path:
    """Branches that take samples of different sizes alone, and find as many positions as there are."""
    then = [node("Reshape", "x six", "a"), node("MatMul", "a w", "b"), node("Relu", "b", "t")]
    other = [node("Reshape", "x four", "a"), node("MatMul", "a v", "b"), node("Tanh", "b", "e")]
    branches = {
        "then_branch": graph(then, [info("t")]), "else_branch": graph(other, [info("e")]),
    }  # fmt: skip
    held = {"six": np.int64([-1, 6]), "four": np.int64([-1, 4]), "w": floats(6, 2), "v": floats(4, 5)}
    return write(path, [node("If", "c", "y", **branches)], {"x": ["N", "T"], "c": []}, ["y"], held, kinds={"c": BOOL})


def _sized_samples(random: Any) -> list[list[Any]]:
    return [
        [random.standard_normal((n, 6 if c else 4)).astype(np.float32), np.array(c)]
        for n, c in ((2, True), (3, False), (1, True), (1, False))
    ]


def _random_nodes(random: Any, before: str, after: str, weights: dict[str, Any], depth: int = 0) -> list[Any]:
    """Nodes from a value to another of its shape: products, branches by its sum and loops, in each other."""
    nodes: list[Any] = []
    for number in range(random.randint(1, 4)):
        y = f"{after}_{number}"
        kind = random.randint(5 if depth < 2 else 3)
        if kind < 2:
            weights[f"w_{y}"] = (0.5 * random.standard_normal((3, 3))).astype(np.float32)
            nodes += [node("MatMul", f"{before} w_{y}", f"p_{y}"), node("Tanh", f"p_{y}", y)]
        elif kind == 2:
            nodes.append(node("Add", f"{before} shift", y))
        elif kind == 3:
            ways = [
                graph(_random_nodes(random, before, f"{y}_{w}", weights, depth + 1), [info(f"{y}_{w}")])
                for w in ("then", "else")
            ]
            nodes += [
                node("ReduceSum", before, f"s_{y}", keepdims=0), node("Greater", f"s_{y} zero", f"c_{y}"),
                node("If", f"c_{y}", y, then_branch=ways[0], else_branch=ways[1]),
            ]  # fmt: skip
        else:
            body = _random_nodes(random, f"h_{y}", f"{y}_b", weights, depth + 1)
            body += [node("ReduceMax", f"{y}_b", f"m_{y}", keepdims=0), node("Greater", f"m_{y} zero", f"on_{y}")]
            ports = [info(f"i_{y}", INT64, []), info(f"go_{y}", BOOL, []), info(f"h_{y}")]
            inner = graph(body, [info(f"on_{y}", BOOL, []), info(f"{y}_b")], ports)
            nodes.append(node("Loop", f"steps yes {before}", y, body=inner))
        before = y
    return [*nodes, node("Identity", before, after)]


def random_nest(path: Path, random: Any) -> Path:
    """Branches and loops in each other, on x of shape (N, 3), with at most ``steps`` steps of each loop."""
    weights = {"zero": np.float32(0), "yes": np.array(True), "shift": random.uniform(-1, 1, 3).astype(np.float32)}
    nodes = _random_nodes(random, "x", "y", weights)
    return write(path, nodes, {"x": ["N", 3], "steps": []}, ["y"], weights, kinds={"steps": INT64})


CASES = {
    "branch": Case(lambda path: branching(path, True), _signs(3), "If"),
    "branch of other sizes": Case(lambda path: branching(path, False), _signs(3), "If"),
    "loop of a number": Case(lambda path: looping(path, "steps", False), _steps, "Loop"),
    "loop of a number and a condition": Case(lambda path: looping(path, "steps", True), _steps, "Loop"),
    "loop of a condition": Case(
        lambda path: looping(path, "four", True), lambda random: [[2 * x] for x, _ in _steps(random)], "Loop"
    ),
    "branch in a loop": Case(_nested, _steps, "Loop If"),
    "growing state": Case(_growing, _steps, "Loop"),
    "loop that may not begin": Case(_while, _while_samples, "Loop NonZero"),
    "state that follows another": Case(_late, _steps, "Loop"),
    "state that is not read": Case(_placeholder, _while_samples, "Loop"),
    "lists": Case(_lists, _steps, "If Loop"),
    "scan": Case(_scanned, _scan_samples, "Loop"),
    "sizes of samples": Case(_sized, _sized_samples, "If"),
}  # fmt: skip

"""Networks without and with the passes for inference."""

from __future__ import annotations

from helpers import Array
from openbnns import nn
from openbnns.graph import inference
from openbnns.graph.program import Program
from openbnns.nn.recording import separate_graph


def compared(net: nn.Module, x: Array) -> tuple[list[Array], list[Array], Program]:
    """The outputs without and with the passes, and the program with them."""
    net.eval()
    graph, _ = separate_graph(net, (x.shape,), training=False)
    results = []
    for one in (graph, inference.for_inference(graph)):
        program = Program(one, graph.sizes.numbers, training=False)
        for _ in range(3):  # the later runs are native lists
            program.fill(0, x)
            program.forward()
        results.append([y.copy() for y in program.outputs])
    return results[0], results[1], program

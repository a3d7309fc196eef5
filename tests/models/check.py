"""Opens the models of the zoo, runs them beside onnxruntime, trains them, writes them and reads them again, and times them.

    python tests/models/check.py                 all of them; needs onnx and onnxruntime, and a network the first time
    python tests/models/check.py --only silero   those whose names contain this
    python tests/models/check.py --keep          and write the results, to results.json

Every model has a process of its own. Fails if a model no longer does something that it does according to results.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo import ZOO, Model, fetch

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("results.json")
STAGES = {"opens": "opens", "runs": "same results", "trains": "trains", "exports": "is written and read again"}
THREADS, TIMEOUT_S = 2, 600
STEPS, STEP = 3, 2e-4  # and the share of the loss that each of them is meant to take off
REREAD_TOLERANCE = 2e-5


def samples(model: Model, ports: Sequence[Any], run: int) -> list[Any]:
    """Random inputs of a run."""
    import numpy as np

    random = np.random.RandomState(run)
    shapes = model.runs[run] if model.runs else [tuple(port.shape) for port in ports]
    arrays = []
    for port, shape in zip(ports, shapes, strict=True):
        kind = typed(port, 0).dtype.type
        low, high = model.bounds.get(port.name, (0, 10))
        if issubclass(kind, np.integer):
            arrays.append(random.randint(low, high, shape).astype(kind) if shape else np.array(low, kind))
        elif port.name in model.bounds:
            arrays.append(np.asarray(random.uniform(low, high, shape), kind))
        else:
            arrays.append(np.asarray(0.3 * random.standard_normal(shape), kind))
    return arrays


def typed(port: Any, x: Any) -> Any:
    """An array with elements as onnxruntime takes them."""
    import numpy as np

    name = port.type.removeprefix("tensor(").removesuffix(")")
    return np.asarray(x, {"float": "float32", "double": "float64"}.get(name, name))


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def difference(actual: Sequence[Any], expected: Sequence[Any]) -> float:
    """The largest, as a fraction of the largest value of its output, or of 0.01 if that is smaller; infinite if shapes differ."""
    import numpy as np

    worst = 0.0
    for a, b in zip(actual, expected, strict=True):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return math.inf
        finite = np.isfinite(b)
        if finite.any():
            scale = max(float(np.abs(b[finite]).max()), 0.01)
            worst = max(worst, float(np.abs(a[finite] - b[finite]).max()) / scale)
    return worst


def fine_tune(net: Any, x: Sequence[Any]) -> bool:
    """True if a few small steps along the gradient, towards outputs that are a little smaller, lower the loss.

    The loss is half the mean square of the differences, as a fraction of that of the targets. It need not fall if gradients are
    0, which happens where a softmax is saturated, or if dropout draws anew in every step.
    """
    import numpy as np

    from openbnns import nn

    net.train()
    first, second = as_list(net(*x)), as_list(net(*x))
    random = any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(first, second, strict=True))
    targets = [0.9 * np.asarray(y) for y in first]
    losses = []
    for _ in range(STEPS):
        given = net(*x)
        gradients, loss = [], 0.0
        for y, target in zip(as_list(given), targets, strict=True):
            numbers = np.asarray(y).dtype.kind == "f" and y.size > 0
            scale = 1 / (y.size * max(float(np.square(target).mean()), 1e-12)) if numbers else 0.0
            gradients.append(np.asarray(scale * (y - target), np.float32) if numbers else None)
            loss += 0.5 * scale * float(np.square(np.asarray(y - target, np.float64)).sum()) if numbers else 0.0
        net.backward(tuple(gradients) if isinstance(given, tuple) else gradients[0], input_gradient=False)
        trained = [p for p in net.parameters() if p.requires_grad]
        slope = sum(float(np.square(np.asarray(p.grad, np.float64)).sum()) for p in trained)
        if not math.isfinite(slope):
            raise ArithmeticError("gradients are not finite")
        losses.append(loss)
        if slope:
            nn.SGD(trained, lr=min(STEP * loss / slope, 1e6)).step()
    net.eval()
    return not random and losses[-1] < losses[0]


def speed(net: Any, session: Any, names: Sequence[str], x: Sequence[Any], seconds: float) -> tuple[float, float]:
    """Milliseconds of a call here and in onnxruntime, in turns: the medians."""
    import statistics

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from timing import alternate, sampler

    feed = dict(zip(names, x, strict=True))
    sides = [sampler(lambda: net(*x)), sampler(lambda: session.run(None, feed))]
    ours, theirs = alternate(sides, seconds)[0]
    return 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs)


def session_of(path: Path) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def examine(model: Model, seconds: float) -> dict[str, Any]:
    """All that is asked of one model; what goes wrong is told under the name of the stage that failed."""
    import openbnns
    from openbnns import nn

    openbnns.set_num_threads(THREADS)
    record: dict[str, Any] = {"passed": []}
    session = session_of(model.path)
    ports = session.get_inputs()
    names = [port.name for port in ports]
    runs = [samples(model, ports, run) for run in range(max(len(model.runs), 1))]
    stage = "opens"
    try:
        net = nn.from_onnx(model.path)
        record["passed"].append(stage)
        stage = "runs"
        expected = [session.run(None, dict(zip(names, x, strict=True))) for x in runs]
        results = [as_list(net(*x)) for x in runs]
        record["error"] = float(f"{max(map(difference, results, expected)):.2g}")
        if not record["error"] <= model.tolerance:
            raise ArithmeticError(f"differs from onnxruntime by {record['error']:.1g} of the largest value")
        record["passed"].append(stage)
        if seconds:
            times = speed(net, session, names, runs[0], seconds)
            record |= {key: float(f"{ms:.4g}") for key, ms in zip(("ms", "onnxruntime_ms"), times, strict=True)}
    except Exception as error:
        return record | {"failed": stage, "reason": _reason(error)}
    for stage, attempt in (("exports", _export), ("trains", _train)):
        try:
            record |= attempt(model, net, runs, results)
            record["passed"].append(stage)
        except Exception as error:
            record |= {"failed": stage, "reason": _reason(error)}
    return record


def _export(model: Model, net: Any, runs: Sequence[Any], results: Sequence[Any]) -> dict[str, Any]:
    """Compare what is written for all runs whose sizes the file takes: those of the latest one at least."""
    from openbnns import nn

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "again.onnx"
        net(*runs[-1])
        net.to_onnx(path)
        again, session = nn.from_onnx(path), session_of(path)
        ports = session.get_inputs()
        fitting = [i for i, x in enumerate(runs) if all(map(_fits, ports, x))]
        if len(runs) - 1 not in fitting:
            raise ValueError(f"what was written takes {[port.shape for port in ports]}")
        for i in fitting:
            theirs = session.run(None, {port.name: typed(port, x) for port, x in zip(ports, runs[i], strict=True)})
            here = as_list(again(*runs[i]))
            for who, outputs, most in (("us", here, REREAD_TOLERANCE), ("onnxruntime", theirs, model.tolerance)):
                worst = difference(outputs, results[i])
                if not worst <= most:
                    raise ArithmeticError(f"what was written differs by {worst:.1g}, run by {who}")
    return {} if len(fitting) == len(runs) else {"fixed": True}


def _fits(port: Any, x: Any) -> bool:
    return len(port.shape) == x.ndim and all(
        not isinstance(n, int) or n == m for n, m in zip(port.shape, x.shape, strict=True)
    )


def _train(model: Model, net: Any, runs: Sequence[Any], results: Sequence[Any]) -> dict[str, Any]:
    if not any(p.requires_grad for p in net.parameters()):
        return {"falls": False}
    return {"falls": fine_tune(net, runs[-1])}


def _reason(error: Exception) -> str:
    """The text of an error, or the problems that it lists: a message would name the folder of this machine."""
    problems: list[str] = getattr(error, "problems", [str(error)])
    return f"{type(error).__name__}: {'; '.join(problems)}"


# All of them.


def examine_apart(model: Model, seconds: float) -> dict[str, Any]:
    """The same in a process of its own, which may crash."""
    command = [sys.executable, "-W", "ignore", __file__, "--apart", model.name, "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"passed": [], "failed": "opens", "reason": f"took more than {TIMEOUT_S} s"}
    if done.returncode:
        return {"passed": [], "failed": "opens", "reason": f"exit {done.returncode}: {done.stderr[-300:]}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def line(name: str, record: Mapping[str, Any]) -> str:
    marks = "".join(stage[0].upper() if stage in record["passed"] else "-" for stage in STAGES)
    error = f"{record['error']:8.1g}" if "error" in record else " " * 8
    ratio = f"{record['onnxruntime_ms'] / record['ms']:6.2f}x {record['ms']:8.2f} ms" if "ms" in record else " " * 19
    why = f"  {' | '.join(record['reason'].splitlines())[:200]}" if "reason" in record else ""
    return f"{name:48s} {marks} {error} {ratio}{why}"


def lost(record: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Stages that a model no longer passes."""
    return [stage for stage in kept.get("passed", ()) if stage not in record["passed"]]


def machine() -> str:
    """The versions and the processor that figures were taken on."""
    import onnxruntime

    import openbnns

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from results import about

    said = about("")
    ours = f"OpenBNNS {openbnns.__version__} ({said['instruction set']})"
    busy = ", busy with other work" if os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1) else ""
    return f"{ours}, onnxruntime {onnxruntime.__version__}, {said['processor']}, {said['cores']} cores{busy}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose names contain this, or one of several: a,b")
    parser.add_argument("--keep", action="store_true", help="write results.json")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to measure (default: 1; 0: not at all)")
    parser.add_argument("--apart", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.apart:
        print(json.dumps(examine(next(model for model in ZOO if model.name == options.apart), options.seconds)))
        return 0
    chosen = [model for model in ZOO if any(part in model.name for part in options.only.split(","))]
    fetch(chosen)
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"models": {}}
    worse, results = [], {}
    for model in chosen:
        record = examine_apart(model, options.seconds)
        results[model.name] = {"task": model.task, **record}
        print(line(model.name, record), flush=True)
        worse += [f"{model.name}: no longer {stage}" for stage in lost(record, kept["models"].get(model.name, {}))]
    passed = [len([None for record in results.values() if stage in record["passed"]]) for stage in STAGES]
    print(f"\n{len(chosen)} models: " + ", ".join(f"{n} {word}" for n, word in zip(passed, STAGES, strict=True)))
    if options.keep:
        models = kept["models"] | results
        kept = {"machine": machine(), "models": {m.name: models[m.name] for m in ZOO if m.name in models}}
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print("\n".join(worse))
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())

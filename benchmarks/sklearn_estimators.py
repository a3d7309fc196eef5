"""Time and score of openbnns.sklearn beside sklearn.neural_network, on three data sets that come with scikit-learn.

Both have the same parameters and the same samples, and train in turns, in one process. Times are the fastest of several runs,
scores are means over seeds. ``--threads 1`` gives both a single thread, ``--isa avx2`` products without AVX-512.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import instructions
from timing import BLAS_SETTLE


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=None, help="threads of both (default: as many as they choose)")
    parser.add_argument("--runs", type=int, default=3, help="runs, each with a seed of its own (default: 3)")
    parser.add_argument("--only", default="", help="part of the name of a data set")
    instructions.add_option(parser)
    return parser.parse_args()


def data_sets() -> dict[str, tuple[Any, bool, dict[str, Any]]]:
    """Loader, whether it has classes, and parameters that both take."""
    from sklearn import datasets

    return {
        "digits": (datasets.load_digits, True, {}),
        "breast cancer": (datasets.load_breast_cancer, True, {}),
        "diabetes": (datasets.load_diabetes, False, {"learning_rate_init": 0.01, "early_stopping": True}),
    }


def measured(make: Callable[[], Any], x: Any, y: Any, test_x: Any, test_y: Any) -> tuple[float, float, int]:
    """Seconds, score and epochs."""
    model = make()
    time.sleep(BLAS_SETTLE)
    began = time.perf_counter()
    model.fit(x, y)
    return time.perf_counter() - began, model.score(test_x, test_y), model.n_iter_


def main() -> int:
    chosen = options()
    if not instructions.is_limited(chosen.isa):
        return instructions.restart(chosen.isa)
    if chosen.threads is not None:
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "OPENBNNS_NUM_THREADS"):
            os.environ[name] = str(chosen.threads)  # read when the libraries are loaded, below
    import sklearn
    from sklearn import neural_network
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    import openbnns
    from openbnns import sklearn as ours

    warnings.simplefilter("ignore")
    print(f"openbnns {openbnns.__version__}, scikit-learn {sklearn.__version__}, {openbnns.get_num_threads()} threads")
    print(f"{'data':14s} {'':12s} {'seconds':>8s} {'epochs':>7s} {'ms/epoch':>9s} {'score':>7s}")
    for name, (load, classes, parameters) in data_sets().items():
        if chosen.only not in name:
            continue
        x, y = load(return_X_y=True)
        if not classes:
            y = (y - y.mean()) / y.std()
        train_x, test_x, train_y, test_y = train_test_split(x, y, test_size=0.25, random_state=0)
        scaler = StandardScaler().fit(train_x)
        parts = scaler.transform(train_x), train_y, scaler.transform(test_x), test_y
        kind = "MLPClassifier" if classes else "MLPRegressor"
        by_side: dict[str, list[tuple[float, float, int]]] = {"openbnns": [], "scikit-learn": []}
        for seed in range(chosen.runs):
            for side, module in (("openbnns", ours), ("scikit-learn", neural_network)):
                made = getattr(module, kind)
                by_side[side].append(measured(lambda: made(random_state=seed, **parameters), *parts))  # noqa: B023
        for side, results in by_side.items():
            seconds, epochs = min(r[0] for r in results), statistics.mean(r[2] for r in results)
            each = min(r[0] / r[2] for r in results)
            score = statistics.mean(r[1] for r in results)
            print(f"{name:14s} {side:12s} {seconds:8.3f} {epochs:7.0f} {1e3 * each:9.2f} {score:7.4f}")
        total = {side: statistics.median(r[0] for r in results) for side, results in by_side.items()}
        print(f"{'':14s} {total['scikit-learn'] / total['openbnns']:.1f} times as fast, by the median")
    return 0


if __name__ == "__main__":
    sys.exit(main())

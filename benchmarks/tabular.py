"""``openbnns train`` on tables beside scikit-learn's gradient boosting and MLP, all with their defaults: a table for the docs.

Eight data sets that scikit-learn carries or makes are written as CSV files. Each is split by ``--seed``; all three see the same
training and test rows, ours uses an eighth of the training rows for validation. Figures are means over the seeds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets, ensemble, neural_network

from openbnns import cli, nn


def sets() -> Iterator[tuple[str, Any, Any]]:
    """Name, samples and targets; classes are words, so that the task is not in doubt."""
    for name, load in (
        ("breast cancer", datasets.load_breast_cancer),
        ("wine", datasets.load_wine),
        ("digits", datasets.load_digits),
    ):
        x, y = load(return_X_y=True)
        yield name, x, np.char.add("c", y.astype(str))
    x, y = datasets.make_classification(4000, 20, n_informative=10, n_redundant=4, n_classes=4, random_state=0)
    yield "make_classification, 4 classes", x, np.char.add("c", y.astype(str))
    x, y = datasets.make_moons(2000, noise=0.25, random_state=0)
    yield "make_moons", x, np.char.add("c", y.astype(str))
    x, y = datasets.make_hastie_10_2(6000, random_state=0)
    yield "make_hastie_10_2", x, np.where(y > 0, "c1", "c0")
    yield "diabetes (R²)", *datasets.load_diabetes(return_X_y=True)
    yield "make_friedman1 (R²)", *datasets.make_friedman1(3000, noise=1.0, random_state=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore")  # of the MLP, which has not converged after its default number of epochs
    print("| data | rows | openbnns | gradient boosting | MLP |\n|---|---|---|---|---|")
    began = time.perf_counter()
    for name, x, y in sets():
        means = np.mean([compared(x, y, seed) for seed in range(seeds)], axis=0)
        cells = [f"**{value:.3f}**" if value > max(means) - 5e-4 else f"{value:.3f}" for value in means]
        print(f"| {name} | {len(x):,} | {' | '.join(cells)} |", flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


def compared(x: Any, y: Any, seed: int) -> list[float]:
    """Accuracy, or R², of ours, of gradient boosting and of the MLP on the same test rows."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "table.csv"), Path(folder, "out")
        rows = (",".join(map(str, [*row, target])) for row, target in zip(x.tolist(), y.tolist(), strict=True))
        path.write_text("\n".join([",".join([*(f"x{i}" for i in range(x.shape[1])), "y"]), *rows]) + "\n")
        arguments = ["train", str(path), "--seed", str(seed), "--out", str(out), "--quiet", "--no-report"]
        if cli.main(arguments):
            raise SystemExit("training failed")
        card = nn.load_model(out / "model.safetensors").model_card
        assert card is not None
        loaded = nn.data.load(path, seed=seed)
    train_x = np.concatenate([loaded.train_x, loaded.validation_x])
    train_y = np.concatenate([loaded.train_y, loaded.validation_y]).reshape(len(train_x))
    test_y = loaded.test_y.reshape(len(loaded.test_x))
    kinds: Any = (
        (ensemble.HistGradientBoostingClassifier, neural_network.MLPClassifier) if loaded.task == "classification"
        else (ensemble.HistGradientBoostingRegressor, neural_network.MLPRegressor)
    )  # fmt: skip
    theirs = [kind(random_state=seed).fit(train_x, train_y).score(loaded.test_x, test_y) for kind in kinds]
    return [card.results["test"]["accuracy" if loaded.task == "classification" else "r2"], *theirs]


if __name__ == "__main__":
    main()

"""Train a network on a CSV file and save it with all that new rows need: python train_from_csv.py measurements.csv --target kind

Without a file it writes a small one and takes that. `openbnns train measurements.csv` does all of this and more in one command.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from openbnns import nn

LOSSES = {"classification": "cross_entropy", "multilabel": "bce_with_logits", "regression": "mse"}


def write_example(path: Path) -> None:
    """Flowers of two kinds: lengths and widths."""
    rng, lines = np.random.default_rng(0), ["length,width,kind"]
    for _ in range(600):
        kind = rng.integers(2)
        length, width = rng.normal([5 + kind, 2 - 0.5 * kind], 0.4)
        lines.append(f"{length:.2f},{width:.2f},{['iris', 'lily'][kind]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--target", help="the column to predict; the last one unless given")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir(), "model.safetensors"))
    options = parser.parse_args()
    if options.file is None:
        options.file = options.out.with_name("flowers.csv")
        write_example(options.file)

    data = nn.data.load(options.file, target=options.target)  # columns are standardized, rows make three parts
    print(*data.remarks, sep="\n")
    net = nn.Sequential(nn.Linear(32), nn.ReLU(), nn.Linear(data.outputs)).build(data.sample_shape, seed=0)
    trainer = nn.Trainer(net, LOSSES[data.task], nn.Adam(0.01), early_stopping=5)
    trainer.fit(data.train_x, data.train_y, epochs=40, validation=(data.validation_x, data.validation_y))
    print("test:", trainer.evaluate(data.test_x, data.test_y))

    card = nn.ModelCard(  # what new rows need
        data.task, data.class_names, data.preparation, data.target_names, data.target_mean, data.target_std
    )
    net.save_model(options.out, card=card)
    print(f"openbnns predict {options.out} {options.file}")


if __name__ == "__main__":
    main()

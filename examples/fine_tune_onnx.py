"""Fine-tune an ONNX model on your own data: read it, freeze a part, train the rest, and write ONNX again.

python fine_tune_onnx.py        needs pip install "openbnns[onnx]"

The model here has learned from clean digits and meets noisy ones. Yours comes from PyTorch, TensorFlow or anything else that
writes ONNX; `net.summary()` and `net.named_parameters()` show what is inside.
"""

import tempfile
from pathlib import Path

import numpy as np

from openbnns import nn
from openbnns.datasets import load_digits


def write_model(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    """Write an ONNX file of a trained network, standing for one from elsewhere."""
    layers = nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 64), nn.ReLU(), nn.Linear(64, 10)
    net = nn.Sequential(*layers).build((1, 8, 8), seed=0)
    nn.Trainer(net, "cross_entropy", nn.Adam(0.002), quiet=True).fit(x, y, epochs=8)
    net.to_onnx(path)


def main() -> tuple[float, float]:
    rng, folder = np.random.default_rng(0), Path(tempfile.mkdtemp())
    train_x, train_y, test_x, test_y = load_digits()
    train_x, test_x = train_x.reshape(-1, 1, 8, 8), test_x.reshape(-1, 1, 8, 8)
    write_model(folder / "clean.onnx", train_x, train_y)
    noisy_train, noisy_test = (x + rng.normal(0, 0.4, x.shape).astype(np.float32) for x in (train_x, test_x))

    net = nn.from_onnx(folder / "clean.onnx")
    for name, parameter in net.named_parameters():
        if name.startswith("0."):  # the convolution stays as it is
            parameter.requires_grad = False
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.0005), metrics="accuracy", quiet=True)
    before = trainer.evaluate(noisy_test, test_y)["accuracy"]
    trainer.fit(noisy_train, train_y, epochs=10)
    after = trainer.evaluate(noisy_test, test_y)["accuracy"]
    net.to_onnx(folder / "noisy.onnx")
    print(f"noisy digits that are right: {before:.1%} before, {after:.1%} after; written: {folder / 'noisy.onnx'}")
    return before, after


if __name__ == "__main__":
    main()

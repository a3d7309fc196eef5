"""Write a layer with a gradient of its own, and prove the gradient right: python gradcheck_custom_layer.py"""

import numpy as np

import openbnns
from openbnns import nn
from openbnns.datasets import load_digits


class SoftClip(nn.Function):
    """y = limit tanh(x / limit), in NumPy."""

    @staticmethod
    def forward(ctx, x, limit):
        y = limit * np.tanh(x / limit)
        ctx.save_for_backward(x, y, limit)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, y, limit = ctx.saved_tensors
        dx = dy * (1 - (y / limit) ** 2)  # dy/dx = 1 - tanh(x / limit)^2
        dlimit = np.sum(dy * y - dx * x, axis=0) / limit  # dy/dlimit = (y - x dy/dx) / limit
        return dx, dlimit


class SoftClipLayer(nn.Module):
    """Values between -limit and limit; every feature learns its own limit."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.limit = nn.Parameter(np.ones(features, np.float32))

    def forward(self, x: nn.Value) -> nn.Value:
        return SoftClip.apply(x, self.limit)


def main() -> bool:
    net = nn.Sequential(nn.Linear(64, 32), SoftClipLayer(32), nn.Linear(32, 10)).build((64,), seed=0)
    train_x, train_y, test_x, test_y = load_digits()
    report = openbnns.gradcheck(net, train_x[:3])  # every parameter against finite differences, in float64
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.003), metrics="accuracy", quiet=True)
    trainer.fit(train_x, train_y, epochs=10)
    print(f"{trainer.evaluate(test_x, test_y)['accuracy']:.1%} of the test digits are right")
    return bool(report)


if __name__ == "__main__":
    main()

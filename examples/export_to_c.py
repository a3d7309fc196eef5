"""Train a network, write it as C code, compile that, and compare: python export_to_c.py [FOLDER]

The code calls BNNS: on a Mac link it with -framework Accelerate, elsewhere with $(openbnns c-flags), as here.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from openbnns import nn
from openbnns.datasets import load_digits

MAIN = """
#include "digits.h"
#include <stdio.h>

int main(void) { /* images of 64 floats in, the most likely digit of each out */
  float image[64], scores[10];
  digits *net = digits_create("digits.weights");
  if (net == NULL) return 1;
  while (fread(image, sizeof image, 1, stdin) == 1) {
    int best = 0;
    if (digits_predict(net, image, scores) != 0) return 1;
    for (int i = 1; i < 10; i++)
      if (scores[i] > scores[best]) best = i;
    printf("%d", best);
  }
  digits_destroy(net);
  return 0;
}
"""


def main(folder: Path) -> None:
    train_x, train_y, test_x, test_y = load_digits()
    net = nn.Sequential(nn.Linear(64), nn.ReLU(), nn.Linear(10)).build((64,), seed=0)
    nn.Trainer(net, "cross_entropy", nn.Adam(0.003), quiet=True).fit(train_x, train_y, epochs=10)
    net.to_c(folder, name="digits")
    (folder / "main.c").write_text(MAIN, encoding="utf-8")
    flags = subprocess.check_output([sys.executable, "-m", "openbnns", "c-flags"], text=True).split()
    subprocess.run(["cc", "main.c", "digits.c", "-o", "digits", "-lm", *flags], cwd=folder, check=True)
    answers = subprocess.check_output(["./digits"], input=test_x.tobytes(), cwd=folder)
    predicted = np.array([int(digit) for digit in answers.decode()])
    assert np.array_equal(predicted, net(test_x).argmax(1)), "the program and the network disagree"
    print(f"{np.mean(predicted == test_y):.1%} of {len(predicted)} test digits are right, by {folder / 'digits'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))

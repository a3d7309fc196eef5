"""Networks that tests write as source code, programs that run the code, and what it has to give."""

from __future__ import annotations

import subprocess
from pathlib import Path

import c_compilers
from openbnns import nn

STEPS = 20
PREDICT = """
#include "network.h"

#include <stdio.h>
#include <stdlib.h>

static void *read_file(const char *path, size_t bytes) {
  void *data = malloc(bytes);
  FILE *file = fopen(path, "rb");
  if (data == NULL || file == NULL || fread(data, 1, bytes, file) != bytes) exit(3);
  fclose(file);
  return data;
}

static void write_file(const char *path, const void *data, size_t bytes) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) exit(3);
}

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\\n", what, network_error());
  return 2;
}

int main(void) {
  if (network_create("nowhere") != NULL || network_create("main.c") != NULL) return fail("files without weights");
  network *net = network_create("network.weights");
  if (net == NULL) return fail("create");
  INPUT_TYPE *input = read_file("input", INPUT_BYTES);
  float *output = malloc(OUTPUT_BYTES);
#ifdef TRAINING
  float losses[STEPS];
  TARGET_TYPE *targets = read_file("targets", STEPS * TARGET_COUNT * sizeof(TARGET_TYPE));
  for (int step = 0; step < STEPS; step++) {
    if (network_train_step(net, input + step * INPUT_COUNT, targets + step * TARGET_COUNT, &losses[step]) != 0)
      return fail("train_step");
  }
  write_file("losses", losses, sizeof losses);
#ifdef CLASSES
  for (int wrong = -1; wrong <= CLASSES; wrong += CLASSES + 1) {
    targets[1] = wrong;
    if (network_train_step(net, input, targets, NULL) == 0) return fail("a class number that is out of range");
  }
#endif
  if (network_save(net, "trained.weights") != 0) return fail("save");
  free(targets);
#endif
  if (network_predict(net, input, output) != 0) return fail("predict");
  write_file("output", output, OUTPUT_BYTES);
  network_destroy(net);
  free(input);
  free(output);
  return 0;
}
"""


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 17), nn.Tanh(), nn.Linear(17, 5)), (13,)


def cnn() -> tuple[nn.Module, tuple[int, ...]]:
    """Two fused convolutions with batch normalization and ReLU, and one by itself."""
    net = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3),
        nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    return net, (2, 11, 11)


class Recurrent(nn.Module):
    """An LSTM whose last output is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(7, 9, num_layers=2, batch_first=True), nn.Linear(9, 5)

    def forward(self, x: nn.Value) -> nn.Value:
        return self.head(self.lstm(x)[0][:, -1])


class Encoder(nn.Module):
    """Two layers of a transformer, and the mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(7, 12)
        layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(12, 5)

    def forward(self, x: nn.Value) -> nn.Value:
        return self.head(self.encoder(self.embed(x)).mean(1))


def lstm() -> tuple[nn.Module, tuple[int, ...]]:
    return Recurrent(), (6, 7)


def encoder() -> tuple[nn.Module, tuple[int, ...]]:
    return Encoder(), (6, 7)


NETWORKS = {"mlp": mlp, "cnn": cnn, "lstm": lstm, "encoder": encoder}


def compile_and_run(folder: Path, compiler: str = "gcc", **values: object) -> None:
    """Build the program with the code that lies in a folder, and run it there."""
    (folder / "main.c").write_text(PREDICT)
    defined = [f"-D{name}={value}" for name, value in values.items()]
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{c_compilers.INCLUDE}", *defined]
    library = c_compilers.LIBRARY.parent
    linked = ["-o", "program", f"-L{library}", "-lopenbnns", "-lm", f"-Wl,-rpath,{library}"]
    command = [compiler, *flags, "network.c", "main.c", *linked]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    environment = c_compilers.environment_of_programs(OPENBNNS_LOG="1", OPENBNNS_NUM_THREADS="1")
    ran = subprocess.run(
        ["./program"], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout

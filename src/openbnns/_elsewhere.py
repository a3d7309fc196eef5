"""Things that people look for here and that are elsewhere, each with the sentence that says where.

This is read only once a name, a word or a kind of file has been found not to exist here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_SIZES = "Use the layer without Lazy, and leave its first size out: nn.Linear(32)."
_LOSS = "Use nn.BNNSLoss(openbnns.LossFunction.{})."
_RATES = "Train a few epochs with each of several learning rates, such as 1e-4, 1e-3 and 1e-2."
NAMES = {
    "RReLU": "Use LeakyReLU, whose slope is fixed.",
    "save": "Use net.save(path), or trainer checkpoints with Trainer(out=FOLDER).",
    "load": "Use net.load(path) for weights, nn.load_model(path) for a whole model.",
    "init": "Use weight_init= of a layer, or nn.initialisers.",
    "Tensor": "Use NumPy arrays.",
    "tensor": "Use NumPy arrays.",
    "no_grad": "Use net.eval(), which keeps nothing for a backward pass.",
    "DataLoader": "Use nn.Trainer.fit, which takes arrays, iterables of batches, and a DataLoader of PyTorch.",
    "ParameterList": "Use attributes, self.scale_0 = nn.Parameter(...), or modules that hold them in an nn.ModuleList.",
    "Dense": "Use nn.Linear.",
    "lr_scheduler": "Use nn.StepLR, nn.OneCycleLR and the like.",
    "ParameterDict": "Use attributes, or modules that hold the parameters in an nn.ModuleDict.",
    "SyncBatchNorm": "Use nn.BatchNorm2d, and nn.Trainer(..., sync_batch_norm=True).",
    "swa_utils": "Use nn.EMA(net, decay).",
    "optim": "Use nn.SGD, nn.Adam, nn.AdamW, nn.RMSprop, nn.Adagrad or nn.Adamax.",
    **dict.fromkeys(("LazyLinear", "LazyConv1d", "LazyConv2d"), _SIZES),
    **dict.fromkeys(("LazyConvTranspose1d", "LazyConvTranspose2d", "LazyBatchNorm1d", "LazyBatchNorm2d"), _SIZES),
    **dict.fromkeys(("LazyInstanceNorm1d", "LazyInstanceNorm2d"), _SIZES),
    "MeanSquareErrorLoss": _LOSS.format("mean_square_error()"),
    "MeanAbsoluteErrorLoss": _LOSS.format("mean_absolute_error()"),
    "SigmoidCrossEntropyLoss": _LOSS.format("sigmoid_cross_entropy(label_smoothing=0.0)"),
    "LogLoss": _LOSS.format("log()"),
    "HingeLoss": _LOSS.format("hinge()"),
    "CosineDistanceLoss": _LOSS.format("cosine_distance()"),
    "YoloLoss": _LOSS.format("yolo(parameters)"),
    "ConvClassifier": "Use nn.Sequential with nn.Conv2d, and nn.Trainer.",
    "LearningRates": _RATES,
    "find_learning_rate": _RATES,
}
"""Names that are not in ``openbnns.nn`` or ``openbnns.sklearn``, or not methods of a trainer."""

LOSSES = {
    name: _LOSS.format(f"{name}()")
    for name in (
        "mean_square_error", "mean_absolute_error", "sigmoid_cross_entropy", "log", "hinge", "cosine_distance",
    )
}  # fmt: skip
"""Words that are not names of losses."""

WORDS = {
    "completion": "Use shtab: python -m shtab --shell=bash openbnns.cli.parser_of_all.",
    "keras": "Use --to onnx, or --to npz for the weights.",
    "torch": "Use --to safetensors, which safetensors.torch.load_file reads.",
}
"""Words that are not commands of ``openbnns``, or not among the choices of an option."""

_KERAS = "export the network to ONNX, or its weights to safetensors."
_PYTORCH = "write it with safetensors.torch.save_file."
_PARQUET = "write it as .csv or .npz: pandas.read_parquet(path).to_csv('data.csv', index=False)."
FILES = {".parquet": _PARQUET, ".h5": _KERAS, ".hdf5": _KERAS, ".keras": _KERAS, ".pt": _PYTORCH, ".pth": _PYTORCH}
"""Files of models, weights and data that are not read, by their endings."""

_SUMS = "Ranks sum gradients in float32, after the backward pass and always in the same order. Leave it out."

COMMUNICATION = {
    "deterministic": _SUMS,
    "transport": _SUMS,
    "shard_optimizer": "Every rank has the whole state of the optimizer. Leave it out.",
    "bucket_bytes": _SUMS,
    "shared_memory": _SUMS,
    "overlap": _SUMS,
    "silence_limit": "A rank that hangs ends with the time limit of the launcher or the scheduler. Leave it out.",
}
"""Arguments that ``nn.distributed.Communicator`` does not have."""

_TABLES = "Tables hold plain numbers. Prepare others with scikit-learn: docs/sklearn.md."
_FOUND = "It is found. A table that is read wrongly has to be written with commas, and with a line of names."

OPTIONS = {
    **dict.fromkeys(("--categorical", "--dates", "--decimal", "--missing", "--thousands"), _TABLES),
    **dict.fromkeys(("--header", "--no-header", "--separator"), _FOUND),
    **dict.fromkeys(("--stream", "--no-stream"), "Store a large table as .npy, which is read as it is needed."),
    "--drop": "Leave such columns out of the file.",
    "--dry-run": "openbnns inspect MODEL describes what was trained.",
    "--keep": "Predictions are in the order of the lines: paste -d, data.csv predictions.csv",
    "--tune": "Search settings with scikit-learn: docs/sklearn.md.",
    "--baseline": "Compare the seconds of epochs in the history.json of both runs.",
    "--bucket-bytes": _SUMS,
    "--no-deterministic": _SUMS,
    "--no-overlap": _SUMS,
    "--no-shared-memory": _SUMS,
    "--shard-optimizer": COMMUNICATION["shard_optimizer"],
    "--transport": _SUMS,
}
"""Words that are not options of any command."""


def refuse_file(path: Any) -> None:
    """Raise ValueError for a file of a kind that is not read."""
    if sentence := FILES.get(Path(path).suffix.lower()):
        raise ValueError(f"{path}: {sentence}")

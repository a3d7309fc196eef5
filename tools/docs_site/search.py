"""Words by which search finds a page besides those on it, and how much its hits count.

The theme ranks titles before texts, which serves people who know the words of the titles. Others ask for what they want to do, or
in the words of another library: these are here. ``tests/browser/site_in_chromium.py`` asks such questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

KEYWORDS = {
    "architecture.md": "design internals source structure packages",
    "benchmarks.md": "benchmark results processor",
    "c.md": "c program compile gcc clang cmake pkg-config linux header library accelerate link",
    "coming_from_c.md": "c bnns functions port porting accelerate names",
    "coming_from_pytorch.md": "pytorch torch differences migrate switch equivalents",
    "coming_from_swift.md": "swift accelerate xcode",
    "commands.md": "command line cli terminal options shell train predict evaluate",
    "concepts.md": "forward backward gradient accumulate filter bnns explained",
    "contributing.md": "contribute development tests build add new layer activation pull request",
    "core_ml.md": "core ml coreml mlpackage mlmodel apple iphone ios macos convert",
    "data.md": "data images pictures folder png jpeg npy arrays mnist idx dataset datasets load split augmentation",
    "descriptors.md": "descriptor layout strides element types float16 bfloat16 int8 shape",
    "distributed.md": "distributed mpi several machines cluster nodes ranks multi parallel data-parallel mpirun",
    "evidence.md": "proof tested correctness trust evidence verified",
    "faq.md": "question gpu cuda licence license mac autograd automatic differentiation",
    "filters.md": "filters layers families list overview all supported operations",
    "filters/attention.md": "multihead attention multiheadattention mask causal",
    "filters/loss.md": "loss functions bnns",
    "filters/normalization.md": "batch norm batchnorm layernorm groupnorm instance moving statistics",
    "filters/optimizer.md": "optimizer bnns adam sgd rmsprop step",
    "filters/quantization.md": "quantize quantization int8 dequantize scale",
    "from_torch.md": "pytorch torch import convert module from_torch transformers hugging face",
    "gallery.md": "examples models gallery cnn resnet transformer",
    "in_and_out.md": "export import convert formats interoperability",
    "install.md": "install installation pip wheel wheels setup build source compiler platforms requirements uninstall "
    "upgrade linux mac macos windows wsl arm64 alpine python versions",
    "layers.md": "layers modules network sequential dense linear conv2d lstm freeze frozen transfer learning "
    "parameters initialize custom",
    "losses_and_optimizers.md": "loss losses optimizer optimizers adam sgd adamw momentum weight decay learning rate schedule "
    "scheduler cross entropy mse class weights clip gradients",
    "mistakes.md": "mistakes strict warnings wrong silent",
    "networks.md": "forward expressions custom operation function loss gradcheck gradient check custom layer",
    "onnx.md": "onnx opset operators export import onnxruntime fine-tune finetune",
    "report.md": "report html accuracy f1 score confusion matrix curves plot chart results metrics",
    "roadmap.md": "roadmap plans future",
    "running.md": "threads cores cpu engine environment variables settings accuracy deterministic reproducible seed "
    "memory",
    "saving.md": "save load model checkpoint checkpoints resume continue interrupted training restore weights "
    "state_dict toml predict deploy",
    "sklearn.md": "scikit-learn sklearn estimator pipeline grid search cross-validation mlpclassifier mlpregressor "
    "missing values gaps categories words dates preprocessing",
    "source_code.md": "export c code swift code microcontroller embedded generate source no dependencies deploy",
    "speed.md": "speed fast performance benchmark faster latency throughput compare time slow",
    "tables.md": "csv tsv table tables excel spreadsheet columns regression tabular pandas dataframe separator decimal",
    "trainer.md": "trainer early stopping callbacks validation metrics epochs batch size weighted samples history "
    "overfitting",
    "troubleshooting.md": "error message exception fails failed problem help traceback fix",
    "tutorial.md": "tutorial start getting started introduction first steps beginner quickstart",
    "weight_files.md": "weights safetensors npz state_dict load pytorch weights numpy",
}
"""By page: what people may ask for when they need it."""

LESS = {"api/": 0.3, "changelog.md": 0.2}
"""Pages, by how they begin, that list every name there is and so have every word: less than those that explain it."""


def describe(page: str, meta: dict[str, Any]) -> None:
    """Add the words of a page to its metadata, where the theme's search takes them from."""
    if page in KEYWORDS:
        meta["tags"] = [KEYWORDS[page]]
    for beginning, boost in LESS.items():
        if page.startswith(beginning):
            meta["search"] = {"boost": boost}


def missing(pages: Iterable[str]) -> list[str]:
    """Pages that have words but do not exist."""
    return sorted(KEYWORDS.keys() - set(pages))

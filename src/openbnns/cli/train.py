"""``openbnns train``: from a file of data to a trained network, its history and its report."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from .. import __version__
from .._plural import plural
from . import data_options, ranks, run_folder
from .arguments import (
    DIVERGED,
    OK,
    STOPPED,
    Commands,
    add_output,
    count,
    fail,
    given_options,
    print_json,
    rate,
    seed,
    share,
)
from .ranks import Ranks

# The names that openbnns.nn knows, which would take too long to import for --help.
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "adagrad", "adamax")
PATIENCE = 10  # epochs without a lower validation loss, after which a run ends
SCHEDULES = ("constant", "step", "cosine", "warmup", "warmup_cosine")
USUAL: dict[str, Any] = {"epochs": 20, "batch_size": 32, "optimizer": "adam", "weight_decay": 0.0}
USUAL_FOR_TABLES: dict[str, Any] = {"epochs": 40, "optimizer": "adamw", "weight_decay": 0.01}
"""Defaults that depend on the model: for ``--model tabular`` the second ones count."""
BATCHES_FOR_TABLES = {1_000: 64, 20_000: 256}  # batch sizes from these numbers of training samples on
_TITLES = {"batch_size": "batch size", "lr": "learning rate"}
_ALWAYS = ("model", "epochs", "batch_size", "optimizer", "lr", "schedule", "seed")
"""Options that the report always names, because their defaults depend on the data or may change."""
_NOT_REPEATED = (
    *_ALWAYS,
    "data",
    "out",
    "resume",
    "override",
    "force",
    "no_report",
    "threads",
    "quiet",
    "json",
)
"""Options that the command in a report does not repeat: where to write, what to print, and those that it always has."""


def _default(name: str) -> str:
    """The default of an option that depends on the model, for its help."""
    return f"default: {USUAL[name]}, for --model tabular {USUAL_FOR_TABLES[name]}"


def add(commands: Commands) -> None:
    train = commands.add_parser(
        "train", help="train a network; writes model, history and report",
        description="Train a network on data in nearly any form, measure it on samples that it has never seen, and write a "
        "model that openbnns predict uses.",
        examples=(
            "openbnns train                                        # handwritten digits that come with it",
            "openbnns train wine.csv --target kind                 # a table of numbers; labels may be words",
            "openbnns train houses.csv --target price              # numbers to predict: a regression",
            "openbnns train photos --size 64                       # a folder of images in a folder for each class",
            "openbnns train weather.csv --target rain,wind,frost   # several labels of 0 and 1",
            "openbnns train wine.csv --epochs 100 --early-stopping 10 --out runs/wine",
        ),
        exit_codes=True,
    )  # fmt: skip
    train.add_argument(
        "source", nargs="?", default=None, metavar="DATA", help=f"{data_options.SOURCES} (default: digits)"
    )
    train.add_argument("--data", default=None, metavar="DATA", help="the same, as an option")
    train.add_argument(
        "--model",
        default=None,
        help="mlp, tabular, cnn, transformer, or a .toml file (default: tabular for tables, cnn for images, else mlp)",
    )
    train.add_argument("--epochs", type=count, default=None, help=f"passes over the data ({_default('epochs')})")
    train.add_argument(
        "--batch-size", type=count, default=None,
        help=f"samples per step (default: {USUAL['batch_size']}, for --model tabular "
        f"{' and '.join(f'{size} from {rows:,}' for rows, size in BATCHES_FOR_TABLES.items())} training samples on)",
    )  # fmt: skip
    train.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default=None,
        metavar="NAME",
        help=f"{', '.join(OPTIMIZERS)} ({_default('optimizer')})",
    )
    train.add_argument("--lr", type=rate, default=0.002, help="learning rate (default: %(default)s)")
    train.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="cosine",
        metavar="NAME",
        help=f"{', '.join(SCHEDULES)} (default: %(default)s)",
    )
    train.add_argument(
        "--weight-decay", type=float, default=None,
        help=f"pull of the weights towards 0 ({_default('weight_decay')})",
    )  # fmt: skip
    train.add_argument("--clip-norm", type=rate, default=None, help="limit for the norm of all gradients together")
    train.add_argument(
        "--early-stopping", type=count, default=None, metavar="EPOCHS",
        help=f"stop after this many epochs without a lower validation loss (default: {PATIENCE})",
    )  # fmt: skip
    train.add_argument(
        "--no-early-stopping", dest="early_stopping", action="store_const", const=0, help="train all epochs"
    )
    train.add_argument(
        "--keep", choices=("best", "last"), default="best", metavar="EPOCH",
        help="epoch whose weights the model gets: best, that with the lowest validation loss, or last (default: %(default)s)",
    )  # fmt: skip
    train.add_argument(
        "--validation-share", type=share, default=0.1, metavar="SHARE",
        help="share of the samples for validation during training, if the data has no validation part (default: %(default)s)",
    )  # fmt: skip
    train.add_argument(
        "--test-share", type=share, default=0.2, metavar="SHARE",
        help="share of the samples for the test at the end, if the data has no test part (default: %(default)s)",
    )  # fmt: skip
    train.add_argument("--seed", type=seed, default=0, help="seed of weights, order and dropout (default: %(default)s)")
    train.add_argument(
        "--accuracy", choices=("fast", "exact"), default=None,
        help="exact: plain sums in all convolutions, slower (default: OPENBNNS_ACCURACY if set, else fast)",
    )  # fmt: skip
    train.add_argument(
        "--precision", choices=("float32", "bfloat16"), default="float32",
        help="bfloat16: round the operands of products, which is faster on CPUs that multiply bfloat16 (default: %(default)s)",
    )  # fmt: skip
    train.add_argument(
        "--threads",
        type=count,
        default=None,
        help="worker threads (default: one per core, shared by the ranks of a host)",
    )
    train.add_argument(
        "--out", type=Path, default=None, metavar="FOLDER",
        help="folder for all output files (default: a new one, such as runs/wine-1, to which out is a link)",
    )  # fmt: skip
    train.add_argument(
        "--resume",
        action="store_true",
        help="continue from the latest checkpoint in the output folder, by default in that of the latest run",
    )
    train.add_argument(
        "--override", action="store_true", help="with --resume: continue even if settings or data have changed"
    )
    train.add_argument(
        "--force", action="store_true",
        help="use the output folder even if it has a finished run, whose files move to earlier/, or belongs to a process on "
        "another host, which has ended",
    )  # fmt: skip
    train.add_argument("--no-report", action="store_true", help="write no report")
    add_output(train)
    data_options.add_meaning(train)
    data_options.add_form(train)
    ranks.add(train)
    train.set_defaults(run=run, parser=train)


def run(options: argparse.Namespace) -> int:
    if options.source is not None and options.data not in (None, options.source):
        raise ValueError(f"data are given twice: {options.source} and --data {options.data}. Give one of them.")
    options.data = options.source or options.data or "digits"
    return ranks.run(options, lambda everyone: _train(options, everyone))


def _train(options: argparse.Namespace, everyone: Ranks) -> int:
    from .. import nn, set_num_threads
    from ..nn import evaluation
    from ..nn.data import dataset as datasets
    from ..nn.trainer import Diverged, Interrupted

    if options.threads is not None:
        set_num_threads(options.threads)

    def say(text: str) -> None:
        if not options.quiet and not options.json and everyone.first:
            print(text, flush=True)

    layout = everyone.describe()
    with everyone.preparing():
        if options.override and not options.resume:
            raise ValueError("--override has a meaning only with --resume. Use both.")
        if options.out is not None:
            _refuse_finished_run(options)
        if options.out is None and options.resume:
            options.out = run_folder.latest()
        data = data_options.load(options)
        _complete(options, data)
        network = _network(options.model, data.outputs)
        if options.model == "cnn":
            data = _with_channels(data)
    if options.out is None:
        options.out = everyone.once(lambda: run_folder.new(options.data))
    with everyone.preparing():
        trainer = nn.Trainer(
            network, evaluation.LOSSES[data.task](), _optimizer(options), metrics=_METRICS[data.task],
            schedule=options.schedule, batch_size=options.batch_size,
            clip_norm=options.clip_norm, early_stopping=_stopping(options, data), seed=options.seed, out=options.out,
            force=options.force, quiet=options.quiet or options.json, say=say, accuracy=options.accuracy,
            precision=options.precision,
            **everyone.trainer_options(options),
        )  # fmt: skip
        network.build(data.sample_shape, seed=options.seed)
        if options.model.endswith(".toml"):
            nn.models.require_room(network, options.model)
    count = sum(p.size for p in network.parameters())
    sizes = ", ".join(f"{len(x):,} {part}" for part, (x, _) in data.parts.items())
    for remark in data.remarks:
        say(remark)
    notes = datasets.notes(data)
    say(f"Training {options.model} ({count:,} parameters) on {data.name}: {sizes} samples{_targets_text(data)}")
    balance = evaluation.balance(data.train_y, data.class_names, data.task)
    if balance:
        say(balance)
    if layout:
        say(f"{layout}; every batch is cut into {trainer.shards} shards")
    for note in notes:
        say(f"Note: {note}")
    began = time.perf_counter()
    validation = data.parts.get("validation")
    resume: bool | Literal["override"] = "override" if options.override else bool(options.resume)
    try:
        trainer.fit(data.train_x, data.train_y, epochs=options.epochs, validation=validation, resume=resume)
    except (Diverged, Interrupted) as error:
        if everyone.first:
            fail(options, str(error), STOPPED if isinstance(error, Interrupted) else DIVERGED)
            if isinstance(error, Interrupted):
                print(f"To continue: {everyone.again(options, '--resume', '--out', str(options.out))}", file=sys.stderr)
        return STOPPED if isinstance(error, Interrupted) else DIVERGED
    say(f"Done in {time.perf_counter() - began:.1f} s.")
    everyone.once(lambda: _conclude(options, everyone, trainer, data, notes, say))
    return OK


def _complete(options: argparse.Namespace, data: Any) -> None:
    """Choose the settings that were not given, by the data."""
    if options.model is None:
        table = getattr(data.preparation, "columns", ())
        options.model = "tabular" if table else "cnn" if _are_images(data.sample_shape) else "mlp"
    usual = dict(USUAL)
    if options.model == "tabular":
        usual |= USUAL_FOR_TABLES
        usual["batch_size"] = [
            usual["batch_size"],
            *(s for n, s in BATCHES_FOR_TABLES.items() if len(data.train_x) >= n),
        ][-1]
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def _stopping(options: argparse.Namespace, data: Any) -> Any:
    """The early stopping of the run, and the weights that it keeps: the best by the validation samples, or the last without
    such."""
    from ..nn import EarlyStopping

    asked: int | None = options.early_stopping
    if "validation" not in data.parts and not asked:
        return None
    patience = (PATIENCE if asked is None else asked) or None
    if options.keep == "last":
        return EarlyStopping(patience, keep="last") if patience else None
    return EarlyStopping(patience)


def _refuse_finished_run(options: argparse.Namespace) -> None:
    """Keep a model that may have taken days from being replaced by a command that was only repeated."""
    from ..nn.checkpoints import EARLIER, MODEL

    if (options.out / MODEL).exists() and not (options.resume or options.force):
        raise ValueError(
            f"{options.out}: has the model of a finished run, {MODEL}. Give another folder with --out, or continue the run "
            f"with --resume, or begin a new one there with --force, which moves the files of the old one to "
            f"{options.out / EARLIER}."
        )


def _conclude(
    options: argparse.Namespace, everyone: Ranks, trainer: Any, data: Any, notes: list[str],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Test the network on samples that it has never seen, and write the files of the run."""
    from ..nn import evaluation
    from ..nn.checkpoints import MODEL
    from ..nn.predictions import Predictions

    measured: dict[str, float] = {}
    outputs = trainer.predict(data.test_x) if len(data.test_x) else None
    if outputs is not None:
        predictions = Predictions.of(outputs, data.task, data.class_names, mean=data.target_mean, std=data.target_std)
        measured = evaluation.scores(
            predictions,
            data.in_units(data.test_y),
            data.in_units(data.train_y),
            mean=data.target_mean,
            std=data.target_std,
        )
        say(evaluation.in_words(measured, predictions, test=True))
    written = _write_results(options, everyone, trainer, data, outputs, measured, notes)
    say(f"Use it: openbnns predict {shlex.quote(str(options.out / MODEL))} NEW_DATA")
    say("Written:")
    for path, what in written:
        say(f"  {path}  {what}")
    if options.json:
        last = {name: value for name, value in trainer.history[-1].items() if isinstance(value, (int, float))}
        print_json({
            "model": str(options.out / MODEL), "task": data.task, "classes": list(data.class_names),
            "samples": {part: len(x) for part, (x, _) in data.parts.items()}, "remarks": list(data.remarks),
            "notes": notes, "epochs": len(trainer.history), "last_epoch": last, "chosen_epoch": trainer.chosen_epoch,
            "test": measured,
            "written": [str(path) for path, _ in written],
        })  # fmt: skip


_METRICS: dict[str, Any] = {"classification": ["accuracy"], "multilabel": ["accuracy"], "regression": ["r2"]}


def _targets_text(data: Any) -> str:
    """The targets in words."""
    names = f": {', '.join(data.class_names)}" if 0 < len(data.class_names) <= 12 else ""
    if data.task == "classification":
        return f", {plural(data.classes, 'class')}{names}"
    if data.task == "multilabel":
        return f", {plural(data.outputs, 'label')}{names}"
    return f", {plural(data.outputs, 'number')} to predict{names}"


def _channels_last(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) > 4


def _are_images(shape: tuple[int, ...]) -> bool:
    return (len(shape) in (2, 3) and min(shape[-2:]) >= 4) or _channels_last(shape)


def _with_channels(data: Any) -> Any:
    """Data whose samples are (channels, height, width), as the convolutional network needs; gray images get one channel."""
    from dataclasses import replace

    shape = data.sample_shape
    if len(shape) == 2:
        data = replace(
            data, train_x=data.train_x[:, None], validation_x=data.validation_x[:, None], test_x=data.test_x[:, None]
        )
    elif len(shape) != 3:
        raise ValueError(
            f"--model cnn needs images, but the samples of {data.name} have shape {shape}. Use --model mlp."
        )
    elif _channels_last(shape):
        raise ValueError(
            f"--model cnn needs images (channels, height, width), but the samples of {data.name} have shape {shape}: their "
            "channels come last. Store np.moveaxis(x, -1, 1)."
        )
    height, width = data.sample_shape[1:]
    if min(height, width) < 4:
        raise ValueError(
            f"--model cnn needs images of at least 4 x 4 pixels, but those of {data.name} are {height} x {width}. Use --model "
            "mlp."
        )
    return data


def _network(model: str, classes: int) -> Any:
    from .._spelling import nearest
    from ..nn import models

    if model in models.NAMED:
        return models.NAMED[model](classes)
    if model.endswith(".toml"):
        return models.from_file(model, classes)
    raise ValueError(
        f"--model {model!r} is not known.{nearest(model, models.NAMED)} Use mlp, tabular, cnn, transformer or a .toml file."
    )


def _optimizer(options: argparse.Namespace) -> Any:
    from ..nn import optimizers

    make: Any = optimizers.NAMED[options.optimizer]
    return make(options.lr, weight_decay=options.weight_decay)


def _write_results(
    options: argparse.Namespace, everyone: Ranks, trainer: Any, data: Any, outputs: Any,
    measured: dict[str, float], notes: list[str],
) -> list[tuple[Path, str]]:  # fmt: skip
    from ..nn import checkpoints, evaluation
    from ..nn.files.model_file import ModelCard

    model = options.out / checkpoints.MODEL
    settings = {
        "data": str(options.data), "model": options.model, "epochs": options.epochs, "batch_size": options.batch_size,
        "optimizer": options.optimizer, "learning_rate": options.lr, "schedule": options.schedule,
        "weight_decay": options.weight_decay, "clip_norm": options.clip_norm, "early_stopping": options.early_stopping,
        "keep": options.keep, "seed": options.seed, "chosen_epoch": trainer.chosen_epoch,
    }  # fmt: skip
    card = ModelCard(
        data.task, data.class_names, data.preparation, data.target_names, data.target_mean, data.target_std, settings,
        {**data.split, "usual_answer": evaluation.usual_answer(data.task, data.in_units(data.train_y))}, {"test": measured},
    )  # fmt: skip
    trainer.network.save_model(model, card=card)
    written = [
        (model, "the model, for openbnns predict, nn.load_model or any safetensors reader"),
        (options.out / checkpoints.HISTORY, "one record per epoch"),
    ]
    if not options.no_report:
        report = options.out / checkpoints.REPORT
        _write_report(report, options, everyone, trainer, data, outputs, measured, notes)
        written.append((report, "results, curves and the worst predictions, as a page for a browser"))
    latest = checkpoints.list_files(options.out)
    if latest:
        written.append((latest[0], "checkpoint, for --resume"))
    return written


def _write_report(
    path: Path, options: argparse.Namespace, everyone: Ranks, trainer: Any, data: Any, outputs: Any,
    measured: dict[str, float], notes: list[str],
) -> None:  # fmt: skip
    from .. import report

    settings = {
        "data": data.name, "samples": ", ".join(f"{len(x):,} {part}" for part, (x, _) in data.parts.items()),
        **{_TITLES.get(name, name): getattr(options, name) for name in _ALWAYS}, "openbnns": __version__,
    }  # fmt: skip
    words = ["openbnns", "train", str(options.data)]
    for name in _ALWAYS:
        value = getattr(options, name)
        words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    groups = ("options", data_options.MEANING, data_options.FORM)
    own, *others = (given_options(options, group, _NOT_REPEATED) for group in groups)
    settings |= {name.replace("_", " "): getattr(options, name) for name in own}
    command = shlex.join([*words, *(word for said in (own, *others) for option in said.values() for word in option)])
    settings |= everyone.settings(options)
    command = everyone.start(command, options)
    report.write(
        path, title=f"{options.model} on {data.name}", history=trainer.history, network=trainer.network, settings=settings,
        command=command, test=measured or None, samples=data_options.in_memory(data.test_x),
        outputs=None if outputs is None else data.in_units(outputs),
        targets=data.in_units(data.test_y), class_names=data.class_names, notes=notes,
        parts={part: data.in_units(y) for part, (_, y) in data.parts.items()}, task=data.task,
        probabilities=False, origin=data.origin,
    )  # fmt: skip

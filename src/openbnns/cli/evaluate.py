"""``openbnns evaluate``: measure a trained model on data with known answers."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from . import data_options, model_formats
from .arguments import OK, Commands, print_json


def add(commands: Commands) -> None:
    evaluate = commands.add_parser(
        "evaluate", help="measure a trained model on data with known answers",
        description="Compare what a model says with the answers in the data, beside the best one could say without looking at "
        "them, and write a report.",
        examples=(
            "openbnns evaluate out/model.safetensors more.csv",
            "openbnns evaluate out/model.safetensors wine.csv --part test   # the samples that training never saw",
            "openbnns evaluate out/model.safetensors more.csv --json | jq .scores.accuracy",
        ),
    )  # fmt: skip
    data_options.add_model_and_data(evaluate, "samples with their answers")
    evaluate.add_argument("--target", type=data_options.listed, default=None, metavar="NAME",
                          help="column with the answers (default: as in training)")  # fmt: skip
    evaluate.add_argument(
        "--part", choices=("all", "training", "validation", "test"), default="all",
        help="of the data that the model was trained on, only this part (default: all)",
    )  # fmt: skip
    evaluate.add_argument("--report", type=Path, default=None, metavar="FILE", help="write a report as HTML")
    evaluate.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..nn import evaluation
    from ..nn.data import model_data

    network = model_formats.opened(options.model, options)
    card = network.model_card
    if card is None or card.task is None:
        raise ValueError(
            f"{options.model}: does not say what its outputs mean. Open it in Python and save it with save_model(path, task=...)."
        )
    samples, x, predictions = data_options.predicted(
        options, network, with_targets=True, target=options.target, part=options.part
    )
    assert samples.y is not None
    parts = model_data.parts_of(card, samples.y) if options.part == "all" else None
    unseen = None if parts is None or not len(parts["test"]) else parts["test"]
    if parts is not None:
        samples.notes.append(
            "These include the samples that the model was trained on, so the result is better than it would be on new ones. Use "
            "--part test, or other data."
        )
    outputs = predictions.outputs.shape[1]
    reference = evaluation.reference_of(card.task, card.split.get("usual_answer"), outputs)
    scores = evaluation.scores(predictions, samples.y, reference, mean=card.target_mean, std=card.target_std)
    others = {}
    if unseen is not None:
        others = evaluation.scores(
            predictions.some(unseen), samples.y[unseen], reference, mean=card.target_mean, std=card.target_std
        )
    if options.report is not None:
        _write_report(options, network, card, x, predictions, samples, scores, reference)
    if options.json:
        print_json({
            "model": str(options.model), "data": options.data, "part": options.part, "task": card.task,
            "samples": len(samples.names), "trained_on": parts is not None, "scores": scores,
            "not_trained_on": None if unseen is None else {"samples": len(unseen), "scores": others},
            "notes": samples.notes,
        })  # fmt: skip
        return OK
    if options.quiet:
        return OK
    for note in samples.notes:
        print(note, file=sys.stderr)
    balance = evaluation.balance(samples.y, card.classes, card.task)
    if balance:
        print(balance)
    print(evaluation.in_words(scores, predictions))
    if unseen is not None:
        print(f"Without the training samples: {evaluation.in_words(others, predictions.some(unseen))}")
    if options.report is not None:
        print(f"Written: {options.report}")
    return OK


def _write_report(
    options: argparse.Namespace, network: Any, card: Any, x: Any, predictions: Any, samples: Any, scores: dict[str, float],
    reference: Any,
) -> None:  # fmt: skip
    from .. import report

    y = samples.y
    values = predictions.values.reshape(len(y), -1) if card.task == "regression" else predictions.outputs
    report.write(
        options.report, title=f"{options.model.name} on {options.data}", network=network,
        settings={"model": str(options.model), "data": options.data, "samples": f"{len(y):,} {options.part}"},
        command=shlex.join(["openbnns", *options.command_line]), test=scores, samples=data_options.in_memory(x),
        outputs=values, targets=y, class_names=card.classes, task=card.task,
        probabilities=False, notes=samples.notes, reference=reference, origin=samples.origin,
    )  # fmt: skip

"""``openbnns info``: a description of this installation, or of a model file."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import __version__
from . import model_formats, ranks
from .arguments import OK, UNUSABLE, UNUSABLE_ERRORS, Commands, print_json
from .launcher import launched

_NOT_SHOWN = ("sha256", "usual_answer")  # of the split, which only evaluate reads


def add(commands: Commands) -> None:
    info = commands.add_parser(
        "info", aliases=["inspect"], help="describe this installation, or a model file",
        description="Print version, engine, instruction set and threads; or what a model file says about itself.",
        examples=(
            "openbnns info",
            "openbnns inspect out/model.safetensors   # task, classes, columns, layers, settings, results",
            "openbnns inspect model.onnx              # inputs, outputs, operations; exit code 1 if it cannot run here",
            "openbnns inspect model.mlpackage         # inputs, outputs, operations; exit code 1 if it could not run",
            "mpiexec -n 4 openbnns info --mpi",
        ),
    )  # fmt: skip
    info.add_argument("model", metavar="MODEL", nargs="?", type=Path, help="a model file, ours or of another program")
    model_formats.add_sizes(info)
    info.add_argument("--quiet", action="store_true", help="print the version only")
    info.add_argument("--json", action="store_true", help="print one JSON object in place of text")
    info.add_argument(
        "--mpi", action="store_true",
        help="print where ranks run, with their cores and threads: mpiexec -n 4 openbnns info --mpi",
    )  # fmt: skip
    info.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import show_config
    from ..runtime import config

    if options.model is not None:
        known = model_formats.format_of(options.model)
        if known is not None:
            return known.inspect(options.model, options)
        _show_model(options)
    elif options.quiet:
        print(__version__)
    elif options.json:
        print_json(config())
    elif options.mpi:
        return _show_ranks()
    else:
        show_config()
    return OK


def _show_model(options: argparse.Namespace) -> None:
    """Print the description in a model file, without making the network."""
    from ..nn.files import model_file

    arrays, said = model_file.read(options.model)
    card = model_file.ModelCard.from_state(said)
    inputs = [list(part.sizes("shape")) for part in said.tables("inputs")]
    parameters = sum(array.size for array in arrays.values())
    if options.json:
        print_json({**card.state(), "library": card.library, "inputs": inputs, "parameters": parameters,
                    "network": said.get("network")})  # fmt: skip
        return
    if options.quiet:
        print(card.library)
        return
    lines = {
        "written by": f"OpenBNNS {card.library}", "task": card.task or "not said", "classes": ", ".join(card.classes[:20]),
        "columns": ", ".join(getattr(card.preparation, "columns", ())[:40]), "predicts": ", ".join(card.targets),
        "shape of a sample": " and ".join(str(tuple(shape)) for shape in inputs), "numbers in weights": f"{parameters:,}",
        "settings": ", ".join(f"{name} {value}" for name, value in card.training.items() if value is not None),
        "split": ", ".join(f"{name} {value}" for name, value in card.split.items() if name not in _NOT_SHOWN),
        "results": "; ".join(f"{part}: {_numbers(values)}" for part, values in card.results.items() if values),
    }  # fmt: skip
    for name, value in lines.items():
        if value:
            print(f"{name:18s} {value}")
    for line in [] if card.preparation is None else card.preparation.sentences():
        print(f"{'preparation':18s} {line}")
    table = said.get("network")
    layers = table.get("layers") if isinstance(table, dict) else None
    print(
        f"{'network':18s} {_layers(layers) if layers else said.text('class') + ', a class that the file does not hold'}"
    )


def _numbers(values: Any) -> str:
    """Measures by name, or any other value that a file has in their place."""
    if not isinstance(values, dict):
        return str(values)
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in values.items()
    )


def _layers(table: Any, depth: int = 0) -> str:
    """The layers of a description, one in a line."""
    if not isinstance(table, dict) or depth > 20:
        return "..."
    apart = ("type", "layers", "body", "shortcut")
    shown = {name: value for name, value in table.items() if name not in apart and value is not None}
    text = f"{table.get('type', 'same as')} {', '.join(f'{name}={value}' for name, value in shown.items())}".rstrip()
    inner = table.get("layers") or table.get("body") or []
    indent = " " * (21 + 2 * depth)
    return "".join([text, *(f"\n{indent}{_layers(part, depth + 1)}" for part in inner)])


def _show_ranks() -> int:
    """Describe all ranks of the job, or the one that this process would be."""
    from .rank_layout import in_words, own_place, table, warnings

    launch = launched()
    if launch is None:
        places, library = [own_place()], _library()
    else:
        try:
            comm = ranks.connect(launch)
        except UNUSABLE_ERRORS:
            if launch.rank == 0:  # the others fail for the same reason
                raise
            return UNUSABLE
        places, library = comm.gather(own_place()), _library()
        if comm.rank:
            return OK
    print(f"{'MPI':22s} {library}")
    print(f"{'layout':22s} {in_words(places)}\n")
    print(table(places))
    for line in warnings(places):
        print(f"Warning: {line}")
    if launch is None:
        print(
            "\nThis process was not started by mpiexec or srun. To describe all ranks: mpiexec -n 4 openbnns info --mpi"
        )
    return OK


def _library() -> str:
    """The MPI library, its standard, and mpi4py."""
    try:
        wrapper, mpi = import_module("mpi4py"), import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        return f'none: {error}. Run: pip install "openbnns[mpi]" mpich'
    standard = ".".join(map(str, mpi.Get_version()))
    return f"{ranks.library_name(mpi)}, MPI {standard}, mpi4py {wrapper.__version__}"

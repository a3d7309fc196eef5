"""``openbnns info``: what this installation is and runs on."""

from __future__ import annotations

import argparse
from importlib import import_module

from .. import __version__
from . import ranks
from .arguments import OK, UNUSABLE, UNUSABLE_ERRORS, Commands
from .launcher import launched


def add(commands: Commands) -> None:
    info = commands.add_parser("info", help="version, engine, instruction set, threads")
    info.add_argument("--quiet", action="store_true", help="print the version only")
    info.add_argument(
        "--mpi", action="store_true",
        help="print where ranks run, with their cores and threads: mpiexec -n 4 openbnns info --mpi",
    )  # fmt: skip
    info.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .. import show_config

    if options.quiet:
        print(__version__)
    elif options.mpi:
        return _show_ranks()
    else:
        show_config()
    return OK


def _show_ranks() -> int:
    """Describe all ranks of the job, or the one that this process would be."""
    from ..nn.distributed.layout import in_words, own_place, table, warnings

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
        places, library = comm.places(), _library()
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

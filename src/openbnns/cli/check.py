"""``openbnns check``: every gradient against finite differences."""

from __future__ import annotations

import argparse

from .arguments import FAILED, OK, Commands, count, seed


def add(commands: Commands) -> None:
    check = commands.add_parser("check", help="compare every gradient with finite differences")
    check.add_argument("families", nargs="*", metavar="FAMILY", help="families to check (default: all)")
    check.add_argument("--cases", type=count, default=3, help="random shapes per family (default: 3)")
    check.add_argument("--seed", type=seed, default=0, help="seed of the random shapes and numbers (default: 0)")
    check.add_argument("--quiet", action="store_true", help="print failures only")
    check.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from ..gradients import FAMILIES
    from ..gradients.cases import run as run_family
    from ..nn.choose import nearest

    for family in options.families:
        if family not in FAMILIES:
            raise ValueError(
                f"there is no family {family!r}.{nearest(family, FAMILIES)} Families: {', '.join(FAMILIES)}."
            )
    chosen = options.families or FAMILIES
    width = max(len(name) for name in chosen)
    failures = 0
    if not options.quiet:
        print(f"{'family'.ljust(width)}  cases  gradients  largest error  result")
    for family in chosen:
        outcome = run_family(family, options.cases, options.seed)
        failures += not outcome.passed
        if not (options.quiet and outcome.passed):
            verdict = "ok" if outcome.passed else f"FAILED: {outcome.message}"
            print(
                f"{family.ljust(width)}  {options.cases:5d}  {outcome.gradients:9d}  {outcome.error:13.1e}  {verdict}",
                flush=True,
            )
    if not options.quiet:
        print(f"{len(chosen) - failures} passed, {failures} failed")
    return FAILED if failures else OK

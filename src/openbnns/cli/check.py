"""``openbnns check``: every gradient against finite differences."""

from __future__ import annotations

import argparse

from .arguments import FAILED, OK, Commands, count, print_json, seed


def add(commands: Commands) -> None:
    check = commands.add_parser(
        "check", help="compare every gradient with finite differences",
        description="Compare the gradients of every family of filters with finite differences, on random shapes and numbers.",
        examples=("openbnns check", "openbnns check convolution pooling --cases 10 --seed 7"),
    )  # fmt: skip
    check.add_argument("families", nargs="*", metavar="FAMILY", help="families to check (default: all)")
    check.add_argument("--cases", type=count, default=3, help="random shapes per family (default: %(default)s)")
    check.add_argument(
        "--seed", type=seed, default=0, help="seed of the random shapes and numbers (default: %(default)s)"
    )
    check.add_argument("--quiet", action="store_true", help="print failures only")
    check.add_argument("--json", action="store_true", help="print one JSON object in place of text")
    check.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from .._spelling import nearest
    from ..gradients import FAMILIES
    from ..gradients.cases import run as run_family

    for family in options.families:
        if family not in FAMILIES:
            raise ValueError(
                f"there is no family {family!r}.{nearest(family, FAMILIES)} Families: {', '.join(FAMILIES)}."
            )
    chosen = options.families or FAMILIES
    width = max(len(name) for name in chosen)
    failures = 0
    results = []
    if not options.quiet and not options.json:
        print(f"{'family'.ljust(width)}  cases  gradients  largest error  result")
    for family in chosen:
        outcome = run_family(family, options.cases, options.seed)
        failures += not outcome.passed
        results.append({"family": family, "passed": outcome.passed, "gradients": outcome.gradients,
                        "largest_error": outcome.error, "message": outcome.message})  # fmt: skip
        if not options.json and not (options.quiet and outcome.passed):
            verdict = "ok" if outcome.passed else f"FAILED: {outcome.message}"
            print(
                f"{family.ljust(width)}  {options.cases:5d}  {outcome.gradients:9d}  {outcome.error:13.1e}  {verdict}",
                flush=True,
            )
    if options.json:
        print_json({"cases": options.cases, "seed": options.seed, "failed": failures, "families": results})
    elif not options.quiet:
        print(f"{len(chosen) - failures} passed, {failures} failed")
    return FAILED if failures else OK

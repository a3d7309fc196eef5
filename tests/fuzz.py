"""Random calls of every family, native against reference, random networks, and hostile calls: ``make fuzz``.

    python tests/fuzz.py --seconds 60            # random cases until the time is up
    python tests/fuzz.py --seed 7 --case 1234    # one case again, as a failure prints it

Every case draws all its choices from (seed, case) alone. A configuration is created on both engines from the same
memory; status and message must agree, and so must every number written, within rounding. Outputs lie in memory with
gaps and guards, which must come back unchanged. A hostile case fills structs and arguments with garbage; it may fail
in any clean way. A random network is compared with an autograd of the tests' own (``network_checks.py``); one that fails
is shown as the smallest that does. The case under way is kept in a file, so that a crash can be reproduced, too.

Without ``--seed``, the commit that is checked out is the seed, so that every commit runs other cases, and always the same.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import openbnns
from fuzzing import fused_layers, hostile
from fuzzing.core import Draw, Mismatch, Outcome, compare
from network_checks import failure_of, report
from random_networks import draw as draw_network

FAMILIES: dict[str, Any] = {**hostile.ORDERLY, **fused_layers.FAMILIES, **hostile.FAMILIES, "networks": draw_network}


def run_case(seed: int, case: int, families: list[str]) -> str:
    """Run one case on both engines; gives what was run, raises on any difference."""
    name = families[case % len(families)]
    if name == "networks":
        return run_network(seed, case)
    if name in hostile.FAMILIES:
        for engine in ("native", "reference"):
            with openbnns.engine(engine):
                FAMILIES[name](Draw(seed, case))[1](Outcome())
        return name
    outcomes = []
    title = ""
    for engine in ("native", "reference"):
        title, run = FAMILIES[name](Draw(seed, case))
        outcome = Outcome()
        with openbnns.engine(engine):
            run(outcome)
        outcomes.append(outcome)
    try:
        compare(*outcomes)
    except Mismatch as error:
        raise Mismatch(f"{error}\n  {title}") from None
    return f"{name}: {title}"


def run_network(seed: int, case: int) -> str:
    """Run a random network by every way that ``nn`` has; raises on any difference to what it should do."""
    plan = draw_network(1_000_003 * seed + case)
    if failure_of(plan) is not None:
        raise Mismatch(report(plan))
    return f"networks:\n{plan}"


def seed_of_commit() -> int:
    """A number that follows from the commit that is checked out; from the clock where there is none."""
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout
        return int(commit[:6], 16)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return int(time.time()) % 100000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="of all cases (default: from the commit)")
    parser.add_argument("--case", type=int, default=None, help="run this case only, and say what it is")
    parser.add_argument(
        "--family", choices=sorted(FAMILIES), action="append", help="only these families; may be repeated"
    )
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    options = parser.parse_args()
    warnings.simplefilter("error")
    logging.getLogger("openbnns").setLevel(logging.CRITICAL)
    families = options.family or list(FAMILIES)
    seed = options.seed if options.seed is not None else seed_of_commit()
    again = f"python tests/fuzz.py --seed {seed}" + "".join(f" --family {f}" for f in options.family or [])
    if options.case is not None:
        print(run_case(seed, options.case, families))
        return 0
    note = Path(tempfile.gettempdir()) / f"openbnns-fuzz-{seed}.txt"
    with note.open("w", encoding="utf-8") as under_way:
        faulthandler.enable()
        print(f"seed {seed}; after a crash, {note} holds the line that reproduces it", flush=True)
        failures, case, end = 0, 0, time.monotonic() + options.seconds
        while time.monotonic() < end:
            under_way.seek(0)
            under_way.write(f"{again} --case {case}   \n")
            under_way.flush()
            try:
                run_case(seed, case, families)
            except Exception as error:
                failures += 1
                print(f"FAILED: {type(error).__name__}: {error}\n  reproduce: {again} --case {case}", flush=True)
                if not options.keep_going:
                    break
            case += 1
    note.unlink()
    print(f"{case} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

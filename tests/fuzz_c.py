"""Random hostile calls of the C library, until the time is up: they may fail in any clean way, but not crash.

python tests/fuzz_c.py --seconds 60
python tests/fuzz_c.py --seed 7 --case 1234    # one case again, as a failure prints it
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
import time

from fuzzing.c_calls import hostile_c
from fuzzing.core import Draw, Outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (default 60)")
    parser.add_argument("--calls", type=int, default=None, help="make so many calls, however long that takes")
    parser.add_argument("--seed", type=int, default=1, help="of all cases")
    parser.add_argument("--case", type=int, default=None, help="run this case only")
    options = parser.parse_args()
    faulthandler.enable()
    logging.getLogger("openbnns").setLevel(logging.CRITICAL)
    made, refused, case, end = 0, 0, options.case or 0, time.monotonic() + options.seconds
    while time.monotonic() < end if options.calls is None else made < options.calls:
        outcome = Outcome()
        try:
            hostile_c(Draw(options.seed, case))[1](outcome)
        except Exception as error:
            print(f"FAILED: {type(error).__name__}: {error}\n  reproduce: --seed {options.seed} --case {case}")
            return 1
        made, refused, case = made + len(outcome.statuses), refused + outcome.statuses.count(False), case + 1
        if options.case is not None:
            break
        if case % 50 == 0:  # after a crash the last line says where
            print(f"case {case}", file=sys.stderr, flush=True)
    print(f"{case} cases, {made} calls, {refused} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())

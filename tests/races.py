"""The C library's threads, forks and destructions under ThreadSanitizer: ``make sanitize-threads``.

Python and NumPy are not compiled for it, so what only they do is left out; what the library and the compiled core do is not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from openbnns.clib import flags

CASES = ("threads", "errors", "many_threads", "destruction", "allocators", "handles", "forks", "leave")
# Python's own objects: its lock is taken and released by code that is not compiled for this.
SUPPRESSIONS = "called_from_lib:libpython\ncalled_from_lib:libopenblas\nrace:_multiarray_umath\n"


def main() -> int:
    source = Path(__file__).with_name("c") / "hosts.c"
    with tempfile.TemporaryDirectory() as folder:
        program, suppressions = Path(folder) / "hosts", Path(folder) / "suppressions"
        suppressions.write_text(SUPPRESSIONS)
        subprocess.run(
            ["gcc", "-std=gnu17", "-g1", "-O1", "-fsanitize=thread", *flags.compile_flags(), source, "-o", program,
             *flags.link_flags(), "-pthread"],
            check=True,
        )  # fmt: skip
        options = f"suppressions={suppressions}:exitcode=66:die_after_fork=0"
        failed = [case for case in CASES if run(program, case, options) != 0]
    print(f"races: {', '.join(failed)}" if failed else "no races")
    return 1 if failed else 0


def run(program: Path, case: str, options: str) -> int:
    """The status of one case, whose reports go to stderr."""
    print(case, flush=True)
    variables = os.environ | {"TSAN_OPTIONS": options, "OPENBNNS_PYTHON": sys.executable}
    return subprocess.run([program, case], env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

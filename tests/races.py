"""The C library's threads, errors, destructions, allocators and exits under ThreadSanitizer: ``make sanitize-threads``.

Python and NumPy are not compiled for it, so what only they do is left out; Python's lock is seen. So are kernels, which
write what they are handed. Forks are tried without it: it does not know threads that the child of a process with threads makes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from c_compilers import C_PROGRAMS, environment_of_programs
from openbnns.clib import flags

CASES = ("threads", "errors", "many_threads", "destruction", "allocators", "handles", "leave")
ISAS = ("avx512", "avx2")  # where the CPU has less, what it has


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "hosts"
        subprocess.run(
            ["gcc", "-std=gnu17", "-g1", "-O1", "-fsanitize=thread", *flags.compile_flags(), C_PROGRAMS / "hosts.c", "-o",
             program, *flags.link_flags(), "-pthread"],
            check=True,
        )  # fmt: skip
        failed = [f"{case} on {isa}" for isa in ISAS for case in CASES if run(program, case, isa) != 0]
    print(f"races: {', '.join(failed)}" if failed else "no races")
    return 1 if failed else 0


def run(program: Path, case: str, isa: str) -> int:
    """The status of one case, whose reports go to stderr."""
    print(f"{case} on {isa}", flush=True)
    variables = environment_of_programs(
        TSAN_OPTIONS="exitcode=66:die_after_fork=0", OPENBNNS_PYTHON=sys.executable, OPENBNNS_ISA=isa
    )
    return subprocess.run([program, case], env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

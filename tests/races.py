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
from c_contexts import DENSE
from openbnns.clib import flags

CASES = ("threads", "errors", "many_threads", "destruction", "allocators", "handles", "leave")
ISAS = ("avx512", "avx2")  # where the CPU has less, what it has


GRAPHS = ("setters", "destruction", "contexts")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        hosts, graphs, model = built("hosts", folder), built("graph_races", folder), Path(folder) / "model.mil"
        model.write_text(DENSE)
        words = [(hosts, case) for case in CASES] + [(graphs, case, model) for case in GRAPHS]
        failed = [f"{each[1]} on {isa}" for isa in ISAS for each in words if run(each, isa) != 0]
    print(f"races: {', '.join(failed)}" if failed else "no races")
    return 1 if failed else 0


def built(name: str, folder: str) -> Path:
    """A program of ``tests/c`` under ThreadSanitizer."""
    source, program = C_PROGRAMS / f"{name}.c", Path(folder) / name
    words = ["gcc", "-std=gnu17", "-g1", "-O1", "-fsanitize=thread", *flags.compile_flags(), source, "-o", program]
    subprocess.run([*words, *flags.link_flags(), "-pthread"], check=True)
    return program


def run(words: tuple[str | Path, ...], isa: str) -> int:
    """The status of one case, whose reports go to stderr."""
    print(f"{words[1]} on {isa}", flush=True)
    variables = environment_of_programs(
        TSAN_OPTIONS="exitcode=66:die_after_fork=0", OPENBNNS_PYTHON=sys.executable, OPENBNNS_ISA=isa
    )
    return subprocess.run(words, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Several interpreters in one process: only the main one can have the compiled core, and the others are told so."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys

def in_subinterpreter(program, isolated):
    "What went wrong in it, if anything did; Python 3.10 to 3.14 call the same by different names."
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        interpreter = interpreters.create("isolated" if isolated else "legacy")
        problem = interpreters.exec(interpreter, program)
        return problem and problem.formatted
    import _xxsubinterpreters as interpreters
    interpreter = interpreters.create(isolated=isolated)
    try:
        interpreters.run_string(interpreter, program)
    except interpreters.RunFailedError as error:
        return str(error)

compute = '''
import warnings
warnings.simplefilter("ignore")  # NumPy's warning about subinterpreters
import numpy as np
import openbnns
layer = openbnns.FullyConnectedLayer(weights=np.eye(3, dtype=np.float32))
assert layer.apply(np.arange(3, dtype=np.float32)).tolist() == [0, 1, 2]
print(openbnns.current_engine(), openbnns.engines.reason, flush=True)
'''
"""


def run(program: str) -> list[str]:
    """The lines that a process prints; it must end as it should."""
    command = [sys.executable, "-c", PROGRAM + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr}"
    return done.stdout.splitlines()


IN_LEGACY = "problem = in_subinterpreter(compute, False); problem and print('error:', problem); "


def check_other(line: str) -> None:
    """NumPy's error, or the engine that needs no compiled code, with the reason."""
    assert "cannot load module more than once" in line or (
        line.startswith("reference ") and "subinterpreters are not supported. Use threads" in line
    )


def test_after_the_main_one() -> None:
    main, other, again = run("exec(compute); " + IN_LEGACY + "exec(compute)")
    assert main == again == "native "
    check_other(other)


def test_before_the_main_one() -> None:
    other, rest = run(IN_LEGACY + "\ntry: exec(compute)\nexcept ImportError as error: print(error)")
    check_other(other)
    assert rest == "native " or "cannot load module more than once" in rest


if sys.version_info >= (3, 12):  # before that, all share one lock

    def test_with_a_lock_of_its_own() -> None:
        (line,) = run("print(in_subinterpreter(compute, True).splitlines()[-1])")
        assert "does not support loading in subinterpreters" in line

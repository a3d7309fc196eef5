"""Several interpreters in one process: only the main one can have the compiled core, and the others are told so.

The module is loaded alone, because NumPy has troubles of its own with subinterpreters.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from openbnns import _core

PROGRAM = """
import sys

def in_subinterpreter(isolated):
    "Python 3.11 to 3.14 call the same by different names."
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        interpreters.exec(interpreters.create("isolated" if isolated else "legacy"), load)
    else:
        import _xxsubinterpreters as interpreters
        interpreters.run_string(interpreters.create(isolated=isolated), load)

load = '''
import importlib.util
specification = importlib.util.spec_from_file_location("openbnns._core", PATH)
try:
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    print(module.instruction_set(), flush=True)
except ImportError as error:
    print(error, flush=True)
'''.replace("PATH", repr(sys.argv[1]))
"""


def run(program: str) -> list[str]:
    """The lines that a process prints; it must end as it should."""
    command = [sys.executable, "-c", PROGRAM + program, _core.__file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.parametrize("isolated", [False, True])
def test_after_the_main_one(isolated: bool) -> None:
    main, other, again = run(
        f"exec(load); in_subinterpreter({isolated}); module.release_scratch(); print(module.instruction_set())"
    )
    assert main == again == _core.instruction_set()
    assert "subinterpreters" in other


@pytest.mark.parametrize("isolated", [False, True])
def test_before_the_main_one(isolated: bool) -> None:
    other, main = run(f"in_subinterpreter({isolated}); exec(load)")
    assert "subinterpreters" in other
    assert main == _core.instruction_set()


@pytest.mark.parametrize("isolated", [False, True])
def test_the_message_names_the_cure(isolated: bool) -> None:
    """Once the main one has it; before, Python 3.13 and later ask the main one on behalf of others, and word the refusal."""
    _, other = run(f"exec(load); in_subinterpreter({isolated})")
    assert "subinterpreters are not supported. Use threads, which compute at the same time, or processes" in other

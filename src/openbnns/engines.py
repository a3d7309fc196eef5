"""Two engines for one set of filters: compiled kernels, and float64 NumPy written from the formulas."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, NoReturn

reason = ""  # why there is no compiled core
if TYPE_CHECKING:
    from . import _core as _core
else:
    _core = None
    try:
        _core = importlib.import_module("openbnns._core")
    except ImportError as error:  # an installation without the compiled part, or one built for another system
        reason = str(error)
    else:
        _core.set_main_thread(threading.main_thread().ident)  # Ctrl-C interrupts the calls of this thread only

NATIVE = "native"
REFERENCE = "reference"

FAST = "fast"
EXACT = "exact"

FLOAT32 = "float32"
BFLOAT16 = "bfloat16"
INT8 = "int8"
INFERENCE_PRECISIONS = (FLOAT32, BFLOAT16, INT8)


class Arithmetic(NamedTuple):
    """How the native engine computes: ``precision`` is the element type in which operands of products are multiplied."""

    accuracy: str
    precision: str = FLOAT32


_chosen = REFERENCE  # for the process, outside of blocks
_blocks: list[list[str]] = []  # of all threads, the latest at the end
_current = REFERENCE
_of_contexts: list[list[str]] = []  # the engines of all blocks of using_engine, in any thread
_of_context: ContextVar[list[str] | None] = ContextVar("engine", default=None)
_takes_fast_calls = False
_process = Arithmetic(FAST)  # outside of blocks
_own: ContextVar[Arithmetic | None] = ContextVar("arithmetic", default=None)  # of a block of using_arithmetic


def current() -> str:
    """Name of the engine in use: ``"native"`` or ``"reference"``.

    >>> import openbnns as bn
    >>> with bn.engine("reference"):
    ...     bn.current_engine()
    'reference'
    """
    if _of_contexts and (own := _of_context.get()) is not None:
        return own[0]
    return _current


def is_native() -> bool:
    return (current() if _of_contexts else _current) == NATIVE


def takes_fast_calls() -> bool:
    """True if native calls need not come through Python: every thread is on the native engine."""
    return _takes_fast_calls


def select(name: str) -> None:
    """Choose the engine for the whole process."""
    global _chosen
    _chosen = _checked(name)
    _follow_blocks()


def _checked(name: str) -> str:
    if name not in (NATIVE, REFERENCE):
        raise ValueError(f"openbnns.engine: there is no engine {name!r}. Choose 'native' or 'reference'.")
    if name == NATIVE and _core is None:
        raise ValueError(
            "openbnns.engine: the native engine is not in this installation (openbnns._core cannot be imported). "
            "Install a wheel or build with a C++17 compiler, or use the 'reference' engine."
        )
    return name


def _follow_blocks() -> None:
    """Use the engine of the latest block that has not ended, in whatever order threads end theirs."""
    global _current
    _current = _blocks[-1][0] if _blocks else _chosen
    update_fast_calls()


_watchers = 0
_watching = threading.Lock()
if hasattr(os, "register_at_fork"):  # forks wait for it, so that no child inherits it locked
    os.register_at_fork(before=_watching.acquire, after_in_parent=_watching.release, after_in_child=_watching.release)


def watch_filters(change: int) -> None:
    """Count the observers that must see every call of a filter: while there are any, no fast calls are made."""
    global _watchers
    with _watching:
        _watchers += change
        update_fast_calls()


def update_fast_calls() -> None:
    global _takes_fast_calls
    _takes_fast_calls = _current == NATIVE and all(block[0] == NATIVE for block in _of_contexts)
    if _core is not None:
        _core.set_fast_calls(_takes_fast_calls, _watchers == 0)


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Run the filters of a ``with`` block on the named engine.

    ``"native"`` uses compiled float32 kernels; ``"reference"`` computes in float64 with NumPy from the formulas on the
    docs pages. Both read and write the same arrays, float32 for numbers, so that code runs on either. The choice holds for
    the whole process while the block runs. The environment variable ``OPENBNNS_ENGINE`` sets the engine at import.

    >>> import openbnns
    >>> with openbnns.engine("reference"):
    ...     openbnns.current_engine()
    'reference'
    """
    block = [_checked(name)]
    with _watching:
        _blocks.append(block)
        _follow_blocks()
    try:
        yield
    finally:
        with _watching:
            _blocks[:] = [other for other in _blocks if other is not block]
            _follow_blocks()


@contextmanager
def using_engine(name: str) -> Iterator[None]:
    """Run the filters of a ``with`` block on the named engine, whatever engine other threads use meanwhile.

    Fast calls do not know their thread, so while a block is on the reference engine, none are made anywhere.
    """
    block = [_checked(name)]
    token = _of_context.set(block)
    with _watching:
        _of_contexts.append(block)
        update_fast_calls()
    try:
        yield
    finally:
        _of_context.reset(token)
        with _watching:
            _of_contexts[:] = [other for other in _of_contexts if other is not block]
            update_fast_calls()


def _initial() -> str:
    chosen = os.environ.get("OPENBNNS_ENGINE")
    if chosen in (NATIVE, REFERENCE):
        return chosen
    if chosen:
        _refuse(f"OPENBNNS_ENGINE is {chosen!r}. Set it to 'native' or 'reference', or leave it unset.")
    if _core is not None:
        return NATIVE
    if os.environ.get("OPENBNNS_ISA") == "amx":  # nothing else will do
        _refuse(reason)
    _warn(
        f"the compiled core cannot be loaded ({reason}), so the slow reference engine is used. Reinstall openbnns, or "
        "set OPENBNNS_ENGINE=reference to choose it explicitly."
    )
    return REFERENCE


def _refuse(said: str) -> NoReturn:
    """End the import for a setting that cannot be met."""
    if os.path.basename(sys.argv[0] if sys.argv else "") in ("openbnns", "-m", "openbnns.exe"):
        sys.stderr.write(f"openbnns: {said}\n")  # a user of the command line needs no traceback
        raise SystemExit(2)
    raise ValueError(said)


def new_weights_version() -> int:
    """A number by which native code knows weights that stay as they are, so that it prepares them once; 0 without such code."""
    return 0 if _core is None else int(_core.new_weights_version())


def accuracy() -> str:
    """How the native engine computes in filters created from now on: ``"fast"`` or ``"exact"``.

    >>> import openbnns as bn
    >>> bn.get_accuracy()
    'fast'
    """
    return arithmetic().accuracy


def arithmetic() -> Arithmetic:
    """How filters created from now on compute on the native engine."""
    return _own.get() or _process


def is_of_process() -> bool:
    """True outside of blocks of :func:`using_arithmetic`: what C programs get."""
    return _own.get() is None


def select_accuracy(name: str, who: str = "openbnns.set_accuracy") -> None:
    """Choose the accuracy for the whole process; see :func:`openbnns.set_accuracy`."""
    global _process
    before, _process = _process, Arithmetic(check_accuracy(name, who))
    if _core is not None and _process != before:
        _core.count_arithmetic()


def check_accuracy(name: str, who: str) -> str:
    """The name of an accuracy, checked."""
    if not isinstance(name, str):
        raise TypeError(f"{who}: accuracy must be 'fast' or 'exact', not {type(name).__name__}.")
    if name not in (FAST, EXACT):
        raise ValueError(f"{who}: there is no accuracy {name!r}. Choose 'fast' or 'exact'.")
    return name


def check_precision(name: str, who: str, choices: tuple[str, ...] = (FLOAT32, BFLOAT16)) -> str:
    """The name of a precision that this CPU has instructions for, checked."""
    if not isinstance(name, str):
        raise TypeError(f"{who}: precision must be a string, not {type(name).__name__}.")
    if name == INT8 and name not in choices:
        raise ValueError(
            f"{who}: precision 'int8' is for inference, and gradients need 'float32' or 'bfloat16'. Train with one of these, "
            "then call net.compile_inference(batch_size, precision='int8', calibration=samples)."
        )
    if name not in choices:
        *first, last = map(repr, choices)
        raise ValueError(f"{who}: there is no precision {name!r}. Choose {', '.join(first)} or {last}.")
    if name == BFLOAT16 and (_core is None or not _core.multiplies_bfloat16()):
        kernels = "has no compiled core" if _core is None else f"uses the instruction set {_core.instruction_set()!r}"
        raise ValueError(
            f"{who}: precision 'bfloat16' needs a CPU that multiplies bfloat16 (AVX-512 BF16), and kernels that use it, but "
            f"this process {kernels}: it would be no faster than float32. Use precision='float32'."
        )
    return name


@contextmanager
def using_arithmetic(chosen: Arithmetic) -> Iterator[None]:
    """Create the filters of a ``with`` block with this arithmetic, whatever other threads do meanwhile."""
    token = _own.set(chosen)
    try:
        yield
    finally:
        _own.reset(token)


def _initial_accuracy() -> str:
    chosen = os.environ.get("OPENBNNS_ACCURACY") or FAST
    if chosen not in (FAST, EXACT):
        raise ValueError(f"OPENBNNS_ACCURACY is {chosen!r}. Set it to 'fast' or 'exact', or leave it unset.")
    return chosen


def _check_environment() -> None:
    """Warn about settings that have no effect; the compiled core, which reads them, does not warn."""
    threads = os.environ.get("OPENBNNS_NUM_THREADS", "")
    if threads and not threads.isdecimal():
        _warn(f"OPENBNNS_NUM_THREADS is {threads!r} and has no effect. Set it to a whole number, or leave it unset.")
    strict = os.environ.get("OPENBNNS_STRICT", "")
    if strict not in ("", "0", "1"):
        _warn(f"OPENBNNS_STRICT is {strict!r} and has no effect. Set it to 1 or 0, or leave it unset.")
    isa = os.environ.get("OPENBNNS_ISA", "")
    if isa not in ("", "amx", "avx512", "avx2", "base"):
        _warn(
            f"OPENBNNS_ISA is {isa!r}, so the base kernels are used. Set it to 'amx', 'avx512', 'avx2' or 'base', or leave it "
            "unset."
        )

    if os.environ.get("OPENBNNS_COMPAT"):
        importlib.import_module("openbnns.compat")  # refuses unknown names now, not at the first call


def _warn(text: str) -> None:
    warnings.warn(f"openbnns: {text}", RuntimeWarning, stacklevel=3)


_check_environment()
select(_initial())
select_accuracy(_initial_accuracy())

"""Environment variables, which are read once per process: what they do, and which values cause a warning."""

import subprocess
from types import SimpleNamespace

import pytest

import openbnns as bn
from helpers import python

SAY = "import openbnns as bn; from openbnns.runtime import config; c = config(); print({})"


def run(expression: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-W", "always", "-c", SAY.format(expression), **variables)


@pytest.mark.parametrize(
    ("variable", "value", "expression", "expected"),
    [
        ("OPENBNNS_NUM_THREADS", "3", "bn.get_num_threads()", "3"),
        ("OPENBNNS_ISA", "base", "c['instruction set']", "base"),
        ("OPENBNNS_ENGINE", "reference", "bn.current_engine()", "reference"),
        ("OPENBNNS_ENGINE", "native", "bn.current_engine()", "native"),
        ("OPENBNNS_ENGINE", "", "bn.current_engine()", "native"),
        ("OPENBNNS_COMPAT", "macos15", "bn.compat.tile_reversed_axes, c['compat']", "True macos15"),
        ("OPENBNNS_COMPAT", "documented", "c['compat']", "documented"),
        ("OPENBNNS_COMPAT", "", "c['compat']", "documented"),
        (
            "OPENBNNS_COMPAT",
            "tile_reversed_axes,attention_strict_cache",
            "c['compat']",
            "attention_strict_cache,tile_reversed_axes",
        ),
        ("OPENBNNS_STRICT", "1", "__import__('openbnns._strict')._strict.active()", "True"),
        ("OPENBNNS_ACCURACY", "exact", "bn.get_accuracy()", "exact"),
        ("OPENBNNS_ACCURACY", "exact", "c['accuracy']", "exact"),
        ("OPENBNNS_ACCURACY", "", "bn.get_accuracy()", "fast"),
    ],
)
def test_variables(variable: str, value: str, expression: str, expected: str) -> None:
    done = run(f"{expression}, '|', c['{variable}']", **{variable: value})
    assert (done.stdout, done.stderr) == (f"{expected} | {value}\n", "")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OPENBNNS_NUM_THREADS", "two", "OPENBNNS_NUM_THREADS is 'two' and has no effect. Set it to a whole number"),
        ("OPENBNNS_NUM_THREADS", "-1", "OPENBNNS_NUM_THREADS is '-1' and has no effect. Set it to a whole number"),
        ("OPENBNNS_STRICT", "yes", "OPENBNNS_STRICT is 'yes' and has no effect. Set it to 1 or 0, or leave it unset"),
        (
            "OPENBNNS_ISA",
            "sse",
            "OPENBNNS_ISA is 'sse', so the base kernels are used. Set it to 'amx', 'avx512', 'avx2' or",
        ),
    ],
)
def test_invalid_values_cause_a_warning(variable: str, value: str, message: str) -> None:
    done = run("bn.get_num_threads() > 0", **{variable: value})
    assert done.stdout.strip() == "True"
    assert f"RuntimeWarning: openbnns: {message}" in done.stderr


def test_amx_is_used_or_refused() -> None:
    has_amx = "AMX" in bn.runtime.config()["instructions"].split(", ")
    done = run("c['instruction set']", OPENBNNS_ISA="amx")
    if has_amx and bn.engines._core.system_has_amx():
        assert done.stdout.startswith("amx")
        return
    reason = "the system does not permit it" if has_amx else "this CPU has no AMX for bfloat16 and int8"
    assert done.returncode != 0
    assert f"ValueError: OPENBNNS_ISA is amx, but {reason}" in done.stderr
    assert "Set it to avx512, avx2 or base, or leave it unset." in done.stderr


def test_instructions_and_caches_are_told() -> None:
    told = bn.runtime.config()
    assert (told["AMX"] == "not in this CPU") == ("AMX" not in told["instructions"].split(", "))
    if told["machine"] == "x86_64":
        assert told["caches"].startswith("L1 ")
        assert ("AVX-512" in told["instructions"].split(", ")) >= (told["instruction set"] == "avx512")


@pytest.mark.parametrize(
    ("has", "chosen", "permitted", "told"),
    [
        (["AVX-512"], "avx512", False, "not in this CPU"),
        (["AVX-512", "AMX"], "avx512", False, "the system does not permit it"),
        (["AVX-512", "AMX"], "avx2", True, "off; OPENBNNS_ISA=amx uses it"),
        (["AVX-512", "AMX"], "amx", True, "in use"),
    ],
)
def test_the_state_of_amx(
    has: list[str], chosen: str, permitted: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"cpu_instructions": has, "instruction_set": chosen, "system_has_amx": permitted, "cache_bytes": []}
    core = SimpleNamespace(**{name: lambda answer=answer: answer for name, answer in answers.items()})
    monkeypatch.setattr(bn.engines, "_core", core)
    assert bn.runtime._amx() == told


@pytest.mark.parametrize("isa", ["avx2", "base"])
def test_bfloat16_networks_are_refused_without_instructions_for_them(isa: str) -> None:
    done = run("bn.nn.Trainer(bn.nn.Linear(2, 2), precision='bfloat16')", OPENBNNS_ISA=isa)
    assert done.returncode != 0
    assert f"uses the instruction set '{isa}': it would be no faster than float32" in done.stderr


def test_an_accuracy_that_does_not_exist() -> None:
    done = run("1", OPENBNNS_ACCURACY="high")
    assert done.returncode != 0
    assert "OPENBNNS_ACCURACY is 'high'. Set it to 'fast' or 'exact', or leave it unset." in done.stderr


def test_an_engine_that_does_not_exist() -> None:
    done = run("1", OPENBNNS_ENGINE="fast")
    assert done.returncode != 0
    assert "OPENBNNS_ENGINE is 'fast'. Set it to 'native' or 'reference', or leave it unset." in done.stderr


def test_a_compat_switch_that_does_not_exist() -> None:
    """Reported when the package is imported, not at the first call."""
    done = run("1", OPENBNNS_COMPAT="macos15,tile_reverse_axes")
    assert done.returncode != 0
    for words in (
        "OPENBNNS_COMPAT is 'macos15,tile_reverse_axes', but",
        "switch 'tile_reverse_axes'. Did you mean tile_reversed",
    ):
        assert words in done.stderr

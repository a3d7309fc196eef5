"""Every C function against tools/facts/functions.json: names, order, positional and keyword use, defaults."""

from __future__ import annotations

import inspect
import json
import keyword
from pathlib import Path
from typing import Any

import pytest

from openbnns import capi

FACTS = Path(__file__).parents[2] / "tools" / "facts"
FUNCTIONS: dict[str, dict[str, Any]] = json.loads((FACTS / "functions.json").read_text(encoding="utf-8"))

# Functions that are still to be written. One that exists must leave this set.
LATER: set[str] = set()

HERE = sorted(set(FUNCTIONS) - LATER)


def python_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def may_be_left_out(parameters: list[dict[str, Any]]) -> list[bool]:
    """A nullable parameter defaults to None only where every parameter after it does too."""
    flags: list[bool] = []
    for parameter in reversed(parameters):
        flags.append(parameter["nullable"] and all(flags))
    return flags[::-1]


def test_what_is_missing_is_listed() -> None:
    assert set(FUNCTIONS) - set(dir(capi)) == LATER
    assert len(FUNCTIONS) == 97 + 42
    assert {fact["also"] for fact in FUNCTIONS.values() if "also" in fact} <= set(dir(capi))


@pytest.mark.parametrize("name", HERE)
def test_signature(name: str) -> None:
    facts = FUNCTIONS[name]["parameters"]
    parameters = list(inspect.signature(getattr(capi, name)).parameters.values())
    assert [p.name for p in parameters] == [python_name(fact["name"]) for fact in facts]
    assert all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters)
    for parameter, optional in zip(parameters, may_be_left_out(facts), strict=True):
        assert parameter.default is (None if optional else inspect.Parameter.empty), parameter.name


@pytest.mark.parametrize("name", HERE)
def test_documented_and_typed(name: str) -> None:
    function = getattr(capi, name)
    assert inspect.getdoc(function)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize("name", HERE)
def test_wrong_number_of_arguments(name: str) -> None:
    facts = FUNCTIONS[name]["parameters"]
    with pytest.raises(TypeError):
        getattr(capi, name)(*[None] * (len(facts) + 1))
    required = len(facts) - sum(may_be_left_out(facts))
    if required:
        with pytest.raises(TypeError):
            getattr(capi, name)(*[None] * (required - 1))
    with pytest.raises(TypeError):
        getattr(capi, name)(surely_no_such_parameter=None)


def first_argument(fact: dict[str, Any]) -> Any:
    """NULL for a pointer or handle, 0 for a number, all zero for a struct."""
    if fact["type"].startswith("bnns_") and fact["type"].endswith("_t") and not fact["nullable"]:
        return getattr(capi, fact["type"])()
    is_pointer = "*" in fact["type"] or fact["type"] == "BNNSFilter"
    return None if is_pointer or fact["nullable"] else 0


@pytest.mark.parametrize("name", HERE)
def test_null_everywhere_by_position_and_by_name(name: str) -> None:
    """A call with nothing but NULL and 0 answers as C would: with a failure value, whichever way it is spelled."""
    facts = FUNCTIONS[name]["parameters"]
    values = [first_argument(fact) for fact in facts]
    by_position = getattr(capi, name)(*values)
    by_name = getattr(capi, name)(
        **{python_name(fact["name"]): value for fact, value in zip(facts, values, strict=True)}
    )
    if FUNCTIONS[name]["returns"]["type"] == "BNNSRandomGenerator":  # method 0 and seed 0 are as good as any
        assert isinstance(by_position, capi.BNNSRandomGenerator)
        assert isinstance(by_name, capi.BNNSRandomGenerator)
        return
    if name == "BNNSGraphCompileOptionsMakeDefault":  # which takes nothing
        assert by_position.data is not None
        return
    assert by_position == by_name
    match FUNCTIONS[name]["returns"]["type"]:
        case "int":
            assert by_position < 0
        case "BNNSFilter" | "void":
            assert by_position is None
        case "BNNSNDArrayDescriptor" | "bnns_graph_t" | "bnns_graph_context_t":
            assert by_position.data is None
        case "size_t":
            assert by_position in (0, 2**64 - 1)

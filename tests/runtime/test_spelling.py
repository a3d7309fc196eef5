"""Names in another spelling: every keyword that Swift writes in camelCase is answered with ours, and so are cases and names."""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import openbnns as ob
from openbnns import Shape, capi, cli, nn

FACES: tuple[ModuleType, ...] = (ob, nn)


WEIGHTS = np.ones((2, 3), np.float32)

HOOKS = {f"{name}.{hook}" for name in nn.__all__ for hook in ("check", "program")}
"""Methods that networks call, not their users."""


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _made(kind: type) -> Any:
    """An object without its ``__init__``."""
    return list.__new__(kind) if issubclass(kind, list) else object.__new__(kind)


def public_callables() -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    """Name, what is called, and what has the signature: functions, constructors, factories and methods."""
    for face in FACES:
        for name in face.__all__:
            thing = getattr(face, name)
            if inspect.isfunction(thing):
                yield name, thing, thing
            if not inspect.isclass(thing) or issubclass(thing, (enum.Enum, BaseException, tuple)):
                continue
            if inspect.isfunction(thing.__init__):
                yield name, thing, thing.__init__
            for key in dir(thing):
                method = inspect.getattr_static(thing, key)
                if key.startswith("_") or (
                    not isinstance(method, (staticmethod, classmethod)) and not inspect.isfunction(method)
                ):
                    continue
                bound = getattr(thing if not inspect.isfunction(method) else _made(thing), key)
                yield f"{name}.{key}", bound, bound


def keywords() -> Iterator[tuple[str, Callable[..., Any], list[str], str]]:
    """Every keyword of several words: its call, by name and itself, what else that needs, and the keyword."""
    for name, call, described in public_callables():
        parameters = inspect.signature(described).parameters
        if any(p.kind is p.VAR_KEYWORD and p.name != "misspelled" for p in parameters.values()) or name in HOOKS:
            continue
        for parameter in parameters.values():
            plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            if plain and camel(parameter.name) != parameter.name and not parameter.name.startswith("_"):
                needed = [
                    p.name
                    for p in parameters.values()
                    if p.default is p.empty and p.name not in ("self", parameter.name)
                    and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
                ]  # fmt: skip
                yield name, call, needed, parameter.name


def test_camel_case_keywords() -> None:
    wrong, count = [], 0
    for called, call, needed, name in keywords():
        count += 1
        with pytest.raises(TypeError) as raised:
            call(**dict.fromkeys(needed), **{camel(name): None})
        said = str(raised.value)
        answers = f"Did you mean {name}?", f"missing 1 required positional argument: '{name}'"
        if not any(answer in said for answer in answers) or isinstance(raised.value, ob.BNNSError):
            wrong.append(f"{called}({name}): {said}")
    assert not wrong
    assert count > 500


STRUCTS = [
    thing for name in capi.__all__ if isinstance(thing := getattr(capi, name), type) and hasattr(thing, "_kinds")
]


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_camel_case_fields(struct: Any) -> None:
    for name in struct._kinds:
        if camel(name) == name:
            continue
        with pytest.raises(
            TypeError, match=rf"{struct.__name__}: there is no field '{camel(name)}'\. Did you mean {name}\?"
        ):
            struct(**{camel(name): None})
        with pytest.raises(AttributeError, match=rf"there is no field '{camel(name)}'\. Did you mean {name}\?"):
            setattr(struct(), camel(name), None)


ENUMS = [
    thing
    for name in ob.__all__
    if isinstance(thing := getattr(ob, name), type) and issubclass(thing, enum.Enum) and len(thing) > 0
]


@pytest.mark.parametrize("kind", ENUMS, ids=lambda kind: kind.__name__)
def test_members_as_swift_spells_them(kind: type[enum.Enum]) -> None:
    assert len(ENUMS) >= 20
    for member in kind:
        swift = camel(member.name.lower())
        with pytest.raises(AttributeError) as raised:
            getattr(kind, swift)
        assert str(raised.value) == f"{kind.__name__} has no {swift!r}. Did you mean {kind.__name__}.{member.name}?"
        assert getattr(kind, member.name) is member


@pytest.mark.parametrize(
    ("kind", "name", "right"),
    [
        (ob.ActivationFunction, "relu", "rectified_linear"),
        (ob.ActivationFunction, "rectifiedLinear", "rectified_linear"),
        (ob.ActivationFunction, "leakyReLU", "leaky_rectified_linear"),
        (ob.ActivationFunction, "swish", "silu"),
        (ob.ActivationFunction, "geluApproximation2", "gelu_approximation2"),
        (ob.PoolingType, "Max", "max"),
        (ob.PoolingType, "unMaxEx", "un_max_ex"),
        (ob.LossFunction, "softmaxCrossEntropy", "softmax_cross_entropy"),
        (ob.ReductionFunction, "sumOfSquares", "sum_of_squares"),
        (Shape, "imageCHW", "image_chw"),
        (Shape, "matrixRowMajor", "matrix_row_major"),
    ],
)
def test_factories_under_other_names(kind: type, name: str, right: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"^{kind.__name__} has no '{name}'\. Did you mean {kind.__name__}\.{right}\(\)\?$"
    ):
        getattr(kind, name)


def test_names_without_any_neighbour_list_what_there_is() -> None:
    with pytest.raises(AttributeError, match="It has batch, instance, layer, group"):
        _ = ob.NormalizationType.qqqqq  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="It takes input, output, batch_size"):
        ob.FullyConnectedLayer(weights=np.ones((2, 3), np.float32)).apply(WEIGHTS, qqqqq=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "right"), [("gatherND", "gather_nd"), ("applyTopK", "apply_top_k"), ("copyBandPart", "copy_band_part")]
)
def test_functions_as_swift_spells_them(name: str, right: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. Did you mean {right}\?$"):
        getattr(ob, name)


def test_errors_from_inside_a_decorated_function_stay_as_they_are() -> None:
    with pytest.raises(TypeError, match="alpha must be a number, not str"):
        ob.ActivationFunction.elu(alpha="a")  # type: ignore[arg-type]


def test_fused_layers_take_their_inputs_by_name() -> None:
    layer = ob.FusedFullyConnectedNormalizationLayer(
        fully_connected_weights=WEIGHTS, normalization=ob.NormalizationType.batch(), normalization_epsilon=1e-5
    )
    for wrong, right in [("batchSize", "batch_size"), ("generatingInputGradient", "generating_input_gradient")]:
        with pytest.raises(TypeError, match=rf"got {wrong}\. Did you mean {right}\?$"):
            layer.apply_backward(**{wrong: None})
    with pytest.raises(TypeError, match=r"Did you mean batch_size\?$"):
        layer.apply(WEIGHTS, batchSize=2)


# Shapes.


@pytest.mark.parametrize(
    ("call", "cure"),
    [
        (lambda: ob.FullyConnectedLayer(weights=WEIGHTS, input=(3,)), r"input is the tuple \(3,\)\. Pass Shape\.vector\(3\)"),
        (lambda: ob.FullyConnectedLayer(weights=WEIGHTS, input=3), r"input is the number 3\. Pass Shape\.vector\(3\)"),
        (lambda: ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=[3, 4]), r"Pass Shape\(\[3, 4\]\)"),
        (lambda: ob.ActivationLayer(function=ob.ActivationFunction.tanh(), input=(3, 4, 5)), r"Pass Shape\.image_chw\(5, 4, 3\)"),
        (lambda: Shape.image_chw((3, 4, 5)), r"one by one, not in a tuple: Shape\.image_chw\(3, 4, 5\)\.$"),  # type: ignore
        (lambda: Shape.vector((3,)), r"must be whole numbers, got \(\(3,\),\)\. Pass them one by one: 3\."),  # type: ignore
        (lambda: capi.BNNSNDArrayDescriptor(shape=(3, 4)), r"must be a Shape such as Shape\(\[3, 4\]\), not tuple"),  # type: ignore
        (lambda: capi.BNNSNDArrayDescriptor.allocate(repeating=0, shape=(3, 4)), r"such as Shape\(\[3, 4\]\), not tuple"),  # type: ignore
    ],
)  # fmt: skip
def test_shapes_given_as_something_else(call: Callable[[], Any], cure: str) -> None:
    with pytest.raises((TypeError, ValueError), match=cure):
        call()


# Habits of PyTorch and Keras users.


@pytest.mark.parametrize("name", ["backward", "item", "detach"])
def test_a_loss_has_no_graph(name: str) -> None:
    result = nn.MSELoss()(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))
    value, gradient = result
    assert (value, gradient.shape) == (1.0, (2, 3))
    with pytest.raises(
        AttributeError,
        match=rf"no '{name}'.*\n.*\n    network\.backward\(gradient\)\n    optimizer\.step\(\)\n.*Trainer",
    ):
        getattr(result, name)


@pytest.mark.parametrize("metrics", [[max], 7, {"mae": 7}, {3: max}])
def test_metrics_are_functions_by_name(metrics: Any) -> None:
    with pytest.raises(TypeError, match=r"Trainer: metrics.*\(outputs, targets\)"):
        nn.Trainer(nn.Linear(1), "mse", metrics=metrics)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Adam(0.1, betas=(0.9,)), r"Adam: betas must be two numbers such as \(0\.9, 0\.999\), not \(0\.9,\)"),
        (lambda: nn.AdamW(0.1, betas=0.9), r"AdamW: betas must be two numbers such as \(0\.9, 0\.999\), not 0\.9"),  # type: ignore
        (lambda: nn.Adam(0.1, betas=(0.9, None)), "Adam: beta2 must be a number, not NoneType"),  # type: ignore
        (lambda: nn.SGD(0.1, momentum=None), "SGD: momentum must be a number, not NoneType"),  # type: ignore
        (lambda: nn.RMSprop(0.1, eps="small"), "RMSprop: eps must be a number, not str"),  # type: ignore
        (lambda: nn.BatchNorm2d(momentum=None), "BatchNorm2d: momentum must be a number, not NoneType"),  # type: ignore
    ],
)  # fmt: skip
def test_settings_that_are_no_numbers(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_an_output_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], inside: str) -> None:
    file = tmp_path / "results"
    file.write_text("something else")
    with pytest.raises(NotADirectoryError, match=r"results is a file, but out is a folder\. Give another name\.$"):
        nn.Trainer(nn.Linear(1), "mse", out=file / inside)
    assert cli.main(["train", "--epochs", "1", "--out", str(file / inside)]) == 2
    said = capsys.readouterr()
    assert "results is a file, but out is a folder" in said.err
    assert "Errno" not in said.err
    assert said.out == ""  # before anything is read or computed
    assert file.read_text() == "something else"


def test_messages_know_singular_and_plural() -> None:
    """No text leaves it to the reader, as "1 sample(s)" does."""
    package = Path(ob.__file__).parent
    lazy = re.compile(r"[a-z]\((?:s|es)\)")
    faults = [
        f"{path.relative_to(package)}:{node.lineno}: {node.value[:60]!r}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and lazy.search(re.sub(r"sqrt\(s\)", "", node.value))
    ]
    assert not faults

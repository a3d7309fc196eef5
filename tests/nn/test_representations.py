"""Representations of networks: texts, tables, names, and what editors know."""

from __future__ import annotations

import inspect
import os
import pickle
import site
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import numpy as np
import pytest

import openbnns
from networks import Net, numbers
from openbnns import compat, datasets, nn
from openbnns.graph.functions import resizing
from openbnns.nn import functional as F
from pages import Cells

# What layers show of themselves.

# Arguments that a layer cannot do without, and for every option another value than the default.
NEEDED: dict[str, Any] = {
    "out_features": 3, "in1_features": 2, "in2_features": 3, "out_channels": 4, "kernel_size": 2, "num_embeddings": 9,
    "embedding_dim": 3, "num_groups": 2, "output_size": 3, "norm_type": 2.0, "padding": 1, "value": 2.0, "embed_dim": 8,
    "num_heads": 2, "hidden_size": 3, "max_len": 5, "d_model": 8, "nhead": 2, "upscale_factor": 2, "downscale_factor": 2,
    "groups": 2, "dim": 1, "unflattened_size": (2, 2), "threshold": 0.1, "size": 3,
}  # fmt: skip
OTHER: dict[str, Any] = {
    "bias": False, "weight_init": "ones", "bias_init": "ones", "stride": 3, "padding": 1, "dilation": 2, "groups": 2,
    "padding_mode": "reflect", "output_padding": 1, "eps": 0.5, "momentum": 0.25, "affine": None, "track_running_stats": None,
    "elementwise_affine": False, "padding_idx": 1, "mode": None, "return_indices": True, "ceil_mode": True,
    "count_include_pad": False, "divisor_override": 3, "negative_slope": 0.5, "alpha": 0.5, "beta": 2.0, "lambd": 0.25,
    "num_parameters": 2, "init": 0.5, "approximate": "tanh", "dim": 0, "start_dim": 2, "end_dim": 2, "p": 0.25, "axis": 1,
    "num_layers": 2, "dropout": 0.25, "bidirectional": True, "last_only": True, "nonlinearity": "relu", "kdim": 5, "vdim": 5,
    "add_bias_kv": True, "add_zero_attn": True, "causal": True, "base": 100.0, "standard_deviation": 0.5, "interleaved": True,
    "offset": 2, "num_channels": 4, "num_features": 5, "in_features": 5, "in_channels": 4, "input_size": 5,
    "normalized_shape": 5, "max_val": 2.0, "min_val": -2.0, "dim_feedforward": 16, "layer_norm_eps": 0.5, "norm_first": True,
    "activation": abs, "d_model": 4, "threshold": 5.0, "value": 3.0, "k": 2.0,
}  # fmt: skip
# Taken because PyTorch has them; they change nothing.
NO_DIFFERENCE = {"inplace", "batch_first", "proj_size", "enable_nested_tensor", "mask_check"}

LAYERS = {
    name: kind
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and issubclass(kind, nn.Module) and name in nn.__all__
}
SPECIAL = {
    "Module", "Sequential", "ModuleList", "ModuleDict", "Residual", "Add", "Concatenate", "Activation", "Reshape",
    "TransformerEncoder", "TransformerDecoder", "Transformer", "Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d",
}  # fmt: skip


def options_of(kind: type[nn.Module]) -> tuple[dict[str, Any], dict[str, inspect.Parameter]]:
    """Arguments for the shortest call of a class, and its options."""
    parameters = dict(list(inspect.signature(kind.__init__).parameters.items())[1:])
    least = {name: NEEDED[name] for name, p in parameters.items() if p.default is p.empty and name in NEEDED}
    return least, {name: p for name, p in parameters.items() if p.default is not p.empty}


@pytest.mark.parametrize("name", sorted(set(LAYERS) - SPECIAL))
def test_every_option_shows(name: str) -> None:
    kind: Any = LAYERS[name]
    least, options = options_of(kind)
    plain = repr(kind(**least))
    assert plain.startswith(f"{name}(") and plain.endswith(")")
    for option, parameter in options.items():
        if option in NO_DIFFERENCE or (name == "Softplus" and option == "inplace"):
            continue
        other = OTHER[option]
        if other is None and option in ("affine", "track_running_stats"):
            other = not parameter.default
        elif option == "mode":
            other = "sum"
        further = {"stride": 2} if option == "output_padding" else {}
        if option == "dim" and name == "RotaryEncoding":
            other = 6
        if option in ("padding_mode",) and "Transpose" in name:
            continue  # it has one value
        if option == "return_indices" and name.endswith("3d"):
            continue  # which is refused
        shown = repr(kind(**{**least, **further, option: other}))
        assert shown != repr(kind(**{**least, **further})), f"{option}={other} does not show: {shown}"


def test_special_layers_show_their_options() -> None:
    assert repr(nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True)) == (
        "Upsample(scale_factor=2.0, mode='bilinear', align_corners=True)"
    )
    assert repr(nn.Reshape(1, 8, -1)) == "Reshape(1, 8, -1)"
    assert repr(nn.Concatenate(nn.ReLU(), axis=1)) == "Concatenate(axis=1\n  (0): ReLU()\n)"
    assert "activation=abs" in repr(nn.TransformerEncoderLayer(8, 2, 16, activation=abs))


def test_nested_modules_show_as_in_pytorch() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(9, 4, padding_idx=0)
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.heads = nn.ModuleDict({"tag": nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.1))})

    assert repr(Tagger()) == (
        "Tagger(\n"
        "  (embed): Embedding(9, 4, padding_idx=0)\n"
        "  (layers): ModuleList(\n"
        "    (0-2): 3 x Linear(4, 4)\n"
        "  )\n"
        "  (heads): ModuleDict(\n"
        "    (tag): Sequential(\n"
        "      (0): Linear(4, 2)\n"
        "      (1): Dropout(p=0.1)\n"
        "    )\n"
        "  )\n"
        ")"
    )
    assert repr(nn.ModuleList([nn.ReLU(), nn.Linear(2), nn.Linear(2)])) == (
        "ModuleList(\n  (0): ReLU()\n  (1-2): 2 x Linear(?, 2)\n)"
    )


# Tables.


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4), nn.Linear(4)
        self.scale = nn.Parameter(np.ones(4))

    def forward(self, x: nn.Value) -> nn.Value:
        y = F.mish(self.first(x))
        z: nn.Value = F.tanh(self.last(y) * self.scale + x) + x
        return z


def places(net: nn.Module) -> list[tuple[str, str]]:
    lines = str(net.summary()).splitlines()[2:-1]
    return [(line[:40].split("  ")[0].strip(), line.split("  ", 1)[1].strip().split("  ")[0]) for line in lines]


def test_summary_has_the_names_of_the_user() -> None:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(OrderedDict(project=nn.Linear(4), bend=nn.Tanh()))
            self.blocks = nn.ModuleDict({"left": Block(), "right": Block()})

        def forward(self, x: nn.Value) -> nn.Value:
            x = self.stem(x)
            return F.relu(self.blocks["left"](x) * self.blocks["right"](x))

    net = Whole().build((3,), seed=0)
    rows = places(net)
    names = [name for name, _ in rows]
    assert rows[0] == ("stem.project, stem.bend", "Linear + Tanh")
    for side in ("left", "right"):
        single = [part for name in names for part in name.split(", ")]  # whatever is fused
        block = [name.removeprefix(f"blocks.{side}.") for name in single if name.startswith(f"blocks.{side}.")]
        assert block[0] == "first" and set(block[1:-5]) == {"mish"}  # all steps of one call have one name
        assert block[-5:] == ["last", "mul", "add", "tanh", "add_1"]
    assert ", ".join(names).split(", ")[-2:] == ["mul", "relu"]
    text = str(net.summary())
    assert next(line for line in text.splitlines() if line.startswith("blocks.left.mul ")).split()[-1] == "4"  # scale
    assert text.splitlines()[-1].startswith(f"{sum(p.size for p in net.parameters())} parameters")
    assert repr(net.summary()) == text


def test_what_diverges_has_the_name_of_the_user() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2)

        def forward(self, x: nn.Value) -> nn.Value:
            y: nn.Value = self.linear(F.log(x - 5))
            return y

    with pytest.raises(nn.Diverged, match=r"first layer whose output is not finite is log \(log\)"):
        nn.Trainer(Wrong(), "mse", "sgd", quiet=True).fit(numbers(4, 2), numbers(4, 2), epochs=1)


def test_tables_for_notebooks() -> None:
    net = Net()
    assert net._repr_html_() is None  # not built: notebooks show the text
    net.build((4,), seed=0)
    for page in (net._repr_html_(), net.summary()._repr_html_()):
        assert page is not None
        cells = Cells()
        cells.feed(page)
        texts = [text for _, text in cells.texts]
        assert not cells.open and texts[:4] == ["layer", "computes", "output of a sample", "parameters"]
        assert "body.3, body.4" in texts and texts[-1].startswith("95 parameters")
    x, y = numbers(8, 4), np.arange(8) % 3
    trainer = nn.Trainer(net, quiet=True, seed=0)
    assert str(trainer.history) == "no epochs yet"
    history = trainer.fit(x, y, epochs=2, validation=(x, y))
    assert isinstance(history, nn.History) and history is trainer.history and isinstance(history, list)
    header = ["epoch", "step", "learning rate", "loss", "accuracy", "validation loss", "validation accuracy", "seconds"]
    cells = Cells()
    cells.feed(history._repr_html_())
    assert [text for _, text in cells.texts[:8]] == header
    assert repr(history).splitlines()[0].split("  ")[0] == "epoch" and len(str(history).splitlines()) == 4
    assert history.column("loss") == [record["loss"] for record in history] and history == list(history)
    with pytest.raises(KeyError, match=r"there is no 'los'\. Did you mean 'loss'\?"):
        history.column("los")


# Names that editors complete.

# Modules of other rooms whose names users find in ``nn``.
FROM_ELSEWHERE = {
    "openbnns.distributed",
    "openbnns.files.safetensors",
    "openbnns.interop.onnx",
    "openbnns.interop.torch",
    "openbnns.report",
}


@pytest.mark.parametrize(
    "module",
    [openbnns, openbnns.layers, openbnns.capi, nn, F, nn.losses, nn.metrics, nn.schedules, nn.transforms, nn.data, nn.models,
     nn.utils, nn.weights, nn.checkpoints, nn.initialisers, datasets, compat],
    ids=lambda module: module.__name__,
)  # fmt: skip
def test_dir_of_modules(module: ModuleType) -> None:
    shown = [name for name in dir(module) if not (name.startswith("__") and name.endswith("__"))]
    assert shown and not [name for name in shown if name.startswith("_")]
    assert "np" not in shown and "annotations" not in shown and "Any" not in shown
    values = {name: getattr(module, name) for name in shown}
    foreign = [
        name
        for name, value in values.items()
        if isinstance(value, ModuleType) and not value.__name__.startswith(module.__name__)
        if value.__name__ not in FROM_ELSEWHERE
    ]
    assert not foreign
    undocumented = [
        n for n, v in values.items() if (inspect.isfunction(v) or inspect.isclass(v)) if not inspect.getdoc(v)
    ]
    assert not undocumented, undocumented


def objects() -> dict[str, Any]:
    net = Net().build((4,), seed=0)
    trainer = nn.Trainer(Net(), quiet=True)
    seen: list[nn.Value] = []

    class Look(nn.Module):
        def forward(self, x: nn.Value) -> nn.Value:
            seen.append(x)
            return x * 2

    Look().build((3,))
    history = trainer.fit(numbers(8, 4), np.arange(8) % 3, epochs=1)
    return {
        "network": net, "linear": net.head, "conv": nn.Conv2d(1, 2, 3), "lstm": nn.LSTM(3, 2), "series": net.body,
        "list": nn.ModuleList([nn.ReLU()]), "trainer": trainer, "history": history, "parameter": net.head.weight,
        "value": seen[0], "summary": net.summary(), "optimizer": nn.Adam(), "loss": nn.MSELoss(), "metric": nn.metrics.F1(),
    }  # fmt: skip


def test_dir_of_objects() -> None:
    for name, thing in objects().items():
        shown = [n for n in dir(thing) if not (n.startswith("__") and n.endswith("__"))]
        assert not {n for n in shown if n.startswith("_")} - {"_repr_html_", "_table"}, (name, shown)
    made = objects()
    assert {"weight", "bias", "in_features", "forward", "parameters"} <= set(dir(made["linear"]))
    assert {"body", "head"} <= set(dir(made["network"])) and "program" not in dir(made["network"])
    assert {"data", "grad", "shape"} <= set(dir(made["parameter"])) and "make" not in dir(made["parameter"])
    assert {"reshape", "mean", "shape"} <= set(dir(made["value"])) and "producer" not in dir(made["value"])
    assert {"fit", "evaluate", "predict", "history"} <= set(dir(made["trainer"]))


def test_public_methods_have_docstrings() -> None:
    for kind in (
        nn.Module,
        nn.Sequential,
        nn.ModuleList,
        nn.ModuleDict,
        nn.Trainer,
        nn.Parameter,
        nn.Optimizer,
        nn.History,
    ):
        for name, member in inspect.getmembers(kind):
            if not name.startswith("_") and inspect.isfunction(member) and member.__module__.startswith("openbnns"):
                assert inspect.getdoc(member), f"{kind.__name__}.{name}"


# Names that may be given.


def test_literal_names_are_those_that_there_are() -> None:
    for literal, named in (
        (nn.losses.LossName, nn.losses.NAMED),
        (nn.optimizers.OptimizerName, nn.optimizers.NAMED),
        (nn.schedules.ScheduleName, nn.schedules.NAMED),
        (nn.initialisers.InitialiserName, nn.initialisers.NAMED),
    ):
        assert list(get_args(literal)) == list(named)
    names = get_args(nn.metrics.MetricName)
    assert [name for name in names if not name.startswith("top")] == list(nn.metrics.NAMED)
    assert set(nn.metrics.by_name(list(names))) == set(names)
    for mode in get_args(resizing.PadMode):
        assert F.pad(numbers(1, 2, 4), (1, 1), mode=mode).shape == (1, 2, 6)


TYPED = """
import numpy as np
import numpy.typing as npt
from openbnns import nn

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
x: npt.NDArray[np.float32] = np.zeros((3, 4), np.float32)
reveal_type(net[0])
reveal_type(net[0].weight)
reveal_type(net[:2])
reveal_type(net(x))
reveal_type(nn.Linear(2)(x))
reveal_type(nn.Linear(2).weight)
reveal_type(nn.ModuleList([nn.ReLU()])[1:])
reveal_type(nn.ModuleDict({"a": nn.Linear(2)})["a"].weight)
reveal_type(net.summary())

class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4)
        self.body = nn.Sequential(nn.ReLU())

    def forward(self, x: nn.Value) -> nn.Value:
        reveal_type(self.one(x))
        return self.body(self.one(x))

block = Block()
reveal_type(block.one.weight)
history = nn.Trainer(block, "mse", "adam", schedule="cosine", metrics=["mae", "top5"]).fit(x, x)
reveal_type(history)
reveal_type(nn.MSELoss()(x, x))
"""
REVEALED = [
    "openbnns.nn.containers.Part", "openbnns.graph.parameter.Parameter", "openbnns.nn.containers.Sequential",
    "numpy.ndarray[Any, numpy.dtype[Any]]", "numpy.ndarray[Any, numpy.dtype[Any]]", "openbnns.graph.parameter.Parameter",
    "openbnns.nn.containers.ModuleList", "openbnns.graph.parameter.Parameter", "openbnns.nn.profiling.Summary",
    "openbnns.graph.tensor.Tensor", "openbnns.graph.parameter.Parameter", "openbnns.nn.history.History",
    "tuple[Any, numpy.ndarray[Any, numpy.dtype[Any]]]",
]  # fmt: skip
REFUSED = {
    'nn.Trainer(block, "cross_entorpy")': "arg-type",
    'nn.Trainer(block, optimizer="adan")': "arg-type",
    'nn.Conv2d(3, 3, padding_mode="mirror")': "call-overload",
    'nn.Linear(3, weight_init="zero")': "call-overload",
    'nn.GELU("yes")': "arg-type",
    'nn.MSELoss(reduction="avg")': "arg-type",
    'nn.TransformerEncoderLayer(8, 2, activation="tanh")': "arg-type",
    "block.heda": "attr-defined",
}


def test_types(tmp_path: Path) -> None:
    program = tmp_path / "typed.py"
    program.write_text(TYPED + "\n".join(REFUSED) + "\n", encoding="utf-8")
    home = Path(openbnns.__file__).parents[1]
    installed = home in {Path(path) for path in site.getsitepackages()}  # where it is found without being told
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    environment |= {} if installed else {"MYPYPATH": str(home)}
    options = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    notes = [line.split('Revealed type is "')[1].rstrip('"') for line in lines if "Revealed type is" in line]
    plain = [n.replace("builtins.", "").replace("typing.", "").replace("[tuple[Any, ...]", "[Any") for n in notes]
    assert plain == REVEALED
    errors = [line for line in lines if ": error:" in line]
    assert len(errors) == len(REFUSED), done.stdout
    for line, (text, code) in zip(errors, REFUSED.items(), strict=True):
        assert f"[{code}]" in line, (text, line)


# Containers.


def test_named_series_keep_their_names() -> None:
    net = nn.Sequential(OrderedDict(conv=nn.Linear(3, 4), act=nn.ReLU(), head=nn.Linear(4, 2)))
    conv, _act, head = net
    assert net.conv is conv and net[-1] is head and "act" in dir(net) and head in net
    net[0] = other = nn.Linear(3, 4)
    assert net.conv is other and next(iter(net.state_dict())) == "conv.weight"  # the attribute follows
    part = net[1:]
    assert (
        isinstance(part, nn.Sequential)
        and part.head is head
        and list(part.state_dict()) == ["head.weight", "head.bias"]
    )
    del net[1]
    assert [name for name, _ in net.named_children()] == ["conv", "head"]
    with pytest.raises(AttributeError, match="Sequential has no attribute 'act'"):
        _ = net.act
    net.insert(1, nn.Tanh())
    assert [name for name, _ in net.named_children()] == ["conv", "1", "head"] and isinstance(net[1], nn.Tanh)
    assert net(numbers(2, 3)).shape == (2, 2)
    with pytest.raises(TypeError, match=r"'head' is not a position of a module.*Write \.head for a module by its name"):
        net["head"]  # type: ignore[call-overload]
    again = pickle.loads(pickle.dumps(net))
    assert repr(again) == repr(net) and again.head is again[2]


def test_parts_share_their_modules() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    head = net[:2]
    x = numbers(5, 3)
    before = head(x)
    net[0].weight.data[:] = 0
    net[0].bias.data[:] = 1
    np.testing.assert_array_equal(head(x), np.ones((5, 4)))
    assert not np.array_equal(before, head(x)) and head[0] is net[0]
    assert [type(m) for m in reversed(net)] == [nn.Linear, nn.ReLU, nn.Linear] and len(net[::2]) == 2
    assert getattr(net, "0") is net[0] and net.get_submodule("2") is net[2]


def test_series_as_in_pytorch() -> None:
    a, b, c = nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)
    net = nn.Sequential(a, b)
    net += [c]
    assert list(net) == [a, b, c] and list(net + nn.Sequential(b)) == [a, b, c, b] and list(net) == [a, b, c]
    assert list(net[:1] * 2) == [a, a] == list(2 * net[:1])
    np.testing.assert_allclose((net[:1] * 2)(numbers(2, 3)), a(a(numbers(2, 3))), rtol=1e-6)
    assert net.insert(0, b) is net and list(net) == [b, a, b, c]
    del net[1:3]
    assert list(net) == [b, c] and [name for name, _ in net.named_children()] == ["0", "1"]
    assert net.pop(0) is b and net[np.int64(0)] is c
    with pytest.raises(TypeError, match=r"Sequential: part 1 is 5, which is not an nn\.Module"):
        net.extend([a, 5])  # type: ignore[list-item]
    assert list(net) == [c]  # nothing was added
    with pytest.raises(IndexError, match="there is no module 3"):
        del net[3]
    for bad in (lambda: nn.Add(5), lambda: nn.Residual(nn.ReLU)):
        with pytest.raises(TypeError, match=r"which is not an nn\.Module"):
            bad()

    class Own(nn.Sequential):
        def __init__(self, width: int) -> None:
            super().__init__(nn.Linear(width), nn.ReLU())

    assert type(Own(3)[1:]) is nn.Sequential and len(Own(3)[1:]) == 1

    class Layers(nn.ModuleList):
        def __init__(self, width: int) -> None:
            super().__init__([nn.Linear(width), nn.ReLU()])

    assert type(Layers(3)[:1]) is nn.ModuleList and len(Layers(3)[:1]) == 1


def test_keys_of_dictionaries_hide_nothing() -> None:
    held = nn.ModuleDict({"training": nn.ReLU(), "left": nn.Linear(2, 2)})
    assert held.training is True and held.left is held["left"]
    held["training"] = nn.Tanh()
    assert held.training is True and isinstance(held["training"], nn.Tanh)


def test_parts_by_path_and_messages() -> None:
    net = Net().build((4,), seed=0)
    assert net.get_parameter("body.3.weight") is net.body[3].weight and net.get_submodule("") is net
    assert [name for name, _ in net.named_children()] == ["body", "head"]
    for bad, message in (
        (lambda: net.get_submodule("body.9"), r"there is no 'body\.9', as Sequential has no '9'\. It has '0', '1'"),
        (lambda: net.get_parameter("body.2.weight"), r"as Tanh has no 'weight'\. It has no parameters"),
        (lambda: net.haed, r"Net has no attribute 'haed'\. Did you mean 'head'\?"),  # type: ignore[attr-defined]
        (lambda: net.cuda(), r"Leave it out: everything computes in float32 on the CPU"),  # type: ignore[attr-defined]
        (lambda: net.fit(), r"nn\.Trainer\(net, loss, optimizer\)\.fit"),  # type: ignore[attr-defined]
    ):
        with pytest.raises(AttributeError, match=message):
            bad()
    with pytest.raises(TypeError, match=r"register_parameter: scale is a ndarray\. Pass an nn\.Parameter"):
        net.register_parameter("scale", np.ones(2))  # type: ignore[arg-type]
    seen: list[nn.Module] = []
    assert net.apply(seen.append) is net and seen[-1] is net and set(seen) == set(net.modules())


# Numbers of parameters.


def test_parameters_outside_of_forward() -> None:
    p = nn.Parameter(np.float32([1, -2]))
    with pytest.raises(TypeError, match=r"Parameter\(shape=\(2,\)\) is neither true nor false\. Use `is not None`"):
        bool(p)
    with pytest.raises(TypeError, match=r"is not one number\. Take one of its values"):
        float(p)
    assert (p > 0).tolist() == [True, False] and (p <= p).all() and len(p) == 2 and p.tolist() == [1.0, -2.0]
    one = nn.Parameter(np.float32([3]))
    assert float(one) == one.item() == 3.0 and int(one) == 3 and bool(one) and not bool(nn.Parameter(np.zeros(1)))

    class Branching(nn.Module):
        def __init__(self, ask: Any) -> None:
            super().__init__()
            self.scale, self.ask = nn.Parameter(np.ones(1)), ask

        def forward(self, x: nn.Value) -> nn.Value:
            return x if self.ask(self.scale) else -x

    for ask, message in (
        (bool, "is neither true nor false"), (lambda p: p > 0, "recorded once"), (float, "recorded once"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=message):
            Branching(ask).build((2,))

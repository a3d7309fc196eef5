"""Networks as C source code: compiled, run, and compared with the network bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import c_tools
import source_networks
from c_compilers import INCLUDE, Compiler
from function_arguments import ARGUMENTS, Draw
from function_checks import Applied, called, split
from openbnns import nn
from openbnns.filters.fully_connected import FullyConnected
from openbnns.graph import inference
from openbnns.graph.folding import fold_channel_factors
from openbnns.interop.source import NotInBNNS, Written
from openbnns.nn.data.preprocessing import ArrayPreparation
from openbnns.nn.recording import recorded_graph
from source_networks import NETWORKS, STEPS, compile_and_run

BATCH = 4
RNG = np.random.default_rng(5)


def trained(net: nn.Module, x: np.ndarray, targets: np.ndarray, loss: object, optimizer: nn.Optimizer) -> list[float]:
    step = net.train().compile_step(loss, optimizer, BATCH)
    return [step(x[i * BATCH : (i + 1) * BATCH], targets[i * BATCH : (i + 1) * BATCH]) for i in range(STEPS)]


def run_code(
    folder: Path, net: nn.Module, x: np.ndarray, targets: np.ndarray, loss: object, optimizer: nn.Optimizer
) -> tuple[Written, np.ndarray, np.ndarray]:
    """Losses and outputs of the code, which has trained for 20 steps."""
    written = net.to_c(folder, True, batch_size=BATCH, loss=loss, optimizer=optimizer)
    x.tofile(folder / "input")
    targets.tofile(folder / "targets")
    net.eval()
    sizes = {
        "INPUT_TYPE": "int64_t" if x.dtype == np.int64 else "float", "INPUT_BYTES": x.nbytes,
        "INPUT_COUNT": x[:BATCH].size, "OUTPUT_BYTES": net(x[:BATCH]).nbytes, "STEPS": STEPS, "TRAINING": 1,
        "TARGET_TYPE": "int64_t" if targets.dtype == np.int64 else "float", "TARGET_COUNT": targets[:BATCH].size,
    }  # fmt: skip
    if targets.dtype == np.int64:
        sizes["CLASSES"] = net(x[:BATCH]).shape[-1]
    compile_and_run(folder, **sizes)
    return written, np.fromfile(folder / "losses", np.float32), np.fromfile(folder / "output", np.float32)


@pytest.mark.parametrize("name", NETWORKS)
def test_code_trains_and_predicts_bit_for_bit(name: str, tmp_path: Path) -> None:
    net, sample = NETWORKS[name]()
    net.build(sample, seed=1)
    x = RNG.standard_normal((STEPS * BATCH, *sample)).astype(np.float32)
    targets = RNG.integers(0, 5, STEPS * BATCH)
    written, losses, output = run_code(tmp_path, net, x, targets, "cross_entropy", nn.Adam(0.01))
    ours = trained(net, x, targets, "cross_entropy", nn.Adam(0.01))
    assert len(set(ours)) == STEPS
    assert losses.tolist() == np.float32(ours).tolist()
    weights, state = written.read(tmp_path / "trained.weights"), net.state_dict()
    assert weights.keys() <= state.keys() and len(weights) >= len(list(net.parameters()))
    for path, array in weights.items():
        assert np.array_equal(array, state[path]), path
    assert np.array_equal(output, net.eval()(x[:BATCH]).reshape(-1))


def test_code_without_training(tmp_path: Path) -> None:
    """One sample at a time, unless another batch size is asked for; also with Clang, if it is here."""
    net, sample = NETWORKS["encoder"]()
    net.build(sample, seed=2).eval()
    net.to_c(tmp_path)
    assert "train_step" not in (tmp_path / "network.c").read_text() + (tmp_path / "network.h").read_text()
    x = RNG.standard_normal((1, *sample)).astype(np.float32)
    x.tofile(tmp_path / "input")
    compiler = "clang" if c_tools.command("clang") else "gcc"
    compile_and_run(tmp_path, compiler, INPUT_TYPE="float", INPUT_BYTES=x.nbytes, OUTPUT_BYTES=net(x).nbytes)
    assert np.array_equal(np.fromfile(tmp_path / "output", np.float32), net(x).reshape(-1))


class Mixed(nn.Module):
    """Parts that the four networks lack: a table, causal attention, parts joined, an expression, a product, several shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.attention = nn.Embedding(11, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.conv = nn.LayerNorm(8), nn.Conv1d(8, 4, 3, padding=1)
        self.scale = nn.Parameter(np.full((4, 1), 1.5, np.float32))
        self.head = nn.Linear(4 + 8, 3)

    def forward(self, x: nn.Value) -> nn.Value:
        x = self.table(x)
        y = self.norm(x + self.attention(x, x, x, need_weights=False, is_causal=True)[0])
        z = nn.functional.gelu(self.conv(nn.functional.transpose(y, 1, 2)) * self.scale)
        joined = nn.functional.cat([z.mean(2), nn.functional.softmax(y, -1).amax(1)], 1)
        return self.head(joined)


def test_code_of_other_layers_and_a_regression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Mixed()
    x = RNG.integers(0, 11, (STEPS * BATCH, 6))
    targets = RNG.standard_normal((STEPS * BATCH, 3)).astype(np.float32)
    net.build((6,), seed=3)
    optimizer = {"learning_rate": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}
    written, losses, output = run_code(tmp_path, net, x, targets, "mse", nn.SGD(**optimizer))
    ours = trained(net, x, targets, "mse", nn.SGD(**optimizer))
    assert losses.tolist() == np.float32(ours).tolist()
    weights, state = written.read(tmp_path / "trained.weights"), net.state_dict()
    assert all(np.array_equal(array, state[path]) for path, array in weights.items())
    # The factor behind the convolution is rounded with its weights in Python.
    np.testing.assert_allclose(output, net.eval()(x[:BATCH]).reshape(-1), rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(inference, "PASSES", [run for run in inference.PASSES if run is not fold_channel_factors])
    again = Mixed().build((6,))
    again.load_state_dict(state)
    assert np.array_equal(output, again.eval()(x[:BATCH]).reshape(-1))


def test_code_continues_from_an_optimizer_that_has_made_steps(tmp_path: Path) -> None:
    net, sample = NETWORKS["mlp"]()
    net.build(sample, seed=1)
    x = RNG.standard_normal((STEPS * BATCH, *sample)).astype(np.float32)
    targets = RNG.integers(0, 5, STEPS * BATCH)
    adam = nn.AdamW(net.parameters(), lr=0.01, amsgrad=True)
    trained(net, x, targets, "cross_entropy", adam)
    _, losses, _ = run_code(tmp_path, net, x, targets, nn.CrossEntropyLoss(label_smoothing=0.1), adam)
    assert (
        losses.tolist() == np.float32(trained(net, x, targets, nn.CrossEntropyLoss(label_smoothing=0.1), adam)).tolist()
    )


def test_code_of_a_pooling_that_networks_join_to_a_convolution(tmp_path: Path) -> None:
    """The network pools inside one kernel, which BNNS does not have: forward the same bits, backward rounded differently."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 3)
    ).build((1, 16, 16), seed=1)
    x = RNG.standard_normal((STEPS * BATCH, 1, 16, 16)).astype(np.float32)
    targets = RNG.integers(0, 3, STEPS * BATCH)
    _, losses, _ = run_code(tmp_path, net, x, targets, "cross_entropy", nn.SGD(0.01))
    ours = trained(net, x, targets, "cross_entropy", nn.SGD(0.01))
    assert losses[0] == np.float32(ours[0])
    np.testing.assert_allclose(losses, ours, rtol=1e-5)


def test_names_of_users_stay_in_their_comments(tmp_path: Path) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleDict({"*/ int evil;": nn.Linear(3, 3), 'a "b"\n': nn.Linear(3, 2), "int": nn.ReLU()})

        def forward(self, x: nn.Value) -> nn.Value:
            for part in self.parts.values():
                x = part(x)
            return x

    net = Named().build((3,)).eval()
    net.to_c(tmp_path)
    x = RNG.standard_normal((1, 3)).astype(np.float32)
    x.tofile(tmp_path / "input")
    compile_and_run(tmp_path, INPUT_TYPE="float", INPUT_BYTES=12, OUTPUT_BYTES=8)
    assert np.array_equal(np.fromfile(tmp_path / "output", np.float32), net(x).reshape(-1))


def test_comments_say_how_samples_are_prepared_and_what_outputs_mean(tmp_path: Path) -> None:
    prepare = ArrayPreparation((2,), mean=[50.25, 1], std=[9.5, 2], columns=["age", "*/ x"])
    card = nn.ModelCard("regression", ("price",), prepare, target_mean=(100.5,), target_std=(22.75,))
    net = nn.Linear(2, 1).build((2,), seed=0)
    net.save_model(tmp_path / "m.safetensors", card=card)
    net.to_c(tmp_path)
    code = (tmp_path / "network.c").read_text()
    for line in (
        "0: age: (x - 50.25) / 9.5", "1: * / x: (x - 1) / 2", "0: price = 22.75 * y + 100.5",
    ):  # fmt: skip
        assert f" *     {line}\n" in code, line
    np.zeros(2, np.float32).tofile(tmp_path / "input")
    compile_and_run(tmp_path, INPUT_TYPE="float", INPUT_BYTES=8, OUTPUT_BYTES=4)


def test_writing_leaves_the_network_as_it_is(tmp_path: Path) -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2)).build((6,), seed=4)

    x = RNG.standard_normal((8, 6)).astype(np.float32)
    net, other = make(), make()
    for one in (net, other):
        one(x)
    written = net.to_c(tmp_path, True, batch_size=8, loss="cross_entropy", optimizer="adam")
    assert net(x).tolist() == other(x).tolist()
    assert written.read(tmp_path / "network.weights").keys() == net.state_dict().keys()
    (made,) = recorded_graph(net).operations[-1].all_made()
    assert FullyConnected.description is None and made.layer._filter.description is None


class Strange(nn.Module):
    """Three layers that BNNS has not, and one that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.slopes, self.head = nn.GRU(4, 4, batch_first=True), nn.PReLU(), nn.Linear(4, 2)

    def forward(self, x: nn.Value) -> nn.Value:
        y = self.slopes(self.gru(x)[0])
        heads = y.reshape(y.shape[0], 1, 5, 4)
        return self.head(nn.functional.scaled_dot_product_attention(heads, heads, heads))


def test_layers_that_bnns_has_not_are_all_named(tmp_path: Path) -> None:
    net = Strange().build((5, 4))
    with pytest.raises(NotInBNNS, match="to_c: BNNS cannot run this network by itself") as caught:
        net.to_c(tmp_path / "code")
    reasons = dict(caught.value.layers)
    assert reasons["gru: GRU"] == "BNNS has no such cell. Use nn.LSTM."
    assert "nn.MultiheadAttention" in reasons["scaled_dot_product_attention: scaled_dot_product_attention"]
    assert "Python" in reasons["slopes: PReLU"]
    assert len(reasons) == 3 and not (tmp_path / "code").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "My Net"}, "to_c: name is 'My Net'. It begins all names in the code"),
        ({"name": ""}, "name is ''"),
        ({"name": "switch"}, "name is 'switch', which the code needs for itself or C and Swift reserve"),
        ({"batch_size": 0}, "to_c: batch_size"),
        ({"training": True}, "training=True needs a loss and an optimizer"),
        ({"loss": "mse"}, "loss and optimizer are for a training step"),
        (
            {"training": True, "loss": "mse", "optimizer": nn.Adagrad()},
            "Adagrad.*not an optimizer of BNNS. Use SGD, Adam",
        ),
        ({"training": True, "loss": "mse", "optimizer": nn.SGD(momentum=0.5, dampening=0.5)}, "dampening"),
        ({"training": True, "loss": "nll", "optimizer": "sgd"}, "NLLLoss.*not a loss of BNNS"),
        ({"training": True, "loss": nn.CrossEntropyLoss([1, 2]), "optimizer": "sgd"}, "without class weights"),
        ({"training": True, "loss": ["mse", "mse"], "optimizer": "sgd"}, "there are 2 losses"),
    ],
)
def test_bad_arguments(options: dict[str, object], message: str, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2)).build((3,))
    with pytest.raises(ValueError, match=message):
        net.to_c(tmp_path / "code", **options)
    assert not (tmp_path / "code").exists()


def test_a_network_without_sizes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"to_c: the network is not built.*build\(...\)"):
        nn.Sequential(nn.Linear(2)).to_c(tmp_path)


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    written = nn.Sequential(nn.Linear(3, 2)).build((3,)).to_c(tmp_path)
    (tmp_path / "short").write_bytes(b"123")
    with pytest.raises(ValueError, match="short has 3 bytes, but the weights of this network have 128"):
        written.read(tmp_path / "short")


def test_the_steps_of_the_tests_are_many_enough() -> None:
    assert source_networks.STEPS == 20


def test_export_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from openbnns.cli import main

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).build((3,), seed=1)
    model, code = tmp_path / "model.safetensors", tmp_path / "code"
    net.save_model(model, task="classification", classes=["no", "yes"])
    assert main(["export", str(model), "--to", "c", "-o", str(code), "--name", "answer", "--training"]) == 0
    said = capsys.readouterr().out
    assert "0, 1: Linear + ReLU  BNNSFilterCreateLayerFullyConnected" in said and "answer.weights" in said
    assert "answer_train_step" in (code / "answer.h").read_text()
    assert 'answer_classes[2] = {"no", "yes"};' in (code / "answer.c").read_text()
    assert main(["export", str(model), "--to", "swift", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["converted"][1]["layer"] == "2: Linear"
    assert 'static let classes = ["no", "yes"]' in (tmp_path / "model-swift" / "network.swift").read_text()
    assert main(["export", str(model), "--to", "c", "--name", "1st"]) == 2
    assert "name is '1st'" in capsys.readouterr().err
    nn.Sequential(nn.GRU(3, 4, batch_first=True)).build((5, 3)).save_model(model)
    assert main(["export", str(model), "--to", "c", "-o", str(tmp_path / "none")]) == 2
    assert "GRU" in (said := capsys.readouterr().err) and "nn.LSTM" in said


NOT_OF_SAMPLES = {"arange", "full", "multi_margin_loss", "multilabel_margin_loss", "one_hot", "ones", "zeros"}
COMPILED = {
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "div", "erf", "exp", "exp2",
    "floor", "log", "log2", "maximum", "minimum", "mul", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*ARGUMENTS} - NOT_OF_SAMPLES))
def test_the_code_of_every_function_compiles(name: str, tmp_path: Path) -> None:
    args, named = ARGUMENTS[name](Draw(1))
    parts, build = split(args)
    x = np.atleast_1d(parts[0])
    net = Applied(lambda x: called(name, build(args, [x, *parts[1:]]), named)).eval()
    net(x)
    try:
        net.to_c(tmp_path / "code", batch_size=len(x))
    except NotInBNNS:
        assert name not in COMPILED
        return
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-parameter")  # shapes may be all that it reads
    made = Compiler(("gcc",), "c11").run("-fsyntax-only", *warnings, f"-I{INCLUDE}", tmp_path / "code" / "network.c")
    assert made.returncode == 0, made.stderr

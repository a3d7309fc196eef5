"""Going on from a checkpoint: what must agree, what may differ, and what --override does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openbnns
from openbnns import cli, nn
from openbnns.nn import checkpoints, run_checkpoints
from openbnns.nn.checkpoints import CheckpointError
from training_runs import Array, copy, fit, mlp, points


def other(arrays: tuple[Array, Array]) -> tuple[Array, Array]:
    """The same samples but for one bit."""
    x = arrays[0].copy()
    x.view(np.uint8).flat[-1] ^= 1
    return x, arrays[1]


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "learning rate": ({"optimizer": nn.Adam(0.02)}, r"learning rate: 0\.01.* in the checkpoint, 0\.02.* now"),
    "schedule": ({"schedule": "cosine"}, "schedule: constant in the checkpoint, cosine now"),
    "batch size": ({"batch_size": 8}, "batch size: 16 in the checkpoint, 8 now"),
    "seed": ({"seed": 3}, "seed: 2 in the checkpoint, 3 now"),
    "optimizer": ({"optimizer": nn.SGD(0.01)}, "optimizer: Adam in the checkpoint, SGD now"),
    "betas": ({"optimizer": nn.Adam(0.01, betas=(0.8, 0.999))}, r"optimizer, beta1: 0\.9 in the checkpoint, 0\.8 now"),
    "decay": ({"optimizer": nn.Adam(0.01, weight_decay=0.1)}, r"optimizer, regularization_scale: 0\.0 .*, 0\.1 now"),
    "amsgrad": (
        {"optimizer": nn.Adam(0.01, amsgrad=True)},
        "optimizer, uses_ams_grad: False in the checkpoint, True now",
    ),
    "clipping": ({"clip_norm": 1.0}, r"optimizer, gradient_clipping: .* now"),
    "loss": ({"loss": nn.CrossEntropyLoss(label_smoothing=0.1)}, r"loss: 'CrossEntropyLoss\(.*0\.1"),
    "early stopping": ({"early_stopping": 3}, "early stopping: None in the checkpoint, 3 now"),
    "metrics": ({"metrics": {}}, r"metrics: \['accuracy'\] in the checkpoint, \[\] now"),
    "data": (
        {"data": other(points(90, 0))},
        r"training data: 90 samples of shape \(2,\), float32 and int64, but with other contents",
    ),
    "targets": ({"data": (points(90, 0)[0], 1 - points(90, 0)[1])}, "training data: .* other contents"),
    "more data": ({"data": points(91, 0)}, r"training data: 90 samples .* in the checkpoint, 91 samples .* now"),
    "validation": ({"validation": other(points(20, 9))}, "validation data: .* other contents"),
    "activation": (
        {"net": mlp(nn.ReLU(), nn.Dropout(0.2))},
        r"step 1 of the network: .* \+ Tanh\(\) gives .* in the checkpoint, .* \+ ReLU\(\) gives .* now",
    ),
    "dropout": (
        {"net": mlp(nn.Tanh(), nn.Dropout(0.5))},
        r"step 2 of the network: Dropout\(p=0\.2\) .*Dropout\(p=0\.5\)",
    ),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "run"
    fit(folder)
    return folder


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_listed_and_refused(begun: Path, tmp_path: Path, change: str) -> None:
    options, message = CHANGES[change]
    folder = copy(begun, tmp_path / "run")
    with pytest.raises(CheckpointError, match=message) as caught:
        fit(folder, 4, resume=True, **options)
    assert len(str(caught.value).splitlines()) == (4 if change == "decay" else 3)  # this difference, and no other one
    assert str(caught.value).endswith("--resume --override (in Python resume='override').")
    assert {p.name for p in folder.iterdir()} == {p.name for p in begun.iterdir()}


@pytest.mark.parametrize("change", CHANGES)
def test_override_goes_on_all_the_same(begun: Path, tmp_path: Path, change: str) -> None:
    options, message = CHANGES[change]
    folder, said = copy(begun, tmp_path / "run"), []
    kept = {path.name: path.read_bytes() for path in checkpoints.list_files(folder)}
    before = checkpoints.read(checkpoints.list_files(folder)[0]).part("network")
    rates = []
    take = nn.Optimizer.step

    def seen(self: nn.Optimizer) -> None:
        if not rates:
            for mine, theirs in zip(self.parameters, before.values(), strict=True):
                np.testing.assert_array_equal(mine.data, theirs)  # from these weights
        rates.append(self.learning_rate)
        take(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Optimizer, "step", seen)
        fit(folder, 5, resume="override", said=said, **options)
    assert "going on from the weights of the checkpoint with other settings" in said[0]
    assert re.search(message, said[0])
    assert rates, "nothing was trained"
    assert ("The optimizer starts anew" in " ".join(said)) == (change in ("optimizer", "amsgrad"))
    aside = {path.name: path.read_bytes() for path in checkpoints.list_files(folder / checkpoints.EARLIER)}
    assert aside == kept
    assert fit(folder, 5, resume=True, **options).size  # the new run has its own checkpoints now


def test_override_cannot_change_the_network(begun: Path, tmp_path: Path) -> None:
    folder = copy(begun, tmp_path / "run")

    def small() -> nn.Module:
        return nn.Sequential(nn.Linear(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(2))

    for resume in (True, "override"):
        with pytest.raises(CheckpointError, match=r"network, 0\.bias: shape \[16\] .*\[8\] now(?s:.*)do not fit this"):
            fit(folder, 4, resume=resume, net=small)
    with pytest.raises(ValueError, match=r"resume is 'always'\. Use True, False or 'override'"):
        fit(folder, 4, resume="always")


def test_more_epochs_are_a_continuation_unless_the_schedule_depends_on_them(tmp_path: Path) -> None:
    said: list[str] = []
    schedules = {"a": None, "b": nn.StepLR(step_size=7, gamma=0.5), "c": nn.LinearLR(total_iters=9)}
    for name, schedule in schedules.items():
        whole = fit(tmp_path / f"{name}1", 5, schedule=schedule)
        fit(tmp_path / name, 2, schedule=schedule)
        np.testing.assert_array_equal(fit(tmp_path / name, 5, True, schedule=schedule, said=said), whole)
        assert said[:2] == ["Training for 5 epochs in all instead of 2.", "Resuming at epoch 3, step 13."]
        said.clear()
    for schedule in ("cosine", "step", "warmup_cosine"):
        fit(tmp_path / schedule, 2, schedule=schedule)
        with pytest.raises(
            CheckpointError,
            match=rf"epochs: 2 in the checkpoint, 5 now, and the learning rates of the schedule {schedule} depend on",
        ):
            fit(tmp_path / schedule, 5, True, schedule=schedule)
        fit(tmp_path / schedule, 5, "override", schedule=schedule)
        with pytest.raises(CheckpointError, match=f"schedule: {schedule} in the checkpoint, .* now"):
            fit(tmp_path / schedule, 5, True, schedule=lambda step, total: 0.5)


def test_a_schedule_is_known_by_what_it_does(tmp_path: Path) -> None:
    fit(tmp_path, 2, schedule="cosine")
    fit(tmp_path, 2, True, schedule=nn.CosineAnnealingLR())
    with pytest.raises(CheckpointError, match=r"schedule: cosine in the checkpoint, .* now"):
        fit(tmp_path, 2, True, schedule=nn.PolynomialLR(total_iters=12))


def test_nothing_to_do(begun: Path, tmp_path: Path) -> None:
    folder, said = copy(begun, tmp_path / "run"), []
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    weights = fit(folder, 4, resume=True, said=said)
    assert said == [f"{folder}: nothing to do, 4 epochs are done."]
    said.clear()
    np.testing.assert_array_equal(fit(folder, 2, resume=True, said=said), weights)
    assert said == [f"{folder}: nothing to do, 4 epochs are done already and 2 were asked for."]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    said.clear()
    stopped = fit(tmp_path / "early", 90, optimizer=nn.Adam(0.1), early_stopping=3)
    again = fit(tmp_path / "early", 90, True, optimizer=nn.Adam(0.1), early_stopping=3, said=said)
    assert "nothing to do" in said[0] and "training stopped early" in said[0]
    np.testing.assert_array_equal(again, stopped)


def test_an_epoch_starts_again_when_its_order_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openbnns.nn.training_run import Run

    def interrupted(self: Run, *arguments: Any) -> None:
        self.batch += 2
        self._interrupt("SIGTERM")

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_run_epoch", interrupted)
        with pytest.raises(nn.Interrupted):
            fit(tmp_path)
    said: list[str] = []
    fit(tmp_path, resume="override", seed=5, said=said)
    assert "Epoch 1 starts again: the samples or their order differ." in said
    assert "Resuming at epoch 1, step 1." in said


def test_another_patience_keeps_the_best_epoch_so_far(tmp_path: Path) -> None:
    x = np.random.RandomState(0).standard_normal((40, 3)).astype(np.float32)
    y = ((x[:, 0] > 0) ^ (np.arange(40) > 19)).astype(
        np.int64
    )  # the opposite for validation, whose loss therefore rises
    said: list[str] = []

    def fit(stopping: Any, epochs: int, resume: Any) -> nn.Trainer:
        trainer = nn.Trainer(
            nn.Sequential(nn.Linear(16), nn.ReLU(), nn.Linear(2)), optimizer=nn.Adam(0.05), seed=1, out=tmp_path,
            early_stopping=stopping, say=said.append,
        )  # fmt: skip
        trainer.fit(x[:20], y[:20], epochs=epochs, validation=(x[20:], y[20:]), resume=resume)
        return trainer

    best = fit(nn.EarlyStopping(None), 8, False).chosen_epoch
    assert best < 8
    assert fit(20, 10, "override").chosen_epoch == best
    assert any("early stopping: 'never' in the checkpoint, 20 now" in line for line in said)
    assert not any("no longer counts" in line for line in said)


def test_a_best_epoch_on_other_samples_no_longer_counts(tmp_path: Path) -> None:
    fit(tmp_path, 3, early_stopping=9)
    said: list[str] = []
    fit(tmp_path, 4, "override", early_stopping=9, validation=points(30, 4), said=said)
    assert "The best epoch so far no longer counts: it was chosen by another measure." in said
    assert said[-1] == "The weights are those of epoch 4: it has the lowest validation loss."


def test_other_settings_of_the_library_count(begun: Path, tmp_path: Path) -> None:
    folder = copy(begun, tmp_path / "run")
    with (
        openbnns.compat.using(optimizer_scale_before_clip=True),
        pytest.raises(CheckpointError, match=r"switches: .* now"),
    ):
        fit(folder, 4, True)
    with openbnns.engine("reference"), pytest.raises(CheckpointError, match=r"engine: 'native' .*, 'reference' now"):
        fit(folder, 4, True)


def test_numbers_inside_of_layers_count(tmp_path: Path) -> None:
    x = np.random.RandomState(0).standard_normal((20, 6, 8)).astype(np.float32)

    def run(dropout: float, causal: bool, resume: bool) -> None:
        encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=dropout)
        encoder.self_attn.causal = causal
        net = nn.Sequential(encoder, nn.LSTM(8, num_layers=2, dropout=dropout), nn.Flatten(), nn.Linear(2))
        nn.Trainer(net, out=tmp_path, quiet=True).fit(x, np.arange(20) % 2, epochs=1, resume=resume)

    run(0.1, False, False)
    run(0.1, False, True)
    with pytest.raises(CheckpointError, match=r"MultiheadAttention\(.*dropout=0\.1.*dropout=0\.3"):
        run(0.3, False, True)
    with pytest.raises(CheckpointError, match=r"causal=False.* in the checkpoint, .*causal=True"):
        run(0.1, True, True)


def test_fingerprints_see_every_bit_they_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points(1000, 0)
    first = run_checkpoints.fingerprint(x, y)
    assert run_checkpoints.fingerprint(x.copy(), y.copy()) == first
    assert run_checkpoints.fingerprint(*other((x, y))) != first
    assert run_checkpoints.fingerprint(x.astype(np.float64), y)["sha256"] != first["sha256"]
    assert run_checkpoints.fingerprint(x.reshape(500, 4), y[:500])["sha256"] != first["sha256"]
    monkeypatch.setattr(run_checkpoints, "_HASHED_WHOLE", 1000)  # large arrays are sampled
    monkeypatch.setattr(run_checkpoints, "_BLOCKS", 8)
    monkeypatch.setattr(run_checkpoints, "_BLOCK", 16)
    sampled = run_checkpoints.fingerprint(x, y)
    assert sampled != first and run_checkpoints.fingerprint(*other((x, y))) != sampled
    changed = x.copy()
    changed[0, 0] += 1
    assert run_checkpoints.fingerprint(changed, y) != sampled


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = points(80, 0)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    np.savez(tmp_path / "b.npz", x=-x, y=y)
    common = ["train", "--model", "mlp", "--epochs", "2", "--no-report", "--out", str(tmp_path / "run")]

    def run(*arguments: str, data: str = "a.npz") -> tuple[int, str, str]:
        code = cli.main([*common, "--data", str(tmp_path / data), *arguments])
        return code, *capsys.readouterr()

    assert run()[0] == 0
    code, out, err = run("--resume")
    assert code == 0 and "nothing to do, 2 epochs are done." in out
    for arguments, data, message in [
        (["--lr", "0.5"], "a.npz", "  learning rate: 0.00"),
        (
            ["--epochs", "3"],
            "a.npz",
            "  epochs: 2 in the checkpoint, 3 now, and the learning rates of the schedule cosine",
        ),
        (["--schedule", "constant"], "a.npz", "  schedule: cosine in the checkpoint, constant now"),
        ([], "b.npz", "  training data: 56 samples of shape (2,), float32 and int64, but with other contents"),
        (["--seed", "1"], "a.npz", "  seed: 0 in the checkpoint, 1 now"),
    ]:
        code, out, err = run("--resume", *arguments, data=data)
        assert code == 2 and message in err and "--resume --override" in err, err
    code, out, err = run("--resume", "--override", "--lr", "0.5", "--epochs", "3")
    assert (
        code == 0 and "going on from the weights" in out and "learning rate: " in out and "Resuming at epoch 3" in out
    )
    code, out, err = run("--override")
    assert code == 2 and "--override has a meaning only with --resume." in err

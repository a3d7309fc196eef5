"""The limit for memory that files and descriptions ask for."""

import tracemalloc
from pathlib import Path

import pytest

from openbnns.cli import main
from openbnns.files import memory_limit
from openbnns.files.untrusted import DataError
from openbnns.nn import models
from openbnns.nn.models import ModelError


@pytest.mark.parametrize(("given", "expected"), [("", 2**30), ("500M", 500 * 2**20), ("8GiB", 2**33), ("12", 12)])
def test_environment(monkeypatch: pytest.MonkeyPatch, given: str, expected: int) -> None:
    monkeypatch.setenv(memory_limit.VARIABLE, given)
    assert memory_limit.limit() == expected
    assert memory_limit.limit(2**30) == (expected if given else 20 * 2**30)


def test_a_limit_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory_limit.VARIABLE, "plenty")
    with pytest.raises(
        ValueError, match=r"^OPENBNNS_MEMORY_LIMIT is 'plenty'\. Give a number of bytes such as 500M or 8G\.$"
    ):
        memory_limit.limit()


def test_the_message_names_a_setting_that_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory_limit.VARIABLE, raising=False)
    memory_limit.check(2**30, "a.toml: layer 1")
    message = (
        r"^a\.toml: layer 1 takes 3\.353 GiB, more than the limit of 1 GiB\. If you trust its source and have the memory, set "
        r"the environment variable OPENBNNS_MEMORY_LIMIT=4G \(in Python: os\.environ\[\"OPENBNNS_MEMORY_LIMIT\"\] = \"4G\"\)\.$"
    )
    with pytest.raises(DataError, match=message):
        memory_limit.check(3_600_000_000, "a.toml: layer 1", DataError)
    with pytest.raises(ValueError, match=r"more than the limit of 1 GiB\. No machine has that much"):
        memory_limit.check(2**90, "a.toml: layer 1")
    monkeypatch.setenv(memory_limit.VARIABLE, "4G")
    memory_limit.check(3_600_000_000, "a.toml: layer 1", DataError)


def layers(*tables: str) -> str:
    return "".join(f"[[layers]]\n{table}\n" for table in tables)


LINEAR = 'type = "Linear"\nout_features = {}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            layers(LINEAR.format(30_000), LINEAR.format(30_000)),
            r"Linear\.weight of shape \(30000, 30000\), with all parameters",
        ),
        (layers(LINEAR.format(400_000_000)), r"out_features = 400000000: a vector of that size takes 1\.49 GiB"),
        (layers(LINEAR.format(70_000_000)), r"Linear\.weight of shape \(70000000, 8\), with all parameters before it"),
        (
            layers('type = "BatchNorm1d"\nnum_features = 2_000_000_000'),
            r"num_features = 2000000000: a vector of that size",
        ),
        (
            layers('type = "Residual"\nbody = [{ type = "Linear", out_features = 60_000_000 }]'),
            r"Linear\.weight of shape \(60000000, 8\)",
        ),
    ],
)
def test_parameters_of_a_description(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "net.toml").write_text(text)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=rf"net\.toml: .*{message}.*the limit of 1 GiB.*OPENBNNS_MEMORY_LIMIT=\dG"):
            models.from_file(tmp_path / "net.toml").build((8,), seed=0)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_descriptions_within_a_limit_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.toml").write_text(layers(*['type="Linear"\nout_features=100'] * 3))
    monkeypatch.setenv(memory_limit.VARIABLE, "80K")
    with pytest.raises(ModelError, match=r"Linear\.weight of shape \(100, 100\).* takes 82\.03 KiB"):
        models.from_file(tmp_path / "net.toml").build((8,))
    monkeypatch.setenv(memory_limit.VARIABLE, "100K")
    assert models.from_file(tmp_path / "net.toml").build((8,)).built


def test_outputs_of_a_description(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.toml").write_text(layers('type="Upsample"\nscale_factor=4000', 'type="Flatten"', 'type="ReLU"'))
    command = ["train", "digits", "--model", str(tmp_path / "net.toml"), "--out", str(tmp_path / "out"), "--quiet"]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "what the layers give for one sample" in said and "OPENBNNS_MEMORY_LIMIT=" in said


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**20, "1 MiB"), (2**30 - 1, "1024 MiB"),
     (5 * 2**30, "5 GiB"), (3 * 2**40, "3 TiB")],
)  # fmt: skip
def test_numbers_of_bytes_are_shown_in_units(count: int, text: str) -> None:
    assert memory_limit.size_text(count) == text

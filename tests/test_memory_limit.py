"""The limit for memory that files and descriptions ask for."""

import pytest

from openbnns.nn import memory_limit
from openbnns.nn.files import DataError


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

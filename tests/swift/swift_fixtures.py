"""The module of the Swift package, built once for all tests."""

from __future__ import annotations

import pytest

from swift.swift_tools import Module


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    """The module Accelerate, optimized, as `openbnns swift-flags` builds it."""
    return Module(tmp_path_factory.mktemp("module"))

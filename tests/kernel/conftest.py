"""A kernel cache of its own for each test."""

from __future__ import annotations

import pytest

from fresh_cache import Fresh


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    return Fresh(monkeypatch, tmp_path / "cache")

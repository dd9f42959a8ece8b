"""Counts the calls of functions under vmap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from numod.func import batching


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """The calls for all examples at once that were not given up."""
    calls, whole = [], batching._call_once

    def counted(*arguments: object) -> object:
        result = whole(*arguments)
        calls.append(arguments[0])
        return result

    monkeypatch.setattr(batching, "_call_once", counted)
    yield calls

"""Processors without the products of bytes, on this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from numod.kernel import registers
from numod.kernel.registers import byte_tiles


def _forget() -> None:
    byte_tiles.functions.cache_clear()
    registers.functions.cache_clear()


@pytest.fixture(params=[byte_tiles.PAIRS, byte_tiles.SATURATING])
def without_vnni(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Products of words without VNNI. Ops of a name of their own have kernels for these."""
    kind = request.param
    if kind == byte_tiles.SATURATING and byte_tiles.products() == byte_tiles.PAIRS:
        pytest.skip("the processor has no product of bytes")
    monkeypatch.setattr(byte_tiles, "products", lambda: kind)
    _forget()
    yield kind
    monkeypatch.undo()
    _forget()

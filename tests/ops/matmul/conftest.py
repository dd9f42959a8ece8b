"""Processors without the products of bytes, on this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from numod.kernel import registers
from numod.kernel.registers import byte_tiles
from numod.ops.matmul.int8_linear import packing_of_bytes


def _forget() -> None:
    byte_tiles.functions.cache_clear()
    registers.functions.cache_clear()
    packing_of_bytes.cache_clear()


@pytest.fixture
def without_vnni(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Words hold two 16-bit numbers in place of four bytes. Ops of a name of their own have kernels for these."""
    monkeypatch.setattr(byte_tiles, "products", lambda compact=False: byte_tiles.PAIRS)
    _forget()
    yield
    monkeypatch.undo()
    _forget()

"""Texts as characters."""

from __future__ import annotations

import pytest

import numod
from numod.datasets import Characters, load_docstrings


def test_docstrings_are_text_of_the_standard_library() -> None:
    text = load_docstrings(5000)
    assert len(text) == 5000 and text == load_docstrings(5000)
    data = Characters(text, length=16)
    x, y = data[3]
    assert (
        data.decode(x) == text[48:64]
        and data.decode(y) == text[49:65]
        and numod.equal(data[-1][0], data[len(data) - 1][0])
    )
    assert len(data) == (5000 - 17) // 16 + 1
    with pytest.raises(ValueError, match="not in the vocabulary"):
        data.encode("\x00")
    with pytest.raises(IndexError):
        data[len(data)]

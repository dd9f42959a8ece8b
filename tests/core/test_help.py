"""Examples in docstrings run and give the outputs that they show."""

from __future__ import annotations

import doctest
import inspect

import pytest

import numod
from numod.core import row_texts


@pytest.mark.parametrize("name", sorted(row_texts.TEXTS))
def test_the_example_of_an_elementwise_function(name: str) -> None:
    sentence, example, output = row_texts.TEXTS[name]
    assert sentence.endswith(".")
    assert repr(eval(example, {"torch": numod})) == output


def test_help_has_signature_sentence_shapes_and_example() -> None:
    text = inspect.getdoc(numod.exp)
    assert text.startswith("Exponential of each element") and "Shape:" in text
    assert doctest.DocTestParser().get_examples(text)[0].want == "tensor([1.0000, 2.7183])\n"
    assert str(inspect.signature(numod.exp)) == "(input, *, out=None)"


def test_functions_without_a_text_of_their_own_are_few() -> None:
    spaces = (numod, numod.special)
    plain = [
        name
        for space in spaces
        for name in dir(space)
        if (inspect.getdoc(getattr(space, name)) or "").endswith("of each element; tensors broadcast.")
    ]
    assert plain == []

"""Examples in docstrings run and give the outputs that they show."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest

import numod
from numod import docs, nn, optim
from numod.core import row_texts

GLOBALS = {"torch": numod, "nn": nn, "F": nn.functional, "optim": optim}


def documented() -> dict[str, str]:
    """The docstrings of public functions and classes, by path; each object once."""
    texts, seen = {}, set()
    for space in docs.NAMESPACES:
        for name, value in docs.public_members(importlib.import_module(space)):
            if id(value) not in seen:
                texts[f"{space}.{name}"] = inspect.getdoc(value)
            seen.add(id(value))
    for name, value in vars(numod.Tensor).items():
        if callable(value) and not name.startswith("_") and inspect.getdoc(value) not in texts.values():
            texts[f"numod.Tensor.{name}"] = inspect.getdoc(value) or ""
    return texts


ALL = documented()
TEXTS = {path: text for path, text in ALL.items() if ">>>" in text}


@pytest.mark.parametrize(
    "path", sorted(path for path in TEXTS if path.rpartition(".")[2] not in row_texts.TEXTS or ".Tensor." in path)
)
def test_the_example_of_a_docstring(path: str) -> None:
    example = doctest.DocTestParser().get_doctest(TEXTS[path], dict(GLOBALS), path, None, None)
    report: list[str] = []
    outcome = doctest.DocTestRunner().run(example, out=report.append)
    assert outcome.attempted and not outcome.failed, "".join(report)


def test_nearly_all_functions_layers_optimizers_and_distributions_have_an_example() -> None:
    spaces = docs.NAMESPACES[: docs.NAMESPACES.index("numod.utils")]
    paths = [path for path in ALL if path.rpartition(".")[0] in spaces]
    missing = [path for path in paths if path not in TEXTS]
    assert len(missing) <= 0.05 * len(paths), missing


def test_most_methods_of_tensors_have_an_example() -> None:
    methods = [name for name, value in vars(numod.Tensor).items() if callable(value) and not name.startswith("_")]
    missing = [name for name in methods if ">>>" not in (inspect.getdoc(getattr(numod.Tensor, name)) or "")]
    assert len(missing) <= 0.15 * len(methods), missing


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

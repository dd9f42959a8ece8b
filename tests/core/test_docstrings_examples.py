"""Examples in docstrings run and give the outputs that they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

import pytest
from selection import every

import numod
from numod import docs, nn, optim
from numod.core import docstrings, row_texts

GLOBALS = {"torch": numod, "nn": nn, "F": nn.functional, "optim": optim}


def documented() -> dict[str, object]:
    """Public functions and classes, and methods of tensors, by path; each object once."""
    objects, seen = {}, set()
    for space in docs.NAMESPACES:
        for name, value in docs.public_members(importlib.import_module(space)):
            if id(value) not in seen:
                objects[f"{space}.{name}"] = value
            seen.add(id(value))
    for name, value in vars(numod.Tensor).items():
        if callable(value) and not name.startswith("_"):
            objects[f"numod.Tensor.{name}"] = value
    return objects


def example(text: str) -> str:
    return text.partition("Example:\n")[2]


OBJECTS = documented()
ALL = {path: inspect.getdoc(value) or "" for path, value in OBJECTS.items()}
# the paths whose examples run: a method often has the example of its function
EXAMPLES = {example(text): path for path, text in reversed(ALL.items()) if ">>>" in text}
TEXTS = {path: ALL[path] for path in EXAMPLES.values()}


WITH_EXAMPLES = sorted(path for path in TEXTS if path.rpartition(".")[2] not in row_texts.TEXTS or ".Tensor." in path)


@pytest.mark.parametrize("path", every(2, WITH_EXAMPLES, others=pytest.mark.fuzz))
def test_the_example_of_a_docstring(path: str) -> None:
    test = doctest.DocTestParser().get_doctest(TEXTS[path], dict(GLOBALS), path, None, None)
    report: list[str] = []
    outcome = doctest.DocTestRunner().run(test, out=report.append)
    assert outcome.attempted and not outcome.failed, "".join(report)


# namespaces whose functions and classes have all sections; the others are tools
SPACES = docs.NAMESPACES[: docs.NAMESPACES.index("numod.utils")]
COMPLETE = {path: value for path, value in OBJECTS.items() if path.rpartition(".")[0] in (*SPACES, "numod.Tensor")}


def parameters(value: object) -> list[str]:
    try:
        names = inspect.signature(value).parameters
    except ValueError:  # an exception class
        return []
    return [name for name in names if name != "self" and name[0] != "_"]


def assert_nearly_all(missing: list, total: int) -> None:
    assert len(missing) <= 0.02 * total, missing


def test_nearly_all_parameters_are_described() -> None:
    missing = [
        (path, name)
        for path, value in COMPLETE.items()
        for name in parameters(value)
        if not re.search(rf"^ +\*{{0,2}}{name}( \(.*)?:", ALL[path], re.MULTILINE)
    ]
    assert_nearly_all(missing, len(COMPLETE))


def test_nearly_all_docstrings_name_shapes() -> None:
    """Of objects with tensors; the table says of others that they have none."""
    missing = [
        path
        for path in COMPLETE
        if not re.search(r"^Shapes?: ", ALL[path], re.MULTILINE)
        and docstrings.lookup(path.removeprefix("numod."))["Shape"] != ["none"]
    ]
    assert_nearly_all(missing, len(COMPLETE))


def test_nearly_all_docstrings_of_objects_with_parameters_name_errors() -> None:
    paths = [path for path, value in COMPLETE.items() if parameters(value)]
    missing = [path for path in paths if "Raises" not in ALL[path]]
    assert len(missing) <= 0.05 * len(paths), missing


def test_nearly_all_docstrings_have_an_example() -> None:
    assert_nearly_all([path for path in COMPLETE if ">>>" not in ALL[path]], len(COMPLETE))


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

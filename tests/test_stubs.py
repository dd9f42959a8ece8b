"""The stubs for editors and type checkers name nothing that is not there.

(Whether they are up to date: `python tests/stubs.py` and `git diff`.)
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import numod

PACKAGE = Path(numod.__file__).parent
STUBS = sorted(PACKAGE.rglob("*.pyi"))


def defined(body: list[ast.stmt]) -> Iterator[str]:
    """The public names that a stub's module or class defines."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (name.asname for name in node.names if name.asname == name.name)
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


@pytest.mark.parametrize("path", STUBS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_names_in_stubs_exist(path: Path) -> None:
    parts = [part for part in path.relative_to(PACKAGE).with_suffix("").parts if part != "__init__"]
    module, tree = importlib.import_module(".".join(["numod", *parts])), ast.parse(path.read_text(encoding="utf-8"))
    assert [name for name in defined(tree.body) if not hasattr(module, name)] == []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.bases:
            assert [name for name in defined(node.body) if not hasattr(getattr(module, node.name), name)] == []


def test_stubs_know_functions_and_methods_of_tables() -> None:
    namespace, tensor = ((PACKAGE / name).read_text(encoding="utf-8") for name in ("__init__.pyi", "core/tensor.pyi"))
    assert "\ndef exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:" in namespace
    assert (
        "\n    def add_(self, other: Tensor | _float | _complex, *, alpha: _float | _complex | None = 1) -> Tensor:"
        in tensor
    )

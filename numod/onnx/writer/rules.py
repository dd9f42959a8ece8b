"""The table of rules: how the steps of an op become ONNX nodes.

A rule takes the translation and a step, and returns the names of the step's results: one, or a tuple. It raises
`Unsupported` for what ONNX cannot express.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..symbols import Call
    from .translate import Translation

Rule = Callable[["Translation", "Call"], Any]
RULES: dict[str, Rule] = {}
# ops that no ONNX operator computes: what to do instead
ADVICE: dict[str, str] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: the rule of the ops with these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def advise(advice: str, names: str) -> None:
    """Say what to do instead of ops that cannot be exported."""
    ADVICE.update(dict.fromkeys(names.split(), advice))

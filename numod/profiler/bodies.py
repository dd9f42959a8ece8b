"""Replacement bodies of functions while they are profiled. `watch` decides which functions are replaced."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isgeneratorfunction

from ..autograd.tape import Node
from ..core import apply as dispatch, updates
from ..core.tensor import Tensor
from ..graph.compile import Compiled
from ..graph.ir.program import Program
from ..ops.op import Op
from .launches import Launches


def around(note: Callable, clock: Callable, plain: Callable, category: str, subject: Callable | str) -> Callable:
    """A wrapper of `plain` that records a slice.

    Its name is `subject`, or `subject(type of the first argument)` if that is a function.
    """

    def watched(first: object, *arguments: object, **keywords: object) -> object:
        start = clock()
        try:
            # a call without further arguments takes half the time
            return plain(first, *arguments, **keywords) if arguments or keywords else plain(first)
        finally:
            note(start, category, subject, first.__class__)

    return watched


def around_record(plain: Callable, note: Callable) -> Callable:
    """A wrapper of `tape.record` that notes the new node's number, for the op that ends next on this thread."""

    def record(op: Op, inputs: tuple, layouts: tuple, attributes: tuple, result: Tensor | tuple) -> None:
        plain(op, inputs, layouts, attributes, result)
        node = (result[0] if op.outputs else result)._node
        if node is not None:
            note(0, "node_number", None, node.sequence, 0)

    return record


def around_attach(plain: Callable, note: Callable) -> Callable:
    """A wrapper of `tape.attach`. For a write through a view it notes the node of the base."""

    def attach(node: Node, target: Tensor) -> None:
        plain(node, target)
        owner = target if target._base is None else target._base
        note(0, "node_number", None, owner._node.sequence, 0)

    return attach


def around_recorded(plain: Callable, note: Callable) -> Callable:
    """A wrapper of `autograd.Function`'s recording."""

    def recorded(cls: type, context: object, arguments: tuple, edges: tuple, results: tuple) -> tuple:
        outputs = plain(cls, context, arguments, edges, results)
        node = next(
            (output._node for output in outputs if isinstance(output, Tensor) and output._node is not None), None
        )
        if node is not None:
            note(0, "node_number", None, node.sequence, 0)
        return outputs

    return recorded


def around_node(plain: Callable, note: Callable, clock: Callable) -> Callable:
    def backward(self: Node, grads: list, *needed: tuple[int, ...]) -> list:
        start = clock()
        gradients = plain(self, grads, *needed)
        note(start, "node", self.op or self.name(), self.sequence)
        return gradients

    def backward_at_once(self: Node, grads: list) -> list:
        start = clock()
        gradients = list(plain(self, grads))
        note(start, "node", self.name(), self.sequence)
        return gradients

    return backward_at_once if isgeneratorfunction(plain) else backward


# ---- replacement code of `core.apply`'s functions, which runs in their globals; the exchange provides `plain`, `note`,
# `clock` and `describe`


def _apply(op: object, inputs: tuple, attributes: tuple = ()) -> object:
    start = clock()
    result = plain(op, inputs, attributes)
    note(start, "op", op, None)
    return result


def _apply_described(op: object, inputs: tuple, attributes: tuple = ()) -> object:
    start = clock()
    result = plain(op, inputs, attributes)
    end = clock()
    note(start, "op", describe(op, inputs, attributes, result if op.outputs else (result,)), None, end)
    return result


def _apply_into(op: object, inputs: tuple, targets: tuple, attributes: tuple = ()) -> None:
    start = clock()
    plain(op, inputs, targets, attributes)
    note(start, "op", op, None)


def _apply_into_described(op: object, inputs: tuple, targets: tuple, attributes: tuple = ()) -> None:
    start = clock()
    plain(op, inputs, targets, attributes)
    end = clock()
    note(start, "op", describe(op, inputs, attributes, targets, False), None, end)


def _apply_updates(op: object, members: list, numbers: Callable) -> None:
    start = clock()
    plain(op, members, numbers)
    note(start, "op", op, None)


def _apply_updates_described(op: object, members: list, numbers: Callable) -> None:
    start = clock()
    plain(op, members, numbers)
    end = clock()
    tensors = tuple([tensor for member in members for tensor in member])
    written = tuple([member[k] for member in members for k in op.positions])
    note(start, "op", describe(op, tensors, (len(members),), written, False), None, end)


def method(*arguments: object, **keywords: object) -> object:
    start = clock()
    try:
        return plain(*arguments, **keywords)
    finally:
        note(start, category, subject, None)


def timed(*arguments: object, **keywords: object) -> object:
    start = clock()
    result = plain(*arguments, **keywords)
    note(start, category, subject, arguments[0].__class__)
    return result


def module_called(*arguments: object, **keywords: object) -> object:
    module = arguments[0]
    if module not in roots:
        roots[module] = name_in_caller(module)
    start = clock()
    try:
        return plain(*arguments, **keywords) if Hooks.in_use else module.forward(*arguments[1:], **keywords)
    finally:
        note(start, "module", module, None)


def function_applied(*arguments: object) -> object:
    start = clock()
    result = plain(*arguments)
    end = clock()
    note(start, "op", call(arguments[0].__name__), None, end)
    return result


BARE = ((dispatch.apply, _apply), (dispatch.apply_into, _apply_into), (updates.apply_updates, _apply_updates))
DETAILED = (
    (dispatch.apply, _apply_described),
    (dispatch.apply_into, _apply_into_described),
    (updates.apply_updates, _apply_updates_described),
)


class CompiledCall:
    """Replaces the slot that holds a compiled function's entry point. It calls the held function within a slice."""

    def __init__(self, slot: object, launches: Launches, note: Callable, clock: Callable, counted: bool) -> None:
        self.slot, self.launches, self.note, self.clock, self.counted = slot, launches, note, clock, counted

    def __get__(self, compiled: Compiled | None, kind: type) -> Callable:
        return self if compiled is None else partial(self.call, compiled)

    def __set__(self, compiled: Compiled, function: Callable) -> None:
        self.slot.__set__(compiled, function)

    def call(self, compiled: Compiled, *arguments: object, **kwargs: object) -> object:
        """Call the compiled function and record the call."""
        function = self.slot.__get__(compiled)
        self.launches.watch_compiled(compiled, function)
        start = self.clock()
        try:
            return function(*arguments, **kwargs)
        finally:
            self.note(start, "compiled", f"compiled {compiled.name}", _program(compiled) if self.counted else None)


def _program(compiled: Compiled) -> Program | None:
    """The program that ran, if there is only one, with one set of shapes."""
    versions = [version for variants in compiled.versions.values() for version in variants]
    return versions[0].executable.program if len(versions) == 1 and not compiled.settings.dynamic else None

"""Watch: records the start and end of each op, gradient, kernel, module call and optimizer step.

`event` interprets the notes.

It has no overhead while it is off: the functions it observes are replaced when it starts and restored when it stops. A
note is (start, end, thread, category, subject, detail), with times in ns. It is written at the end of the slice, so
inner notes precede outer ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from ..autograd import early_kernels, engine
from ..autograd import function as functions
from ..autograd.tape import Node
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Storage
from ..graph.compile import Compiled
from ..nn import early_layers
from ..nn.hooks import Hooks
from ..nn.module import Module
from ..ops.op import Op
from ..optim.optimizer import Optimizer
from ..utils.data.fetch import Pass
from ..utils.data.pool import WorkerPass
from .bodies import (
    BARE,
    DETAILED,
    CompiledCall,
    around,
    around_attach,
    around_node,
    around_record,
    around_recorded,
    function_applied,
    method,
    module_called,
    timed,
)
from .compiling import watch_compiler
from .exchange import Exchange
from .launches import Launches
from .recorder import recorder

_PACKAGE, _NAME = __file__.rsplit("profiler", 1)[0], __name__.partition(".")[0]


class Options(NamedTuple):
    """What to record in addition to times."""

    shapes: bool = False
    memory: bool = False
    stack: bool = False
    modules: bool = True
    kernels: bool = False

    @property
    def details(self) -> bool:
        """Whether more than an op's name is recorded."""
        return self.shapes or self.memory or self.stack


class Call(NamedTuple):
    """Details of an op's call.

    These are layouts of its inputs (types of numbers), attributes, layouts of its results, source lines, and bytes of
    the buffers it allocated. `op` is a string for an `autograd.Function`.
    """

    op: Op | str
    inputs: tuple = ()
    attributes: tuple = ()
    results: tuple = ()
    stack: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


class Watch:
    """Collects notes between `start` and `stop`. `take` returns the notes since its last call, in one flat list."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock, self.note, self.take, self._stack_id = recorder()
        # modules that were called, with names for those that user code called directly
        self.roots: dict[Module, str] = {}
        self._exchange = Exchange()
        self._launches = Launches(self.note, self.clock)
        self._calls: dict[tuple, Call] = {}  # equal calls share one object
        # source lines by stack id, with their code objects, which must stay alive
        self._stacks: dict[int, tuple[tuple[str, ...], list]] = {}
        self._sizes: dict[int, int] = {}  # sizes of the storages allocated since the start and still alive, by id

    def start(self) -> None:
        """Start recording."""
        exchange, note = self._exchange, self.note
        watched = partial(around, note, self.clock)
        tools = {"clock": self.clock, "note": note}
        if self.options.details:
            tools["describe"] = self._describer()
        for function, body in DETAILED if self.options.details else BARE:
            exchange.replace_code(function, body, **tools)
        if self.options.memory:
            exchange.add(Storage, "__del__", self._watch_storage())
        exchange.replace(extensions, "record", lambda plain: around_record(plain, note))
        exchange.replace(extensions, "attach", lambda plain: around_attach(plain, note))
        exchange.replace(functions, "_recorded", lambda plain: around_recorded(plain, note))
        exchange.replace(
            early_kernels, "_begin_gradients", lambda plain: watched(plain, "foreseen", "begin kernels of gradients")
        )
        exchange.replace(early_layers, "_begin", lambda plain: watched(plain, "foreseen", "begin kernels of layers"))
        exchange.replace(engine, "_start_pass", lambda plain: watched(plain, "backward", "backward"))
        for kind in _with_own(Node, "backward"):
            exchange.replace(kind, "backward", lambda plain: around_node(plain, note, self.clock))
        for name in ("step", "zero_grad"):
            for kind in _with_own(Optimizer, name):
                title = _title(f"Optimizer.{name}", name)
                if kind.__module__.startswith(_NAME):
                    exchange.replace_code(vars(kind)[name], timed, category="optimizer", subject=title, **tools)
                else:
                    exchange.replace(kind, name, lambda plain, title=title: watched(plain, "optimizer", title))
        for kind in (Pass, WorkerPass):
            exchange.replace(
                kind, "__next__", lambda plain: watched(plain, "data", _title("enumerate(DataLoader)", "__next__"))
            )
        # code objects are replaced, since modifying a class slows it down for a while, and compiled functions would
        # take it for another class
        exchange.replace_code(Tensor.item, method, category="item", subject="numod::item", **tools)
        exchange.replace_code(Op.plan, method, category="plan", subject="plan", **tools)
        if self.options.modules:
            exchange.replace_code(
                Module.__call__, module_called, roots=self.roots, name_in_caller=_name_in_caller, Hooks=Hooks, **tools
            )
        lines = self._source_lines if self.options.stack else tuple
        exchange.replace_code(
            vars(functions.Function)["apply"].__func__,
            function_applied,
            call=lambda name: Call(name, stack=lines()),
            **tools,
        )
        exchange.replace(
            Compiled, "__call__", lambda slot: CompiledCall(slot, self._launches, note, self.clock, self.options.shapes)
        )
        watch_compiler(exchange, note, self.clock, self.options.kernels)
        self._watch_collector()
        if self.options.kernels:
            self._launches.start(exchange)

    def stop(self) -> None:
        """Stop recording and restore all functions."""
        self._exchange.undo()
        self._launches.stop()

    def _watch_collector(self) -> None:
        """Record garbage collections, whose time would otherwise count for the slices they interrupt."""
        note, clock, began = self.note, self.clock, [0]

        def collecting(phase: str, info: dict) -> None:
            if phase == "start":
                began[0] = clock()
            elif began[0]:
                note(began[0], "gc", f"garbage collection {info['generation']}", None)

        gc.callbacks.append(collecting)
        self._exchange.later(lambda: gc.callbacks.remove(collecting))

    def _describer(self) -> Callable:
        """The function that creates an op's Call. It runs for every op, so it looks up nothing."""
        calls, sizes, stack_id, stack = self._calls, self._sizes, self._stack_id, self.options.stack

        def describe(op: Op, inputs: tuple, attributes: tuple, results: tuple, is_new: bool = True) -> Call:
            key = (
                op,
                is_new,
                stack_id() if stack else 0,
                attributes,
                *[getattr(input, "_layout", input.__class__) for input in inputs],
            )
            call = calls.get(key)
            if call is None:
                call = calls[key] = self._call(key, results)
            if call.sizes:
                for result, size in zip(results, call.sizes):
                    sizes[id(result._storage)] = size
            return call

        return describe

    def _call(self, key: tuple, results: tuple) -> Call:
        """The Call for a key, with the results' layouts and the buffers allocated, except by views and inner ops."""
        op, is_new, _, attributes, *inputs = key
        shape_fields = (
            (tuple(inputs), attributes, tuple([result._layout for result in results]))
            if self.options.shapes
            else ((), (), ())
        )
        fresh = (
            self.options.memory
            and is_new
            and not op.is_view
            and not any(id(result._storage) in self._sizes for result in results)
        )
        return Call(
            op,
            *shape_fields,
            self._source_lines() if self.options.stack else (),
            tuple([result._storage.nbytes() for result in results]) if fresh else (),
        )

    def _source_lines(self) -> tuple[str, ...]:
        """The user's source lines on the stack, innermost first: `file(line): function`."""
        stack_id = self._stack_id()
        if stack_id not in self._stacks:
            frame, frames = sys._getframe(1), []
            while frame is not None:
                frames.append((frame.f_code, frame.f_lineno))
                frame = frame.f_back
            users = [(code, line) for code, line in frames if not code.co_filename.startswith((_PACKAGE, "<"))]
            self._stacks[stack_id] = (
                tuple([f"{code.co_filename}({line}): {code.co_name}" for code, line in users]),
                frames,
            )
        return self._stacks[stack_id][0]

    def _watch_storage(self) -> Callable:
        """The finalizer of a storage."""
        sizes, note, clock = self._sizes, self.note, self.clock

        def on_free(storage: Storage) -> None:
            size = sizes.pop(id(storage), None)
            if size is not None:
                note(clock(), "memory", -size, None)

        return on_free


def _title(prefix: str, method: str) -> Callable:
    """A function that returns PyTorch's name for a method, given the object's type."""
    return lambda kind: f"{prefix}#{kind.__name__}.{method}"


def _with_own(base: type, name: str) -> Iterator[type]:
    """A class and its subclasses, as far as they define a method of this name themselves."""
    waiting, seen = [base], set()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += kind.__subclasses__()
            if name in vars(kind):
                yield kind


def _name_in_caller(module: Module) -> str:
    """The name of a module in the code that calls it: a variable, a path in a module held by a variable, or its class.

    It is empty for a module called by another module, which shows as another frame of the calling code on the stack.
    """
    caller = sys._getframe(1)
    frame = outer = caller.f_back
    while outer is not None:
        if outer.f_code is caller.f_code:
            return ""
        outer = outer.f_back
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    variables = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    for name, value in variables.items():
        if value is module and name != "self":
            return name
    for name, value in variables.items():
        if isinstance(value, Module):
            path = next((path for path, submodule in value.named_modules() if submodule is module), None)
            if path:
                return f"{name}.{path}".removeprefix("self.")
    return type(module).__name__

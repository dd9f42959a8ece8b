"""Watch: records the start and end of each op, gradient, kernel, module call and optimizer step.

`event` interprets the notes.

There is no overhead while it is off: the functions it observes are replaced when it starts, and restored when it stops.
A note is (start, end, thread, category, subject, detail), times in ns; it is written at the end, so that inner notes
precede outer ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from ..autograd import engine
from ..autograd import function as functions
from ..autograd.tape import Node
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Storage
from ..graph.compile import Compiled
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
    """What to record besides times."""

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
    """Details of an op's call: layouts of its inputs (types of numbers), parameters, layouts of its results, source
    lines, bytes of the buffers it allocated. `op` is a string for an `autograd.Function`.
    """

    op: Op | str
    inputs: tuple = ()
    parameters: tuple = ()
    results: tuple = ()
    stack: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


class Watch:
    """Collects notes between `start` and `stop`; `take` returns those since its last call, in one flat list, six items
    each.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.clock, self.note, self.take, self._place = recorder()
        # modules that were called, with names for those called directly by user code
        self.roots: dict[Module, str] = {}
        self._exchange = Exchange()
        self._launches = Launches(self.note, self.clock)
        self._calls: dict[tuple, Call] = {}  # one object for equal calls, since programs repeat themselves
        # source lines by place, with their code objects, which must stay alive
        self._stacks: dict[int, tuple[tuple[str, ...], list]] = {}
        self._sizes: dict[int, int] = {}  # of storages allocated since the start and still alive, by id

    def start(self) -> None:
        """Start recording."""
        exchange, note = self._exchange, self.note
        watched = partial(around, note, self.clock)
        tools = {"clock": self.clock, "note": note}
        if self.options.details:
            tools["describe"] = self._describer()
        for function, body in DETAILED if self.options.details else BARE:
            exchange.recode(function, body, **tools)
        if self.options.memory:
            exchange.add(Storage, "__del__", self._watch_storage())
        exchange.replace(extensions, "record", lambda plain: around_record(plain, note))
        exchange.replace(extensions, "attach", lambda plain: around_attach(plain, note))
        exchange.replace(functions, "_recorded", lambda plain: around_recorded(plain, note))
        exchange.replace(engine, "_walk", lambda plain: watched(plain, "backward", "backward"))
        for kind in _with_own(Node, "backward"):
            exchange.replace(kind, "backward", lambda plain: around_node(plain, note, self.clock))
        for name in ("step", "zero_grad"):
            for kind in _with_own(Optimizer, name):
                title = _title(f"Optimizer.{name}", name)
                if kind.__module__.startswith(_NAME):
                    exchange.recode(vars(kind)[name], timed, category="optimizer", subject=title, **tools)
                else:
                    exchange.replace(kind, name, lambda plain, title=title: watched(plain, "optimizer", title))
        for kind in (Pass, WorkerPass):
            exchange.replace(
                kind, "__next__", lambda plain: watched(plain, "data", _title("enumerate(DataLoader)", "__next__"))
            )
        # by replacing code objects: modifying a class slows it down for a while, and compiled functions would take it
        # for another class
        exchange.recode(Tensor.item, method, category="item", subject="numod::item", **tools)
        exchange.recode(Op.plan, method, category="plan", subject="plan", **tools)
        if self.options.modules:
            exchange.recode(
                Module.__call__, module_called, roots=self.roots, name_in_caller=_name_in_caller, Hooks=Hooks, **tools
            )
        lines = self._lines if self.options.stack else tuple
        exchange.recode(
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
        """Record garbage collections, which would otherwise count to whatever they interrupt."""
        note, clock, began = self.note, self.clock, [0]

        def collecting(phase: str, info: dict) -> None:
            if phase == "start":
                began[0] = clock()
            elif began[0]:
                note(began[0], "gc", f"garbage collection {info['generation']}", None)

        gc.callbacks.append(collecting)
        self._exchange.later(lambda: gc.callbacks.remove(collecting))

    def _describer(self) -> Callable:
        """The function that makes an op's Call. It runs for every op, so it looks up nothing."""
        calls, sizes, place, stack = self._calls, self._sizes, self._place, self.options.stack

        def describe(op: Op, inputs: tuple, parameters: tuple, results: tuple, made: bool = True) -> Call:
            key = (
                op,
                made,
                place() if stack else 0,
                parameters,
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
        """The Call for a key, which also determines the results' layouts and the buffers allocated (not for views, nor
        for buffers of inner ops).
        """
        op, made, _, parameters, *inputs = key
        known = (
            (tuple(inputs), parameters, tuple([result._layout for result in results]))
            if self.options.shapes
            else ((), (), ())
        )
        fresh = (
            self.options.memory
            and made
            and not op.is_view
            and not any(id(result._storage) in self._sizes for result in results)
        )
        return Call(
            op,
            *known,
            self._lines() if self.options.stack else (),
            tuple([result._storage.nbytes() for result in results]) if fresh else (),
        )

    def _lines(self) -> tuple[str, ...]:
        """The user's source lines on the stack, innermost first: `file(line): function`."""
        place = self._place()
        if place not in self._stacks:
            frame, frames = sys._getframe(1), []
            while frame is not None:
                frames.append((frame.f_code, frame.f_lineno))
                frame = frame.f_back
            users = [(code, line) for code, line in frames if not code.co_filename.startswith((_PACKAGE, "<"))]
            self._stacks[place] = tuple([f"{code.co_filename}({line}): {code.co_name}" for code, line in users]), frames
        return self._stacks[place][0]

    def _watch_storage(self) -> Callable:
        """The finalizer of a storage."""
        sizes, note, clock = self._sizes, self.note, self.clock

        def gone(storage: Storage) -> None:
            size = sizes.pop(id(storage), None)
            if size is not None:
                note(clock(), "memory", -size, None)

        return gone


def _title(what: str, method: str) -> Callable:
    """PyTorch's name for a method of an object of some type."""
    return lambda kind: f"{what}#{kind.__name__}.{method}"


def _with_own(base: type, name: str) -> Iterator[type]:
    """The classes among a class and its subclasses that define a method of this name."""
    waiting, seen = [base], set()
    while waiting:
        kind = waiting.pop()
        if kind not in seen:
            seen.add(kind)
            waiting += kind.__subclasses__()
            if name in vars(kind):
                yield kind


def _name_in_caller(module: Module) -> str:
    """The name of a module in the code that calls it: a variable's name, or its path in a module held by a variable;
    else its class.

    Empty for a module that is called by another module (if another frame of the code that asks is on the stack).
    """
    asking = sys._getframe(1)
    frame = outer = asking.f_back
    while outer is not None:
        if outer.f_code is asking.f_code:
            return ""
        outer = outer.f_back
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    known = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    for name, value in known.items():
        if value is module and name != "self":
            return name
    for name, value in known.items():
        if isinstance(value, Module):
            path = next((path for path, each in value.named_modules() if each is module), None)
            if path:
                return f"{name}.{path}".removeprefix("self.")
    return type(module).__name__

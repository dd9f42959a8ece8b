"""`numod.compile`: a function or module that runs as compiled programs. The first call runs eagerly and is recorded; later ones run native code.

A call runs a program only where everything it was recorded under still holds; else it is recorded anew. What a program could not repeat is an
error that names the line, never another answer.
"""

from __future__ import annotations

import copy
import functools
import os
import re
import warnings
from collections.abc import Callable
from threading import get_ident
from typing import Any

from ..autograd.engine import grad
from ..autograd.tape import edge_to
from ..core import apply as waist
from ..core import changes
from ..core.apply import state
from ..core.creation import ones
from ..core.random import Draw, default_generator
from ..core.tensor import Tensor
from ..device import Layout, Storage
from . import guards, structure
from . import state as module_state
from .caller import caller
from .differentiable import Differentiable
from .gradients import Gradients
from .run import Executable
from .section import CheckFailed, Form
from .structure import replace
from .trace import Program, Recorder, Value

_OWN_HOOKS = tuple(f"self.{name}" for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"))
VERSIONS = 8  # programs recorded for one function; past it other calls run eagerly
SIZES = 64  # sizes kept of a program that is compiled for all of them


def compile(  # noqa: A001
    model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str = "numba", mode: str | None = None, options: dict | None = None,
    disable: bool = False, explain: bool = False,
) -> Any:
    """A function that computes what `model` (a function, or a Module) does, as native code; also a decorator.

    A compiled Module is a Module with the same parameters, state_dict and type. `dynamic=True` compiles once for all sizes: another batch size is
    recorded, but compiles nothing, unless another algorithm suits it. False compiles each for itself; None begins so, and compiles for all
    sizes when a third one comes or a tensor is marked (`mark_dynamic`). `options`: `linked` True or False forces one native function, or kernels in turn.
    `explain=True` prints what was recorded. `fullgraph`, `backend` and `mode` are taken for PyTorch's sake: there is always one whole graph.
    Raises RuntimeError, at the call that records, for what cannot be repeated.
    """
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable, explain=explain)
    if not callable(model):
        raise TypeError(f"compile expects a function or a Module, got {type(model).__name__}")
    if disable:
        return model
    settings = dynamic, explain, (options or {}).get("linked")
    return _compiled_module(model, settings) if hasattr(model, "_modules") else Compiled(model, *settings)


def mark_dynamic(tensor: Tensor, dim: int | tuple[int, ...] = 0) -> None:
    """Have functions compiled with this tensor as an argument compiled for all sizes."""
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not all(-tensor.ndim <= each < tensor.ndim for each in dims):
        raise IndexError(f"mark_dynamic: dimension {dim} of a tensor of {tensor.ndim} dimensions")
    tensor._dynamic = True


class Compiled:
    """A compiled function. `explain()` tells what was recorded; `versions` holds the programs by the inputs' properties.

    `__call__` is an attribute of its own: the short way into the version called last, a function written for it.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")

    def __init__(self, function: Callable, dynamic: bool | None = None, verbose: bool = False, linked: bool | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.dynamic, self.verbose, self.linked = function, dynamic, verbose, linked
        self.name = getattr(function, "__name__", type(function).__name__).strip("<>")
        self.versions: dict[tuple, list[Version]] = {}
        self.families: dict[tuple, int] = {}  # how often calls were recorded that differ in sizes only
        self.recorded, self.counted, self.last_change, self.complained = 0, 0, None, False
        self._without: frozenset = frozenset()  # attributes of modules that are given as arguments
        self.cells: list[module_state.Cell] = []  # tensors that modules keep from call to call
        self.inner: Compiled | None = None  # the function that is given these, and gives the next
        self.__call__ = self._call

    def _call(self, *arguments: Any, **named: Any) -> Any:
        """The long way: find the version by the arguments' properties, record where there is none."""
        if _recording():
            return self.function(*arguments, **named)  # part of a larger program
        if self.inner is not None:
            return self._run_with_state(arguments, named)
        key, tensors = describe(arguments, named)
        reason, failed = None, False
        for version in self.versions.get(key, ()):
            reason = version.objection(tensors)
            if reason is None:
                self._shorten(version, arguments, named)
                try:
                    return version.run(tensors, functools.partial(self.function, *arguments, **named))
                except CheckFailed as failure:
                    reason, failed = str(failure), True
        family, form = _family(key), self._form(key, tensors)
        counts = not (form.dynamic and family in self.families and reason is None)
        if counts and self.counted >= VERSIONS:
            return self._run_eagerly(arguments, named, reason or _difference(key, next(reversed(self.versions))))
        return self._record(key, family, form, counts, failed, arguments, named)

    def _form(self, key: tuple, tensors: tuple[Tensor, ...]) -> Form:
        """How to compile: for all sizes where that is wanted, or where sizes have changed twice."""
        if self.dynamic is None:
            changing = key not in self.versions and self.families.get(_family(key), 0) >= 2
            return Form(self.linked, changing or any(getattr(each, "_dynamic", False) for each in tensors))
        return Form(self.linked, self.dynamic)

    def _run_eagerly(self, arguments: tuple, named: dict, reason: str) -> Any:
        if not self.complained:
            self.complained = True
            hint = "" if self.dynamic else "; dynamic=True compiles once for all sizes"
            told = f"compile: {self.name} was recorded {self.recorded} times, the last time because of {reason}; it runs eagerly from here{hint}"
            warnings.warn(told, stacklevel=4)
        return self.function(*arguments, **named)

    def _record(self, key: tuple, family: tuple, form: Form, counts: bool, failed: bool, arguments: tuple, named: dict) -> Any:
        """Run for real and keep the program, unless the call made state that it will find the next time (an optimizer's, a lazy module's)."""
        outputs, version, change, cells = record(self.function, arguments, named, self.name, form, failed, self._without)
        if version is not None:
            self.versions.setdefault(key, []).insert(0, version)
            if len(self.versions) > SIZES:
                del self.versions[next(iter(self.versions))]
            self.families[family] = self.families.get(family, 0) + 1
            self.recorded += 1
            self.counted += counts
            if self.verbose:
                print(self.explain())
        elif change is not None and _subject(change) == self.last_change and cells and not self._without:
            self._keep_state(cells)
        elif change is not None and _subject(change) == self.last_change:
            raise RuntimeError(
                f"compile: {change} whenever it runs, which a compiled function cannot repeat; write tensors in place, or return them, and keep other state outside"
            )
        self.last_change = change and _subject(change)
        return outputs

    def _keep_state(self, cells: list[module_state.Cell]) -> None:
        """From here on these attributes of modules are given, and their next values are results."""
        self.cells, self.inner = cells, Compiled(module_state.given(self.function, cells), self.dynamic, self.verbose, self.linked)
        self.inner.name, self.inner._without = self.name, frozenset((id(module), key) for module, key in cells)
        self.versions = self.inner.versions

    def _run_with_state(self, arguments: tuple, named: dict) -> Any:
        outputs, new = self.inner(module_state.values(self.cells), arguments, named)
        module_state.put(self.cells, new, [each.picture for versions in self.versions.values() for each in versions])
        self.recorded = self.inner.recorded
        return outputs

    def _shorten(self, version: Version, arguments: tuple, named: dict) -> None:
        """Let the next call of this form go straight to this version."""
        executable = version.executable
        here = executable.section.linked or all(each.device.type == "cpu" for each in executable.section.buffers)
        if type(executable) is Executable and here and not executable.spoiled:  # what a failed check leaves written the short way cannot undo
            self.__call__ = version.caller(arguments, named, self._call)

    def explain(self, source: bool = False, assembly: bool = False, llvm: bool = False) -> str:
        """Every program as text: steps with their lines and costs, kernels, memory. On request the generated source, the machine code, LLVM's code."""
        told = [each.executable.explain(source, assembly, llvm) for versions in self.versions.values() for each in versions]
        return "\n\n".join(told) or f"{self.name}: nothing recorded yet; call it first"

    @property
    def graph(self) -> Program:
        """The program recorded last, as it runs: print it, or draw it with `.dot()`. Its `recorded` form is `executable.recorded`."""
        if not self.versions:
            raise RuntimeError(f"{self.name}: nothing recorded yet; call it first")
        return next(reversed(self.versions.values()))[0].executable.program

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __deepcopy__(self, memo: dict) -> Compiled:
        return Compiled(copy.deepcopy(self.function, memo), self.dynamic, self.verbose, self.linked)

    def __reduce__(self) -> tuple:
        return Compiled, (self.function, self.dynamic, self.verbose, self.linked)


def _subject(change: str) -> str:
    """What changed, without its values."""
    return re.split(r" was |\[", change)[0]


def _where(change: str, recorder: Recorder, function: Callable) -> str:
    """The line that assigned an attribute; for other things, where the function begins."""
    line = recorder.lines.get(_subject(change).partition(" ")[0].rpartition(".")[2])
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if line is not None or code is None:
        return f"at {line}" if line is not None else ""
    return f"in {code.co_name}, {os.path.basename(code.co_filename)}:{code.co_firstlineno},"


class CompiledForward(Compiled):
    """A module's compiled `forward`, which knows its module."""

    __slots__ = ()

    def __get__(self, instance: Any, owner: type) -> CompiledForward:
        return self


class Version:
    """A program with what it was recorded under."""

    def __init__(self, executable: Executable, picture: guards.Picture, without: list[int], shared: dict[int, Storage]) -> None:
        self.executable, self.picture = executable, picture
        self.shared = shared  # of inputs that are tensors which the function also reaches by itself: their memory
        self.without = without  # numbers of inputs that had no gradient
        self.held = {id(each._storage) for each in executable.program.held.values()}
        self.made: Callable | None = None

    def caller(self, arguments: tuple, named: dict[str, Any], slow: Callable) -> Callable:
        """The short way into this version."""
        if self.made is None:
            self.made = caller(self.executable, self.picture, arguments, named, slow, self.without, self.shared)
        return self.made

    def run(self, tensors: tuple[Tensor, ...], function: Callable) -> Any:
        """The program's results. `function` gives them eagerly, should their gradients be differentiated."""
        if isinstance(self.executable, Differentiable):
            return self.executable.run(tensors, lambda: function() if self.objection(tensors) is None else None)
        return self.executable.run(tensors)

    def objection(self, tensors: tuple[Tensor, ...]) -> str | None:
        """Why the program may not run now, or None."""
        for number, each in enumerate(tensors):
            if id(each._storage) in self.held or each._storage is not self.shared.get(number, each._storage):
                return "an argument that shares memory with a tensor the function reaches by itself"
        for number in self.without:
            if tensors[number]._grad is not None:
                return "an argument that has a gradient already"
        return self.picture.difference()


def record(
    function: Callable, arguments: tuple, named: dict, name: str, form: Form, failed: bool, without: frozenset
) -> tuple[Any, Version | None, str | None, list[module_state.Cell]]:
    """Run a call for real while recording it: (its result, the version for later calls or None, what the call changed in Python, tensors that modules hold anew).

    Attributes `without` which the picture is taken are given as arguments. Where a check has `failed` the function is likely to raise, and to put values into its message.
    """
    roots = _objects((arguments, named))
    before = list(guards.picture(function, roots, without))
    tensors = describe(arguments, named)[1]
    shared = _shared(before, tensors)
    if shared is None:
        return function(*arguments, **named), None, None, []
    recorder = Recorder(tensors, {id(thing) for _, kind, thing in before if kind == "is" and isinstance(thing, Tensor)})
    recorder.patient = failed
    owned = Gradients(function, before, tensors)
    given, held = structure.contents((arguments, named)), module_state.attributes(before)
    stream, histories, settings = _stream(), [each.grad_fn for each in tensors], _settings(before)
    waist.listeners.append(recorder)
    changes.watchers.append(recorder.assigned)
    try:
        outputs = function(*arguments, **named)
        if recorder.refused:
            raise recorder.refused
        change = guards.compare(before, list(guards.picture(function, roots, without))) or _unseen(recorder, tensors, stream, histories)
        change = change or (None if _settings(before) == settings else "a setting of an optimizer's param_groups changes")
        change = change or ((kind := structure.changed(given)) and f"what is in an argument, a {kind}, changes")
        joint = None if change or recorder.made_state else _differentiate(recorder, tensors, outputs)
    finally:
        waist.listeners.remove(recorder)
        changes.watchers.remove(recorder.assigned)
    if change and not recorder.made_state:
        change = f"{change} {_where(change, recorder, function)}"
    if change or recorder.made_state or recorder.confused:
        return outputs, None, None if recorder.made_state or recorder.confused else change, module_state.written(held)
    _refuse_hooks(before)
    owned.settle(recorder)
    if joint is None:
        executable = Executable(recorder.finish(outputs), name, form)
    else:
        boundary, differentiated, wanted, gradients = joint
        executable = Differentiable(recorder.finish((outputs, gradients)), boundary, differentiated, wanted, name, form)
    picture = guards.Picture(function, roots, owned.guards, without)
    executable.counting = picture.counting
    return outputs, Version(executable, picture, owned.inputs_without, shared), None, []


def _shared(entries: list[guards.Entry], tensors: tuple[Tensor, ...]) -> dict[int, Storage] | None:
    """The memory of arguments that the function also reaches by itself (parameters given to `functional_call`, say), by their numbers.

    None where a tensor that it reaches is another part of that memory: which elements are which would not be known.
    """
    reached = [thing for _, kind, thing in entries if kind == "is" and isinstance(thing, Tensor)]
    found = {}
    for number, each in enumerate(tensors):
        same = [other for other in reached if other._storage is each._storage]
        if any(other._offset != each._offset or other._layout is not each._layout for other in same):
            return None
        if same:
            found[number] = each._storage
    return found


def _unseen(recorder: Recorder, tensors: tuple[Tensor, ...], stream: tuple, histories: list) -> str | None:
    """What the call did that its steps do not show: a random stream begun anew, an argument that became part of the tape."""
    if any(each.grad_fn is not before for each, before in zip(tensors, histories)):
        return "an argument is written in place where gradients are recorded"
    seed, offset = stream
    draws = {id(each): each for step in recorder.program.steps for each in getattr(step, "inputs", ()) if isinstance(each, Draw)}
    if _stream() != (seed, offset + sum(each.count for each in draws.values() if each.generator is default_generator)):
        return "the random stream is begun anew or used outside tensors' operations"
    return None


def _settings(entries: list[guards.Entry]) -> list[dict]:
    """The numbers in the groups of all optimizers that the function reaches. Programs read them anew at every run, but do not write them."""
    optimizers = [thing for _, kind, thing in entries if kind == "is" and hasattr(thing, "param_groups")]
    return [{key: each for key, each in group.items() if isinstance(each, (bool, int, float, tuple))} for each in optimizers for group in each.param_groups]


def _stream() -> tuple[int, int]:
    return default_generator._seed, default_generator._offset


def _differentiate(recorder: Recorder, tensors: tuple[Tensor, ...], outputs: Any) -> tuple[int, list[Value], list[Tensor | int], tuple] | None:
    """Record the gradients of results that need them: (where backward begins, those results, what the gradients are for, the gradients)."""
    results: list[Tensor] = []

    def note(each: Any) -> None:
        if isinstance(each, Tensor) and each.grad_fn is not None and not any(each is other for other in results):
            results.append(each)

    replace(outputs, note)
    leaves = _leaves(results, tensors)
    if not results or leaves is None:
        return None
    seeds = [ones(each.shape, dtype=each.dtype, device=each.device) for each in results]
    for each in seeds:
        recorder.add_input(each)
    boundary = len(recorder.program.steps)
    numbers = {id(each): k for k, each in enumerate(tensors)}
    gradients = grad(results, leaves, seeds, retain_graph=True, allow_unused=True)
    return boundary, [recorder.numbers[id(each)] for each in results], [numbers.get(id(each), each) for each in leaves], gradients


def _leaves(results: list[Tensor], tensors: tuple[Tensor, ...]) -> list[Tensor] | None:
    """The leaves, and the given tensors, that the results depend on. None where the graph was already used up by a backward pass."""
    given = {(id(edge[0]), edge[1]): each for each in tensors if (edge := edge_to(each)) is not None}
    found: dict[int, Tensor] = {}
    seen, waiting = set(), [edge_to(each) for each in results]
    while waiting:
        target, number = waiting.pop()
        stop = given.get((id(target), number), target if isinstance(target, Tensor) else None)
        if stop is not None:
            found[id(stop)] = stop
            if stop._hooks or stop._after_hooks:
                raise RuntimeError("compile: a tensor with hooks takes part; remove them, or leave the function uncompiled")
        elif target not in seen:
            seen.add(target)
            if getattr(target, "kept", ()) is None:
                return None
            if target.hooks is not None and any(vars(target.hooks).values()):
                raise RuntimeError(
                    "compile: a computed tensor has hooks or retains its gradient, which a compiled function does not call; leave the function uncompiled"
                )
            waiting += [edge for edge in target.edges if edge is not None]
    return list(found.values())


def _refuse_hooks(entries: list[guards.Entry]) -> None:
    """Hooks on the gradients of modules inside would not be called. (Those of a compiled module itself are: they run around it.)

    Forward hooks are part of what is recorded, and their code is guarded like the function's own.
    """
    for name, _, thing in entries:
        if re.search(r"_backward_(pre_)?hooks\[", name) and callable(thing) and not name.startswith(_OWN_HOOKS):
            module, _, hook = name.rpartition(".")
            raise RuntimeError(f"compile: {module} has a hook ({hook}), which a compiled function would not call; remove it, or compile the parts")


def describe(arguments: tuple, named: dict) -> tuple[tuple, tuple[Tensor, ...]]:
    """A call's key (layouts of tensors, values of the rest, which arguments share memory, the modes) and its tensors."""
    tensors: list[Tensor] = []
    key = tuple([_key(each, tensors) for each in arguments])
    if named:
        key += tuple([(name, _key(each, tensors)) for name, each in named.items()])
    if len(tensors) > 1:
        storages = [id(each._storage) for each in tensors]
        if len(set(storages)) < len(storages):
            first = [tensors[storages.index(each)] for each in storages]
            places = [(storages.index(id(each._storage)), each._offset - other._offset, _position(each, tensors)) for each, other in zip(tensors, first)]
            key += (tuple(places),)
    return (key, state.grad_enabled, state.inference, state.autocast), tuple(tensors)


def _key(each: Any, tensors: list[Tensor]) -> Any:
    if isinstance(each, Tensor):
        tensors.append(each)
        return (each._layout, each.requires_grad) if state.grad_enabled else each._layout
    if isinstance(each, guards.SIMPLE):
        return type(each), each or repr(each)  # 0.0 and -0.0 are two numbers
    if isinstance(each, (list, tuple)):
        return type(each), *[_key(part, tensors) for part in each]
    if isinstance(each, dict):
        return dict, *[(name, _key(part, tensors)) for name, part in each.items()]
    if structure.is_data(each):
        return type(each), *[(name, _key(getattr(each, name), tensors)) for name in structure.fields_of(each)]
    return _Same(each)


def _family(key: Any) -> Any:
    """A key without sizes: calls that differ in these only."""
    if isinstance(key, Layout):
        return key.ndim, key.dtype, key.device
    return (type(key), *map(_family, key)) if isinstance(key, tuple) else key


def _difference(key: tuple, before: tuple) -> str:
    """Where two calls' keys differ, in words."""
    if key[1:] != before[1:]:
        return "the grad mode"
    for number, (now, then) in enumerate(zip(key[0], before[0])):
        if now != then:
            return f"argument {number}: {_worded(then)} was recorded, {_worded(now)} came"
    return "the number of arguments"


def _worded(each: Any) -> str:
    """An argument's part of a key, in words."""
    if isinstance(each, Layout):
        return f"{each.dtype} {tuple(each.shape)}"
    if isinstance(each, tuple) and each and isinstance(each[0], Layout):
        return _worded(each[0]) + (" that requires a gradient" if each[1] else "")
    return repr(each[1]) if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], type) else "another structure"


def _position(tensor: Tensor, tensors: list[Tensor]) -> int:
    return next(k for k, each in enumerate(tensors) if each is tensor)


def _objects(each: Any) -> list:
    """The arguments that are known by identity: modules, optimizers, plain objects."""
    inside = structure.parts(each)
    if inside is not None:
        return [found for part in inside for found in _objects(part)]
    return [] if isinstance(each, (Tensor, *guards.SIMPLE)) else [each]


class _Same:
    """An argument that is nothing of the above: the same object."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing


def _recording() -> bool:
    return any(isinstance(each, Recorder) and each.thread == get_ident() for each in waist.listeners)


def compile_in_place(module: Any, *args: Any, **options: Any) -> None:
    """Make a module run compiled from here on, itself: another class over the same attributes."""
    plain = object.__new__(type(module))
    object.__setattr__(plain, "__dict__", module.__dict__)
    object.__setattr__(module, "__class__", type(compile(plain, *args, **options)))


def _compiled_module(module: Any, settings: tuple) -> Any:
    """The same module (its attributes are one dictionary) whose `forward` is compiled."""
    base = type(module)
    compiled = CompiledForward(module.forward, *settings)

    def again(original: Any) -> Any:
        return _compiled_module(original, settings)

    def plain() -> Any:
        return module

    members = {
        "forward": compiled, "compiled": compiled,
        "explain": lambda self, **options: compiled.explain(**options),
        **({} if hasattr(module, "graph") else {"graph": property(lambda self: compiled.graph)}),
        "__deepcopy__": lambda self, memo: again(copy.deepcopy(module, memo)), "__reduce_ex__": lambda self, protocol: (compile, (plain(),)),
        "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
    }
    result = object.__new__(type(base.__name__, (base,), members))
    object.__setattr__(result, "__dict__", module.__dict__)
    return result

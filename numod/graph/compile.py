"""`numod.compile`: a function or module that runs as compiled programs.

The first call runs eagerly and is recorded; later ones run native code.

A call runs a program only where everything it was recorded under still holds; else it is recorded anew. What cannot be
recorded runs eagerly, with a warning that names the line, or raises with `fullgraph=True`; results never differ
silently.

Any number of threads may call a compiled function. One at a time records it (`turns`), others that find no program
wait. What a call reads without its turn (`versions`, `inner`, `dynamic_variant`) is replaced as a whole, never changed.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from types import MethodType
from typing import Any

from ..autograd import engine, tape
from ..core import overrides
from ..core.apply import state
from ..core.tensor import Tensor
from . import config
from .guards import snapshot
from .capture import python_state as kept
from .capture.grad_state import SAME_MEMORY
from .guards.cache_key import describe, difference, family
from .values.kinds import is_module
from .values.source_location import CannotRepeat, subject
from .ir.program import Program
from .guards.build import quick
from .capture.capture import Version, record
from .backend.executable import Executable
from .backend.section import CheckFailed, Form
from .capture.recorder import recording
from .capture.turns import Turn

VERSIONS = 8  # rounds of another structure, or other changes in Python, after which they are taken to go on for ever
_MODES = "default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"
BACKENDS = "aot_eager", "cudagraphs", "eager", "inductor", "numba"  # all are numba
_OPTIONS = "freezing", "linked"
_TUNING = (  # Inductor's, which change no result and have no counterpart
    "coordinate_descent_tuning", "epilogue_fusion", "fallback_random", "guard_filter_fn", "max_autotune",
    "max_autotune_gemm", "max_autotune_pointwise", "shape_padding", "trace.enabled", "trace.graph_diagram",
    "triton.cudagraphs",
)  # fmt: skip
SIZES = 64  # programs for sizes of calls that are compiled for all sizes
_numbers_out = Turn()  # of recordings that put what stands for numbers at places which other functions may read


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    explain: bool = False,
) -> Any:
    """Compile `model` (a function or a Module) to native code; also a decorator.

    A compiled Module is a Module with the same parameters, state_dict and type.

    The first call runs eagerly and is recorded; later ones run the program. A function that Python steers by values of
    tensors (`if loss > 1`), or that does something else no program can repeat, runs eagerly, with one warning that
    names the line; `fullgraph=True` makes that an error. A flag in a buffer (`if self.initialized`) is a guard. From
    the third value of a number on (an argument, also in tuples, lists, dictionaries and dataclasses, an attribute, a
    global) one program takes all its values, if the function uses it in arithmetic alone.

    - `dynamic`: True compiles once for all sizes: another batch size is recorded, but compiles nothing, unless another
      algorithm suits it. False compiles for each size. None begins so, and compiles for all sizes when a third one
      comes or a tensor is marked (`mark_dynamic`). After eight sizes, others are recorded when they come again, up to
      64; the rest run eagerly. Integers that change nothing but sizes (`x[:n]`) are sizes too.
    - `recompile_limit`: after so many recordings other calls run eagerly; by default
      `numod._dynamo.config.recompile_limit`, 8.
    - `name`: what warnings and reports call the function. `explain=True` prints what was recorded. `disable=True`
      returns `model` as it is.
    - `options={"freezing": True}`: for inference, as Inductor's option. In calls that record no gradients (`no_grad`,
      `inference_mode`), whatever depends only on tensors that the function reaches by itself and does not write
      (parameters, buffers, in eval mode also running statistics) is computed once, and weights are packed as products
      read them, at the price of memory for both. It is computed anew by the call after an optimizer's step,
      `load_state_dict` or any other write by numod; a write past it, by another process or through a NumPy array on a
      weight's memory, goes unseen.
    - `options={"linked": True}`, or False: one native function, or kernels in turn (on a GPU without a CUDA graph),
      whatever the size of the program.
    - `backend`, `mode`, `isolate_recompiles` and Inductor's options that only tune are taken for PyTorch's sake and
      change nothing: there is one backend, one whole graph or none, and each function counts its recordings for itself.

    Raises RuntimeError for an unknown mode, option or name of a backend.
    """
    _check_options(mode, options)
    if isinstance(backend, str) and backend not in BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}, see `numod._dynamo.list_backends()` for available backends.")
    if model is None:
        return functools.partial(
            compile,
            fullgraph=fullgraph,
            dynamic=dynamic,
            options=options,
            name=name,
            disable=disable,
            recompile_limit=recompile_limit,
            explain=explain,
        )
    if not callable(model):
        raise TypeError(f"compile expects a function or a Module, got {type(model).__name__}")
    if disable:
        return model
    settings = dynamic, explain, options, name, recompile_limit, fullgraph
    return _compiled_module(model, settings) if is_module(model) else CompiledFunction(model, *settings)


def _check_options(mode: str | None, options: dict | None) -> None:
    """Raise RuntimeError, in PyTorch's words, for a mode or options that are not known."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    for name, value in (options or {}).items():
        if name not in (*_OPTIONS, *_TUNING):
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {[*_OPTIONS, *_TUNING]}")
        if name in _OPTIONS and not isinstance(value, (bool, type(None))):
            raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__} should be bool")


def mark_dynamic(
    tensor: Tensor, index: int | Sequence[int] = 0, *, min: int | None = None, max: int | None = None
) -> None:
    """Mark a tensor, so that functions called with it as an argument are compiled for all sizes, also those beyond
    `min` and `max`.

    Raises IndexError where it has no such dimension.
    """
    dims = index if isinstance(index, (tuple, list)) else (index,)
    if not all(-tensor.ndim <= dim < tensor.ndim for dim in dims):
        raise IndexError(f"mark_dynamic: dimension {index} of a tensor of {tensor.ndim} dimensions")
    tensor._dynamic = True


class Compiled:
    """A compiled function.

    `explain()` shows what was recorded; `versions` holds the programs by the inputs' properties.

    `__call__` is an instance attribute: the fast path into the version called last.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")

    def __init__(
        self,
        function: Callable,
        dynamic: bool | None = None,
        verbose: bool = False,
        options: dict | None = None,
        name: str | None = None,
        limit: int | None = None,
        fullgraph: bool = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.dynamic = dynamic
        self.verbose = verbose
        self.options = options or {}
        self.limit = limit
        self.settings, self.fullgraph = (dynamic, verbose, options, name, limit, fullgraph), fullgraph
        self.owned = isinstance(function, MethodType) and is_module(function.__self__)
        self.owned = self.owned and not self._is_outdated()  # whose class has it as its method
        self.name = name or getattr(function, "__name__", type(function).__name__).strip("<>")
        self.turn = Turn()
        self.versions: dict[tuple, list[Version]] = {}
        # how often calls were recorded that differ only in sizes, or also in integers
        self.families: dict[tuple, int] = {}
        self.sighted: set[tuple] = set()  # sizes that came once, when there were programs for several
        self.recorded, self.counted, self.complained = 0, 0, False
        # the properties of inputs of calls that changed Python state, since one was recorded
        self.changes: set[tuple] = set()
        self.subjects: set[str] = set()  # the changes by all calls
        self.places: list[snapshot.Place] = []  # of an `inner`: places that hold tensors between calls
        # the function that takes the tensors at its `places` as arguments, and returns the next ones
        self.inner: Compiled | None = None
        self.wanted: list[snapshot.Place] = []  # places to be added to these
        self.rounds = 0  # how often places were added: a structure that grows without end is refused
        self.is_inner = False  # whether this is another's `inner`
        self._without: frozenset = frozenset()  # places whose tensors this function gets as arguments
        # up to three values of each number, by path among arguments, or by place; None if programs cannot take them as
        # they come
        self.numbers: dict[Any, set[int | float]] | None = {}
        self.specialised_on: set = set()  # those of them that the function looks at
        self.number_places: dict[tuple[int, Any], snapshot.Place] = {}  # all places of numbers
        self.dynamic_variant: Compiled | None = None  # the function that takes some of them as tensors
        # of a `dynamic_variant`: paths of the numbers among arguments that it takes as tensors
        self.dynamic_paths: list[kept.Path] = []
        self.tree: dict = {}  # the same paths
        self.dynamic_places: list[snapshot.Place] = []  # the places that it takes
        self.specialised_count = 0  # how many numbers were known to be looked at when it was made
        # whether another function is taken where this cannot be recorded; why it cannot
        self.has_fallback, self.refused = False, ""
        self.__call__ = self._call

    def _call(self, *arguments: Any, **named: Any) -> Any:
        """The slow path: look up the version by the arguments' properties, or record one."""
        if recording() or tape.packing is not None or state.checkpointing or engine.watch is not None:
            # part of a larger program; or what it saves goes to hooks, is dropped, or is looked at for anomalies
            return self.function(*arguments, **named)
        if self._is_outdated():
            type(self).__init__(self, getattr(self.function.__self__, self.function.__name__), *self.settings)
        if overrides.has_torch_function((*arguments, *named.values())):
            why = (
                f"compile: {self.name} runs eagerly in modes, and for arguments of classes, that override functions "
                "(__torch_function__)"
            )
            return self._run_apart(why, arguments, named)
        dynamic_variant = self.dynamic_variant
        if dynamic_variant is not None and (given := self._freed(dynamic_variant, arguments, named)) is not None:
            return self._run_free(dynamic_variant, given, arguments, named)
        if self.inner is not None:
            return self._run_with_state(arguments, named)
        try:
            key, tensors = describe(arguments, named)
        except RecursionError:
            return self._run_apart(
                f"compile: {self.name} runs eagerly for arguments that contain themselves", arguments, named
            )
        versions, reason, failed = self.versions, None, False
        for version in versions.get(key, ()):
            reason = version.objection(tensors)
            if reason is None:
                self._shorten(version, arguments, named)
                try:
                    return version.run(tensors, self.function, arguments, named)
                except CheckFailed as failure:
                    reason, failed = str(failure), True
            elif reason.startswith(SAME_MEMORY):
                # gradients differ at every call: from now on they are passed as arguments
                return self._keep(version.gradients, arguments, named)
        again = False
        with self.turn.taken() as taken:
            if taken and not self.refused:
                if (
                    versions is not self.versions
                    or self.inner is not None
                    or self.dynamic_variant is not dynamic_variant
                    or self._loosen(arguments, named)
                ):
                    again = True
                elif (found := self._next(key, tensors, reason)) is not None:
                    return self._record(key, *found, failed, arguments, named)
        if again:
            # for which another thread, or its numbers, have changed what there is
            return self._call(*arguments, **named)
        return self.function(*arguments, **named)

    def _next(self, key: tuple, tensors: tuple[Tensor, ...], reason: str | None) -> tuple[Form, bool] | None:
        """How to record a call, and whether it counts towards the limit.

        None where it is to run eagerly. `reason`: why former recordings do not do.
        """
        kind = self._kind(key)
        form = self._form(key, kind, tensors)
        counts = not (form.dynamic and kind in self.families and reason is None)
        if counts and self.counted >= (config.limit() if self.limit is None else self.limit):
            self._complain(
                kind in self.families,
                reason or (difference(key, next(reversed(self.versions))) if self.versions else "its limit"),
            )
            return None
        if not counts and self.families[kind] >= VERSIONS:
            if len(self.versions) >= SIZES:
                self._complain(False, difference(key, next(reversed(self.versions))))
                return None
            if self._is_new(key):
                return None
        return form, counts

    def _is_outdated(self) -> bool:
        """Whether it is a module's method, and the module has been given another class, or the class another method."""
        function = self.function
        return self.owned and getattr(type(function.__self__), function.__name__, None) is not function.__func__

    def _is_new(self, key: tuple) -> bool:
        """Whether sizes come for the first time: recording them pays when they come again.

        What came long ago is forgotten.
        """
        if key in self.sighted:
            return False
        if len(self.sighted) == 16 * SIZES:
            self.sighted.clear()
        self.sighted.add(key)
        return True

    def _loosen(self, arguments: tuple, named: dict) -> bool:
        """Whether, from the third value of a number on (an argument, or what the function reads of modules, objects and
        globals), programs are given it as a tensor.
        """
        if self.numbers is None or self.has_fallback:
            return False
        for version in [version for versions in self.versions.values() for version in versions]:
            self.number_places.update(version.picture.numbers)
        number_places = {
            key: value for key, place in self.number_places.items() if kept.is_number(value := kept.read(*place))
        }
        for name, value in {
            **kept.numbers_among(arguments, named, bool(self.versions) and not self.is_inner),
            **number_places,
        }.items():
            if len(values := self.numbers.setdefault(name, set())) < 3:
                values.add(value)
        changing = [
            name
            for name, values in self.numbers.items()
            if len(values) > 2 and name not in self.specialised_on and not self._holds_others(name)
        ]
        if len(changing) == (
            0
            if self.dynamic_variant is None
            else len(self.dynamic_variant.dynamic_paths) + len(self.dynamic_variant.dynamic_places)
        ):
            return False
        dynamic_paths = [name for name in changing if name not in self.number_places]
        dynamic_places = [self.number_places[name] for name in changing if name in self.number_places]
        dynamic_variant = Compiled(
            kept.freed(self.function, dynamic_paths, dynamic_places, self.specialised_on, self._mathematics()),
            *self.settings,
        )
        (
            dynamic_variant.dynamic_paths,
            dynamic_variant.dynamic_places,
            dynamic_variant.tree,
            dynamic_variant.specialised_count,
        ) = (
            dynamic_paths,
            dynamic_places,
            kept.tree_of(dynamic_paths),
            len(self.specialised_on),
        )
        dynamic_variant.name, dynamic_variant.has_fallback, dynamic_variant.turn = self.name, True, self.turn
        dynamic_variant._without = self._without | {(id(holder), key) for holder, key in dynamic_places}
        self.dynamic_variant = dynamic_variant
        return True

    def _holds_others(self, path: tuple) -> bool:
        """Whether what was a number in one call was a container of numbers in another, or lay in one."""
        return any(
            number != path and number[: len(path)] == path[: len(number)]
            for number in self.numbers
            if number not in self.number_places
        )

    def _freed(self, dynamic_variant: Compiled, arguments: tuple, named: dict) -> tuple[list, tuple, dict] | None:
        """What `dynamic_variant` is called with, if all that it takes as tensors are numbers in this call."""
        found = kept.taken_out(dynamic_variant.tree, len(dynamic_variant.dynamic_paths), arguments, named)
        dynamic_places = [kept.read(*place) for place in dynamic_variant.dynamic_places]
        if found is None or not all(map(kept.is_number, dynamic_places)):
            return None
        numbers, rest, others = found
        return [*map(kept.counted, [*numbers, *dynamic_places])], rest, others

    def _run_free(
        self, dynamic_variant: Compiled, given: tuple[list, tuple, dict], arguments: tuple, named: dict
    ) -> Any:
        """Call the function that takes numbers as they come.

        Those that it looks at are not tried again, or none, if it looks at other values.
        """
        outputs = dynamic_variant(*given)
        if dynamic_variant.refused or dynamic_variant.versions is not self.versions:
            with self.turn.taken() as taken:
                if not taken or self.dynamic_variant is not dynamic_variant:
                    return outputs  # another thread was first
                if dynamic_variant.refused:
                    self.dynamic_variant = None
                    self.numbers = (
                        self.numbers if len(self.specialised_on) > dynamic_variant.specialised_count else None
                    )
                else:
                    self.recorded, self.versions = dynamic_variant.recorded, dynamic_variant.versions
                    self._loosen(arguments, named)  # another number may have begun to change
        return outputs

    def _mathematics(self) -> list[snapshot.Place]:
        """Where the function finds Python's math module and its functions."""
        with suppress(CannotRepeat):
            return quick(self.function, (), self._without).mathematics
        return []

    def _kind(self, key: tuple) -> tuple:
        """What is the same for calls that differ in sizes.

        Integers are sizes, where they make programs of the same steps on other sizes.
        """
        kind = family(key, integers=False)
        programs = [
            version[0].executable.lowered
            for other, version in self.versions.items()
            if family(other, integers=False) == kind
        ]
        layouts = {tuple(program.layouts.values()) for program in programs}
        return kind if len(layouts) > 1 and len({*map(len, layouts)}) == 1 else family(key)

    def _form(self, key: tuple, kind: tuple, tensors: tuple[Tensor, ...]) -> Form:
        """How to compile: for all sizes if requested, or if sizes have changed twice."""
        dynamic = self.dynamic
        if dynamic is None:
            changing = key not in self.versions and self.families.get(kind, 0) >= 2
            dynamic = changing or any(getattr(tensor, "_dynamic", False) for tensor in tensors)
        return Form(self.options.get("linked"), dynamic, self.options.get("freezing", False))

    def _complain(self, sizes: bool, reason: str) -> None:
        """Warn, once, that calls run eagerly, for this `reason`.

        `sizes`: whether the same call with other sizes was recorded.
        """
        if not self.complained:
            self.complained = True
            number = (
                ""
                if "(" in reason or " at 0x" in reason
                else "; a number that keeps changing is better given as a tensor"
            )
            hint = number or ("" if self.dynamic or not sizes else "; dynamic=True compiles once for all sizes")
            told = (
                f"compile: {self.name} was recorded {self.recorded} times, the last time because of {reason}; it "
                f"runs eagerly from here{hint}"
            )
            warnings.warn(told, stacklevel=5)

    def _run_apart(self, why: str, arguments: tuple, named: dict) -> Any:
        """Run without a program, for a call of a kind that has none."""
        if self.fullgraph:
            raise CannotRepeat(why)
        if not self.complained:
            self.complained = True
            warnings.warn(why, stacklevel=3)
        return self.function(*arguments, **named)

    def _record(self, key: tuple, form: Form, counts: bool, failed: bool, arguments: tuple, named: dict) -> Any:
        """Run eagerly and keep the recorded program, unless the call created state (of an optimizer, of a lazy module)
        that the next call will find.
        """
        with _numbers_out.taken() if self.has_fallback or self.is_inner else nullcontext(True) as taken:
            if not taken:
                return self.function(*arguments, **named)
            made = record(
                self.function,
                arguments,
                named,
                self.name,
                form,
                failed,
                self._without,
                self.fullgraph,
                self.has_fallback,
            )
        if made.refused and not failed:
            self._give_up(made.refused)
        if made.version is not None:
            self.versions = {**self.versions, key: [made.version, *self.versions.get(key, ())]}
            for kind in {family(key), family(key, integers=False)}:
                self.families[kind] = self.families.get(kind, 0) + 1
            self.recorded += 1
            self.counted += counts
            self.changes.clear()
            if self.verbose:
                print(self.explain())
        elif made.change is not None:
            endless = self._settle(key, made.change, made.places)
            if endless and self.fullgraph and not self.has_fallback:
                raise CannotRepeat(endless)
            if endless:
                self._give_up(endless)
        return made.outputs

    def _give_up(self, why: str) -> None:
        """Record no more, and run eagerly what is not recorded yet."""
        self.refused = why
        if not (self.has_fallback or self.is_inner):
            others = ", but for what is recorded already" if self.versions else ""
            warnings.warn(
                f"compile: {self.name} runs eagerly from here{others}: {why.partition(': ')[2]} (fullgraph=True makes "
                "this an error)",
                stacklevel=4,
            )

    def _settle(self, key: tuple, change: str, places: list[snapshot.Place]) -> str:
        """Handle a call that changed Python state.

        If such calls always do, changed tensors are kept between calls; other changes are told, as what cannot be
        repeated.
        """
        before = subject(change) in self.subjects
        again = (before and key in self.changes) or len(self.changes) >= VERSIONS
        self.changes.add(key)
        self.subjects.add(subject(change))
        if before and places and self.rounds < VERSIONS:
            self._want(places)
        elif again:
            scheduled = any(name in change for name in ("param_groups[", "last_epoch", "_last_lr", "_step_count"))
            advice = (
                "read what a schedule sets after the call"
                if scheduled
                else "write tensors in place, or return them, and keep other state outside"
            )
            return f"compile: {change} whenever it runs, which a compiled function cannot repeat; {advice}"
        return ""

    def _keep(self, places: list[snapshot.Place], arguments: tuple, named: dict) -> Any:
        """Run eagerly, and pass these places as arguments from the next call on."""
        with self.turn.taken() as taken:
            if taken and self.inner is None:
                self._want(places)
        return self.function(*arguments, **named)

    def _want(self, places: list[snapshot.Place]) -> None:
        """From now on the tensors at these places are arguments, and their new values are among the results."""
        if self.is_inner:
            self.wanted = places  # the function that passes the others handles it
            return
        former = self.inner
        places = [*(former.places if former else ()), *places]
        inner = Compiled(kept.given(self.function, places, self._mathematics()), *self.settings)
        self.rounds = inner.rounds = self.rounds + 1
        inner.name = self.name
        inner.is_inner = True
        inner.has_fallback = self.has_fallback
        inner.turn = self.turn
        inner.places = places
        inner._without = self._without | {(id(holder), name) for holder, name in places}
        inner.recorded = former.recorded if former else self.recorded
        self.inner, self.versions = inner, inner.versions

    def _run_with_state(self, arguments: tuple, named: dict) -> Any:
        """Run with the tensors at places as arguments. Another thread's call begins with what this one leaves there."""
        turn = self.turn.take()
        if turn is None:
            return self.function(*arguments, **named)
        try:
            inner, before = self.inner, self.inner.recorded
            outputs, new = inner(kept.values(inner.places), arguments, named)
            kept.put(
                inner.places,
                new,
                outputs,
                [version.picture for versions in inner.versions.values() for version in versions],
            )
            self.recorded, self.versions = inner.recorded, inner.versions
            if inner.refused and not self.refused:
                self._give_up(inner.refused)
            if inner.wanted:
                self._want(inner.wanted)
            if inner.recorded > before:  # a number may have begun to change
                self._loosen(arguments, named)
            return outputs
        finally:
            turn.release()

    def _shorten(self, version: Version, arguments: tuple, named: dict) -> None:
        """Make this version's fast path the next call's entry point."""
        executable = version.executable
        section = executable.section
        here = (
            section.linked
            or section.replay is not None
            or all(buffer.device.type == "cpu" for buffer in section.buffers)
        )
        # the fast path cannot undo writes that precede a failed check, but a run can
        undone = type(executable) is not Executable or not executable.spoiled
        if here and undone:
            self.__call__ = version.caller(arguments, named, self._call, self.function)

    def explain(self, source: bool = False, assembly: bool = False, llvm: bool = False) -> str:
        """All programs as text: steps with source lines and costs, kernels, memory.

        Optionally the generated source, machine code and LLVM IR.
        """
        programs = [version.executable for versions in self.versions.values() for version in versions]
        told = [program.explain(source, assembly, llvm) for program in programs]
        if self.options.get("freezing") and not all(program.freezing for program in programs):
            told.append("Frozen: nothing in calls that record gradients; call it under no_grad()")
        if self.refused:
            told.append(
                f"{self.name} runs eagerly{', but for these' if told else ''}: {self.refused.partition(': ')[2]}"
            )
        return "\n\n".join(told) or f"{self.name}: nothing recorded yet; call it first"

    @property
    def graph(self) -> Program:
        """The program recorded last, as it runs: print it, or draw it with `.dot()`.

        Its `recorded` form is `executable.recorded`.
        """
        if not self.versions:
            raise RuntimeError(self.explain())
        return next(reversed(self.versions.values()))[0].executable.program

    def __deepcopy__(self, memo: dict) -> Compiled:
        return type(self)(copy.deepcopy(self.function, memo), *self.settings)

    def __reduce__(self) -> tuple:
        return type(self), (self.function, *self.settings)


class CompiledFunction(Compiled):
    """A compiled function that is a method where a class has it, as functions are; the `forward` of a compiled module
    is bound to it already.
    """

    __slots__ = ()

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else functools.partial(self, instance)


def compile_in_place(module: Any, *args: Any, **options: Any) -> None:
    """Compile a module in place, by changing its class."""
    plain = object.__new__(type(module))
    object.__setattr__(plain, "__dict__", module.__dict__)
    object.__setattr__(module, "__class__", type(compile(plain, *args, **options)))


def _compiled_module(module: Any, settings: tuple) -> Any:
    """A module that shares the attribute dictionary of `module`, with a compiled `forward`."""
    module = module._uncompiled() if type(vars(type(module)).get("compiled")) is Compiled else module
    base = type(module)
    compiled = Compiled(module.forward, *settings)

    def again(original: Any) -> Any:
        return _compiled_module(original, settings)

    def plain() -> Any:
        return module

    members = {
        "forward": compiled,
        "compiled": compiled,
        "_uncompiled": staticmethod(plain),
        "explain": lambda self, **options: compiled.explain(**options),
        **({} if hasattr(module, "graph") else {"graph": property(lambda self: compiled.graph)}),
        "__copy__": lambda self: again(copy.copy(module)),
        "__deepcopy__": lambda self, memo: again(copy.deepcopy(module, memo)),
        "__reduce_ex__": lambda self, protocol: (_compiled_module, (plain(), settings)),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    result = object.__new__(type(base.__name__, (base,), members))
    object.__setattr__(result, "__dict__", module.__dict__)
    return result

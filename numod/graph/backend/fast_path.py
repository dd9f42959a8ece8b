"""The fast path into a linked program: a Python function, generated for it, that checks the guards, launches, and wraps
the results.

A small network's native step takes a tenth of a microsecond; the general path in Python around it would take a hundred
times that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from keyword import iskeyword
from types import CodeType
from typing import Any

from ...core import apply as dispatch
from ...core import changes
from ...core.create.random import Draw
from ...core.tensor import OwnCount, Tensor
from ...device import Storage
from ...device.storage import address
from ..guards.guard import SPACE, Guard, Settings, equal, weakly
from ..passes.freezing import Frozen
from ..guards.snapshot import Snapshot, conditions
from ..values import objects
from ..values.kinds import is_plain, is_plain_key, is_simple
from ..values.lazy_scalar import ScalarExpression, function_of
from .lower import Buffer, Call, Integer, Number, Span, Test
from ..guards.bytecode import sees_order
from ..ir.program import Value
from .cuda_graph import Replay
from .output_reuse import LARGEST, Memory, restore
from .executable import Executable
from .section import CheckFailed
from ..values.pytree import Given, fields_of, has_identity, is_data, is_structure, keys, parts, remade


@lru_cache
def _code(text: str, name: str) -> CodeType:
    """The text compiled, which takes longer than many a program; those of other sizes are often alike."""
    return compile(text, f"<numod call of {name}>", "exec")


def caller(
    executable: Executable,
    picture: Snapshot,
    arguments: tuple,
    named: dict[str, Any],
    slow: Callable,
    without: Sequence[int],
    shared: dict[int, Storage],
    reached: dict[int, bool],
    held: frozenset[Storage],
    answers: Sequence[tuple[int, str]] = (),
    run: Callable | None = None,
) -> Callable:
    """The fast path for arguments like these. If any guard fails it calls `slow`.

    The inputs numbered `without` must have no gradient; those in `shared` must be that memory, and no others any that
    is `held`; those `reached` by a backward pass have no hooks, and are leaves if so told; `answers` are further
    conditions on inputs, by their numbers. `run`, of the tensors, the arguments and those named, is what is called for
    a program whose memory its backward pass needs.
    """
    writer = Checker if run is not None else Writer if executable.section.linked else InTurn
    made = writer(executable, picture, arguments, named, slow, without, shared, reached, held, answers)
    if run is not None:
        made.space |= {"run": run, "CheckFailed": CheckFailed}
    return made.function()


class Writer:
    """Generates the function for a section that is one native function."""

    def __init__(
        self,
        executable: Executable,
        picture: Snapshot,
        arguments: tuple,
        named: dict[str, Any],
        slow: Callable,
        without: Sequence[int],
        shared: dict[int, Storage],
        reached: dict[int, bool],
        held: frozenset[Storage],
        answers: Sequence[tuple[int, str]],
    ) -> None:
        self.shared, self.reached, self.answers = shared, reached, answers
        self.executable, self.picture, self.section, self.without = executable, picture, executable.section, without
        self.space: dict[str, Any] = {
            "slow": slow,
            "state": dispatch.state,
            "listeners": dispatch.listeners,
            "changes": changes,
            "picture": picture,
            **SPACE,
            "new": object.__new__,
            "Tensor": Tensor,
            "Storage": Storage,
            "address": address,
            "restore": restore,
            "absent": object(),
            "plain": is_plain,
            "held": held,
            "modes": type(dispatch.state),
        }
        self.arguments: list[str] = []  # names of the tensor arguments
        self.tensors: list[Tensor] = []
        self.containers: list[str] = []  # names of the lists, dicts and dataclass instances among the arguments
        given = self.given = [f"a{k}" for k in range(len(arguments))]
        self.head = f"def call({''.join(f'{name}=absent, ' for name in given)}{'/, ' if given else ''}*more, **named):"
        self.back = (
            f"return slow(*[each for each in ({''.join(f'{name}, ' for name in given)}) if each is not "
            "absent], *more, **named)"
        )
        self.opening = [f"if more or {f'len(named) != {len(named)}' if named else 'named'}:", "    break"]
        if len(named) > 1 and sees_order(picture.function):
            self.opening += [f"if [*named] != {list(named)}:", "    break"]
        self.opening += [line for name, argument in zip(given, arguments) for line in self._take(name, argument)]
        for number, (key, each) in enumerate(named.items()):
            name = f"named{number}"
            self.opening += [f"{name} = named[{key!r}]", *self._take(name, each)]
        self.steady = self._settled() if all(executable.lowered.widths) else {}  # what gives no numbers sets settings
        self.space |= {f"kept{k}": (None, None) for k in self.steady}
        # here, and not by the native function
        self.tested = [guard for guard in picture.guards if guard not in self.steady.values()]
        self._sort_memory()

    def _settled(self) -> dict[int, Settings]:
        """Sources whose numbers are kept from call to call."""
        return _steady(self.executable.lowered.sources, self.picture.guards)

    def _name(self, value: Any, letter: str) -> str:
        """A name for an object the function refers to."""
        name = f"{letter}{len(self.space)}"
        self.space[name] = value
        return name

    def _take(self, name: str, each: Any) -> list[str]:
        """Lines that check an argument's structure and assign its tensors to names."""
        if issubclass(type(each), Tensor):
            self.arguments.append(name)
            self.tensors.append(each)
            return []
        if is_simple(each) or not is_structure(each):
            held = weakly(each)
            thing = self._name(held, "thing")
            same = f"{name} is {thing}() is not None" if held is not each else f"{name} is {thing}"
            return [f"if not ({same}{f' or equal({name}, {thing})' if is_simple(each) else ''}):", "    break"]
        if has_identity(each):
            self.containers.append(name)
        if type(each) in (list, tuple, dict) or (
            issubclass(type(each), tuple) and not objects.has_attributes(type(each))
        ):
            return self._take_items(name, each)
        if is_data(each) and all(
            objects.reads_plainly(type(each), field) and field.isidentifier() and not iskeyword(field)
            for field in fields_of(each)
        ):
            return self._take_fields(name, each)
        return self._take_parts(name, each)

    def _take_items(self, name: str, each: Any) -> list[str]:
        """The same for a container of one of Python's classes, or a named tuple."""
        names = [key for key, _ in objects.items_of(each)]
        same = f"type({name}) is {self._name(type(each), 'kind')} and "
        if not issubclass(type(each), dict):
            base = objects.base_of(type(each))
            same += (
                f"len({name}) == {len(names)}"
                if type(each) is base
                else f"{self._name(base.__len__, 'size')}({name}) == {len(names)}"
            )
        elif all(map(is_plain_key, names)):
            same += f"list({name}) == {self._name(names, 'keys')}"
        else:
            same += (
                f"len({name}) == {len(names)} and all(map({self._name(operator.is_, 'same')}, {name}, "
                f"{self._name(names, 'keys')}))"
            )
        parts = [f"{name}_{k}" for k in range(len(names))]
        # a named tuple may have one of its own
        own = type(each).__getitem__ not in (list.__getitem__, tuple.__getitem__, dict.__getitem__)
        texts = [
            f"{self._name(tuple.__getitem__, 'item')}({name}, {key})" if own else f"{name}[{self._name(key, 'key')}]"
            for key in names
        ]
        items = [item for _, item in objects.items_of(each)]
        lines = [
            line
            for part, text, item in zip(parts, texts, items)
            for line in (f"{part} = {text}", *self._take(part, item))
        ]
        return [f"if not ({same}):", "    break", *lines]

    def _take_fields(self, name: str, each: Any) -> list[str]:
        """The same for a dataclass instance; a missing field raises AttributeError, which leads to the slow path."""
        held = objects.attributes(each)
        lines = [
            line
            for field, part in held.items()
            for line in (f"{name}_{field} = {name}.{field}", *self._take(f"{name}_{field}", part))
        ]
        inside = objects.dictionary(each)
        more = f" or len({name}.__dict__) != {len(inside)}" if inside is not None else ""
        return [f"if type({name}) is not {self._name(type(each), 'kind')}{more}:", "    break", *lines]

    def _take_parts(self, name: str, each: Any) -> list[str]:
        """The same for an instance of a class derived from a built-in one, and others whose parts are not simply
        had.
        """
        inside = parts(each)
        names = [f"{name}_{k}" for k in range(len(inside))]
        apart = self._name(partial(_apart, kind=type(each), names=keys(each), value=_value(each)), "apart")
        lines = [line for part, item in zip(names, inside) for line in self._take(part, item)]
        unpacked = [f"{', '.join(names)}, = {name}_parts"] if names else []
        return [f"{name}_parts = {apart}({name})", f"if {name}_parts is None:", "    break", *unpacked, *lines]

    def _sort_memory(self) -> None:
        """Determine which results and gradients reuse memory of earlier calls, and the names of all."""
        self.space["launch"] = self.section.launch
        lowered, leaves = self.executable.lowered, {}
        for owner, value in self.executable.gradients:
            if value is not None and lowered.places[value].buffer.kind == "gradient":
                leaves.setdefault(lowered.places[value].buffer, []).append((owner, value))
        single = {buffer: pairs[0] for buffer, pairs in leaves.items() if len(pairs) == 1}
        own = {
            buffer: pair
            for buffer, pair in single.items()
            if isinstance(pair[0], Tensor) and lowered.places[pair[1]].offset == 0
        }
        made = [array for array in self.section.arrays if array.kind != "input"]
        self.gradients = {buffer: f"gradient{k}" for k, buffer in enumerate(each for each in made if each in own)}
        self.results = {buffer: f"m{k}" for k, buffer in enumerate(each for each in made if each not in own)}
        small = [result for result in self.results if result.nbytes <= LARGEST]
        self.large = [result for result in self.results if result.nbytes > LARGEST]
        pairs = [(owner, lowered.layouts[value]) for owner, value in map(own.get, self.gradients)]
        self.owners = {self.gradients[buffer]: self._name(own[buffer][0], "parameter") for buffer in self.gradients}
        # else numbers would be drawn before
        watched = [each for each in self.tested if each.words] if len(self.steady) == len(lowered.sources) else []
        self.tested = [each for each in self.tested if each not in watched]
        words = [word for each in watched for word in each.words]
        self.memory = Memory(self.section, self.executable.arena, small, list(self.gradients), pairs, self.space, words)
        self.space["memory"] = self.memory
        self.pack = ", ".join(["place", "table", "keep", *(self.results[each] for each in small)])

    def function(self) -> Callable:
        """Generate the text and compile it to a function."""
        kept = [f"settings{k}, numbers{k} = kept{k}" for k in self.steady]
        head = [
            self.head,
            *(f"    global kept{k}" for k in self.steady),
            "    same = False",
            "    try:",
            "        while True:",
        ]
        head += [f"            {line}" for line in [*self.opening, *kept, f"same = {self._same()}", "break"]]
        # whose errors are the function's own
        head += [
            "    except (AttributeError, LookupError):",
            "        pass",
            "    if not same:",
            f"        {self.back}",
        ]
        text = "\n".join(head + [f"    {line}" for line in self._body()])
        self.text = text
        exec(_code(text, self.section.name), self.space)  # our own text
        function = self.space["call"]
        function.text = text
        return function

    def _same(self) -> str:
        """All guards as one expression."""
        tests = ["not listeners", "changes.count == picture.count"]
        tests.append(f"state.grad_enabled is {dispatch.state.grad_enabled}")
        casts = (
            f"state.autocast == {self._name(dispatch.state.autocast, 'autocast')}"
            if dispatch.state.autocast
            else "not state.autocast"
        )
        # reading thread-local state takes three times as long
        plain = "" if dispatch.state.autocast or dispatch.state.inference else "not modes.special or "
        tests.append(f"({plain}state.inference is {dispatch.state.inference} and not state.checkpointing and {casts})")
        for number, (name, tensor) in enumerate(zip(self.arguments, self.tensors)):
            tests.append(
                f"{name}._layout is {self._name(tensor._layout, 'layout')} and type({name}) is "
                f"{self._name(type(tensor), 'kind')}"
            )
            tests.append(
                f"{name}._storage is {self._name(self.shared[number], 'storage')}"
                if number in self.shared
                else f"{name}._storage not in held"
            )
            if dispatch.state.grad_enabled:
                without = f"not {name}._requires_grad and ({name}._base is None or not {name}.requires_grad)"
                tests.append(f"{name}.requires_grad" if tensor.requires_grad else without)
        tests += [f"{self.arguments[k]}._grad is None" for k in self.without]
        tests += [text.format(self.arguments[k]) for k, text in self.answers]
        tests += [f"plain({self.arguments[k]}, {leaf})" for k, leaf in self.reached.items()]
        for k in range(len(self.arguments)):
            for j in range(k):
                tests += self._sharing(j, k)
        tests += [self._fresh(each) for each in self.executable.frozen]
        return " and ".join([*tests, *(self._unchanged(k) for k in self.steady), conditions(self.tested, self.space)])

    def _fresh(self, frozen: Frozen) -> str:
        """The condition that what a frozen value was computed of has not been written to since."""
        versions = "".join(f"{self._name(each, 'storage')}.version + " for each in frozen.storages)
        return f"{versions}{self._name(OwnCount, 'own')}.total == {self._name(frozen, 'frozen')}.seen"

    def _unchanged(self, k: int) -> str:
        """The condition that an optimizer's settings are unchanged since the last call, or at least of the same
        types.
        """
        guard = self.steady[k]
        same = (
            f"(unchanged{k} := {self._name(guard.group, 'group')} == settings{k}) or ({guard.expression(self.space)})"
        )
        return f"({guard.parameters.expression(self.space)} and ({same}))"

    def _numbers(self, k: int, source: Any) -> list[str]:
        """Lines that compute a source's numbers.

        Those derived from an optimizer's settings are cached until a setting changes.
        """
        names = "".join(f"n{k}_{j}, " for j in range(self.executable.lowered.widths[k]))
        if isinstance(source, Draw):
            return [f"{names}= {self._name(source.generator, 'generator')}.draw({source.count})"]
        asked = f"{self._name(source, 'source')}()"
        if k not in self.steady:
            return [f"{names}= {asked}" if names else asked]
        group = self._name(self.steady[k].group, "group")
        return [
            f"if not unchanged{k}:",
            f"    numbers{k} = {asked}",
            f"    kept{k} = dict({group}), numbers{k}",
            f"{names}= numbers{k}",
        ]

    def _sharing(self, j: int, k: int) -> list[str]:
        """The condition that two arguments share memory as when recorded."""
        first, second, a, b = self.arguments[j], self.arguments[k], self.tensors[j], self.tensors[k]
        if a._storage is not b._storage:
            return [f"{first}._storage is not {second}._storage"]
        same = "is" if a is b else "is not"
        return [
            f"{first} {same} {second}",
            f"{first}._storage is {second}._storage",
            f"{second}._offset - {first}._offset == {b._offset - a._offset}",
        ]

    def _body(self) -> list[str]:
        """Lines of the launch, its preparation and its results."""
        lines = self._launch()
        lines += [f"{self._name(each, 'storage')}.version += 1" for each in self.executable.storages]
        lines += [f"{self.arguments[number]}._storage.version += 1" for number in self.executable.inputs_written]
        return lines + self._set_gradients() + self._results()

    def _launch(self) -> list[str]:
        lines = [
            "packs = memory.packs",
            "try:",
            "    pack = packs.popleft()",
            "except IndexError:",
            "    pack = memory.make()",
            f"{self.pack} = pack",
        ]
        lines += [line for each in self.large for line in self._new(each, self.results[each])]
        addresses = [
            f"table[{self.section.position_of[each]}] = address({self.results[each]}.data)" for each in self.large
        ]
        lines += [*addresses, "formers = ()"]
        if self.gradients:
            ours = " or ".join(
                f"{owner}._grad is not {each} or {each}._layout is not {self._layout(each)}"
                for each, owner in self.owners.items()
            )
            lines += [f"if {ours}:", "    formers = memory.settle()"]
        lines += self._all_numbers()
        numbers = [f"n{source}_{index}" for source, index in self.section.numbers]
        launch = f"failed = launch({', '.join(['place', *map(self._input, self.section.inputs), *numbers])})"
        lines += [launch, "if failed < 0:"]
        lines += [
            f"    if failed > -{self.memory.gradient_words}:",
            "        packs.append(pack)",
            "        restore(formers)",
            f"        {self.back}",
        ]
        lines += ["    pack, formers = memory.renew(failed, pack, formers)", f"    {self.pack} = pack"]
        lines += [f"    {each}" for each in [*addresses, launch, "memory.watch(pack)", "packs = memory.packs"]]
        lines.append("packs.append(pack)")
        return lines + (["if failed:", "    restore(formers)", *self._give_back()] if self.section.tests else [])

    def _all_numbers(self) -> list[str]:
        """Lines that compute the run-time numbers, which may advance optimizers' step counts."""
        lines = [line for k, source in enumerate(self.executable.lowered.sources) for line in self._numbers(k, source)]
        return (
            [f"counts = [(each, dict(each)) for each in {self._name(self.executable.counting, 'counting')}]", *lines]
            if self._counts
            else lines
        )

    @property
    def _counts(self) -> bool:
        return bool(self.section.may_fail and self.executable.counting)

    def _give_back(self) -> list[str]:
        """Lines for a failed check: restore random streams and step counts, and take the slow path."""
        drawn = [(k, source) for k, source in enumerate(self.executable.lowered.sources) if isinstance(source, Draw)]
        lines = [
            f"    {self._name(each.generator, 'generator')}.undraw(n{k}_1, {each.count})" for k, each in reversed(drawn)
        ]
        lines += ["    for each, former in counts:", "        each.update(former)"] if self._counts else []
        return [*lines, f"    {self.back}"]

    def _new(self, buffer: Buffer, name: str) -> list[str]:
        """Lines that allocate memory for a buffer, and again where that fails, after what is kept for later was given
        back.
        """
        allocate, again, dtype = (
            self._name(each, "new")
            for each in (buffer.device.allocator(buffer.nbytes), buffer.device.empty, buffer.storage)
        )
        first, second = (f"    {name} = Storage({each}({buffer.size}, {dtype}))" for each in (allocate, again))
        return ["try:", first, "except MemoryError:", second]

    def _layout(self, gradient: str) -> str:
        return self._name(self.space[gradient]._layout, "layout")

    def _input(self, buffer: Buffer) -> str:
        x = self.arguments[buffer.number]
        return f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data"

    def _owner(self, owner: Tensor | Value) -> str:
        """The expression of a leaf that has a gradient."""
        return (
            self.arguments[self.executable.program.inputs.index(owner)]
            if isinstance(owner, Value)
            else self._name(owner, "parameter")
        )

    def _set_gradients(self) -> list[str]:
        """Lines that set gradients, except those that reuse memory of earlier calls, which are already set."""
        lines = []
        for owner, value in self.executable.gradients:
            target = self._owner(owner)
            if value is None:
                lines.append(f"{target}._grad = None")
            elif self.executable.lowered.places[value].buffer not in self.gradients:
                *made, tensor = self._tensor(value)
                lines += [*made, f"{target}._grad = {tensor}"]
        return lines

    def _tensor(self, value: Value) -> list[str]:
        """Lines that create a value's tensor; the last one is its expression."""
        span, layout = self.executable.lowered.places[value], self.executable.lowered.layouts[value]
        buffer, program = span.buffer, self.executable.program
        if buffer.kind == "input" and value in program.inputs:
            return [self.arguments[buffer.number]]
        if buffer.kind == "held" and value in program.held:
            return [self._name(program.held[value], "held")]
        name = f"t{value.number}"
        lines = [f"{name} = new(Tensor)", f"{name}._layout = {self._name(layout, 'layout')}"]
        if buffer.kind == "input":
            x = self.arguments[buffer.number]
            return [*lines, f"{name}._storage = {x}._storage", f"{name}._offset = {x}._offset + {span.offset}", name]
        if buffer.kind == "held":
            storage = self._name(buffer.tensor._storage, "storage")
        elif buffer in self.results:
            storage = self.results[buffer]
        elif buffer in self.gradients:
            storage = f"{self.gradients[buffer]}._storage"
        else:
            storage = f"{name}_memory"
            lines += self._new(buffer, storage)
        if dispatch.state.inference and buffer.kind != "held":
            lines.append(f"{name}._inference = True")
        return [
            *lines,
            f"{name}._storage = {storage}",
            *([f"{name}._offset = {span.offset}"] if span.offset else []),
            name,
        ]

    def _results(self) -> list[str]:
        lines: list[str] = []
        made = {value: f"{self._owner(owner)}._grad" for owner, value in self.executable.gradients if value is not None}

        def text(each: Any) -> str:
            if issubclass(type(each), Value):
                if each not in made:
                    *before, made[each] = self._tensor(each)
                    lines.extend(before)
                return made[each]
            if type(each) is Given:
                return self.containers[each.number]
            if type(each) is ScalarExpression:
                return f"{self._name(function_of(each.operation), 'read')}({', '.join(map(text, each.operands))})"
            if type(each) in (tuple, list):
                inner = "".join(f"{text(part)}, " for part in each)
                return f"({inner})" if type(each) is tuple else f"[{inner}]"
            if type(each) is dict:
                return "{" + ", ".join(f"{self._name(key, 'key')}: {text(part)}" for key, part in each.items()) + "}"
            if is_structure(each):
                inner = "".join(f"{text(part)}, " for part in parts(each))
                plain = issubclass(type(each), tuple) and not objects.has_attributes(type(each))
                make, like = (tuple.__new__, type(each)) if plain else (remade, each)
                return f"{self._name(make, 'make')}({self._name(like, 'constant')}, [{inner}])"
            return self._name(each, "constant")

        result = text(self.executable.program.outputs)
        return [*lines, f"return {result}"]


class Checker(Writer):
    """Generates the function for a program with a backward pass: it checks the guards, and leaves the rest to `run`."""

    def _settled(self) -> dict[int, Settings]:
        return {}

    def _sort_memory(self) -> None:
        """Each run has memory of its own."""

    def _body(self) -> list[str]:
        tensors, given = ("".join(f"{name}, " for name in names) for names in (self.arguments, self.given))
        call = f"return run(({tensors}), ({given}), named)"
        return ["try:", f"    {call}", "except CheckFailed:", f"    {self.back}"] if self.section.may_fail else [call]


class InTurn(Writer):
    """Generates the function for a section whose kernels are launched in turn, or as a graph.

    Local memory belongs to the program, and is used by one call at a time.
    """

    def _sort_memory(self) -> None:
        """Results and gradients are new memory at every call."""
        self.gradients, self.owners = {}, {}
        self.results = {
            each: f"m{k}" for k, each in enumerate(array for array in self.section.arrays if array.kind != "input")
        }
        replay = self.section.replay
        self.space["busy"] = self.executable.busy if replay is None else replay.lock

    def _launch(self) -> list[str]:
        arrays: dict[Span, str] = {}
        if self.section.replay is not None:
            return self._start(self.section.replay)
        turns = [
            line
            for call, launch in zip(self.section.calls, self.section.launchers)
            for line in self._turn(call, launch, arrays)
        ]
        lines = [line for each, name in self.results.items() for line in self._new(each, name)]
        lines += [f"{name} = {self._array(span)}" for span, name in arrays.items() if name not in self.space]
        guarded = [*lines, *self._all_numbers(), *turns]
        return ["if busy.locked():", f"    {self.back}", "with busy:", *(f"    {each}" for each in guarded or ["pass"])]

    def _start(self, replay: Replay) -> list[str]:
        """Lines that start the graph."""
        lines = [line for each, name in self.results.items() for line in self._new(each, name)]
        name = self._name(replay, "replay")
        numbers = "".join(f"n{source}_{index}, " for source, index in replay.numbers)
        lines += [f"arrays = {''.join(f'{self._array(Span(each))}, ' for each in replay.buffers) or '()'}"]
        # where there is no room for it
        lines += ["try:", f"    told = {name}.ready(arrays)", "except RuntimeError:", f"    {self.back}"]
        lines += [*self._all_numbers(), f"{name}.start(told, arrays, ({numbers}))"]
        held = f"busy.locked() or not {self._name(replay.backend, 'backend')}.replaying"
        return [f"if {held}:", f"    {self.back}", "with busy:", *(f"    {line}" for line in lines)]

    def _turn(self, each: Call | Test, launch: Callable, arrays: dict[Span, str]) -> list[str]:
        """Lines of one launch or check. The first use of an array assigns it to a name."""
        if isinstance(each, Test):
            return [
                f"if {self._argument(each.span, arrays)}[0] != {self._argument(each.found, arrays)}:",
                *self._give_back(),
            ]
        call = f"{self._name(launch, 'launch')}({', '.join(self._argument(a, arrays) for a in each.arguments)})"
        return [call] if each.host is None else ["try:", f"    {call}", "except Exception:", *self._give_back()]

    def _argument(self, each: Any, arrays: dict[Span, str]) -> str:
        if isinstance(each, Span):
            if each not in arrays:
                local = each.buffer.kind == "local"
                arrays[each] = (
                    self._name(each.of(self.section.local(each.buffer, self.executable.arena)), "local")
                    if local
                    else f"d{len(arrays)}"
                )
            return arrays[each]
        if isinstance(each, (Number, Integer)):
            return f"n{each.source}_{each.index}"
        return repr(each) if type(each) in (int, bool) else self._name(each, "constant")

    def _array(self, span: Span) -> str:
        """The expression of an array: an argument, a new one, or held memory."""
        buffer = span.buffer
        if buffer.kind == "input":
            given = self._input(buffer)
        else:
            owner = self.results[buffer] if buffer in self.results else self._name(buffer.tensor._storage, "storage")
            given = f"{owner}.data"
        given = f"({given}).view({self._name(span.storage, 'dtype')})" if span.paired else given
        return f"({given})[{span.offset}:]" if span.offset else given


def _value(each: Any) -> Any:
    """The number or text that a structure is beside its parts."""
    return objects.plain(each) if objects.base_of(type(each)) in objects.VALUES else None


def _apart(each: Any, kind: type, names: list, value: Any) -> list | None:
    """The parts of a structure, if it is of this class and has parts of these names."""
    if type(each) is not kind or (kind is not slice and not equal(_value(each), value)):
        return None
    now = keys(each)
    same = len(now) == len(names) and all(
        one is two or (is_plain_key(two) and type(one) is type(two) and one == two) for one, two in zip(now, names)
    )
    return parts(each) if same else None


def _steady(sources: Sequence, guards: Sequence[Guard]) -> dict[int, Settings]:
    """Sources whose numbers depend only on the settings of one optimizer group, each with the guard of these
    settings.
    """
    settings = [guard for guard in guards if isinstance(guard, Settings) and guard.plain]
    found: dict[int, Settings] = {}
    for k, source in enumerate(sources):
        cells = getattr(source, "__closure__", None) or ()
        guard = next(
            (setting for setting in settings if len(cells) == 1 and cells[0].cell_contents is setting.group), None
        )
        if guard is not None and guard not in found.values():
            found[k] = guard
    return found

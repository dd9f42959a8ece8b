"""The fast path into a program: a generated Python function that checks the guards, launches, and wraps the results.

A small network's native step takes 0.1 µs; the general path in Python would take a hundred times longer.
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
from ...core.tensor import DataVersionCounter, Tensor
from ...device import Storage
from ...device.storage import address
from ..guards.guard import SPACE, Guard, Settings, equal, weakly
from ..passes.freezing import Frozen
from ..guards.inputs import InputConditions
from ..guards.snapshot import Snapshot, conditions
from ..values import objects
from ..values.kinds import is_plain, is_plain_key, is_simple
from ..values.lazy_scalar import ScalarExpression, function_of
from .lower import Buffer, Call, CheckCall, Integer, Number, Span
from ..guards.bytecode import sees_order
from ..ir.program import Value
from .cuda_graph import Replay
from .output_reuse import LARGEST, Memory, restore
from .executable import Executable
from .schedule import may_fail
from .section import CheckFailed
from ..values.pytree import ArgumentContainer, fields_of, has_identity, is_data, is_structure, keys, parts, rebuilt


@lru_cache
def _code(text: str, name: str) -> CodeType:
    """Compile the text. Cached, as compiling can take longer than a run, and texts for other sizes are often equal."""
    return compile(text, f"<numod call of {name}>", "exec")


def build_fast_path(
    executable: Executable,
    snapshot: Snapshot,
    inputs: InputConditions,
    arguments: tuple,
    kwargs: dict[str, Any],
    fallback: Callable,
    run_with_backward: Callable | None = None,
) -> Callable:
    """Generate the fast path for arguments like these. If a guard fails, it calls `fallback`.

    `run_with_backward(tensors, arguments, kwargs)` runs a program with a backward pass.
    """
    if run_with_backward is not None:
        generator_class = DifferentiableFastPath
    else:
        generator_class = FastPath if executable.section.linked else LaunchesFastPath
    generator = generator_class(executable, snapshot, inputs, arguments, kwargs, fallback)
    if run_with_backward is not None:
        generator.space |= {"run": run_with_backward, "CheckFailed": CheckFailed}
    return generator.function()


class FastPath:
    """Generates the fast path for a section that is one native function."""

    def __init__(
        self,
        executable: Executable,
        snapshot: Snapshot,
        inputs: InputConditions,
        arguments: tuple,
        kwargs: dict[str, Any],
        fallback: Callable,
    ) -> None:
        self.executable, self.snapshot, self.inputs = executable, snapshot, inputs
        self.section = executable.section
        self.space: dict[str, Any] = {
            "slow": fallback,  # the profiler recognises a fast path by this name
            "state": dispatch.state,
            "listeners": dispatch.listeners,
            "changes": changes,
            "snapshot": snapshot,
            **SPACE,
            "new": object.__new__,
            "Tensor": Tensor,
            "Storage": Storage,
            "address": address,
            "restore": restore,
            "absent": object(),
            "plain": is_plain,
            "held": inputs.held_storages,
            "modes": type(dispatch.state),
        }
        self.tensor_names: list[str] = []  # names of the tensor arguments
        self.tensors: list[Tensor] = []
        self.containers: list[str] = []  # names of the lists, dicts and dataclass instances among the arguments
        names = self.parameter_names = [f"a{k}" for k in range(len(arguments))]
        self.head = f"def call({''.join(f'{name}=absent, ' for name in names)}{'/, ' if names else ''}*more, **kwargs):"
        self.fall_back = (
            f"return slow(*[argument for argument in ({''.join(f'{name}, ' for name in names)}) if argument is not "
            "absent], *more, **kwargs)"
        )
        self.unpacking = [f"if more or {f'len(kwargs) != {len(kwargs)}' if kwargs else 'kwargs'}:", "    break"]
        if len(kwargs) > 1 and sees_order(snapshot.function):
            self.unpacking += [f"if [*kwargs] != {list(kwargs)}:", "    break"]
        self.unpacking += [line for name, argument in zip(names, arguments) for line in self._unpack(name, argument)]
        for number, (keyword, argument) in enumerate(kwargs.items()):
            name = f"keyword{number}"
            self.unpacking += [f"{name} = kwargs[{keyword!r}]", *self._unpack(name, argument)]
        # a source without numbers changes settings
        self.settings_guards = self._cached_settings() if all(executable.lowered.widths) else {}
        self.space |= {f"cached{k}": (None, None) for k in self.settings_guards}
        # guards to check in Python, not in the native function
        self.guards = [guard for guard in snapshot.guards if guard not in self.settings_guards.values()]
        self._assign_memory()

    def _cached_settings(self) -> dict[int, Settings]:
        """Sources whose numbers are cached between calls, each with the guard of its settings."""
        return _settings_guards(self.executable.lowered.sources, self.snapshot.guards)

    def _name(self, value: Any, prefix: str) -> str:
        """Add an object to the function's globals. Returns its name."""
        name = f"{prefix}{len(self.space)}"
        self.space[name] = value
        return name

    def _unpack(self, name: str, argument: Any) -> list[str]:
        """Lines that check an argument's structure and assign its tensors to names."""
        if issubclass(type(argument), Tensor):
            self.tensor_names.append(name)
            self.tensors.append(argument)
            return []
        if is_simple(argument) or not is_structure(argument):
            reference = weakly(argument)
            constant = self._name(reference, "constant")
            same = f"{name} is {constant}() is not None" if reference is not argument else f"{name} is {constant}"
            return [f"if not ({same}{f' or equal({name}, {constant})' if is_simple(argument) else ''}):", "    break"]
        if has_identity(argument):
            self.containers.append(name)
        if type(argument) in (list, tuple, dict) or (
            issubclass(type(argument), tuple) and not objects.has_attributes(type(argument))
        ):
            return self._unpack_items(name, argument)
        if is_data(argument) and all(
            objects.reads_plainly(type(argument), field) and field.isidentifier() and not iskeyword(field)
            for field in fields_of(argument)
        ):
            return self._unpack_fields(name, argument)
        return self._unpack_parts(name, argument)

    def _unpack_items(self, name: str, container: Any) -> list[str]:
        """`_unpack` for a built-in container or a named tuple."""
        keys = [key for key, _ in objects.items_of(container)]
        condition = f"type({name}) is {self._name(type(container), 'kind')} and "
        if not issubclass(type(container), dict):
            base = objects.base_of(type(container))
            condition += (
                f"len({name}) == {len(keys)}"
                if type(container) is base
                else f"{self._name(base.__len__, 'size')}({name}) == {len(keys)}"
            )
        elif all(map(is_plain_key, keys)):
            condition += f"list({name}) == {self._name(keys, 'keys')}"
        else:
            condition += (
                f"len({name}) == {len(keys)} and all(map({self._name(operator.is_, 'condition')}, {name}, "
                f"{self._name(keys, 'keys')}))"
            )
        parts = [f"{name}_{k}" for k in range(len(keys))]
        # a named tuple may override __getitem__
        overrides_getitem = type(container).__getitem__ not in (list.__getitem__, tuple.__getitem__, dict.__getitem__)
        texts = [
            f"{self._name(tuple.__getitem__, 'item')}({name}, {key})"
            if overrides_getitem
            else f"{name}[{self._name(key, 'key')}]"
            for key in keys
        ]
        items = [item for _, item in objects.items_of(container)]
        lines = [
            line
            for part, text, item in zip(parts, texts, items)
            for line in (f"{part} = {text}", *self._unpack(part, item))
        ]
        return [f"if not ({condition}):", "    break", *lines]

    def _unpack_fields(self, name: str, instance: Any) -> list[str]:
        """`_unpack` for a dataclass instance. A missing field raises AttributeError, which leads to the fallback."""
        fields = objects.attributes(instance)
        lines = [
            line
            for field, part in fields.items()
            for line in (f"{name}_{field} = {name}.{field}", *self._unpack(f"{name}_{field}", part))
        ]
        dictionary = objects.dictionary(instance)
        other_attributes = f" or len({name}.__dict__) != {len(dictionary)}" if dictionary is not None else ""
        return [f"if type({name}) is not {self._name(type(instance), 'kind')}{other_attributes}:", "    break", *lines]

    def _unpack_parts(self, name: str, structure: Any) -> list[str]:
        """`_unpack` for other structures: slices, and instances of classes derived from built-in ones."""
        structure_parts = parts(structure)
        names = [f"{name}_{k}" for k in range(len(structure_parts))]
        take_apart = self._name(
            partial(_matching_parts, kind=type(structure), names=keys(structure), value=_plain_value(structure)),
            "apart",
        )
        lines = [line for part, item in zip(names, structure_parts) for line in self._unpack(part, item)]
        unpacked = [f"{', '.join(names)}, = {name}_parts"] if names else []
        return [f"{name}_parts = {take_apart}({name})", f"if {name}_parts is None:", "    break", *unpacked, *lines]

    def _assign_memory(self) -> None:
        """Choose the results and gradients that reuse memory of earlier calls, and name all of them."""
        self.space["launch"] = self.section.launch
        lowered, leaves = self.executable.lowered, {}
        for owner, value in self.executable.gradients:
            if value is not None and lowered.places[value].buffer.kind == "gradient":
                leaves.setdefault(lowered.places[value].buffer, []).append((owner, value))
        single = {buffer: pairs[0] for buffer, pairs in leaves.items() if len(pairs) == 1}
        reusable = {
            buffer: pair
            for buffer, pair in single.items()
            if isinstance(pair[0], Tensor) and lowered.places[pair[1]].offset == 0
        }
        outputs = [array for array in self.section.arrays if array.kind != "input"]
        self.gradients = {
            buffer: f"gradient{k}" for k, buffer in enumerate(output for output in outputs if output in reusable)
        }
        self.results = {
            buffer: f"m{k}" for k, buffer in enumerate(output for output in outputs if output not in reusable)
        }
        small = [result for result in self.results if result.nbytes <= LARGEST]
        self.large = [result for result in self.results if result.nbytes > LARGEST]
        leaf_layouts = [(owner, lowered.layouts[value]) for owner, value in map(reusable.get, self.gradients)]
        self.leaf_names = {
            self.gradients[buffer]: self._name(reusable[buffer][0], "parameter") for buffer in self.gradients
        }
        # the native function checks words after numbers are drawn, so only if that has no side effects
        watched = (
            [guard for guard in self.guards if guard.words] if len(self.settings_guards) == len(lowered.sources) else []
        )
        self.guards = [guard for guard in self.guards if guard not in watched]
        words = [word for guard in watched for word in guard.words]
        self.memory = Memory(
            self.section, self.executable.arena, small, list(self.gradients), leaf_layouts, self.space, words
        )
        self.space["memory"] = self.memory
        self.pack_names = ", ".join(["place", "table", "keep", *(self.results[result] for result in small)])

    def function(self) -> Callable:
        """Generate the text and compile it to a function."""
        load_settings = [f"settings{k}, numbers{k} = cached{k}" for k in self.settings_guards]
        head = [
            self.head,
            *(f"    global cached{k}" for k in self.settings_guards),
            "    valid = False",
            "    try:",
            "        while True:",
        ]
        head += [
            f"            {line}"
            for line in [*self.unpacking, *load_settings, f"valid = {self._guards_hold()}", "break"]
        ]
        # the body's errors must not be caught
        head += [
            "    except (AttributeError, LookupError):",
            "        pass",
            "    if not valid:",
            f"        {self.fall_back}",
        ]
        text = "\n".join(head + [f"    {line}" for line in self._body()])
        self.text = text
        exec(_code(text, self.section.name), self.space)
        function = self.space["call"]
        function.text = text
        return function

    def _guards_hold(self) -> str:
        """All guards as one expression."""
        tests = ["not listeners", "changes.count == snapshot.count"]
        tests.append(f"state.grad_enabled is {dispatch.state.grad_enabled}")
        casts = (
            f"state.autocast == {self._name(dispatch.state.autocast, 'autocast')}"
            if dispatch.state.autocast
            else "not state.autocast"
        )
        # reading thread-local state takes three times as long
        plain = "" if dispatch.state.autocast or dispatch.state.inference else "not modes.special or "
        tests.append(f"({plain}state.inference is {dispatch.state.inference} and not state.checkpointing and {casts})")
        for number, (name, tensor) in enumerate(zip(self.tensor_names, self.tensors)):
            tests.append(
                f"{name}._layout is {self._name(tensor._layout, 'layout')} and type({name}) is "
                f"{self._name(type(tensor), 'kind')}"
            )
            tests.append(
                f"{name}._storage is {self._name(self.inputs.shared_storages[number], 'storage')}"
                if number in self.inputs.shared_storages
                else f"{name}._storage not in held"
            )
            if dispatch.state.grad_enabled:
                without_gradient = f"not {name}._requires_grad and ({name}._base is None or not {name}.requires_grad)"
                tests.append(f"{name}.requires_grad" if tensor.requires_grad else without_gradient)
        tests += [f"{self.tensor_names[k]}._grad is None" for k in self.inputs.without_gradient]
        tests += [text.format(self.tensor_names[k]) for k, text in self.inputs.expressions]
        tests += [f"plain({self.tensor_names[k]}, {leaf})" for k, leaf in self.inputs.in_backward.items()]
        for k in range(len(self.tensor_names)):
            for j in range(k):
                tests += self._same_aliasing(j, k)
        tests += [self._frozen_is_current(frozen) for frozen in self.executable.frozen]
        return " and ".join(
            [*tests, *(self._unchanged(k) for k in self.settings_guards), conditions(self.guards, self.space)]
        )

    def _frozen_is_current(self, frozen: Frozen) -> str:
        """The condition that a frozen value's sources have not been written to."""
        versions = "".join(f"{self._name(storage, 'storage')}.version + " for storage in frozen.storages)
        data_writes = self._name(DataVersionCounter, "data_writes")
        return f"{versions}{data_writes}.total == {self._name(frozen, 'frozen')}.computed_at"

    def _unchanged(self, k: int) -> str:
        """The condition that an optimizer's settings are unchanged since the last call, or that their guard holds."""
        guard = self.settings_guards[k]
        unchanged = (
            f"(unchanged{k} := {self._name(guard.group, 'group')} == settings{k}) or ({guard.expression(self.space)})"
        )
        return f"({guard.parameters.expression(self.space)} and ({unchanged}))"

    def _numbers(self, k: int, source: Any) -> list[str]:
        """Lines that compute a source's numbers.

        Those derived from an optimizer's settings are cached until a setting changes.
        """
        names = "".join(f"n{k}_{j}, " for j in range(self.executable.lowered.widths[k]))
        if isinstance(source, Draw):
            return [f"{names}= {self._name(source.generator, 'generator')}.draw({source.count})"]
        call_source = f"{self._name(source, 'source')}()"
        if k not in self.settings_guards:
            return [f"{names}= {call_source}" if names else call_source]
        group = self._name(self.settings_guards[k].group, "group")
        return [
            f"if not unchanged{k}:",
            f"    numbers{k} = {call_source}",
            f"    cached{k} = dict({group}), numbers{k}",
            f"{names}= numbers{k}",
        ]

    def _same_aliasing(self, j: int, k: int) -> list[str]:
        """The conditions that two arguments alias each other as when recorded."""
        first, second, a, b = self.tensor_names[j], self.tensor_names[k], self.tensors[j], self.tensors[k]
        if a._storage is not b._storage:
            return [f"{first}._storage is not {second}._storage"]
        identity = "is" if a is b else "is not"
        return [
            f"{first} {identity} {second}",
            f"{first}._storage is {second}._storage",
            f"{second}._offset - {first}._offset == {b._offset - a._offset}",
        ]

    def _body(self) -> list[str]:
        """Lines of the launch and its results."""
        lines = self._launch()
        lines += [f"{self._name(storage, 'storage')}.version += 1" for storage in self.executable.storages]
        lines += [f"{self.tensor_names[number]}._storage.version += 1" for number in self.executable.inputs_written]
        return lines + self._set_gradients() + self._results()

    def _launch(self) -> list[str]:
        """Lines that take a pack of memory, compute the numbers and call the native function.

        A negative result is the position of a watched word that differs: guards come first, then reference counts.
        """
        lines = [
            "packs = memory.packs",
            "try:",
            "    pack = packs.popleft()",
            "except IndexError:",
            "    pack = memory.make()",
            f"{self.pack_names} = pack",
        ]
        lines += [line for buffer in self.large for line in self._allocation(buffer, self.results[buffer])]
        addresses = [
            f"table[{self.section.position_of[buffer]}] = address({self.results[buffer]}.data)" for buffer in self.large
        ]
        lines += [*addresses, "former_gradients = ()"]
        if self.gradients:
            outdated = " or ".join(
                f"{owner}._grad is not {gradient} or {gradient}._layout is not {self._layout(gradient)}"
                for gradient, owner in self.leaf_names.items()
            )
            lines += [f"if {outdated}:", "    former_gradients = memory.settle()"]
        lines += self._all_numbers()
        numbers = [f"n{source}_{index}" for source, index in self.section.numbers]
        launch = f"failed = launch({', '.join(['place', *map(self._input, self.section.inputs), *numbers])})"
        lines += [launch, "if failed < 0:"]
        lines += [
            f"    if failed > -{self.memory.gradient_words}:",
            "        packs.append(pack)",
            "        restore(former_gradients)",
            f"        {self.fall_back}",
        ]
        lines += [
            "    pack, former_gradients = memory.renew(failed, pack, former_gradients)",
            f"    {self.pack_names} = pack",
        ]
        lines += [f"    {line}" for line in [*addresses, launch, "memory.watch(pack)", "packs = memory.packs"]]
        lines.append("packs.append(pack)")
        return lines + (["if failed:", "    restore(former_gradients)", *self._undo()] if self.section.tests else [])

    def _all_numbers(self) -> list[str]:
        """Lines that compute the run-time numbers, which may advance optimizers' step counts."""
        lines = [line for k, source in enumerate(self.executable.lowered.sources) for line in self._numbers(k, source)]
        return (
            [
                f"counts = [(state_, dict(state_)) for state_ in {self._name(self.executable.counting, 'counting')}]",
                *lines,
            ]
            if self._restores_counts
            else lines
        )

    @property
    def _restores_counts(self) -> bool:
        return bool(self.section.may_fail and self.executable.counting)

    def _undo(self) -> list[str]:
        """Lines for a failed check: restore random streams and step counts, and call the fallback."""
        drawn = [(k, source) for k, source in enumerate(self.executable.lowered.sources) if isinstance(source, Draw)]
        lines = [
            f"    {self._name(draw.generator, 'generator')}.undraw(n{k}_1, {draw.count})" for k, draw in reversed(drawn)
        ]
        lines += ["    for state_, former in counts:", "        state_.update(former)"] if self._restores_counts else []
        return [*lines, f"    {self.fall_back}"]

    def _allocation(self, buffer: Buffer, name: str) -> list[str]:
        """Lines that allocate memory for a buffer. The second attempt frees cached memory first."""
        allocate, again, dtype = (
            self._name(function, "new")
            for function in (buffer.device.allocator(buffer.nbytes), buffer.device.empty, buffer.storage)
        )
        first, second = (
            f"    {name} = Storage({allocator}({buffer.size}, {dtype}))" for allocator in (allocate, again)
        )
        return ["try:", first, "except MemoryError:", second]

    def _layout(self, gradient: str) -> str:
        return self._name(self.space[gradient]._layout, "layout")

    def _input(self, buffer: Buffer) -> str:
        x = self.tensor_names[buffer.number]
        return f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data"

    def _owner(self, owner: Tensor | Value) -> str:
        """The expression of a leaf that gets a gradient."""
        return (
            self.tensor_names[self.executable.program.inputs.index(owner)]
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
                *creation, tensor = self._tensor(value)
                lines += [*creation, f"{target}._grad = {tensor}"]
        return lines

    def _tensor(self, value: Value) -> list[str]:
        """Lines that create a value's tensor; the last one is its expression."""
        span, layout = self.executable.lowered.places[value], self.executable.lowered.layouts[value]
        buffer, program = span.buffer, self.executable.program
        if buffer.kind == "input" and value in program.inputs:
            return [self.tensor_names[buffer.number]]
        if buffer.kind == "held" and value in program.held:
            return [self._name(program.held[value], "held")]
        name = f"t{value.number}"
        lines = [f"{name} = new(Tensor)", f"{name}._layout = {self._name(layout, 'layout')}"]
        if buffer.kind == "input":
            x = self.tensor_names[buffer.number]
            return [*lines, f"{name}._storage = {x}._storage", f"{name}._offset = {x}._offset + {span.offset}", name]
        if buffer.kind == "held":
            storage = self._name(buffer.tensor._storage, "storage")
        elif buffer in self.results:
            storage = self.results[buffer]
        elif buffer in self.gradients:
            storage = f"{self.gradients[buffer]}._storage"
        else:
            storage = f"{name}_memory"
            lines += self._allocation(buffer, storage)
        if dispatch.state.inference and buffer.kind != "held":
            lines.append(f"{name}._inference = True")
        return [
            *lines,
            f"{name}._storage = {storage}",
            *([f"{name}._offset = {span.offset}"] if span.offset else []),
            name,
        ]

    def _results(self) -> list[str]:
        """Lines that create the results and return them."""
        lines: list[str] = []
        expressions = {
            value: f"{self._owner(owner)}._grad" for owner, value in self.executable.gradients if value is not None
        }

        def expression(output: Any) -> str:
            if issubclass(type(output), Value):
                if output not in expressions:
                    *before, expressions[output] = self._tensor(output)
                    lines.extend(before)
                return expressions[output]
            if type(output) is ArgumentContainer:
                return self.containers[output.number]
            if type(output) is ScalarExpression:
                operands = ", ".join(map(expression, output.operands))
                return f"{self._name(function_of(output.operation), 'compute')}({operands})"
            if type(output) in (tuple, list):
                items = "".join(f"{expression(part)}, " for part in output)
                return f"({items})" if type(output) is tuple else f"[{items}]"
            if type(output) is dict:
                return (
                    "{"
                    + ", ".join(f"{self._name(key, 'key')}: {expression(part)}" for key, part in output.items())
                    + "}"
                )
            if is_structure(output):
                items = "".join(f"{expression(part)}, " for part in parts(output))
                plain = issubclass(type(output), tuple) and not objects.has_attributes(type(output))
                make, template = (tuple.__new__, type(output)) if plain else (rebuilt, output)
                return f"{self._name(make, 'make')}({self._name(template, 'constant')}, [{items}])"
            return self._name(output, "constant")

        result = expression(self.executable.program.outputs)
        return [*lines, f"return {result}"]


class DifferentiableFastPath(FastPath):
    """Generates the fast path for a program with a backward pass: it checks the guards and calls `run`."""

    def _cached_settings(self) -> dict[int, Settings]:
        return {}

    def _assign_memory(self) -> None:
        """Do nothing: each run allocates its memory."""

    def _body(self) -> list[str]:
        tensors, parameters = (
            "".join(f"{name}, " for name in names) for names in (self.tensor_names, self.parameter_names)
        )
        call = f"return run(({tensors}), ({parameters}), kwargs)"
        return (
            ["try:", f"    {call}", "except CheckFailed:", f"    {self.fall_back}"] if self.section.may_fail else [call]
        )


class LaunchesFastPath(FastPath):
    """Generates the fast path for a section that runs as separate launches or as a CUDA graph.

    Local memory belongs to the program. One call at a time can use it.
    """

    def _assign_memory(self) -> None:
        """Name the results and gradients, which every call allocates."""
        self.gradients, self.leaf_names = {}, {}
        self.results = {
            buffer: f"m{k}" for k, buffer in enumerate(array for array in self.section.arrays if array.kind != "input")
        }
        replay = self.section.replay
        self.space["busy"] = self.executable.busy if replay is None else replay.lock

    def _launch(self) -> list[str]:
        arrays: dict[Span, str] = {}
        if self.section.replay is not None:
            return self._launch_graph(self.section.replay)
        launches = [
            line
            for call, launch in zip(self.section.calls, self.section.launchers)
            for line in self._launch_call(call, launch, arrays)
        ]
        lines = [line for buffer, name in self.results.items() for line in self._allocation(buffer, name)]
        lines += [f"{name} = {self._array(span)}" for span, name in arrays.items() if name not in self.space]
        locked_lines = [*lines, *self._all_numbers(), *launches]
        return [
            "if busy.locked():",
            f"    {self.fall_back}",
            "with busy:",
            *(f"    {line}" for line in locked_lines or ["pass"]),
        ]

    def _launch_graph(self, replay: Replay) -> list[str]:
        """Lines that launch the CUDA graph."""
        lines = [line for buffer, name in self.results.items() for line in self._allocation(buffer, name)]
        name = self._name(replay, "replay")
        numbers = "".join(f"n{source}_{index}, " for source, index in replay.numbers)
        lines += [f"arrays = {''.join(f'{self._array(Span(buffer))}, ' for buffer in replay.buffers) or '()'}"]
        # RuntimeError: not enough memory for the graph
        lines += ["try:", f"    graph = {name}.ready(arrays)", "except RuntimeError:", f"    {self.fall_back}"]
        lines += [*self._all_numbers(), f"{name}.start(graph, arrays, ({numbers}))"]
        unavailable = f"busy.locked() or not {self._name(replay.backend, 'backend')}.replaying"
        return [f"if {unavailable}:", f"    {self.fall_back}", "with busy:", *(f"    {line}" for line in lines)]

    def _launch_call(self, call: Call | CheckCall, launch: Callable, arrays: dict[Span, str]) -> list[str]:
        """Lines of one launch or check. The first use of an array assigns it to a name."""
        if isinstance(call, CheckCall):
            return [
                f"if {self._argument(call.span, arrays)}[0] != {self._argument(call.expected, arrays)}:",
                *self._undo(),
            ]
        launch_line = f"{self._name(launch, 'launch')}({', '.join(self._argument(a, arrays) for a in call.arguments)})"
        return (
            [launch_line] if not may_fail(call) else ["try:", f"    {launch_line}", "except Exception:", *self._undo()]
        )

    def _argument(self, argument: Any, arrays: dict[Span, str]) -> str:
        if isinstance(argument, Span):
            if argument not in arrays:
                local = argument.buffer.kind == "local"
                arrays[argument] = (
                    self._name(argument.of(self.section.local(argument.buffer, self.executable.arena)), "local")
                    if local
                    else f"d{len(arrays)}"
                )
            return arrays[argument]
        if isinstance(argument, (Number, Integer)):
            return f"n{argument.source}_{argument.index}"
        return repr(argument) if type(argument) in (int, bool) else self._name(argument, "constant")

    def _array(self, span: Span) -> str:
        """The expression of an array: memory of an argument, of a result or of a held tensor."""
        buffer = span.buffer
        if buffer.kind == "input":
            array = self._input(buffer)
        else:
            owner = self.results[buffer] if buffer in self.results else self._name(buffer.tensor._storage, "storage")
            array = f"{owner}.data"
        array = f"({array}).view({self._name(span.storage, 'dtype')})" if span.paired else array
        return f"({array})[{span.offset}:]" if span.offset else array


def _plain_value(structure: Any) -> Any:
    """The value of a structure derived from a number or string class, without its attributes."""
    return objects.plain(structure) if objects.base_of(type(structure)) in objects.VALUES else None


def _matching_parts(structure: Any, kind: type, names: list, value: Any) -> list | None:
    """The parts of a structure if its class, value and part names are these, else None."""
    if type(structure) is not kind or (kind is not slice and not equal(_plain_value(structure), value)):
        return None
    current_keys = keys(structure)
    equal_keys = len(current_keys) == len(names) and all(
        current is expected or (is_plain_key(expected) and type(current) is type(expected) and current == expected)
        for current, expected in zip(current_keys, names)
    )
    return parts(structure) if equal_keys else None


def _settings_guards(sources: Sequence, guards: Sequence[Guard]) -> dict[int, Settings]:
    """Sources whose numbers depend only on the settings of one optimizer group, each with the guard of its settings."""
    settings = [guard for guard in guards if isinstance(guard, Settings) and guard.plain]
    guard_of_source: dict[int, Settings] = {}
    for k, source in enumerate(sources):
        cells = getattr(source, "__closure__", None) or ()
        guard = next(
            (setting for setting in settings if len(cells) == 1 and cells[0].cell_contents is setting.group), None
        )
        if guard is not None and guard not in guard_of_source.values():
            guard_of_source[k] = guard
    return guard_of_source

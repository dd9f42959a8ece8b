"""Generates a fast path for a program that is one native function: guards, memory, launch.

A small network's native step takes 0.1 µs; the general path in Python would take a hundred times longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from ...core import apply as dispatch
from ...core.listeners import listeners
from ...core import changes
from ...core.create.generator import Draw
from ...core.tensor import DataVersionCounter, Tensor
from ...device import Storage
from ...device.storage import address
from ..guards.guard import SPACE, Guard, Settings
from ..passes.freezing import Frozen
from ..guards.inputs import InputConditions
from ..guards.snapshot import Snapshot, conditions
from ..values.kinds import is_plain
from .lower import Buffer
from ..guards.bytecode import sees_order
from .output_reuse import REUSE_LIMIT, Memory, restore
from .executable import Executable
from .argument_unpacking import ArgumentUnpacking
from .result_lines import ResultLines


@lru_cache
def _code(text: str, name: str) -> CodeType:
    """Compile the text. Cached, as compiling can take longer than a run, and texts for other sizes are often equal."""
    return compile(text, f"<numod call of {name}>", "exec")


class FastPath(ResultLines):
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
            "listeners": listeners,
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
        unpacking = ArgumentUnpacking(self._name)
        self.tensor_names = unpacking.tensor_names
        self.tensors = unpacking.tensors
        self.containers = unpacking.containers
        names = self.parameter_names = [f"a{k}" for k in range(len(arguments))]
        self.head = f"def call({''.join(f'{name}=absent, ' for name in names)}{'/, ' if names else ''}*more, **kwargs):"
        self.fall_back = (
            f"return slow(*[argument for argument in ({''.join(f'{name}, ' for name in names)}) if argument is not "
            "absent], *more, **kwargs)"
        )
        self.unpacking = [f"if more or {f'len(kwargs) != {len(kwargs)}' if kwargs else 'kwargs'}:", "    break"]
        if len(kwargs) > 1 and sees_order(snapshot.function):
            self.unpacking += [f"if [*kwargs] != {list(kwargs)}:", "    break"]
        self.unpacking += [line for name, argument in zip(names, arguments) for line in unpacking.lines(name, argument)]
        for number, (keyword, argument) in enumerate(kwargs.items()):
            name = f"keyword{number}"
            self.unpacking += [f"{name} = kwargs[{keyword!r}]", *unpacking.lines(name, argument)]
        # a source without numbers changes settings
        self.settings_guards = self._cached_settings() if all(executable.lowered.widths) else {}
        self.space |= {f"cached{k}": (None, None) for k in self.settings_guards}
        # guards to check in Python, not in the native function
        self.guards = [guard for guard in snapshot.guards if guard not in self.settings_guards.values()]
        self._assign_memory()

    def _cached_settings(self) -> dict[int, Settings]:
        """Sources whose numbers are cached between calls, each with the guard of its settings."""
        return _settings_guards(self.executable.lowered.sources, self.snapshot.guards)

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
        small = [result for result in self.results if result.nbytes <= REUSE_LIMIT]
        self.large = [result for result in self.results if result.nbytes > REUSE_LIMIT]
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
        data_writes, name = self._name(DataVersionCounter, "data_writes"), self._name(frozen, "frozen")
        return f"({versions}{data_writes}.last == {name}.computed_at or {name}.is_current())"

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

    def _layout(self, gradient: str) -> str:
        return self._name(self.space[gradient]._layout, "layout")

    def _input(self, buffer: Buffer) -> str:
        x = self.tensor_names[buffer.number]
        return f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data"


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

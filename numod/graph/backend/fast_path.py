"""The fast path into a program: a generated Python function that checks the guards, launches, and wraps the results.

`linked_fast_path` generates it for programs that are one native function; here are the variants for programs with a
backward pass and for programs that run as separate launches or as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..guards.guard import Settings
from ..guards.inputs import InputConditions
from ..guards.snapshot import Snapshot
from .lower import Call, CheckCall, Integer, Number, Span
from .cuda_graph import Replay
from .executable import Executable
from .linked_fast_path import FastPath
from .schedule import may_fail
from .section import CheckFailed


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
        """The lines that allocate results and launch the kernels, under the lock of the arena."""
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
        array = f"({array}).view({self._name(span.storage, 'dtype')})" if span.form is not None else array
        return f"({array})[{span.offset}:]" if span.offset else array

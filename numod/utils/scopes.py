"""Which module made each step of a captured program: its path names the nodes of an ONNX model or a graph."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.listeners import active_listeners
from ..graph.capture.recorder import Recorder
from ..nn import Module
from ..nn.hooks import register_module_forward_hook, register_module_forward_pre_hook


class Scopes:
    """Notes, while a module is captured, at which step each submodule begins and ends.

    A function is captured at several sizes, with the same steps; the last one counts.
    """

    def __init__(self, model: Any) -> None:
        self.paths = {id(module): path for path, module in model.named_modules()} if isinstance(model, Module) else {}
        self.recorder: Recorder | None = None
        self.starts: list[int] = []  # numbers of steps from which on the path of the same position holds
        self.names: list[str] = []
        self._open: list[str] = []

    def path_of(self, number: int) -> str:
        """The path of the module that made a step."""
        position = bisect_right(self.starts, number) - 1
        return self.names[position] if position >= 0 else ""

    @contextmanager
    def listening(self) -> Iterator[Scopes]:
        """Note the modules that run meanwhile."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Module, inputs: Any) -> None:
        recorder = next((listener for listener in active_listeners() if isinstance(listener, Recorder)), None)
        if recorder is None:
            return
        if recorder is not self.recorder:
            self.recorder, self.starts, self.names, self._open = recorder, [], [], []
        self._open.append(self.paths.get(id(module), self._open[-1] if self._open else ""))
        self._note(self._open[-1])

    def _leave(self, module: Module, inputs: Any, output: Any) -> None:
        if self.recorder is not None and self.recorder in active_listeners() and self._open:
            self._open.pop()
            self._note(self._open[-1] if self._open else "")

    def _note(self, path: str) -> None:
        self.starts.append(len(self.recorder.program.steps))
        self.names.append(path)

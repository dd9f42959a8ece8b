"""Public access to the recorded graph: hooks on saved tensors, gradient edges, hooks on several gradients.

Not the tape itself.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..core import apply as dispatch, changes
from ..core.tensor import Tensor
from . import engine, tape
from .backward_pass import GradientEdge
from .tape import Handle, edge_to, with_edge

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class Node(abc.ABC):  # noqa: B024
    """Abstract type of `grad_fn`: `isinstance(y.grad_fn, Node)`."""


Node.register(tape.Node)
Node.register(tape.AccumulateGrad)


class _ThreadState(threading.local):
    """Per thread: active hooks, the innermost last, and error messages while hooks are disabled."""

    hooks: tuple[tuple[Callable, Callable], ...] = ()
    refusals: tuple[str, ...] = ()


_thread_state = _ThreadState()
_lock = threading.Lock()
_active = 0  # hooks that are active on any thread


# ---- saved tensors ---------------------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """Context in which tensors saved for backward are replaced by `pack_hook(tensor)`.

    `unpack_hook(packed)` restores them when backward needs them.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _thread_state.refusals:
            raise RuntimeError(_thread_state.refusals[-1])
        for name in ("pack_hook", "unpack_hook"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} must be callable, got {type(getattr(self, name)).__name__}")
        _thread_state.hooks = (*_thread_state.hooks, (self.pack_hook, self.unpack_hook))
        _count(1)

    def __exit__(self, *exception: object) -> None:
        _thread_state.hooks = _thread_state.hooks[:-1]
        _count(-1)


def _count(step: int) -> None:
    """Have nodes passed to `_pack` while any thread has hooks: reading thread-local state takes time."""
    global _active
    with _lock:
        _active += step
        tape.packing = _pack if _active else None
    changes.note()  # a compiled function calls no hooks


class save_on_cpu(saved_tensors_hooks):
    """Context in which tensors saved for backward are kept in host memory."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Context in which installing saved-tensor hooks raises RuntimeError with this message."""
    _thread_state.refusals = (*_thread_state.refusals, error_message)
    try:
        yield
    finally:
        _thread_state.refusals = _thread_state.refusals[:-1]


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[saved_tensors_hooks]:
    """Context in which tensors saved for backward may be modified afterwards: copies are saved."""
    hooks = saved_tensors_hooks(lambda tensor: tensor.clone(), lambda copy: copy)
    with hooks:
        yield hooks


class _Packed:
    """The packed form of the tensors a node saves. They are unpacked each time the node needs them."""

    def __init__(self, saved: Sequence, out: tuple | None) -> None:
        pack, self._unpack = _thread_state.hooks[-1]
        self._packed_values = [(_packed(pack, value), edge_to(value), isinstance(value, Tensor)) for value in saved]
        self._out = [_packed(pack, result) for result, _ in out or ()]

    def saved(self) -> list:
        """The saved inputs, with their history."""
        return [
            with_edge(self._unpacked(value), edge) if packed else value for value, edge, packed in self._packed_values
        ]

    def out(self) -> list[tuple[Tensor, int]]:
        """The saved results, with their versions."""
        return [
            (result, (result._version_counter or result._storage).version) for result in map(self._unpacked, self._out)
        ]

    def _unpacked(self, packed: object) -> Tensor:
        tensor = self._unpack(packed)
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(tensor)}"
            )
        return tensor


def _pack(node: tape.Node) -> None:
    if _thread_state.hooks and (node.saved or node.out):
        node.packed = _Packed(node.saved, node.out)
        node.saved, node.out, node.versions = None, None, [None] * len(node.versions)


def _packed(pack: Callable, value: object) -> object:
    """What the pack hook returns for a saved tensor. Raises RuntimeError if the hook modifies the tensor."""
    if not isinstance(value, Tensor):
        return value
    state, version = dispatch.state, (value._version_counter or value._storage).version
    grad_enabled, state.grad_enabled = state.grad_enabled, False
    try:
        packed = pack(value.detach())
    finally:
        state.grad_enabled = grad_enabled
    if (value._version_counter or value._storage).version != version:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not "
            "be modified by in-place operations "
            "as this can lead to unexpected side-effects. clone() the tensor in the hook first."
        )
    return packed


# ---- edges and gradients
# -----------------------------------------------------------------------------------------------


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The graph edge of a tensor:

    `autograd.grad` and `backward` accept it in place of the tensor, which need not be kept alive.
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    target, number = edge_to(tensor)
    return GradientEdge(tape.AccumulateGrad.of(target) if isinstance(target, Tensor) else target, number)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increment the version of a tensor, or of several, that was modified without autograd's knowledge."""
    for one in (tensor,) if isinstance(tensor, Tensor) else tensor:
        (one._version_counter or one._storage).version += 1


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> Handle:
    """Call `fn` in each backward pass that reaches some of `tensors`.

    `mode` "all": once, when all gradients have arrived or at the end, with a list of them, None for those not reached.
    "any": with the first gradient only.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    arrivals = _Arrivals(len(tensors), fn, mode == "any")
    handles = [tensor.register_hook(functools.partial(arrivals.arrive, k)) for k, tensor in enumerate(tensors)]
    return _Handles(handles)


class _Handles(Handle):
    """A handle that removes several hooks."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


class _Arrivals:
    """The gradients of several tensors in one backward pass."""

    def __init__(self, count: int, function: Callable, first_only: bool) -> None:
        self._count, self._function, self._first_only = count, function, first_only
        self._pass: object = None
        self._gradients: list[Tensor | None] = []

    def arrive(self, position: int, gradient: Tensor) -> None:
        running_pass = engine.running.passes[-1]
        if running_pass is not self._pass:
            self._pass, self._gradients = running_pass, [None] * self._count
            if self._first_only:
                self._function(gradient)
            else:
                running_pass.at_end.append(self._end)
        self._gradients[position] = gradient
        if not self._first_only and all(received is not None for received in self._gradients):
            self._end()

    def _end(self) -> None:
        if self._pass is not None and self._gradients:
            gradients, self._gradients = self._gradients, []
            self._function(gradients)

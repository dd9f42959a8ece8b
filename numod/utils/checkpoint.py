"""Checkpointing: what a part of a network keeps for backward is dropped and computed again when backward needs it. Not files of weights.

The part runs as always, and its nodes stay on the tape; only what they kept goes. The first of them that backward reaches runs the part
again, with the random numbers of the first time, and every node takes over what its twin of the second run kept. So all that works on the
tape works here: gradients of parameters, gradients of gradients, hooks, `retain_graph`, checkpoints inside checkpoints.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..autograd import enable_grad, is_grad_enabled
from ..autograd.tape import Node
from ..core import apply as waist
from ..core.apply import state
from ..core.random import default_generator
from ..core.tensor import Tensor

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn"]


class CheckpointError(RuntimeError):
    """The second run was not like the first."""


def noop_context_fn() -> tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]:
    """Two contexts that do nothing: for the first run, and for the second."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable, *args: object, use_reentrant: bool | None = None, context_fn: Callable[[], tuple] = noop_context_fn,
    determinism_check: str = "default", debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: object,
) -> object:
    """`function(*args, **kwargs)`, computed a second time in backward instead of keeping what its gradients need.

    `context_fn` gives a context for each of the two runs. `preserve_rng_state` lets the second draw the random numbers of the first.
    Backward raises CheckpointError where the runs differ in their ops or (unless `determinism_check="none"`) shapes and dtypes.
    `use_reentrant`, `debug` and `early_stop` are accepted and change nothing: the older variant in PyTorch gives the same gradients with more
    restrictions, errors name the op in any case, and the second run always goes to the end.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'] but got determinism_check={determinism_check}")
    first, second = context_fn()
    if not is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    segment = _Segment(lambda: function(*args, **kwargs), second, preserve_rng_state, determinism_check == "default")
    with first:
        return segment.run()


def checkpoint_sequential(
    functions: Iterable[Callable], segments: int, input: object, use_reentrant: bool | None = None, preserve_rng_state: bool = True  # noqa: A002
) -> object:
    """A Sequential, or a list of functions, applied to `input` in `segments` parts of equal length, all but the last checkpointed."""
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ValueError(f"checkpoint_sequential: segments must be between 1 and the number of functions ({len(functions)}), got {segments}")
    size = len(functions) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(_chain(functions[start : start + size]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)  # noqa: A001
    return _chain(functions[size * (segments - 1) :])(input)


def _chain(functions: Sequence[Callable]) -> Callable:
    def run(value: object) -> object:
        for function in functions:
            value = function(value)
        return value

    return run


class _Segment:
    """A checkpointed call. Its nodes refer to it, and it to them only weakly, so that nothing keeps the tape alive."""

    def __init__(self, call: Callable[[], object], context: contextlib.AbstractContextManager, preserve_random: bool, compare: bool) -> None:
        self._call, self._context, self._compare = call, context, compare
        self._autocast = state.autocast
        self._random = (default_generator._seed, default_generator._offset) if preserve_random else None
        self._nodes: list[weakref.ref[Node]] = []
        self._shapes: list[tuple] = []

    def run(self) -> object:
        """The result of the call. What its nodes have kept is dropped, and so is what a checkpoint inside would need to run again."""
        result, nodes = _recorded(self._call)
        self._nodes, self._shapes = [weakref.ref(node) for node in nodes], [_shape_of(node) for node in nodes]
        for node in nodes:
            node.kept, node.out, node.refill = None, None, self.refill
        return result

    def refill(self) -> None:
        """Run the call again, and give every node that is left what it had kept."""
        with enable_grad(), _autocast(self._autocast), self._context, _random_state(self._random):
            _, twins = _recorded(self._call)
        self._check(twins)
        pairs = [(reference(), twin) for reference, twin in zip(self._nodes, twins)]
        original = {twin: node for node, twin in pairs}
        for node, twin in pairs:
            if node is None or node.refill is None:
                continue
            if twin.refill is not None:
                twin.refill.__self__._adopt(node, twin)
            elif node.kept is None:
                node.kept, node.versions, node.out = [_linked(each, original) for each in twin.kept], twin.versions, twin.out

    def _adopt(self, node: Node, twin: Node) -> None:
        """Of a checkpoint inside another, run a second time: fill the node of the first run instead of its twin."""
        self._nodes = [weakref.ref(node) if reference() is twin else reference for reference in self._nodes]
        node.refill = self.refill

    def _check(self, twins: list[Node]) -> None:
        if len(twins) != len(self._nodes):
            raise CheckpointError(
                "numod.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation. "
                f"Number of ops recorded during forward: {len(self._nodes)}. During recomputation: {len(twins)}. "
                "The function must do the same every time it is called."
            )
        for before, twin in zip(self._shapes, twins):
            if self._compare and before != _shape_of(twin):
                raise CheckpointError(
                    "numod.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                    f"{before[0]} of {before[1:]} became {twin.name()} of {_shape_of(twin)[1:]}"
                )


def _recorded(call: Callable[[], object]) -> tuple[object, list[Node]]:
    """The call's result, and the nodes on the way to it that kept something, oldest first. (Casts that autocast has at hand are not made again.)"""
    start = Node(None, (), (), ()).sequence
    result = call()
    found: set[Node] = set()
    waiting = [each.grad_fn for each in _tensors(result)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node) and node.sequence > start and node not in found:
            found.add(node)
            waiting += [edge[0] for edge in node.edges if edge is not None]
            waiting.append(getattr(node, "inner", None))  # of a write through a view
    return result, sorted(filter(_kept_something, found), key=lambda node: node.sequence)


def _kept_something(node: Node) -> bool:
    return bool(getattr(node, "kept", None) or node.out or node.refill is not None)


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _shape_of(node: Node) -> tuple:
    """The node's name with shape, dtype and device of its inputs."""
    return node.name(), *[(tuple(each.shape), each.dtype, str(each.device)) for each in node.layouts if hasattr(each, "shape")]


def _linked(each: object, original: dict[Node, Node | None]) -> object:
    """What a twin kept, with its history in the first run instead of the second."""
    if not isinstance(each, Tensor) or each.is_leaf:
        return each
    node, result = original.get(each.grad_fn, each.grad_fn), each.detach()
    if node is not None:
        result._node, result._output, result._requires_grad = node, each._output, True
    return result


@contextlib.contextmanager
def _autocast(casts: tuple) -> Iterator[None]:
    """What `amp.autocast` casts to as it was in the first run."""
    if casts == state.autocast:
        yield
        return
    now = waist.enter_autocast(casts)
    try:
        yield
    finally:
        waist.enter_autocast(now)


@contextlib.contextmanager
def _random_state(state: tuple[int, int] | None) -> Iterator[None]:
    """The default generator as it was in `state`, and afterwards as it is now."""
    if state is None:
        yield
        return
    now = default_generator._seed, default_generator._offset
    default_generator._seed, default_generator._offset = state
    try:
        yield
    finally:
        default_generator._seed, default_generator._offset = now

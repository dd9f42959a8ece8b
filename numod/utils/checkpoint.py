"""Activation checkpointing: saved tensors of a part of a network are dropped and recomputed in backward.

Checkpoint files are in `serialization`.

The part runs as usual, and its nodes stay on the tape; only their saved tensors are dropped. The first of these nodes
that backward reaches runs the part again, with the same random numbers, and every node takes over the saved tensors of
its counterpart. So everything that the tape supports works: gradients of parameters, double backward, hooks,
`retain_graph`, nested checkpoints.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..errors import warn_caller
from ..autograd import enable_grad, engine, is_grad_enabled, no_grad
from ..autograd.tape import Node
from ..core import overrides
from ..core.apply import state
from ..core.create.generator import default_generator
from ..core.extensions import extensions
from ..core.tensor import Tensor

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The recomputation differed from the first run."""


def check_backward_validity(inputs: Iterable[object]) -> None:
    """Warn if no input of a checkpointed part requires a gradient."""
    if not any(isinstance(input, Tensor) and input.requires_grad for input in inputs):
        warn_caller("None of the inputs have requires_grad=True. Gradients will be None")


def detach_variable(inputs: tuple) -> tuple:
    """The inputs with tensors detached, which require gradients as before."""
    return tuple(
        [input.detach().requires_grad_(input.requires_grad) if isinstance(input, Tensor) else input for input in inputs]
    )


def noop_context_fn() -> tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]:
    """Two contexts that do nothing, for the first run and the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """A context for PyTorch's early stop of recomputations. It has no effect: recomputations always run to the end."""
    yield


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """([], []): one generator serves all devices, and `get_rng_state` returns its state."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """The inverse of `get_device_states`."""


def checkpoint(
    function: Callable,
    *args: object,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: object,
) -> object:
    """`function(*args, **kwargs)`, recomputed in backward instead of saving intermediate tensors.

    `context_fn` returns a context for each of the two runs. With `preserve_rng_state` the recomputation draws the same
    random numbers. Backward raises CheckpointError if the runs differ in their ops or (unless
    `determinism_check="none"`) in shapes and dtypes. `use_reentrant=True` gives the same gradients. As in PyTorch, it
    supports only backward() without `inputs` (otherwise RuntimeError), and it needs an argument that requires gradients
    (otherwise no gradients and a warning). `debug` and `early_stop` have no effect: errors always name the op, and the
    recomputation runs to the end.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'] but got determinism_check={determinism_check}"
        )
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if use_reentrant and kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    first, second = context_fn()
    cut = use_reentrant and is_grad_enabled() and not any(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
    if cut:
        warn_caller("None of the inputs have requires_grad=True. Gradients will be None")
    if cut or not is_grad_enabled():
        with first, no_grad():
            return function(*args, **kwargs)
    segment = _Segment(
        lambda: function(*args, **kwargs),
        second,
        preserve_rng_state,
        determinism_check == "default",
        bool(use_reentrant),
    )
    with first:
        return segment.run()


def checkpoint_sequential(
    functions: Iterable[Callable],
    segments: int,
    input: object,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> object:
    """Apply a Sequential or a list of functions to `input`, in `segments` parts of equal length.

    All parts but the last are checkpointed.
    """
    functions = list(functions)
    if not 1 <= segments <= len(functions):
        raise ValueError(
            f"checkpoint_sequential: segments must be between 1 and the number of functions ({len(functions)}), got "
            f"{segments}"
        )
    size = len(functions) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            _chain(functions[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return _chain(functions[size * (segments - 1) :])(input)


def _chain(functions: Sequence[Callable]) -> Callable:
    def run(value: object) -> object:
        for function in functions:
            value = function(value)
        return value

    return run


class _Segment:
    """A checkpointed call.

    Its nodes refer to it; it has only weak references to them, so that it does not keep the tape alive.
    """

    def __init__(
        self,
        call: Callable[[], object],
        context: contextlib.AbstractContextManager,
        preserve_random: bool,
        compare: bool,
        reentrant: bool,
    ) -> None:
        self._call, self._context, self._compare, self._reentrant = call, context, compare, reentrant
        self._autocast, self._overriding = state.autocast, (overrides.state.modes, overrides.state.disabled)
        self._random = (default_generator._seed, default_generator._offset) if preserve_random else None
        self._nodes: list[weakref.ref[Node]] = []
        self._shapes: list[tuple] = []

    def run(self) -> object:
        """Run the call, then drop the saved tensors of its nodes and the arguments of nested checkpoints."""
        result, nodes = _recorded(self._call)
        self._nodes, self._shapes = [weakref.ref(node) for node in nodes], [_shape_of(node) for node in nodes]
        for node in nodes:
            node.saved, node.out, node.refill = None, None, self.refill
        return result

    def refill(self) -> None:
        """Run the call again, and restore the saved tensors of all nodes that still exist."""
        if self._reentrant and (passes := engine.running.passes) and passes[-1].path is not None:
            raise RuntimeError(
                "When use_reentrant=True, numod.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). "
                "To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
                "the `inputs` argument."
            )
        with (
            enable_grad(),
            _autocast(self._autocast),
            overrides.as_at(*self._overriding),
            self._context,
            _random_state(self._random),
        ):
            _, twins = _recorded(self._call)
        self._check(twins)
        pairs = [(reference(), twin) for reference, twin in zip(self._nodes, twins)]
        original = {twin: node for node, twin in pairs}
        for node, twin in pairs:
            if node is None or node.refill is None:
                continue
            if twin.refill is not None:
                twin.refill.__self__._adopt(node, twin)
            elif node.saved is None:
                node.saved = [_linked(saved, original) for saved in twin.saved]
                node.versions = twin.versions
                node.out = twin.out

    def _adopt(self, node: Node, twin: Node) -> None:
        """For a nested checkpoint in a recomputation: refill the first run's node instead of its counterpart."""
        self._nodes = [weakref.ref(node) if reference() is twin else reference for reference in self._nodes]
        node.refill = self.refill

    def _check(self, twins: list[Node]) -> None:
        if len(twins) != len(self._nodes):
            raise CheckpointError(
                "numod.utils.checkpoint: A different number of tensors was saved during the original forward and "
                "recomputation. "
                f"Number of ops recorded during forward: {len(self._nodes)}. During recomputation: {len(twins)}. "
                "The function must do the same every time it is called."
            )
        for before, twin in zip(self._shapes, twins):
            if self._compare and before != _shape_of(twin):
                raise CheckpointError(
                    "numod.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                    "during the forward pass.\n"
                    f"{before[0]} of {before[1:]} became {twin.name()} of {_shape_of(twin)[1:]}"
                )


def _recorded(call: Callable[[], object]) -> tuple[object, list[Node]]:
    """(the call's result, its nodes with saved tensors, oldest first).

    Nodes from before the call, such as casts from autocast's cache, are excluded.
    """
    start = Node(None, (), (), ()).sequence
    type(state).special = True
    before, state.checkpointing = state.checkpointing, True
    try:
        result = call()
    finally:
        state.checkpointing = before
    nodes: set[Node] = set()
    waiting = [tensor.grad_fn for tensor in _tensors(result)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Node) and node.sequence > start and node not in nodes:
            nodes.add(node)
            waiting += [edge[0] for edge in node.edges if edge is not None]
            waiting.append(getattr(node, "inner", None))  # the node of a write through a view
    return result, sorted(filter(_has_saved_tensors, nodes), key=lambda node: node.sequence)


def _has_saved_tensors(node: Node) -> bool:
    return bool(getattr(node, "saved", None) or node.out or node.refill is not None)


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _shape_of(node: Node) -> tuple:
    """The node's name with the shapes, dtypes and devices of its inputs."""
    return node.name(), *[
        (tuple(layout.shape), layout.dtype, str(layout.device)) for layout in node.layouts if hasattr(layout, "shape")
    ]


def _linked(saved: object, original: dict[Node, Node | None]) -> object:
    """A counterpart's saved tensor, with its history in the first run instead of the second."""
    if not isinstance(saved, Tensor) or saved.is_leaf:
        return saved
    node, result = original.get(saved.grad_fn, saved.grad_fn), saved.detach()
    if node is not None:
        result._node, result._output, result._requires_grad = node, saved._output, True
    return result


@contextlib.contextmanager
def _autocast(casts: tuple) -> Iterator[None]:
    """A context with the state of `amp.autocast` from the first run."""
    if casts == state.autocast:
        yield
        return
    now = extensions.enter_autocast(casts)
    try:
        yield
    finally:
        extensions.enter_autocast(now)


@contextlib.contextmanager
def _random_state(state: tuple[int, int] | None) -> Iterator[None]:
    """A context in which the default generator has the given `state`. It is restored afterwards."""
    if state is None:
        yield
        return
    now = default_generator._seed, default_generator._offset
    default_generator._seed, default_generator._offset = state
    try:
        yield
    finally:
        default_generator._seed, default_generator._offset = now

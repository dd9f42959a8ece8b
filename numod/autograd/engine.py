"""The backward engine: `backward` and `grad` start passes over the tape (`backward_pass`)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context

from ..core.apply import apply, state
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..errors import warn_caller
from ..ops import table
from .backward_pass import BackwardPass, GradientEdge, batched_as, target_of


class _Running(threading.local):
    """The backward passes that this thread runs, the innermost last."""

    def __init__(self) -> None:
        self.passes: list[BackwardPass] = []


running = _Running()
finishing_early = False  # whether some leaf has `_finish_early` set


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Add the gradients of `tensors` (sums weighted by `grad_tensors`) to `.grad` of the leaves, or of `inputs` alone.

    Raises RuntimeError if a tensor requires no gradient, is no scalar and has no weight, or if the graph was freed.

    Example:

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.backward(x**2)
        >>> x.grad
        tensor(6.)
    """
    tensors = _tuple(tensors)
    targets = None if inputs is None else _tuple(inputs)
    if targets is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for tensor in targets or ():
        if isinstance(tensor, Tensor):
            tensor.retain_grad()  # so that non-leaf tensors get `.grad`
    if create_graph:
        warn_caller(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. "
            "We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields "
            "of your parameters to None after use to break the cycle and avoid the leak."
        )
    _start_pass(
        tensors, grad_tensors, bool(create_graph if retain_graph is None else retain_graph), create_graph, targets, True
    )


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients of `outputs` with respect to `inputs`; `.grad` is not changed.

    Raises RuntimeError for an unused input, unless `allow_unused`: then its gradient is None.

    With `is_grads_batched`, `grad_outputs` and the gradients have an additional first dimension, and one backward pass
    computes all of its elements (`func.vmap`).

    Example:

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(x**2, x)
        (tensor(6.),)
    """
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not only_inputs:
        warn_caller(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use numod.autograd.backward.",
            FutureWarning,
        )
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if is_grads_batched:
        return _batched(
            outputs,
            inputs,
            _tuple(grad_outputs),
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    for input in inputs:
        target_of(input)  # raises
        if not isinstance(input, GradientEdge) and not input.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    gradients = _start_pass(outputs, grad_outputs, retain, create_graph, inputs, False)
    unused = next((number for number, result in enumerate(gradients) if result is None), None)
    if unused is not None and not (allow_unused or materialize_grads):
        raise RuntimeError(
            f"The differentiated Tensor at index {unused} appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    return tuple(
        _zeros(input, create_graph) if gradient is None and materialize_grads else gradient
        for input, gradient in zip(inputs, gradients)
    )


def grad_up_to(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], create_graph: bool = False
) -> Sequence[Tensor | None]:
    """`grad` that stops at the inputs: their gradients are not passed on, even if an input was computed from another.

    Hooks of the inputs do not run. Unused inputs get None. The graph is retained.
    """
    return _start_pass(tuple(outputs), grad_outputs, True, create_graph, tuple(inputs), False, stop_at_inputs=True)


def _zeros(tensor: Tensor | GradientEdge, requires_grad: bool) -> Tensor:
    target, number = target_of(tensor)
    if isinstance(tensor, Tensor):
        layout = tensor._layout
    elif isinstance(target, Tensor):
        layout = target._layout
    else:
        layout = target.outputs[number]
    return apply(table.fill, (0,), (layout.dtype, layout.device, layout.shape)).requires_grad_(requires_grad)


def _batched(outputs: tuple, inputs: tuple, weights: tuple, **options: object) -> tuple[Tensor | None, ...]:
    unused: list[bool] = []

    def row(*weights: Tensor) -> tuple[Tensor, ...]:
        gradients = grad(outputs, inputs, weights, retain_graph=True, **options)
        unused[:] = [gradient is None for gradient in gradients]
        return tuple(gradient for gradient in gradients if gradient is not None)

    columns = iter(extensions.map_rows(row, weights) or _map_rows(row, weights))
    return tuple(None if missing else next(columns) for missing in unused)


def _map_rows(function: Callable, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The function's results for each row of the tensors, stacked."""
    from ..core.shape.joining import stack

    return tuple(map(stack, zip(*[function(*row) for row in zip(*(column.unbind() for column in columns))])))


def _tuple(value: object) -> tuple:
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _seeds(tensors: tuple[Tensor, ...], weights: object) -> list[Tensor]:
    weights = (None,) * len(tensors) if weights is None else _tuple(weights)
    if len(weights) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(weights)} gradients")
    return [_seed(tensor, weight) for tensor, weight in zip(tensors, weights)]


def _seed(tensor: Tensor | GradientEdge, weight: Tensor | None) -> Tensor:
    """The gradient that a backward pass starts with."""
    if isinstance(tensor, GradientEdge):
        target, number = target_of(tensor)
        layout = target._layout if isinstance(target, Tensor) else target.outputs[number]
    elif not isinstance(tensor, Tensor):
        raise RuntimeError(f"expected the outputs to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    elif tensor.requires_grad:
        layout = tensor._layout
    else:
        raise RuntimeError(
            "element 0 of tensors does not require grad and does not have a grad_fn; set requires_grad=True on an "
            "input, or leave no_grad()"
        )
    if weight is None:
        if layout.size != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs; reduce the tensor (.sum(), .mean()) or pass "
                "its gradient"
            )
        if layout.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {layout.dtype}; take its .real "
                "or .abs(), or pass its gradient"
            )
        weight = apply(table.fill, (1,), (layout.dtype, layout.device, layout.shape))
    elif weight.dtype.is_complex is not layout.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            "grad_output[0] has a dtype of "
            f"{weight.dtype} and output[0] has a dtype of {layout.dtype}."
        )
    elif weight.shape != layout.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {weight.shape} and output[0] has a shape of "
            f"{layout.shape}."
        )
    return batched_as(layout, weight)


def _start_pass(*arguments: object, **options: object) -> list[Tensor | None]:
    """`_run_backward`, on a new thread if nested passes have used half of this thread's stack."""
    passes = running.passes
    if not (passes and _stack_is_deep()):
        return _run_backward(*arguments, **options)
    modes, context, results = dict(state.__dict__), copy_context(), []

    def run() -> None:
        running.passes = passes
        state.__dict__.update(modes)
        try:
            results.append((context.run(_run_backward, *arguments, **options), None))
        except BaseException as error:  # reraised by the waiting thread
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    ((gradients, error),) = results
    if error is not None:
        raise error
    return gradients


def _stack_is_deep() -> bool:
    """Whether half of Python's recursion limit is used."""
    try:
        return sys._getframe(sys.getrecursionlimit() // 2) is not None
    except ValueError:
        return False


def _run_backward(
    tensors: tuple,
    weights: object,
    retain: bool,
    create_graph: bool,
    targets: tuple | None,
    into_leaves: bool,
    stop_at_inputs: bool = False,
) -> list[Tensor | None]:
    """Run a backward pass and return the gradients of `targets`.

    With `into_leaves`, gradients are added to `.grad` of these tensors, or of all leaves. With `stop_at_inputs`,
    gradients of `targets` are not passed on.
    """
    running_pass, passes = BackwardPass(targets or (), stop_at_inputs), running.passes
    before = state.grad_enabled
    try:
        state.grad_enabled = create_graph
        passes.append(running_pass)
        seeds, roots = _seeds(tensors, weights), [target_of(tensor) for tensor in tensors]
        if targets is not None:
            running_pass.find_path(roots, into_leaves)
        elif finishing_early:
            running_pass.await_leaves(roots)
        for root, seed in zip(roots, seeds):
            running_pass.shared_storages.add(id(seed._storage))
            running_pass.send(root, seed)
        running_pass.run(retain or state.vmap_depth > 0)
        running_pass.finish(targets if into_leaves else ())
        for call in running_pass.at_end:
            call()
    finally:
        state.grad_enabled = before  # first, since a signal handler may raise after any call
        if running_pass in passes:
            passes.remove(running_pass)
    return running_pass.captured

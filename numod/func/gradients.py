"""Gradients as functions. They are computed on the tape, with a new node for each argument of the call.

So they nest: inside `grad(f)` another `grad` treats its arguments as computed from the outer ones. A result is recorded
only if an argument, or another tensor that the function uses, requires a gradient outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from .. import autograd
from ..autograd import enable_grad, inference_mode, is_grad_enabled
from ..autograd.tape import edge_to, leaves_of
from ..core import Tensor, eye, stack, zeros_like
from .batching import vmap
from .examples import active, numbers_require_grad
from .trees import leaves, map_leaves

__all__ = ["grad", "grad_and_value", "hessian", "jacrev", "value_and_grad", "vjp"]

Argnums = int | tuple[int, ...]


# ---- functions of many arguments
# ---------------------------------------------------------------------------------------


def _positions(argnums: Argnums, count: int) -> tuple[int, ...]:
    """`argnums` as indices of `count` arguments."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -count <= number < count:
            raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    positions = tuple(number % count for number in numbers)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return positions


# ---- one call
# ----------------------------------------------------------------------------------------------------------


def _fresh(value: Any) -> Tensor:
    """The value with a new node on the tape, connected to its history if that matters outside the call."""
    if not isinstance(value, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
    batch = active.batches[-1] if active.batches else None
    if batch is not None and (value._layout.batch is not batch or not value.requires_grad):
        return batch.as_batched(value).requires_grad_()  # its numbers connect it to the graph outside of `vmap`
    if value.is_inference():
        value = value.clone()  # the tape cannot save inference tensors
    return value.view_as(value) if value.requires_grad else value.detach().requires_grad_()


def _depends_on_more(outputs: Iterable[Tensor], inputs: list[Tensor]) -> bool:
    """Whether `outputs` depend on a leaf that requires a gradient and is not one of `inputs`."""
    input_ids = {id(input) for input in inputs}
    return any(
        id(leaf) not in input_ids
        for leaf in leaves_of(edge_to(output)[0] for output in outputs if output.requires_grad)
    )


class _Call:
    """One call of a function to be differentiated: fresh inputs, output, aux, and whether the outer tape continues."""

    def __init__(self, name: str, has_aux: bool, inputs: Any) -> None:
        self.name, self.has_aux, self.aux = name, has_aux, None
        with inference_mode(False), enable_grad():
            self.inputs = map_leaves(_fresh, inputs)

    def run(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> None:
        active.differentiated.append(len(active.batches))
        try:
            with inference_mode(False), enable_grad():
                self.output = function(*args, **kwargs)
        finally:
            active.differentiated.pop()
        if self.has_aux:
            if not (isinstance(self.output, tuple) and len(self.output) == 2):
                raise RuntimeError(
                    f"{self.name}: output of function f should be a tuple: (output, aux) if has_aux is True"
                )
            self.output, self.aux = self.output

    @functools.cached_property
    def connected(self) -> bool:
        """Whether gradients of the outputs are needed outside the call."""
        outputs = [leaf for leaf in leaves(self.output) if isinstance(leaf, Tensor)]
        return _depends_on_more(outputs, leaves(self.inputs)) or any(map(numbers_require_grad, outputs))

    def recorded(self, *more: Tensor) -> bool:
        """Whether a result computed now, from the outputs and `more`, is recorded."""
        return is_grad_enabled() and (self.connected or any(tensor.requires_grad for tensor in more))

    def outside(self, tree: Any) -> Any:
        """A result for the caller, disconnected from this call's own inputs."""
        if self.recorded():
            return tree
        return map_leaves(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, tree)

    def pull_back(self, weights: list[Tensor] | None, recorded: bool) -> Any:
        """The gradients of the inputs, in the structure of the inputs."""
        inputs, wanted = leaves(self.inputs), []
        for number, leaf in enumerate(leaves(self.output)):
            if leaf.requires_grad:
                wanted.append((leaf, None if weights is None else weights[number]))
        if not wanted:
            gradients_left = iter([input.new_zeros(input.shape) for input in inputs])
        else:
            outputs, gradients = zip(*wanted)
            settings = {"retain_graph": True, "create_graph": recorded, "materialize_grads": True}
            gradients_left = iter(autograd.grad(outputs, inputs, None if weights is None else gradients, **settings))
        return map_leaves(lambda _: next(gradients_left), self.inputs)


def _called(name: str, func: Callable, argnums: Argnums, has_aux: bool, args: tuple, kwargs: dict[str, Any]) -> _Call:
    """Call `func` with the arguments at `argnums` fresh."""
    positions = _positions(argnums, len(args))
    call = _Call(name, has_aux, [args[position] for position in positions])
    replaced = dict(zip(positions, call.inputs))
    call.run(func, tuple(replaced.get(position, value) for position, value in enumerate(args)), kwargs)
    return call


def _tensors_of(call: _Call) -> list[Tensor]:
    outputs = leaves(call.output)
    if not outputs or not all(isinstance(output, Tensor) for output in outputs):
        raise RuntimeError(f"{call.name}: Expected f to return tensors, and at least one")
    return outputs


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function of the same arguments that returns (gradient, value) of `func`, whose result is a scalar tensor.

    `argnums` selects the positional arguments: one, for its gradient, or a tuple, for a tuple of gradients. An argument
    may be a dict, list or tuple of tensors; its gradient has the same structure. With `has_aux`, `func` returns (value,
    aux), where aux is not differentiated, and the result is (gradient, (value, aux)).

    Example:

        >>> from numod.func import grad_and_value
        >>> grad_and_value(lambda x: x**3)(torch.tensor(2.0))
        (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        call = _called("grad_and_value(f)(*args)", func, argnums, has_aux, args, kwargs)
        _check_scalar(call.output)
        gradients = tuple(call.pull_back(None, call.recorded()))
        value, aux = call.outside(call.output), call.outside(call.aux)
        return gradients if isinstance(argnums, tuple) else gradients[0], (value, aux) if has_aux else value

    return gradient_and_value


def _check_scalar(output: Any) -> None:
    name = "grad_and_value(f)(*args)"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.ndim != 0:
        raise RuntimeError(
            f"{name}: Expected f(*args) to return a scalar tensor, got tensor with {output.ndim} dims. Maybe you "
            "wanted to use the vjp API instead?"
        )


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function of the same arguments that returns the gradient of `func`; with `has_aux`, (gradient, aux).

    See `grad_and_value`.

    Example:

        >>> from numod.func import grad
        >>> grad(lambda x: x**3)(torch.tensor(2.0))
        tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """`grad_and_value` in the order of JAX and MLX: (value, gradient).

    Example:

        >>> torch.func.value_and_grad(lambda x: (x ** 2).sum())(torch.tensor([1.0, 2.0]))
        (tensor(5.), tensor([2., 4.]))
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def value_and_gradient(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return both(*args, **kwargs)[::-1]

    return value_and_gradient


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """`func(*primals)`, a function from cotangents of its outputs to gradients of the primals, and aux if `has_aux`.

    Cotangents have the structure of the output. The gradients are a tuple, even if there is only one.

    Example:

        >>> from numod.func import vjp
        >>> value, pull = vjp(lambda x: x**2, torch.tensor(3.0))
        >>> pull(torch.tensor(1.0))
        (tensor(6.),)
    """
    call = _Call("vjp(f, *primals)", has_aux, list(primals))
    call.run(func, tuple(call.inputs), {})
    outputs = _tensors_of(call)

    def pull_back(*cotangents: Any) -> tuple:
        weights = leaves(cotangents[0] if len(cotangents) == 1 else cotangents)
        if [tuple(weight.shape) for weight in weights] != [tuple(output.shape) for output in outputs]:
            raise RuntimeError(
                f"Expected cotangents of the shapes of the outputs, {[tuple(output.shape) for output in outputs]}"
            )
        return tuple(call.pull_back(weights, call.recorded(*weights)))

    result = call.outside(call.output), pull_back
    return (*result, call.outside(call.aux)) if has_aux else result


def jacrev(
    func: Callable,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function of the same arguments that returns the Jacobian: (*output, *argument) for each output and argument.

    Each backward pass computes `chunk_size` elements of the outputs, by default all (ValueError below 1). `argnums`,
    trees and `has_aux` are as in `grad`; the outputs may be a tree too. Raises RuntimeError for complex inputs and
    outputs.

    Example:

        >>> from numod.func import jacrev
        >>> jacrev(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call = _called("jacrev(f)(*args)", func, argnums, has_aux, args, kwargs)
        _require_real("inputs", leaves(call.inputs))
        _require_real("outputs", outputs := _tensors_of(call))
        numbers = iter(range(len(outputs)))
        jacobians = map_leaves(
            lambda _: _derivatives(call, next(numbers), isinstance(argnums, tuple), chunk_size), call.output
        )
        return (jacobians, call.outside(call.aux)) if has_aux else jacobians

    return jacobian


def _require_real(label: str, tensors: list[Tensor]) -> None:
    for number, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"jacrev: Expected all {label} to be real but received complex tensor at flattened input idx: "
                f"{number}; convert complex numbers with view_as_real, "
                "or use vjp and jvp"
            )


def _derivatives(call: _Call, number: int, several: bool, chunk_size: int | None) -> Any:
    """The Jacobians of one output, in the structure of the inputs."""
    outputs, inputs = leaves(call.output), leaves(call.inputs)
    output = outputs[number].detach()
    size, shapes = output.numel(), [(*output.shape, *input.shape) for input in inputs]
    if not size:
        columns: Any = [input.new_zeros((0, *input.shape)) for input in inputs]
    else:
        weights = [zeros_like(output.detach()) for output in outputs]
        rows = eye(size, dtype=output.dtype, device=output.device).reshape((size, *output.shape))
        recorded = call.recorded()

        def pull_back(row: Tensor) -> list[Tensor]:
            return leaves(call.pull_back([*weights[:number], row, *weights[number + 1 :]], recorded))

        columns = (
            [*map(stack, zip(*map(pull_back, rows)))]
            if 1 in (size, chunk_size)
            else vmap(pull_back, chunk_size=chunk_size)(rows)
        )
    derivatives = iter([column.reshape(shape) for column, shape in zip(columns, shapes)])
    tree = tuple(map_leaves(lambda _: next(derivatives), call.inputs))
    return tree if several else tree[0]


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function of the same arguments that returns the Hessian of `func`: (*argument, *argument) for a scalar.

    Example:

        >>> from numod.func import hessian
        >>> hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)

"""Jacobians, Hessians and products with them, of functions of tensors.

PyTorch's `torch.autograd.functional`; `numod.func` is the newer interface.

`inputs` is a tensor or a tuple, and results have the same form. They are differentiable only with `create_graph`. With
`strict` an output that does not depend on an input raises an error; else its derivative is 0.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core import eye, ones_like, stack, zeros, zeros_like
from ..core.tensor import Tensor
from .engine import grad
from .modes import enable_grad, set_grad_enabled

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | tuple[Tensor, ...]


def _tuple(value: object, what: str, name: str) -> tuple[tuple[Tensor, ...], bool]:
    """(a tuple of tensors, whether it was one)."""
    values = value if isinstance(value, tuple) else (value,)
    for k, element in enumerate(values):
        if not isinstance(element, Tensor):
            location = f"in the tuple at index {k} " if isinstance(value, tuple) else ""
            raise TypeError(
                f"The {what} {name} must be either a Tensor or a tuple of Tensors but the value {location}has type "
                f"{type(element)}."
            )
    return values, isinstance(value, tuple)


def _prepared(inputs: object, create_graph: bool, name: str) -> tuple[tuple[Tensor, ...], bool]:
    """The inputs as new leaves or views, so that gradients stop at them."""
    values, several = _tuple(inputs, "inputs given to", name)
    return tuple(
        value.view_as(value) if create_graph and value.requires_grad else value.detach().requires_grad_()
        for value in values
    ), several


def _weights(v: object, like: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    """`v` checked against the tensors it is multiplied with; None means 1 for a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
        return (ones_like(like[0]).detach(),)
    values, _ = _tuple(v, "v given to", name)
    if len(values) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(values)}.")
    for k, (value, other) in enumerate(zip(values, like)):
        if value.shape != other.shape:
            raise RuntimeError(f"Entry {k} in v has invalid size: should be {other.shape} but got {value.shape}.")
    return values


def _derivatives(
    outputs: tuple, inputs: tuple, weights: tuple | None, create_graph: bool, strict: bool
) -> tuple[Tensor, ...]:
    """The gradients of the inputs, zeros where an output does not depend on one."""
    differentiable = [
        (out, None if weights is None else weights[k]) for k, out in enumerate(outputs) if out.requires_grad
    ]
    if len(differentiable) < len(outputs) and strict:
        raise RuntimeError(
            "Output of the user-provided function does not require gradients. The outputs must "
            "be computed in a differentiable manner from the input when running in strict mode."
        )
    if not differentiable:
        return tuple(zeros_like(input) for input in inputs)
    outs, used_weights = zip(*differentiable)
    gradients = grad(
        outs,
        inputs,
        None if weights is None else used_weights,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )
    if strict and any(gradient is None for gradient in gradients):
        position = next(k for k, gradient in enumerate(gradients) if gradient is None)
        raise RuntimeError(
            f"The output of the user-provided function is independent of input {position}. This is not allowed in "
            "strict mode."
        )
    return tuple(zeros_like(input) if gradient is None else gradient for input, gradient in zip(inputs, gradients))


def _result(tensors: tuple, several: bool, create_graph: bool) -> Tensors:
    tensors = tensors if create_graph else tuple(tensor.detach() for tensor in tensors)
    return tensors if several else tensors[0]


def _scalar(outputs: tuple, several: bool, name: str) -> None:
    if several or outputs[0].numel() != 1:
        raise RuntimeError(f"The function given to {name} should return a single Tensor with a single element")


def vjp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """(outputs, products of `v`, shaped like the outputs, with the Jacobian)."""
    with enable_grad():
        values, several = _prepared(inputs, create_graph, "vjp")
        outputs, many = _tuple(func(*values), "outputs of the user-provided function given to", "vjp")
        weights = _weights(v, outputs, "vjp")
    with set_grad_enabled(create_graph):
        gradients = _derivatives(outputs, values, weights, create_graph, strict)
    return _result(outputs, many, create_graph), _result(gradients, several, create_graph)


def jvp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """(outputs, products of the Jacobian with `v`, shaped like the inputs).

    By the double-backward trick (v^T J is linear in v).
    """
    with enable_grad():
        values, _ = _prepared(inputs, create_graph, "jvp")
        tangents = _weights(v, values, "jvp")
        outputs, many = _tuple(func(*values), "outputs of the user-provided function given to", "jvp")
        weights = tuple(zeros_like(output).detach().requires_grad_() for output in outputs)
        input_gradients = _derivatives(outputs, values, weights, True, strict)
        tangent_outputs = _derivatives(input_gradients, weights, tangents, create_graph, False)
    return _result(outputs, many, create_graph), _result(tangent_outputs, many, create_graph)


def jacobian(
    func: Callable,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Tensors | tuple:
    """Derivatives of each output with respect to each input, (*output, *input): one tensor, or tuples if there are
    several of either.

    One backward pass for each element of the outputs, or with `vectorize` for all, which takes more memory; `strategy`
    has no effect.
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got {strategy}')
    with enable_grad():
        values, several = _prepared(inputs, create_graph, "jacobian")
        outputs, many = _tuple(func(*values), "outputs of the user-provided function given to", "jacobian")
        rows = tuple(
            (_rows_at_once if vectorize and not strict and output.requires_grad else _rows)(
                output, values, several, create_graph, strict
            )
            for output in outputs
        )
    return rows if many else rows[0]


def _rows(output: Tensor, inputs: tuple, several: bool, create_graph: bool, strict: bool) -> Tensors:
    rows = (
        [_derivatives((element,), inputs, None, create_graph, strict) for element in output.reshape(-1).unbind()]
        if output.numel()
        else []
    )
    columns = zip(*rows) if rows else [[zeros(0, *input.shape, dtype=input.dtype)] for input in inputs]
    return _result(
        tuple(stack(list(column)).reshape(*output.shape, *input.shape) for column, input in zip(columns, inputs)),
        several,
        create_graph,
    )


def _rows_at_once(output: Tensor, inputs: tuple, several: bool, create_graph: bool, strict: bool) -> Tensors:
    size = output.numel()
    weights = eye(size, dtype=output.dtype, device=output.device).reshape(size, *output.shape)
    gradients = grad(output, inputs, weights, create_graph=create_graph, allow_unused=True, is_grads_batched=True)
    gradients = tuple(
        zeros(size, *input.shape, dtype=input.dtype, device=input.device) if gradient is None else gradient
        for gradient, input in zip(gradients, inputs)
    )
    return _result(
        tuple(gradient.reshape(*output.shape, *input.shape) for gradient, input in zip(gradients, inputs)),
        several,
        create_graph,
    )


def hessian(
    func: Callable,
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Tensors | tuple:
    """Second derivatives of a function with a scalar result, (*input, *input), or a tuple of tuples."""
    values, several = _tuple(inputs, "inputs given to", "hessian")

    def first(*arguments: Tensor) -> Tensors:
        outputs, many = _tuple(func(*arguments), "outputs of the user-provided function given to", "hessian")
        _scalar(outputs, many, "hessian")
        return _result(_derivatives((outputs[0].reshape(()),), arguments, None, True, strict), several, True)

    return jacobian(first, values if several else values[0], create_graph, strict, vectorize, outer_jacobian_strategy)


def vhp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """(output, products of `v`, shaped like the inputs, with the Hessian)."""
    with enable_grad():
        values, several = _prepared(inputs, create_graph, "vhp")
        outputs, many = _tuple(func(*values), "outputs of the user-provided function given to", "vhp")
        _scalar(outputs, many, "vhp")
        first = _derivatives(outputs, values, None, True, strict)
        products = _derivatives(first, values, _weights(v, values, "vhp"), create_graph, strict)
    return _result(outputs, False, create_graph), _result(products, several, create_graph)


def hvp(
    func: Callable, inputs: Tensors, v: Tensors | None = None, create_graph: bool = False, strict: bool = False
) -> tuple[Tensors, Tensors]:
    """(output, products of the Hessian with `v`); equal to `vhp`, since the Hessian is symmetric."""
    return vhp(func, inputs, v, create_graph, strict)

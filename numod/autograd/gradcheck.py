"""gradcheck and gradgradcheck: the tape's gradients against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.math.complexes import view_as_complex, view_as_real
from ..core.create.creation import ones_like
from ..core.create.random import Generator, rand
from ..core.tensor import Tensor
from ..dtypes import complex128, float64
from ..errors import warn_caller
from .engine import grad
from .modes import enable_grad


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ."""


def _tensors(values: object) -> tuple[Tensor, ...]:
    return (values,) if isinstance(values, Tensor) else tuple(value for value in values if isinstance(value, Tensor))


def gradcheck(
    func: Callable,
    inputs: Tensor | Sequence,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` with respect to its float64 or complex128 inputs that require them agree with
    central differences.

    Outputs that require gradients are compared; if none does, differences must be 0. Every element, and both parts of a
    complex one, is compared; with `fast_mode` only one random projection of each Jacobian, by two calls. Two backward
    passes must agree up to `nondet_tol`. `check_undefined_grad`: gradients must be None or 0 where no gradient reaches
    an output. The other options, which select PyTorch's further checks, have no effect. Raises GradcheckError naming
    the input, the index and both values, or returns False without `raise_exception`.

    Example:

        >>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        >>> torch.autograd.gradcheck(torch.exp, x)
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [k for k, input in enumerate(inputs) if isinstance(input, Tensor) and input.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the inputs have "
            "requires_grad=True."
        )
    _warn_of_low_precision(inputs, checked)
    recorded = any(tensor.requires_grad for tensor in _tensors(func(*inputs)))

    def chosen(results: tuple[Tensor, ...]) -> list[Tensor]:
        return [result for result in results if (result.requires_grad if recorded else result.dtype.differentiable)]

    generator = Generator().manual_seed(0)
    outputs = lambda: chosen(_tensors(func(*inputs)))  # noqa: E731
    try:
        for position in checked:
            if fast_mode:
                _compare_projection(outputs, inputs, position, eps, atol, rtol, generator)
            else:
                _compare(outputs, inputs, position, eps, atol, rtol)
        if recorded:
            points, results = [inputs[k] for k in checked], outputs()
            _require_deterministic(results, points, nondet_tol, generator)
            if check_undefined_grad:
                _require_undefined_handled(results, points)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _warn_of_low_precision(inputs: tuple, checked: list[int]) -> None:
    for position in checked:
        if inputs[position].dtype not in (float64, complex128):
            warn_caller(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or complex."
            )


def _differences(outputs: Callable, point: Tensor, direction: list[float], eps: float) -> list[list[float]]:
    """The change of each output's numbers along a direction, by central differences. The point is moved meanwhile."""
    values, sides = _numbers(point), []
    for shift in (eps, -eps):
        point.detach().copy_(_like(point, [value + shift * step for value, step in zip(values, direction)]))
        sides.append([_numbers(output) for output in outputs()])
    point.detach().copy_(_like(point, values))
    return [[(up - down) / (2 * eps) for up, down in zip(*pair)] for pair in zip(*sides)]


def _compare(outputs: Callable, inputs: tuple, position: int, eps: float, atol: float, rtol: float) -> None:
    """All outputs against one input, column by column of the Jacobians."""
    point = inputs[position]
    size, analytic = len(_numbers(point)), [_jacobian(output, point) for output in outputs()]
    for column in range(size):
        direction = [float(k == column) for k in range(size)]
        for number, numerics in enumerate(_differences(outputs, point, direction, eps)):
            for index, numeric in enumerate(numerics):
                analytic_value = analytic[number][index][column]
                if not abs(numeric - analytic_value) <= atol + rtol * abs(numeric):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {number} with respect to input {position}, at [{column}, "
                        f"{index}]: "
                        f"numerical {numeric}, analytical {analytic_value}"
                    )


def _compare_projection(
    outputs: Callable, inputs: tuple, position: int, eps: float, atol: float, rtol: float, generator: Generator
) -> None:
    """All outputs against one input, by one number for each Jacobian: its product with a random row and a random column
    of length 1.
    """
    point = inputs[position]
    direction, results = _random_unit(len(_numbers(point)), generator), outputs()
    weights = [_random_unit(len(_numbers(result)), generator) for result in results]
    rows = [_row(result, point, weight) for result, weight in zip(results, weights)]
    for number, numerics in enumerate(_differences(outputs, point, direction, eps)):
        numeric = sum(weight * numeric for weight, numeric in zip(weights[number], numerics))
        analytic_value = sum(step * entry for step, entry in zip(direction, rows[number]))
        if not abs(numeric - analytic_value) <= atol * sum(weights[number]) * sum(direction) + rtol * abs(numeric):
            raise GradcheckError(
                f"Jacobian mismatch for output {number} with respect to input {position}, in a random projection "
                "(fast_mode): "
                f"numerical {numeric}, analytical {analytic_value}; run without fast_mode to see the element"
            )


def _random_unit(size: int, generator: Generator) -> list[float]:
    """Positive random numbers, as a vector of length 1."""
    values = (rand((size,), dtype=float64, generator=generator) + 0.1).tolist()
    length = sum(value * value for value in values) ** 0.5
    return [value / length for value in values]


def _require_deterministic(results: list[Tensor], points: list[Tensor], tolerance: float, generator: Generator) -> None:
    """Raise GradcheckError if two backward passes with equal gradients differ by more than the tolerance."""
    seeds = [_like(result, _random_unit(len(_numbers(result)), generator)) for result in results]
    first, second = (grad(results, points, seeds, retain_graph=True, allow_unused=True) for _ in range(2))
    for a, b in zip(first, second):
        if a is not None and any(not abs(x - y) <= tolerance and x == x for x, y in zip(_numbers(a), _numbers(b))):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical "
                f"gradient matches numerical gradient. The tolerance for nondeterminism was {tolerance}."
            )


def _require_undefined_handled(results: list[Tensor], points: list[Tensor]) -> None:
    """Raise GradcheckError if backward fails or returns nonzero gradients when an output has no gradient."""
    gradients: list[Tensor | None] = []
    try:
        for left_out in range(len(results) if len(results) > 1 else 0):
            remaining = results[:left_out] + results[left_out + 1 :]
            gradients += grad(
                remaining,
                points,
                [tensor.detach().new_zeros(tensor.shape) for tensor in remaining],
                retain_graph=True,
                allow_unused=True,
            )
        for node in {
            result._node for result in results if result._node is not None and result._node.is_custom_function
        }:
            gradients += [gradient for _, gradient in node.backward([None] * len(node.outputs))]
    except RuntimeError as error:
        raise GradcheckError(
            "Expected backward function to handle undefined output grads: None for outputs that no gradient reaches."
        ) from error
    if any(tensor is not None and any(number != 0 for number in _numbers(tensor)) for tensor in gradients):
        raise GradcheckError(
            "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
        )


def _jacobian(result: Tensor, point: Tensor) -> list[list[float]]:
    """A row for each element of the result, by the tape."""
    size = len(_numbers(result))
    return [_row(result, point, [float(k == index) for k in range(size)]) for index in range(size)]


def _row(result: Tensor, point: Tensor, weights: list[float]) -> list[float]:
    """The gradient of the point, for these of the result."""
    (gradient,) = (
        grad(result, [point], _like(result, weights), retain_graph=True, allow_unused=True)
        if result.requires_grad
        else (None,)
    )
    return [0.0] * len(_numbers(point)) if gradient is None else _numbers(gradient)


def _numbers(tensor: Tensor) -> list[float]:
    """The elements, a complex one as its two parts: of those the gradient of a complex tensor has the derivatives."""
    return (view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()).reshape(-1).tolist()


def _like(tensor: Tensor, numbers: list[float]) -> Tensor:
    """A tensor of such elements."""
    flat = tensor.detach().new_tensor(numbers, dtype=tensor.dtype.real)
    return view_as_complex(flat.reshape(*tensor.shape, 2)) if tensor.is_complex() else flat.reshape(tensor.shape)


def gradgradcheck(
    func: Callable,
    inputs: Tensor | Sequence,
    grad_outputs: Tensor | Sequence | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """gradcheck of the gradient: second-order gradients against differences of first-order ones.

    `gen_non_contig_grad_outputs` and options that have no effect there have none here.

    Example:

        >>> torch.autograd.gradgradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))
        True
    """
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [tensor for tensor in _tensors(func(*inputs)) if tensor.requires_grad]
    if grad_outputs is None:
        generator = Generator().manual_seed(0)
        weights = tuple(
            (rand(output.shape, dtype=output.dtype, generator=generator) + 0.5 * ones_like(output)).requires_grad_()
            for output in outputs
        )
    else:
        weights = _tensors(grad_outputs)

    def first_order(*arguments: object) -> tuple[Tensor, ...]:
        points, seeds = arguments[: len(inputs)], arguments[len(inputs) :]
        with enable_grad():
            results = [tensor for tensor in _tensors(func(*points)) if tensor.requires_grad]
            targets = [point for point in points if isinstance(point, Tensor) and point.requires_grad]
            gradients = grad(results, targets, seeds, create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in gradients if gradient is not None and gradient.requires_grad)

    return gradcheck(
        first_order,
        (*inputs, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        fast_mode=fast_mode,
    )

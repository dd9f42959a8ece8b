"""gradcheck and gradgradcheck: the tape's gradients against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.complexes import view_as_complex, view_as_real
from ..core.creation import ones_like
from ..core.random import Generator, rand
from ..core.tensor import Tensor
from .engine import grad
from .modes import enable_grad


class GradcheckError(RuntimeError):
    """Analytical and numerical gradients differ."""


def _tensors(values: object) -> tuple[Tensor, ...]:
    return (values,) if isinstance(values, Tensor) else tuple(each for each in values if isinstance(each, Tensor))


def gradcheck(
    func: Callable, inputs: Tensor | Sequence, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the gradients of `func` with respect to its float64 or complex128 inputs that require them agree with central differences.

    Outputs that require gradients are compared; if none does, differences must be 0. Every element, and both parts of a complex one, is compared; options from
    `nondet_tol` on, which select PyTorch's further checks, have no effect. Raises GradcheckError naming the input, the index and both values, or returns False
    without `raise_exception`.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    checked = [k for k, each in enumerate(inputs) if isinstance(each, Tensor) and each.requires_grad]
    if not checked:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the inputs have requires_grad=True.")
    recorded = any(each.requires_grad for each in _tensors(func(*inputs)))

    def outputs() -> list[Tensor]:
        return [each for each in _tensors(func(*inputs)) if (each.requires_grad if recorded else each.dtype.differentiable)]

    try:
        for position in checked:
            _compare(outputs, inputs, position, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _compare(outputs: Callable, inputs: tuple, position: int, eps: float, atol: float, rtol: float) -> None:
    """All outputs against one input, column by column of the Jacobians."""
    point = inputs[position]
    values, analytic = _numbers(point), [_jacobian(each, point) for each in outputs()]
    for column in range(len(values)):
        sides = []
        for shift in (eps, -eps):
            moved = list(values)
            moved[column] += shift
            point.detach().copy_(_like(point, moved))
            sides.append([_numbers(each) for each in outputs()])
        point.detach().copy_(_like(point, values))
        for number, (ups, downs) in enumerate(zip(*sides)):
            for place, (up, down) in enumerate(zip(ups, downs)):
                numeric, found = (up - down) / (2 * eps), analytic[number][place][column]
                if not abs(numeric - found) <= atol + rtol * abs(numeric):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {number} with respect to input {position}, at [{column}, {place}]: "
                        f"numerical {numeric}, analytical {found}"
                    )


def _jacobian(result: Tensor, point: Tensor) -> list[list[float]]:
    """A row for each element of the result, by the tape."""
    rows, size = [], len(_numbers(result))
    for place in range(size):
        seed = [0.0] * size
        seed[place] = 1.0
        (gradient,) = grad(result, [point], _like(result, seed), retain_graph=True, allow_unused=True) if result.requires_grad else (None,)
        rows.append([0.0] * len(_numbers(point)) if gradient is None else _numbers(gradient))
    return rows


def _numbers(tensor: Tensor) -> list[float]:
    """The elements, a complex one as its two parts: of those the gradient of a complex tensor has the derivatives."""
    return (view_as_real(tensor.detach()) if tensor.is_complex() else tensor.detach()).reshape(-1).tolist()


def _like(tensor: Tensor, numbers: list[float]) -> Tensor:
    """A tensor of such elements."""
    flat = tensor.detach().new_tensor(numbers, dtype=tensor.dtype.real)
    return view_as_complex(flat.reshape(*tensor.shape, 2)) if tensor.is_complex() else flat.reshape(tensor.shape)


def gradgradcheck(
    func: Callable, inputs: Tensor | Sequence, grad_outputs: Tensor | Sequence | None = None, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:
    """gradcheck of the gradient: second-order gradients against differences of first-order ones. Options that select PyTorch's further checks have no
    effect."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [each for each in _tensors(func(*inputs)) if each.requires_grad]
    if grad_outputs is None:
        generator = Generator().manual_seed(0)
        weights = tuple((rand(each.shape, dtype=each.dtype, generator=generator) + 0.5 * ones_like(each)).requires_grad_() for each in outputs)
    else:
        weights = _tensors(grad_outputs)

    def first_order(*arguments: object) -> tuple[Tensor, ...]:
        given, seeds = arguments[: len(inputs)], arguments[len(inputs) :]
        with enable_grad():
            results = [each for each in _tensors(func(*given)) if each.requires_grad]
            wanted = [each for each in given if isinstance(each, Tensor) and each.requires_grad]
            found = grad(results, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple(each for each in found if each is not None and each.requires_grad)

    return gradcheck(first_order, (*inputs, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)

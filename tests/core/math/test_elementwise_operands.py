"""Forms of operands: NumPy arrays, other objects, `out`, reversed tensors, deprecated orders of arguments."""

import numpy as np
import pytest

import numod
from numod import nn, optim


def test_the_other_way_round():
    assert (
        reversed(numod.arange(6).reshape(2, 3)).tolist() == [[3, 4, 5], [0, 1, 2]]
        and reversed(numod.tensor(2)).item() == 2
    )


@pytest.mark.filterwarnings("ignore:This overload of addcdiv is deprecated:UserWarning")
def test_old_and_mixed_forms():
    ones = numod.ones(2)
    assert numod.addcdiv(ones, 2, ones, ones * 4).tolist() == [1.5, 1.5] and ones.new(size=(3, 4)).shape == (3, 4)
    wide = numod.ones(2, dtype=numod.float64)
    assert numod.addcmul(wide, wide, wide, out=numod.empty(2)).tolist() == [2.0, 2.0]
    assert numod.arange(3).type(numod.Tensor).dtype is numod.float32


def test_results_of_rows_with_defaults_are_written_out():
    x = numod.full((2, 2), 3.0)
    assert numod.addcmul(x, x, x, out=numod.empty(2, 2)).tolist() == [[12, 12], [12, 12]]
    assert numod.addcdiv(x, x, x, value=2, out=numod.empty(0)).tolist() == [[5, 5], [5, 5]]


def test_arrays_on_the_right_of_an_operator_and_functions_of_numpy_give_tensors():
    x, n = numod.tensor([1.0, 2.0], requires_grad=True), np.array([2.0, 2.0])
    y = x.detach()
    assert (
        (y == n).tolist() == [False, True]
        and (y >= n).tolist() == [False, True]
        and (y - n).tolist() == [-1, 0]
        and (y + n).dtype is numod.float64
    )
    (x * n).sum().backward()
    assert x.grad.tolist() == [2, 2]
    for result in (np.exp(y), np.add(y, n), np.isnan(y)):
        assert isinstance(result, numod.Tensor)


def test_operators_in_place_leave_other_objects_their_word():
    """As `x + other` does: an array makes another tensor, an object answers itself."""

    class Other:
        def __rsub__(self, tensor):
            return "mine"

    x = y = numod.ones(2)
    x -= Other()
    y += np.ones(2)
    assert x == "mine" and y.tolist() == [2, 2] and y.dtype is numod.float64
    with pytest.raises(TypeError, match="unsupported operand"):
        y *= "text"


@pytest.mark.filterwarnings("ignore:This overload of .* is deprecated:UserWarning")
def test_numbers_before_tensors_as_in_older_programs():
    x, y = numod.ones(2), numod.tensor([1.0, 2.0])
    numod.set_warn_always(True)
    with pytest.warns(UserWarning, match="This overload of add is deprecated: name the factor"):
        x.add(2, y)
    numod.set_warn_always(False)
    for actual in (
        x.add(2, y),
        numod.add(x, 2, y),
        x.clone().add_(2, y),
        x.addcmul(2, y, x),
        x.clone().addcmul_(2, x, y),
        x.clone().addcdiv_(2, y, x),
    ):
        assert actual.tolist() == [3, 5]
    assert x.sub(2, y).tolist() == numod.sub(x, 2, y).tolist() == x.clone().sub_(2, y).tolist() == [-1, -3]
    for call in (
        lambda: x.add(y, y),
        lambda: x.add_(2, 3),
        lambda: x.sub_(2, y, y),
        lambda: x.addcmul_(y, y, y),
        lambda: x.addcmul(2, 3, y),
    ):
        with pytest.raises(TypeError):
            call()
    assert x.tolist() == [1, 1]


def test_older_ways_come_with_a_warning():
    with pytest.warns(UserWarning, match=r"x\.T"):
        assert numod.ones(1, 2, 3).T.shape == (3, 2, 1)
    with pytest.warns(UserWarning, match="uint8 condition"):
        assert numod.where(numod.ones(2, dtype=numod.uint8), numod.ones(2), numod.zeros(2)).tolist() == [1, 1]
    with pytest.warns(UserWarning, match="softmin"):
        nn.functional.softmin(numod.ones(2))


@pytest.mark.parametrize("shape", [(70, 64), (3, 70, 40)])
def test_formulas_may_name_inputs_as_loops_name_variables(shape):
    """Inputs called `end`, `min` and `max`, and an optimizer's `share`, in loops over turned tensors."""
    x = numod.rand(*shape).transpose(-1, -2)
    end, weight = numod.rand(*x.shape), numod.rand(*x.shape)
    low = end * 0.5
    assert numod.allclose(x.lerp(end, weight), x + weight * (end - x), atol=1e-6)
    assert (x.clamp(low, end) == numod.minimum(numod.maximum(x, low), end)).all() and (
        x.clone().clamp_(min=end) == numod.maximum(x, end)
    ).all()
    p, q = x.clone().requires_grad_(), x.contiguous().requires_grad_()
    for tensor in (p, q):
        tensor.grad = weight
        optim.ASGD([tensor]).step()
    assert numod.equal(p, q)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: numod.unravel_index(numod.tensor([1]), (1, 2, 2.0)), TypeError), (lambda: numod.unravel_index(numod.tensor(0), (2, -3)), ValueError),
        (lambda: numod.ones(2)[object()], IndexError), (lambda: numod.ones(2)["a"], TypeError), (lambda: numod.ones(2).mT, RuntimeError),
        (lambda: numod.ones(2).requires_grad_(1), TypeError), (lambda: setattr(numod.ones(2), "requires_grad", 1), RuntimeError),
        (lambda: numod.set_grad_enabled("on"), TypeError), (lambda: nn.RNNBase("no", 2, 3), ValueError),
        (lambda: nn.functional.celu(numod.ones(2), 0), RuntimeError), (lambda: nn.functional.layer_norm(numod.ones(2, 4), 4), TypeError),
        (lambda: nn.functional.group_norm(numod.ones(1, 4), 0), ZeroDivisionError),
        (lambda: optim.Adam([numod.ones(1)], lr=numod.tensor(0.1), foreach=True), ValueError),
        (lambda: numod.utils.checkpoint.checkpoint(numod.sin, numod.ones(2), use_reentrant=True, debug=True), ValueError),
        (lambda: numod.autograd.functional.jacobian(numod.sin, [numod.ones(2)]), TypeError),
        (lambda: numod.autograd.gradcheck(numod.sin, numod.ones(2).requires_grad_(), check_backward_ad=False), AssertionError),
    ],
)  # fmt: skip
def test_calls_that_are_refused(call, error):
    with pytest.raises(error):
        call()

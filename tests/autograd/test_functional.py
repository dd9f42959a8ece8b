"""torch.autograd.functional, anomaly detection, hooks after accumulation, batched gradients and Variable."""

from __future__ import annotations

import warnings

import pytest

import numod as torch
from numod.autograd import Variable, functional as f


def energy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y.exp()).sum()


X, Y = torch.tensor([1.0, -2.0]), torch.tensor([0.5, 0.25])


def test_jacobian_and_hessian() -> None:
    by_x, by_y = f.jacobian(energy, (X, Y))
    torch.testing.assert_close(by_x, Y.exp())
    torch.testing.assert_close(by_y, X * Y.exp())
    (xx, xy), (yx, yy) = f.hessian(energy, (X, Y))
    assert not xx.any()
    torch.testing.assert_close(xy, torch.diag(Y.exp()))
    torch.testing.assert_close(yx, xy.T)
    torch.testing.assert_close(yy, torch.diag(X * Y.exp()))
    torch.testing.assert_close(f.jacobian(lambda x: x.outer(x), X)[0], torch.tensor([[2.0, 0.0], [-2.0, 1.0]]))
    assert f.jacobian(lambda x: torch.ones(3), X).shape == (3, 2) and f.jacobian(lambda x: x[:0], X).shape == (0, 2)


def test_products_agree_with_the_matrices() -> None:
    v = torch.tensor([3.0, -1.0])
    matrix = f.jacobian(lambda x: x.outer(x).reshape(4).sin(), X)
    value, along = f.jvp(lambda x: x.outer(x).reshape(4).sin(), X, v)
    torch.testing.assert_close(along, matrix @ v)
    w = torch.arange(4.0)
    torch.testing.assert_close(f.vjp(lambda x: x.outer(x).reshape(4).sin(), X, w), (value, w @ matrix))
    value, by_both = f.hvp(energy, (X, Y), (v, v))
    torch.testing.assert_close(by_both, (Y.exp() * v, Y.exp() * v + X * Y.exp() * v))
    torch.testing.assert_close(f.vhp(energy, (X, Y), (v, v)), (value, by_both))


def test_functional_errors_and_create_graph() -> None:
    for call in (
        lambda: f.vjp(lambda x: x, X),
        lambda: f.jvp(lambda x: x, X, torch.ones(3)),
        lambda: f.hessian(lambda x: x, X),
        lambda: f.jacobian(lambda x: torch.ones(2), X, strict=True),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(TypeError):
        f.jacobian(lambda x: 3, X)
    assert not f.jacobian(lambda x: x.exp(), X).requires_grad and not X.requires_grad
    x = X.clone().requires_grad_()
    f.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    torch.testing.assert_close(x.grad, 6 * X)


def test_a_gradient_that_is_no_number_names_its_op() -> None:
    x = torch.tensor([-1.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output"):
                x.sqrt().sum().backward()
            assert torch.is_anomaly_enabled()
        assert "x.sqrt()" in str(seen[-1].message)  # the line of the forward call
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            x.sqrt().sum().backward()
    assert not torch.is_anomaly_enabled()
    x.sqrt().sum().backward()  # off again


def test_a_hook_after_the_gradient_was_added() -> None:
    w = torch.ones(2, requires_grad=True)
    seen = []
    handle = w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (2 * w).sum().backward()
    (2 * w).sum().backward()
    handle.remove()
    (2 * w).sum().backward()
    assert seen == [[2, 2], [4, 4]]
    for tensor in (torch.ones(1), 2 * w):
        with pytest.raises(RuntimeError):
            tensor.register_post_accumulate_grad_hook(print)


def test_an_optimizer_that_steps_in_backward() -> None:
    layer = torch.nn.Linear(3, 1)
    expected = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    for parameter in layer.parameters():
        sgd = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda leaf, sgd=sgd: sgd.step() or sgd.zero_grad())
    layer(torch.ones(2, 3)).sum().backward()
    torch.testing.assert_close(layer.weight.detach(), expected["weight"] - 0.2)
    assert layer.weight.grad is None


def test_batched_gradients_and_variables() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (rows,) = torch.autograd.grad(w * w, w, torch.eye(2), is_grads_batched=True, only_inputs=True)
    assert rows.tolist() == [[2, 0], [0, 4]]
    assert (
        isinstance(w, Variable)
        and isinstance(Variable(w), torch.Tensor)
        and Variable(X, requires_grad=True).requires_grad
    )
    with pytest.raises(TypeError):
        Variable([1, 2])


def test_gradcheck_in_fast_mode_calls_the_function_a_few_times():
    calls, x = [], torch.rand(300, dtype=torch.float64, requires_grad=True)

    def function(x):
        calls.append(x)
        return x.sin() * x

    assert torch.autograd.gradcheck(function, (x,), fast_mode=True) and torch.autograd.gradgradcheck(
        function, (x,), fast_mode=True
    )
    assert len(calls) < 30


class _Careless(torch.autograd.Function):
    """Its gradient is wrong by `error`, grows with each backward by `drift`, and it fails where no gradient comes."""

    error, drift, strict = 0.0, 0.0, False

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @classmethod
    def _run(cls, ctx, g):
        if g is None:
            if cls.strict:
                raise RuntimeError("no gradient")
            return None
        cls.error += cls.drift
        return g * (2 + cls.error)

    @staticmethod
    def backward(ctx, g):
        return _Careless._run(ctx, g)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "options, match, allowed",
    [
        ({"error": 0.5}, "mismatch", None),
        ({"drift": 1e-8}, "not reentrant", {"nondet_tol": 1e-5}),
        ({"strict": True}, "undefined", {"check_undefined_grad": False}),
    ],
)
def test_gradcheck_finds_what_its_options_ask_for(monkeypatch, options, match, allowed, fast):
    for name in ("error", "drift", "strict"):
        monkeypatch.setattr(_Careless, name, options.get(name, 0.0))
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match=match):
        torch.autograd.gradcheck(_Careless.apply, x, fast_mode=fast)
    if allowed:
        assert torch.autograd.gradcheck(_Careless.apply, x, fast_mode=fast, **allowed)

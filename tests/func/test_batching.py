"""vmap against a loop written out, and derivatives along directions against finite differences; both nest with grad."""

from __future__ import annotations

import numpy as np
import pytest

import numod as torch
from numod.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vmap


def curve(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.flip(0)).cumsum(0)


def test_vmap_takes_and_puts_dimensions() -> None:
    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2)
    result = vmap(lambda x, y: {"dot": x @ y, "both": (x, y)}, in_dims=(0, 1), out_dims={"dot": 0, "both": (1, 0)})(
        a, b
    )
    assert torch.equal(result["dot"], (a * b.T).sum(1))
    assert torch.equal(result["both"][0], a.T) and torch.equal(result["both"][1], b.T)
    assert torch.equal(vmap(torch.add, in_dims=(0, None))(a, a[1]), a + a[1])
    assert torch.equal(
        vmap(lambda x, k: x * k["w"], in_dims=(0, {"w": 0}))(a, {"w": torch.tensor([2.0, 3.0])}),
        a * torch.tensor([[2.0], [3.0]]),
    )
    assert torch.equal(vmap(lambda x, *, y: x * y)(a, y=a), a.unsqueeze(1) * a)  # by name: passed whole
    assert torch.equal(vmap(vmap(lambda x: x.exp()))(a), a.exp())


def test_vmap_gives_gradients_of_each_example() -> None:
    w, x = torch.tensor([1.0, 2.0, -1.0]), torch.arange(6.0).reshape(2, 3) / 4
    result = vmap(grad(lambda w, x: (w * x).tanh().sum()), in_dims=(None, 0))(w, x)
    torch.testing.assert_close(result, (1 - (w * x).tanh() ** 2) * x)
    w.requires_grad_()
    vmap(lambda x: (w * x).sum())(x).sum().backward()
    torch.testing.assert_close(w.grad, x.sum(0))


def test_vmap_walks_one_graph_for_all_examples() -> None:
    x = torch.arange(1.0, 4.0).requires_grad_()
    y = x**2
    assert vmap(lambda row: torch.autograd.grad(y, x, row)[0])(torch.eye(3)).diag().tolist() == [2, 4, 6]


def test_vmap_runs_an_ensemble() -> None:
    models = [torch.nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    x = torch.randn(5, 3)
    result = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
        parameters, buffers, x
    )
    torch.testing.assert_close(result, torch.stack([model(x) for model in models]))


def test_vmap_and_random_numbers() -> None:
    x = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x + torch.rand(4))(x)
    same = vmap(lambda x: x + torch.rand(4), randomness="same")(x)
    different = vmap(lambda x: x + torch.rand(4), randomness="different")(x)
    assert torch.equal(same[0], same[1]) and not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x, randomness="some")


@pytest.mark.parametrize(("function", "in_dims", "arguments"), [
    (lambda x: x, 2, (torch.ones(2, 3),)), (lambda x, y: x, (0,), (torch.ones(2), torch.ones(2))), (lambda x: x, 0, (3,)), (lambda x: 3, 0, (torch.ones(2),)),
    (torch.add, 0, (torch.ones(2), torch.ones(3))), (torch.add, (None, None), (torch.ones(2), torch.ones(2))), (lambda: 1, 0, ()), (lambda x: x, "a", (torch.ones(2),)),
])  # fmt: skip
def test_vmap_refuses(function: object, in_dims: object, arguments: tuple) -> None:
    with pytest.raises(ValueError):
        vmap(function, in_dims)(*arguments)


def test_out_dims_none_returns_unbatched_values() -> None:
    x = torch.ones(2, 3).cumsum(0)
    mapped, note = vmap(lambda x: ({"x": x}, "note"), out_dims=({"x": 1}, None))(x)
    assert mapped["x"].shape == (3, 2) and note == "note"
    assert vmap(lambda x: torch.ones(2), out_dims=None)(x).shape == (2,)
    for call in (lambda x: x * 2, lambda x: torch.tensor(x.sum().item())):
        with pytest.raises(ValueError, match="when out_dim is None"):
            vmap(call, out_dims=None)(x)
    with pytest.raises(ValueError, match="when out_dim is None"):  # although its values are the same
        vmap(lambda x: x * 2, out_dims=None)(torch.ones(2, 3))


def test_jvp_is_the_slope_along_a_direction() -> None:
    x, v = torch.arange(4.0, dtype=torch.float64) / 3, torch.tensor([1.0, 2.0, 0.0, -1.0], dtype=torch.float64)
    value, slope = jvp(curve, (x,), (v,))
    torch.testing.assert_close(value, curve(x))
    torch.testing.assert_close(slope, (curve(x + 1e-6 * v) - curve(x - 1e-6 * v)) / 2e-6, rtol=1e-7, atol=1e-8)
    value, along = linearize(curve, x)
    torch.testing.assert_close(along(v), slope)
    torch.testing.assert_close(along(2 * v), 2 * slope)
    torch.testing.assert_close(jacfwd(curve)(x), jacrev(curve)(x))
    torch.testing.assert_close(jacfwd(curve)(x) @ v, slope)


def test_logcumsumexp_has_directions_and_second_derivatives_where_its_gradient_is_0() -> None:
    x = torch.tensor([[0.5, -1.0, 2.0, 0.0]], dtype=torch.float64)
    direction = torch.tensor([[1.0, -2.0, 0.5, 3.0]], dtype=torch.float64)
    exponentials, result = x.exp(), x.logcumsumexp(1)
    torch.testing.assert_close(
        jvp(lambda x: x.logcumsumexp(1), (x,), (direction,))[1],
        (exponentials * direction).cumsum(1) / exponentials.cumsum(1),
    )
    slopes = (exponentials / result.mT.exp()).tril()  # (k, i)
    torch.testing.assert_close(
        hessian(lambda x: ((x.logcumsumexp(0) - result[0]) ** 2).sum())(x[0]), 2.0 * slopes.mT @ slopes
    )


def test_jvp_follows_writes_into_its_primals() -> None:
    def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[0].copy_(y[0] * 2)
        return x.mul_(3)

    x, y, dx, dy = (torch.tensor(values) for values in ([1.0, 2.0], [5.0, 7.0], [0.5, 0.25], [10.0, 20.0]))
    value, slope = jvp(written, (x, y), (dx, dy))
    assert (value.tolist(), slope.tolist(), x.tolist()) == ([30.0, 6.0], [60.0, 0.75], [30.0, 6.0])


def test_jacfwd_follows_writes_into_its_argument() -> None:
    assert jacfwd(lambda x, by: x.mul_(by) * x)(torch.ones(2), by=2).tolist() == [[8.0, 0.0], [0.0, 8.0]]


def test_jvp_nests_and_keeps_structure() -> None:
    v = torch.tensor([1.0, 2.0])
    gradient, curvature = jvp(grad(lambda x: (x**3).sum()), (v,), (v,))
    np.testing.assert_allclose(gradient.numpy(), [3, 12])
    np.testing.assert_allclose(curvature.numpy(), [6, 24])
    value, slope, aux = jvp(
        lambda p: ({"s": (p["a"] * 2).sum(), "c": torch.ones(2)}, p["a"]), ({"a": v},), ({"a": v},), has_aux=True
    )
    assert slope["s"].item() == 6 and slope["c"].tolist() == [0, 0] and aux is not None and value["s"].item() == 6
    torch.testing.assert_close(hessian(lambda x: (x**3).sum())(v), torch.diag(6 * v))
    weight = torch.tensor(2.0, requires_grad=True)
    jvp(lambda x: weight * x**2, (v,), (v,))[1].sum().backward()
    assert weight.grad.item() == 10
    for primals, tangents in (((v,), (torch.ones(3),)), ((v,), (v, v)), (v, v)):
        with pytest.raises(RuntimeError):
            jvp(curve, primals, tangents)


def test_directions_through_functions_that_pass_gradients_on():
    x, y, tx, ty = (torch.tensor([value]) for value in (1.0, 2.0, 5.0, 7.0))
    for call, wanted in (
        (lambda x, y: x + y, 12),
        (lambda x, y: x, 5),
        (lambda x, y: x + 2 * y, 19),
        (lambda x, y: x.view(1, 1) - y, -2),
    ):
        assert jvp(call, (x, y), (tx, ty))[1].item() == wanted and linearize(call, x, y)[1](tx, ty).item() == wanted
    assert jvp(lambda x: (x, torch.ones(2)), (x,), (tx,))[1][1].tolist() == [0, 0]


def test_directions_must_have_the_structure_of_the_arguments():
    x = torch.ones(())
    with pytest.raises(RuntimeError, match="same python structure"):
        jvp(lambda a, b: b, ((x, x), x), (x, (x, x)))
    with pytest.raises(RuntimeError, match="independent of the inputs.*strict"):
        jvp(lambda a: (a, torch.ones(2)), (x,), (x,), strict=True)


def test_no_grad_ends_a_derivative_along_a_direction():
    def half(x):
        with torch.no_grad():
            y = x * 2
        return y * x

    # README's limit: PyTorch's forward mode goes on, to 4
    assert jvp(half, (torch.ones(2),), (torch.ones(2),))[1].tolist() == [2, 2]

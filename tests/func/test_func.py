"""Transforms: gradients against formulas, recording on the tape, and modules called with other parameters."""

import pytest

import numod
from numod import func, nn


def test_gradients_of_each_argument():
    x, y = numod.tensor([1.0, 2.0]), numod.tensor([3.0, -1.0])

    def f(x, y):
        return (x**2 * y).sum()

    assert func.grad(f)(x, y).tolist() == [6.0, -4.0]
    assert [tensor.tolist() for tensor in func.grad(f, argnums=(1, 0))(x, y)] == [[1.0, 4.0], [6.0, -4.0]]
    value, gradient = func.value_and_grad(f, argnums=-1)(x, y)
    assert value.item() == -1.0 and gradient.tolist() == [1.0, 4.0]
    assert not gradient.requires_grad and not value.requires_grad and x.grad is None


def test_trees_and_aux():
    parameters = {"w": numod.tensor([1.0, 2.0]), "more": [numod.tensor(3.0), (numod.tensor(4.0),)]}

    def f(p):
        total = (p["w"] ** 2).sum() * p["more"][0] + p["more"][1][0]
        return total, {"total": total, "note": "text"}

    gradient, aux = func.grad(f, has_aux=True)(parameters)
    assert (
        gradient["w"].tolist() == [6.0, 12.0]
        and gradient["more"][0].item() == 5.0
        and gradient["more"][1][0].item() == 1.0
    )
    assert aux["total"].item() == 19.0 and not aux["total"].requires_grad and aux["note"] == "text"


def test_derivatives_of_derivatives():
    third = func.grad(func.grad(func.grad(lambda x: x**4)))
    assert third(numod.tensor(2.0)).item() == 48.0
    mixed = func.grad(lambda x: func.grad(lambda y: (x * y**2).sum())(x * 1.0).sum())
    assert mixed(numod.tensor([1.0, 2.0])).tolist() == [4.0, 8.0]  # of 2 x x


def test_a_result_is_recorded_only_for_what_is_outside():
    x = numod.tensor(2.0, requires_grad=True)
    func.grad(lambda x: x**3)(x).backward()
    assert x.grad.item() == 12.0  # 6 x
    weight = numod.tensor([1.0, 2.0], requires_grad=True)
    gradient = func.grad(lambda x: (x**2 * weight).sum())(numod.ones(2))
    gradient.sum().backward()
    assert weight.grad.tolist() == [2.0, 2.0]
    with numod.no_grad():
        assert not func.grad(lambda x: x**3)(x).requires_grad
    assert not func.grad(lambda x: (x * weight.detach()).sum())(numod.ones(2)).requires_grad


def test_the_pulling_back_decides_whether_it_is_recorded():
    x = numod.tensor(3.0, requires_grad=True)
    with numod.no_grad():
        out, pull = func.vjp(lambda x: x**2, x)
        assert not pull(numod.tensor(1.0))[0].requires_grad
    assert not out.requires_grad and numod.autograd.grad(pull(numod.tensor(1.0))[0], x)[0].item() == 2.0


def test_vjp_may_be_asked_many_times():
    (total, product), pull = func.vjp(lambda x, y: (x + y, x * y), numod.tensor(2.0), numod.tensor(5.0))
    one, zero = numod.tensor(1.0), numod.tensor(0.0)
    assert (total.item(), product.item()) == (7.0, 10.0)
    assert [tensor.item() for tensor in pull((one, zero))] == [1.0, 1.0] and [
        tensor.item() for tensor in pull((zero, one))
    ] == [5.0, 2.0]
    with pytest.raises(RuntimeError, match="cotangents"):
        pull((one, numod.ones(2)))


def test_jacobians_and_hessians():
    x, y = numod.tensor([1.0, 2.0]), numod.tensor([3.0, -1.0])
    assert func.jacrev(lambda x: x**2)(x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    by_x, by_y = func.jacrev(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, y)
    assert by_x.tolist() == y.tolist() and by_y.tolist() == x.tolist() and not by_x.requires_grad
    assert func.hessian(lambda x: (x**2).sum() * x[0])(x).tolist() == [[6.0, 4.0], [4.0, 2.0]]
    assert func.jacrev(lambda x: x[:0])(x).shape == (0, 2)
    with pytest.raises(RuntimeError, match="Expected f to return tensors"):
        func.jacrev(lambda x: 3)(x)
    for jacobian in (func.jacrev, func.jacfwd):
        with pytest.raises(RuntimeError, match="Expected all inputs to be real"):
            jacobian(lambda x: x * 2)(numod.tensor([1j]))
        with pytest.raises(RuntimeError, match="Expected all outputs to be real"):
            jacobian(lambda x: x * 1j)(x)


def test_wrong_functions():
    with pytest.raises(RuntimeError, match="scalar tensor, got tensor with 1 dims"):
        func.grad(lambda x: x)(numod.ones(2))
    with pytest.raises(RuntimeError, match="return a Tensor, got <class 'int'>"):
        func.grad(lambda x: 3)(numod.ones(2))
    with pytest.raises(RuntimeError, match=r"should be a tuple: \(output, aux\)"):
        func.grad(lambda x: x.sum(), has_aux=True)(numod.ones(2))
    with pytest.raises(RuntimeError, match="Got argnum=2, but only 1 positional inputs"):
        func.grad(lambda x: x.sum(), argnums=2)(numod.ones(2))
    with pytest.raises(ValueError, match="must be Tensor, got <class 'float'>"):
        func.grad(lambda x: x**2)(1.0)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("calls", numod.zeros(1))

    def forward(self, x):
        self.calls = self.calls + 1
        return self.second(self.first(x))


def test_functional_call_replaces_tied_names_and_hands_buffers_back():
    net, tensors = Tied(), {"second.weight": numod.ones(2, 2), "calls": numod.tensor([5.0])}
    weight = net.first.weight
    assert func.functional_call(net, tensors, numod.ones(1, 2)).tolist() == [[4.0, 4.0]]
    assert (
        tensors["calls"].item() == 6.0 and net.calls.item() == 0.0 and net.first.weight is net.second.weight is weight
    )
    untied = func.functional_call(net, tensors, numod.ones(1, 2), tie_weights=False)
    assert untied.tolist() == [[pytest.approx(weight.sum().item())] * 2]
    with pytest.raises(
        ValueError, match="multiple values for keys .'first.weight', 'second.weight'.*tie_weights=False"
    ):
        func.functional_call(
            net, {"first.weight": numod.ones(2, 2), "second.weight": numod.ones(2, 2)}, numod.ones(1, 2)
        )
    with pytest.raises(
        RuntimeError,
        match=r"Error\(s\) in reparametrizing for Tied:\n\tUnexpected key\(s\): 'x'.\n\tMissing key\(s\): 'calls'",
    ):
        func.functional_call(net, {"first.weight": weight, "x": weight}, numod.ones(1, 2), strict=True)
    with pytest.warns(FutureWarning, match="drop-in replacement"):
        assert nn.utils.stateless.functional_call(
            net, {"first.weight": numod.ones(2, 2)}, numod.ones(1, 2)
        ).tolist() == [[4.0, 4.0]]


def test_functional_call_after_an_error():
    net = Tied()
    weight = net.first.weight
    with pytest.raises(RuntimeError):
        func.functional_call(net, {"first.weight": numod.ones(2, 2)}, numod.ones(1, 3))
    assert net.first.weight is net.second.weight is weight
    with pytest.raises(AttributeError, match="Tied has no attribute `third`"):
        func.functional_call(net, {"first.weight": numod.ones(2, 2), "third.weight": weight}, numod.ones(1, 2))
    assert net.first.weight is net.second.weight is weight


def test_functional_call_takes_an_extra_parameter_away_again():
    net = nn.Linear(2, 2)
    func.functional_call(net, {"extra": nn.Parameter(numod.ones(1))}, numod.ones(1, 2))
    assert [name for name, _ in net.named_parameters()] == ["weight", "bias"] and not hasattr(net, "extra")


def test_gradients_of_a_module_without_touching_it():
    net = nn.Linear(2, 1)
    parameters = {name: parameter.detach() for name, parameter in net.named_parameters()}
    x = numod.tensor([[1.0, 2.0]])
    gradients = func.grad(lambda parameters: func.functional_call(net, parameters, x).sum())(parameters)
    assert (
        gradients["weight"].tolist() == [[1.0, 2.0]] and gradients["bias"].tolist() == [1.0] and net.weight.grad is None
    )


def test_stack_module_state():
    models = [nn.Linear(2, 1).eval() for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    assert (
        parameters["weight"].shape == (3, 1, 2)
        and parameters["weight"].is_leaf
        and parameters["weight"].requires_grad
        and buffers == {}
    )
    assert parameters["bias"][2].tolist() == models[2].bias.tolist()
    for wrong in (
        [],
        [nn.ReLU(), nn.Linear(1, 1)],
        [nn.ReLU(), nn.ReLU().eval()],
        [nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)],
    ):
        with pytest.raises(RuntimeError):
            func.stack_module_state(wrong)


def test_batch_norms_without_running_statistics():
    model = numod.nn.Sequential(numod.nn.BatchNorm1d(2), numod.nn.Sequential(numod.nn.BatchNorm2d(3, affine=False)))
    assert numod.func.replace_all_batch_norm_modules_(model) is model and not list(model.buffers())
    x = numod.randn(4, 2)
    numod.testing.assert_close(model[0].eval()(x), numod.nn.functional.batch_norm(x, None, None, training=True))


def test_vmap_over_no_examples_gives_empty_results():
    assert func.vmap(lambda x: x.sum())(numod.ones(0, 2)).shape == (0,)
    assert func.vmap(lambda x: x * 2 if x.sum() > 0 else x, out_dims=1)(numod.ones(0, 3)).shape == (3, 0)
    assert func.vmap(func.grad(lambda x: x.sin().sum()))(numod.ones(0, 3)).shape == (0, 3)

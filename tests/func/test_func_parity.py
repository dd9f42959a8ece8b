"""functional_call, stacked state, and gradients as functions, beside the installed PyTorch."""

import pytest
from parity import LIBRARIES, plain, same_error

import numod

pytestmark = pytest.mark.parity


def flat(tree):
    """Values of a tree of tensors, with their connection to the tape."""
    if isinstance(tree, dict):
        return {name: flat(subtree) for name, subtree in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [flat(subtree) for subtree in tree]
    if hasattr(tree, "requires_grad"):
        return [round(number, 4) for number in tree.detach().reshape(-1).tolist()], tree.requires_grad
    return tree


def outcome(action, lib):
    try:
        return flat(action(lib))
    except Exception as error:
        return type(error).__name__, plain(error)


def build(lib):
    nn = lib.nn

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2)
            self.second = nn.Linear(2, 2)
            self.second.weight = self.first.weight
            self.register_buffer("count", lib.zeros(1))
            self.plain = lib.ones(1)

        def forward(self, x, scale=1.0):
            self.count = self.count + 1
            return self.second(self.first(x)) * scale + self.plain

    net = Counting()
    with lib.no_grad():
        for number, parameter in enumerate(net.parameters()):
            parameter.fill_(number + 1.0)
    return net


def inputs_of(lib, *names, value=0.5):
    sizes = {
        "first.weight": (2, 2),
        "second.weight": (2, 2),
        "first.bias": (2,),
        "second.bias": (2,),
        "count": (1,),
        "plain": (1,),
    }
    return {name: lib.ones(sizes.get(name, (1,))) * value for name in names}


def called(lib, tensors, *args, call=None, **settings):
    net = build(lib)
    before = {name: parameter for name, parameter in net.named_parameters(remove_duplicate=False)}
    call = call or lib.func.functional_call
    output = call(net, tensors, *(args or (lib.ones(1, 2),)), **settings)
    same = [parameter is before[name] for name, parameter in net.named_parameters(remove_duplicate=False)]
    return output, same, net.count, net.plain, tensors if isinstance(tensors, dict) else None


ALL = "first.weight", "first.bias", "second.weight", "second.bias", "count"
CALLS = {
    "nothing": lambda lib: called(lib, {}),
    "one": lambda lib: called(lib, inputs_of(lib, "first.bias")),
    "tied": lambda lib: called(lib, inputs_of(lib, "first.weight")),
    "tied by its other name": lambda lib: called(lib, inputs_of(lib, "second.weight")),
    "untied": lambda lib: called(lib, inputs_of(lib, "first.weight"), tie_weights=False),
    "tied twice": lambda lib: called(lib, inputs_of(lib, "first.weight", "second.weight")),
    "tied twice the same": lambda lib: called(lib, dict.fromkeys(("first.weight", "second.weight"), lib.ones(2, 2))),
    "buffer": lambda lib: called(lib, inputs_of(lib, "count")),
    "plain attribute": lambda lib: called(lib, inputs_of(lib, "plain")),
    "new attribute": lambda lib: called(lib, inputs_of(lib, "plainer")),
    "tuple": lambda lib: called(lib, {}, (lib.ones(1, 2), 3.0)),
    "kwargs": lambda lib: called(lib, {}, (lib.ones(1, 2),), {"scale": 2.0}),
    "only kwargs": lambda lib: called(lib, {}, None, {"x": lib.ones(1, 2)}),
    "several": lambda lib: called(lib, (inputs_of(lib, "first.bias"), inputs_of(lib, "count"))),
    "strict": lambda lib: called(lib, inputs_of(lib, "first.weight", "first.bias", "second.bias", "count"), strict=True),
    "strict missing": lambda lib: called(lib, inputs_of(lib, "first.weight", "first.bias"), strict=True),
    "strict unexpected": lambda lib: called(lib, inputs_of(lib, *ALL, "more"), tie_weights=False, strict=True),
    "older": lambda lib: called(lib, inputs_of(lib, "first.bias"), call=lib.nn.utils.stateless.functional_call),
    "repeated": lambda lib: called(lib, [inputs_of(lib, "first.bias"), inputs_of(lib, "first.bias")]),
    "not dicts": lambda lib: called(lib, [3]),
    "not a dict": lambda lib: called(lib, 3),
    "no tensor": lambda lib: called(lib, {"first.bias": 3}),
    "no module": lambda lib: called(lib, inputs_of(lib, "third.bias")),
    "no tensor there": lambda lib: called(lib, inputs_of(lib, "training")),
    "a module there": lambda lib: called(lib, inputs_of(lib, "first")),
    "failing": lambda lib: called(lib, inputs_of(lib, "first.bias"), lib.ones(1, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_functional_call(name):
    ours, theirs = (outcome(CALLS[name], lib) for lib in LIBRARIES)
    if isinstance(theirs, tuple) and name in (
        "failing",
        "not dicts",
        "no tensor",
        "no module",
        "no tensor there",
        "a module there",
        "repeated",
    ):
        ours, theirs = ours[0], theirs[0]
    assert ours == theirs


def test_after_an_error_the_module_has_its_own_tensors():
    for lib in LIBRARIES:
        net = build(lib)
        before = [id(parameter) for parameter in net.parameters()]
        with pytest.raises(RuntimeError):
            lib.func.functional_call(net, inputs_of(lib, "first.bias", "first.weight"), lib.ones(1, 3))
        assert [id(parameter) for parameter in net.parameters()] == before


def test_nested_and_parametrized():
    def action(lib):
        class Inner(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.part = lib.nn.Linear(1, 1)

            def forward(self, x):
                return lib.func.functional_call(self.part, {"weight": self.part.weight * 2}, x)

        net = Inner()
        outer = lib.func.functional_call(net, {"part.weight": lib.ones(1, 1), "part.bias": lib.ones(1)}, lib.ones(1, 1))

        class Twice(lib.nn.Module):
            def forward(self, x):
                return x * 2

        lib.nn.utils.parametrize.register_parametrization(net.part, "weight", Twice())
        tensors = {"part.parametrizations.weight.original": lib.ones(1, 1) * 3, "part.bias": lib.ones(1)}
        return outer, lib.func.functional_call(net, tensors, lib.ones(1, 1))

    ours, theirs = (outcome(action, lib) for lib in LIBRARIES)
    assert ours == theirs


def test_gradients_reach_what_was_given():
    def action(lib):
        net = build(lib)
        weight = (lib.ones(2, 2) * 0.5).requires_grad_()
        lib.func.functional_call(net, {"first.weight": weight * 2}, lib.ones(1, 2)).sum().backward()
        return weight.grad, [parameter.grad is None for parameter in net.parameters()]

    ours, theirs = (outcome(action, lib) for lib in LIBRARIES)
    assert ours == theirs


def stacking(lib, change=lambda models: models):
    models = [lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.Linear(1, 1)) for _ in range(3)]
    for number, model in enumerate(models):
        model.register_buffer("mean", lib.ones(2) * number)
        for parameter in model.parameters():
            parameter.data.fill_(number)
    changed = change(models)
    return lib.func.stack_module_state(models if changed is None else changed)


STACKS = {
    "three": stacking,
    "none": lambda lib: stacking(lib, lambda models: []),
    "modes": lambda lib: stacking(lib, lambda models: models[1].eval() and None),
    "classes": lambda lib: stacking(lib, lambda models: [models[0], lib.nn.Linear(1, 1)]),
    "frozen": lambda lib: stacking(lib, lambda models: [model.requires_grad_(False) for model in models]),
    "one frozen": lambda lib: stacking(lib, lambda models: models[1].requires_grad_(False) and None),
    "list": lambda lib: stacking(lib, lambda models: lib.nn.ModuleList(models)),
}


@pytest.mark.parametrize("name", STACKS)
def test_stack_module_state(name):
    ours, theirs = (outcome(STACKS[name], lib) for lib in LIBRARIES)
    assert ours == theirs


def inputs(lib):
    return lib.tensor([1.0, 2.0, 3.0]), lib.tensor([0.5, -1.0, 2.0])


def with_no_grad(lib, action):
    with lib.no_grad():
        return action()


def second_from_outside(lib):
    x = lib.tensor(2.0, requires_grad=True)
    first = lib.func.grad(lambda x: x**3)(x)
    first.backward()
    return first, x.grad


def closure(lib):
    weight = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = lib.func.grad(lambda x: (x**2 * weight).sum())(lib.ones(3))
    result.sum().backward()
    return result, weight.grad


def cotangents(lib):
    output, pull = lib.func.vjp(lambda x, y: (x * y, (x + y).sum()), *inputs(lib))
    return output, pull((lib.ones(3), lib.tensor(2.0))), pull((lib.zeros(3), lib.tensor(1.0)))


def model_gradient(lib):
    net = lib.nn.Linear(3, 1)
    parameters = {name: lib.ones(parameter.shape) for name, parameter in net.named_parameters()}
    return lib.func.grad(lambda parameters, x: lib.func.functional_call(net, parameters, x).square().sum())(
        parameters, inputs(lib)[0]
    )


GRADIENTS = {
    "one": lambda lib: lib.func.grad(lambda x: (x**2).sum())(inputs(lib)[0]),
    "second argument": lambda lib: lib.func.grad(lambda x, y: (x * y**2).sum(), argnums=1)(*inputs(lib)),
    "negative": lambda lib: lib.func.grad(lambda x, y: (x * y**2).sum(), argnums=-1)(*inputs(lib)),
    "both": lambda lib: lib.func.grad(lambda x, y: (x * y**2).sum(), argnums=(1, 0))(*inputs(lib)),
    "one in a tuple": lambda lib: lib.func.grad(lambda x, y: (x * y**2).sum(), argnums=(0,))(*inputs(lib)),
    "aux": lambda lib: lib.func.grad(lambda x: ((x**2).sum(), {"x": x * 2, "n": [x]}), has_aux=True)(inputs(lib)[0]),
    "value": lambda lib: lib.func.grad_and_value(lambda x: (x**2).sum())(inputs(lib)[0]),
    "value and aux": lambda lib: lib.func.grad_and_value(lambda x: ((x**2).sum(), x), has_aux=True)(inputs(lib)[0]),
    "kwargs": lambda lib: lib.func.grad(lambda x, y=None: (x * y).sum())(inputs(lib)[0], y=inputs(lib)[1]),
    "tree": lambda lib: lib.func.grad(lambda p: (p["a"] * p["b"][0]).sum())({"a": inputs(lib)[0],
        "b": [inputs(lib)[1]]}),
    "unused": lambda lib: lib.func.grad(lambda x, y: x.sum(), argnums=1)(*inputs(lib)),
    "constant": lambda lib: lib.func.grad(lambda x: lib.tensor(3.0))(inputs(lib)[0]),
    "twice": lambda lib: lib.func.grad(lib.func.grad(lambda x: x**4))(lib.tensor(2.0)),
    "thrice": lambda lib: lib.func.grad(lib.func.grad(lib.func.grad(lambda x: x**4)))(lib.tensor(2.0)),
    "mixed": lambda lib: lib.func.grad(lambda x: (lib.func.grad(lambda y: (x * y**2).sum())(x)).sum())(inputs(lib)[0]),
    "no grad": lambda lib: with_no_grad(lib,
        lambda: lib.func.grad(lambda x: (x**2).sum())(inputs(lib)[0].requires_grad_())),
    "outside": second_from_outside,
    "closure": closure,
    "vjp": lambda lib: (lambda out,
        pull: (out, pull(lib.ones(3)), pull(lib.ones(3) * 2)))(*lib.func.vjp(lambda x: x**2, inputs(lib)[0])),
    "vjp of many": cotangents,
    "vjp aux": lambda lib: (lambda out, pull,
        aux: (out, pull(lib.ones(3)), aux))(*lib.func.vjp(lambda x: (x**2, x), inputs(lib)[0], has_aux=True)),
    "model": model_gradient,
    "jacobian": lambda lib: lib.func.jacrev(lambda x, y: x.unsqueeze(1) * y)(*inputs(lib)),
    "jacobian of both": lambda lib: lib.func.jacrev(lambda x, y: {"a": x * y, "b": y.sum()},
        argnums=(0, 1))(*inputs(lib)),
    "jacobian of a tree": lambda lib: lib.func.jacrev(lambda p: (p["a"] * p["b"]).sum())(dict(zip("ab", inputs(lib)))),
    "jacobian aux": lambda lib: lib.func.jacrev(lambda x: (x**2, x), has_aux=True)(inputs(lib)[0]),
    "jacobian unused": lambda lib: lib.func.jacrev(lambda x, y: x, argnums=1)(*inputs(lib)),
    "hessian": lambda lib: lib.func.hessian(lambda x: (x**3).sum() * x[0])(inputs(lib)[0]),
    "hessian of both": lambda lib: lib.func.hessian(lambda x, y: (x**2 * y).sum(), argnums=(0, 1))(*inputs(lib)),
    "gradient of a jacobian": lambda lib: lib.func.grad(lambda x: lib.func.jacrev(lambda x: x**3)(x).sum())(inputs(lib)[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_gradients(name):
    ours, theirs = (flat(GRADIENTS[name](lib)) for lib in LIBRARIES)
    assert ours == theirs


ERRORS = {
    "not scalar": lambda lib: lib.func.grad(lambda x: x)(inputs(lib)[0]),
    "no tensor": lambda lib: lib.func.grad(lambda x: 3)(inputs(lib)[0]),
    "no aux": lambda lib: lib.func.grad(lambda x: x.sum(), has_aux=True)(inputs(lib)[0]),
    "argnums": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=1)(inputs(lib)[0]),
    "argnums type": lambda lib: lib.func.grad(lambda x: x.sum(), argnums="a")(inputs(lib)[0]),
    "argnums list": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=[0])(inputs(lib)[0]),
    "argnums empty": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=())(inputs(lib)[0]),
    "argnums twice": lambda lib: lib.func.grad(lambda x: x.sum(), argnums=(0, 0))(inputs(lib)[0]),
    "number": lambda lib: lib.func.grad(lambda x: x**2)(3.0),
    "integers": lambda lib: lib.func.grad(lambda x: x.sum())(lib.tensor([1, 2])),
    "vjp output": lambda lib: lib.func.vjp(lambda x: 3, inputs(lib)[0]),
    "vjp shape": lambda lib: lib.func.vjp(lambda x: x, inputs(lib)[0])[1](lib.ones(2)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    same_error(ERRORS[name])


def test_value_and_grad_is_grad_and_value_turned_round():
    gradient, value = numod.func.grad_and_value(lambda x: (x**2).sum())(numod.ones(2))
    other = numod.func.value_and_grad(lambda x: (x**2).sum())(numod.ones(2))
    assert other[0].item() == value.item() and other[1].tolist() == gradient.tolist()

"""What all optimizers share: groups, closures, errors, zero_grad, state_dict, hooks, text, copies."""

import copy
import pickle

import pytest

import numod
import numod as torch
from numod import nn, optim
from numod.optim import SGD, Adam, AdamW
from numod.optim.optimizer import register_optimizer_step_pre_hook, required

pytestmark = pytest.mark.on_cuda(simulator=False)


def parameters(count=2):
    return [numod.full((2,), float(k + 1), requires_grad=True) for k in range(count)]


def give_gradients(params, value=1.0):
    for k, param in enumerate(params):
        param.grad = numod.full(param.shape, value * (k + 1))


# ---- groups


def test_options_of_a_group_override_the_defaults():
    a, b = parameters()
    optimizer = SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.1)
    give_gradients([a, b])
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, 0.9]) and b.tolist() == pytest.approx([1.0, 1.0])
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.5]
    assert optimizer.defaults["lr"] == 0.1


def test_add_param_group():
    a, b = parameters()
    optimizer = SGD([a], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": [b], "lr": 1.0})
    assert optimizer.param_groups[1]["momentum"] == 0.9 and optimizer.param_groups[1]["params"] == [b]


def test_any_iterable_of_parameters():
    model = numod.nn.Linear(2, 2)
    assert len(SGD(model.parameters(), lr=0.1).param_groups[0]["params"]) == 2
    assert len(SGD(iter(parameters()), lr=0.1).param_groups[0]["params"]) == 2


def test_named_parameters():
    model = numod.nn.Linear(2, 2)
    optimizer = SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("params", "error"),
    [
        (lambda a, b: [], ValueError),
        (lambda a, b: a, TypeError),
        (lambda a, b: [a, 3], TypeError),
        (lambda a, b: [a * 2], ValueError),
        (lambda a, b: [{"params": [a]}, {"params": [a, b]}], ValueError),
        (lambda a, b: [{"params": {a, b}}], TypeError),
    ],
    ids=["empty", "one_tensor", "no_tensor", "no_leaf", "in_two_groups", "set"],
)
def test_invalid_parameters_are_refused(params, error):
    with pytest.raises(error):
        SGD(params(*parameters()), lr=0.1)


def test_a_refused_group_is_not_added():
    a, b = parameters()
    optimizer = SGD([a], lr=0.1)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimizer.add_param_group({"params": [b, a]})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (SGD, {"lr": -1.0}, "Invalid learning rate: -1.0"),
        (SGD, {"momentum": -0.5}, "Invalid momentum value: -0.5"),
        (SGD, {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
        (SGD, {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "Nesterov momentum requires"),
        (Adam, {"lr": -1.0}, "Invalid learning rate: -1.0"),
        (Adam, {"eps": -1.0}, "Invalid epsilon value: -1.0"),
        (Adam, {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        (Adam, {"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        (AdamW, {"weight_decay": -1.0}, "Invalid weight_decay value: -1.0"),
    ],
)
def test_hyper_parameters_are_checked(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(parameters(), **options)


# ---- closures and zero_grad


def test_a_closure_is_called_with_the_tape_on_and_its_value_returned():
    (a,) = parameters(1)
    optimizer = SGD([a], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    with numod.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 2.0 and a.tolist() == pytest.approx([0.8, 0.8])
    assert optimizer.step() is None


def test_zero_grad():
    params = parameters()
    optimizer = SGD(params, lr=0.1)
    give_gradients(params)
    first_grad = params[0].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is first_grad and first_grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert params[0].grad is None
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is None


def test_zero_grad_cuts_the_history_of_a_gradient():
    (a,) = parameters(1)
    (a * a).sum().backward(create_graph=True)
    SGD([a], lr=0.1).zero_grad(set_to_none=False)
    assert not a.grad.requires_grad and a.grad.tolist() == [0.0, 0.0]


def test_a_step_after_create_graph_records_nothing():
    (a,) = parameters(1)
    optimizer = SGD([a], lr=0.1, momentum=0.9)
    (a * a).sum().backward(create_graph=True)
    optimizer.step()
    assert a.is_leaf and not optimizer.state[a]["momentum_buffer"].requires_grad


# ---- state_dict


MAKERS = [
    lambda params: SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.3}], lr=0.1, momentum=0.9),
    lambda params: Adam(params, lr=0.1, amsgrad=True),
    lambda params: AdamW(params, lr=0.1, betas=(0.5, 0.6)),
]


@pytest.mark.parametrize("make", MAKERS, ids=["SGD", "Adam", "AdamW"])
def test_another_optimizer_continues_from_the_state(make):
    def play(optimizer, params, steps):
        for k in steps:
            give_gradients(params, 1.0 + k)
            optimizer.step()

    mine, theirs = parameters(), parameters()
    first, second = make(mine), make(theirs)
    play(first, mine, range(3))
    with numod.no_grad():
        for a, b in zip(mine, theirs):
            b.copy_(a)
    second.load_state_dict(pickle.loads(pickle.dumps(first.state_dict())))
    play(first, mine, range(3, 6))
    play(second, theirs, range(3, 6))
    assert [tensor.tolist() for tensor in mine] == [tensor.tolist() for tensor in theirs]
    assert plain(first.state_dict()) == plain(second.state_dict())


def plain(value):
    """With lists for tensors."""
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value.tolist() if isinstance(value, numod.Tensor) else value


@pytest.mark.parametrize("make", MAKERS, ids=["SGD", "Adam", "AdamW"])
def test_the_state_dict_is_a_copy(make):
    params = parameters()
    optimizer = make(params)
    give_gradients(params)
    optimizer.step()
    saved = optimizer.state_dict()
    before = copy.deepcopy(plain(saved))
    give_gradients(params)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 7.0
    assert plain(saved) == before
    for values in saved["state"].values():
        for value in values.values():
            if isinstance(value, numod.Tensor):
                value.fill_(100.0)
    saved["param_groups"][0]["lr"] = 100.0
    assert (
        100.0 not in str(plain(optimizer.state_dict())).replace("[", " ").split()
        and optimizer.param_groups[0]["lr"] == 7.0
    )


def test_loading_copies():
    a, b = parameters(1), parameters(1)
    first, second = SGD(a, lr=0.1, momentum=0.9), SGD(b, lr=0.1, momentum=0.9)
    give_gradients(a)
    first.step()
    saved = first.state_dict()
    second.load_state_dict(saved)
    give_gradients(b, 5.0)
    second.step()
    assert saved["state"][0]["momentum_buffer"].tolist() == [1.0, 1.0]
    assert first.state[a[0]]["momentum_buffer"].tolist() == [1.0, 1.0]


def test_the_form_of_a_state_dict():
    a, b, c = parameters(3)
    optimizer = SGD([{"params": [a, b]}, {"params": [c]}], lr=0.1, momentum=0.9)
    give_gradients([c])
    optimizer.step()
    saved = optimizer.state_dict()
    assert set(saved) == {"state", "param_groups"}
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2]]
    assert list(saved["state"]) == [2] and list(saved["state"][2]) == ["momentum_buffer"]
    optimizer.param_groups.append(optimizer.param_groups[0])  # a parameter that comes again keeps its number
    assert [group["params"] for group in optimizer.state_dict()["param_groups"]] == [[0, 1], [2], [0, 1]]


def test_a_state_of_another_form_is_refused():
    optimizer = SGD(parameters(2), lr=0.1)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(SGD([{"params": parameter} for parameter in parameters(2)], lr=0.1).state_dict())
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(SGD(parameters(3), lr=0.1).state_dict())
    with pytest.raises(KeyError, match="its entry 'optimizer'"):
        optimizer.load_state_dict({"model": {}, "optimizer": optimizer.state_dict()})
    with pytest.raises(TypeError, match=r"pass model.parameters\(\)"):
        SGD(numod.nn.Linear(2, 2), lr=0.1)


def test_loaded_state_takes_the_dtype_of_its_parameter():
    a, b = parameters(1), [numod.ones(2, dtype=numod.float64, requires_grad=True)]
    first, second = SGD(a, lr=0.1, momentum=0.9), SGD(b, lr=0.1, momentum=0.9)
    give_gradients(a)
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.state[b[0]]["momentum_buffer"].dtype is numod.float64


# ---- hooks, text, copies


def test_step_hooks():
    params = parameters()
    optimizer = SGD(params, lr=0.1)
    calls = []
    before = optimizer.register_step_pre_hook(lambda *args: calls.append(("before", args[0] is optimizer)))
    optimizer.register_step_post_hook(lambda *args: calls.append(("after", args[0] is optimizer)))
    optimizer.step()
    before.remove()
    optimizer.step()
    assert calls == [("before", True), ("after", True), ("after", True)]


def test_text():
    a, b = parameters()
    lines = repr(SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1, momentum=0.9)).splitlines()
    assert lines[0] == "SGD (" and lines[-1] == ")"
    assert [line for line in lines if line.startswith("Parameter Group")] == ["Parameter Group 0", "Parameter Group 1"]
    assert "    lr: 0.1" in lines and "    lr: 0.5" in lines and lines.count("    momentum: 0.9") == 2
    assert not any("params" in line for line in lines)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"]
)
@pytest.mark.parametrize("make", MAKERS, ids=["SGD", "Adam", "AdamW"])
def test_copies_of_an_optimizer(make, duplicate):
    params = parameters()
    optimizer = make(params)
    give_gradients(params)
    optimizer.step()
    other = duplicate(optimizer)
    assert plain(other.state_dict()) == plain(optimizer.state_dict())
    mine = [parameter for group in other.param_groups for parameter in group["params"]]
    assert not {id(parameter) for parameter in mine} & {id(param) for param in params}
    give_gradients(mine)
    other.step()
    assert set(other.state) == set(mine) and other.param_groups[0]["lr"] == 0.1


def test_older_pickles_name_optimizers_where_they_were() -> None:
    for kind in (numod.optim.Adamax, numod.optim.NAdam, numod.optim.RAdam):
        assert pickle.loads(f"cnumod.optim.adaptive\n{kind.__name__}\n.".encode()) is kind


def test_a_copy_of_model_and_optimizer_together_stays_tied():
    model = numod.nn.Linear(2, 1)
    model, optimizer = copy.deepcopy((model, SGD(model.parameters(), lr=0.1)))
    before = model.weight.tolist()
    model(numod.ones(1, 2)).sum().backward()
    optimizer.step()
    assert model.weight.tolist() != before


def test_a_subclass_defines_its_update():
    class Sign(numod.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @numod.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    params = parameters()
    give_gradients(params)
    Sign(params, 0.5).step()
    assert [param.tolist() for param in params] == [[0.5, 0.5], [1.5, 1.5]]


def test_hooks_run_around_a_step_of_ones_own():
    """A subclass that writes its own step, as people do, has its hooks, those of all optimizers, and the arguments a
    hook gives.
    """

    class Plain(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": required})

        def step(self, closure=None, scale=1.0):
            for group in self.param_groups:
                for tensor in group["params"]:
                    tensor.data.add_(tensor.grad, alpha=-group["lr"] * scale)

    p = nn.Parameter(torch.ones(2))
    with pytest.raises(
        ValueError, match="parameter group didn't specify a value of required optimization parameter lr"
    ):
        Plain([p])
    optimizer, calls = Plain([{"params": [p], "lr": 0.5}]), []
    optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: (args, {"scale": 2.0}))
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: calls.append(kwargs))
    with register_optimizer_step_pre_hook(lambda *args: calls.append("any")):
        p.grad = torch.ones(2)
        optimizer.step()
    assert calls == ["any", {"scale": 2.0}] and p.tolist() == [0.0, 0.0]
    optimizer.register_step_pre_hook(lambda *args: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda hooked: calls.append("save"))
    optimizer.register_state_dict_post_hook(lambda hooked, state: {**state, "note": 1})
    optimizer.register_load_state_dict_pre_hook(lambda hooked, state: calls.append("second"))
    optimizer.register_load_state_dict_pre_hook(lambda hooked, state: calls.append(state.pop("note")), prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda hooked: calls.append("loaded"))
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert calls == ["save", 1, "second", "loaded"] and state["note"] == 1


def test_names_and_options_that_exclude_each_other():
    p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("p", p), q])
    with pytest.raises(ValueError, match="cannot add param group without names to the optimizer"):
        optim.SGD([("p", p)]).add_param_group({"params": [q]})
    with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together."):
        optim.Adam([p], fused=True, foreach=True)
    for kind in (optim.Adam, optim.Adafactor):
        with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
            kind([p], lr=torch.ones(2))
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        optim.SGD([p], differentiable=True).step()
    with pytest.raises(AssertionError, match="If capturable=True"):
        optim.Adam([p], capturable=True).step()


def test_an_optimizer_around_another_one_needs_no_init():
    class Around(optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self, closure=None):
            return self.inner.step(closure)

    p = nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    Around(optim.SGD([p], 0.5)).step()
    assert p.tolist() == [0.5, 0.5]


def test_step_hooks_get_the_optimizer_among_the_arguments():
    optimizer, calls = numod.optim.SGD([numod.ones(1, requires_grad=True)], lr=0.1), []
    optimizer.register_step_pre_hook(lambda *args: calls.append(args))
    optimizer.register_step_post_hook(lambda *args: calls.append(args))
    optimizer.step()
    optimizer.step(None)
    assert calls == [(optimizer, (optimizer,), {})] * 2 + [(optimizer, (optimizer, None), {})] * 2

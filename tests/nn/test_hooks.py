"""Hooks of every kind: what they are given, what they may replace, in which order they run, and how they are
removed.
"""

import copy
import pickle
from collections import namedtuple

import pytest

import numod
from numod import nn
from numod.nn import hooks


class Pair(nn.Module):
    """Two inputs, two outputs."""

    def forward(self, a, b, *, scale=1):
        return a * 2 * scale, b * 3


def double(module, *rest):
    return tuple(None if gradient is None else gradient * 2 for gradient in rest[0])


def ones(*shape):
    return numod.ones(*shape, requires_grad=True)


@pytest.fixture(autouse=True)
def no_hooks_left():
    yield
    everywhere = [hooks.forward, hooks.forward_pre, hooks.backward, hooks.backward_pre, *hooks.registration.values()]
    assert not any(everywhere)


# ---- forward


def test_forward_hooks_see_arguments_and_output():
    layer, seen = nn.Linear(2, 1), []
    layer.register_forward_pre_hook(lambda *args: seen.append(args))
    layer.register_forward_hook(lambda *args: seen.append(args))
    x = numod.ones(1, 2)
    y = layer(x)
    assert seen == [(layer, (x,)), (layer, (x,), y)]


def test_a_pre_hook_replaces_the_arguments():
    module = nn.Identity()
    with module.register_forward_pre_hook(lambda module, args: args[0] + 1):
        assert module(1) == 2
    with module.register_forward_pre_hook(lambda module, args: (args[0] + 2,)):
        assert module(1) == 3
    assert module(1) == 1


def test_a_forward_hook_replaces_the_output():
    module = nn.Identity()
    module.register_forward_hook(lambda module, args, output: output * 10)
    module.register_forward_hook(lambda module, args, output: None)
    module.register_forward_hook(lambda module, args, output: output + 1)
    assert module(2) == 21


def test_with_kwargs():
    module, seen = Pair(), []

    def pre(module, args, kwargs):
        return args, {**kwargs, "scale": kwargs["scale"] + 1}

    module.register_forward_pre_hook(pre, with_kwargs=True)
    module.register_forward_pre_hook(lambda module, args, kwargs: seen.append(kwargs), with_kwargs=True)
    module.register_forward_hook(
        lambda module, args, kwargs, output: seen.append((args, kwargs, output)), with_kwargs=True
    )
    assert module(1, 2, scale=2) == (6, 6)
    assert seen == [{"scale": 3}, ((1, 2), {"scale": 3}, (6, 6))]


def test_a_pre_hook_with_kwargs_must_return_a_pair():
    module = Pair()
    module.register_forward_pre_hook(lambda module, args, kwargs: args[0], with_kwargs=True)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 1"):
        module(1, 2)


def test_order_and_prepend():
    module, order = nn.Identity(), []
    note = {
        name: lambda *_, name=name: order.append(name)
        for name in ("a", "b", "c", "global", "pre a", "pre b", "global pre")
    }
    module.register_forward_hook(note["a"])
    module.register_forward_hook(note["b"])
    module.register_forward_hook(note["c"], prepend=True)
    module.register_forward_pre_hook(note["pre a"])
    module.register_forward_pre_hook(note["pre b"], prepend=True)
    with hooks.register_module_forward_hook(note["global"]), hooks.register_module_forward_pre_hook(note["global pre"]):
        module(0)
    assert order == ["global pre", "pre b", "pre a", "global", "c", "a", "b"]


def test_always_call():
    class Failing(nn.Module):
        def forward(self, fail):
            if fail:
                raise ValueError("no")

    module, seen = Failing(), []
    module.register_forward_hook(lambda *args: seen.append("plain"))
    module.register_forward_hook(lambda module, args, output: seen.append(("always", output)), always_call=True)
    module(False)
    assert seen == ["plain", ("always", None)]
    with pytest.raises(ValueError, match="no"):
        module(True)
    assert seen == ["plain", ("always", None), ("always", None)]
    with hooks.register_module_forward_hook(lambda *args: seen.append(len(args)), always_call=True, with_kwargs=True):
        with pytest.raises(ValueError, match="no"):
            module(True)
    assert seen[3:] == [4, ("always", None)]


def test_an_always_called_hook_is_not_called_twice_and_its_error_is_a_warning():
    module, seen = nn.Identity(), []

    def fail(*args):
        seen.append("fail")
        raise RuntimeError("from the hook")

    module.register_forward_hook(lambda *args: seen.append("first"), always_call=True)
    module.register_forward_hook(fail)
    module.register_forward_hook(fail, always_call=True)
    with pytest.warns(UserWarning, match="silenced as another error was raised in forward: from the hook"):
        with pytest.raises(RuntimeError, match="from the hook"):
            module(1)
    assert seen == ["first", "fail", "fail"]


def test_a_handle_removes_once_and_takes_the_options_with_it():
    module, seen = nn.Identity(), []
    handle = module.register_forward_hook(lambda *args: seen.append(1), with_kwargs=True, always_call=True)
    module(0)
    handle.remove()
    handle.remove()
    module(0)
    assert seen == [1]
    assert (
        not module._forward_hooks and not module._forward_hooks_with_kwargs and not module._forward_hooks_always_called
    )
    del module
    handle.remove()


def test_hooks_may_be_changed_while_they_run():
    module, seen = nn.Identity(), []

    def once(*args):
        seen.append("once")
        handle.remove()

    handle = module.register_forward_hook(once)
    module(0)
    module(0)
    assert seen == ["once"]


def test_people_who_clear_the_dictionaries():
    module = nn.Identity()
    module.register_forward_hook(lambda *args: 5)
    module._forward_hooks.clear()
    assert module(1) == 1
    module._forward_hooks[0] = lambda *args: 6
    assert module(1) == 6


def test_a_hook_must_be_callable():
    with pytest.raises(TypeError, match="expected a hook that can be called, got int"):
        nn.Identity().register_forward_hook(3)


def plus_one(module, args, output):
    return output + 1


def test_hooks_and_handles_survive_pickling():
    module = nn.Identity()
    handle = module.register_forward_hook(plus_one)
    other, other_handle = pickle.loads(pickle.dumps((module, handle)))
    assert other(1) == 2
    other.register_forward_hook(plus_one)  # gets a number of its own
    assert other(1) == 3
    other_handle.remove()
    assert other(1) == 2 and module(1) == 2
    del other
    pickle.loads(pickle.dumps(other_handle)).remove()


def test_hooks_are_copied_with_their_module():
    module = nn.Sequential(nn.Identity())
    handle = module[0].register_forward_hook(plus_one)
    other = copy.deepcopy(module)
    handle.remove()
    assert module(1) == 1 and other(1) == 2


# ---- backward


def test_full_backward_hooks_see_both_ends():
    layer, seen = nn.Linear(2, 1, bias=False), []
    layer.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append((module, grad_input, grad_output))
    )
    layer.register_full_backward_pre_hook(lambda module, grad_output: seen.append((module, grad_output)))
    x = ones(1, 2)
    (layer(x) * 3).sum().backward()
    (first, pre), (second, grad_input, grad_output) = seen
    assert first is second is layer
    assert [tensor.tolist() for tensor in pre] == [tensor.tolist() for tensor in grad_output] == [[[3]]]
    assert [tensor.tolist() for tensor in grad_input] == [x.grad.tolist()]
    assert numod.allclose(x.grad, 3 * layer.weight) and layer.weight.grad.tolist() == [[3, 3]]


def test_full_backward_hooks_replace_gradients():
    layer, x = nn.Linear(2, 1, bias=False), ones(1, 2)
    layer.register_full_backward_pre_hook(double)
    layer.register_full_backward_hook(double)
    layer.register_full_backward_hook(double)
    layer(x).sum().backward()
    assert layer.weight.grad.tolist() == [[2, 2]]
    assert numod.allclose(x.grad, 8 * layer.weight)


def test_a_single_gradient_needs_no_tuple():
    module, x = nn.Identity(), ones(2)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input[0] * 5)
    module(x).sum().backward()
    assert x.grad.tolist() == [5, 5]


def test_several_inputs_and_outputs():
    module, seen, a, b = Pair(), [], ones(1), ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    first, second = module(a, b)
    (first + second * 10).backward()
    ((grad_input, grad_output),) = seen
    assert [tensor.tolist() for tensor in grad_input] == [[2], [30]] and [
        tensor.tolist() for tensor in grad_output
    ] == [
        [1],
        [10],
    ]


def test_an_unused_output_has_no_gradient_and_an_unreached_input_zero():
    module, seen, a, b = Pair(), [], ones(1), ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    module(a, b)[0].backward()
    ((grad_input, grad_output),) = seen
    assert [tensor.tolist() for tensor in grad_input] == [[2], [0]]
    assert grad_output[0].tolist() == [1] and grad_output[1] is None


def test_inputs_that_are_not_tensors():
    class Scale(nn.Module):
        def forward(self, factor, x, note, other):
            return x * factor

    module, seen, x = Scale(), [], ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    module(3, x, "note", numod.ones(2)).backward()
    assert seen[0][0] is None and seen[0][1].tolist() == [3] and seen[0][2] is None and seen[0][3].tolist() == [0, 0]


def test_no_input_requires_a_gradient():
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append((grad_input, grad_output)))
    warns = pytest.warns(UserWarning, match="Full backward hook is firing when gradients are computed with respect to")
    with warns:
        layer(numod.ones(1, 2)).sum().backward()
    ((grad_input, grad_output),) = seen
    assert grad_input == (None,) and grad_output[0].tolist() == [[1]] and layer.weight.grad.tolist() == [[1, 1]]
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: (numod.ones(1),))
    with warns, pytest.raises(RuntimeError, match="no input requires gradient should always return None"):
        layer(numod.ones(1, 2)).sum().backward()


def test_a_wrong_number_of_gradients():
    module, x = Pair(), ones(1)
    with module.register_full_backward_hook(lambda module, grad_input, grad_output: grad_input[:1]):
        with pytest.raises(RuntimeError, match="invalid number of grad_input, got 1, but expected 2"):
            module(x, x)[0].backward()
    module.register_full_backward_pre_hook(lambda module, grad_output: grad_output[:1])
    with pytest.raises(RuntimeError, match="invalid number of grad_output, got 1, but expected 2"):
        module(x, x)[0].backward()


Result = namedtuple("Result", ["value", "note"])


@pytest.mark.parametrize(
    ("pack", "unpack"),
    [
        (lambda y: (y,), lambda out: out[0]),
        (lambda y: Result(y, "n"), lambda out: out.value),
    ],
)
def test_outputs_in_containers(pack, unpack):
    class Packed(nn.Module):
        def forward(self, x):
            return pack(x * 2)

    module, seen, x = Packed(), [], ones(1)
    module.register_full_backward_hook(
        lambda module, *gradients: seen.append(tuple(gradient[0].tolist() for gradient in gradients))
    )
    result = module(x)
    assert type(result) is type(pack(0))
    unpack(result).backward()
    assert seen == [([2], [1])]


@pytest.mark.parametrize("pack", [lambda y: {y}, lambda y: [y], lambda y: {"value": y}])
def test_hooks_of_other_outputs_warn_and_are_not_called(pack):
    class Opaque(nn.Module):
        def forward(self, x):
            return pack(x * 2)

    module, x = Opaque(), ones(1)
    module.register_full_backward_hook(lambda *args: pytest.fail("called"))
    with pytest.warns(UserWarning, match="should be a Tensor or a tuple of Tensors but received .* from Opaque"):
        result = module(x)
    next(iter(result.values() if isinstance(result, dict) else result)).backward()


def test_backward_hooks_do_not_run_without_gradients():
    module = nn.Linear(1, 1)
    module.register_full_backward_hook(lambda *args: pytest.fail("called"))
    with numod.no_grad():
        assert module(numod.ones(1)).grad_fn is None
    assert nn.Identity()(3) == 3


def test_backward_hooks_order_prepend_and_global():
    module, order = nn.Identity(), []
    note = {name: lambda *_, name=name: order.append(name) for name in ("a", "b", "pre a", "pre b", "all", "pre all")}
    module.register_full_backward_hook(note["a"])
    module.register_full_backward_hook(note["b"], prepend=True)
    module.register_full_backward_pre_hook(note["pre a"])
    module.register_full_backward_pre_hook(note["pre b"], prepend=True)
    with (
        hooks.register_module_full_backward_hook(note["all"]),
        hooks.register_module_full_backward_pre_hook(note["pre all"]),
    ):
        module(ones(1)).backward()
    assert order == ["pre all", "pre b", "pre a", "all", "b", "a"]


def test_nested_modules_run_their_backward_hooks_outside_in():
    net, order = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), []
    for name, module in net.named_modules():
        module.register_full_backward_pre_hook(lambda *_, name=name: order.append(f"pre {name}"))
        module.register_full_backward_hook(lambda *_, name=name: order.append(f"full {name}"))
    net(ones(1)).backward()
    assert order == ["pre ", "pre 1", "full 1", "pre 0", "full 0", "full "]


def test_backward_twice_and_two_calls():
    module, seen, x = nn.Identity(), [], ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input[0].item()))
    y = module(x) * 2
    y.backward(retain_graph=True)
    y.backward()
    (module(x) + module(x)).backward()
    assert seen == [2, 2, 1, 1]


def test_hooks_see_second_order_gradients():
    module, seen, x = nn.Tanh(), [], ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input[0].requires_grad))
    (gradient,) = numod.autograd.grad(module(x).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert seen[0] is True and x.grad is not None


def test_the_old_name_registers_a_full_hook():
    module, seen = nn.Identity(), []
    module.register_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input[0].item()))
    module(ones(1)).backward()
    assert seen == [1] and module._is_full_backward_hook is False


def test_a_module_that_changes_its_input_in_place_is_refused():
    class InPlace(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    module = InPlace()
    module.register_full_backward_hook(lambda *args: None)
    with pytest.raises(RuntimeError, match="in ?place"):
        module(ones(1) * 1)


def test_the_output_may_be_changed_in_place():
    """Better than PyTorch, which refuses."""
    module, seen, x = nn.Linear(1, 1, bias=False), [], ones(1)
    module.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output[0].item()))
    y = module(x)
    y.mul_(3)
    y.backward()
    assert seen == [3] and numod.allclose(x.grad, 3 * module.weight[0])


@pytest.mark.parametrize("module", [nn.Identity(), nn.Sequential(), nn.Dropout().eval()])
def test_changing_the_output_in_place_leaves_the_gradient_of_the_input_right(module):
    module.register_full_backward_hook(lambda *args: None)
    x = ones(2)
    inner = x * 3
    y = module(inner)
    y.mul_(2)
    (y + inner * inner).sum().backward()
    assert x.grad.tolist() == [2 * 3 + 2 * 3 * 3] * 2


def test_an_output_the_module_kept_is_not_changed_behind_its_back():
    class Keeping(nn.Module):
        def forward(self, x):
            self.cached = x * 3
            return self.cached

    module, x = Keeping(), ones(1)
    module.register_full_backward_hook(lambda *args: None)
    module(x).mul_(2).backward(retain_graph=True)
    (module.cached * module.cached).backward()
    assert module.cached.item() == 3 and x.grad.item() == 2 * 3 + 2 * 3 * 3


# ---- registration


def test_registration_hooks_see_and_replace():
    seen = []

    def note(module, name, value):
        seen.append((type(module).__name__, name))

    with (
        hooks.register_module_parameter_registration_hook(note),
        hooks.register_module_buffer_registration_hook(note),
        hooks.register_module_module_registration_hook(note),
    ):
        net = nn.Sequential(nn.Linear(1, 1, bias=False))
        net.mean = nn.Buffer(numod.ones(1))
        net.act = nn.ReLU()
    assert seen == [("Linear", "weight"), ("Sequential", "0"), ("Sequential", "mean"), ("Sequential", "act")]

    other = nn.Tanh()
    with hooks.register_module_module_registration_hook(lambda module, name, value: other):
        net.act = nn.ReLU()
        net.add_module("more", nn.ReLU())
    assert net.act is net.more is other


def test_hooks_of_both_kinds_are_refused() -> None:
    layer = numod.nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="both"):
        layer.register_backward_hook(lambda *_: None)

"""Module: registration, walks, conversion, copies, text; and the points where it is kinder than PyTorch, each in a test
of that name.
"""

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict

import pytest

import numod
from numod import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.act = nn.ReLU()
        self.second = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(numod.ones(2))
        self.register_buffer("mean", numod.zeros(2))
        self.register_buffer("count", numod.tensor(0), persistent=False)

    def forward(self, x):
        return self.second(self.act(self.first(x))) * self.scale - self.mean


NAMES = ["scale", "first.weight", "first.bias", "second.weight"]


def names(pairs):
    return [name for name, _ in pairs]


# ---- registration


def test_assignment_registers_in_order():
    net = Net()
    assert list(net._parameters) == ["scale"]
    assert list(net._buffers) == ["mean", "count"]
    assert list(net._modules) == ["first", "act", "second"]
    assert net._non_persistent_buffers_set == {"count"}
    assert net.training is True


def test_writes_to_a_registry_change_the_attribute():
    layer = nn.Linear(2, 2)
    assert layer.weight is layer._parameters["weight"]
    other = nn.Parameter(numod.zeros(2, 2))
    layer._parameters["weight"] = other
    assert layer.weight is other
    del layer._parameters["weight"]
    assert not hasattr(layer, "weight")
    layer._parameters.update(weight=other)
    assert layer._parameters.pop("weight") is other and not hasattr(layer, "weight")
    assert layer._parameters.pop("weight", 3) == 3
    layer._parameters = {"weight": other}
    assert layer.weight is other and not hasattr(layer, "bias")
    layer._parameters.clear()
    assert not hasattr(layer, "weight") and layer._parameters.setdefault("weight", other) is layer.weight
    assert layer._parameters.popitem() == ("weight", other) and not hasattr(layer, "weight")
    layer._parameters |= {"weight": other}
    assert layer.weight is other


class Plain:
    """A base with a dictionary of its own, which comes before Module in the order of bases."""


class Mixed(Plain, nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", numod.zeros(2))
        self.child, self.scale, self.size = nn.ReLU(), nn.Parameter(numod.ones(2)), 3
        self.register_parameter("bias", None)


def test_vars_holds_the_names_that_pytorchs_holds():
    hooks = """_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called
        _forward_pre_hooks _forward_pre_hooks_with_kwargs _state_dict_hooks _state_dict_pre_hooks
        _load_state_dict_pre_hooks _load_state_dict_post_hooks""".split()
    others = "training _parameters _buffers _modules _non_persistent_buffers_set _is_full_backward_hook".split()
    assert set(vars(nn.Linear(2, 3))) == {*hooks, *others, "in_features", "out_features"}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_vars_shows_entries_of_registries_only_there(copied):
    for module in (Mixed(), copied(Mixed())):
        attributes = vars(module)
        assert {name for name in attributes if name[0] != "_"} == {"training", "size"}
        assert list(attributes["_parameters"]) == ["scale", "bias"] and "scale" not in attributes
        assert attributes == dict(attributes) == {**attributes} == attributes.copy() == attributes | {}
        assert repr(attributes) == repr(dict(attributes)) and isinstance(attributes, dict)
        module.late = 1
        assert attributes["late"] == 1 and len(attributes) == len(vars(module)) == len([*attributes])
        attributes["later"] = 2
        assert module.later == 2 and attributes.pop("later") == 2 and not hasattr(module, "later")
        with pytest.raises(KeyError, match="scale"):
            del attributes["scale"]
        assert "mean" in dir(module) and module.mean is module._buffers["mean"]


def test_a_value_in_vars_hides_the_registered_entry():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    vars(layer)["weight"] = "mine"
    assert layer.weight == "mine" and vars(layer)["weight"] == "mine" and layer._parameters["weight"] is weight
    layer._parameters["weight"] = weight
    assert layer.weight == "mine" and dict(layer.named_parameters())["weight"] is weight
    del vars(layer)["weight"]
    assert layer.weight is weight and "weight" not in vars(layer)
    object.__setattr__(layer, "weight", "mine")
    layer.weight = weight
    assert layer.weight is weight and "weight" not in vars(layer)


def test_registries_written_in_vars():
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    vars(layer).update(vars(other))
    assert layer.weight is other.weight and layer.bias is None and "weight" not in vars(layer)
    layer.weight = nn.Parameter(numod.zeros(2, 2))
    assert other.weight is not layer.weight


def test_compiled_functions_notice_values_written_in_vars():
    layer, x = nn.Linear(2, 2, bias=False).requires_grad_(False), numod.ones(1, 2)
    compiled = numod.compile(layer, fullgraph=True)
    for change in (
        lambda: None,
        lambda: vars(layer).update(weight=numod.full((2, 2), 3.0)),
        lambda: vars(layer).pop("weight"),
        lambda: vars(layer)["_parameters"].update(weight=nn.Parameter(numod.zeros(2, 2), requires_grad=False)),
    ):
        change()
        assert all(numod.equal(compiled(x), layer(x)) for _ in range(2))


@pytest.mark.parametrize("value", [nn.Parameter(numod.zeros(1)), nn.Linear(1, 1), nn.Buffer(numod.zeros(1))])
def test_assignment_before_init_is_refused(value):
    class Early(nn.Module):
        def __init__(self):
            self.part = value

    with pytest.raises(AttributeError, match=r"cannot assign \w+ before Module.__init__\(\) call"):
        Early()


def test_registration_before_init_is_refused():
    class Early(nn.Module):
        def __init__(self):
            self.register_buffer("part", numod.zeros(1))

    with pytest.raises(AttributeError, match=r"cannot assign buffer before Module.__init__\(\) call"):
        Early()


def test_use_before_init_says_what_is_missing():
    class Early(nn.Module):
        def __init__(self):
            self.size = 3  # a plain attribute needs no registry

    early = Early()
    assert early.size == 3
    with pytest.raises(
        AttributeError, match=r"'Early' object has no attribute 'layer'; has super\(\).__init__\(\) been called\?"
    ):
        _ = early.layer


@pytest.mark.parametrize("kind", ["parameter", "buffer", "module"])
def test_bad_names(kind):
    net = Net()
    register = {"parameter": "register_parameter", "buffer": "register_buffer", "module": "add_module"}[kind]
    with pytest.raises(TypeError, match=f"{kind} name should be a string. Got int"):
        getattr(net, register)(3, None)
    with pytest.raises(KeyError, match=rf"{kind} name can.{{1,2}}t contain"):
        getattr(net, register)("a.b", None)
    with pytest.raises(KeyError, match=rf"{kind} name can.{{1,2}}t be empty string"):
        getattr(net, register)("", None)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        getattr(net, register)("forward", None)


def test_names_with_dots_are_refused_in_assignments_of_tensors_too():
    for value in (nn.Parameter(numod.ones(1)), nn.Buffer(numod.ones(1))):
        with pytest.raises(KeyError, match=r"can.{1,2}t contain"):
            setattr(nn.Module(), "a.b", value)
    module = nn.Module()
    setattr(module, "a.b", nn.ReLU())  # as PyTorch has it
    assert list(module._modules) == ["a.b"]


def test_wrong_kinds():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'Tensor' object to parameter 'x'"):
        net.register_parameter("x", numod.ones(1))
    with pytest.raises(TypeError, match="cannot assign 'int' object to buffer 'x'"):
        net.register_buffer("x", 1)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.add_module("x", 1)
    with pytest.raises(
        TypeError, match=r"cannot assign 'Tensor' as parameter 'scale' \(nn.Parameter or None expected\)"
    ):
        net.scale = numod.ones(2)
    with pytest.raises(TypeError, match="cannot assign 'ReLU' as parameter 'scale'"):
        net.scale = nn.ReLU()
    with pytest.raises(TypeError, match="cannot assign 'Buffer' as parameter 'scale'"):
        net.scale = nn.Buffer(numod.ones(2))
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'act'"):
        net.act = 3
    with pytest.raises(TypeError, match="cannot assign 'float' as buffer 'mean'"):
        net.mean = 1.0


def test_a_computed_parameter_is_refused():
    parameter = nn.Parameter(numod.ones(2))
    with numod.no_grad():
        parameter.requires_grad_(False)
    parameter.mul_(nn.Parameter(numod.ones(2)))
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'x'"):
        nn.Module().register_parameter("x", parameter)


def test_one_kind_replaces_another():
    net = Net()
    net.mean = nn.Parameter(numod.ones(2))  # a buffer becomes a parameter
    assert "mean" in net._parameters and "mean" not in net._buffers
    net.act = nn.Parameter(numod.ones(1))  # a module becomes a parameter
    assert "act" in net._parameters and "act" not in net._modules
    net.count = nn.Tanh()  # a buffer becomes a module, and its persistence is forgotten
    assert "count" in net._modules and not net._buffers and not net._non_persistent_buffers_set
    net.plain = 3
    net.plain = nn.Linear(1, 1)  # a plain attribute becomes a module
    assert list(net._modules) == ["first", "second", "count", "plain"] and net.plain.in_features == 1
    net.other = 3
    net.other = nn.Parameter(numod.ones(1))
    assert "other" in net._parameters


def test_none_holds_a_place():
    net = Net()
    net.scale = net.mean = net.act = None
    assert net._parameters["scale"] is net._buffers["mean"] is net._modules["act"] is None
    assert net.scale is None and net.mean is None and net.act is None
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]
    assert names(net.named_buffers()) == ["count"] and names(net.named_children()) == ["first", "second"]
    assert "(act): None" in repr(net)
    net.act = nn.Tanh()
    assert list(net._modules) == ["first", "act", "second"]
    layer = nn.Linear(2, 2, bias=False)
    assert layer.bias is None and layer._parameters["bias"] is None


def test_a_tensor_over_a_buffer_keeps_it_a_buffer_and_its_persistence():
    net = Net()
    net.mean = 0.9 * net.mean + 0.1 * numod.ones(2)
    net.count = net.count + 1
    assert list(net._buffers) == ["mean", "count"] and net._non_persistent_buffers_set == {"count"}
    assert net.mean is net._buffers["mean"] and net.count.item() == 1
    net.count = nn.Buffer(numod.tensor(5), persistent=True)
    assert net._non_persistent_buffers_set == set()


def test_buffer_class():
    module = nn.Module()
    module.seen = nn.Buffer(numod.ones(3))
    module.cache = nn.Buffer(numod.ones(3), persistent=False)
    assert isinstance(module.seen, numod.Tensor) and not module.seen.requires_grad
    assert list(module.state_dict()) == ["seen"] and names(module.named_buffers()) == ["seen", "cache"]
    assert repr(module.seen) == "tensor([1., 1., 1.])"
    assert nn.Buffer().shape == (0,)
    module.plain = 1
    with pytest.raises(KeyError, match="attribute 'plain' already exists"):
        module.plain = nn.Buffer(numod.ones(1))


def test_register_buffer_of_a_subclass_is_used_by_assignment():
    class Counting(nn.Module):
        registered = 0

        def register_buffer(self, name, tensor):
            self.registered += 1
            super().register_buffer(name, tensor)

    module = Counting()
    module.mean = nn.Buffer(numod.ones(1))
    module.mean = numod.zeros(1)
    assert module.registered == 2


def test_delete():
    net = Net()
    weight = net.first.weight
    del net.first, net.scale, net.count, net.mean
    for name in ("first", "scale", "count", "mean"):
        assert not hasattr(net, name)
        with pytest.raises(AttributeError, match=name):
            delattr(net, name)
    assert net._non_persistent_buffers_set == set() and weight.shape == (4, 3)
    net.plain = 1
    del net.plain
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'plain'"):
        _ = net.plain


def test_dir_lists_what_can_be_completed():
    listed = dir(Net())
    assert {"first", "act", "scale", "mean", "forward", "training"} <= set(listed)
    assert listed == sorted(set(listed))
    assert not [name for name in dir(nn.Sequential(nn.ReLU())) if name.isdigit()]


def test_register_module_is_add_module():
    module = nn.Module()
    module.register_module("layer", nn.ReLU())
    assert isinstance(module.layer, nn.ReLU)
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        module.add_module("training", nn.ReLU())


def test_constructor_arguments():
    with pytest.raises(TypeError, match=r"Module.__init__\(\) takes 1 positional argument but 2 were given"):
        nn.Module(3)
    with pytest.raises(TypeError, match=r"Module.__init__\(\) got an unexpected keyword argument 'size'"):
        nn.Module(size=3)
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()(3)


def test_multiple_inheritance():
    class Mixin:
        def __init__(self, size=0):
            self.size = size

    class Apart(nn.Module, Mixin):
        def __init__(self):
            nn.Module.__init__(self)
            Mixin.__init__(self, 3)

    class Cooperative(nn.Module, Mixin):
        call_super_init = True

    class MixinFirst(Mixin, nn.Module):
        def __init__(self):
            nn.Module.__init__(self)
            super().__init__(7)
            self.layer = nn.ReLU()

    assert Apart().size == 3 and Cooperative(5).size == 5 and Cooperative(size=6).size == 6
    assert MixinFirst().size == 7 and names(MixinFirst().named_children()) == ["layer"]


# ---- walks


def test_named_walks():
    net = Net()
    assert names(net.named_parameters()) == NAMES
    assert names(net.named_parameters(prefix="net", recurse=False)) == ["net.scale"]
    assert names(net.named_buffers()) == ["mean", "count"]
    assert names(net.named_modules()) == ["", "first", "act", "second"]
    assert names(net.named_modules(prefix="net")) == ["net", "net.first", "net.act", "net.second"]
    assert [type(child) for child in net.children()] == [nn.Linear, nn.ReLU, nn.Linear]
    assert [id(parameter) for parameter in net.parameters()] == [id(each) for _, each in net.named_parameters()]
    assert len(list(net.buffers())) == 2 and len(list(net.parameters(recurse=False))) == 1


def test_shared_parts_come_once_unless_asked():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.Sequential(layer), nn.Linear(2, 2))
    net[2].weight = layer.weight
    assert names(net.named_modules()) == ["", "0", "1", "2"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "0", "1", "1.0", "2"]
    assert len(list(net.modules(remove_duplicate=False))) == 5
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "2.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == [
        "0.weight",
        "0.bias",
        "1.0.weight",
        "1.0.bias",
        "2.weight",
        "2.bias",
    ]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias", "2.weight", "2.bias"]
    twice = nn.ModuleDict({"a": layer, "b": layer})
    assert names(twice.named_children()) == ["a"]
    buffer = numod.ones(1)
    twice.register_buffer("x", buffer)
    layer.register_buffer("y", buffer)
    assert names(twice.named_buffers()) == ["x"] and names(twice.named_buffers(remove_duplicate=False)) == [
        "x",
        "a.y",
        "b.y",
    ]


def test_named_modules_memo():
    net = Net()
    seen = {net.act}
    assert names(net.named_modules(memo=seen)) == ["", "first", "second"] and len(seen) == 4


def test_get_parts_by_path():
    net = nn.Sequential(OrderedDict(body=Net()))
    assert net.get_submodule("") is net and net.get_submodule("body.first") is net.body.first
    assert net.get_parameter("body.first.weight") is net.body.first.weight
    assert net.get_buffer("body.mean") is net.body.mean
    for method, target, message in [
        ("get_submodule", "body.third", "Net has no attribute `third`"),
        ("get_submodule", "body.forward", "`forward` is not an nn.Module"),
        ("get_parameter", "body.bias", "Net has no attribute `bias`"),
        ("get_parameter", "body.mean", "`mean` is not an nn.Parameter"),
        ("get_buffer", "body.scale", "`scale` is not a buffer"),
        ("get_buffer", "head.mean", "Sequential has no attribute `head`"),
    ]:
        with pytest.raises(AttributeError, match=message):
            getattr(net, method)(target)


def test_set_submodule():
    net = nn.Sequential(OrderedDict(body=Net()))
    net.set_submodule("body.act", nn.Tanh())
    net.set_submodule("body.last", nn.Tanh())
    assert isinstance(net.body.act, nn.Tanh) and names(net.body.named_children()) == ["first", "act", "second", "last"]
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name!"):
        net.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match="`module` is not an nn.Module"):
        net.set_submodule("body.act", 3)
    with pytest.raises(AttributeError, match="Net has no attribute `new`"):
        net.set_submodule("body.new", nn.Tanh(), strict=True)
    with pytest.raises(AttributeError, match="`forward` is not an nn.Module"):
        net.set_submodule("body.forward", nn.Tanh())
    with pytest.raises(AttributeError, match="Sequential has no attribute `head`"):
        net.set_submodule("head.act", nn.Tanh())


def test_apply_goes_children_first():
    net, order = Net(), []
    assert net.apply(lambda module: order.append(type(module).__name__)) is net
    assert order == ["Linear", "ReLU", "Linear", "Net"]


def test_train_and_eval_follow_overridden_methods():
    class Frozen(nn.Sequential):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Frozen(nn.Dropout()), nn.Dropout())
    assert net.eval() is net and not any(module.training for module in net.modules())
    assert net.train() is net and [module.training for module in net.modules()] == [True, False, False, True]
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train("yes")


def test_requires_grad_and_zero_grad():
    net = Net()
    net(numod.ones(1, 3)).sum().backward()
    gradient = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is gradient and gradient.tolist() == [0, 0]
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert net.requires_grad_(False) is net and not any(parameter.requires_grad for parameter in net.parameters())
    net.requires_grad_()
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_zero_grad_cuts_a_gradient_with_history():
    x = nn.Parameter(numod.ones(2))
    module = nn.ParameterList([x])
    (x**3).sum().backward(create_graph=True)
    module.zero_grad(set_to_none=False)
    assert not x.grad.requires_grad and x.grad.tolist() == [0, 0]


# ---- conversion


def test_to_dtype_keeps_identity_and_integers():
    net = Net()
    net(numod.ones(1, 3)).sum().backward()
    before = {name: id(each) for name, each in [*net.named_parameters(), *net.named_buffers()]}
    weight, gradient = net.first.weight, net.first.weight.grad
    assert net.to(numod.float64) is net
    assert {name: id(each) for name, each in [*net.named_parameters(), *net.named_buffers()]} == before
    assert net.first.weight is weight and weight.grad is gradient
    assert weight.dtype == gradient.dtype == net.mean.dtype == numod.float64 and net.count.dtype == numod.int64
    assert weight.requires_grad and weight.is_leaf and isinstance(weight, nn.Parameter)
    assert net(numod.ones(1, 3, dtype=numod.float64)).dtype == numod.float64
    assert net.float().mean.dtype == numod.float32 and net.double().mean.dtype == numod.float64


def test_to_takes_every_form():
    net = Net()
    assert net.to() is net and net.to("cpu") is net and net.to(numod.device("cpu")) is net and net.to(None) is net
    assert net.to("cpu", numod.float64).mean.dtype == numod.float64
    assert net.to(numod.ones(1)).mean.dtype == numod.float32
    assert net.to(numod.float64, True).mean.dtype == numod.float64
    assert net.to(device="cpu", dtype=numod.float32, non_blocking=True).mean.dtype == numod.float32
    assert net.cpu() is net
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point"):
        net.to(numod.int64)
    with pytest.raises(TypeError, match=r"to\(\) received dict"):
        net.to({})
    with pytest.raises(TypeError, match="unexpected keyword argument 'where'"):
        net.to(where="cpu")
    with pytest.raises(TypeError, match="dtype given twice"):
        net.to(numod.float32, numod.float64)


def test_type_converts_buffers_of_every_dtype():
    net = Net().type(numod.float64)
    assert net.count.dtype == numod.float64 and net.scale.dtype == numod.float64


def test_to_empty_keeps_shapes_and_identity():
    net = Net()
    weight = net.first.weight
    net.to_empty(device="cpu")
    assert net.first.weight is weight and weight.shape == (4, 3)


def test_an_optimizer_stays_valid_after_to():
    net = nn.Linear(2, 1).to(numod.float64)
    optimizer = numod.optim.SGD(net.parameters(), lr=1.0)
    net.float()
    net(numod.ones(1, 2)).sum().backward()
    before = net.weight.tolist()
    optimizer.step()
    assert net.weight.tolist() != before


def test_an_overridden_apply_is_followed():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.kept = numod.ones(2)

        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.kept = fn(self.kept)
            return self

    net = nn.Sequential(Holder(), nn.Linear(2, 2)).double()
    assert net[0].kept.dtype == numod.float64


def test_to_keeps_the_identity_of_buffers_and_of_shared_parameters():
    """Better than PyTorch, which replaces buffers, so that every alias of them goes stale."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    running = numod.zeros(2)
    net[0].register_buffer("running", running)
    net[1].register_buffer("also_running", running)
    net.to(numod.float64)
    assert net[0].weight is net[1].weight
    assert net[0].running is net[1].also_running is running and running.dtype == numod.float64


def test_a_shared_tensor_is_converted_once():
    shared = nn.Parameter(numod.ones(2))
    net = nn.ModuleList([nn.ParameterList([shared]), nn.ParameterList([shared])])
    net._apply(lambda tensor: tensor * 2)
    assert shared.tolist() == [2, 2]


def test_a_buffer_with_a_history_keeps_it_through_to():
    x = numod.ones(2, requires_grad=True)
    module = nn.Module()
    module.register_buffer("mean", x * 3)
    module.double().mean.sum().backward()
    assert x.grad.tolist() == [3, 3]


# ---- copies


def test_deepcopy_is_independent_and_keeps_ties():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.note = {"list": [1, 2]}
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight is not net[0].weight
    assert isinstance(other[0].weight, nn.Parameter) and other[0].weight.requires_grad
    assert other.note == net.note and other.note is not net.note
    with numod.no_grad():
        other[0].weight.zero_()
    assert other[1].weight.tolist() == [[0, 0], [0, 0]] != net[0].weight.tolist()
    other[0].bias = None
    assert net[0].bias is not None and other[0].bias is None


def test_deepcopy_of_a_module_that_kept_a_computed_tensor():
    """Better than PyTorch, which refuses: the copy has the values without the history."""
    net = Net()
    net.last = net(numod.ones(1, 3))
    net.history = [net.last, {"again": net.last * 2}]
    net.history.append(net.history)
    net.mean = 0.5 * net.mean + net.last[0]
    other = copy.deepcopy(net)
    assert other.last.tolist() == net.last.tolist() and other.last.grad_fn is None and other.last is not net.last
    assert (
        other.history[0] is other.last
        and other.history[1]["again"].grad_fn is None
        and other.history[2] is other.history
    )
    assert other.mean.tolist() == net.mean.tolist() and net.last.grad_fn is not None


def test_deepcopy_of_a_parameter():
    parameter = nn.Parameter(numod.ones(2), requires_grad=False)
    parameter.note = ["kept"]
    other = copy.deepcopy(parameter)
    assert (
        isinstance(other, nn.Parameter)
        and not other.requires_grad
        and other.note == ["kept"]
        and other.note is not parameter.note
    )
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second


def test_shallow_copy_has_its_own_registries():
    net = Net()
    other = copy.copy(net)
    assert other.first is net.first and other.scale is net.scale
    other.scale = nn.Parameter(numod.zeros(2))
    assert net.scale.tolist() == [1, 1] and other.scale.tolist() == [0, 0]


def test_pickle_round_trip():
    net = Net().eval()
    net.first.weight.note = "kept"
    net.second.tied = net.first.weight
    other = pickle.loads(pickle.dumps(net))
    assert repr(other) == repr(net) and not other.training and other._non_persistent_buffers_set == {"count"}
    assert names(other.named_parameters()) == names(net.named_parameters())
    assert [parameter.tolist() for parameter in other.parameters()] == [
        parameter.tolist() for parameter in net.parameters()
    ]
    assert other.second.tied is other.first.weight and other.first.weight.note == "kept"
    assert other.first.weight is other.first._parameters["weight"]
    other.first.weight = None
    assert net.first.weight is not None


def test_pickle_with_the_users_own_getstate():
    other = pickle.loads(pickle.dumps(WithState()))
    assert other.secret == "new" and other.layer.weight is other.layer._parameters["weight"]
    other.layer = nn.Linear(1, 1)
    assert other.layer.in_features == 1


class WithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.secret = "old"

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["secret"]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.secret = "new"


def test_a_module_dies_with_its_last_user():
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        watched = [weakref.ref(net), weakref.ref(net[0]), weakref.ref(net[0].weight)]
        del net
        assert [each() for each in watched] == [None] * 3
    finally:
        gc.enable()


def test_replaced_dict_of_a_replica():
    net = Net()
    replica = Net.__new__(Net)
    replica.__dict__ = net.__dict__.copy()
    replica._parameters = {}
    replica._modules = replica._modules.copy()
    assert not hasattr(replica, "scale") and net.scale is not None
    replica.first = nn.Linear(1, 1)
    assert net.first.in_features == 3 and replica.first.in_features == 1


# ---- text


def test_repr():
    class Odd(nn.Module):
        def extra_repr(self):
            return "one\ntwo"

    assert repr(nn.Module()) == "Module()"
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(Odd()) == "Odd(\n  one\n  two\n)"
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()), Odd())) == (
        "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n  (1): Odd(\n    one\n    two\n  )\n)"
    )


def test_parameter():
    data = numod.ones(2)
    parameter = nn.Parameter(data)
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert isinstance(parameter, numod.Tensor) and parameter.requires_grad and parameter.is_leaf
    with numod.no_grad():
        data.zero_()
    assert parameter.tolist() == [0, 0] and not data.requires_grad
    assert (
        type(parameter * 2) is numod.Tensor
        and type(parameter.data) is numod.Tensor
        and type(parameter.detach()) is numod.Tensor
    )
    assert nn.Parameter().shape == (0,) and not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter(parameter * 2).is_leaf
    with pytest.raises(RuntimeError):
        nn.Parameter(numod.tensor([1, 2]))
    assert nn.Parameter(numod.tensor([1, 2]), requires_grad=False).tolist() == [1, 2]
    with pytest.raises(AttributeError, match="Parameter expects a Tensor, got list"):
        nn.Parameter([1.0])


# ---- kinder than PyTorch


def test_a_list_of_modules_warns_once_that_it_is_not_registered():
    """Better than PyTorch, where the parameters are silently missing."""

    class Forgetful(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(1, 1)]

    with pytest.warns(UserWarning, match=r"Forgetful.layers is a list holding a Linear.*Use nn.ModuleList"):
        Forgetful()
    Forgetful()


def test_a_list_filled_after_assignment_warns_when_parameters_are_asked_for():
    class Filled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.weights = [], {}
            self.layers.append(nn.Linear(1, 1))
            self.weights["a"] = nn.Parameter(numod.ones(1))

    net = Filled()
    with pytest.warns(UserWarning) as caught:
        list(net.parameters())
    assert sorted(str(each.message).split("Use ")[1].split(";")[0] for each in caught) == [
        "nn.ModuleList",
        "nn.ParameterDict",
    ]
    list(net.parameters())


def test_lists_that_are_meant_are_left_alone():
    class Careful(nn.Module):
        def __init__(self, teacher):
            super().__init__()
            self.teacher = (teacher,)
            self.sizes = [1, 2, 3]
            self.by_hand = []
            for index in range(2):
                self.by_hand.append(nn.Linear(1, 1))
                self.add_module(f"layer{index}", self.by_hand[-1])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(Careful(nn.ReLU()).parameters())) == 4


def test_an_attribute_error_inside_a_property_is_shown_as_itself():
    """Better than PyTorch, which says that the property does not exist."""

    class Broken(nn.Module):
        @property
        def ratio(self):
            return self.layer.no_such_thing

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'no_such_thing'"):
        _ = Broken().ratio
    assert not hasattr(Broken(), "ratio")


def test_a_module_compiles_its_forward_in_place() -> None:
    model = numod.nn.Sequential(numod.nn.Linear(4, 3), numod.nn.Tanh())
    names, x = list(model.state_dict()), numod.randn(2, 4)
    expected = model(x)
    model.compile(fullgraph=True)
    assert numod.allclose(model(x), expected, atol=1e-6) and list(model.state_dict()) == names
    with numod.no_grad():
        model[0].weight.mul_(2)
    assert numod.allclose(model(x), model[1](model[0](x)), atol=1e-6)
    other = copy.deepcopy(model)
    with numod.no_grad():
        other[0].weight.zero_()
    assert not numod.equal(other(x), model(x)) and numod.allclose(
        pickle.loads(pickle.dumps(model))(x), model(x), atol=1e-6
    )
    model.register_forward_hook(lambda module, arguments, result: result * 0)
    assert not model(x).any()


def test_a_parameter_of_a_subclass_that_takes_more() -> None:
    class Named(numod.Tensor):
        def __new__(cls, data: numod.Tensor, name: str = ""):
            made = numod.Tensor._make_subclass(cls, data, data.requires_grad)
            made.name_of_it = name
            return made

    class NamedParameter(Named, nn.Parameter):
        def __new__(cls, data: numod.Tensor, requires_grad: bool = True, name: str = ""):
            made = Named._make_subclass(cls, data, requires_grad)
            made.name_of_it = name
            return made

    module = nn.Module()
    data = numod.ones(2)
    module.weight = NamedParameter(data, name="weight")
    assert (
        list(module.parameters()) == [module.weight]
        and module.weight.name_of_it == "weight"
        and module.weight.data_ptr() == data.data_ptr()
    )
    (module.weight * 3).sum().backward()
    assert module.weight.grad.tolist() == [3, 3] and type(module.weight) is NamedParameter
    with pytest.raises(TypeError, match="unexpected keyword"):
        nn.Parameter(data, name="weight")


# ---- errors


class Wrapper(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)


def notes_of(module, x):
    with pytest.raises(RuntimeError) as caught:
        module(x)
    return caught.value.__notes__


def test_an_error_notes_in_which_submodule_it_occurred():
    inner = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(9, 2)))
    note = "Linear(in_features=9, out_features=2, bias=True)"
    assert notes_of(inner, numod.ones(1, 4)) == [f"in 1.1: {note}"]
    assert notes_of(inner[1][1], numod.ones(1, 4)) == [f"in {note}"]
    wrapper = Wrapper(inner)
    assert notes_of(wrapper, numod.ones(1, 4)) == [f"in body.1.1: {note}"]
    wrapper.register_forward_hook(lambda *arguments: None)
    assert notes_of(wrapper, numod.ones(1, 4)) == [f"in body.1.1: {note}"]


def test_a_note_does_not_hide_the_error():
    class Mute(nn.Module):
        def forward(self, x):
            raise ValueError("forward")

        def extra_repr(self):
            raise TypeError("repr")

    with pytest.raises(ValueError, match="forward"):
        Mute()(1)

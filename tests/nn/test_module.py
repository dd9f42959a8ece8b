"""Module: registration of parameters, buffers and submodules; what `vars(module)` holds."""

import copy
import pickle

import pytest

import numod
from numod import nn
from modules import Net, names


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


def test_none_reserves_a_name():
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

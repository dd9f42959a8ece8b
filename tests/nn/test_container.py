"""Containers: the list and dict protocols, names, errors, text."""

from collections import OrderedDict

import pytest

import numod
from numod import nn


def linears(*sizes):
    return [nn.Linear(size, size) for size in sizes]


def sizes(container):
    return [module.in_features for module in container]


def names(container):
    return list(container._modules)


# ---- Sequential and ModuleList


def test_sequential_calls_in_order():
    class Add(nn.Module):
        def __init__(self, text):
            super().__init__()
            self.text = text

        def forward(self, x):
            return x + self.text

    assert nn.Sequential(Add("a"), Add("b"), Add("c"))("") == "abc"
    assert nn.Sequential()("x") == "x"


def test_sequential_with_names():
    net = nn.Sequential(OrderedDict([("first", nn.Linear(1, 1)), ("second", nn.ReLU())]))
    assert names(net) == ["first", "second"] and net.first is net[0] and net[-1] is net.second
    assert names(net[1:]) == ["second"] and type(net[1:]) is nn.Sequential
    net[1] = nn.Tanh()
    assert isinstance(net.second, nn.Tanh)
    del net[0]
    assert names(net) == ["0"] and not hasattr(net, "second")


@pytest.mark.parametrize("kind", [lambda modules: nn.Sequential(*modules), nn.ModuleList])
def test_list_protocol(kind):
    net = kind(linears(1, 2, 3))
    assert len(net) == 3 and sizes(net) == [1, 2, 3] and names(net) == ["0", "1", "2"]
    assert net[0].in_features == 1 and net[-1].in_features == 3 and net[numod.tensor(1).item()].in_features == 2
    assert sizes(net[1:]) == [2, 3] and type(net[1:]) is type(net) and sizes(net[::-1]) == [3, 2, 1]
    assert net[1] in net and nn.ReLU() not in net
    net[1] = nn.Linear(20, 20)
    net[-1] = nn.Linear(30, 30)
    assert sizes(net) == [1, 20, 30]
    assert net.append(nn.Linear(4, 4)) is net and net.extend(linears(5, 6)) is net
    assert sizes(net) == [1, 20, 30, 4, 5, 6] and names(net) == list("012345")
    net.insert(1, nn.Linear(9, 9))
    net.insert(-1, nn.Linear(8, 8))
    net.insert(len(net), nn.Linear(7, 7))
    assert sizes(net) == [1, 9, 20, 30, 4, 5, 8, 6, 7] and names(net) == list("012345678")
    assert (
        net.pop(1).in_features == 9
        and sizes(net.pop(slice(0, 2))) in ([1, 20], [2, 3])
        and names(net) == list("012345")
    )
    del net[0], net[-1]
    del net[1:3]
    assert sizes(net) == [4, 6] and names(net) == ["0", "1"] and net.get_submodule("1").in_features == 6
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            net[index]
    with pytest.raises(IndexError):
        net[5] = nn.ReLU()
    with pytest.raises(IndexError):
        del net[5]
    with pytest.raises(IndexError, match="Index out of range: 9"):
        net.insert(9, nn.ReLU())
    with pytest.raises(AssertionError, match="expected a Module, got int"):
        net.insert(0, 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.append(3)
    with pytest.raises(TypeError):
        net["0"]
    with pytest.raises(TypeError, match="should be called with an iterable, but got int"):
        net.extend(3)


def test_sequential_arithmetic():
    one, two = nn.Sequential(*linears(1)), nn.Sequential(*linears(2, 3))
    assert sizes(one + two) == [1, 2, 3] and (one + two)[1] is two[0]
    same = one
    same += two
    assert same is one and sizes(one) == [1, 2, 3]
    assert sizes(two * 2) == sizes(2 * two) == [2, 3, 2, 3] and (two * 2)[2] is two[0]
    same = two
    same *= 3
    assert same is two and sizes(two) == [2, 3] * 3 and names(two) == list("012345")
    two += two
    assert len(two) == 12
    for wrong in (lambda: one + nn.ModuleList(), lambda: one.__iadd__([])):
        with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
            wrong()
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        one * 2.0
    for times in (0, -1):
        with pytest.raises(ValueError, match=f"Non-positive multiplication factor {times}"):
            one * times
        with pytest.raises(ValueError, match="Non-positive"):
            one *= times


def test_module_list_arithmetic():
    net = nn.ModuleList(linears(1))
    both = net + linears(2)
    assert sizes(both) == [1, 2] and type(both) is nn.ModuleList and both[0] is net[0]
    net += linears(3)
    assert sizes(net) == [1, 3]
    net += net
    assert sizes(net) == [1, 3, 1, 3]
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        net(1)


def test_module_list_repr_joins_equal_neighbours():
    net = nn.ModuleList(
        [*linears(1, 1, 1), nn.ReLU(), nn.Linear(1, 1), nn.Sequential(nn.Tanh()), nn.Sequential(nn.Tanh())]
    )
    linear = "Linear(in_features=1, out_features=1, bias=True)"
    assert repr(net) == (
        f"ModuleList(\n  (0-2): 3 x {linear}\n  (3): ReLU()\n  (4): {linear}\n  (5-6): 2 x Sequential(\n    (0): "
        "Tanh()\n  )\n)"
    )
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_subclass_slices_are_of_the_subclass():
    class Body(nn.Sequential):
        pass

    assert type(Body(nn.ReLU(), nn.Tanh())[:1]) is Body


# ---- ModuleDict


def test_module_dict():
    net = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    assert list(net) == list(net.keys()) == ["b", "a"] and len(net) == 2 and "a" in net and "c" not in net
    assert net["a"] is net.a is list(net.values())[1] and list(net.items())[0] == ("b", net.b)
    net["c"] = nn.Tanh()
    net.update([("d", nn.Tanh()), ["b", nn.Sigmoid()]])
    net.update(nn.ModuleDict({"e": nn.Tanh()}))
    assert list(net) == ["b", "a", "c", "d", "e"] and isinstance(net.b, nn.Sigmoid)
    assert isinstance(net.pop("d"), nn.Tanh) and not hasattr(net, "d")
    del net["c"]
    with pytest.raises(KeyError):
        net["c"]
    with pytest.raises(KeyError):
        net.pop("c")
    assert [name for name, _ in net.named_parameters()] == ["a.weight", "a.bias"]
    assert repr(net).startswith("ModuleDict(\n  (b): Sigmoid()\n  (a): Linear(")
    net.clear()
    assert len(net) == 0 and repr(net) == "ModuleDict()" and not hasattr(net, "a")


def test_module_dict_errors():
    net = nn.ModuleDict()
    for wrong, error, message in [
        (3, TypeError, "should be called with an iterable of key/value pairs, but got int"),
        ([3], TypeError, "element #0 should be Iterable; is int"),
        ([("a", nn.ReLU(), 1)], ValueError, "element #0 has length 3; 2 is required"),
        ({"a": 3}, TypeError, "int is not a Module subclass"),
        ({"a.b": nn.ReLU()}, KeyError, "contain"),
        ({"keys": nn.ReLU()}, KeyError, "attribute 'keys' already exists"),
        ({1: nn.ReLU()}, TypeError, "module name should be a string"),
    ]:
        with pytest.raises(error, match=message):
            net.update(wrong)


# ---- ParameterList


def test_parameter_list():
    made = nn.Parameter(numod.ones(1))
    values = nn.ParameterList([numod.zeros(2), made, "text"])
    assert isinstance(values[0], nn.Parameter) and values[1] is made and values[-1] == "text" and len(values) == 3
    assert [name for name, _ in values.named_parameters()] == ["0", "1"] and list(values.state_dict()) == ["0", "1"]
    assert values.append(numod.ones(3)) is values and values.extend([numod.ones(4)]) is values
    values += [numod.ones(5)]
    assert [tuple(value.shape) for value in values if value is not values[2]] == [(2,), (1,), (3,), (4,), (5,)]
    assert type(values[1:3]) is nn.ParameterList and values[1:3][0] is made and len(values[1:3]) == 2
    values[0] = numod.ones(7)
    assert isinstance(values[0], nn.Parameter) and values[0].shape == (7,)
    values.insert(0, numod.ones(9))
    assert values[0].shape == (9,) and values[2] is made and values.pop().shape == (5,) and values.pop(2) is made
    del values[0], values[-1]
    assert len(values) == 3 and not hasattr(values, "3") and not [name for name in dir(values) if name.isdigit()]
    with pytest.raises(IndexError, match="index 3 is out of range"):
        values[3]
    for wrong in (3, numod.ones(2)):
        with pytest.raises(TypeError, match="ParameterList.extend should be called with an iterable"):
            values.extend(wrong)
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        values(1)


def test_parameter_list_repr():
    values = nn.ParameterList([numod.ones(2, 3), "text"])
    assert repr(values) == (
        f"ParameterList(\n    (0): Parameter containing: [{numod.float32} of size 2x3]\n    (1): Object of type: str\n)"
    )


# ---- ParameterDict


def test_parameter_dict():
    made = nn.Parameter(numod.ones(1))
    values = nn.ParameterDict({"b": numod.zeros(2), "a": made, "c": 5})
    assert list(values) == ["a", "b", "c"]  # a plain dict comes sorted, as in PyTorch
    assert isinstance(values["b"], nn.Parameter) and values.a is made and values["c"] == 5
    assert (
        list(values.keys()) == ["a", "b", "c"]
        and list(values.values())[2] == 5
        and list(values.items())[0] == ("a", made)
    )
    assert list(reversed(values)) == ["c", "b", "a"] and len(values) == 3 and "a" in values
    assert [name for name, _ in values.named_parameters()] == ["a", "b"]
    values.update(OrderedDict([("z", numod.ones(1)), ("d", numod.ones(1))]))
    values.update([("y", numod.ones(1))])
    assert list(values)[3:] == ["z", "d", "y"]
    assert values.pop("y").shape == (1,) and values.popitem()[0] == "d" and list(values) == ["a", "b", "c", "z"]
    assert values.get("a") is made and values.get("q") is None and values.get("q", 3) == 3
    assert values.setdefault("a") is made and values.setdefault("q", numod.ones(1)).requires_grad
    assert list(values.fromkeys(["k", "l"], 3).items()) == [("k", 3), ("l", 3)]
    del values["q"]
    with pytest.raises(KeyError):
        del values["q"]
    copied = values.copy()
    copied["a"] = numod.zeros(3)
    assert values["a"] is made and list(copied) == list(values)
    values.clear()
    assert len(values) == 0 and not hasattr(values, "a")
    with pytest.raises(KeyError):
        values.popitem()
    with pytest.raises(RuntimeError, match="ParameterDict should not be called"):
        values(1)


def test_parameter_dict_union():
    left = nn.ParameterDict({"a": numod.ones(1), "b": numod.ones(1)})
    right = nn.ParameterDict({"b": numod.zeros(2), "c": numod.ones(1)})
    both = left | right
    assert list(both) == ["a", "b", "c"] and both["b"] is right["b"] and list(left) == ["a", "b"]
    assert list({"x": numod.ones(1)} | right) == ["x", "b", "c"]
    same = left
    same |= right
    assert same is left and left["b"] is right["b"]


def test_parameter_dict_errors():
    values = nn.ParameterDict()
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        values[3] = numod.ones(1)
    with pytest.raises(TypeError, match="should be called with an iterable of key/value pairs"):
        values.update(3)
    with pytest.raises(ValueError, match="element #0 has length 3; 2 is required"):
        values.update([(1, 2, 3)])
    assert list(values) == []


def test_parameter_dict_repr():
    assert repr(nn.ParameterDict({"a": numod.ones(2), "b": 1})) == (
        "ParameterDict(\n    (a): Parameter containing: [numod.FloatTensor of size 2]\n    (b): Object of type: int\n)"
    )

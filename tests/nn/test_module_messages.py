"""Module: its text, warnings and errors that are kinder than PyTorch's, notes on errors."""

import copy
import pickle
import warnings

import pytest

import numod
from numod import nn


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
    assert sorted(str(warning.message).split("Use ")[1].split(",")[0] for warning in caught) == [
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

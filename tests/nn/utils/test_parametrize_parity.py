"""Parametrizations beside the installed PyTorch: the same keys, texts, values, errors and classes."""

import copy
import pickle

import pytest
from parity import LIBRARIES, plain, same_error

import numod

pytestmark = pytest.mark.parity


def pieces(lib):
    """Parametrizations, and the module that registers them, in one of the libraries."""
    nn = lib.nn

    class Symmetric(nn.Module):
        def forward(self, x):
            return (x + x.T) / 2

        def right_inverse(self, x):
            return x

    class Double(nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    class OneWay(nn.Module):
        def forward(self, x):
            return x + 1

    class RankOne(nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) @ y.unsqueeze(-2)

        def right_inverse(self, z):
            return z[:, 0].clone(), z[0].clone() / z[0, 0]

    class Refusing(OneWay):
        def right_inverse(self, x):
            raise NotImplementedError

    class Returning(nn.Module):
        def __init__(self, forward, inverse=lambda x: x):
            super().__init__()
            self.does, self.undoes = forward, inverse

        def forward(self, *x):
            return self.does(*x)

        def right_inverse(self, x):
            return self.undoes(x)

    return {
        "Symmetric": Symmetric,
        "Double": Double,
        "OneWay": OneWay,
        "RankOne": RankOne,
        "Refusing": Refusing,
        "Returning": Returning,
    }


def layer(lib, size=(3, 3)):
    linear = lib.nn.Linear(size[1], size[0])
    with lib.no_grad():
        linear.weight.copy_(lib.arange(1.0, 1 + size[0] * size[1]).reshape(size))
        linear.bias.copy_(lib.arange(float(size[0])))
    return linear


def values(tensor):
    return [round(number, 5) for number in tensor.detach().reshape(-1).tolist()]


def view(module, lib):
    """All that shows of a module."""
    parametrize = lib.nn.utils.parametrize
    weight = module.weight
    return {
        "repr": repr(module),
        "class": type(module).__name__,
        "before": parametrize.type_before_parametrizations(module).__name__,
        "keys": list(module.state_dict()),
        "parameters": [
            (name, tuple(parameter.shape), parameter.requires_grad) for name, parameter in module.named_parameters()
        ],
        "buffers": [(name, tuple(buffer.shape), buffer.requires_grad) for name, buffer in module.named_buffers()],
        "modules": [(name, type(submodule).__name__) for name, submodule in module.named_modules()],
        "parametrized": [
            parametrize.is_parametrized(module),
            *[parametrize.is_parametrized(module, name) for name in ("weight", "bias", "x")],
        ],
        "weight": (values(weight), weight.requires_grad, weight.is_leaf, type(weight).__name__),
        "output": values(module(lib.ones(2, 3))),
    }


def outcome(action, lib):
    """The value, or the type and text of the error."""
    try:
        return action(lib)
    except Exception as error:
        return type(error).__name__, plain(error)


def same(action, may_fail=False):
    """`action(lib)` gives the same value in both libraries, or where it `may_fail` the same error."""
    ours, theirs = (outcome(action, lib) if may_fail else action(lib) for lib in LIBRARIES)
    assert ours == theirs


def registering(*names, unsafe=False):
    def action(lib):
        module, kinds = layer(lib), pieces(lib)
        for name in names:
            lib.nn.utils.parametrize.register_parametrization(module, "weight", kinds[name](), unsafe=unsafe)
        return module

    return action


CHAINS = [
    ("Symmetric",),
    ("Double",),
    ("OneWay",),
    ("RankOne",),
    ("Refusing",),
    ("Symmetric", "Double"),
    ("RankOne", "Double", "OneWay"),
    ("Double", "Double"),
]


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_a_parametrized_layer(names):
    same(lambda lib: view(registering(*names)(lib), lib))


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
@pytest.mark.parametrize("leave", [True, False])
def test_removal(names, leave):
    def action(lib):
        module = registering(*names)(lib)
        lib.nn.utils.parametrize.register_parametrization(module, "bias", pieces(lib)["Double"]())
        classes = [type(module).__name__]
        for name in ("weight", "bias"):
            lib.nn.utils.parametrize.remove_parametrizations(module, name, leave_parametrized=leave)
            classes.append(type(module).__name__)
        return classes, view(module, lib)

    same(action, may_fail=True)


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_assignment(names):
    def action(lib):
        module = registering(*names)(lib)
        module.weight = lib.ones(3, 3) * 6
        return view(module, lib)

    same(action, may_fail=True)


def gradients(lib, names):
    module = registering(*names)(lib)
    module(lib.ones(2, 3)).square().sum().backward()
    return [values(parameter.grad) for parameter in module.parameters()]


@pytest.mark.parametrize("names", CHAINS, ids="-".join)
def test_gradients(names):
    same(lambda lib: gradients(lib, names))


def errors(lib):
    nn, kinds, register = lib.nn, pieces(lib), lib.nn.utils.parametrize.register_parametrization
    remove, Returning = lib.nn.utils.parametrize.remove_parametrizations, kinds["Returning"]
    linear = layer(lib)
    half = lib.float64
    return {
        "no such tensor": lambda: register(linear, "x", kinds["Double"]()),
        "a plain attribute": lambda: register(linear, "in_features", kinds["Double"]()),
        "not registered": lambda: remove(linear, "weight"),
        "dtype": lambda: register(linear, "weight", Returning(lambda x: x.to(half))),
        "shape": lambda: register(linear, "weight", Returning(lambda x: x[0])),
        "no tensor": lambda: register(linear, "weight", Returning(lambda x: 3)),
        "inverse no tensor": lambda: register(linear, "weight", Returning(lambda x: x, lambda x: 3)),
        "inverse none": lambda: register(linear, "weight", Returning(lambda x: x, lambda x: None)),
        "inverse dtype": lambda: register(linear, "weight", Returning(lambda x: x, lambda x: x.to(half)), unsafe=True),
        "inverse parts": lambda: register(linear, "weight", Returning(lambda x, y: x, lambda x: (x, 3))),
        "second dtype": lambda: register(
            register(linear, "weight", kinds["Double"]()), "weight", Returning(lambda x: x.to(half))
        ),
        "second shape": lambda: register(
            register(linear, "weight", kinds["Double"]()), "weight", Returning(lambda x: x[0])
        ),
        "second no tensor": lambda: register(
            register(linear, "weight", kinds["Double"]()), "weight", Returning(lambda x: 1)
        ),
        "second inverse": lambda: register(
            register(linear, "weight", kinds["Double"]()), "weight", Returning(lambda x: x, lambda x: x[0])
        ),
        "second inverse dtype": lambda: (
            register(linear, "bias", kinds["Double"]())
            and register(linear, "bias", Returning(lambda x: x, lambda x: x.to(half)))
        ),
        "second inverse list": lambda: (
            register(linear, "bias", kinds["Double"]())
            and register(linear, "bias", Returning(lambda x: x, lambda x: [x]))
        ),
        "assigned one way": lambda: setattr(register(linear, "weight", kinds["OneWay"]()), "weight", lib.ones(3, 3)),
        "assigned another dtype": lambda: setattr(
            register(linear, "weight", kinds["Double"]()), "weight", lib.ones(3, 3).to(half)
        ),
        "assigned a parameter": lambda: setattr(
            register(linear, "weight", kinds["Double"]()), "weight", nn.Parameter(lib.ones(3, 3))
        ),
        "deleted": lambda: delattr(register(linear, "weight", kinds["Double"]()), "weight"),
        "left without value": lambda: remove(
            register(linear, "weight", kinds["RankOne"]()), "weight", leave_parametrized=False
        ),
        "no parametrizations": lambda: lib.nn.utils.parametrize.ParametrizationList([], lib.ones(1)),
        "not a module": lambda: register(linear, "weight", lambda x: x),
    }


@pytest.mark.parametrize("name", list(errors(numod)))
def test_errors(name):
    if name in ("deleted", "not a module"):  # Python's own words
        for lib in LIBRARIES:
            with pytest.raises(AttributeError):
                errors(lib)[name]()
    else:
        same_error(lambda lib: errors(lib)[name](), text=True)


def test_buffers_and_requires_grad():
    def action(lib):
        register = lib.nn.utils.parametrize.register_parametrization
        module, kinds = layer(lib), pieces(lib)
        module.register_buffer("mean", lib.ones(3, 3))
        module.register_buffer("hidden", lib.ones(3), persistent=False)
        module.weight.requires_grad_(False)
        for name, kind in (("mean", "RankOne"), ("hidden", "Double"), ("weight", "RankOne")):
            register(module, name, kinds[kind]())
        shown = view(module, lib)
        lib.nn.utils.parametrize.remove_parametrizations(module, "mean")
        return shown, view(module, lib), list(module._buffers), module.mean.requires_grad

    same(action)


def test_unsafe_may_change_the_shape():
    def action(lib):
        module, kinds = layer(lib), pieces(lib)
        lib.nn.utils.parametrize.register_parametrization(
            module, "weight", kinds["Returning"](lambda x: x[:2], lambda x: x), unsafe=True
        )
        lib.nn.utils.parametrize.register_parametrization(module, "weight", kinds["Double"]())
        return module.parametrizations["weight"].unsafe, tuple(module.weight.shape), values(module.weight)

    same(action)


def test_training_mode_is_handed_on():
    def action(lib):
        module = layer(lib).eval()
        lib.nn.utils.parametrize.register_parametrization(module, "weight", pieces(lib)["Double"]())
        before = module.parametrizations.weight[0].training
        return before, module.train().parametrizations.weight[0].training

    same(action)


def test_deep_copy_and_pickle():
    def action(lib):
        module = registering("Double", "Symmetric")(lib)
        twin = copy.deepcopy(module)
        twin.weight = lib.zeros(3, 3)
        return (
            view(twin, lib),
            view(module, lib),
            twin.parametrizations.weight.original is not module.parametrizations.weight.original,
        )

    same(action)
    for lib in LIBRARIES:
        with pytest.raises(
            RuntimeError, match="Serialization of parametrized modules is only supported through state_dict()"
        ):
            pickle.dumps(lib.nn.Sequential(registering("Double")(lib)))


def test_state_dict_round_trip():
    def action(lib):
        module, other = registering("RankOne", "Double")(lib), registering("RankOne", "Double")(lib)
        with lib.no_grad():
            for parameter in other.parameters():
                parameter.mul_(3)
        answer = str(module.load_state_dict(other.state_dict()))
        try:
            layer(lib).load_state_dict(other.state_dict())
        except RuntimeError as error:
            text, _, _ = plain(error).partition("\n\tThe checkpoint is of")  # a hint that PyTorch does not give
            return answer, text, view(module, lib)

    same(action)


def test_transfer():
    def action(lib):
        source, target = registering("RankOne", "Double")(lib), layer(lib)
        lib.nn.utils.parametrize.register_parametrization(source, "bias", pieces(lib)["Double"]())
        result = lib.nn.utils.parametrize.transfer_parametrizations_and_params(source, target)
        bare = lib.nn.utils.parametrize.transfer_parametrizations_and_params(source, lib.nn.Module(), "bias")
        shared = [parameter is other for parameter, other in zip(source.parameters(), target.parameters())]
        return view(target, lib), result is target, shared, list(bare.state_dict()), values(bare.bias)

    same(action)


def test_cached_computes_once():
    def action(lib):
        calls = []

        class Counting(lib.nn.Module):
            def forward(self, x):
                calls.append(1)
                return x

        module = layer(lib)
        lib.nn.utils.parametrize.register_parametrization(module, "weight", Counting(), unsafe=True)
        with lib.nn.utils.parametrize.cached():
            with lib.nn.utils.parametrize.cached():
                first = module.weight
            again = module.weight is first
        return len(calls), again, module.weight is first, len(calls)

    same(action)


@pytest.mark.parametrize("dim", [0, 1, 2, -2, None])
@pytest.mark.parametrize("deprecated", [True, False])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_weight_norm(dim, deprecated):
    def action(lib):
        class Net(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = lib.nn.Parameter((lib.arange(24.0) - 7).reshape(2, 3, 4))

            def forward(self, x):
                return (self.weight * x).sum()

        utils = lib.nn.utils
        net = (utils if deprecated else utils.parametrizations).weight_norm(Net(), dim=dim)
        optimizer = lib.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            net(2.0).square().backward()
            optimizer.step()
        keys, shapes = list(net.state_dict()), [tuple(parameter.shape) for parameter in net.parameters()]
        net(1.0)
        before = values(net.weight)
        utils.remove_weight_norm(net) if deprecated else utils.parametrize.remove_parametrizations(net, "weight")
        return (
            keys,
            shapes,
            [round(number, 3) for number in before],
            list(net.state_dict()),
            repr(net),
            type(net.weight).__name__,
            net.weight.requires_grad,
        )

    same(action)


def test_weight_norm_reads_older_states():
    def action(lib):
        with pytest.warns(FutureWarning):
            old_norm = lib.nn.utils.weight_norm(layer(lib))
        newer = lib.nn.utils.parametrizations.weight_norm(lib.nn.Linear(3, 3))
        state = old_norm.state_dict()
        return str(newer.load_state_dict(state)), values(newer.weight), list(state)

    same(action)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_errors_of_norms():
    for action in (
        lambda lib: lib.nn.utils.weight_norm(lib.nn.utils.weight_norm(layer(lib))),
        lambda lib: lib.nn.utils.remove_weight_norm(layer(lib)),
        lambda lib: lib.nn.utils.spectral_norm(lib.nn.utils.spectral_norm(layer(lib))),
        lambda lib: lib.nn.utils.remove_spectral_norm(layer(lib)),
        lambda lib: lib.nn.utils.spectral_norm(layer(lib), n_power_iterations=0),
        lambda lib: lib.nn.utils.spectral_norm(lib.nn.Linear(2, 2, bias=False), "bias"),
        lambda lib: lib.nn.utils.spectral_norm(lib.nn.LazyLinear(2)),
        lambda lib: lib.nn.utils.weight_norm(lib.nn.LazyLinear(2)),
        lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), n_power_iterations=0),
        lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), dim=2),
        lambda lib: lib.nn.utils.parametrizations.spectral_norm(layer(lib), "x"),
    ):
        same_error(action, text=True)


@pytest.mark.parametrize("deprecated", [True, False])
def test_spectral_norm(deprecated):
    """With the same vectors, the same weights, buffers and gradients, in training and evaluation."""

    def action(lib):
        net = layer(lib, (4, 3))
        utils = lib.nn.utils
        (utils if deprecated else utils.parametrizations).spectral_norm(net, n_power_iterations=2)
        state = net.state_dict()
        for key in state:
            if key.endswith(("_u", "_v")):
                state[key] = (lib.arange(state[key].shape[0] * 1.0) + 1) / 5
        answer = str(net.load_state_dict(state))
        outputs = []
        for training in (True, True, False):
            net.train(training)
            output = net(lib.ones(2, 3))
            net.zero_grad()
            output.square().sum().backward()
            outputs.append(
                (
                    values(output),
                    [[round(x, 3) for x in values(parameter.grad)] for parameter in net.parameters()],
                    values(net.weight),
                )
            )
        buffers = [(name, values(buffer)) for name, buffer in net.named_buffers()]
        metadata = str(sorted(state._metadata.items()))
        utils.remove_spectral_norm(net) if deprecated else utils.parametrize.remove_parametrizations(net, "weight")
        return (
            answer,
            list(state),
            outputs,
            buffers,
            metadata,
            values(net.weight),
            list(net.state_dict()),
            len(net._forward_pre_hooks),
        )

    same(action)


def test_spectral_norm_reads_states_of_version_0():
    def action(lib):
        net = lib.nn.utils.spectral_norm(layer(lib, (4, 3)))
        state = net.state_dict()
        weight = state["weight_orig"]
        state = {"bias": state["bias"], "weight_orig": weight, "weight": weight / 5, "weight_u": lib.ones(4) / 2}
        answer = str(net.load_state_dict(state))
        del state["weight_u"]
        net = net.eval()
        net(lib.ones(1, 3))
        shown = values(net.weight), answer
        try:
            net.load_state_dict(state)
        except RuntimeError as error:
            return shown, plain(error)

    same(action)


def test_spectral_norm_of_a_vector_and_a_block():
    def action(lib):
        net = lib.nn.utils.parametrizations.spectral_norm(layer(lib), "bias")
        block = lib.nn.Module()
        block.weight = lib.nn.Parameter(lib.arange(24.0).reshape(2, 3, 4))
        lib.nn.utils.parametrizations.spectral_norm(block, dim=-2)
        return (
            values(net.bias),
            list(net.state_dict()),
            [tuple(value.shape) for value in block.state_dict().values()],
            [round(x, 2) for x in values(block.weight)],
        )

    same(action)

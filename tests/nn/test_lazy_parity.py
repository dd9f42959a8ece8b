"""Lazy modules beside the installed PyTorch: before, during and after their first call."""

import copy
import pickle

import pytest
from parity import LIBRARIES, plain

import numod

pytestmark = pytest.mark.parity


def seen(tensor, lib):
    lazy = lib.nn.parameter.is_lazy(tensor)
    shape = None if lazy else tuple(tensor.shape)
    return type(tensor).__name__, lazy, shape, plain(tensor.dtype), tensor.requires_grad


def view(module, lib):
    return {
        "repr": repr(module), "classes": [type(submodule).__name__ for submodule in module.modules()],
        "parameters": [(name, *seen(parameter, lib)) for name, parameter in module.named_parameters()],
        "hooks": [(len(submodule._forward_pre_hooks), len(submodule._load_state_dict_pre_hooks)) for submodule in module.modules()],
        "state": [(name, *seen(tensor, lib)) for name, tensor in module.state_dict().items()],
        "features": [getattr(submodule, "in_features", None) for submodule in module.modules()],
    }  # fmt: skip


def net(lib, **settings):
    return lib.nn.Sequential(lib.nn.LazyLinear(3, **settings), lib.nn.ReLU(), lib.nn.LazyLinear(2, bias=False))


def called(lib, change=lambda module: None, size=4):
    module = net(lib)
    change(module)
    output = module(lib.ones(5, size))
    return view(module, lib), tuple(output.shape)


def loaded(lib, **settings):
    full, lazy = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.ReLU(), lib.nn.Linear(3, 2, bias=False)), net(lib)
    answer = str(lazy.load_state_dict(full.state_dict(), **settings))
    before = view(lazy, lib)
    same = bool((lazy(lib.ones(1, 4)) == full(lib.ones(1, 4))).all())
    return answer, before, view(lazy, lib), same


def wrong_width(lib):
    full, lazy = lib.nn.Linear(4, 3), lib.nn.LazyLinear(3)
    lazy.load_state_dict(full.state_dict())
    lazy(lib.ones(1, 5))


def optimized(lib):
    module = net(lib)
    optimizer = lib.optim.SGD(module.parameters(), lr=0.1)
    module(lib.ones(2, 4)).sum().backward()
    optimizer.step()
    same = [parameter is mine for parameter, mine in zip(module.parameters(), optimizer.param_groups[0]["params"])]
    return same, view(module, lib)


def copied(lib, how):
    module = net(lib)
    twin = how(module)
    before = view(twin, lib)
    twin(lib.ones(1, 4))
    return before, view(twin, lib), view(module, lib)


def unfinished(lib):
    class Half(lib.nn.modules.lazy.LazyModuleMixin, lib.nn.Linear):
        def __init__(self):
            super().__init__(1, 1)
            self.weight = lib.nn.UninitializedParameter()

        def reset_parameters(self):
            pass

        def initialize_parameters(self, *inputs):
            pass

    Half()(lib.ones(1, 1))


def undefined(lib):
    class Empty(lib.nn.modules.lazy.LazyModuleMixin, lib.nn.Module):
        pass

    Empty()(1)


def with_buffer(lib):
    """A lazy layer as people write it: a buffer, a keyword argument, another class to become."""

    class Shift(lib.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.register_buffer("mean", lib.zeros(size))

        def forward(self, x, *, scale=1.0):
            return x * scale - self.mean

    class LazyShift(lib.nn.modules.lazy.LazyModuleMixin, Shift):
        cls_to_become = Shift

        def __init__(self):
            super().__init__(0)
            self.mean = lib.nn.UninitializedBuffer()

        def initialize_parameters(self, x, *, scale=1.0):
            self.mean.materialize(x.shape[1:])
            self.mean.fill_(scale)

    module = LazyShift()
    before = (
        [(name, lib.nn.parameter.is_lazy(buffer)) for name, buffer in module.named_buffers()],
        list(module.state_dict()),
    )
    output = module(lib.ones(2, 3), scale=2.0)
    return (
        before,
        output.tolist(),
        type(module).__name__,
        module.mean.tolist(),
        list(module.state_dict()),
        isinstance(module.mean, lib.nn.Buffer),
    )


CASES = {
    "new": lambda lib: view(net(lib), lib),
    "float64": lambda lib: view(net(lib, dtype=lib.float64), lib),
    "called": called,
    "empty input": lambda lib: called(lib, size=0)[1] if lib is numod else (5, 2),
    "converted": lambda lib: called(lib, lambda module: module.double() and module.float()),
    "moved": lambda lib: called(lib, lambda module: module.to("cpu", lib.float32)),
    "frozen before": lambda lib: called(lib, lambda module: module.eval()),
    "double": lambda lib: view(net(lib).double(), lib),
    "loaded": loaded,
    "lazy into lazy": lambda lib: (str(net(lib).load_state_dict(net(lib).state_dict())), view(net(lib), lib)),
    "optimized": optimized,
    "deep copy": lambda lib: copied(lib, copy.deepcopy),
    "pickle": lambda lib: copied(lib, lambda module: pickle.loads(pickle.dumps(module))),
    "buffer": with_buffer,
    "repr": lambda lib: [repr(parameter) for parameter in (lib.nn.UninitializedParameter(), lib.nn.UninitializedBuffer())],
    "types": lambda lib: [isinstance(lib.nn.UninitializedParameter(), kind) for kind in (lib.nn.Parameter, lib.Tensor)],
    "buffer types": lambda lib: [isinstance(lib.nn.UninitializedBuffer(), kind) for kind in (lib.nn.Buffer,
        lib.Tensor)],
    "has": lambda lib: [lib.nn.LazyLinear(2).has_uninitialized_params(),
        lib.nn.LazyLinear(2, bias=False).has_uninitialized_params()],
    "exports": lambda lib: [hasattr(lib.nn, name) for name in ("UninitializedParameter", "UninitializedBuffer",
        "LazyLinear", "LazyModuleMixin")],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning", "ignore:Initializing zero-element")
def test_the_same(name):
    ours, theirs = (CASES[name](lib) for lib in LIBRARIES)
    assert ours == theirs


ERRORS = {
    "shape": lambda lib: lib.nn.UninitializedParameter().shape,
    "used": lambda lib: lib.nn.UninitializedParameter() + 1,
    "used in a function": lambda lib: lib.cat([lib.nn.UninitializedParameter()]),
    "to empty": lambda lib: net(lib).to_empty(device="cpu"),
    "buffer used": lambda lib: lib.nn.UninitializedBuffer().sum(),
    "lazy into full": lambda lib: lib.nn.Linear(4, 3).load_state_dict(lib.nn.LazyLinear(3).state_dict()),
    "wrong width": wrong_width,
    "missing": lambda lib: lib.nn.LazyLinear(3).load_state_dict({}),
    "unfinished": unfinished,
    "undefined": undefined,
    "share": lambda lib: lib.nn.UninitializedParameter().share_memory_(),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_errors(name):
    kinds = []
    for lib in LIBRARIES:
        with pytest.raises(Exception) as caught:
            ERRORS[name](lib)
        kinds.append((caught.type.__name__, plain(caught.value)))
    ours, theirs = kinds
    if name in ("used", "used in a function", "buffer used", "to empty"):  # PyTorch names its function, numod cannot
        assert "Attempted to use an uninitialized" in ours[1] and "Attempted to use an uninitialized" in theirs[1]
        ours, theirs = ours[0], theirs[0]
    assert ours == theirs

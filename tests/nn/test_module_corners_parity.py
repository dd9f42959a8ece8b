"""Corners of Module beside the installed PyTorch: the same result, or the same kind of error."""

import copy

import numpy as np
import pytest
from parity import LIBRARIES, plain


pytestmark = pytest.mark.parity


def layer(lib):
    return lib.nn.Linear(2, 2)


def after(module, change, look=repr):
    change(module)
    return look(module)


def walked(lib, seen):
    module = lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.ReLU()))
    memo = {module[attribute] for attribute in seen}
    return [name for name, _ in module.named_modules(memo=memo)], len(memo)


def dtypes(lib, convert):
    module = layer(lib)
    module.register_buffer("count", lib.tensor(3))
    module.register_buffer("mean", lib.ones(1, dtype=lib.float64))
    weight = module.weight
    module.weight.grad = lib.ones(2, 2)
    result = convert(module)
    kinds = [
        plain(tensor.dtype) for tensor in (module.weight, module.bias, module.count, module.mean, module.weight.grad)
    ]
    return kinds, result is module, module.weight is weight


def before_init(lib, assign):
    return type("Early", (lib.nn.Module,), {"__init__": lambda self: assign(self)})()


CASES = {
    "name": lambda lib: layer(lib)._get_name(),
    "register": lambda lib: after(layer(lib), lambda m: m.register_module("act", lib.nn.ReLU())),
    "register taken": lambda lib: layer(lib).register_module("forward", lib.nn.ReLU()),
    "set": lambda lib: after(layer(lib), lambda m: m.set_submodule("act", lib.nn.ReLU())),
    "set below": lambda lib: after(lib.nn.Sequential(layer(lib)), lambda m: m.set_submodule("0.act", lib.nn.ReLU())),
    "set strict": lambda lib: after(lib.nn.Sequential(layer(lib)),
        lambda m: m.set_submodule("0", lib.nn.ReLU(), strict=True)),
    "set strict missing": lambda lib: layer(lib).set_submodule("act", lib.nn.ReLU(), strict=True),
    "set below nothing": lambda lib: layer(lib).set_submodule("a.b", lib.nn.ReLU()),
    "set over a parameter": lambda lib: layer(lib).set_submodule("weight", lib.nn.ReLU()),
    "set no module": lambda lib: layer(lib).set_submodule("act", 3),
    "walk": lambda lib: walked(lib, []),
    "walk with memo": lambda lib: walked(lib, [1]),
    "half": lambda lib: dtypes(lib, lambda m: m.half()),
    "bfloat16": lambda lib: dtypes(lib, lambda m: m.bfloat16()),
    "to half": lambda lib: dtypes(lib, lambda m: m.to(lib.float16)),
    "to bfloat16": lambda lib: dtypes(lib, lambda m: m.to(dtype=lib.bfloat16)),
    "type": lambda lib: dtypes(lib, lambda m: m.type(lib.float64)),
    "type by name": lambda lib: dtypes(lib, lambda m: m.type(f"{lib.__name__}.HalfTensor")),
    "type by a wrong name": lambda lib: layer(lib).type("DoubleTensor"),
    "half output": lambda lib: plain(layer(lib).half()(lib.ones(1, 2).half()).dtype),
    "to integers": lambda lib: layer(lib).to(lib.int64),
    "parameter of a list": lambda lib: lib.nn.Parameter([1.0]),
    "parameter of a number": lambda lib: lib.nn.Parameter(1.0),
    "parameter of an array": lambda lib: lib.nn.Parameter(np.ones(2)),
    "parameter of integers": lambda lib: repr(lib.nn.Parameter(lib.tensor([1]), requires_grad=False)),
    "buffer of a list": lambda lib: lib.nn.Buffer([1.0]),
    "buffer": lambda lib: repr(lib.nn.Buffer(lib.ones(2))),
    "dotted module": lambda lib: after(layer(lib), lambda m: setattr(m, "a.b", lib.nn.ReLU())),
    "dotted parameter": lambda lib: setattr(layer(lib), "a.b", lib.nn.Parameter(lib.ones(1))),
    "dotted value": lambda lib: after(layer(lib), lambda m: setattr(m, "a.b", 3), lambda m: getattr(m, "a.b")),
    "empty name": lambda lib: after(layer(lib), lambda m: setattr(m, "", lib.nn.ReLU())),
    "module before init": lambda lib: before_init(lib, lambda self: setattr(self, "a", lib.nn.ReLU())),
    "parameter before init": lambda lib: before_init(lib,
        lambda self: setattr(self, "a", lib.nn.Parameter(lib.ones(1)))),
    "buffer before init": lambda lib: before_init(lib, lambda self: self.register_buffer("a", lib.ones(1))),
    "incompatible keys": lambda lib: str(layer(lib).load_state_dict({}, strict=False)),
    "shared": lambda lib: [parameter.is_shared() for parameter in layer(lib).share_memory().parameters()],
    "copied parameter": lambda lib: repr(copy.deepcopy(lib.nn.Parameter(lib.ones(1), False))),
    "kinds": lambda lib: [type(value).__name__ for value in (lib.nn.Parameter(lib.ones(1)) + 1,
        lib.nn.Parameter(lib.ones(1)).clone())],
    "global hooks": lambda lib: [hasattr(lib.nn.modules.module, f"register_module_{kind}_hook") for kind in
                                 ("forward", "forward_pre", "backward", "full_backward", "full_backward_pre",
                                 "buffer_registration")],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_same(name):
    results = []
    for lib in LIBRARIES:
        try:
            results.append(plain(CASES[name](lib)))
        except Exception as error:
            results.append(type(error))
    assert results[0] == results[1]

"""The names and signatures of `nn.utils`, `func` and the lazy modules beside the installed PyTorch's."""

import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

# another's, and layouts numod does not have
LATER = {"rnn", "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"}
MODULES = [
    "nn.utils",
    "nn.utils.parametrize",
    "nn.utils.parametrizations",
    "nn.utils.weight_norm",
    "nn.utils.spectral_norm",
    "nn.utils.stateless",
    "nn.utils.fusion",
]
PRUNE = [
    "BasePruningMethod", "PruningContainer", "Identity", "RandomUnstructured", "L1Unstructured", "RandomStructured",
    "LnStructured", "CustomFromMask", "identity", "random_unstructured", "l1_unstructured", "random_structured",
    "ln_structured", "global_unstructured", "custom_from_mask", "remove", "is_pruned",
]  # fmt: skip
FUNC = ["functional_call", "stack_module_state", "grad", "grad_and_value", "vjp"]
METHODS = {
    "nn.utils.prune.BasePruningMethod": ["apply", "apply_mask", "compute_mask", "prune", "remove"],
    "nn.utils.prune.PruningContainer": ["add_pruning_method", "compute_mask"],
    "nn.utils.prune.LnStructured": ["apply", "__init__"],
    "nn.utils.prune.L1Unstructured": ["apply", "__init__"],
    "nn.utils.prune.RandomStructured": ["apply", "__init__"],
    "nn.utils.prune.CustomFromMask": ["apply", "__init__"],
    "nn.utils.parametrize.ParametrizationList": ["__init__", "right_inverse", "forward"],
    "nn.modules.lazy.LazyModuleMixin": ["initialize_parameters", "has_uninitialized_params"],
    "nn.parameter.UninitializedParameter": ["__new__", "materialize"],
    "nn.parameter.UninitializedBuffer": ["__new__", "materialize"],
    "nn.LazyLinear": ["__init__"],
    "nn.Module": ["share_memory", "type", "half", "bfloat16", "set_submodule", "register_module", "named_modules"],
}


def names():
    for module in MODULES:
        for name in importlib.import_module(f"torch.{module}").__all__:
            if name not in LATER:
                yield f"{module}.{name}"
    yield from (f"nn.utils.prune.{name}" for name in PRUNE)
    yield from (f"func.{name}" for name in FUNC)
    yield from (f"{owner}.{method}" for owner, methods in METHODS.items() for method in methods)


def find(library, path):
    """What the dotted path names, through modules and attributes.

    A path ends in the function where it and its file share the name.
    """
    parts = path.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            result = importlib.import_module(".".join([library, *parts[:split]]))
        except ImportError:
            continue
        for name in parts[split:]:
            result = getattr(result, name)
        return result


def parameters_of(function):
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("path", list(names()))
def test_the_same_signature(path):
    importlib.import_module("torch.nn.utils.prune")
    ours, theirs = find("numod", path), find("torch", path)
    assert ours is not None and type(ours).__name__ in (type(theirs).__name__, "ABCMeta", "type", "function")
    if callable(theirs) and not inspect.ismodule(theirs):
        assert parameters_of(ours) == parameters_of(theirs)

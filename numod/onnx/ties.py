"""Weights that an exporter stored once because they were equal, each for itself again.

PyTorch's exporters store equal tensors once: in a new network the biases and running means of all layers, which are
zeros, and weights and running variances of batch normalizations, which are ones. Training must change each for itself,
and running statistics, which are written to, must share memory with nothing. Tensors that the network itself shares are
one parameter in PyTorch, too; their names are not in the file.
"""

from __future__ import annotations

from ..core import Tensor
from .layers import count_uses
from .program import Program, Step

# names in PyTorch of the vectors among an operator's inputs, by position
_VECTORS = {
    "BatchNormalization": {1: "weight", 2: "bias", 3: "running_mean", 4: "running_var"},
    "LayerNormalization": {1: "weight", 2: "bias"},
    "InstanceNormalization": {1: "weight", 2: "bias"},
    "Conv": {2: "bias"},
    "ConvTranspose": {2: "bias"},
    "Gemm": {2: "bias"},
}


def separate_equal_tensors(program: Program, stored: dict[str, Tensor]) -> None:
    """Let each layer of a program have its own tensors. Adds the copies to `stored`."""
    _copy_aliases(program, stored)
    uses = count_uses(program)
    readers: dict[str, list[tuple[str, str]]] = {}  # of a tensor: the modules, and its name in them
    for step in program.steps:
        for position, name in enumerate(step.inputs):
            if uses[name] > 1 and name in stored:
                readers.setdefault(name, []).append(_role(step, position))
    copies: dict[tuple[str, str], str] = {}
    for step in program.steps:
        inputs = list(step.inputs)
        for position, name in enumerate(step.inputs):
            roles, (module, leaf) = readers.get(name, ()), _role(step, position)
            if not leaf or len(set(roles)) < 2:
                continue
            is_own = module and module != roles[0][0] and stored[name].ndim == 1
            if is_own or leaf.startswith("running_"):
                inputs[position] = _copy(stored, copies, name, module or name, leaf)
        step.inputs = tuple(inputs)
    for name in set(readers) - set(count_uses(program)):
        del stored[name]


def _role(step: Step, position: int) -> tuple[str, str]:
    """(the path of the module that a step is from, the name in it of an input); "" for what is not known."""
    leaf = _VECTORS.get(step.operator.name, {}).get(position, "")
    return _module_path(step) or ("" if leaf else step.label), leaf


def _copy_aliases(program: Program, stored: dict[str, Tensor]) -> None:
    """Identity of a stored tensor under a name of the state dict, as the exporter by TorchScript writes it."""
    steps = []
    for step in program.steps:
        source, alias = (*step.inputs, "")[0], step.outputs[0]
        is_alias = step.operator.name == "Identity" and source in stored and alias not in program.outputs
        if is_alias and "." in alias and not alias.startswith("/"):
            stored[alias] = stored[source].clone()
        else:
            steps.append(step)
    program.steps = steps


def _module_path(step: Step) -> str:
    """The path of the module that a step is from, as the newer exporter notes it; "" in other files."""
    return "" if step.label.startswith("node '/") else step.scope


def _copy(stored: dict[str, Tensor], copies: dict[tuple[str, str], str], name: str, path: str, leaf: str) -> str:
    """The name of a module's own copy of a tensor."""
    if (path, leaf) not in copies:
        number, candidate = 0, f"{path}.{leaf}"
        while candidate in stored:
            number += 1
            candidate = f"{path}.{leaf}_{number}"
        copies[path, leaf] = candidate
        stored[candidate] = stored[name].clone()
    return copies[path, leaf]

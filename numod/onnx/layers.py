"""Products with weights as nn.Linear layers, so that what works on layers works on loaded models: quantization, hooks.

A layer takes the place of a Gemm, or of a MatMul and the Add of its bias, whose weights nothing else uses.
"""

from __future__ import annotations

from collections import Counter

from ..core import Tensor
from ..nn.linear import Linear
from ..nn.module import Module
from ..nn.parameter import Parameter
from .model import add_layer, identifier
from .program import Program, Step
from .registry import internal


def call_layer(x: Tensor, *, parent: Module, name: str) -> Tensor:
    """The step of a layer. It is looked up at each call, since quantization replaces it."""
    return parent._modules[name](x)


LAYER = internal("a layer", call_layer)


def make_layers(program: Program, tensors: dict[str, Tensor], trained: set[str], root: Module) -> None:
    """Replace steps of a program by layers below `root`, and take their weights out of `tensors`."""
    uses = Counter(name for step in program.all_steps() for name in step.inputs) + Counter(program.outputs)
    uses += Counter(name for step in program.steps for name in step.captured)
    used_once = {name for name in trained if uses[name] == 1}
    readers = {name: step for step in program.steps for name in step.inputs}
    replaced: dict[int, Step | None] = {}
    for step in program.steps:
        parts = _gemm(step, tensors, used_once)
        if parts is None and (parts := _product(step, tensors, used_once)) is not None and uses[step.outputs[0]] == 1:
            parts, adding = _with_bias(step, parts, readers.get(step.outputs[0]), tensors, used_once)
            if adding is not None:
                replaced[id(step)], step = None, adding
        if parts is None:
            continue
        x, weight, bias, transposed = parts
        values = tensors.pop(weight), tensors.pop(bias, None)
        layer = _linear(values[0].T.contiguous() if transposed else values[0], values[1])
        module_and_name = add_layer(root, _path(weight, bias), layer)
        attributes = dict(zip(("parent", "name"), module_and_name))
        replaced[id(step)] = Step(LAYER, (x,), step.outputs, attributes, step.label)
    steps = [replaced.get(id(step), step) for step in program.steps]
    program.steps = [step for step in steps if step is not None]


Parts = tuple[str, str, str, bool]  # names of input, weight and bias ("" if none), and whether the weight is (in, out)


def _gemm(step: Step, tensors: dict[str, Tensor], used_once: set[str]) -> Parts | None:
    """The parts of a Gemm step; None for other steps, and where a layer cannot take its place."""
    if step.operator.name != "Gemm" or step.operator.since < 7 or len(step.inputs) < 2:
        return None
    x, weight, bias = (*step.inputs, "")[:3]
    plain = step.attributes.get("alpha", 1) == step.attributes.get("beta", 1) == 1 and not step.attributes.get("transA")
    transposed = not step.attributes.get("transB")
    if not plain or weight not in used_once or tensors[weight].ndim != 2:
        return None
    if bias and not _is_bias(bias, weight, transposed, tensors, used_once):
        return None
    return x, weight, bias, transposed


def _product(step: Step, tensors: dict[str, Tensor], used_once: set[str]) -> Parts | None:
    """The parts of a MatMul step with a weight, still without a bias; None for other steps."""
    if step.operator.name != "MatMul" or step.inputs[1] not in used_once or tensors[step.inputs[1]].ndim != 2:
        return None
    return *step.inputs, "", True


def _with_bias(
    step: Step, parts: Parts, reader: Step | None, tensors: dict[str, Tensor], used_once: set[str]
) -> tuple[Parts, Step | None]:
    """The parts with the bias that the product's only reader adds, and that reader; None if it adds no bias."""
    if reader is None or reader.operator.name != "Add" or reader.operator.since < 7:
        return parts, None
    other = next((name for name in reader.inputs if name != step.outputs[0]), "")
    if not _is_bias(other, parts[1], True, tensors, used_once):
        return parts, None
    return (parts[0], parts[1], other, True), reader


def _is_bias(name: str, weight: str, transposed: bool, tensors: dict[str, Tensor], used_once: set[str]) -> bool:
    """Whether a tensor can be the bias of a layer with this weight: a vector of its outputs, used only here."""
    features = tensors[weight].shape[1 if transposed else 0]
    return name in used_once and tuple(tensors[name].shape) == (features,)


def _linear(weight: Tensor, bias: Tensor | None) -> Linear:
    """A layer of existing weights; the constructor would draw numbers."""
    layer = Linear.__new__(Linear)
    Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = Parameter(weight)
    layer.register_parameter("bias", None if bias is None else Parameter(bias))
    return layer


def _path(weight: str, bias: str) -> str:
    """Where the layer goes: at `fc` for `fc.weight`, so that the state dict keeps its names."""
    for name, leaf in ((weight, ".weight"), (bias, ".bias")):
        if name.endswith(leaf):
            return name.removesuffix(leaf)
    return identifier(weight)

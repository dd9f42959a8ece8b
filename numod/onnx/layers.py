"""Products and convolutions with weights as layers, so that what works on layers works on loaded models: quantization,
hooks.

A layer takes the place of a Gemm or a Conv, or of a MatMul and the Add of its bias, whose weights nothing else uses. A
batch normalization after it is a layer, too, so that both can be fused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from ..core import Tensor
from ..nn import convolution, normalization
from ..nn.linear import Linear
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from .model import MAX_PARTS, add_layer, identifier
from .program import Program, Step
from .registry import internal


def call_layer(x: Tensor, *, parent: Module, name: str) -> Tensor:
    """The step of a layer. It is looked up at each call, since quantization replaces it."""
    return parent._modules[name](x)


LAYER = internal("a layer", call_layer)


def make_layers(program: Program, tensors: dict[str, Tensor], trained: set[str], root: Module) -> None:
    """Replace steps of a program by layers below `root`, and take their weights out of `tensors`."""
    uses = count_uses(program)
    used_once = {name for name in trained if uses[name] == 1}
    readers = {name: step for step in program.steps for name in step.inputs}
    names = set(tensors)
    replaced: dict[int, Step | None] = {}
    ranks: dict[str, int] = {}  # of the channels' statistics, for results of layers
    for step in program.steps:
        if (norm := _batch_norm(step, tensors, used_once, uses, ranks)) is not None:
            for name in step.inputs[1:]:
                del tensors[name]
            location = add_layer(root, path_of(*step.inputs[1:3]), norm)
            replaced[id(step)] = _layer_step(step.inputs[0], step, location)
            continue
        if (convolved := _convolution(step, tensors, used_once)) is not None:
            layer, (weight, bias) = convolved, (*step.inputs[1:3], "")[:2]
            tensors.pop(weight), tensors.pop(bias, None)
            location = add_layer(root, path_of(weight, bias, step.scope, names), layer)
            replaced[id(step)] = _layer_step(step.inputs[0], step, location)
            ranks[step.outputs[0]] = layer.ndim
            continue
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
        replaced[id(step)] = _layer_step(x, step, add_layer(root, path_of(weight, bias), layer))
        ranks[step.outputs[0]] = 1
    replace_steps(program, replaced)


def count_uses(program: Program) -> Counter[str]:
    """How often each value of a program is read, by its subgraphs, too."""
    uses = Counter(name for step in program.all_steps() for name in step.inputs) + Counter(program.outputs)
    return uses + Counter(name for step in program.steps for name in step.captured)


def replace_steps(program: Program, replaced: dict[int, Step | None]) -> None:
    """Replace steps, by their ids; None removes one."""
    steps = [replaced.get(id(step), step) for step in program.steps]
    program.steps = [step for step in steps if step is not None]


def _layer_step(x: str, step: Step, location: tuple[Module, str]) -> Step:
    """The step that calls the layer at `location`, (its parent, its name), with the outputs of `step`."""
    return Step(LAYER, (x,), step.outputs, dict(zip(("parent", "name"), location)), step.label)


def path_of(weight: str, bias: str, scope: str = "", names: Iterable[str] = ()) -> str:
    """Where a layer goes: at `fc` for `fc.weight`, so that the state dict keeps its names.

    Weights that the exporter renamed go where it says the node is from, unless other `names` of the file begin so.
    """
    for name, leaf in ((weight, ".weight"), (bias, ".bias")):
        if name.endswith(leaf):
            return name.removesuffix(leaf)
    is_short = scope and scope.count(".") < MAX_PARTS  # a node's name may be anything
    is_free = is_short and not any(name == scope or name.startswith(scope + ".") for name in names)
    return scope if is_free else identifier(weight)


# ---- products

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
    if bias and not _is_bias(bias, weight, int(transposed), tensors, used_once):
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
    if not _is_bias(other, parts[1], 1, tensors, used_once):
        return parts, None
    return (parts[0], parts[1], other, True), reader


def _is_bias(name: str, weight: str, dim: int, tensors: dict[str, Tensor], used_once: set[str]) -> bool:
    """Whether a tensor can be the bias of a layer: a vector as long as this dimension of the weight, used only here."""
    return name in used_once and tuple(tensors[name].shape) == (tensors[weight].shape[dim],)


def _linear(weight: Tensor, bias: Tensor | None) -> Linear:
    """A layer of existing weights; the constructor would draw numbers."""
    layer = Linear.__new__(Linear)
    Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    return _with_weights(layer, weight, bias)


def _with_weights(layer: Module, weight: Tensor, bias: Tensor | None) -> Module:
    layer.weight = Parameter(weight)
    layer.register_parameter("bias", None if bias is None else Parameter(bias))
    return layer


# ---- convolutions


def _convolution(step: Step, tensors: dict[str, Tensor], used_once: set[str]) -> Module | None:
    """The layer of a Conv or ConvTranspose step with the same padding at both ends; None for other steps."""
    if step.operator.name not in ("Conv", "ConvTranspose") or len(step.inputs) < 2 or step.inputs[1] not in used_once:
        return None
    transposed, weight = step.operator.name == "ConvTranspose", tensors[step.inputs[1]]
    bias, rank, attributes = (*step.inputs[2:], "")[0], weight.ndim - 2, step.attributes
    groups = attributes.get("group", 1)
    if not 1 <= rank <= 3 or groups < 1 or 0 in weight.shape:
        return None
    settings = {
        name: _per_axis(attributes.get(key), default, rank, least)
        for name, key, default, least in (
            ("stride", "strides", 1, 1), ("dilation", "dilations", 1, 1), ("output_padding", "output_padding", 0, 0)
        )
    }  # fmt: skip
    pads = _per_axis(attributes.get("pads"), 0, 2 * rank, 0)
    is_plain = (
        attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
        and None not in settings.values()
        and pads is not None
        and pads[:rank] == pads[rank:]
        and not attributes.get("output_shape")
        and list(attributes.get("kernel_shape") or weight.shape[2:]) == list(weight.shape[2:])
        and all(extra < stride for extra, stride in zip(settings["output_padding"], settings["stride"]))
    )
    channels = (weight.shape[0], weight.shape[1] * groups)
    if not is_plain or weight.shape[0] % groups:
        return None
    out_channels = channels[1 if transposed else 0]
    if bias and (bias not in used_once or tuple(tensors[bias].shape) != (out_channels,)):
        return None
    layer = getattr(convolution, f"Conv{'Transpose' * transposed}{rank}d")
    layer = layer.__new__(layer)
    Module.__init__(layer)
    layer.in_channels, layer.out_channels = channels if transposed else channels[::-1]
    layer.kernel_size, layer.groups, layer.padding_mode = tuple(weight.shape[2:]), groups, "zeros"
    layer.padding = (0,) * rank if attributes.get("auto_pad") == "VALID" else pads[:rank]
    for name, values in settings.items():
        setattr(layer, name, values)
    return _with_weights(layer, weight, tensors[bias] if bias else None)


def _per_axis(values: Sequence[int] | None, default: int, count: int, least: int) -> tuple[int, ...] | None:
    """An attribute with a number for each axis; None if it has another length, or numbers below `least`."""
    values = (default,) * count if values is None else tuple(values)
    return values if len(values) == count and min(values) >= least else None


# ---- batch normalization


def _batch_norm(
    step: Step, tensors: dict[str, Tensor], used_once: set[str], uses: Counter[str], ranks: dict[str, int]
) -> Module | None:
    """The layer of a BatchNormalization of a layer's result, with PyTorch's names; None for other steps."""
    attributes = step.attributes
    is_plain = (
        step.operator.name == "BatchNormalization"
        and len(step.inputs) == 5
        and len(step.outputs) == 1
        and attributes.get("spatial", 1)
        and not attributes.get("training_mode")
    )
    if not is_plain or step.inputs[0] not in ranks:
        return None
    scale, bias, mean, variance = step.inputs[1:]
    path = path_of(scale, "")
    names = [f"{path}.{name}" for name in ("weight", "bias", "running_mean", "running_var")]
    if names != [*step.inputs[1:]] or not {scale, bias} <= used_once or uses[mean] != 1 or uses[variance] != 1:
        return None
    values = [tensors.get(name) for name in names]
    if any(value is None or value.ndim != 1 or value.shape != values[0].shape for value in values):
        return None
    kind = getattr(normalization, f"BatchNorm{ranks[step.inputs[0]]}d")
    layer = kind.__new__(kind)
    Module.__init__(layer)
    layer.num_features, layer.affine, layer.track_running_stats = len(values[0]), True, True
    layer.eps = _decimal(attributes.get("epsilon", 1e-5))
    layer.momentum = _decimal(1 - _decimal(attributes.get("momentum", 0.9)))
    layer = _with_weights(layer, values[0], values[1])
    layer.running_mean, layer.running_var = Buffer(values[2]), Buffer(values[3])
    layer.register_buffer("num_batches_tracked", None)
    return layer


def _decimal(number: float) -> float:
    """The shortest number that is the same in float32, as which files have it: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(number)))

"""`prune.shrink`: cut the channels that pruning has removed out of a network.

A channel is removed if all weights that compute it are zero: it has the same value everywhere. The model runs once with
an example, and hooks and a listener note what reads each layer's result. A channel is cut if only layers lie behind it
that keep a constant constant, up to the next linear layer or convolution, whose bias takes over what the channel added.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any

from ...autograd import no_grad
from ...core import Tensor, arange
from ...core.apply import apply
from ...core.listeners import listeners
from ...core.math.elementwise import allclose
from ...dtypes import finfo
from ...ops.op import Op
from ...ops.pointwise import Pointwise
from .. import activation, convolution, dropout, linear, normalization, pooling
from ..module import Module
from ..parameter import Parameter
from .computed import make_plain
from .prune_methods import BasePruningMethod

_CONVOLUTIONS = convolution.Conv1d, convolution.Conv2d, convolution.Conv3d
_NORMS = normalization.BatchNorm1d, normalization.BatchNorm2d, normalization.BatchNorm3d
_ELEMENTWISE = tuple(
    getattr(activation, name)
    for name in (
        "ReLU", "ReLU6", "Hardtanh", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU", "CELU",
        "SELU", "GELU", "Hardshrink", "Softshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softsign", "Tanhshrink",
        "Threshold",
    )
)  # fmt: skip
_UNCHANGED = (
    linear.Identity, dropout.Dropout, dropout.Dropout1d, dropout.Dropout2d, dropout.Dropout3d, dropout.AlphaDropout,
)  # fmt: skip
_MAXIMA = (
    pooling.MaxPool1d, pooling.MaxPool2d, pooling.MaxPool3d, pooling.AdaptiveMaxPool1d, pooling.AdaptiveMaxPool2d,
    pooling.AdaptiveMaxPool3d, pooling.AdaptiveAvgPool1d, pooling.AdaptiveAvgPool2d, pooling.AdaptiveAvgPool3d,
)  # fmt: skip
_AVERAGES = pooling.AvgPool1d, pooling.AvgPool2d, pooling.AvgPool3d
_LAYERS = linear.Linear, *_CONVOLUTIONS
_KNOWN = (
    *_LAYERS, linear.Flatten, *_NORMS, *_ELEMENTWISE, activation.PReLU, *_UNCHANGED, *_MAXIMA, *_AVERAGES,
)  # fmt: skip
_PLAIN = type(None), bool, int, float, complex, str  # results that hold no tensor


class _Node:
    """A call of a known module, or an op that the model's own code runs."""

    def __init__(self, inputs: tuple, results: tuple, module: Module | None, op: Op | None, attributes: tuple) -> None:
        self.inputs, self.results, self.module, self.op, self.attributes = inputs, results, module, op, attributes
        self.users: list[_Node | None] = []  # None: the model returns the result


class _Recorder:
    """Notes the calls of known modules, and ops outside of these."""

    def __init__(self, model: Module) -> None:
        self.thread, self.depth = threading.get_ident(), 0
        self.nodes: list[_Node] = []
        self.producers: dict[int, _Node] = {}  # by id of the tensor
        self.alive: list[Any] = []  # an id stands for a tensor as long as the tensor lives
        self.read_storages: set[int] = set()  # that ops outside of modules read
        self.written_storages: set[int] = set()  # that they write to
        self.hooks: list[Any] = []
        for module in model.modules():
            if type(module) in _KNOWN:
                self.hooks.append(module.register_forward_pre_hook(self.enter, prepend=True))
                self.hooks.append(module.register_forward_hook(self.leave, with_kwargs=True))

    def __call__(self, op: Op, inputs: tuple, attributes: tuple, outputs: tuple, in_place: bool) -> None:
        if self.depth:
            return
        tensors = [input for input in inputs if isinstance(input, Tensor)]
        self.read_storages.update(id(tensor._storage) for tensor in tensors)
        if in_place:
            self.written_storages.update(id(tensor._storage) for tensor in outputs)
        self.add(_Node(tuple(inputs), outputs, None, op, attributes), tensors)

    def enter(self, module: Module, inputs: tuple) -> None:
        self.depth += 1

    def leave(self, module: Module, args: tuple, kwargs: dict, result: Any) -> None:
        self.depth -= 1
        if not self.depth:
            inputs = (*args, *kwargs.values())
            results = result if isinstance(result, tuple) else (result,)
            self.add(_Node(inputs, results, module, None, ()), [input for input in inputs if isinstance(input, Tensor)])

    def add(self, node: _Node, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if id(tensor) in self.producers:
                self.producers[id(tensor)].users.append(node)
        for result in node.results:
            self.producers[id(result)] = node
        self.alive += [*node.inputs, *node.results]
        self.nodes.append(node)

    def finish(self, result: Any) -> None:
        """Mark the results of the model."""
        if isinstance(result, Tensor):
            if id(result) in self.producers:
                self.producers[id(result)].users.append(None)
        elif isinstance(result, dict):
            self.finish(tuple(result.values()))
        elif isinstance(result, (tuple, list)):
            for part in result:
                self.finish(part)
        elif is_dataclass(result):
            self.finish(vars(result))
        elif not isinstance(result, _PLAIN):
            raise TypeError(
                f"shrink: the model returns a {type(result).__name__}; expected tensors, numbers, and tuples, lists, "
                "dicts or dataclasses of them, so that all results can be compared"
            )


def _recorded(model: Module, example: tuple) -> tuple[_Recorder, Any]:
    recorder = _Recorder(model)
    listeners.append(recorder)
    try:
        result = model(*example)
    finally:
        listeners.remove(recorder)
        for hook in recorder.hooks:
            hook.remove()
    recorder.finish(result)
    return recorder, result


class _Channels:
    """Removed channels on their way from a layer to the next one: which, and their constant values."""

    def __init__(self, layer: Module, result: Tensor, through_views: bool) -> None:
        self.through_views = through_views
        rows = layer.weight.reshape(layer.weight.shape[0], -1)
        self.layer, self.count = layer, len(rows)
        removed = (rows != 0).any(1).logical_not().nonzero().flatten().tolist()
        self.removed: list[int] = removed[: self.count - 1]  # a layer keeps at least one channel
        bias = rows.new_zeros(self.count) if layer.bias is None else layer.bias
        self.values = bias[self.removed]
        self.followers: list[Module] = []  # layers with a weight for each channel, which are cut as well
        self.repeats = 1  # features of each channel after it was flattened
        self.axis = (
            result.ndim - 1 if type(layer) is linear.Linear else 1 - (result.ndim < layer.weight.ndim)
        )  # no batch: 0

    def pass_through(self, node: _Node, source: Tensor) -> bool:
        """Follow the channels through a node; False if it may not keep them constant."""
        module, kind, result = node.module, type(node.module), node.results[0]
        if module is None:
            return self._pass_op(node, source)
        if kind in _ELEMENTWISE:
            self.values = copy.deepcopy(module).requires_grad_(False)(self.values.clone())
            return True
        if kind in _UNCHANGED:
            return not module.training or kind is linear.Identity
        if kind in _NORMS:
            if self.axis != 1 or module.running_mean is None or module.training or self.repeats > 1:
                return False
            factor = (module.running_var[self.removed] + module.eps).rsqrt()
            values = (self.values - module.running_mean[self.removed]) * factor
            is_affine = module.weight is not None
            self.values = values * module.weight[self.removed] + module.bias[self.removed] if is_affine else values
            self.followers.append(module)
            return True
        if kind is activation.PReLU:
            return self._pass_slopes(module)
        if kind in _CONVOLUTIONS:
            return self._pass_depthwise(module, source)
        if kind is linear.Flatten:
            return self._flatten(source, result)
        is_spatial = self.axis == 1 and source.ndim > 2 and len(node.results) == 1 and result.ndim == source.ndim
        if kind in _MAXIMA:
            return is_spatial
        if kind in _AVERAGES:
            padding = module.padding if isinstance(module.padding, tuple) else (module.padding,)
            return is_spatial and not any(padding) and getattr(module, "divisor_override", None) is None
        return False

    def _pass_slopes(self, module: Module) -> bool:
        slopes = module.weight
        if len(slopes) > 1:
            if self.axis != 1 or self.repeats > 1:
                return False
            self.followers.append(module)
            slopes = slopes[self.removed]
        self.values = self.values.where(self.values > 0, self.values * slopes)
        return True

    def _pass_depthwise(self, module: Module, source: Tensor) -> bool:
        """Follow the channels through a depthwise convolution with one filter for each."""
        if not (self.count == module.groups == module.out_channels and self._meets(module, source)):
            return False
        self.values = self.values * module.weight[self.removed].flatten(1).sum(1)
        if module.bias is not None:
            self.values = self.values + module.bias[self.removed]
        self.followers.append(module)
        return True

    def _pass_op(self, node: _Node, source: Tensor) -> bool:
        tensors = [input for input in node.inputs if isinstance(input, Tensor)]
        result = node.results[0]
        if len(tensors) != 1 or len(node.results) != 1:
            return False
        if isinstance(node.op, Pointwise) and result.shape == source.shape and result.dtype is source.dtype:
            inputs = tuple(self.values if isinstance(input, Tensor) else input for input in node.inputs)
            self.values = apply(node.op, inputs, node.attributes)
            return True
        return self._pass_shape(node.op.name, node.attributes, source, result)

    def _pass_shape(self, name: str, attributes: tuple, source: Tensor, result: Tensor) -> bool:
        """Follow the channels through an op that joins, removes or reorders the other dimensions."""
        is_image = self.axis == 1 and self.repeats == 1 and source.ndim > 2
        if name == "max_pool_values":
            return is_image and result.ndim == source.ndim
        if name == "average_pool":
            return is_image and result.ndim == source.ndim and not any(attributes[2]) and not attributes[-1]
        if name in ("mean", "amax", "amin"):
            dims, keepdim, dtype = attributes
            return dtype is None and self._remove(() if keepdim else dims, dims)
        if name == "squeeze":
            dims = tuple(dim for dim in attributes[0] if source.shape[dim] == 1)
            return self._remove(dims, dims)
        if name == "unsqueeze":
            self.axis += attributes[0] <= self.axis
            return True
        if name == "permute":
            self.axis = attributes[0].index(self.axis)
            return True
        if name not in ("view", "row_major"):
            return False
        return result.shape == source.shape or (self.through_views and self._reshape(source, result))

    def _remove(self, removed: tuple, changed: tuple) -> bool:
        """Follow the channels where some dimensions are removed; False if theirs is among those that change."""
        if self.axis in changed:
            return False
        self.axis -= sum(dim < self.axis for dim in removed)
        return True

    def _reshape(self, source: Tensor, result: Tensor) -> bool:
        """Follow the channels where the dimensions before them, or those behind them, are joined or split."""
        end = self.axis + 1
        if result.shape[:end] == source.shape[:end]:
            return True
        if end == source.ndim and result.ndim and result.shape[-1] == source.shape[-1]:
            self.axis = result.ndim - 1
            return True
        return self._flatten(source, result)

    def _flatten(self, source: Tensor, result: Tensor) -> bool:
        """Join the channels with the dimensions behind them."""
        if self.axis != 1 or result.ndim != 2 or result.shape[0] != source.shape[0]:
            return False
        self.repeats *= result.shape[1] // source.shape[1]
        return True

    def arrive(self, layer: Module, source: Tensor) -> bool:
        """Restrict the channels to those that this layer can do without; False if there are none."""
        kind = type(layer)
        if kind is linear.Linear:
            return bool(self.removed) and self.axis == source.ndim - 1
        return kind in _CONVOLUTIONS and layer.groups == 1 and self._meets(layer, source)

    def _meets(self, layer: Module, source: Tensor) -> bool:
        """Restrict the channels to those that stay constant before this convolution; False if there are none."""
        if self.repeats > 1 or source.ndim != layer.weight.ndim:
            return False
        is_padded = isinstance(layer.padding, str) or any(layer.padding)
        if is_padded and layer.padding_mode == "zeros":  # beside the border the channel is not constant
            remaining = [k for k, value in enumerate(self.values.tolist()) if value == 0]
            self.removed, self.values = [self.removed[k] for k in remaining], self.values[remaining]
        return bool(self.removed) and self.axis == 1

    def cut(self, layer: Module) -> None:
        """Cut the channels before a layer, which reads them."""
        every = arange(self.count)
        remaining = [k for k in every.tolist() if k not in set(self.removed)]
        features = every.repeat_interleave(self.repeats)
        columns = [k for k, channel in enumerate(features.tolist()) if channel not in set(self.removed)]
        values = features.new_zeros(self.count, dtype=self.values.dtype)
        values[self.removed] = self.values
        weight = layer.weight.flatten(2).sum(2) if layer.weight.ndim > 2 else layer.weight
        added = weight @ values.repeat_interleave(self.repeats)
        if layer.bias is not None or (added != 0).any():
            _set(layer, "bias", added if layer.bias is None else layer.bias + added)
        _set(layer, "weight", layer.weight[:, columns])
        _set(self.layer, "weight", self.layer.weight[remaining])
        if self.layer.bias is not None:
            _set(self.layer, "bias", self.layer.bias[remaining])
        for follower in self.followers:
            _select(follower, remaining)
        setattr(self.layer, "out_features" if type(self.layer) is linear.Linear else "out_channels", len(remaining))
        setattr(layer, "in_features" if type(layer) is linear.Linear else "in_channels", len(columns))


def _select(module: Module, channels: list[int]) -> None:
    """Cut a layer with a weight for each channel down to some of them."""
    for name in ("weight", "bias"):
        if getattr(module, name, None) is not None:
            _set(module, name, getattr(module, name)[channels])
    if type(module) in _NORMS:
        module.num_features = len(channels)
        module.running_mean, module.running_var = module.running_mean[channels], module.running_var[channels]
    elif type(module) is activation.PReLU:
        module.num_parameters = len(channels)
    else:
        module.in_channels = module.out_channels = module.groups = len(channels)


def _set(module: Module, name: str, value: Tensor) -> None:
    """Replace a parameter."""
    former = getattr(module, name)
    setattr(module, name, Parameter(value.detach().contiguous(), requires_grad=former is None or former.requires_grad))


def _fixed(model: Module, recorder: _Recorder) -> set[int]:
    """Ids of modules that stay as they are: with a state and called more than once, with a parameter that others use,
    or with a weight that is computed, as by `weight_norm`.
    """
    calls = Counter(id(node.module) for node in recorder.nodes if node.module is not None and _has_state(node.module))
    fixed = {module for module, count in calls.items() if count > 1}
    shared = Counter(id(parameter._storage) for _, parameter in model.named_parameters(remove_duplicate=False))
    for module in model.modules():
        storages = [id(parameter._storage) for parameter in module._parameters.values() if parameter is not None]
        is_computed = type(module) in _LAYERS and "weight" not in module._parameters
        if is_computed or any(shared[storage] > 1 or storage in recorder.read_storages for storage in storages):
            fixed.add(id(module))
    return fixed


def _has_state(module: Module) -> bool:
    """Whether a module has parameters or buffers; one without may be called at several places, as a model's ReLU."""
    return any(True for _ in module.parameters()) or any(True for _ in module.buffers())


def shrink(model: Module, example: Any) -> Module:
    """As `prune.shrink`."""
    if not isinstance(model, Module):
        raise TypeError(f"shrink: expected a Module and an input of it, got {type(model).__name__}")
    if model.training:
        raise RuntimeError("shrink: the model is in training mode; call model.eval() before")
    example = example if isinstance(example, tuple) else (example,)
    with no_grad():
        try:
            return _shrunk(model, example, through_views=True)
        except RuntimeError:  # the model's own code may have sizes as numbers, as in x.view(-1, 400)
            return _shrunk(model, example, through_views=False)


def _shrunk(model: Module, example: tuple, through_views: bool) -> Module:
    """A smaller copy. Raises RuntimeError if it computes something else."""
    small = copy.deepcopy(model)
    for module in small.modules():
        make_plain(module, (BasePruningMethod,))
    recorder, expected = _recorded(small, example)
    fixed = _fixed(small, recorder)
    for node in recorder.nodes:
        is_free = type(node.module) in _LAYERS and id(node.module) not in fixed
        if is_free and getattr(node.module, "groups", 1) == 1:
            _cut_after(node, _Channels(node.module, node.results[0], through_views), fixed, recorder.written_storages)
    _check_same(expected, small(*example))
    return small


def _cut_after(node: _Node, channels: _Channels, fixed: set[int], written: set[int]) -> None:
    """Cut the removed channels of a node's layer, if they can be followed to the next layer."""
    while channels.removed and len(node.users) == 1 and id(node.results[0]._storage) not in written:
        user, source = node.users[0], node.results[0]
        if user is None or id(user.module) in fixed:
            return
        if type(user.module) in _LAYERS and getattr(user.module, "groups", 1) == 1:
            if channels.arrive(user.module, source):
                channels.cut(user.module)
            return
        if not channels.pass_through(user, source):
            return
        node = user


def _check_same(expected: Any, result: Any) -> None:
    """Raise unless two results are the same but for rounding."""
    if isinstance(expected, Tensor):
        size = expected.abs().max().item() if expected.numel() else 0.0
        loss = 16 * finfo(expected.dtype).eps if expected.dtype.is_floating_point else 0.0
        limits = {"rtol": max(loss, 1e-3), "atol": max(loss, 1e-4) * max(size, 1e-6)}
        if expected.shape != result.shape or not allclose(expected, result, **limits, equal_nan=True):
            raise RuntimeError(
                "shrink: the smaller model computes other outputs; does the model draw random numbers, or depend on "
                "values or sizes of its weights?"
            )
    elif isinstance(expected, dict):
        for name, part in expected.items():
            _check_same(part, result[name])
    elif isinstance(expected, (tuple, list)):
        for part, other in zip(expected, result, strict=True):
            _check_same(part, other)
    elif is_dataclass(expected):
        _check_same(vars(expected), vars(result))

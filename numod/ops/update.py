"""Optimizer steps: formulas with several results, each written over one of the inputs in a single pass over memory.

The formulas are PyTorch's. `p` parameter, `g` gradient; the rest is state and hyper-parameters, which are numbers at run time.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import dtypes
from ..device import Layout
from ..dtypes import dtype as DType
from ..kernel import emit
from ..kernel.expression import Symbol, as_expression, parameter_names
from . import table as t
from .op import Op, Plan, single_device
from .pointwise import plan_loop

rows: dict[str, Update] = {}


class Update(Op):
    """A formula whose results replace the inputs named in `writes`, element by element. Tensors come first and have one shape; numbers are cast."""

    differentiable, gradients = False, {}

    def __init__(self, name: str, formula: Callable, writes: tuple[str, ...]) -> None:
        super().__init__(name)
        self.formula, self.writes, self.inputs = formula, writes, parameter_names(formula)
        self.positions = tuple(map(self.inputs.index, writes))
        self._loops: dict[tuple, emit.Loop] = {}

    def prepare_into(self, arguments: tuple, parameters: tuple, into: tuple[Layout, ...], over: tuple[int | None, ...]) -> Plan:
        tensors = [each for each in arguments if isinstance(each, Layout)]
        shapes = {each.shape for each in tensors}
        if len(shapes) > 1:
            raise RuntimeError(f"{self.name}: parameter, gradient and state must have one shape, got {', '.join(map(str, sorted(map(tuple, shapes))))}")
        if any(each.overlapping for each in into):
            raise RuntimeError(f"{self.name}: a parameter whose elements share memory (an expanded tensor) cannot be updated; clone() it first")
        loop = self._loop(tuple((each.dtype, True) if isinstance(each, Layout) else (dtypes.of_scalar_type(each), False) for each in arguments))
        return Plan(into[0], *plan_loop(loop, self.name, single_device(self.name, tensors), tensors, (), tuple(tensors[0].shape)))

    def _loop(self, kinds: tuple[tuple[DType, bool], ...]) -> emit.Loop:
        if kinds not in self._loops:
            inputs = tuple(emit.Input(name, kind, tensor) for name, (kind, tensor) in zip(self.inputs, kinds))
            types = {each.name: each.dtype for each in inputs}
            results = self.formula(*(Symbol(name) for name in self.inputs))
            outputs = tuple(emit.Output(as_expression(result), types[name], name) for name, result in zip(self.writes, results, strict=True))
            self._loops[kinds] = emit.Loop(inputs, outputs, types[self.writes[0]])
        return self._loops[kinds]


def update(name: str, writes: str) -> Callable[[Callable], Update]:
    """Decorator: make a formula an update of the inputs named in `writes`."""

    def make(formula: Callable) -> Update:
        rows[name] = Update(name, formula, tuple(writes.split()))
        return rows[name]

    return make


@update("sgd", "p")
def sgd(p, g, lr, weight_decay):
    """Gradient descent."""
    return (p - lr * (g + weight_decay * p),)


@update("sgd_momentum", "p buffer")
def sgd_momentum(p, g, buffer, lr, weight_decay, momentum, gain, nesterov):
    """With momentum; `gain` = 1 - dampening, `nesterov` is 0 or 1. Sutskever et al., On the importance of initialization and momentum, 2013."""
    gradient = g + weight_decay * p
    moved = momentum * buffer + gain * gradient
    return p - lr * t.where(nesterov != 0.0, gradient + momentum * moved, moved), moved


@update("adam", "p average square")
def adam(p, g, average, square, kept, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam (Kingma and Ba, 2015) with L2 penalty `weight_decay`; AdamW (Loshchilov and Hutter, 2019) where `kept` = 1 - lr * decay.

    `gain` = 1 - beta; after t steps `step` = lr / (1 - beta1^t) and `root` = sqrt(1 - beta2^t). They come ready, since 1 - 0.999 in float32 is off.
    """
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    return kept * p - step * (first / (t.sqrt(second) / root + eps)), first, second


@update("adam_amsgrad", "p average square greatest")
def adam_amsgrad(p, g, average, square, greatest, kept, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam with the greatest second moment so far (Reddi et al., On the convergence of Adam and beyond, 2018)."""
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    most = t.maximum(greatest, second)
    return kept * p - step * (first / (t.sqrt(most) / root + eps)), first, second, most

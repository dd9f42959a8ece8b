"""Optimizer steps: formulas with several results, each written over one of the inputs in a single pass over memory.

The formulas are PyTorch's. `p` parameter, `g` gradient; the rest is state and hyper-parameters, which are numbers at run time.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import dtypes
from ..device import Layout
from ..dtypes import dtype as DType
from ..kernel import bind, emit
from ..kernel.expression import Symbol, as_expression, parameter_names
from . import table as t
from .op import Op, Plan, single_device
from .pointwise import plan_loop

rows: dict[str, Update] = {}
_SMALL = 1 << 14  # elements up to which a parameter shares its launch with others


class Update(Op):
    """A formula whose results replace the inputs named in `writes`, element by element. Tensors come first and have one shape; numbers are cast."""

    differentiable, gradients = False, {}
    together = 8  # parameters updated by one launch, where they are small

    def __init__(self, name: str, formula: Callable, writes: tuple[str, ...]) -> None:
        super().__init__(name)
        self.formula, self.writes, self.inputs = formula, writes, parameter_names(formula)
        self.positions = tuple(map(self.inputs.index, writes))
        self._loops: dict[tuple, emit.Loop] = {}

    def prepare_into(self, arguments: tuple, parameters: tuple, into: tuple[Layout, ...], over: tuple) -> Plan:
        """A plan for `parameters[0]` members at once: the tensors of each, then the numbers they share."""
        (count,) = parameters
        tensors = [each for each in arguments if isinstance(each, Layout)]
        numbers = [each for each in arguments if not isinstance(each, Layout)]
        size = len(tensors) // count
        members = [tensors[k * size : (k + 1) * size] for k in range(count)]
        for member in members:
            self._check(member)
        device = single_device(self.name, tensors)
        loops = [self._loop(tuple((each.dtype, True) if isinstance(each, Layout) else (dtypes.of_scalar_type(each), False) for each in (*member, *numbers))) for member in members]
        small = all(each.packed and each.strides == member[0].strides and 0 < each.size <= _SMALL for member in members for each in member)
        if count > 1 and small and len(set(loops)) == 1 and not device.backend.FLAT:
            source, signature = emit.several(loops[0], count)
            launch = bind.launcher(device, f"{self.name}_{count}", source, signature, loops[0].dtype, 1)
            return Plan(into[0], launch, tuple(member[0].size for member in members))
        parts = [plan_loop(loop, self.name, device, member, (), tuple(member[0].shape)) for loop, member in zip(loops, members)]
        return Plan(into[0], *(parts[0] if count == 1 else (_in_turn(parts, size), ())))

    def _check(self, member: list[Layout]) -> None:
        shapes = sorted({tuple(each.shape) for each in member})
        if len(shapes) > 1:
            raise RuntimeError(f"{self.name}: parameter, gradient and state must have one shape, got {', '.join(map(str, shapes))}")
        if any(member[k].overlapping for k in self.positions):
            raise RuntimeError(f"{self.name}: a parameter whose elements share memory (an expanded tensor) cannot be updated; clone() it first")

    def _loop(self, kinds: tuple[tuple[DType, bool], ...]) -> emit.Loop:
        if kinds not in self._loops:
            inputs = tuple(emit.Input(name, kind, tensor) for name, (kind, tensor) in zip(self.inputs, kinds))
            types = {each.name: each.dtype for each in inputs}
            results = self.formula(*(Symbol(name) for name in self.inputs))
            outputs = tuple(emit.Output(as_expression(result), types[name], name) for name, result in zip(self.writes, results, strict=True))
            self._loops[kinds] = emit.Loop(inputs, outputs, types[self.writes[0]].compute)
        return self._loops[kinds]


def _in_turn(parts: list[tuple[Callable, tuple]], tensors: int) -> Callable:
    """A launcher that updates one member after the other."""

    def launch(*arguments: object) -> None:
        numbers = arguments[tensors * len(parts) :]
        for k, (run, constants) in enumerate(parts):
            run(*arguments[k * tensors : (k + 1) * tensors], *numbers, *constants)

    return launch


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

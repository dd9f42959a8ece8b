"""Optimizer steps: formulas with several results, each of which overwrites one of the inputs, in a single pass over
memory.

The formulas are PyTorch's. `p` is the parameter, `g` the gradient; the rest is state, and hyper-parameters as run-time
numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import dtypes
from ..device import Layout
from ..dtypes import dtype as DType
from ..kernel import bind, emit, writer
from ..kernel.expression import Symbol, as_expression, parameter_names
from . import table as t
from .op import Op, Plan, single_device
from .pointwise import plan_loop

rows: dict[str, Update] = {}
# maximum size of a parameter that shares a launch with others; on a GPU all threads take each in turn
_SMALL, _SMALL_ON_GPU = 1 << 14, 1 << 18


class Update(Op):
    """A formula whose results replace the inputs named in `writes`, element by element.

    Tensors come first and have one shape; numbers are cast.
    """

    differentiable, gradients = False, {}
    together = 8  # number of small parameters updated by one launch

    def __init__(self, name: str, formula: Callable, writes: tuple[str, ...]) -> None:
        super().__init__(name)
        self.formula, self.writes, self.inputs = formula, writes, parameter_names(formula)
        self.positions = tuple(map(self.inputs.index, writes))
        self._loops: dict[tuple, writer.Loop] = {}

    def prepare_into(self, arguments: tuple, parameters: tuple, into: tuple[Layout, ...], over: tuple) -> Plan:
        """A plan for `parameters[0]` members at once: the tensors of each, then the numbers they share."""
        (count,) = parameters
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        numbers = [argument for argument in arguments if not isinstance(argument, Layout)]
        size = len(tensors) // count
        members = [tensors[k * size : (k + 1) * size] for k in range(count)]
        for member in members:
            self._check(member)
        devices = [single_device(self.name, member, member[0]) for member in members]
        kind = lambda each: (each.dtype, True) if isinstance(each, Layout) else (dtypes.of_scalar_type(each), False)  # noqa: E731
        loops = [self._loop(tuple(map(kind, (*member, *numbers)))) for member in members]
        flat = devices[0].backend.is_gpu
        most = _SMALL_ON_GPU if flat else _SMALL
        small = all(
            each.packed and each.strides == member[0].strides and 0 < each.size <= most
            for member in members
            for each in member
        )
        if count > 1 and small and len(set(loops)) == len(set(devices)) == 1:
            source, signature = emit.several(self.name, loops[0], count, flat)
            work = max(member[0].size for member in members) if flat else 1
            launch = bind.launcher(devices[0], f"{self.name}_{count}", source, signature, loops[0].dtype, work)
            return Plan(into[0], launch, tuple(member[0].size for member in members))
        parts = [
            plan_loop(loop, self.name, device, member, (), tuple(member[0].shape))
            for loop, device, member in zip(loops, devices, members)
        ]
        return Plan(into[0], *(parts[0] if count == 1 else (_in_turn(parts, size), ())))

    def _check(self, member: list[Layout]) -> None:
        shapes = sorted({tuple(each.shape) for each in member})
        if len(shapes) > 1:
            raise RuntimeError(
                f"{self.name}: parameter, gradient and state must have one shape, got {', '.join(map(str, shapes))}"
            )
        if any(member[k].overlapping for k in self.positions):
            raise RuntimeError(
                f"{self.name}: a parameter whose elements share memory (an expanded tensor) cannot be updated; "
                "clone() it first"
            )

    def _loop(self, kinds: tuple[tuple[DType, bool], ...]) -> writer.Loop:
        if kinds not in self._loops:
            inputs = tuple(
                writer.Input(writer.argument_name(name), kind, tensor)
                for name, (kind, tensor) in zip(self.inputs, kinds)
            )
            types = {name: input.dtype for name, input in zip(self.inputs, inputs)}
            results = self.formula(*(Symbol(input.name) for input in inputs))
            outputs = tuple(
                writer.Output(as_expression(result), types[name], writer.argument_name(name))
                for name, result in zip(self.writes, results, strict=True)
            )
            self._loops[kinds] = writer.Loop(inputs, outputs, types[self.writes[0]].compute)
        return self._loops[kinds]


ACTION = Update("action", lambda: (), ())  # updates nothing: asking for its numbers is all there is to it


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
    """With momentum; `gain` = 1 - dampening, `nesterov` is 0 or 1.

    Sutskever et al., On the importance of initialization and momentum, 2013.
    """
    gradient = g + weight_decay * p
    moved = momentum * buffer + gain * gradient
    return p - lr * t.where(nesterov != 0.0, gradient + momentum * moved, moved), moved


@update("adam", "p average square")
def adam(p, g, average, square, kept, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam (Kingma and Ba, 2015) with L2 penalty `weight_decay`; AdamW (Loshchilov and Hutter, 2019) where `kept` = 1 -
    lr * decay.

    `gain` = 1 - beta; after t steps `step` = lr / (1 - beta1^t) and `root` = sqrt(1 - beta2^t). They are computed in
    float64 by the caller, since 1 - 0.999 is inaccurate in float32.
    """
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    return kept * p - step * (first / (t.sqrt(second) / root + eps)), first, second


@update("adam_amsgrad", "p average square greatest")
def adam_amsgrad(p, g, average, square, greatest, kept, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam with the maximum of second moments so far (Reddi et al., On the convergence of Adam and beyond, 2018)."""
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    most = t.maximum(greatest, second)
    return kept * p - step * (first / (t.sqrt(most) / root + eps)), first, second, most


@update("rmsprop", "p square")
def rmsprop(p, g, square, step, weight_decay, kept, gain, eps):
    """RMSprop: `kept` = alpha, `gain` = 1 - alpha. Hinton, Coursera lecture 6e, 2012."""
    gradient = g + weight_decay * p
    second = kept * square + gain * gradient * gradient
    return p - step * (gradient / (t.sqrt(second) + eps)), second


@update("rmsprop_momentum", "p square buffer")
def rmsprop_momentum(p, g, square, buffer, step, weight_decay, kept, gain, eps, momentum):
    """RMSprop with momentum."""
    gradient = g + weight_decay * p
    second = kept * square + gain * gradient * gradient
    moved = momentum * buffer + gradient / (t.sqrt(second) + eps)
    return p - step * moved, second, moved


@update("rmsprop_centered", "p square average")
def rmsprop_centered(p, g, square, average, step, weight_decay, kept, gain, eps):
    """RMSprop by the variance of the gradient. Graves, Generating sequences with recurrent neural networks, 2013."""
    gradient = g + weight_decay * p
    second = kept * square + gain * gradient * gradient
    first = average + (gradient - average) * gain
    return p - step * (gradient / (t.sqrt(second - first * first) + eps)), second, first


@update("rmsprop_centered_momentum", "p square buffer average")
def rmsprop_centered_momentum(p, g, square, buffer, average, step, weight_decay, kept, gain, eps, momentum):
    """Both."""
    gradient = g + weight_decay * p
    second = kept * square + gain * gradient * gradient
    first = average + (gradient - average) * gain
    moved = momentum * buffer + gradient / (t.sqrt(second - first * first) + eps)
    return p - step * moved, second, moved, first


@update("adagrad", "p total")
def adagrad(p, g, total, step, weight_decay, eps):
    """Adagrad. Duchi, Hazan and Singer, 2011."""
    gradient = g + weight_decay * p
    sums = total + gradient * gradient
    return p - step * (gradient / (t.sqrt(sums) + eps)), sums


@update("adadelta", "p square moved")
def adadelta(p, g, square, moved, lr, weight_decay, kept, gain, eps):
    """Adadelta: `kept` = rho, `gain` = 1 - rho. Zeiler, 2012."""
    gradient = g + weight_decay * p
    second = kept * square + gain * gradient * gradient
    delta = t.sqrt(moved + eps) / t.sqrt(second + eps) * gradient
    return p - lr * delta, second, kept * moved + gain * delta * delta


@update("adamax", "p average greatest")
def adamax(p, g, average, greatest, step, weight_decay, gain1, beta2, eps):
    """Adamax, by the decayed maximum of gradients; `step` = lr / (1 - beta1^t). Kingma and Ba, 2015."""
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    most = t.maximum(beta2 * greatest, t.abs(gradient) + eps)
    return p - step * (first / most), first, most


@update("nadam", "p average square")
def nadam(p, g, average, square, kept, weight_decay, gain1, beta2, gain2, step_g, step_m, correction, eps):
    """NAdam: `step_g` and `step_m` are the rates of gradient and moment, `correction` = 1 - beta2^t. Dozat, 2016."""
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    root = t.sqrt(second / correction) + eps
    return kept * p - step_g * (gradient / root) - step_m * (first / root), first, second


@update("radam", "p average square")
def radam(p, g, average, square, kept, weight_decay, gain1, beta2, gain2, step, root, eps, adaptive):
    """RAdam: with the second moment if `adaptive` (once its variance is tractable), else with the first alone.

    Liu et al., 2020.
    """
    gradient = g + weight_decay * p
    first = average + (gradient - average) * gain1
    second = beta2 * square + gain2 * gradient * gradient
    return kept * p - step * first * t.where(adaptive != 0.0, root / (t.sqrt(second) + eps), 1.0), first, second


@update("rprop", "p previous size")
def rprop(p, g, previous, size, shrink, grow, least, most):
    """Rprop: steps that grow while the gradient keeps its sign. Riedmiller and Braun, 1993."""
    agreement = g * previous
    sized = t.clamp(size * t.where(agreement > 0.0, grow, t.where(agreement < 0.0, shrink, 1.0)), least, most)
    kept = t.where(agreement < 0.0, 0.0, g)
    return p - t.sign(kept) * sized, kept, sized


@update("asgd", "p mean")
def asgd(p, g, mean, weight_decay, kept, eta, share):
    """Averaged SGD: `kept` = 1 - lambd * eta; the mean moves by `share` of the way to p. Polyak and Juditsky, 1992."""
    moved = p * kept - eta * (g + weight_decay * p)
    return moved, t.where(share == 1.0, moved, mean + (moved - mean) * share)

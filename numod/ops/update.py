"""Optimizer steps: formulas whose results overwrite some of their inputs, in a single pass over memory.

The formulas are PyTorch's. `p` is the parameter, `g` the gradient; further inputs are state tensors and
hyper-parameters, which are run-time numbers.
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
# maximum size of a parameter that shares a launch with others; on a GPU, all threads work on one parameter at a time
_SHARED_LAUNCH_SIZE, _SHARED_LAUNCH_SIZE_ON_GPU = 1 << 14, 1 << 18


class Update(Op):
    """An elementwise formula whose results replace the inputs named in `writes`.

    Tensors come first and have the same shape; numbers are cast.
    """

    differentiable, gradients = False, {}
    together = 8  # number of small parameters updated by one launch

    def __init__(self, name: str, formula: Callable, writes: tuple[str, ...]) -> None:
        super().__init__(name)
        self.formula, self.writes, self.inputs = formula, writes, parameter_names(formula)
        self.positions = tuple(map(self.inputs.index, writes))
        self._loops: dict[tuple, writer.Loop] = {}

    def prepare_into(self, arguments: tuple, attributes: tuple, into: tuple[Layout, ...], over: tuple) -> Plan:
        """A plan for `attributes[0]` members (a parameter, its gradient and its state): their tensors, then the numbers
        they share.
        """
        (count,) = attributes
        tensors = [argument for argument in arguments if isinstance(argument, Layout)]
        numbers = [argument for argument in arguments if not isinstance(argument, Layout)]
        size = len(tensors) // count
        members = [tensors[k * size : (k + 1) * size] for k in range(count)]
        for member in members:
            self._check(member)
        devices = [single_device(self.name, member, member[0]) for member in members]
        number_kinds = [(dtypes.of_scalar_type(number), False) for number in numbers]
        loops = [self._loop((*[(tensor.dtype, True) for tensor in member], *number_kinds)) for member in members]
        on_gpu = devices[0].backend.is_gpu
        limit = _SHARED_LAUNCH_SIZE_ON_GPU if on_gpu else _SHARED_LAUNCH_SIZE
        small = all(
            tensor.packed and tensor.strides == member[0].strides and 0 < tensor.size <= limit
            for member in members
            for tensor in member
        )
        if count > 1 and small and len(set(loops)) == len(set(devices)) == 1:
            source, signature = emit.dense_loops(self.name, loops[0], count, on_gpu)
            work = max(member[0].size for member in members) if on_gpu else 1
            launch = bind.launcher(devices[0], f"{self.name}_{count}", source, signature, loops[0].dtype, work)
            return Plan(into[0], launch, tuple(member[0].size for member in members))
        parts = [
            plan_loop(loop, self.name, device, member, (), tuple(member[0].shape))
            for loop, device, member in zip(loops, devices, members)
        ]
        return Plan(into[0], *(parts[0] if count == 1 else (_one_by_one(parts, size), ())))

    def _check(self, member: list[Layout]) -> None:
        shapes = sorted({tuple(tensor.shape) for tensor in member})
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
        """The loop of the update for these (dtype, is a tensor) of its inputs."""
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


ACTION = Update("action", lambda: (), ())  # updates nothing; only its numbers are evaluated


def _one_by_one(parts: list[tuple[Callable, tuple]], tensors: int) -> Callable:
    """A launcher that updates the members one after the other."""

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
    """Gradient descent with momentum; `gain` = 1 - dampening, `nesterov` is 0 or 1.

    Sutskever et al., On the importance of initialization and momentum, 2013.
    """
    gradient = g + weight_decay * p
    velocity = momentum * buffer + gain * gradient
    return p - lr * t.where(nesterov != 0.0, gradient + momentum * velocity, velocity), velocity


@update("adam", "p average square")
def adam(p, g, average, square, shrink, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam (Kingma and Ba, 2015) with L2 penalty `weight_decay`, or AdamW (Loshchilov and Hutter, 2019).

    `shrink` = 1 - lr * decay for AdamW; `gain` = 1 - beta; after t steps, `step` = lr / (1 - beta1^t) and `root` =
    sqrt(1 - beta2^t). The caller computes them in float64, since 1 - 0.999 is inaccurate in float32.
    """
    gradient = g + weight_decay * p
    mean = average + (gradient - average) * gain1
    variance = beta2 * square + gain2 * gradient * gradient
    return shrink * p - step * (mean / (t.sqrt(variance) / root + eps)), mean, variance


@update("adam_amsgrad", "p average square greatest")
def adam_amsgrad(p, g, average, square, greatest, shrink, weight_decay, gain1, beta2, gain2, step, root, eps):
    """Adam with the running maximum of second moments (Reddi et al., On the convergence of Adam and beyond, 2018)."""
    gradient = g + weight_decay * p
    mean = average + (gradient - average) * gain1
    variance = beta2 * square + gain2 * gradient * gradient
    maximum = t.maximum(greatest, variance)
    return shrink * p - step * (mean / (t.sqrt(maximum) / root + eps)), mean, variance, maximum


@update("rmsprop", "p square")
def rmsprop(p, g, square, step, weight_decay, alpha, gain, eps):
    """RMSprop; `alpha` decays the mean square, `gain` = 1 - alpha. Hinton, Coursera lecture 6e, 2012."""
    gradient = g + weight_decay * p
    variance = alpha * square + gain * gradient * gradient
    return p - step * (gradient / (t.sqrt(variance) + eps)), variance


@update("rmsprop_momentum", "p square buffer")
def rmsprop_momentum(p, g, square, buffer, step, weight_decay, alpha, gain, eps, momentum):
    """RMSprop with momentum."""
    gradient = g + weight_decay * p
    variance = alpha * square + gain * gradient * gradient
    velocity = momentum * buffer + gradient / (t.sqrt(variance) + eps)
    return p - step * velocity, variance, velocity


@update("rmsprop_centered", "p square average")
def rmsprop_centered(p, g, square, average, step, weight_decay, alpha, gain, eps):
    """RMSprop by the variance of the gradient. Graves, Generating sequences with recurrent neural networks, 2013."""
    gradient = g + weight_decay * p
    variance = alpha * square + gain * gradient * gradient
    mean = average + (gradient - average) * gain
    return p - step * (gradient / (t.sqrt(variance - mean * mean) + eps)), variance, mean


@update("rmsprop_centered_momentum", "p square buffer average")
def rmsprop_centered_momentum(p, g, square, buffer, average, step, weight_decay, alpha, gain, eps, momentum):
    """RMSprop by the variance of the gradient, with momentum."""
    gradient = g + weight_decay * p
    variance = alpha * square + gain * gradient * gradient
    mean = average + (gradient - average) * gain
    velocity = momentum * buffer + gradient / (t.sqrt(variance - mean * mean) + eps)
    return p - step * velocity, variance, velocity, mean


@update("adagrad", "p total")
def adagrad(p, g, total, step, weight_decay, eps):
    """Adagrad. Duchi, Hazan and Singer, 2011."""
    gradient = g + weight_decay * p
    sums = total + gradient * gradient
    return p - step * (gradient / (t.sqrt(sums) + eps)), sums


@update("adadelta", "p square moved")
def adadelta(p, g, square, moved, lr, weight_decay, rho, gain, eps):
    """Adadelta; `gain` = 1 - rho. Zeiler, 2012."""
    gradient = g + weight_decay * p
    variance = rho * square + gain * gradient * gradient
    delta = t.sqrt(moved + eps) / t.sqrt(variance + eps) * gradient
    return p - lr * delta, variance, rho * moved + gain * delta * delta


@update("adamax", "p average greatest")
def adamax(p, g, average, greatest, step, weight_decay, gain1, beta2, eps):
    """Adamax: Adam by the decayed maximum of gradients; `step` = lr / (1 - beta1^t). Kingma and Ba, 2015."""
    gradient = g + weight_decay * p
    mean = average + (gradient - average) * gain1
    maximum = t.maximum(beta2 * greatest, t.abs(gradient) + eps)
    return p - step * (mean / maximum), mean, maximum


@update("nadam", "p average square")
def nadam(p, g, average, square, shrink, weight_decay, gain1, beta2, gain2, step_g, step_m, correction, eps):
    """NAdam: `step_g` and `step_m` are the rates of gradient and moment, `correction` = 1 - beta2^t. Dozat, 2016."""
    gradient = g + weight_decay * p
    mean = average + (gradient - average) * gain1
    variance = beta2 * square + gain2 * gradient * gradient
    root = t.sqrt(variance / correction) + eps
    return shrink * p - step_g * (gradient / root) - step_m * (mean / root), mean, variance


@update("radam", "p average square")
def radam(p, g, average, square, shrink, weight_decay, gain1, beta2, gain2, step, root, eps, adaptive):
    """RAdam: with the second moment if `adaptive` (its variance is tractable), else with the first moment alone.

    Liu et al., 2020.
    """
    gradient = g + weight_decay * p
    mean = average + (gradient - average) * gain1
    variance = beta2 * square + gain2 * gradient * gradient
    return shrink * p - step * mean * t.where(adaptive != 0.0, root / (t.sqrt(variance) + eps), 1.0), mean, variance


@update("rprop", "p previous size")
def rprop(p, g, previous, size, shrink, grow, least, most):
    """Rprop: steps that grow while the gradient keeps its sign. Riedmiller and Braun, 1993."""
    agreement = g * previous
    step = t.clamp(size * t.where(agreement > 0.0, grow, t.where(agreement < 0.0, shrink, 1.0)), least, most)
    gradient = t.where(agreement < 0.0, 0.0, g)
    return p - t.sign(gradient) * step, gradient, step


@update("asgd", "p mean")
def asgd(p, g, mean, weight_decay, shrink, eta, share):
    """Averaged SGD; `shrink` = 1 - lambd * eta, `share` is the weight of p in the mean. Polyak and Juditsky, 1992."""
    stepped = p * shrink - eta * (g + weight_decay * p)
    return stepped, t.where(share == 1.0, stepped, mean + (stepped - mean) * share)

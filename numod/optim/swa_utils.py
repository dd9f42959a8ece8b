"""Averages of model weights over training (SWA and EMA), and the SWA learning rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from .. import dtypes
from ..autograd import no_grad
from ..core.tensor import Tensor
from ..core.create.values import tensor
from ..nn import Module
from .lr_scheduler import LRScheduler
from .lr_scheduler.base import per_group
from .optimizer import Optimizer

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """A function that updates the exponential moving average of lists of tensors."""
    _check_decay(decay)

    @no_grad()
    def ema_update(averaged: list[Tensor], current: list[Tensor], _: Any) -> None:
        for mean, value in zip(averaged, current):
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), 1 - decay)
            else:
                mean.copy_(mean * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """A function that updates the running average of lists of tensors."""

    @no_grad()
    def swa_update(averaged: list[Tensor], current: list[Tensor], num_averaged: Tensor | int) -> None:
        for mean, value in zip(averaged, current):
            mean.copy_(mean + (value - mean) / (num_averaged + 1))  # counts of batches are integers

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """A function that updates the exponential moving average of a tensor."""
    _check_decay(decay)
    return no_grad()(lambda averaged, current, num_averaged: decay * averaged + (1 - decay) * current)


def get_swa_avg_fn() -> Callable:
    """A function that updates the running average of a tensor."""
    return no_grad()(lambda averaged, current, num_averaged: averaged + (current - averaged) / (num_averaged + 1))


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of `model` in `module` whose parameters are averages of those passed to `update_parameters`.

    With `use_buffers`, buffers are averaged too.
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Update the average with the model's current values."""
        averages, values = self._averaged(self.module), self._averaged(model)
        values = [tensor.detach().to(mean.device) for mean, tensor in zip(averages, values)]
        if (self.n_averaged == 0)._observe():
            for mean, value in zip(averages, values):
                mean.copy_(value)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, values, self.n_averaged)
        elif self.avg_fn is not None:
            for mean, value in zip(averages, values):
                mean.copy_(self.avg_fn(mean, value, self.n_averaged))
        else:
            get_swa_multi_avg_fn()(averages, values, self.n_averaged)
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers()):
                mean.copy_(value.detach().to(mean.device))
        self.n_averaged.add_(1)


@no_grad()
def update_bn(loader: Iterable, model: Module, device: Any = None) -> None:
    """Recompute the running statistics of the model's batch norms over the inputs of `loader`.

    If a batch is a tuple or list, its first item is the input.
    """
    layers = [
        module
        for module in model.modules()
        if hasattr(module, "running_mean") and hasattr(module, "num_batches_tracked") and module.track_running_stats
    ]
    if not layers:
        return
    momenta, training = [layer.momentum for layer in layers], model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """Anneals the rate to `swa_lr` over `anneal_epochs` epochs, by a cosine or linearly, then keeps it constant."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", swa_lr, optimizer)):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        done = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[float]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(max(0, step - 1)), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates()):
            start = group["swa_lr"] if before == 1 else (rate - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates

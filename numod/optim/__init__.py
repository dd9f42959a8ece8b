"""Optimizers: steps over parameters, each an in-place update of `ops.update`. Not the gradients, nor schedules of hyper-parameters."""

from __future__ import annotations

from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]

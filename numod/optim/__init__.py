"""Optimizers: steps over parameters, each an in-place update of `ops.update`. Not the gradients; schedules are in `lr_scheduler`."""

from __future__ import annotations

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]

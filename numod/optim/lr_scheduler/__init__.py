"""Learning rate schedules, with the names of `torch.optim.lr_scheduler`.

A scheduler's step sets each group's `lr` for the optimizer's next step.
"""

from __future__ import annotations

from ...core.docstrings import attach as attach_docstrings
from .base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING, LRScheduler
from .base import _enable_get_lr_call, _warn_get_lr_called_within_step  # noqa: F401  for own schedules
from .combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from .cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from .simple import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
_LRScheduler = LRScheduler  # its name until PyTorch 2

attach_docstrings({name: globals()[name] for name in __all__}, "optim.lr_scheduler.")

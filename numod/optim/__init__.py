"""Optimizers: in-place updates of parameters by the ops of `ops.update`.

Learning rate schedules are in `lr_scheduler`.
"""

from __future__ import annotations

from ..core.docstrings import attach as attach_docstrings
from . import adam, adaptive, lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .adaptive import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from .lbfgs import LBFGS
from .matrix import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import SGD
from .sparse_adam import SparseAdam

# PyTorch's files, as attributes
adamw, adadelta, adagrad, adamax, asgd, nadam, radam, rmsprop, rprop = adam, *[adaptive] * 8

__all__ = [
    "ASGD", "LBFGS", "SGD", "SparseAdam", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

attach_docstrings({name: globals()[name] for name in __all__}, "optim.")

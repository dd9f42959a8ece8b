"""Optimizers: in-place updates of parameters by the ops of `ops.update`.

Learning rate schedules are in `lr_scheduler`.
"""

from __future__ import annotations

from ..core.docstrings import attach as attach_docstrings
from . import adam, adam_variants, adaptive, lr_scheduler, swa_utils
from .adam import Adam, AdamW
from .adam_variants import Adamax, NAdam, RAdam
from .adaptive import ASGD, Adadelta, Adagrad, RMSprop, Rprop
from .lbfgs import LBFGS
from .matrix import Adafactor, Muon
from .optimizer import Optimizer
from .sgd import SGD
from .sparse_adam import SparseAdam

# PyTorch's files, as attributes
adamw, adamax, nadam, radam = adam, *[adam_variants] * 3
adadelta, adagrad, asgd, rmsprop, rprop = [adaptive] * 5

__all__ = [
    "ASGD", "LBFGS", "SGD", "SparseAdam", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon",
    "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip

attach_docstrings({name: globals()[name] for name in __all__}, "optim.")

"""The functions that modules compute, with PyTorch's names. They are composed of ops."""

from __future__ import annotations

from .activation import *
from .attention import *
from .convolution import *
from .ctc import *
from .distance import *
from .dropout import *
from .embedding import *
from .linear import *
from .linear_cross_entropy import *
from .loss import *
from .margin import *
from .normalization import *
from .padding import *
from .pooling import *
from .vision import *

from .. import grad  # noqa: F401  PyTorch's examples call F.grad.conv2d_input
from types import FunctionType as _FunctionType

from ...core.forms import checked as _checked

_TRUTHS = (
    "inplace return_indices hard need_weights average_attn_weights log_target use_separate_proj_weight add_zero_attn"
).split()
for _name, _function in list(globals().items()):
    # `linear` checks its arguments itself, without the time of another call
    if isinstance(_function, _FunctionType) and not _name.startswith("_") and _name != "linear":
        globals()[_name] = _checked(_name, _function, truths=_TRUTHS)
        globals()[_name].__module__, globals()[_name].__qualname__ = __name__, _name  # where pickle finds it

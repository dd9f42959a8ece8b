"""The functions that modules compute, with PyTorch's names. They are composed of ops."""

from __future__ import annotations

from .activation import *
from .attention import *
from .convolution import *
from .ctc import *
from .distance import *
from .dropout import *
from .embedding import *
from .interpolation import *
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

_TRUTHS = "inplace return_indices hard need_weights average_attn_weights use_separate_proj_weight add_zero_attn".split()
# PyTorch computes these in Python: their numbers may be tensors with gradients, `full` and `swap` any truth value
_IN_PYTHON = (
    "gaussian_nll_loss gumbel_softmax local_response_norm lp_pool1d lp_pool2d lp_pool3d normalize "
    "triplet_margin_with_distance_loss"
).split()
for _name, _function in list(globals().items()):
    # `linear` checks its arguments itself, without the time of another call
    if isinstance(_function, _FunctionType) and not _name.startswith("_") and _name != "linear":
        _in_python = _name in _IN_PYTHON
        globals()[_name] = _checked(
            _name,
            _function,
            truths=[*_TRUTHS, "full", "swap"] if _in_python else _TRUTHS,
            numbers=None if _in_python else float,
        )
        globals()[_name].__module__, globals()[_name].__qualname__ = __name__, _name  # where pickle finds it

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
_HELPERS = (
    "Tensor has_torch_function has_torch_function_unary has_torch_function_variadic handle_torch_function "
    "_none_or_dtype _canonical_mask _in_projection_packed _in_projection _mha_shape_check _get_softmax_dim "
    "_verify_batch_size _verify_spatial_size _no_grad_embedding_renorm_"
)
_ELSEWHERE = {  # names that copies of PyTorch's layers import from here, and the module that has them
    **dict.fromkeys(_HELPERS.split(), "numod.nn.functional.private"),
    **dict.fromkeys("_single _pair _triple _list_with_default".split(), "numod.nn.modules.utils"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("torch", "_Reduction"):
        return import_module("numod" if name == "torch" else "numod.nn._reduction")
    if name not in _ELSEWHERE:
        module = import_module(__name__)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name, obj=module)
    return getattr(import_module(_ELSEWHERE[name]), name)

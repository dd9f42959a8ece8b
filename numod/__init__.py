"""numod: a tensor and module runtime in pure Python, compiled by Numba.

`import numod as torch` should run a model file.
"""

from __future__ import annotations

__version__ = "0.1.0"

from . import autograd, dtypes, paths, tracebacks as _tracebacks, version
from .version import __version__  # noqa: F811  with PyTorch's order
from .autograd import is_anomaly_check_nan_enabled, is_anomaly_enabled, set_anomaly_enabled
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .core import *  # public names of core, by its __all__
from .core.math import foreach as _foreach
from .core import methods as _methods, overrides as _overrides, return_types
from .core.printing import get_printoptions, set_printoptions
from .core.docstrings import attach as _attach_docstrings
from .core.signatures import document as _document
from .core.create.generator import default_generator, get_rng_state, initial_seed, seed, set_rng_state
from .core.create.random import (
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from .device import Size
from .device.device import Device as device, default_device as get_default_device, set_default_device
from .errors import (
    OutOfMemoryError, absent as _absent, is_warn_always_enabled, set_warn_always, suggestion as _suggestion,
    warn_caller_once as _warn_caller_once,
)  # fmt: skip
from .device.threads import get_num_threads, set_num_threads
from .dtypes import (
    bfloat16,
    complex64,
    complex128,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    get_default_dtype,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import promote_types, can_cast
from math import e, inf, nan, pi
from sys import modules as _modules
from types import FunctionType as _FunctionType
from .formats import (
    ABSENT as _layouts,
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .graph import compile

bernoulli, multinomial = (_methods.checked(_sampler.__name__, _sampler) for _sampler in (bernoulli, multinomial))
globals().update(_foreach.functions)
globals().update(_methods.functions)
newaxis = None
globals().update(
    {
        **dtypes.ABSENT,
        **dtypes.QUANTIZED,
        **_layouts,
        "chalf": dtypes.ABSENT["complex32"],
        "legacy_contiguous_format": contiguous_format,
    }
)
globals().update(
    bool=dtypes.bool_,
    float=float32,
    double=float64,
    half=float16,
    long=int64,
    int=int32,
    short=int16,
    cfloat=complex64,
    cdouble=complex128,
)

from . import cuda, fft, linalg, nn, ops, special
from .core import neighbours as _neighbours
from .nn.functional import (
    adaptive_avg_pool1d,
    alpha_dropout,
    avg_pool1d,
    bilinear,
    celu,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    dropout,
    feature_alpha_dropout,
    group_norm,
    hardshrink,
    layer_norm,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    rrelu,
    selu,
)

from .nn.functional import deprecated as _deprecated

globals().update(
    {_name: _methods.checked(_name, getattr(_deprecated, _name)) for _name in _deprecated.FUNCTIONS.split()}
)
globals().update({_name: _methods.with_out(globals()[_name]) for _name in _deprecated.OUT.split()})


def _give_names(home: object, path: str) -> None:
    """Name the functions that tables and closures made, and those such as `all_`, as they are found:

    `__torch_function__` and pickle read names.
    """
    for name, function in list(vars(home).items()):
        if isinstance(function, _FunctionType):
            if getattr(home, function.__name__, None) is not function:
                function.__name__ = name
            if vars(_modules[function.__module__]).get(function.__qualname__) is not function:
                function.__module__, function.__qualname__ = __name__, path + name


_give_names(_methods.Tensor, "Tensor.")
_give_names(_modules[__name__], "")
_HOMES = {
    "": _modules[__name__],
    "Tensor.": _methods.Tensor,
    "nn.functional.": nn.functional,
    "special.": special,
    "linalg.": linalg,
    "fft.": fft,
}
_document(_HOMES)
_HOMES |= {"nn.": nn, "nn.init.": nn.init, "nn.utils.": nn.utils, "autograd.": autograd}
_overrides.homes += nn.functional, _modules[__name__], linalg, fft, special, nn.init, nn.utils.rnn
_overrides.others += (
    autograd.grad,
    *[kind.forward for kind in (nn.RNNBase, nn.RNNCell, nn.LSTMCell, nn.GRUCell, nn.AdaptiveLogSoftmaxWithLoss)],
)
_LATER = {  # imported at first use, so that `import numod` stays fast: a name's module, or the module itself
    **dict.fromkeys(
        name for name in (*paths.HOMES, *paths.virtual_modules.MODULES) if "." not in name and name != "_tensor"
    ),
    **dict.fromkeys(("__future__", "amp", "ao", "array_api", "backends", "distributed", "distributions", "export",
        "func", "futures", "learner", "onnx", "optim", "profiler", "random", "serialization", "testing", "utils")),
    **dict.fromkeys((
        "clear_autocast_cache", "get_autocast_dtype", "is_autocast_cache_enabled", "is_autocast_enabled",
        "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled", "get_autocast_cpu_dtype",
        "get_autocast_gpu_dtype", "is_autocast_cpu_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_gpu_dtype",
    ), "amp.autocast"),
    "compile_report": "kernel.compile_report",
    "autocast": "amp", "Future": "futures", "vmap": "func", "GradScaler": "amp", "load": "serialization",
    "save": "serialization",
    **dict.fromkeys((
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
        "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "TypedStorage",
        "UntypedStorage",
    ), "paths.storage"),
    **dict.fromkeys((
        "PyTorchFileReader", "SymBool", "SymFloat", "SymInt", "TensorType", "_log_softmax_backward_data",
        "_softmax_backward_data", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum",
    ), "paths.internal"),
    **dict.fromkeys((
        "_choose_qparams_per_tensor", "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
        "choose_qparams_optimized", "_fake_quantize_learnable_per_channel_affine",
        "_fake_quantize_learnable_per_tensor_affine", "_make_per_channel_quantized_tensor",
        "_make_per_tensor_quantized_tensor", "dequantize", "fake_quantize_per_channel_affine",
        "fake_quantize_per_tensor_affine", "fused_moving_avg_obs_fake_quant", "int_repr",
        "per_channel_affine", "per_channel_affine_float_qparams",
        "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis",
        "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
        "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic",
    ), "core.quantized"),
    "ScriptModule": "paths.jit", "get_device_module": "paths.accelerator", "Stream": "cuda", "Event": "cuda",
    **dict.fromkeys((
        "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_float32_matmul_precision",
        "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode", "set_float32_matmul_precision",
        "use_deterministic_algorithms", "get_num_interop_threads", "set_num_interop_threads", "set_flush_denormal",
    ), "backends.switches"),
}  # fmt: skip


def _assert(condition: object, message: str) -> None:
    """`assert` as a function, which model files call for PyTorch's tracers."""
    assert condition, message


def _assert_async(tensor: object, assert_msg: str = "Expected a true value") -> None:
    """Raise RuntimeError with the message unless the tensor's one value is true. On CUDA too this waits for it."""
    if not tensor:
        raise RuntimeError(assert_msg)


def _check(cond: object, message: object = None) -> None:
    """Raise RuntimeError with what `message()` gives unless `cond`."""
    if not cond:
        raise RuntimeError("Expected cond to be True, but got False." if message is None else str(message()))


def set_default_tensor_type(t: object) -> None:
    """The default dtype and device by the name or class of an old tensor type, such as `FloatTensor` or
    `cuda.FloatTensor`.

    Example:

        >>> torch.set_default_dtype(torch.float32)
    """
    _warn_caller_once(
        "set_default_tensor_type() is deprecated, please use set_default_dtype() and set_default_device()."
    )
    kinds = {"HalfTensor": float16, "BFloat16Tensor": bfloat16, "FloatTensor": float32, "DoubleTensor": float64}
    module, _, name = (f"{t.__module__}.{t.__name__}" if isinstance(t, type) else str(t)).rpartition(".")
    if name not in kinds:
        raise TypeError(f"expected a floating tensor type, one of {', '.join(kinds)}, but got {t!r}")
    set_default_dtype(kinds[name])
    set_default_device("cuda" if module.endswith(".cuda") else None)


def __getattr__(name: str) -> object:
    if name == "torch":  # files say `torch.torch.Tensor`
        return _modules[__name__]
    if name == "__all__":  # what `from numod import *` takes: also names that are imported at first use, but no modules
        return [name for name in __dir__() if name[0] != "_" and _LATER.get(name, "") is not None]
    if name not in _LATER:
        hint = _absent(name) or _suggestion(name, __dir__())
        raise AttributeError(f"module 'numod' has no attribute '{name}'{hint}", name=name, obj=_modules[__name__])
    from importlib import import_module

    home = _LATER[name]
    value = import_module(f"numod.{name}") if home is None else getattr(import_module(f"numod.{home}"), name)
    globals()[name] = value
    _attach_docstrings({name: value}, "")
    return value


autograd.__getattr__ = paths.later("autograd")
nn.__getattr__ = paths.later("nn")
ops.__getattr__ = paths.later("ops")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


for _prefix, _home in _HOMES.items():
    _attach_docstrings(vars(_home), _prefix)
_tracebacks.install()
_neighbours.install()

"""Calls of public functions with all arguments by keyword, made from the table of signatures, for numod and for PyTorch
alike. Not tests themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, Signature

SHAPES = ((3, 3), (3,), (2, 3, 3), (1, 4, 4, 4), (2, 4), ())
RANDOM = (
    "alpha_dropout bernoulli binomial cauchy dropout empty exponential geometric log_normal multinomial normal "
    "poisson rand randint randn random rrelu uniform "
    "new_empty gumbel_softmax feature_dropout empty_like empty_permuted empty_strided rand_like randint_like "
    "randn_like randperm resize resize_as fractional_max_pool2d "
    "fractional_max_pool3d feature_alpha_dropout dropout1d dropout2d dropout3d lobpcg svd_lowrank pca_lowrank "
    "fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices"
).split()  # whose results are not compared, nor those of memory that nobody has written
SKIPPED = (  # which change the process, or whose arguments are no tensors and numbers
    "Tensor.backward Tensor.map_ Tensor.map2_ Tensor.set_ Tensor.register_hook "
    "Tensor.register_post_accumulate_grad_hook Tensor.share_memory_ Tensor.record_stream "
    "Tensor.numpy Tensor.cuda Tensor.pin_memory Tensor.as_subclass Tensor.new Tensor.retain_grad Tensor.module_load "
    "seed manual_seed set_rng_state get_rng_state initial_seed vmap "
    "set_default_dtype set_default_device set_default_tensor_type set_printoptions set_deterministic_debug_mode "
    "set_float32_matmul_precision set_grad_enabled "
    "set_anomaly_enabled use_deterministic_algorithms from_file from_dlpack to_dlpack from_numpy "
    "set_autocast_cache_enabled set_autocast_cpu_dtype "
    "set_autocast_cpu_enabled set_autocast_dtype set_autocast_gpu_dtype clear_autocast_cache Tensor.storage "
    "Tensor.untyped_storage"
).split()


def value(library: object, parameter: Parameter, shape: tuple, kind: str, number: float) -> object:
    """An argument for a parameter, by its name and type."""
    name, types = parameter.name, str(parameter.annotation)
    special = {
        "mask": "bool", "condition": "bool", "index": "int64", "indices": "int64", "repeats": "int64",
        "LU_pivots": "int32", "pivots": "int32",
    }.get(name)  # fmt: skip
    if name in ("size", "shape", "sizes", "new_shape", "padded_shape"):
        return tuple(shape) or (1,)
    fixed = {
        "equation": "...,...->...", "kernel_size": 2, "output_size": 2, "pad": (1, 1), "mode": None, "dims": (0,),
        "split_size_or_sections": 1, "sections": 1, "chunks": 1, "dim0": 0, "dim1": -1, "dim2": 1, "axis0": 0,
        "axis1": -1, "shifts": 1, "num_classes": 9, "groups": 1, "n_fft": 4, "stride": None, "destination": 0,
        "source": -1, "n": 2, "spacing": 1.0, "tol": None, "driver": None, "norm": None, "UPLO": "L", "reduce": "sum",
        "rounding_mode": "floor", "approximate": "tanh", "side": "left", "reduction": None, "generator": None,
        "device": "cpu", "layout": library.strided, "memory_format": None, "requires_grad": False, "out": None,
        "dtype": None, "out_dtype": None,
    }  # fmt: skip
    if name in fixed:
        return fixed[name] if fixed[name] is not None or parameter.default is parameter.empty else parameter.default
    if "Sequence[Tensor]" in types:
        return [tensor(library, shape, kind), tensor(library, shape, kind)]
    if "Tensor" in types or name in (
        "self",
        "tensor",
        "tensors",
        "operands",
        "x1",
        "x2",
        "a",
        "b",
        "other",
        "obj",
        "data",
        "matrices",
    ):
        return tensor(library, shape, special or kind)
    if "Sequence[int]" in types and "int |" not in types:
        return parameter.default if parameter.default is not parameter.empty else (0,)
    if "bool" in types:
        return False if parameter.default is parameter.empty else parameter.default
    if "dtype" in types:
        return library.float32
    if (
        "int" in types
        or "Number" in types
        or "float" in types
        or "Any" in types
        or parameter.annotation is parameter.empty
    ):
        if parameter.default is not parameter.empty:
            return parameter.default
        return number if "Number" in types or "float" in types else 0 if "dim" in name else 1
    return parameter.default if parameter.default is not parameter.empty else None


def tensor(library: object, shape: tuple, kind: str) -> object:
    """A tensor with distinct values; matrices are symmetric and positive definite."""
    count = 1
    for size in shape:
        count *= size
    result = library.arange(1.0, count + 1).reshape(shape) / (2 * count)
    if len(shape) > 1 and shape[-1] == shape[-2] and kind in ("float32", "float64"):
        result = result + result.mT + library.eye(shape[-1])
    result = result if kind in ("float32", "float64", "complex64") else (result * 4).round() % 3
    return result.to(getattr(library, kind))


def calls(library: object, path: str, overload: Signature) -> Iterator[dict]:
    """Candidates of keyword arguments for an overload; which fit is found by trying.

    The first parameter of a method is `self`.
    """
    for kind in ("float32", "int64", "bool", "complex64"):
        for number in (0.5, 2):
            for shape in SHAPES:
                yield {
                    parameter.name: value(library, parameter, shape, kind, number)
                    for parameter in overload.parameters.values()
                    if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
                }


def is_wanted(path: str) -> bool:
    """Whether a path is one to call."""
    return path not in SKIPPED and not path.rpartition(".")[2].startswith(("set_", "get_num"))


def is_random(path: str) -> bool:
    """Whether two calls may have different results."""
    return path.rpartition(".")[2].removesuffix("_") in RANDOM


def reached(library: object, path: str) -> object:
    """The function at a path."""
    for part in path.split("."):
        library = getattr(library, part)
    return library


def call(library: object, path: str, arguments: dict) -> object:
    """The call with all arguments by keyword; only a method's `self` is not."""
    function = reached(library, path)
    if path.startswith("Tensor."):
        first, *_ = arguments
        return function(arguments[first], **{name: argument for name, argument in arguments.items() if name != first})
    return function(**arguments)

"""The names of the package torchao: `torchao.quantization` where numod replaces torch, and its older functions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ...core import Tensor
from ...errors import name_only
from ...nn.embedding import Embedding
from ...nn.linear import Linear
from ...nn.module import Module
from ..ns.metrics import compute_sqnr
from ..pruning import WeightNormSparsifier
from .granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from .primitives import (
    choose_qparams_affine,
    choose_qparams_affine_with_min_max,
    dequantize_affine,
    quantize_affine,
)
from . import qat  # noqa: F401  `torchao.quantization.qat`
from .quant_api import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    is_linear,
    quantize_,
)
from .qat import QATConfig

__path__: list[str] = []  # `torchao.quantization` is below `torchao`, and both are this module
__version__ = "0.14.0"  # whose names these are
__all__ = [
    "AOPerModuleConfig", "AffineQuantizedObserverBase", "FqnToConfig", "Granularity", "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig", "Int8DynamicActivationInt8WeightConfig", "Int8WeightOnlyConfig",
    "MappingType", "ModuleFqnToConfig", "PerAxis", "PerBlock", "PerGroup", "PerRow", "PerTensor", "PerToken",
    "QATConfig", "TorchAODType", "ZeroPointDomain", "apply_fake_sparsity", "choose_qparams_affine",
    "choose_qparams_affine_with_min_max", "compute_error", "dequantize_affine", "get_block_size",
    "get_model_size_in_bytes", "int4_weight_only", "int8_dynamic_activation_int4_weight",
    "int8_dynamic_activation_int8_weight", "int8_weight_only", "quantize_", "quantize_affine",
]  # fmt: skip

_REPLACED = {
    "autoquant": 'quantize_(model, "auto", data) times each layer and keeps the fastest',
    **dict.fromkeys(
        "Float8DynamicActivationFloat8WeightConfig Float8DynamicActivationInt4WeightConfig Float8WeightOnlyConfig "
        "Float8StaticActivationFloat8WeightConfig Float8MMConfig".split(),
        "numod has no float8 tensors; use Int8DynamicActivationInt8WeightConfig or Int8WeightOnlyConfig",
    ),
    **dict.fromkeys(
        "IntxWeightOnlyConfig Int8DynamicActivationIntxWeightConfig".split(),
        "weights have 8 or 4 bits: use Int8WeightOnlyConfig, Int4WeightOnlyConfig or "
        "Int8DynamicActivationInt4WeightConfig",
    ),
    **dict.fromkeys(
        "sparsify_ semi_sparse_weight SemiSparseWeightConfig BlockSparseWeightConfig".split(),
        'prune the weights, then numod.compile(model, options={"freezing": True, "sparsity": True}) skips their zeros '
        "where that is faster",
    ),
    "WandaSparsifier": "use numod.ao.pruning.WeightNormSparsifier",
    "Int8StaticActivationInt8WeightConfig": "fixed activation scales are those of ao.quantization.prepare and convert",
}
globals().update({name: name_only(f"ao.quantization.{name}", instead) for name, instead in _REPLACED.items()})


def apply_fake_sparsity(model: Module, **kwargs: Any) -> None:
    """Write zeros of a 2:4 pattern into the weights of all linear layers: of four neighbours the two least.

    `kwargs` are settings of `WeightNormSparsifier` in place of these.

    Example:

        >>> from numod.ao.quantization.torchao import apply_fake_sparsity
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 2))
        >>> apply_fake_sparsity(model)
        >>> (model[0].weight == 0).sum().item()
        8
    """
    layers = [path for path, module in model.named_modules() if isinstance(module, Linear)]
    settings = {"sparsity_level": 1.0, "sparse_block_shape": (1, 4), "zeros_per_block": 2} | kwargs
    sparsifier = WeightNormSparsifier(**settings)
    sparsifier.prepare(model, [{"tensor_fqn": f"{path}.weight" if path else "weight"} for path in layers])
    sparsifier.step()
    sparsifier.squash_mask()


def compute_error(x: Tensor, y: Tensor) -> Tensor:
    """The signal-to-noise ratio of y, an approximation of x, in decibels."""
    return compute_sqnr(x, y)


def get_model_size_in_bytes(model: Module, ignore_embeddings: bool = False) -> int:
    """The bytes of what a model's state dict has, also of quantized weights; of shared ones once.

    Example:

        >>> from numod.ao.quantization.torchao import get_model_size_in_bytes
        >>> get_model_size_in_bytes(torch.nn.Linear(3, 2))
        32
    """
    tables = [path for path, module in model.named_modules() if ignore_embeddings and isinstance(module, Embedding)]
    prefixes = tuple([f"{path}." for path in tables])
    state = model.state_dict(keep_vars=True)
    memories = list(_memories(value for key, value in state.items() if not key.startswith(prefixes)))
    return sum(memory.nbytes for memory in {id(memory): memory for memory in memories}.values())


def _memories(values: Iterable[Any]) -> Iterator[Tensor]:
    """The plain tensors whose memory the values of a state dict are."""
    for value in values:
        if isinstance(value, tuple):
            yield from _memories(value)
        elif isinstance(value, Tensor):
            yield value._memory if value.is_quantized else value


def int8_weight_only(group_size: int | None = None, **settings: Any) -> Int8WeightOnlyConfig:
    """torchao's older name of `Int8WeightOnlyConfig`."""
    return Int8WeightOnlyConfig(group_size)


def int4_weight_only(group_size: int = 128, **settings: Any) -> Int4WeightOnlyConfig:
    """torchao's older name of `Int4WeightOnlyConfig`."""
    return Int4WeightOnlyConfig(group_size)


def int8_dynamic_activation_int4_weight(group_size: int = 32, **settings: Any) -> Int8DynamicActivationInt4WeightConfig:
    """torchao's older name of `Int8DynamicActivationInt4WeightConfig`."""
    return Int8DynamicActivationInt4WeightConfig(group_size)


def int8_dynamic_activation_int8_weight(**settings: Any) -> Int8DynamicActivationInt8WeightConfig:
    """torchao's older name of `Int8DynamicActivationInt8WeightConfig`."""
    return Int8DynamicActivationInt8WeightConfig()


class FqnToConfig:
    """A config for each path: {"0": config, "re:.*fc": config, "_default": config}, where None keeps floats.

    A path itself comes before the first pattern that matches all of it, and that before the default, which is for the
    linear layers.
    """

    def __init__(
        self, fqn_to_config: dict[str, Any] | None = None, module_fqn_to_config: dict[str, Any] | None = None
    ) -> None:
        if fqn_to_config and module_fqn_to_config and fqn_to_config != module_fqn_to_config:
            raise ValueError("`fqn_to_config` and `module_fqn_to_config` are both specified and are not equal!")
        self.fqn_to_config = fqn_to_config or module_fqn_to_config or {}

    def of(self, module: Module, path: str) -> Any:
        """The config of a module, or None."""
        if path in self.fqn_to_config:
            return self.fqn_to_config[path]
        for pattern, config in self.fqn_to_config.items():
            if pattern.startswith("re:") and re.fullmatch(pattern[3:], path):
                return config
        return self.fqn_to_config.get("_default") if is_linear(module, path) else None


ModuleFqnToConfig = AOPerModuleConfig = FqnToConfig


def __getattr__(name: str) -> Any:
    """The package's modules, such as `torchao.quantization.quant_api`, are this module."""
    if name in ("quantization", "granularity", "quant_api", "utils", "quant_primitives", "sparsity"):
        return sys.modules[__name__]
    raise AttributeError(f"module 'torchao' has no attribute {name!r}; numod has {', '.join(__all__)}")

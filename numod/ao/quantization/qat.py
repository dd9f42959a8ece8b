"""torchao's training for quantization: `quantize_(model, QATConfig(config, step="prepare"))`, train, then "convert".

A prepared layer rounds its weight as the config's layer would (and its input, where that layer rounds it), and passes
the gradient on as if it had not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ... import dtypes
from ...core import Tensor
from ...nn import functional as F
from ...nn.embedding import Embedding
from ...nn.linear import Linear
from ...nn.module import Module
from ...nn.parameter import Parameter
from ...nn.utils import parametrize
from ...nn.utils.computed import plain
from ...nn.utils.prune import custom_from_mask
from .granularity import Granularity, MappingType, PerAxis, PerGroup, PerToken, TorchAODType

__all__ = [
    "FakeQuantizeConfig", "FakeQuantizeConfigBase", "FakeQuantizedEmbedding", "FakeQuantizedLinear",
    "IntxFakeQuantizeConfig", "QATConfig", "QATStep",
]  # fmt: skip

_EPS = 2.0**-23  # of float32


class QATStep(StrEnum):
    """Before or after training."""

    PREPARE = "prepare"
    CONVERT = "convert"


class FakeQuantizeConfigBase:
    """Base of configs that say how a tensor is rounded in training."""

    def round(self, x: Tensor) -> Tensor:
        """The rounded values, without a gradient."""
        raise NotImplementedError(f"{type(self).__name__} must define round()")


def _bits(dtype: Any) -> tuple[int, bool]:
    """(number of bits, whether negative) of a dtype of 1 to 8 bits."""
    name = dtype.name.lower()
    number = name.removeprefix("u").removeprefix("int")
    if not name.removeprefix("u").startswith("int") or not number.isdigit() or not 1 <= int(number) <= 8:
        raise ValueError(
            f"Unsupported dtype '{dtype}', choose integers of 1 to 8 bits, such as numod.int8 or numod.int4"
        )
    return int(number), not name.startswith("u")


_GRANULARITIES = {"per_token": PerToken(), "per_channel": PerAxis(0)}


class IntxFakeQuantizeConfig(FakeQuantizeConfigBase):
    """Integers of 1 to 8 bits, with a scale for each row ("per_token", "per_channel") or group of a row.

    The range of the values determines the scale at each call.
    """

    def __init__(
        self,
        dtype: dtypes.dtype | TorchAODType,
        granularity: Granularity | str | None = None,
        mapping_type: MappingType | None = None,
        *,
        group_size: int | None = None,
        is_symmetric: bool | None = None,
        is_dynamic: bool = True,
    ) -> None:
        if not is_dynamic:
            raise ValueError(
                "is_dynamic=False: the scale is that of each call; use quantization.prepare_qat for fixed ones"
            )
        if mapping_type is not None and is_symmetric is not None:
            raise ValueError("Cannot set both `mapping_type` and `is_symmetric`")
        self.dtype, (self.bits, self.is_signed) = dtype, _bits(dtype)
        self.granularity = self._granularity(granularity, group_size)
        default = MappingType.ASYMMETRIC if is_symmetric is False else MappingType.SYMMETRIC
        self.mapping_type = default if mapping_type is None else mapping_type

    @staticmethod
    def _granularity(granularity: Granularity | str | None, group_size: int | None) -> Granularity:
        if granularity in ("per_group", None) and group_size is not None:
            return PerGroup(group_size)
        if group_size is not None:
            raise ValueError(f"`group_size` conflicts with granularity '{granularity}'")
        granularity = _GRANULARITIES.get(granularity, granularity) if isinstance(granularity, str) else granularity
        if not isinstance(granularity, (PerToken, PerAxis, PerGroup)):
            raise ValueError(
                f"Unexpected granularity: '{granularity}', must be one of ['per_token', 'per_channel', "
                "'per_group'], the last with group_size"
            )
        if isinstance(granularity, PerAxis) and granularity.axis != 0:
            raise ValueError("Only axis=0 is supported for PerAxis granularity")
        return granularity

    @property
    def is_symmetric(self) -> bool:
        """Whether zero is in the middle."""
        return self.mapping_type is not MappingType.ASYMMETRIC

    def round(self, x: Tensor) -> Tensor:
        """The rounded values, without a gradient."""
        x = x.detach()
        size = self.granularity.group_size if isinstance(self.granularity, PerGroup) else x.shape[-1]
        if x.shape[-1] % size:
            raise ValueError(f"group_size {size} must divide the {x.shape[-1]} columns")
        low = -(1 << self.bits - 1) if self.is_signed else 0
        return self._rounded(x.reshape(-1, size), low, low + (1 << self.bits) - 1).reshape(x.shape)

    def _rounded(self, rows: Tensor, low: int, high: int) -> Tensor:
        least, greatest = rows.amin(1, True).clamp(max=0), rows.amax(1, True).clamp(min=0)
        if self.is_symmetric:
            scale = (greatest.maximum(-least) / ((high - low) / 2)).clamp(min=_EPS)
            zero = (high + low + 1) // 2
        else:
            scale = ((greatest - least) / (high - low)).clamp(min=_EPS)
            zero = (low - (least / scale).round()).clamp(low, high)
        return (((rows * (1.0 / scale)).round() + zero).clamp(low, high) - zero) * scale


FakeQuantizeConfig = IntxFakeQuantizeConfig  # torchao's older name


class _OfBase(FakeQuantizeConfigBase):
    """Rounds a weight as the layer of a config would."""

    def __init__(self, config: Any, mod: Linear) -> None:
        self.config, self.mod = config, [mod]  # a list, since a submodule of itself would be endless

    def round(self, x: Tensor) -> Tensor:
        return self.config.layer(self.mod[0]).dequantize()


def _straight_through(x: Tensor, config: FakeQuantizeConfigBase | None) -> Tensor:
    return x if config is None else x + (config.round(x).to(x.dtype) - x).detach()


def _take_parameters(layer: Linear, mod: Linear) -> None:
    """Give a layer the parameters of another one; pruned and parametrized ones stay so."""
    source, masks = plain(mod)
    layer.training = mod.training
    for name in ("weight", "bias"):
        value = getattr(source, name)
        setattr(layer, name, Parameter(value.detach()) if parametrize.is_parametrized(mod, name) else value)
    parametrize.transfer_parametrizations_and_params(mod, layer)
    for name, mask in masks.items():
        custom_from_mask(layer, name, mask)


class FakeQuantizedLinear(Linear):
    """A linear layer whose weight, and input, are rounded in training."""

    activation_config: FakeQuantizeConfigBase | None = None
    weight_config: FakeQuantizeConfigBase | None = None
    base_config: Any = None

    @classmethod
    def from_linear(
        cls,
        mod: Linear,
        activation_config: FakeQuantizeConfigBase | None = None,
        weight_config: FakeQuantizeConfigBase | None = None,
        base_config: Any = None,
    ) -> FakeQuantizedLinear:
        """The layer with a float layer's parameters."""
        result = cls(mod.in_features, mod.out_features, False, mod.weight.device, mod.weight.dtype)
        _take_parameters(result, mod)
        result.activation_config, result.weight_config = activation_config, weight_config
        result.base_config = base_config
        return result

    def to_linear(self) -> Linear:
        """The float layer with this one's parameters."""
        result = Linear(self.in_features, self.out_features, False, self.weight.device, self.weight.dtype)
        _take_parameters(result, self)
        return result

    def forward(self, input: Tensor) -> Tensor:
        weight_config = self.weight_config
        if self.base_config is not None:
            weight_config = _OfBase(self.base_config, self)
        x = _straight_through(input, self.activation_config)
        return F.linear(x, _straight_through(self.weight, weight_config), self.bias)


class FakeQuantizedEmbedding(Embedding):
    """An embedding whose table is rounded in training."""

    weight_config: FakeQuantizeConfigBase | None = None

    @classmethod
    def from_embedding(cls, mod: Embedding, weight_config: FakeQuantizeConfigBase | None) -> FakeQuantizedEmbedding:
        """The layer with a float layer's table."""
        result = cls.__new__(cls)
        Module.__init__(result)
        vars(result).update(vars(mod))
        result.weight_config = weight_config
        return result

    def to_embedding(self) -> Embedding:
        """The float layer with this one's table."""
        result = Embedding.__new__(Embedding)
        Module.__init__(result)
        vars(result).update({name: value for name, value in vars(self).items() if name != "weight_config"})
        return result

    def forward(self, input: Tensor) -> Tensor:
        weight = _straight_through(self.weight, self.weight_config)
        return F.embedding(
            input, weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


@dataclass
class QATConfig:
    """For `quantize_`: layers that round in training (step "prepare"), and the quantized ones after it ("convert").

    `base_config` is the config of the quantized layers; without it, `weight_config` and `activation_config` say how to
    round, and "convert" returns the float layers.

    Example:

        >>> from numod.ao.quantization import Int8WeightOnlyConfig, quantize_
        >>> from numod.ao.quantization.qat import QATConfig
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2))
        >>> quantize_(model, QATConfig(Int8WeightOnlyConfig(), step="prepare"))
        >>> model[0]
        FakeQuantizedLinear(in_features=4, out_features=2, bias=True)
        >>> quantize_(model, QATConfig(Int8WeightOnlyConfig(), step="convert"))
        >>> model[0]
        WeightOnlyLinear(in_features=4, out_features=2, bias=True, bits=8)
    """

    base_config: Any = None
    activation_config: FakeQuantizeConfigBase | None = None
    weight_config: FakeQuantizeConfigBase | None = None
    step: QATStep | str = QATStep.PREPARE

    def __post_init__(self) -> None:
        step = self.step.lower()
        if step not in [member.value for member in QATStep]:
            raise ValueError(f"`step` must be one of ['prepare', 'convert'], got {self.step!r}")
        self.step = QATStep(step)
        rounding = [name for name in ("activation_config", "weight_config") if getattr(self, name) is not None]
        if isinstance(self.base_config, FakeQuantizeConfigBase):
            raise ValueError(
                f"{type(self.base_config).__name__} was passed as `base_config`; pass it as activation_config or "
                "weight_config"
            )
        if rounding and self.base_config is not None:
            raise ValueError(f"Cannot specify both `base_config` and `{rounding[0]}`")
        if self.step is QATStep.PREPARE and self.base_config is None and not rounding:
            raise ValueError("Must specify `base_config`, `activation_config`, or `weight_config` in the prepare step")
        if self.step is QATStep.CONVERT and rounding:
            raise ValueError("Cannot specify `weight_config` or `activation_config` in the convert step")

    def accepts(self, module: Module) -> bool:
        """Whether this step replaces a module, by default."""
        if self.step is QATStep.PREPARE:
            return parametrize.type_before_parametrizations(module) is Linear
        return isinstance(module, (FakeQuantizedLinear, FakeQuantizedEmbedding))

    def layer(self, mod: Any) -> Module:
        """The layer that replaces one."""
        return self._prepared(mod) if self.step is QATStep.PREPARE else self._converted(mod)

    def _prepared(self, mod: Any) -> Module:
        if isinstance(mod, Embedding) and self.activation_config is None and self.base_config is None:
            return FakeQuantizedEmbedding.from_embedding(mod, self.weight_config)
        if not isinstance(mod, Linear):
            raise ValueError(f"Module of type '{type(mod).__name__}' does not have QAT support with this config")
        activation = self.activation_config
        if self.base_config is not None:
            activation = getattr(self.base_config, "activation_rounding", None)
        return FakeQuantizedLinear.from_linear(mod, activation, self.weight_config, self.base_config)

    def _converted(self, mod: Any) -> Module:
        if isinstance(mod, FakeQuantizedEmbedding):
            return mod.to_embedding()
        if not isinstance(mod, FakeQuantizedLinear):
            return mod
        layer = mod.to_linear()
        return layer if self.base_config is None else self.base_config.layer(layer)

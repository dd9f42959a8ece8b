"""What shares a scale: torchao's granularities and kinds of mapping, which its configs take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ... import dtypes
from ...core import Tensor
from ...nn.module import Module
from .observer import WithArguments

__all__ = [
    "AffineQuantizedObserverBase", "Granularity", "MappingType", "PerAxis", "PerBlock", "PerGroup", "PerRow",
    "PerTensor", "PerToken", "TorchAODType", "ZeroPointDomain", "get_block_size",
]  # fmt: skip


class MappingType(Enum):
    """How the range is mapped to integers: with zero in the middle, or not."""

    SYMMETRIC = auto()
    SYMMETRIC_NO_CLIPPING_ERR = auto()
    ASYMMETRIC = auto()


class ZeroPointDomain(Enum):
    """The kind of a zero point: an integer, a float, or none."""

    INT = auto()
    FLOAT = auto()
    NONE = auto()


class TorchAODType(Enum):
    """Integers of fewer than 8 bits."""

    INT1 = auto()
    INT2 = auto()
    INT3 = auto()
    INT4 = auto()
    INT5 = auto()
    INT6 = auto()
    INT7 = auto()


@dataclass(frozen=True)
class Granularity:
    """Base of what shares a scale."""


@dataclass(frozen=True)
class PerTensor(Granularity):
    """The whole tensor shares a scale."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Each entry along an axis has a scale."""

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Each group of entries of a row has a scale."""

    group_size: int


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Each block of this shape has a scale."""

    block_size: tuple[int, ...]


class PerRow(Granularity):
    """Each row has a scale."""


class PerToken(Granularity):
    """Each vector of the last dimension has a scale."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The shape of the blocks that share a scale.

    Example:

        >>> from numod.ao.quantization.granularity import PerAxis, get_block_size
        >>> get_block_size((4, 6), PerAxis(0))
        (1, 6)
    """
    if not isinstance(granularity, Granularity):
        raise AssertionError("Please provide an instance of Granularity, not subclass of it")
    ndim = len(input_shape)
    if isinstance(granularity, PerTensor):
        return input_shape
    if isinstance(granularity, PerAxis):
        axis = granularity.axis % ndim
        return tuple([1 if dim == axis else size for dim, size in enumerate(input_shape)])
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (ndim - 1) + (input_shape[-1],)
    if isinstance(granularity, PerGroup):
        if ndim != 2:
            raise AssertionError(
                f"Expecting input shape dim to be 2 for per group quantization, got input shape: {input_shape}"
            )
        return 1, granularity.group_size
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(WithArguments, Module):
    """Base of observers for a granularity: a subclass defines `forward` and `calculate_qparams`."""

    def __init__(
        self,
        mapping_type: MappingType,
        target_dtype: dtypes.dtype,
        granularity: Granularity,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float | None = None,
        scale_dtype: dtypes.dtype | None = None,
        zero_point_dtype: dtypes.dtype | None = None,
        preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if granularity is None:
            raise AssertionError("granularity is None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain
        self.block_size: tuple[int, ...] | None = None
        self.original_dtype: dtypes.dtype | None = None

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} must define calculate_qparams()")

"""Float layers whose weight is rounded as quantization will, for training."""

from __future__ import annotations

from typing import Any

from ....core import Tensor
from ....core.quantized import per_channel_affine_float_qparams
from ....nn import Conv1d as _Conv1d, Conv2d as _Conv2d, Conv3d as _Conv3d, Linear as _Linear, Module
from ....nn import Embedding as _Embedding, EmbeddingBag as _EmbeddingBag, Parameter, ReLU
from ....nn import functional as F
from ....nn.utils.parametrize import (
    transfer_parametrizations_and_params,
    type_before_parametrizations as kind_of,
)
from .. import intrinsic
from ..intrinsic import _FusedModule

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


def expect_qconfig(mod: Module) -> None:
    """Raise AssertionError for a float layer without a QConfig."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")


class QATModule:
    """Adds `weight_fake_quant`, the rounding of the weight, to a float layer."""

    _FLOAT_MODULE: type[Module] = Module
    weight_fake_quant: Module

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer for training: it has the float layer's parameters."""
        if kind_of(mod) is not cls._FLOAT_MODULE:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {cls._FLOAT_MODULE.__name__}")
        expect_qconfig(mod)
        return with_rounding(cls, mod[0] if isinstance(mod, _FusedModule) else mod, mod.qconfig)

    @staticmethod
    def check_qconfig(qconfig: Any) -> None:
        """Raise for a QConfig that the layer cannot be trained with."""

    def to_float(self) -> Module:
        """The float layer with this layer's parameters: a batch norm is in them, and a ReLU follows where it did."""
        kind = _float_kind(type(self))
        result = object.__new__(kind)
        Module.__init__(result)
        settings = {name: value for name, value in vars(self).items() if name[0] != "_" and name != "freeze_bn"}
        result.__dict__.update(settings)
        parameters = dict(self._parameters)
        if hasattr(self, "fused_parameters"):
            parameters["weight"], parameters["bias"] = self.fused_parameters()
        for name, parameter in parameters.items():
            result.register_parameter(name, None if parameter is None else Parameter(parameter.detach()))
        del result.qconfig
        if getattr(self, "_then_relu", False):
            pair = "LinearReLU" if kind is _Linear else kind.__name__.replace("Conv", "ConvReLU")
            result = getattr(intrinsic, pair)(result, ReLU())
        return result.train(self.training)


def _float_kind(kind: type) -> type[Module]:
    """The float layer that a layer for training derives from."""
    return next(base for base in kind.__mro__ if base.__module__.startswith("numod.nn."))


def with_rounding(cls: type, mod: Module, qconfig: Any) -> Any:
    """A layer of class `cls` with the settings and parameters of a float layer, and the QConfig's weight rounding."""
    cls.check_qconfig(qconfig)
    result = cls.__new__(cls)
    Module.__init__(result)
    settings = {name: value for name, value in vars(mod).items() if name not in vars(result) and name != "qconfig"}
    result.__dict__.update(settings)
    for name, parameter in mod._parameters.items():
        result.register_parameter(name, parameter)
    result.qconfig = qconfig
    result.training = mod.training
    transfer_parametrizations_and_params(mod, result)
    result.weight_fake_quant = qconfig.weight()
    return result


def _with_qconfig(kind: type, self: Any, args: tuple, qconfig: Any, kwargs: dict) -> None:
    kind.__init__(self, *args, **kwargs)
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    self.check_qconfig(qconfig)
    self.qconfig, self.weight_fake_quant = qconfig, qconfig.weight()


def _expect_float_parameters(name: str, qconfig: Any) -> None:
    scheme = qconfig.weight().qscheme
    if scheme is not per_channel_affine_float_qparams:
        raise AssertionError(
            f"{name} weights requires a qscheme of numod.per_channel_affine_float_qparams, got {scheme}"
        )


class Linear(QATModule, _Linear):
    """Linear with a rounded weight."""

    _FLOAT_MODULE = _Linear

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        _with_qconfig(_Linear, self, args, qconfig, kwargs)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)


class _Conv(QATModule):
    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        _with_qconfig(_float_kind(type(self)), self, args, qconfig, kwargs)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)


class Conv1d(_Conv, _Conv1d):
    """Conv1d with a rounded weight."""

    _FLOAT_MODULE = _Conv1d


class Conv2d(_Conv, _Conv2d):
    """Conv2d with a rounded weight."""

    _FLOAT_MODULE = _Conv2d


class Conv3d(_Conv, _Conv3d):
    """Conv3d with a rounded weight."""

    _FLOAT_MODULE = _Conv3d


class Embedding(QATModule, _Embedding):
    """Embedding with a rounded weight."""

    _FLOAT_MODULE = _Embedding

    @staticmethod
    def check_qconfig(qconfig: Any) -> None:
        """See `QATModule`."""
        _expect_float_parameters("Embedding", qconfig)

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        _with_qconfig(_Embedding, self, args, qconfig, kwargs)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip


class EmbeddingBag(QATModule, _EmbeddingBag):
    """EmbeddingBag with a rounded weight."""

    _FLOAT_MODULE = _EmbeddingBag

    @staticmethod
    def check_qconfig(qconfig: Any) -> None:
        """See `QATModule`."""
        _expect_float_parameters("Embedding Bag", qconfig)

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        _with_qconfig(_EmbeddingBag, self, args, qconfig, kwargs)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip


from . import dynamic  # noqa: E402, F401  a public namespace, which derives from the layers above

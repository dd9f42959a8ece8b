"""Float layers that are quantized as one: pairs and triples that `fuse_modules` puts together."""

from __future__ import annotations

from typing import Any

from ....nn import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    LeakyReLU,
    Linear,
    Module,
    ReLU,
    Sequential,
    Tanh,
)

from ....core import Tensor
from ....nn.utils.parametrize import type_before_parametrizations as kind_of

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d",
    "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU",
    "LinearReLU", "LinearTanh",
]  # fmt: skip


class Fused:
    """Marks layers that stand for several, which are converted as one."""


class _FusedModule(Fused, Sequential):
    """Layers that are called one after the other, and quantized together."""

    _layers: tuple[type[Module], ...] = ()

    def __init__(self, *layers: Module) -> None:
        if self._layers and tuple(map(kind_of, layers)) != self._layers:
            names = [[kind.__name__ for kind in kinds] for kinds in (self._layers, map(kind_of, layers))]
            raise AssertionError(
                f"{type(self).__name__}: Incorrect types for input modules: expected {names[0]}, got {names[1]}"
            )
        super().__init__(*layers)


def _fused(name: str, *layers: type[Module]) -> Any:
    words = ", ".join(kind.__name__ for kind in layers)
    return type(name, (_FusedModule,), {"_layers": layers, "__doc__": f"{words}.", "__module__": __name__})


ConvReLU1d, ConvReLU2d, ConvReLU3d = (
    _fused(f"ConvReLU{n}d", conv, ReLU) for n, conv in enumerate((Conv1d, Conv2d, Conv3d), 1)
)
ConvBn1d, ConvBn2d, ConvBn3d = (
    _fused(f"ConvBn{n}d", *pair)
    for n, pair in enumerate(((Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d)), 1)
)
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (
    _fused(f"ConvBnReLU{n}d", *pair._layers, ReLU) for n, pair in enumerate((ConvBn1d, ConvBn2d, ConvBn3d), 1)
)
BNReLU2d, BNReLU3d = _fused("BNReLU2d", BatchNorm2d, ReLU), _fused("BNReLU3d", BatchNorm3d, ReLU)
LinearReLU, LinearBn1d = _fused("LinearReLU", Linear, ReLU), _fused("LinearBn1d", Linear, BatchNorm1d)
LinearLeakyReLU, LinearTanh = _fused("LinearLeakyReLU", Linear, LeakyReLU), _fused("LinearTanh", Linear, Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution of one input, and the sum with another one."""

    def __init__(self, conv: Module, add: Any) -> None:
        super().__init__(conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution of one input, the sum with another one, and ReLU."""

    def __init__(self, conv: Module, add: Any, relu: Any) -> None:
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return self.relu(self.add(self[0](x1), x2))


def __getattr__(name: str) -> Any:
    if name in ("qat", "quantized"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

"""Places where a model's values become integers and floats again. Before `convert`, they do nothing."""

from __future__ import annotations

from typing import Any

from ...core import Tensor
from ...nn.module import Module


class _Stub(Module):
    """Returns its input; `convert` puts a layer in its place."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Stub):
    """Where floats become integers: an observer after `prepare`, `nn.quantized.Quantize` after `convert`."""


class DeQuantStub(_Stub):
    """Where integers become floats: `nn.quantized.DeQuantize` after `convert`."""


class QuantWrapper(Module):
    """A module with a QuantStub before it and a DeQuantStub after it."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant = QuantStub(qconfig), DeQuantStub(qconfig)
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))

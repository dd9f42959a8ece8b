"""Padding layers: constant, zero, reflection, replication and circular."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import Tensor
from . import functional as F
from .module import Module
from .settings import per_dimension

__all__ = [
    f"{kind}Pad{ndim}d" for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular") for ndim in (1, 2, 3)
]


class _Pad(Module):
    """Padding by one number for all sides, or by (left, right, top, bottom, front, back), two per spatial dimension."""

    ndim = 0
    mode = "constant"
    value: float = 0.0

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = per_dimension(padding, 2 * self.ndim)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode == "circular" and input.ndim not in (self.ndim + 1, self.ndim + 2):
            raise ValueError(f"expected {self.ndim + 1}D or {self.ndim + 2}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self.mode, self.value if self.mode == "constant" else None)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Padding with `value`."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


def _of(name: str, ndim: int, base: type = _Pad, mode: str = "constant") -> type:
    borders = {
        "constant": "constant borders",
        "reflect": "borders that mirror the input",
        "replicate": "borders that repeat the edge",
        "circular": "borders from the other side",
    }
    arguments = "1, 0.5" if base is _ConstantPad else "1"
    text = (
        f"Adds {borders[mode]} to the last {ndim} dimension{'s' if ndim > 1 else ''}.\n\nExample:\n\n"
        f"    >>> nn.{name}{ndim}d({arguments})(torch.ones(1, 2{', 3' * ndim})).shape\n"
        f"    numod.Size([1, 2{', 5' * ndim}])\n"
    )
    return type(f"{name}{ndim}d", (base,), {"ndim": ndim, "mode": mode, "__module__": __name__, "__doc__": text})


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_of("ConstantPad", ndim, _ConstantPad) for ndim in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_of("ZeroPad", ndim) for ndim in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_of("ReflectionPad", ndim, mode="reflect") for ndim in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _of("ReplicationPad", ndim, mode="replicate") for ndim in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_of("CircularPad", ndim, mode="circular") for ndim in (1, 2, 3))

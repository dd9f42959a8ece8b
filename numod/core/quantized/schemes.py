"""Quantization schemes: whether one scale holds for the tensor or for a channel, and whether zero is in the middle."""

from __future__ import annotations


class qscheme:
    """A scheme, such as `numod.per_tensor_affine`. There is one object of each name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"numod.{self.name}"

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)

    @property
    def is_per_channel(self) -> bool:
        """Whether each channel has a scale of its own."""
        return self.name.startswith("per_channel")


per_tensor_affine, per_tensor_symmetric = qscheme("per_tensor_affine"), qscheme("per_tensor_symmetric")
per_channel_affine, per_channel_symmetric = qscheme("per_channel_affine"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        per_tensor_affine,
        per_tensor_symmetric,
        per_channel_affine,
        per_channel_symmetric,
        per_channel_affine_float_qparams,
    )
}


def _by_name(name: str) -> qscheme:
    return SCHEMES[name]

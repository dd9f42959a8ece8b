"""Names for how a tensor's elements lie in memory:

`strided`, the only layout of tensors, and the memory formats. What they do is in `core.shape.formats`.
"""

from __future__ import annotations


class _Named:
    """A constant with a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"numod.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(_Named):
    """How a tensor is stored. All are `strided`; the others are names, for comparisons."""


class memory_format(_Named):
    """The order of a tensor's dimensions in memory.

    Example:

        >>> torch.ones(1, 2, 2, 2).is_contiguous(memory_format=torch.channels_last)
        False
    """


strided = layout("strided")
ABSENT = {
    name: layout(name) for name in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
}
contiguous_format, preserve_format, channels_last, channels_last_3d = map(
    memory_format, ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
)

"""Records how a function uses the gradients of leaves during a recording."""

from __future__ import annotations

from ...core.tensor import Tensor


class GradientUse:
    """Events on the `.grad` of leaves during a recording."""

    def __init__(self) -> None:
        self.at_first_use: dict[int, tuple[Tensor, Tensor | None]] = {}  # leaves and their gradients at the first use
        self.checked: dict[int, Tensor] = {}  # leaves for which the library tested whether a gradient exists
        self.dropped_unseen: dict[int, Tensor] = {}  # leaves whose missing gradient was set to None
        self._replaced: dict[int, Tensor] = {}  # leaves whose gradient was set to None before any check

    def first_use(self, leaf: Tensor) -> None:
        """A tensor that existed before the recording is used."""
        self.at_first_use[id(leaf)] = leaf, leaf._grad

    def check(self, leaf: Tensor) -> None:
        """The library tests whether a leaf has a gradient. The outcome is known if the function set it to None."""
        if id(leaf) not in self._replaced:
            self.checked[id(leaf)] = leaf

    def drop(self, leaf: Tensor) -> None:
        """The function sets a leaf's gradient to None. If nothing has read it, its former value does not matter."""
        if id(leaf) not in self.checked:
            self._replaced[id(leaf)] = leaf
            if leaf._grad is None:
                self.dropped_unseen[id(leaf)] = leaf

"""Conditions on the inputs of a program, beyond their layouts."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.tensor import Tensor
from ...device import Storage
from ..values.kinds import is_plain


@dataclass(eq=False)
class InputConditions:
    """Conditions on the inputs of a program. Inputs are identified by their numbers."""

    shared_storages: dict[int, Storage]  # inputs that must have this storage, which the function also reaches
    held_storages: frozenset[Storage]  # storages that other inputs must not have
    without_gradient: list[int]  # inputs that must have no gradient
    in_backward: dict[int, bool]  # inputs that a backward pass inside reaches: without hooks, and a leaf if set
    expressions: list[tuple[int, str]]  # further conditions on an input, `{}`

    def __post_init__(self) -> None:
        texts = [text.format(f"inputs[{number}]") for number, text in self.expressions]
        self._expressions_hold = eval(f"lambda inputs: {' and '.join(texts) or 'True'}")  # generated text

    def mismatch(self, inputs: tuple[Tensor, ...]) -> str | None:
        """The first condition that does not hold, in words, or None."""
        shared, held = self.shared_storages, self.held_storages
        for number, tensor in enumerate(inputs):
            storage = tensor._storage
            if storage is not shared[number] if number in shared else storage in held:
                return "an argument that shares memory with a tensor that the function also reaches"
        for number in self.without_gradient:
            if inputs[number]._grad is not None:
                return "an argument that has a gradient already"
        for number, is_leaf in self.in_backward.items():
            if not is_plain(inputs[number], is_leaf):
                return "an argument with hooks or a history, which a backward pass inside reaches"
        if not self._expressions_hold(inputs):
            return "an argument's gradient, requires_grad or another attribute"
        return None

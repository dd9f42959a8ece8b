"""Numbers that optimizers and schedules read in Python for a step, such as rates. Each run reads them again."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ..values.source_location import CannotRepeat
from .decisions import Decisions


class UpdateNumbers:
    """Events while an optimizer or a schedule reads numbers for its step."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        self.are_read = False  # whether numbers are read now
        self.schedules: list[object] = []  # that were stepped
        # shows plain numbers instead of lazy scalars while numbers are read (True), and hides them again (False)
        self.expose_numbers: Callable[[bool], None] | None = None
        self._tensors: list[tuple[Tensor, str]] = []  # read for numbers, with their lines

    def note_tensor(self, tensor: Tensor, where: str) -> None:
        """The value of a tensor, such as a rate, is read for a step."""
        self._tensors.append((tensor, where))

    def note_schedule(self, schedule: object, computed_storages: set[int]) -> None:
        """A schedule was stepped. Its metric must not be one of the tensors that the function computed."""
        self.schedules.append(schedule)
        computed = [location for tensor, location in self._tensors if id(tensor._storage) in computed_storages]
        if computed:
            self.decisions.refuse_metric(computed[0], schedule)

    def refuse_computed(self, storages: set[int]) -> None:
        """Raise CannotRepeat if a number comes from a tensor that the program makes or writes, in these storages.

        A run reads the numbers before it begins.
        """
        for tensor, where in self._tensors:
            if id(tensor._storage) in storages:
                raise CannotRepeat(
                    f"trace: {where} takes a step with a rate or metric that the function computes, which a recorded "
                    "program cannot repeat; compute it outside"
                )

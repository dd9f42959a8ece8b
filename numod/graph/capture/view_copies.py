"""Copies that a program has instead of views.

Some views depend on values: `x[i]` with a tensor or a changing number as the index. While recording they are copies.
A write to the copy is written back to its source, and a write to the source updates the copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...autograd import set_grad_enabled
from ...core import apply as dispatch
from ...core.tensor import Tensor
from ...device import Storage
from ..ir.program import Step
from .value_map import ValueMap

_FIELDS = (
    "_storage", "_layout", "_offset", "_base", "_version_counter", "_seen", "_node", "_output", "_requires_grad",
    "_unrecorded",
)  # fmt: skip


@dataclass
class ViewCopy:
    """A copy instead of a view of `source`."""

    copy: Tensor
    source: Tensor
    values: Callable[[], Tensor]  # its values after a write to the source
    write_back: Callable[[], None]
    view: Callable[[], Tensor]


class ViewCopies:
    """All copies of a recording that replace views."""

    def __init__(self) -> None:
        self.copies: list[ViewCopy] = []
        self.gapped: set[int] = set()  # ids of storages of dense copies for views with gaps between their elements
        self._is_propagating = False

    def propagate(self, storages: set[int]) -> None:
        """After a write to these storages: write copies back to their sources, then update all other copies."""
        if not self.copies or self._is_propagating:
            return
        self._is_propagating = True
        try:
            self._propagate(storages)
        finally:
            self._is_propagating = False

    def _propagate(self, written: set[int]) -> None:
        """`propagate`, during which further writes are ignored. Adds to `written`."""
        current = set()  # copies that were written to
        for view_copy in reversed(self.copies):
            if id(view_copy.copy._storage) in written:
                view_copy.write_back()
                written.add(id(view_copy.source._storage))
                current.add(id(view_copy.copy))
        for view_copy in self.copies:
            if id(view_copy.source._storage) in written and id(view_copy.copy) not in current:
                view_copy.copy.copy_(view_copy.values())
                written.add(id(view_copy.copy._storage))

    def storage_viewed(self, tensor: Tensor) -> Storage:
        """The storage that a tensor would be a view of in eager mode."""
        storage = tensor._storage
        for view_copy in reversed(self.copies):
            if view_copy.copy._storage is storage:
                storage = view_copy.source._storage
        return storage

    def make_views(self, steps: list, values: ValueMap) -> None:
        """Turn the copies, and views of them, into the views of eager mode, for a recording that is not used."""
        for view_copy in self.copies:
            former = view_copy.copy._storage
            _become_view(view_copy.copy, view_copy.view, view_copy.source)
            for step in steps:
                if isinstance(step, Step) and step.op.is_view and values.storage(step.results[0]) is former:
                    base = values.tensor(step.inputs[0])
                    view = partial(dispatch.apply, step.op, (base,), step.attributes)
                    _become_view(values.tensor(step.results[0]), view, base)


def _become_view(tensor: Tensor, make_view: Callable[[], Tensor], source: Tensor) -> None:
    """Turn a tensor into a view of `source`. It has a gradient function if both require gradients or neither does."""
    with set_grad_enabled(dispatch.state.grad_enabled and tensor.requires_grad is source.requires_grad):
        view = make_view()
    for name in _FIELDS:
        setattr(tensor, name, getattr(view, name))

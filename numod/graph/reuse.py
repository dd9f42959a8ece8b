"""Memory that calls of a linked program use again: results that nobody holds any more, and gradients that only their parameters hold.

Who holds what is told by Python's counts of references. The native function compares them, as words at the objects' addresses, before it
does anything: that adds little to its cost, where asking Python would take longer than the program itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from ctypes import c_ssize_t
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..device import Layout, Storage
from ..device.storage import address
from .link import ARENA, END, WATCH
from .lower import Buffer
from .section import Section

LARGEST = 1 << 16  # bytes of a result that is kept for later calls: for larger ones new memory costs little beside the work
_probe = [object()]
_UNSHARED = 2 if c_ssize_t.from_address(id(_probe[0])).value == 1 else -1  # references to what only we and its one owner hold; -1 where Python keeps no such count
Formers = Sequence[tuple[Tensor, "Tensor | None"]]


class Memory:
    """Tables for a program's calls, and the memory they name. `leaves`: whose gradients the buffers `gradients` are, with their layouts.

    The gradients' tensors are gradient0, gradient1 ... in `space`, the names of the function that makes the calls.

    A call takes a pack from `packs` for itself: (the table's address, the table, arrays to keep alive, *storages of the results).
    """

    def __init__(
        self, section: Section, arena: np.ndarray, results: Sequence[Buffer], gradients: Sequence[Buffer], leaves: Sequence[tuple[Tensor, Layout]],
        space: dict[str, Any],
    ) -> None:
        self.space, self.section, self.results, self.gradients, self.leaves = space, section, results, gradients, leaves
        self.slots = [section.places_of[each] for each in results]
        first = section.table.size
        self.split = first + 6 * len(gradients)  # before it what gradients' memory is watched by, after it that of results
        self.end = self.split + 4 * len(results)
        self.template = np.zeros(self.end, np.int64)
        self.template[:first] = section.table
        self.template[[ARENA, WATCH, END]] = address(arena), first, self.end
        self.template[first + 1 :: 2] = _UNSHARED
        self._renew()

    def _renew(self) -> None:
        """New memory for all gradients, and so new tables. Calls that are under way give their packs back to the former ones."""
        self.packs: deque[tuple] = deque()
        current = [wrap(Storage(np.empty(each.size, each.storage)), layout, 0) for each, (_, layout) in zip(self.gradients, self.leaves)]
        self.space.update((f"gradient{k}", each) for k, each in enumerate(current))
        self.kept = [(each._storage, each._storage.data) for each in current]
        watched = [id(thing) for each, (storage, data) in zip(current, self.kept) for thing in (each, storage, data)]
        self.template[self.section.table.size : self.split : 2] = watched
        for buffer, (_, data) in zip(self.gradients, self.kept):
            self.template[self.section.places_of[buffer]] = address(data)

    def make(self) -> tuple:
        """A pack with new memory for results."""
        table, arrays, storages = self.template.copy(), [], []
        for k, (buffer, slot) in enumerate(zip(self.results, self.slots)):
            array = np.empty(buffer.size, buffer.storage)
            storage = Storage(array)
            place = self.split + 4 * k
            table[place], table[place + 2], table[slot] = id(storage), id(array), address(array)
            arrays.append(array)
            storages.append(storage)
        return address(table), table, (arrays, self.kept), *storages

    def renew(self, place: int, pack: tuple, formers: Formers) -> tuple[tuple, Formers]:
        """A pack in the stead of one whose word at `-place` told that its memory is held; it watches nothing until `watch` is called for it."""
        if -place < self.split:
            formers = [*formers, *((leaf, leaf._grad) for leaf, _ in self.leaves)]
            self._renew()
            self.settle()
        elif not self.packs:
            self.packs.append(pack)  # results of two calls in turn: who keeps the last one while asking for the next finds another
        pack = self.make()
        pack[1][END] = 0
        return pack, formers

    def watch(self, pack: tuple) -> None:
        """Have calls with this pack look at who holds its memory."""
        pack[1][END] = self.end

    def settle(self) -> Formers:
        """Make the leaves' gradients ours; what they were."""
        formers = []
        for k, (leaf, _) in enumerate(self.leaves):
            if leaf._grad is not self.space[f"gradient{k}"]:
                formers.append((leaf, leaf._grad))
                leaf._grad = self.space[f"gradient{k}"]
        return formers


def restore(formers: Formers) -> None:
    """Undo `settle` and `renew`."""
    for leaf, gradient in reversed(formers):
        leaf._grad = gradient

"""Memory reuse between calls of a linked program: results that nobody references any more, and gradients that only
their parameters reference.

References are detected by Python's reference counts. The native function compares them, as words at the objects'
addresses, before it does anything: this adds little to its cost, whereas a check in Python would take longer than the
program itself. It compares words of guards first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from ctypes import c_ssize_t
from typing import Any

import numpy as np

from ...core.tensor import Tensor, wrap
from ...device import Layout, Storage
from ...device.storage import address
from .link import ARENA, END, WATCH
from .lower import Buffer
from .section import Section

# maximum size in bytes of a result that is reused: for larger ones allocation is cheap compared with the work
LARGEST = 1 << 16
_probe = [object()]
# reference count of an object with one owner besides this module; -1 if the interpreter has no usable counts
_UNSHARED = 2 if c_ssize_t.from_address(id(_probe[0])).value == 1 else -1
Formers = Sequence[tuple[Tensor, "Tensor | None"]]


class Memory:
    """The tables for a program's calls, and the memory they refer to.

    `leaves`: the tensors whose gradients the buffers `gradients` are, with their layouts.

    The gradients' tensors are gradient0, gradient1 ... in `space`, the names of the function that makes the calls.
    `words` are addresses of words that guards watch, each with what it must hold.

    A call takes a pack from `packs` for itself: (the table's address, the table, arrays to keep alive, *storages of the
    results).
    """

    def __init__(
        self,
        section: Section,
        arena: np.ndarray,
        results: Sequence[Buffer],
        gradients: Sequence[Buffer],
        leaves: Sequence[tuple[Tensor, Layout]],
        space: dict[str, Any],
        words: Sequence[tuple[int, int]],
    ) -> None:
        self.space, self.section, self.results, self.gradients, self.leaves = space, section, results, gradients, leaves
        self.slots = [section.places_of[result] for result in results]
        first = section.table.size
        # entries before it watch what guards do, those after it gradients' memory, and from `split` on results' memory
        self.guarded = first + 2 * len(words)
        self.split = self.guarded + 6 * len(gradients)
        self.end = self.split + 4 * len(results)
        self.template = np.zeros(self.end, np.int64)
        self.template[:first] = section.table
        self.template[[ARENA, WATCH, END]] = address(arena), first, self.end
        self.template[first : self.guarded] = [each for word in words for each in word]
        self.template[self.guarded + 1 :: 2] = _UNSHARED
        self._renew()

    def _renew(self) -> None:
        """Allocate new memory for all gradients, and so new tables.

        Running calls return their packs to the old ones.
        """
        self.packs: deque[tuple] = deque()
        current = [
            wrap(Storage(gradient.device.empty(gradient.size, gradient.storage)), layout, 0)
            for gradient, (_, layout) in zip(self.gradients, self.leaves)
        ]
        self.space.update((f"gradient{k}", each) for k, each in enumerate(current))
        self.kept = [(each._storage, each._storage.data) for each in current]
        watched = [id(thing) for each, (storage, data) in zip(current, self.kept) for thing in (each, storage, data)]
        self.template[self.guarded : self.split : 2] = watched
        for buffer, (_, data) in zip(self.gradients, self.kept):
            self.template[self.section.places_of[buffer]] = address(data)

    def make(self) -> tuple:
        """A new pack, with new memory for results."""
        table, arrays, storages = self.template.copy(), [], []
        for k, (buffer, slot) in enumerate(zip(self.results, self.slots)):
            array = buffer.device.empty(buffer.size, buffer.storage)
            storage = Storage(array)
            place = self.split + 4 * k
            table[place], table[place + 2], table[slot] = id(storage), id(array), address(array)
            arrays.append(array)
            storages.append(storage)
        return address(table), table, (arrays, self.kept), *storages

    def renew(self, place: int, pack: tuple, formers: Formers) -> tuple[tuple, Formers]:
        """Replace a pack whose memory is still referenced, as its word at `-place` showed; the new one watches nothing
        until `watch` is called.
        """
        if -place < self.split:
            formers = [*formers, *((leaf, leaf._grad) for leaf, _ in self.leaves)]
            self._renew()
            self.settle()
        elif not self.packs:
            # memory for the results of two calls in turn, for callers that keep the last result during the next call
            self.packs.append(pack)
        pack = self.make()
        pack[1][END] = 0
        return pack, formers

    def watch(self, pack: tuple) -> None:
        """Make calls with this pack check whether its memory is referenced."""
        pack[1][END] = self.end

    def settle(self) -> Formers:
        """Set the leaves' gradients to this memory; returns the previous ones."""
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

"""Memory reuse between calls of a linked program.

Results without references are reused, and gradients that only their parameters reference. References are detected by
Python's reference counts. The native function first compares watched words of guards, then the reference counts, both
at their addresses: this is cheap, whereas a check in Python can take longer than the program.
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
REUSE_LIMIT = 1 << 16
_probe = [object()]
# reference count of an object with one other owner than this module; -1 if the interpreter has no usable counts
_UNSHARED = 2 if c_ssize_t.from_address(id(_probe[0])).value == 1 else -1
FormerGradients = Sequence[tuple[Tensor, "Tensor | None"]]


class Memory:
    """The tables for a program's calls, and the memory that they refer to.

    `leaves`: per buffer of `gradients`, the leaf tensor and the gradient's layout.
    `space`: the calling function's global names. The gradients' tensors are gradient0, gradient1 ... there.
    `words`: (address, expected value) of each word that guards watch.

    During a call, one pack is taken from `packs`: (the table's address, the table, arrays to keep alive, *storages of
    the results).
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
        self.slots = [section.position_of[result] for result in results]
        first = section.table.size
        # positions of watched words in the table: guards' words, then gradients' memory, then results' memory
        self.gradient_words = first + 2 * len(words)
        self.result_words = self.gradient_words + 6 * len(gradients)
        self.end = self.result_words + 4 * len(results)
        self.template = np.zeros(self.end, np.int64)
        self.template[:first] = section.table
        self.template[[ARENA, WATCH, END]] = address(arena), first, self.end
        self.template[first : self.gradient_words] = [part for word in words for part in word]
        self.template[self.gradient_words + 1 :: 2] = _UNSHARED
        self._allocate_gradients()

    def _allocate_gradients(self) -> None:
        """Allocate new memory for all gradients, and discard all packs.

        Running calls return their packs to the old deque.
        """
        self.packs: deque[tuple] = deque()
        current = [
            wrap(Storage(gradient.device.empty(gradient.size, gradient.storage)), layout, 0)
            for gradient, (_, layout) in zip(self.gradients, self.leaves)
        ]
        self.space.update((f"gradient{k}", tensor) for k, tensor in enumerate(current))
        self.gradient_memory = [(tensor._storage, tensor._storage.data) for tensor in current]
        watched = [
            id(watched_object)
            for tensor, (storage, data) in zip(current, self.gradient_memory)
            for watched_object in (tensor, storage, data)
        ]
        self.template[self.gradient_words : self.result_words : 2] = watched
        for buffer, (_, data) in zip(self.gradients, self.gradient_memory):
            self.template[self.section.position_of[buffer]] = address(data)

    def make(self) -> tuple:
        """A new pack, with new memory for results."""
        table, arrays, storages = self.template.copy(), [], []
        for k, (buffer, slot) in enumerate(zip(self.results, self.slots)):
            array = buffer.device.empty(buffer.size, buffer.storage)
            storage = Storage(array)
            position = self.result_words + 4 * k
            table[position], table[position + 2], table[slot] = id(storage), id(array), address(array)
            arrays.append(array)
            storages.append(storage)
        return address(table), table, (arrays, self.gradient_memory), *storages

    def renew(self, failed: int, pack: tuple, former_gradients: FormerGradients) -> tuple[tuple, FormerGradients]:
        """Replace a pack whose memory is still referenced. `failed` is minus the position of the word that shows it.

        The new pack watches nothing until `watch` is called.
        """
        if -failed < self.result_words:
            former_gradients = [*former_gradients, *((leaf, leaf._grad) for leaf, _ in self.leaves)]
            self._allocate_gradients()
            self.settle()
        elif not self.packs:
            # a second pack, for callers that keep the last result during the next call
            self.packs.append(pack)
        pack = self.make()
        pack[1][END] = 0
        return pack, former_gradients

    def watch(self, pack: tuple) -> None:
        """Check reference counts in calls with this pack."""
        pack[1][END] = self.end

    def settle(self) -> FormerGradients:
        """Set the leaves' gradients to this memory. Returns the previous ones."""
        former_gradients = []
        for k, (leaf, _) in enumerate(self.leaves):
            if leaf._grad is not self.space[f"gradient{k}"]:
                former_gradients.append((leaf, leaf._grad))
                leaf._grad = self.space[f"gradient{k}"]
        return former_gradients


def restore(former_gradients: FormerGradients) -> None:
    """Undo `settle` and `renew`."""
    for leaf, gradient in reversed(former_gradients):
        leaf._grad = gradient

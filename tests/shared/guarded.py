"""Guard words: tensors that lie as views between bytes that nothing may write to, and memory whose surroundings are
checked. Not tests themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

import numod
from numod import dtypes
from numod.device import cpu

GUARD, WORD = 256, 0xA5  # bytes on either side of a buffer, and what they hold
SHAPES = {0: (), 1: (37,), 2: (9, 13), 3: (5, 17, 3), 4: (3, 4, 6, 5), 5: (2, 3, 2, 4, 3)}
SQUARE = {1: (8,), 2: (6, 6), 3: (3, 5, 5), 4: (2, 2, 4, 4), 5: (2, 1, 2, 3, 3)}  # for ops of square matrices
# two threads share them
LARGE = {1: (140_001,), 2: (400, 350), 3: (50, 41, 70), 4: (30, 8, 20, 30), 5: (10, 11, 9, 12, 12)}


@dataclass(frozen=True)
class Arrangement:
    """How a view lies in its base: which slice it has of each dimension, in which order these are, and whether its
    first dimension is expanded.
    """

    before: int = 0
    after: int = 0
    step: int = 1
    order: Callable[[int], list[int]] = lambda ndim: list(range(ndim))
    expanded: bool = False

    def base_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The base's shape for a view of this shape."""
        order = self.order(len(shape))
        shape = (1, *shape[1:]) if self.expanded else shape
        return tuple(self.before + self.step * shape[order.index(d)] + self.after for d in range(len(shape)))

    def part(self, base: object) -> object:
        """The view of an array or a tensor before it is expanded."""
        part = base[tuple(slice(self.before, n - self.after, self.step) for n in base.shape)] if base.ndim else base
        order = self.order(base.ndim)
        return part.transpose(order) if isinstance(part, np.ndarray) else part.permute(order)

    def view(self, base: numod.Tensor, shape: tuple[int, ...]) -> numod.Tensor:
        """The view of a tensor."""
        return self.part(base).expand(shape) if self.expanded else self.part(base)


def _reversed_order(ndim: int) -> list[int]:
    return list(range(ndim))[::-1]


def _swapped(ndim: int) -> list[int]:
    return [1, 0, *range(2, ndim)] if ndim > 1 else list(range(ndim))


WRITABLE = {
    "dense": Arrangement(), "sliced": Arrangement(1, 2), "stepped": Arrangement(1, 0, 2),
    "transposed": Arrangement(order=_reversed_order),
    "swapped": Arrangement(0, 1, order=_swapped),
}  # fmt: skip
READABLE = {**WRITABLE, "expanded": Arrangement(expanded=True)}


class Placed:
    """A tensor that is a view of a larger one, all bytes of which are known. `values` are what the view holds."""

    def __init__(self, values: np.ndarray, arrangement: Arrangement, dtype: object) -> None:
        self.base = numod.empty(arrangement.base_shape(values.shape), dtype=dtype)
        self.memory = self.base._storage.data.reshape(self.base.shape)
        self.memory[...] = np.resize(np.arange(1, 12), self.memory.shape) % (2 if dtype is numod.bool else 128)
        source = numod.tensor(values, dtype=dtype)._storage.data.reshape(values.shape)
        self.outside = np.ones(self.memory.shape, bool)
        arrangement.part(self.memory)[...], arrangement.part(self.outside)[...] = (
            source[:1] if arrangement.expanded else source,
            False,
        )
        self.before, self.view = self.memory.copy(), arrangement.view(self.base, values.shape)

    def check(self, written: bool = False) -> None:
        """Nothing outside the view has changed, nor the view itself where it was not to be `written`."""
        changed = np.any(
            [before != now for before, now in zip(*(_bytes(memory) for memory in (self.before, self.memory)))], 0
        ).reshape(self.outside.shape)
        wrong = np.argwhere(changed & self.outside if written else changed)
        assert not wrong.size, f"elements {wrong[:5].tolist()} of the base, which are not the view's, have changed"


def _bytes(array: np.ndarray) -> np.ndarray:
    """The first bytes of all elements, then the second, and so on."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, array.itemsize).T


class Guards:
    """The memory that ops get for results and scratch, with guard words around each buffer.

    What a buffer holds at first differs from one to the next.
    """

    def __init__(self) -> None:
        self.made: list[tuple[np.ndarray, int, int]] = []
        self.earlier: list[tuple[weakref.ref, int, int]] = []

    def empty(self, count: int, dtype: object) -> np.ndarray:
        """A buffer for a number of elements."""
        size = count * np.dtype(dtype).itemsize
        whole = np.full(size + 2 * GUARD + 64, WORD, np.uint8)
        start = GUARD + -(whole.ctypes.data + GUARD) % 64
        whole[start : start + size] = 0xFF if len(self.made) % 2 else 0x11
        self.made.append((whole, start, size))
        return whole[start : start + size].view(dtype)

    def scratch(self, parts: tuple) -> list[np.ndarray]:
        """Buffers for a launch."""
        return [self.empty(*part) for part in parts]

    def check(self) -> None:
        """All guard words are as they were, also of buffers made before the last check that are still in use."""
        alive = [(whole(), start, size) for whole, start, size in self.earlier]
        alive = [entry for entry in alive if entry[0] is not None] + self.made
        for whole, start, size in alive:
            assert (whole[:start] == WORD).all() and (whole[start + size :] == WORD).all(), (
                f"written outside of a buffer of {size} bytes"
            )
        self.earlier, self.made = [(weakref.ref(whole), start, size) for whole, start, size in alive], []


@contextmanager
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guards]:
    """Context in which the CPU's memory has guard words.

    Plans that keep an allocator are made anew, before and after.
    """
    guards = Guards()

    def forget() -> None:
        for callback in dtypes.on_default_change:
            callback()

    with monkeypatch.context() as patch:
        patch.setattr(cpu, "empty", guards.empty)
        patch.setattr(cpu, "allocator", lambda size: guards.empty)
        patch.setattr(cpu, "scratch", guards.scratch)
        patch.setattr(numod.device("cpu"), "empty", guards.empty)
        forget()
        yield guards
        guards.check()
    forget()


class Maker:
    """Makes an op's arguments in turn, the same numbers every time, as views of these kinds (the last one serves for
    all further ones), or as dense tensors.

    Without `repeats` no tensor has equal rows: an expanded matrix is singular.
    """

    def __init__(
        self, shape: tuple[int, ...], kinds: tuple[str, ...], dtype: object, dense: bool = False, repeats: bool = True
    ) -> None:
        self.repeats = repeats
        self.shape, self.kinds, self.dtype, self.dense = shape, kinds, dtype, dense
        self.placed: list[Placed] = []

    def __call__(self, shape: tuple[int, ...] | None = None, dtype: object = None) -> numod.Tensor:
        """A tensor like the first, or of another shape or dtype: floats between 0.1 and 0.9, integers from 1 to 4,
        bools of both kinds.
        """

        def values(rng: np.random.Generator, size: tuple[int, ...], kind: str) -> np.ndarray:
            return (
                rng.uniform(0.1, 0.9, size)
                if kind in "fc"
                else rng.integers(*((0, 2) if kind == "b" else (1, 5)), size)
            )

        return self.filled(
            self.shape if shape is None else tuple(shape), dtype or self.dtype, values, expands=self.repeats
        )

    def index(self, shape: tuple[int, ...], below: int) -> numod.Tensor:
        """Indices that differ along the first dimension."""
        return self.filled(
            shape,
            numod.int64,
            lambda rng, size, kind: np.broadcast_to(
                rng.permutation(below)[: size[0]].reshape(-1, *[1] * (len(size) - 1)), size
            ),
        )

    def filled(self, shape: tuple[int, ...], dtype: object, values: Callable, expands: bool = False) -> numod.Tensor:
        """A tensor of what values(generator, shape, kind of dtype) gives.

        `expands`: it may have the same values along the first dimension.
        """
        turn = len(self.placed)
        kind = self.kinds[min(turn, len(self.kinds) - 1)]
        array = np.array(values(np.random.default_rng(turn), shape, dtype.kind))
        kind = "dense" if kind == "expanded" and not (shape and expands) else kind
        if kind == "expanded":
            array = np.array(np.broadcast_to(array[:1], shape))
        self.placed.append(Placed(array, READABLE["dense" if self.dense else kind], dtype))
        return self.placed[-1].view

    def check(self, written: tuple[int, ...] = ()) -> None:
        """Of all arguments only those at these positions are written, and nothing around them."""
        for k, placed in enumerate(self.placed):
            placed.check(k in written)

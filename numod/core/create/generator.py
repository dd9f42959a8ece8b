"""`Generator`, the stream of random numbers of a seed, and the default one of the process."""

from __future__ import annotations

import os

import numpy as np

from ... import dtypes
from ...device.device import Device
from ...errors import plain
from ..convert.transfer import raw
from ..extensions import extensions
from ..listeners import active_listeners, listeners
from ..tensor import Tensor
from .values import tensor

_DEFAULT_SEED = 67280421310721  # PyTorch's, of a Generator that nobody seeded


class Generator:
    """A stream of Philox random numbers: a seed, and an offset that every draw advances.

    Example:

        >>> generator = torch.Generator().manual_seed(3)
        >>> torch.equal(torch.rand(2, generator=generator), torch.rand(2, generator=generator.manual_seed(3)))
        True
    """

    __module__ = "numod.core.create.random"  # where pickle finds it, also for files of older versions

    def __init__(self, device: Device | str = "cpu") -> None:
        self.device = Device(device)
        self._seed, self._offset = _DEFAULT_SEED, 0

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed` (any 64-bit integer). Returns the generator."""
        number = plain(seed)
        if not isinstance(number, int) or isinstance(seed, bool):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = number
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(
                f"Overflow when unpacking long long: manual_seed expected an integer of 64 bits, got {seed}"
            )
        return self._restart(seed % (1 << 64), 0)

    def _restart(self, seed: int, offset: int) -> Generator:
        for listener in active_listeners() if listeners else ():
            getattr(listener, "restart", bool)()
        self._seed, self._offset = seed, offset
        return self

    def seed(self) -> int:
        """Restart from a seed from the operating system, which is returned: 53 bits, as PyTorch's."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little") >> 11)
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def get_state(self) -> Tensor:
        """Seed and offset, as the bytes of two int64: a uint8 tensor on the CPU, as PyTorch's states are."""
        return tensor(
            np.array([_signed(self._seed), self._offset]).view(np.uint8).tolist(), dtype=dtypes.uint8, device="cpu"
        )

    def set_state(self, state: Tensor) -> Generator:
        """Continue from a state of `get_state`."""
        if not isinstance(state, Tensor):
            raise TypeError(
                f"expected a ByteTensor of 16 elements, as get_state returns, but got {type(state).__name__}"
            )
        if state.dtype not in (dtypes.uint8, dtypes.int64):
            raise TypeError(f"RNG state must be a ByteTensor, as get_state returns, got {state.dtype}")
        # older versions returned two numbers
        if (state.dtype, *state.shape) not in ((dtypes.uint8, 16), (dtypes.int64, 2)):
            raise RuntimeError(
                "Expected a state of 16 bytes, as get_state returns, but found the input RNG state to be of shape "
                f"{tuple(state.shape)}"
            )
        return self._restart(*map(int, np.ascontiguousarray(raw(state.cpu())).view(np.int64)))

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator(self.device)._restart(self._seed, self._offset)

    def get_offset(self) -> int:
        """How many numbers were drawn. Raises RuntimeError on the CPU, as PyTorch."""
        self._require_offset()
        return self._offset

    def set_offset(self, offset: int) -> Generator:
        """Continue as if so many numbers had been drawn. Raises RuntimeError on the CPU, as PyTorch."""
        self._require_offset()
        return self._restart(self._seed, offset)

    def _require_offset(self) -> None:
        if self.device.type == "cpu":
            raise RuntimeError("CPU Generator does not use offset; use get_state and set_state")

    def draw(self, count: int) -> tuple[int, Draw]:
        """(seed, offset) for a draw of `count` elements; advances the offset."""
        extensions.before_draw(self)
        seed, start = self._seed, self._offset
        # as a kernel's int64; there is no call in between, in which another thread could draw the same numbers
        self._offset = (start + count) % (1 << 63)
        offset = Draw(start)
        offset.generator, offset.count = self, count
        for listener in active_listeners() if listeners else ():
            getattr(listener, "draw", bool)(offset)
        return _signed(seed), offset

    def undraw(self, start: int, count: int) -> None:
        """Take back a draw, if it was the last one; later draws of other threads remain."""
        if self._offset == (start + count) % (1 << 63):
            self._offset = int(start)

    def __reduce__(self) -> tuple:
        return Generator, (self.device,), self.get_state()

    def __setstate__(self, state: Tensor) -> None:
        self.set_state(state)


class Draw(int):
    """An offset with a reference to its generator, so that a recorded program can draw again."""

    generator: Generator
    count: int


def _signed(seed: int) -> int:
    """The 64 bits of a seed as a signed integer for kernels."""
    return (seed + (1 << 63)) % (1 << 64) - (1 << 63)


default_generator = Generator()
default_generator.seed()  # every process draws other numbers, until it calls manual_seed


def manual_seed(seed: int) -> Generator:
    """Seed the default generator of all devices.

    Example:

        >>> _ = torch.manual_seed(0)
        >>> torch.initial_seed()
        0
    """
    return default_generator.manual_seed(seed if type(seed) is int else int(seed))


def seed() -> int:
    """Seed the default generator from the operating system and return the seed.

    Example:

        >>> torch.initial_seed() == torch.seed()
        False
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed.

    Example:

        >>> torch.manual_seed(7).initial_seed()
        7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state.

    Example:

        >>> state = torch.get_rng_state()
        >>> first = torch.rand(2)
        >>> torch.set_rng_state(state)
        >>> torch.equal(first, torch.rand(2))
        True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the default generator's state.

    Example:

        >>> state = torch.get_rng_state()
        >>> first = torch.rand(2)
        >>> torch.set_rng_state(state)
        >>> torch.equal(first, torch.rand(2))
        True
    """
    default_generator.set_state(new_state)


def _stream(generator: Generator | None) -> Generator:
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be Generator, not {type(generator).__name__}")
    return generator


def draw_for(input: Tensor, generator: Generator | None = None, in_place: bool = False) -> tuple[int, int]:
    """The seed and offset of an op that draws a random number per element of a tensor."""
    return _stream(generator).draw(extensions.random_count(input, in_place))

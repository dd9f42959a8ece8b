"""Random tensors and `Generator`.

Each number is a function of (seed, offset, index), so a seed gives the same numbers on every device (see `ops.table`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from math import isfinite, log1p, pi

import numpy as np

from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...errors import plain
from ...ops import sampling, table as t
from ...ops.pointwise import broadcast_shapes
from ..apply import apply, apply_into
from ..listeners import active_listeners, listeners
from ..arguments import is_whole
from ..math.complexes import view_as_complex
from .creation import _shape, constant, default_device, empty_like, factory
from ..math.elementwise import to, write_result
from ..search.searching import searchsorted
from ..index.selection import require_all
from ..extensions import extensions
from ..resolve import whole_number
from ..tensor import Tensor
from ..convert.transfer import raw
from .values import tensor


_DEFAULT_SEED = 67280421310721  # PyTorch's, of a Generator that nobody seeded


class Generator:
    """A stream of Philox random numbers: a seed, and an offset that every draw advances.

    Example:

        >>> generator = torch.Generator().manual_seed(3)
        >>> torch.equal(torch.rand(2, generator=generator), torch.rand(2, generator=generator.manual_seed(3)))
        True
    """

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


def _drawn(
    op: object,
    numbers: tuple,
    shape: tuple,
    generator: Generator | None,
    dtype: DType | None,
    device: object,
    requires_grad: bool,
) -> Tensor:
    def make(shape: tuple) -> Tensor:
        count = 1
        for n in shape:
            count *= n
        return constant(op, (*_stream(generator).draw(count), *numbers), shape, dtype, device)

    result = extensions.random_tensor(make, shape)
    return result.requires_grad_() if requires_grad else result


def draw_for(input: Tensor, generator: Generator | None = None, in_place: bool = False) -> tuple[int, int]:
    """The seed and offset of an op that draws a random number per element of a tensor."""
    return _stream(generator).draw(extensions.random_count(input, in_place))


@factory
def rand(
    *size: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts.

    Example:

        >>> torch.rand(2, 3).shape
        numod.Size([2, 3])
    """
    if dtype is not None and dtype.is_complex:
        return _of_parts(rand, _shape(size, "rand"), 1.0, generator, dtype, device, requires_grad)
    return _drawn(t.uniform, (0.0, 1.0), _shape(size, "rand"), generator, dtype, device, requires_grad)


@factory
def randn(
    *size: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each.

    Example:

        >>> torch.randn(2, 3).shape
        numod.Size([2, 3])
    """
    if dtype is not None and dtype.is_complex:
        return _of_parts(randn, _shape(size, "randn"), 0.5**0.5, generator, dtype, device, requires_grad)
    return _drawn(t.normal, (0.0, 1.0), _shape(size, "randn"), generator, dtype, device, requires_grad)


def _of_parts(
    draw: Callable,
    shape: tuple,
    scale: float,
    generator: Generator | None,
    dtype: DType,
    device: object,
    requires_grad: bool,
) -> Tensor:
    return view_as_complex(
        draw(*shape, 2, generator=generator, dtype=dtype.real, device=device) * scale
    ).requires_grad_(requires_grad)


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: object,
) -> Tensor:
    """Normally distributed random numbers.

    Mean and standard deviation are numbers, with a size, or tensors, elementwise.

    Their gradients are 0, as PyTorch's: a sample counts as a constant, and `distributions.Normal.rsample` is the
    differentiable one.

    Example:

        >>> torch.normal(torch.zeros(3), torch.zeros(3))
        tensor([0., 0., 0.])
    """
    if (
        not isinstance(std, Tensor)
        and not std >= 0
        or isinstance(std, Tensor)
        and std.numel()
        and std.min()._observe() < 0
    ):
        raise RuntimeError(
            "normal expects std >= 0.0, but found std "
            f"{std if not isinstance(std, Tensor) else 'with elements below 0'}"
        )
    if size is not None:
        return factory(_normal)(float(mean), float(std), size, generator=generator, out=out, **options)
    tensors = [tensor for tensor in (mean, std) if isinstance(tensor, Tensor)]
    if not tensors:
        raise TypeError("normal() takes a size where mean and std are numbers")
    shape = broadcast_shapes("normal", [tensor.shape for tensor in tensors])
    kind = tensors[0].dtype
    if kind.is_complex:
        drawn = (randn(shape, generator=generator, dtype=kind, device=tensors[0].device) * std + mean).detach()
    else:
        drawn = to(t.normal(*draw_for(sum(tensors[1:], tensors[0]), generator), mean, std), kind)
    return drawn if out is None else write_result("normal", drawn, out)


def _normal(
    mean: float,
    std: float,
    size: Sequence[int],
    generator: Generator | None,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    return _drawn(t.normal, (mean, std), _shape((size,), "normal"), generator, dtype, device, requires_grad)


@factory
def randint(
    *bounds: object,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    **kwargs: object,
) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size).

    Example:

        >>> torch.randint(0, 10, (3,)).shape
        numod.Size([3])
    """
    names = ("high", "size") if len(bounds) + len(kwargs) == 2 else ("low", "high", "size")
    named_arguments = {"low": 0, **dict(zip(names, bounds)), **kwargs}
    if named_arguments.keys() != {"low", "high", "size"} or len(bounds) > len(names):
        raise TypeError(
            f"randint() takes ([low,] high, size), got {len(bounds)} of them in order, and by name {sorted(kwargs)}"
        )
    dtype = dtype or dtypes.int64
    return _drawn(
        t.randint,
        _range(named_arguments["low"], named_arguments["high"], dtype),
        _shape((named_arguments["size"],), "randint"),
        generator,
        dtype,
        device,
        requires_grad,
    )


def _range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """What `t.randint` takes for [low, high): low and the number of integers, as the kernel reads it.

    Raises RuntimeError where it is empty or the dtype does not hold it.
    """
    if not (is_whole(low) and is_whole(high)):
        raise TypeError(f"bounds of random integers must be ints, got from={low!r} and to={high!r}")
    low, high = plain(low), plain(high)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, most = dtypes.RANGES[dtype]
    if low < least:
        raise RuntimeError(f"from is out of bounds for {dtype.short}: got {low}, expected at least {least}")
    if high - 1 > most:
        raise RuntimeError(f"to - 1 is out of bounds for {dtype.short}: got {high - 1}, expected at most {most}")
    exact = _most_exact(dtype)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if dtype.is_floating_point and abs(bound) > exact:
            power = exact.bit_length() - 1
            warnings.warn(
                f"{name} is out of bounds [-(2^{power}), 2^{power}]. Due to precision limitations {dtype.short} can "
                "support discrete uniform distribution only "
                "within this range. This warning will become an error in later versions",
                stacklevel=4,
            )
    span = high - low
    return low, span if span < 1 << 63 else span - (1 << 64)


@factory
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A random permutation of 0 .. n-1, drawn on the CPU and moved to `device`.

    Example:

        >>> torch.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    n = whole_number("randperm", "n", plain(n))
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    dtype = dtype or dtypes.int64
    if n - 1 > _most_exact(dtype):
        raise RuntimeError(
            f"n cannot be greater than {_most_exact(dtype) + 1} for {dtype.short} type, got {n}; did you mean "
            "dtype=numod.int64?"
        )
    keys = _drawn(t.randint, (0, 1 << 62), (n,), generator, dtypes.int64, "cpu", False)
    return to(
        apply(sampling.permutation, (keys,)), default_device() if device is None else Device(device), dtype
    ).requires_grad_(requires_grad)


def _in_order_of(input: Tensor, drawn: Tensor) -> Tensor:
    """The numbers with the memory order of `input`."""
    return drawn if input._layout.dense else empty_like(input, dtype=drawn.dtype, device=drawn.device).copy_(drawn)


@factory
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers, uniform in [0, 1), shaped like `input`.

    Example:

        >>> torch.rand_like(torch.ones(2)).shape
        numod.Size([2])
    """
    drawn = rand(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device)
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


@factory
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers with standard normal distribution, shaped like `input`.

    Example:

        >>> torch.randn_like(torch.zeros(2, 3)).shape
        numod.Size([2, 3])
    """
    drawn = randn(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device)
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


@factory
def randint_like(
    input: Tensor,
    *bounds: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    **kwargs: int,
) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low,
    high).

    Example:

        >>> torch.randint_like(torch.zeros(2, 3), 10).shape
        numod.Size([2, 3])
    """
    drawn = randint(
        *bounds,
        size=input.shape,
        **kwargs,
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
    )
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability given by each element, or `p` for all, else 0.

    Raises RuntimeError for a probability outside [0, 1].

    Example:

        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    if out is not None:
        return write_result("bernoulli", bernoulli(input, p, generator=generator).to(out.dtype), out)
    if p is not None:
        return bernoulli_(empty_like(input), p, generator=generator)
    if input.numel() and not input.is_meta:
        require_all(
            (input >= 0) & (input <= 1),
            RuntimeError,
            "Expected p_in >= 0 && p_in <= 1 to be true, but some elements are outside",
        )
    return t.bernoulli(input, *draw_for(input, generator))


def _fill(self: Tensor, op: object, numbers: tuple, generator: Generator | None) -> Tensor:
    self_layout = self._layout
    apply_into(
        op,
        (*draw_for(self, generator, True), *numbers),
        (self,),
        (self_layout.dtype, self_layout.device, self_layout.shape),
    )
    return self


def _fill_parts(self: Tensor, op: object, numbers: tuple, generator: Generator | None) -> Tensor:
    """Fill the real and imaginary parts of complex numbers."""
    return self.copy_(
        view_as_complex(_drawn(op, numbers, (*self.shape, 2), generator, self.dtype.real, self.device, False))
    )


def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in [from_, to); of a complex number both parts. PyTorch's keyword is `from`.

    Example:

        >>> (torch.zeros(3).uniform_(2, 3) >= 2).all()
        tensor(True)
    """
    if not (isfinite(from_) and isfinite(to)):
        raise RuntimeError(f"uniform_ expects finite bounds, but found from={from_} and to={to}")
    if from_ > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
    kind = self._layout.dtype
    if kind.is_floating_point and to - from_ > dtypes.RANGES[kind][1]:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{kind.short}>::max(), but found to={to} and from={from_}"
        )
    return (_fill_parts if kind.is_complex else _fill)(self, t.uniform, (float(from_), float(to)), generator)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers.

    Example:

        >>> torch.zeros(2).normal_().shape
        numod.Size([2])
    """
    if not std >= 0:  # also NaN
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if self._layout.dtype.is_complex:
        return _fill_parts(self, t.normal, (0.0, float(std) * 0.5**0.5), generator).add_(mean)
    return _fill(self, t.normal, (float(mean), float(std)), generator)


NOT_GIVEN = -1 << 63  # as an upper bound: the least int64, which no range ends at


def _most_exact(dtype: DType) -> int:
    """The largest n such that the dtype represents all integers up to n."""
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
    return (
        1 << digits[dtype.name] if dtype.is_floating_point else 1 if dtype is dtypes.bool_ else dtypes.iinfo(dtype).max
    )


def random_(
    self: Tensor, from_: int | None = None, to: int | None = NOT_GIVEN, *, generator: Generator | None = None
) -> Tensor:
    """Fill with integers in [from_, to); `random_(to)` starts at 0.

    Without bounds, or if `to` is None, up to the largest integer that the dtype represents exactly. PyTorch's keyword
    is `from`.

    Example:

        >>> (torch.zeros(3).random_(0, 10) < 10).all()
        tensor(True)
    """
    _refuse("random_", self)
    if to == NOT_GIVEN:
        from_, to = 0, from_
    if to is None and self.dtype.kind == "w":  # as in PyTorch; the kernel cannot count the 2**64 values of uint64
        raise NotImplementedError(
            f"random_() is not implemented for {self.dtype.short} without an upper bound; pass one, for example "
            f"random_({1 << 16})"
        )
    if to is None:
        to = _most_exact(self.dtype) + 1
    return _fill(self, t.randint, _range(from_ or 0, to, self.dtype), generator)


def bernoulli_(self: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p` (a number or a tensor), else 0.

    Raises RuntimeError for a probability outside [0, 1].

    Example:

        >>> torch.zeros(2).bernoulli_(1.0)
        tensor([1., 1.])
    """
    _refuse("bernoulli_", self)
    if isinstance(p, Tensor):
        return self.copy_(bernoulli(p.expand(self.shape), generator=generator))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if not self.is_floating_point():
        return self.copy_(bernoulli_(empty_like(self, dtype=dtypes.float32), p, generator=generator))
    seed, offset = draw_for(self, generator, True)
    apply_into(t.bernoulli, (float(p), seed, offset), (self,), (self.dtype, self.device, tuple(self.shape)))
    return self


def _draws(self: Tensor, generator: Generator | None) -> Tensor:
    """Uniform numbers in (0, 1), shaped like `self`, in a floating dtype."""
    kind = self.dtype if self.dtype.is_floating_point else dtypes.float32
    return 1.0 - rand(self.shape, generator=generator, dtype=kind.compute, device=self.device)


def _expect_continuous(name: str, self: Tensor) -> None:
    """Raise RuntimeError unless the tensor has a floating dtype."""
    if not self.is_floating_point():
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {self.dtype.short}"
        )


def _refuse(name: str, self: Tensor, *refused: str) -> None:
    """Raise NotImplementedError for a tensor of one of these dtypes, or a complex one."""
    if self.is_complex() or self.dtype.name in refused:
        raise NotImplementedError(
            f"{name}() is not implemented for {self.dtype.short}; fill a tensor of a floating dtype and convert it"
        )


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponentially distributed numbers of rate `lambd`.

    Example:

        >>> (torch.zeros(3).exponential_() >= 0).all()
        tensor(True)
    """
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    _expect_continuous("Exponential", self)
    return _fill(self, t.exponential, (float(lambd),), generator)


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials until the first success of probability `p`.

    Example:

        >>> (torch.zeros(3).geometric_(0.5) >= 1).all()
        tensor(True)
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    _refuse("geometric_", self, "bool")
    return self.copy_(t.ceil(t.log(_draws(self, generator)) / log1p(-p)).clamp_(min=1))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with Cauchy distributed numbers."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _expect_continuous("Cauchy", self)
    return self.copy_(median + sigma * t.tan(pi * (_draws(self, generator) - 0.5)))


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal with this mean and standard deviation."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    _refuse("log_normal_", self)
    return self.copy_(
        t.exp(randn(self.shape, generator=generator, dtype=self.dtype.compute, device=self.device) * std + mean)
    )


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn with probabilities in proportion to a row of weights:

    (n,) -> (num_samples,), (m, n) -> (m, num_samples).

    Example:

        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
    weights = input.detach()
    if not is_whole(num_samples) or not isinstance(replacement, bool):
        raise TypeError(
            f"multinomial(): num_samples must be int and replacement bool, not {type(num_samples).__name__} and "
            f"{type(replacement).__name__}"
        )
    if not weights.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype.short}")
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.short}")
    if weights.shape[-1:] > (2**24,):
        raise RuntimeError("number of categories cannot exceed 2^24")
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not (t.isfinite(weights) & (weights >= 0)).all()._observe():
        raise RuntimeError(
            "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < 0 "
            "(encountering probability entry < 0)"
        )
    totals = weights.sum(-1, keepdim=True)
    if (totals <= 0).any()._observe():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    result = (_drawn_again if replacement else _drawn_once)(weights, num_samples, generator)
    return result if out is None else write_result("multinomial", result, out)


def _drawn_again(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Sample with replacement, by inverting the cumulative distribution."""
    sums = weights.to(dtypes.float64).cumsum(-1)
    thresholds = (
        rand((*weights.shape[:-1], count), generator=generator, dtype=dtypes.float64, device=weights.device)
        * sums[..., -1:]
    )
    indices = searchsorted(sums, thresholds, right=True)
    # Rounding must not select an index past the last positive weight.
    last = weights.shape[-1] - 1 - (weights != 0).flip(-1).to(dtypes.int64).argmax(-1, keepdim=True)
    return t.minimum(indices, last)


def _drawn_once(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Draws without replacement: the smallest of exponential variates with the weights as rates (Efraimidis and
    Spirakis, 2006).
    """
    times = (
        t.neg(t.log(1.0 - rand(weights.shape, generator=generator, dtype=dtypes.float64, device=weights.device)))
        / weights
    )
    return times.argsort(-1)[..., :count].contiguous()


for _method in (uniform_, normal_, random_, bernoulli_, exponential_, geometric_, cauchy_, log_normal_):
    setattr(Tensor, _method.__name__, _method)
Tensor.bernoulli, Tensor.multinomial = bernoulli, multinomial

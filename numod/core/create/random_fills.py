"""In-place methods that fill a tensor with random numbers, such as `uniform_`."""

from __future__ import annotations

from math import isfinite, log1p, pi

from ... import dtypes
from ...ops import table as t
from ..apply import apply_into
from ..math.complexes import view_as_complex
from ..tensor import Tensor
from .creation import empty_like
from .generator import Generator, draw_for
from .random import _drawn, _most_exact, _range, bernoulli, rand, randn

NOT_GIVEN = -1 << 63  # as an upper bound: the least int64, which no range ends at


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


for _method in (uniform_, normal_, random_, bernoulli_, exponential_, geometric_, cauchy_, log_normal_):
    setattr(Tensor, _method.__name__, _method)

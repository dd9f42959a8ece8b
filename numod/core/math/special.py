"""Special functions whose arguments need a check, and those composed of others.

The rows are in `ops.special`; `numod.special` has all names.
"""

from __future__ import annotations

from math import log, pi

from ... import dtypes
from ...ops import density, divergence, special as s, table as t  # noqa: F401  files name the divergences' rows, too
from .outputs import write_out
from ..create.ranges import arange
from ..shape.shapes import unsqueeze
from ..tensor import Tensor

BOTH = "mvlgamma igamma=gammainc igammac=gammaincc"
FUNCTIONS = "polygamma"
METHODS = "polygamma=polygamma_method"
IN_PLACE = "mvlgamma igamma=gammainc igammac=gammaincc polygamma=polygamma_method"


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma, element by element.

    Example:

        >>> torch.special.polygamma(1, torch.tensor([1.0]))
        tensor([1.6449])
    """
    if not isinstance(n, int):
        raise TypeError(f"polygamma(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}.")
    return (
        write_out((s.digamma, s.trigamma)[n], (input,), out)
        if n < 2
        else write_out(s.polygamma, (float(n), input), out)
    )


def polygamma_method(input: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma, element by element."""
    return polygamma(n, input)


def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension p: log gamma(x - k / 2) summed over k < p, and p (p -
    1) / 4 * log(pi).

    Example:

        >>> torch.mvlgamma(torch.tensor([2.0, 3.0]), 2)
        tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    steps = arange(
        p, dtype=input.dtype if input.is_floating_point() else dtypes.get_default_dtype(), device=input.device
    )
    total = s.lgamma(unsqueeze(input, -1) - 0.5 * steps).sum(-1)
    return write_out(t.add, (total, p * (p - 1) / 4 * log(pi)), out)


def gammainc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised lower incomplete gamma function P(input, other). There is no gradient for `input`.

    Example:

        >>> torch.special.gammainc(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.6321])
    """
    return write_out(s.gammainc, (input, other), out)


def gammaincc(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised upper incomplete gamma function Q(input, other) = 1 - P(input, other).

    There is no gradient for `input`.

    Example:

        >>> torch.special.gammaincc(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.3679])
    """
    return write_out(s.gammaincc, (input, other), out)


def zeta(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz' zeta function, the sum of (other + k)^-input over k >= 0. There is no gradient for `input`.

    Example:

        >>> torch.special.zeta(torch.tensor([2.0]), torch.tensor([1.0]))
        tensor([1.6449])
    """
    return write_out(s.zeta, (input, other), out)

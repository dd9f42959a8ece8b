"""Gamma, Poisson and binomially distributed tensors. Other random tensors are in `random`."""

from __future__ import annotations

from ...dtypes import finfo, float64
from ...errors import normalize_dim
from ...ops import sampling
from ..apply import apply
from ..shape.arrangement import broadcast_tensors
from ..convert.copies import contiguous
from .generator import Generator, draw_for
from ..math.reductions import sum as total
from ..tensor import Tensor

FUNCTIONS = "poisson binomial _standard_gamma=standard_gamma _sample_dirichlet=dirichlet"


def _sampled(name: str, op: sampling.Sample, input: Tensor, generator: Generator | None) -> Tensor:
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{input.dtype.short}'; convert first, for example with .to(numod.float32)"
        )
    return apply(op, (contiguous(input), *draw_for(input, generator)))


def standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of gamma distributions of rate 1 with the elements as shape parameters.

    Differentiable (implicit reparameterization: the quantile is held fixed).
    """
    return _sampled("gamma", sampling.standard_gamma, input, generator)


def dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of Dirichlet distributions with concentrations along the last dimension; never 0 or 1, where densities
    may be infinite.
    """
    # in float64: for small concentrations, all gammas of a row underflow in float32, and their ratios are meaningless
    parts = standard_gamma(input.double() if input.is_floating_point() else input, generator).clamp_min(
        finfo(float64).tiny
    )
    shares = parts / total(parts, normalize_dim(-1, input.ndim), True)
    limits = finfo(input.dtype)
    return shares.to(input.dtype).clamp(limits.tiny, 1 - limits.eps / 2)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of Poisson distributions with the elements as rates.

    Example:

        >>> torch.poisson(torch.zeros(3))
        tensor([0., 0., 0.])
    """
    if input.is_floating_point() and input.numel() and input.min()._observe() < 0:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _sampled("poisson", sampling.poisson, input, generator)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of binomial distributions: the successes among `count` trials, floats, of probability `prob` each, which
    broadcast.

    Example:

        >>> torch.binomial(torch.tensor([10.0, 10.0]), torch.tensor([0.0, 1.0]))
        tensor([ 0., 10.])
    """
    for argument in (count, prob):
        if not argument.is_floating_point():
            raise ValueError(
                f"binomial only supports floating-point dtypes for count and prob, got: {argument.dtype}; convert "
                "first, for example with .float()"
            )
    if count.dtype is not prob.dtype:
        raise RuntimeError(
            f"Found dtype {prob.dtype.short} but expected {count.dtype.short}: count and prob of binomial have one "
            "dtype"
        )
    count, prob = map(contiguous, broadcast_tensors(count, prob))
    return apply(sampling.binomial, (count, prob, *draw_for(count, generator)))

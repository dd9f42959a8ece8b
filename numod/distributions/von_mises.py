"""The von Mises distribution of angles."""

from __future__ import annotations

import math

from ..autograd import no_grad
from ..core import Tensor, empty, functions as f, zeros
from ..core.create.random import rand
from ..ops.special import i0e, i1e
from ..dtypes import bool_, float64
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all, lazy_property


class VonMises(Distribution):
    """Angles in [-pi, pi) with density ~ exp(concentration cos(x - loc)).

    `loc` and values are modulo 2 pi. Mean and variance are circular.

    Example:

        >>> torch.distributions.VonMises(torch.tensor(0.0), torch.tensor(4.0)).mean
        tensor(0.)
    """

    arg_constraints, support = {"loc": c.real, "concentration": c.positive}, c.real

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self) -> Tensor:
        """1 - I1(concentration) / I0(concentration)."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (
            self.concentration * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(self.concentration).log()
        )

    def _proposal(self, concentration: Tensor) -> Tensor:
        """The parameter of the wrapped Cauchy values that are accepted or not; near concentration 0 by Taylor's
        series.
        """
        tau = 1 + (1 + 4 * concentration**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * concentration)
        return f.where(concentration < 1e-5, 1 / concentration + concentration, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        """Best and Fisher, Efficient simulation of the von Mises distribution, 1979; in float64, since for small
        concentrations float32 never accepts.
        """
        with no_grad():
            shape, k = self._extended_shape(sample_shape), self.concentration.to(float64)
            r = self._proposal(k)
            x = empty(shape, dtype=float64, device=k.device)
            done = zeros(shape, dtype=bool_, device=k.device)
            while not bool(done.all()):
                u1, u2, u3 = rand((3, *shape), dtype=float64, device=k.device).unbind()
                z = (math.pi * u1).cos()
                angle = (1 + r * z) / (r + z)
                excess = k * (r - angle)
                accepted = (excess * (2 - excess) - u2 > 0) | ((excess / u2).log() + 1 - excess >= 0)
                x, done = f.where(accepted & ~done, (u3 - 0.5).sign() * angle.acos(), x), done | accepted
            return ((x + math.pi + self.loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

"""Base class of distributions with a location and a scale."""

from __future__ import annotations

from ..core import Tensor
from ..core.create.random import rand
from ..dtypes import finfo
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all


class LocationScale(Distribution):
    """A distribution shifted by `loc` and scaled by `scale`."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _unit(self, shape: tuple) -> Tensor:
        """Uniform numbers greater than 0 and less than 1."""
        eps = finfo(self.loc.dtype).tiny
        return rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(eps, 1 - finfo(self.loc.dtype).eps)

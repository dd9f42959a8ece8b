"""The chi-squared distribution."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .gamma import Gamma
from .utils import broadcast_all


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal random variables.

    Example:

        >>> torch.distributions.Chi2(torch.tensor(3.0)).mean
        tensor(3.)
    """

    arg_constraints = {"df": c.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    df = property(lambda self: self.concentration * 2)

"""What parameters and values may be: tests of tensors that say, per element or per event, whether they fit."""

from __future__ import annotations

from ..core import Tensor

__all__ = [
    "Constraint", "boolean", "dependent", "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "less_than",
    "lower_cholesky", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "real", "real_vector", "simplex",
    "square", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """`check(value)` gives a bool tensor; `event_dim` dimensions at the right belong to one test."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Where the value fits. To be defined."""
        raise NotImplementedError(f"{type(self).__name__} must define check(value)")

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Test(Constraint):
    """A constraint made of a function."""

    def __init__(self, name: str, test: object, event_dim: int = 0, discrete: bool = False) -> None:
        self.name, self.test, self.event_dim, self.is_discrete = name, test, event_dim, discrete

    def check(self, value: Tensor) -> Tensor:
        """Where the value fits."""
        return self.test(value)

    def __repr__(self) -> str:
        return self.name


def _all_last(test: Tensor, dims: int = 1) -> Tensor:
    for _ in range(dims):
        test = test.all(-1)
    return test


real = _Test("Real()", lambda x: x == x)
real_vector = _Test("IndependentConstraint(Real(), 1)", lambda x: _all_last(x == x), 1)
boolean = _Test("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
positive = _Test("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
nonnegative = _Test("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
unit_interval = _Test("Interval(lower_bound=0.0, upper_bound=1.0)", lambda x: (x >= 0) & (x <= 1))
nonnegative_integer = _Test("IntegerGreaterThan(lower_bound=0)", lambda x: (x % 1 == 0) & (x >= 0), discrete=True)
positive_integer = _Test("IntegerGreaterThan(lower_bound=1)", lambda x: (x % 1 == 0) & (x >= 1), discrete=True)
simplex = _Test("Simplex()", lambda x: _all_last(x >= 0) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = _Test("OneHot()", lambda x: _all_last((x == 0) | (x == 1)) & (x.sum(-1) == 1), 1, True)
square = _Test("Square()", lambda x: x[..., 0, 0] == x[..., 0, 0] if x.shape[-1] == x.shape[-2] else x[..., 0, 0] != x[..., 0, 0], 2)
symmetric = _Test("Symmetric()", lambda x: _all_last((x - x.mT).abs() <= 1e-6 * (1 + x.abs()), 2), 2)
lower_cholesky = _Test("LowerCholesky()", lambda x: _all_last(x.tril() == x, 2) & _all_last(x.diagonal(0, -2, -1) > 0), 2)


def _is_positive_definite(x: Tensor) -> Tensor:
    from ..core.linear_algebra import eigvalsh

    return symmetric.check(x) & (eigvalsh(x.detach()).amin(-1) > 0)


positive_definite = _Test("PositiveDefinite()", _is_positive_definite, 2)
dependent = _Test("Dependent()", lambda x: x == x)


def multinomial(upper: int) -> Constraint:
    """Counts that sum to at most `upper`."""
    return _Test("Multinomial()", lambda x: _all_last(x >= 0) & (x.sum(-1) <= upper), 1, True)


def interval(lower: object, upper: object) -> Constraint:
    """From `lower` to `upper`, both included."""
    return _Test(f"Interval(lower_bound={lower}, upper_bound={upper})", lambda x: (lower <= x) & (x <= upper))


def half_open_interval(lower: object, upper: object) -> Constraint:
    """From `lower`, included, to `upper`."""
    return _Test(f"HalfOpenInterval(lower_bound={lower}, upper_bound={upper})", lambda x: (lower <= x) & (x < upper))


def integer_interval(lower: object, upper: object) -> Constraint:
    """Whole numbers from `lower` to `upper`."""
    return _Test(f"IntegerInterval(lower_bound={lower}, upper_bound={upper})", lambda x: (x % 1 == 0) & (lower <= x) & (x <= upper), discrete=True)


def greater_than(lower: object) -> Constraint:
    """Above `lower`."""
    return _Test(f"GreaterThan(lower_bound={lower})", lambda x: x > lower)


def greater_than_eq(lower: object) -> Constraint:
    """Not below `lower`."""
    return _Test(f"GreaterThanEq(lower_bound={lower})", lambda x: x >= lower)


def less_than(upper: object) -> Constraint:
    """Below `upper`."""
    return _Test(f"LessThan(upper_bound={upper})", lambda x: x < upper)


def independent(base: Constraint, dims: int) -> Constraint:
    """`base` for all elements of the last `dims` dimensions."""
    return _Test(f"IndependentConstraint({base!r}, {dims})", lambda x: _all_last(base.check(x), dims), base.event_dim + dims, base.is_discrete)

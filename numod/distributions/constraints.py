"""Constraints on parameters and values: `check` returns, per element or event, whether a tensor satisfies them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import Tensor, full, functions as f

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """`check(value)` returns a bool tensor; the last `event_dim` dimensions are tested together."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each event satisfies the constraint; the shape is that of `value` without its event dimensions."""
        raise NotImplementedError(f"{type(self).__name__} must define check(value)")

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


def _all_last(test: Tensor, dims: int = 1) -> Tensor:
    """Whether a test holds for all elements of the last dimensions."""
    return test.flatten(-dims).all(-1) if dims else test


# ---- constraints that depend on other parameters


class _Dependent(Constraint):
    """A constraint that depends on other parameters and cannot be checked by itself."""

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._properties = {"is_discrete": is_discrete, "event_dim": event_dim}

    def _determined(self, name: str) -> Any:
        if self._properties[name] is None:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return self._properties[name]

    is_discrete = property(lambda self: self._determined("is_discrete"))
    event_dim = property(lambda self: self._determined("event_dim"))

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> _Dependent:
        """A copy with other properties."""
        changes = {"is_discrete": is_discrete, "event_dim": event_dim}
        return _Dependent(
            **{name: self._properties[name] if value is None else value for name, value in changes.items()}
        )

    def check(self, value: Tensor) -> Tensor:
        """Raises ValueError, since the constraint cannot be checked."""
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property that is a constraint on an instance, and a dependent constraint on the class."""

    def __init__(self, fn: Any = None, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any) -> dependent_property:
        return dependent_property(fn, **self._properties)


def is_dependent(constraint: object) -> bool:
    """Whether a constraint cannot be checked by itself."""
    return isinstance(constraint, _Dependent)


# ---- bounds of elements


class _WithBounds(Constraint):
    """A constraint with bounds, which its repr shows."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({bounds})"


class _Above(_WithBounds):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_WithBounds):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_WithBounds):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _GreaterThan(_Above):
    """Above a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    """At or above a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Below):
    """Below a bound."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """From the lower bound to the upper bound, both inclusive."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """From the lower bound, inclusive, to the upper bound, exclusive."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Between):
    """Integers from the lower bound to the upper bound, both inclusive."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Integers from the lower bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All values except nan."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


# ---- vectors


class _Simplex(Constraint):
    """Nonnegative numbers whose sum is 1."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return _all_last(value >= 0) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    """One 1, otherwise zeros."""

    is_discrete, event_dim = True, 1

    def check(self, value: Tensor) -> Tensor:
        return _all_last((value == 0) | (value == 1)) & (value.sum(-1) == 1)


class _Multinomial(Constraint):
    """Counts whose sum is at most a bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return _all_last(value >= 0) & (value.sum(-1) <= self.upper_bound)


# ---- matrices


class _Square(Constraint):
    """As many rows as columns."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return full(value.shape[:-2], value.shape[-1] == value.shape[-2])


class _Symmetric(_Square):
    """Equal to its transpose."""

    def check(self, value: Tensor) -> Tensor:
        fits = super().check(value)
        return _all_last(f.isclose(value, value.mT, atol=1e-6), 2) if fits.all()._observe() else fits


class _PositiveDefinite(_Symmetric):
    """Symmetric with positive eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        fits = super().check(value)
        return _has_eigenvalues(value, lambda least: least > 0) if fits.all()._observe() else fits


class _PositiveSemidefinite(_Symmetric):
    """Symmetric with no negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        fits = super().check(value)
        return _has_eigenvalues(value, lambda least: least >= 0) if fits.all()._observe() else fits


def _has_eigenvalues(value: Tensor, fits: Any) -> Tensor:
    from ..core.linalg.decompositions import eigvalsh  # LAPACK is needed here only

    return fits(eigvalsh(value.detach()).amin(-1))


class _LowerTriangular(Constraint):
    """Zeros above the diagonal."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return _all_last(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    """Zeros above a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & _all_last(value.diagonal(0, -2, -1) > 0)


class _CorrCholesky(_LowerCholesky):
    """A lower Cholesky factor whose rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        from ..dtypes import finfo

        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10  # ten times the rounding of a sum of squares
        return super().check(value) & _all_last((value.norm(dim=-1) - 1).abs() < tolerance)


# ---- constraints of constraints


class _IndependentConstraint(Constraint):
    """A constraint for all elements of the last dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        if value.ndim < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return _all_last(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _PartConstraints(Constraint):
    """Constraints for the parts of a tensor along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete, self.event_dim = (
            any(constraint.is_discrete for constraint in self.cseq),
            max(constraint.event_dim for constraint in self.cseq),
        )


class _Cat(_PartConstraints):
    """Parts of the given lengths."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Tensor) -> Tensor:
        return f.cat(
            [constraint.check(part) for constraint, part in zip(self.cseq, value.split(self.lengths, self.dim))],
            self.dim,
        )


class _Stack(_PartConstraints):
    """Slices along the dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        self.event_dim += self.dim + self.event_dim < 0  # the stacked dimension is then one of the event's

    def check(self, value: Tensor) -> Tensor:
        return f.stack(
            [constraint.check(value.select(self.dim, position)) for position, constraint in enumerate(self.cseq)],
            self.dim,
        )


class MixtureSameFamilyConstraint(Constraint):
    """A constraint that all of a mixture's components must allow for a value (without the components' dimension)."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


dependent = _Dependent()
independent, cat, stack, multinomial = _IndependentConstraint, _Cat, _Stack, _Multinomial
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval = _Interval, _HalfOpenInterval, _IntegerInterval
real, boolean, simplex, one_hot = _Real(), _Boolean(), _Simplex(), _OneHot()
real_vector = independent(real, 1)
positive, nonnegative, unit_interval = greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
square = _Square()
symmetric = _Symmetric()
positive_definite = _PositiveDefinite()
positive_semidefinite = _PositiveSemidefinite()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()

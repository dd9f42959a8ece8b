"""Transforms of unconstrained numbers that satisfy a constraint.

`biject_to` has bijections, `transform_to` the simplest transforms.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints as c, transforms as t

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Maps types of constraints to transforms: `registry(constraint)` returns a transform onto it."""

    def __init__(self) -> None:
        self._factories: dict[type, Callable[[Any], t.Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], t.Transform] | None = None) -> Callable:
        """Keep what makes the transform for a type of constraint (or that of an instance); without a factory, a
        decorator.
        """
        if factory is None:
            return lambda factory_: self.register(constraint, factory_)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, c.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._factories[kind] = factory
        return factory

    def __call__(self, constraint: c.Constraint) -> t.Transform:
        if type(constraint) not in self._factories:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return self._factories[type(constraint)](constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _shifted(sign: int) -> Callable[[Any], t.Transform]:
    """exp, followed by a shift above the lower bound or below the upper bound."""
    return lambda constraint: t.ComposeTransform(
        [t.ExpTransform(), t.AffineTransform(constraint.lower_bound if sign > 0 else constraint.upper_bound, sign)]
    )


def _to_interval(constraint: Any) -> t.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


for _registry in (biject_to, transform_to):
    _registry.register(c.real, lambda constraint: t.identity_transform)
    _registry.register(c.positive, _shifted(1))
    _registry.register(c.greater_than_eq, _shifted(1))
    _registry.register(c.less_than, _shifted(-1))
    _registry.register(c.interval, _to_interval)
    _registry.register(c.half_open_interval, _to_interval)
    _registry.register(c.corr_cholesky, lambda constraint: t.CorrCholeskyTransform())
    _registry.register(
        c.independent,
        lambda constraint, registry=_registry: t.IndependentTransform(
            registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    _registry.register(
        c.cat,
        lambda constraint, registry=_registry: t.CatTransform(
            [registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    _registry.register(
        c.stack,
        lambda constraint, registry=_registry: t.StackTransform(
            [registry(part) for part in constraint.cseq], constraint.dim
        ),
    )
biject_to.register(c.simplex, lambda constraint: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda constraint: t.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda constraint: t.PositiveDefiniteTransform())
transform_to.register(c.positive_semidefinite, lambda constraint: t.PositiveDefiniteTransform())

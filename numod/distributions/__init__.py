"""Probability distributions: PyTorch's `torch.distributions`, what reinforcement learning and variational models use of it."""

from __future__ import annotations

from . import constraints, transforms
from .composite import (
    Dirichlet, Independent, LogNormal, MixtureSameFamily, MultivariateNormal, RelaxedBernoulli, RelaxedOneHotCategorical, TransformedDistribution,
)
from .continuous import Beta, Cauchy, Chi2, Exponential, Gamma, Gumbel, HalfNormal, Laplace, Normal, StudentT, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough, Poisson
from .distribution import Distribution
from .kl import kl_divergence, register_kl
from .transforms import (
    AbsTransform, AffineTransform, ComposeTransform, ExpTransform, IndependentTransform, PowerTransform, ReshapeTransform, SigmoidTransform, SoftmaxTransform,
    SoftplusTransform, StickBreakingTransform, TanhTransform, Transform, identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform",
    "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal", "Independent", "IndependentTransform", "Laplace", "LogNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson", "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical",
    "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform", "StudentT", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "constraints", "identity_transform", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip

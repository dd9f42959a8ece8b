"""The base class of distributions: shapes, validation, sampling, and methods derived from those of subclasses."""

from __future__ import annotations

from typing import Any

from ..errors import warn_caller
from ..autograd import no_grad
from ..core import Tensor
from ..device import Size
from .constraints import Constraint, is_dependent
from .utils import lazy_property


class Distribution:
    """A batch of `batch_shape` distributions over events of `event_shape`.

    Subclasses define `sample` or `rsample`, `log_prob`, and the other methods they support. Raises ValueError for
    parameters and values outside their constraints, unless `validate_args=False`.

    Example:

        >>> from numod.distributions import Normal
        >>> normal = Normal(torch.zeros(2), torch.ones(2))
        >>> normal.batch_shape, normal.log_prob(torch.zeros(2))
        (numod.Size([2]), tensor([-0.9189, -0.9189]))
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, Constraint] = {}
    support: Any = None
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions validate their parameters and values by default."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args expects True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: tuple = Size(()), event_shape: tuple = Size(()), validate_args: bool | None = None
    ) -> None:
        super().__init__()  # for subclasses that are Modules too
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            for name, constraint in self.arg_constraints.items():
                if (
                    is_dependent(constraint)
                    or name not in self.__dict__
                    and isinstance(getattr(type(self), name), lazy_property)
                ):
                    continue  # lazy properties are computed from checked parameters
                value = getattr(self, name)
                if isinstance(value, Tensor) and not constraint.check(value.detach()).all()._observe():
                    raise ValueError(
                        f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                        f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                        f"but found invalid values:\n{value}"
                    )

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        """Draw values of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        """Draw reparameterized samples, through which gradients flow to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample()")

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` values."""
        warn_caller("sample_n will be deprecated. Use .sample((n,)) instead")
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability at `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value whose cdf is `value`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a finite discrete distribution."""
        raise NotImplementedError(f"{type(self).__name__} has no finite support")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def expand(self, batch_shape: tuple, _instance: Any = None) -> Distribution:
        """This distribution with its parameters broadcast to another batch shape."""
        return self._expanded(batch_shape, _instance)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An empty distribution of this class, for `expand` of `cls` to fill; other libraries' distributions call it.

        Raises NotImplementedError for a subclass that overrides `__init__`; such a class must define `expand`.
        """
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, batch_shape: tuple, _instance: Any = None) -> Any:
        """A copy whose tensors and distributions are expanded to another batch shape, without validation.

        With `_instance`, its missing attributes are filled instead.
        """
        batch_shape, result = Size(batch_shape), object.__new__(type(self)) if _instance is None else _instance
        for name, value in {name_: value for name_, value in vars(self).items() if name_ not in vars(result)}.items():
            if isinstance(value, Tensor):
                value = value.expand((*batch_shape, *value.shape[len(self._batch_shape) :]))
            elif isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value.batch_shape[len(self._batch_shape) :]))
            vars(result)[name] = value
        result._batch_shape = batch_shape
        return result

    def _extended_shape(self, sample_shape: tuple = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError for a value of a wrong shape or outside the support."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.shape[value.ndim - len(self._event_shape) :]
        if tuple(events) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        for m, n in zip(reversed(value.shape), reversed(self._batch_shape + self._event_shape)):
            if m != 1 and n != 1 and m != n:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{self._batch_shape + self._event_shape}."
                )
        support = self.support
        if support is not None and not support.check(value.detach()).all()._observe():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within "
                f"the support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parameters = [
            f"{name}: {getattr(self, name) if getattr(self, name).numel() == 1 else getattr(self, name).size()}"
            for name in names
        ]
        return f"{type(self).__name__}({', '.join(parameters)})"

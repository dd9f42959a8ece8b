"""Fuzzers for `numod.utils.benchmark`: random tensors of random shapes and layouts, determined by a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import log2, prod
from typing import Any

import numpy as np

from ..core import Tensor
from ..core.create.random import manual_seed, rand, randint
from ..dtypes import dtype as DType
from ..dtypes import float32

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]


class ParameterAlias:
    """A parameter whose value is that of another parameter."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A random parameter.

    `distribution` is "uniform" (integers if both bounds are), "loguniform" (integers), or a dict from values to
    probabilities. `minval` and `maxval` are inclusive. A `strict` parameter is drawn once for each set of parameters,
    even if the set is rejected and drawn again.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        if isinstance(distribution, dict):
            if any(value < 0 for value in distribution.values()) or abs(sum(distribution.values()) - 1) > 1e-5:
                raise AssertionError(
                    f"FuzzedParameter {name}: probabilities must be positive and add up to one, got "
                    f"{list(distribution.values())}"
                )
            if minval is not None or maxval is not None:
                raise AssertionError(f"FuzzedParameter {name}: with a dict of choices, minval and maxval must be None")
        elif distribution not in ("loguniform", "uniform"):
            raise AssertionError(
                f"FuzzedParameter {name}: Unknown distribution: {distribution}; give 'uniform', 'loguniform' or a dict"
            )
        self.name, self.strict = name, strict
        self._least, self._most, self._distribution = minval, maxval, distribution

    def sample(self, state: np.random.RandomState) -> Any:
        """Draw a value."""
        least, most, choices = self._least, self._most, self._distribution
        if isinstance(choices, dict):
            return list(choices)[state.choice(len(choices), p=list(choices.values()))]
        if choices == "loguniform":
            return min(max(int(2 ** state.uniform(log2(least), log2(most))), least), most)
        return (
            int(state.randint(least, most + 1))
            if isinstance(least, int) and isinstance(most, int)
            else state.uniform(least, most)
        )


class FuzzedTensor:
    """A random tensor.

    Entries of `size` and `steps` are numbers or names of parameters; only the first `dim_parameter` dimensions are
    used. The tensor has these steps in a larger one. It is contiguous with `probability_contiguous`; otherwise its
    dimensions are permuted. Parameters are drawn again if there are fewer elements than `min_elements`, more than
    `max_elements`, or more than `max_allocation_bytes` including the steps. `tensor_constructor(size=, dtype=,
    **parameters)` creates the values.
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: DType = float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        self.name = name
        self._size = size
        self._steps = steps or ()
        self._ordered = probability_contiguous
        self._dimensions = dim_parameter
        self._least, self._most, self._most_bytes = min_elements, max_elements, max_allocation_bytes
        self._dtype, self._cuda, self._construct = dtype, cuda, tensor_constructor or self.default_tensor_constructor

    @staticmethod
    def default_tensor_constructor(size: tuple[int, ...], dtype: DType, **_: Any) -> Tensor:
        """Uniform numbers below one, or integers from 1 to 126."""
        return rand(size, dtype=dtype) if dtype.is_floating_point else randint(1, 127, size, dtype=dtype)

    def _shape(self, parameters: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes and steps of the used dimensions."""
        count = parameters[self._dimensions] if self._dimensions is not None else len(self._size)
        numbers = [[parameters.get(value, value) for value in entries][:count] for entries in (self._size, self._steps)]
        return tuple([tuple(value + [1] * (count - len(value))) for value in numbers])

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether these parameters satisfy the tensor's limits."""
        size, steps = self._shape(params)
        elements = prod(size)
        pairs = (
            (elements, self._most),
            (self._least, elements),
            (elements * prod(steps) * self._dtype.itemsize, self._most_bytes),
        )
        return not any(a is not None and b is not None and a > b for a, b in pairs)

    def _make_tensor(self, params: dict[str, Any], state: np.random.RandomState) -> tuple[Tensor, dict[str, Any]]:
        """A tensor of random layout, and its properties."""
        size, steps = self._shape(params)
        whole = self._construct(size=tuple([n * step for n, step in zip(size, steps)]), dtype=self._dtype, **params)
        whole = whole.cuda() if self._cuda else whole
        order = np.arange(len(size))
        if state.rand() > self._ordered:
            while len(size) > 1 and (order == np.arange(len(size))).all():
                order = state.permutation(len(size))
            whole = whole.permute(*order.tolist()).contiguous().permute(*np.argsort(order).tolist())
        tensor = whole[tuple([slice(0, n * step, step) for n, step in zip(size, steps)])]
        return tensor, {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }


class Fuzzer:
    """Draws parameters until all constraints and tensors accept them, and creates the tensors.

    `constraints` are functions of the dict of parameters.
    """

    def __init__(
        self,
        parameters: Iterable[FuzzedParameter | Iterable[FuzzedParameter]],
        tensors: Iterable[FuzzedTensor | Iterable[FuzzedTensor]],
        constraints: Iterable[Callable[[dict[str, Any]], bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        self._parameters, self._tensors = _flat(parameters, FuzzedParameter), _flat(tensors, FuzzedTensor)
        self._constraints = tuple(constraints or ())
        twice = {parameter.name for parameter in self._parameters} & {tensor.name for tensor in self._tensors}
        if twice:
            raise ValueError(f"Duplicate names in parameters and tensors: {twice}")
        self._rejected = self._drawn = 0

    @property
    def rejection_rate(self) -> float:
        """The fraction of the drawn parameter sets that were rejected."""
        return self._rejected / self._drawn if self._drawn else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, dict], dict[str, Any]]]:
        """Yield `n` times: tensors, their properties, and the parameters, each by name."""
        state = np.random.RandomState(self._seed)
        manual_seed(int(state.randint(0, 2**63 - 1, dtype=np.int64)))
        for _ in range(n):
            parameters = self._draw(state)
            tensors = {tensor.name: tensor._make_tensor(parameters, state) for tensor in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in tensors.items()},
                {name: properties for name, (_, properties) in tensors.items()},
                parameters,
            )

    def _draw(self, state: np.random.RandomState) -> dict[str, Any]:
        strict = {parameter.name: parameter.sample(state) for parameter in self._parameters if parameter.strict}
        for _ in range(1000):
            candidate = _without_aliases(
                {
                    parameter.name: strict[parameter.name] if parameter.strict else parameter.sample(state)
                    for parameter in self._parameters
                }
            )
            self._drawn += 1
            if all(constraint(candidate) for constraint in self._constraints) and all(
                tensor.satisfies_constraints(candidate) for tensor in self._tensors
            ):
                return candidate
            self._rejected += 1
        raise ValueError("Failed to generate a set of valid parameters: the constraints rejected a thousand.")


def _flat(values: Iterable, kind: type) -> tuple:
    return tuple([item for value in values for item in ([value] if isinstance(value, kind) else value)])


def _without_aliases(parameters: dict[str, Any]) -> dict[str, Any]:
    for name, value in parameters.items():
        seen = {name}
        while isinstance(value, ParameterAlias):
            if value.alias_to in seen:
                raise ValueError(f"ParameterAlias cycle detected\n{parameters}")
            seen.add(value.alias_to)
            value = parameters[value.alias_to]
        parameters[name] = value
    return parameters

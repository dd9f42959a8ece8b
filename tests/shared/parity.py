"""What tests beside the installed PyTorch share: a call made with both libraries, and its results, gradients and errors
compared. Not tests themselves.

A call takes the library and tensors of it, as in `compare(lambda t, x: t.exp(x), array)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")
LIBRARIES = (numod, torch)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed float64 numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def flat(results: Any) -> list:
    """The values in nested tuples and lists, in order."""
    return [value for result in results for value in flat(result)] if isinstance(results, (tuple, list)) else [results]


def plain(text: object) -> str:
    """Text without the libraries' names and paths: `torch.Size([2])` and `numod.Size([2])` are `(2)`."""
    return re.sub(r"\b(torch|numod|nn|utils)\.(\w+\.)*", "", str(text)).replace("Size([", "(").replace("])", ")")


def same(ours: Any, theirs: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Results, which may be nested: tensors of equal shape and dtype and of close values (by default to rounding),
    other values equal.
    """
    ours, theirs = flat(ours), flat(theirs)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        if not isinstance(other, torch.Tensor):
            assert mine == other
            continue
        assert (
            isinstance(mine, numod.Tensor)
            and tuple(mine.shape) == tuple(other.shape)
            and plain(mine.dtype) == plain(other.dtype)
        )
        rounding = 2e-6 if other.dtype is torch.float32 else 1e-9
        np.testing.assert_allclose(
            mine.detach().numpy(), other.detach().numpy(force=True), rtol=rtol or rounding, atol=atol or rounding
        )


def gradients(library: Any, results: Any, leaves: Iterable) -> list:
    """The leaves' gradients of a sum of the results with random weights."""
    summands = [leaf for leaf in flat(results) if getattr(leaf, "requires_grad", False)]
    if summands:
        sum(
            (summand * library.tensor(random(*summand.shape, seed=k)).to(summand.dtype)).sum()
            for k, summand in enumerate(summands)
        ).backward()
    return [leaf.grad for leaf in leaves]


def compare(
    call: Callable,
    *arrays: np.ndarray,
    rtol: float | None = None,
    atol: float | None = None,
    differentiable: bool = True,
) -> None:
    """The results of `call(library, *tensors)`, and the gradients by the floating-point tensors."""
    results, slopes = [], []
    for library in LIBRARIES:
        inputs = [library.tensor(array, requires_grad=differentiable and array.dtype.kind == "f") for array in arrays]
        results.append(call(library, *inputs))
        slopes.append(gradients(library, results[-1], inputs))
    same(*results, rtol, atol)
    same(*slopes, 10 * (rtol or 2e-6), 10 * (atol or 2e-6))


def twins(make: Callable) -> tuple:
    """`make(library.nn)` of both libraries in float64, alike in text and keys, with PyTorch's weights."""
    ours, theirs = (make(library.nn).double() for library in LIBRARIES)
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({key: numod.tensor(value.numpy()) for key, value in theirs.state_dict().items()})
    return ours, theirs


def compare_modules(modules: tuple, call: Callable) -> None:
    """`call(library, module)` gives the results and the inputs: those results, and the gradients by the inputs and by
    the parameters.
    """
    results, slopes = [], []
    for library, module in zip(LIBRARIES, modules):
        module.zero_grad()
        result, inputs = call(library, module)
        results.append(result)
        slopes.append(gradients(library, result, [*inputs, *module.parameters()]))
    same(*results)
    same(*slopes, 1e-8, 1e-8)


def same_error(call: Callable, text: bool = False) -> None:
    """`call(library)` raises the same type of exception with both, and with `text` the same message."""
    with pytest.raises(Exception) as theirs:  # PyTorch says which
        call(torch)
    with pytest.raises(Exception) as ours:
        call(numod)
    assert issubclass(ours.type, theirs.type) or ours.type.__name__ == theirs.type.__name__.lstrip("_"), (
        ours.value,
        theirs.value,
    )
    assert not text or plain(ours.value) == plain(theirs.value)

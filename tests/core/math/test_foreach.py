"""`_foreach_` functions against NumPy, tensor by tensor: numbers, lists of numbers, tensors and lists of tensors as
arguments; what is written in place; errors.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.math.foreach import functions

pytestmark = pytest.mark.on_cuda(simulator=False)

ARRAYS = [np.linspace(0.2, 0.9, 4), np.linspace(-0.8, 0.5, 6).reshape(2, 3)]


def tensors() -> list[numod.Tensor]:
    return [numod.tensor(array) for array in ARRAYS]


def near(actual: tuple, wanted: list) -> bool:
    return isinstance(actual, tuple) and all(np.allclose(*pair) for pair in zip(actual, wanted, strict=True))


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("name", "arguments", "options", "reference"),
    [
        ("add", (tensors(),), {"alpha": 2}, lambda x, k: 3 * x),
        ("add", ([1.0, 2.0],), {}, lambda x, k: x + 1 + k),
        ("mul", (numod.tensor(3.0, dtype=numod.float64),), {}, lambda x, k: 3 * x),
        ("sub", (0.5,), {}, lambda x, k: x - 0.5),
        ("div", (tensors(),), {}, lambda x, k: np.ones_like(x)),
        ("maximum", (0.3,), {}, lambda x, k: np.maximum(x, 0.3)),
        ("minimum", (tensors(),), {}, lambda x, k: x),
        ("pow", (2,), {}, lambda x, k: x**2),
        ("neg", (), {}, lambda x, k: -x),
        ("tanh", (), {}, lambda x, k: np.tanh(x)),
        ("addcmul", (tensors(), tensors()), {"value": 0.5}, lambda x, k: x + 0.5 * x * x),
        ("addcmul", (tensors(), tensors()), {"scalars": [0.5, 2.0]}, lambda x, k: x + [0.5, 2.0][k] * x * x),
        ("addcmul", (tensors(), tensors(), numod.tensor([0.5, 2.0])), {}, lambda x, k: x + [0.5, 2.0][k] * x * x),
        ("lerp", ([tensor * 3 for tensor in tensors()], 0.25), {}, lambda x, k: 1.5 * x),
    ],
)
def test_values(name: str, arguments: tuple, options: dict, reference) -> None:
    wanted = [reference(x, k) for k, x in enumerate(ARRAYS)]
    assert near(functions[f"_foreach_{name}"](tensors(), *arguments, **options), wanted)
    written = tensors()
    assert getattr(numod, f"_foreach_{name}_")(written, *arguments, **options) is written and near(
        tuple(written), wanted
    )


def test_norms_copies_and_zeros() -> None:
    assert near(numod._foreach_norm(tensors()), [np.linalg.norm(array) for array in ARRAYS])
    assert near(numod._foreach_norm(tensors(), 1), [np.abs(array).sum() for array in ARRAYS])
    assert near(numod._foreach_norm(tensors(), ord=1), [np.abs(array).sum() for array in ARRAYS])
    assert near(numod._foreach_powsum(tensors(), 3), [(np.abs(array) ** 3).sum() for array in ARRAYS])
    written, reference_tensors = tensors(), numod._foreach_clone(tensors())
    numod._foreach_zero_(written)
    assert not any(written_tensor.any() for written_tensor in written)
    numod._foreach_copy_(written, reference_tensors)
    assert near(tuple(written), ARRAYS) and near(reference_tensors, ARRAYS)


def test_every_function_has_its_method() -> None:
    for name in functions.keys() - {"_foreach_powsum"}:
        method = name.removeprefix("_foreach_").replace("maximum_", "clamp_min_").replace("minimum_", "clamp_max_")
        assert hasattr(numod.Tensor, method) and getattr(numod, name).__doc__


def test_lists_of_unlike_lengths_and_empty_ones() -> None:
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        numod._foreach_add(tensors(), tensors()[:1])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        numod._foreach_add([], 1)

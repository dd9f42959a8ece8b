"""assert_close and make_tensor beside PyTorch's: the same verdicts, exception types and texts."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.testing import assert_close, make_tensor

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")
INF, NAN = float("inf"), float("nan")

# each: a function of the library giving (actual, expected), and options
CASES = [
    (lambda t: (t.tensor([1.0, 2, 3]), t.tensor([1.0, 2, 4])), {}),
    (lambda t: (t.tensor([1.0, 2, 3]), t.tensor([1.0, 2, 3 + 1e-6])), {}),
    (lambda t: (t.tensor([[1.0, 2], [3, 4]]), t.tensor([[1.0, 2], [5, 4]])), {}),
    (lambda t: (t.tensor(1.0), t.tensor(2.0)), {}),
    (lambda t: (t.tensor(5), t.tensor(6)), {}),
    (lambda t: (1.0, 2.0), {}),
    (lambda t: (1.0, 1.0 + 1e-8), {}),
    (lambda t: (1.0, 1.5), {"rtol": 0, "atol": 0.1}),
    (lambda t: (0.1, 0.0), {}),
    (lambda t: (1, 2), {}),
    (lambda t: (1j, 2j), {}),
    (lambda t: (1, 1.0), {}),
    (lambda t: (1, 1.0), {"check_dtype": False}),
    (lambda t: (True, False), {}),
    (lambda t: (np.float32(1), np.float32(2)), {"check_dtype": False}),
    (lambda t: (NAN, NAN), {}),
    (lambda t: (NAN, NAN), {"equal_nan": True}),
    (lambda t: (t.tensor([1.0, NAN]), t.tensor([1.0, NAN])), {}),
    (lambda t: (t.tensor([1.0, NAN]), t.tensor([1.0, NAN])), {"equal_nan": True}),
    (lambda t: (t.tensor([1.0, INF]), t.tensor([1.0, 2])), {}),
    (lambda t: (t.tensor([INF, -INF]), t.tensor([INF, -INF])), {}),
    (lambda t: (t.tensor([1.0]), t.tensor([INF])), {}),
    (lambda t: (t.tensor([1, 2]), t.tensor([1, 3])), {}),
    (lambda t: (t.tensor([1, 2]), t.tensor([1, 3])), {"rtol": 0.1, "atol": 0.2}),
    (lambda t: (t.tensor([1, 2**62]), t.tensor([1, 2**62 + 1])), {}),
    (lambda t: (t.tensor([255], dtype=t.uint8), t.tensor([0], dtype=t.uint8)), {}),
    (lambda t: (t.tensor([True, False]), t.tensor([True, True])), {}),
    (lambda t: (t.tensor([True]), t.tensor([1])), {"check_dtype": False}),
    (lambda t: (t.tensor([1.0]), t.tensor([2.0])), {"rtol": 0, "atol": 0}),
    (lambda t: (t.tensor([0.0]), t.tensor([0.1])), {}),
    (lambda t: (t.tensor([0.1]), t.tensor([0.0])), {}),
    (lambda t: (t.tensor([1.0, 2], dtype=t.float16), t.tensor([1.0, 2.1], dtype=t.float16)), {}),
    (lambda t: (t.tensor([1.0, 2], dtype=t.bfloat16), t.tensor([1.0, 2.1], dtype=t.bfloat16)), {}),
    (lambda t: (t.tensor([1.0, 2], dtype=t.float64), t.tensor([1.0, 2.1], dtype=t.float64)), {}),
    (lambda t: (t.tensor([1.0], dtype=t.float16), t.tensor([1.1], dtype=t.float64)), {"check_dtype": False}),
    (lambda t: (t.tensor([1]), t.tensor([1.01])), {"check_dtype": False}),
    (lambda t: (t.tensor([1.0, 2]), t.tensor([[1.0, 2]])), {}),
    (lambda t: (t.tensor([1.0]), t.tensor([1.0], dtype=t.float64)), {}),
    (lambda t: (t.zeros(2, 3), t.zeros(3, 2).mT), {"check_stride": True}),
    (lambda t: (t.zeros(2, 3), t.zeros(3, 2).mT), {}),
    (lambda t: (t.tensor([]), t.tensor([])), {}),
    (lambda t: (t.tensor([1.0], requires_grad=True), t.tensor([2.0])), {}),
    (lambda t: (t.nn.Parameter(t.tensor([1.0])), t.tensor([1.0])), {}),
    (lambda t: ([t.tensor([1.0]), t.tensor([2.0])], (t.tensor([1.0]), t.tensor([3.0]))), {}),
    (lambda t: ([t.tensor([1.0]), t.tensor([2.0])], [t.tensor([3.0]), t.tensor([3.0])]), {}),
    (lambda t: ([{"a": [t.tensor(1.0)]}], [{"a": [t.tensor(2.0)]}]), {}),
    (lambda t: ([[1, 2]], [[1, 3]]), {}),
    (lambda t: ({"a": 1}, {"b": 1}), {}),
    (lambda t: ([1, 2], [1]), {}),
    (lambda t: ([[1, 2], [3]], [[1, 2], []]), {}),
    (lambda t: ([1, "a"], [2, "a"]), {}),
    (lambda t: ([], []), {}),
    (lambda t: (None, None), {}),
    (lambda t: (None, t.tensor([1.0])), {}),
    (lambda t: (np.array([1.0, 2]), np.array([1.0, 2.1])), {}),
    (lambda t: (t.tensor([1.0]), t.tensor([2.0])), {"msg": "mine"}),
    (lambda t: ([t.tensor([1.0])], [t.tensor([2.0])]), {"msg": lambda text: f"X {text}"}),
    (lambda t: (t.tensor([1.0]), t.tensor([1.0])), {"rtol": 1}),
    (lambda t: (t.tensor([1.0]), t.tensor([1.0])), {"atol": 1}),
    (lambda t: (object(), object()), {}),
    (lambda t: ("a", "a"), {}),
    (lambda t: (1, "1"), {}),
    (lambda t: (1.0, t.tensor(1.0)), {}),
    (lambda t: (t.tensor([1.0]), [1.0]), {}),
    (lambda t: (t.tensor([1.0]), np.array([1.0])), {}),
    (lambda t: ({"a": 1}, [1]), {}),
]


def verdict(library, check, case, options):
    try:
        check(*case(library), **options)
    except Exception as error:
        return type(error), str(error).replace("torch.", "numod.").replace(
            "numod.nn.parameter.Parameter", "Parameter"
        ).replace("numod.core.tensor.Tensor", "numod.Tensor")
    return None


@pytest.mark.parametrize(("case", "options"), CASES)
def test_verdicts(case, options):
    assert verdict(numod, assert_close, case, options) == verdict(torch, torch.testing.assert_close, case, options)


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"low": -3, "high": 2.5},
        {"low": 1, "high": 2},
        {"low": 3, "high": 3},
        {"low": 4, "high": 1},
        {"low": NAN},
        {"low": -INF, "high": INF},
        {"low": -5, "high": -3},
        {"requires_grad": True},
        {"exclude_zero": True, "low": 0, "high": 2},
        {"noncontiguous": True},
    ],
)
@pytest.mark.filterwarnings("ignore:Passing `low==high`")
def test_make_tensor(name, options):
    results = []
    for library, make in ((numod, make_tensor), (torch, torch.testing.make_tensor)):
        try:
            result = make(120, 500, dtype=getattr(library, name), device="cpu", **options)
            values = result.detach().double()
            low, high = values.min().item(), values.max().item()
            bounds = (round(low), round(high)) if abs(low) < 1e3 else (low < -1e3, high > 1e3)
            results.append(
                (
                    str(result.dtype).split(".")[1],
                    tuple(result.shape),
                    result.stride(),
                    result.requires_grad,
                    bounds,
                    bool((values == 0).any()),
                )
            )
        except Exception as error:
            results.append((type(error), str(error).replace("torch", "numod")))
    if isinstance(results[0][0], str) and name in ("float32", "float64", "float16", "bfloat16"):
        results = [outcome[:-1] for outcome in results]  # whether a float is exactly zero is chance
    assert results[0] == results[1]

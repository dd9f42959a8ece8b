"""Odd calls made by machine beside PyTorch: taken or refused alike, the same kind of exception, results of the same
shape, dtype and values.

Every twelfth name of the table of signatures, three odd calls an overload; about 6 minutes with one process on a busy
machine. Differences that stay are listed with the reason.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from calls import is_random, is_wanted
from numod.core import signatures
from odd_inputs import both, odd_calls
from parity import flat, same

pytestmark = pytest.mark.parity
UNSURE = (  # whose results are memory, names, choices among equals or signs of vectors
    "empty", "hash_tensor", "data_ptr", "eig", "eigh", "svd", "qr", "topk", "kthvalue", "median", "nanmedian", "mode",
    "sort", "argsort", "lobpcg", "numpy",
)  # fmt: skip
WIDER = "more dtypes are computed"
SIZE = "a tensor of sizes, or True for 1, is taken"
ALLOWED = {  # "path: argument: what it was" -> why numod differs
    "special.scaled_modified_bessel_k0: x: float16": WIDER,
    "nn.functional.max_pool1d_with_indices: padding: True": SIZE, "fft.rfft2: s: tensor": SIZE,
    "Tensor.sum_to_size: size: None": "no size is ()",
    "linalg.tensorinv: input: one element": "a number is its own matrix",
    "binary_cross_entropy_with_logits: target: empty": "sizes that differ are refused, as by nn.functional",
    "index_fill: index: complex64": "RuntimeError, as for index_select",
}  # fmt: skip
# PyTorch's accidents, where its Python code asks for an attribute of what is no tensor: numod raises TypeError
KINDER = (AttributeError,)
PATHS = [
    path
    for path in signatures.names()[::12]
    if is_wanted(path) and path.rpartition(".")[2].removesuffix("_") not in UNSURE
]


def difference(mine: Any, theirs: Any, random: bool) -> str | None:
    """What differs in two outcomes; None where nothing does."""
    if isinstance(mine, Exception) or isinstance(theirs, Exception):
        if not isinstance(mine, Exception):
            return "taken"
        if not isinstance(theirs, Exception):
            return f"refused: {mine!r}"
        names = [base.__name__ for base in type(mine).__mro__]
        alike = type(theirs).__name__.lstrip("_") in names or (
            isinstance(theirs, KINDER) and isinstance(mine, TypeError)
        )
        return None if alike else f"{mine!r} for {theirs!r}"
    if random:
        return (
            None
            if [getattr(leaf, "shape", leaf) for leaf in flat(mine)]
            == [getattr(leaf, "shape", leaf) for leaf in flat(theirs)]
            else "shape"
        )
    widened = [
        [leaf.float() if "bfloat16" in str(getattr(leaf, "dtype", "")) else leaf for leaf in flat(results)]
        for results in (mine, theirs)
    ]
    if [str(getattr(leaf, "dtype", ""))[6:] for leaf in flat(mine)] != [
        str(getattr(leaf, "dtype", ""))[6:] for leaf in flat(theirs)
    ]:
        return "dtype"
    try:
        same(*widened, 2e-2, 2e-2)
    except AssertionError as error:
        return f"result: {error}"
    return None


@pytest.mark.parametrize("path", PATHS)
def test_odd_calls(path: str) -> None:
    results, called = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = list(odd_calls(path, 3))
    for odd, arguments in every:
        try:
            mine, theirs = both(path, arguments)
        except LookupError:
            continue
        called += 1
        if (differs := difference(mine, theirs, is_random(path))) is not None:
            results[f"{path}: {odd}"] = differs
    if not called:
        pytest.skip("no arguments found")
    assert not results.keys() - ALLOWED.keys(), results

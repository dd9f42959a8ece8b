"""What functions make of odd inputs beside PyTorch: each tensor of one of PyTorch's samples replaced by an empty one, one of another rank, of another dtype, or
an expanded one. What PyTorch takes is taken, with the same shape, dtype and values; what it refuses is not compared, since numod takes some of it. About 10 minutes with two processes the first time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import numod
from calls import is_random, is_wanted
from numod.core import signatures
from parity import same, torch
from samples import copied, operators, ours, samples

pytestmark = [pytest.mark.parity, pytest.mark.fuzz]
KNOWN = {}  # path -> the odd inputs that numod refuses, or answers otherwise, and why


def odd(x: Any) -> Iterator[tuple[str, Any]]:
    """Odd tensors in the place of one."""
    yield "empty", torch.empty(0, dtype=x.dtype)
    yield "rank + 1", x.unsqueeze(0)
    if x.numel():
        yield "no dimensions", x.flatten()[0].clone()
    if x.is_floating_point():
        yield "int64", (x * 3).to(torch.int64)
        yield "bool", x > 0
    if x.numel() and x.ndim:
        yield "expanded", x.flatten()[:1].clone().expand(x.shape)


def variants(path: str) -> Iterator[tuple[str, list, dict]]:
    """The first sample that PyTorch takes, with each of its tensors replaced in turn."""
    for operator in operators().get(path, ()):
        for sample in samples(operator):
            arguments = [sample.input, *sample.args]
            for place, value in enumerate(arguments):
                if isinstance(value, torch.Tensor):
                    for name, other in odd(value):
                        yield f"{place}: {name}", [*arguments[:place], other, *arguments[place + 1 :]], sample.kwargs
            return


def reached(library: Any, path: str) -> Any:
    for part in path.split("."):
        library = getattr(library, part)
    return library


@pytest.mark.parametrize("path", [path for path in signatures.names() if not path.startswith("Tensor.") and not path.endswith("_") and is_wanted(path)])
def test_taken_as_by_pytorch(path: str) -> None:
    different = []
    for name, arguments, options in variants(path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                mine, options_of_mine = ours(arguments), ours(options)
                theirs = reached(torch, path)(*map(copied, arguments), **options)
            except Exception:
                continue
            try:
                found = reached(numod, path)(*mine, **options_of_mine)
                if not is_random(path):
                    same(found, theirs, 2e-2, 1e-3)
            except Exception as error:
                different.append(f"{name}: {type(error).__name__}: {error}"[:200])
    known = KNOWN.get(path, ())
    assert [each for each in different if not each.startswith(known)] == []

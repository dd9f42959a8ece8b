"""Odd calls of public functions, made by machine:

PyTorch's own samples with one argument replaced by an odd one. Not tests themselves.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

import numod
from calls import call, calls as made
from numod.core import signatures
from samples import calls as sampled, copied, ours

torch = pytest.importorskip("torch")
Change = Callable[[Any], Any]


def same(value: Any) -> Change:
    """A change to this value, whatever was there."""
    return lambda _: value


TENSOR: dict[str, Change] = {
    **{name: (lambda x,
        name=name: x.to(getattr(torch,
            name))) for name in "bool int8 int32 int64 float64 float16 bfloat16 complex64".split()},
    "zero-dimensional": lambda x: x.reshape(-1)[0].clone(), "empty": lambda x: x.reshape(-1)[:0].clone(),
    "size 0": lambda x: x[:0].clone(),
    "one element": lambda x: x.reshape(-1)[:1].clone(), "turned": lambda x: x.mT.contiguous().mT,
    "a dimension more": lambda x: x[None].clone(),
    "a dimension less": lambda x: x[0].clone(), "longer": lambda x: torch.cat([x, x[:1]]),
    "gradient": lambda x: x.detach().clone().requires_grad_(),
}  # fmt: skip
NO_TENSOR: dict[str, Change] = {
    **{repr(value): same(value) for value in (None, 2, 1.5, True, "a")}, "list": lambda x: x.tolist(),
    "array": lambda x: x.numpy().copy(),
}  # fmt: skip
INT = {
    repr(value): same(value)
    for value in (-1, 0, 3, -100, 100, 1 << 62, 1 << 70, 2.5, True, None, "a", math.nan, np.int64(1), [1], (0, 0), 1j)
}
INT |= {
    "tensor": torch.tensor,
    "float": float,
    "float tensor": same(torch.tensor(1.5)),
    "vector": same(torch.tensor([1, 2])),
}
FLOAT = {
    repr(value): same(value) for value in (-1, 0, 2, -0.5, math.nan, math.inf, None, "a", True, [1.0], np.float32(0.5))
}
FLAG = {repr(value): same(value) for value in (0, 1, None, "a", 2.5)} | {
    "tensor": same(torch.tensor(True)),
    "other": lambda x: not x,
}
SIZES = {
    repr(value): same(value)
    for value in ((), -1, 100, [-100], [1 << 62], [1.5], None, "ab", [None], (0, 0), (0, -1), [True], math.nan, [-1])
}
SIZES |= {
    "tensor": same(torch.tensor([1, 1])),
    "longer": lambda x: (*x, x[-1]),
    "shorter": lambda x: x[:-1],
    "floats": lambda x: list(map(float, x)),
}
TENSORS = {
    "none": lambda x: [], "a tensor": lambda x: x[0], "None": lambda x: [*x, None], "int": lambda x: [*x, 1],
    "mixed": lambda x: [x[0].to(torch.int64), *x[1:]],
    "rank": lambda x: [x[0][None], *x[1:]], "one": lambda x: x[:1],
}  # fmt: skip
TEXT = {repr(value): same(value) for value in ("bogus", None, 3, "")}


def changes(value: Any, is_self: bool) -> dict[str, Change]:
    """Odd values in the place of a good one, by name."""
    if isinstance(value, torch.Tensor):
        return TENSOR if is_self else TENSOR | NO_TENSOR
    if isinstance(value, (list, tuple)):
        of_tensors = bool(value) and all(isinstance(entry, torch.Tensor) for entry in value)
        return TENSORS if of_tensors else SIZES if all(isinstance(entry, int) for entry in value) else {}
    return next(
        (odd for kind, odd in ((bool, FLAG), (int, INT), (float, FLOAT), (str, TEXT)) if isinstance(value, kind)),
        {},
    )


def good(path: str, overload: Any) -> dict | None:
    """The first small arguments that PyTorch takes."""
    for arguments in islice(chain(sampled(path, overload), made(torch, path, overload)), 200):
        arguments = {
            name: value
            for name, value in arguments.items()
            if name not in ("out", "generator", "dtype", "layout", "memory_format", "device")
        }
        try:
            call(torch, path, {name: copied(value) for name, value in arguments.items()})
            ours(arguments)
        except Exception:
            continue
        if all(argument.numel() < 500 for argument in arguments.values() if isinstance(argument, torch.Tensor)):
            return arguments
    return None


def odd_calls(path: str, count: int) -> Iterator[tuple[str, dict]]:
    """(what is odd, arguments), `count` for each overload, the same in every run."""
    chosen = random.Random(path)
    for overload in signatures.overloads(path):
        if any(
            parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            for parameter in overload.parameters.values()
        ) or not (arguments := good(path, overload)):
            continue
        is_self = path.startswith("Tensor.")
        every = [
            (name, text, change)
            for k, (name, value) in enumerate(arguments.items())
            for text, change in changes(value, is_self and not k).items()
        ]
        for name, text, change in chosen.sample(every, min(count, len(every))):
            try:
                yield f"{name}: {text}", {**arguments, name: change(arguments[name])}
            except (RuntimeError, IndexError, TypeError):
                continue  # of a tensor that has no such form


def outcome(library: Any, path: str, arguments: dict) -> Any:
    """The result of a call, or its exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(library, path, arguments)
        except Exception as error:
            return error


def both(path: str, arguments: dict) -> tuple[Any, Any]:
    """numod's outcome and PyTorch's. Raises LookupError for arguments that numod has no like of."""
    mine = {name: _with_gradient(ours(value), value) for name, value in arguments.items()}
    return outcome(numod, path, mine), outcome(
        torch, path, {name: _with_gradient(copied(value), value) for name, value in arguments.items()}
    )


def _with_gradient(value: Any, original: Any) -> Any:
    return value.detach().requires_grad_() if isinstance(original, torch.Tensor) and original.requires_grad else value

"""PyTorch's own sample inputs of its operators (`op_db` of its test suite), and their copies as numod's tensors.

Not tests themselves.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import numod
from numod.core import signatures

torch = pytest.importorskip("torch")


@cache
def operators() -> dict[str, list]:
    """The operators by the paths that the table of signatures has for them: functions, methods, in-place forms and
    aliases.
    """
    package = ModuleType("expecttest")  # which PyTorch's test suite imports and the samples do not need
    package.TestCase = unittest.TestCase
    sys.modules.setdefault("expecttest", package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    results: dict[str, list] = {}
    for operator in op_db:
        for name in (operator.name, *[alias.name for alias in operator.aliases or ()]):
            short = name.rpartition(".")[2]
            for path in dict.fromkeys(
                (name, short, f"{short}_", f"Tensor.{short}", f"Tensor.{short}_", f"nn.functional.{short}")
            ):
                if signatures.overloads(path):
                    results.setdefault(path, []).append(operator)
    return results


def samples(operator: Any) -> Iterator[Any]:
    """Its inputs in float32, or int64 where it takes no floats."""
    try:
        yield from operator.sample_inputs("cpu", torch.float32 if torch.float32 in operator.dtypes else torch.int64)
    except Exception:
        return  # of kinds of tensors that this build of PyTorch lacks


def calls(path: str, overload: Any) -> Iterator[dict]:
    """PyTorch's samples that fit an overload, as keyword arguments; a method's `self` comes first."""
    for operator in operators().get(path, ()):
        for sample in samples(operator):
            try:
                yield dict(overload.bind(sample.input, *sample.args, **sample.kwargs).arguments)
            except TypeError:
                continue


def ours(value: Any) -> Any:
    """The same argument for numod. Raises LookupError for what numod has no like of."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or not hasattr(numod, str(value.dtype)[6:]):
            raise LookupError(f"{value.dtype} {value.layout}")
        plain = value.detach().resolve_conj().resolve_neg()
        return (
            numod.tensor(plain.float().numpy()).bfloat16()
            if plain.dtype is torch.bfloat16
            else numod.from_numpy(np.array(plain.numpy(), order="K"))
        )
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        if not hasattr(numod, str(value)[6:]):
            raise LookupError(str(value))
        return getattr(numod, str(value)[6:])
    if isinstance(value, dict):
        return {name: ours(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, torch.Size) else type(value))(map(ours, value))
    if type(value).__module__.startswith("torch") and not isinstance(value, torch.device):
        raise LookupError(type(value).__name__)
    return str(value) if isinstance(value, torch.device) else value


def copied(value: Any) -> Any:
    """A copy of an argument, for functions that write to it."""
    return (
        value.clone()
        if isinstance(value, torch.Tensor)
        else type(value)(map(copied, value))
        if type(value) in (list, tuple)
        else value
    )

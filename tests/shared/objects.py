"""Objects that public scripts put into checkpoints, made with numod or with PyTorch, and the classes that
`safe_globals` must be given for them.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import pathlib
import types
import uuid
from typing import Any


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])


@dataclasses.dataclass
class Slotted:
    __slots__ = ("a",)
    a: int


class Color(enum.Enum):
    RED = 1


class Names(list):
    pass


class Table(dict):
    pass


Pair = collections.namedtuple("Pair", "a b")


def objects(library: Any) -> dict[str, tuple[Any, list]]:
    """(object, classes to allow) by name, made with this library.

    The classes are those whose code a file could otherwise not call.
    """
    nn, optim = library.nn, library.optim
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(library.ones(1, 2)).sum().backward()
    optimizer.step()
    schedule = optim.lr_scheduler.StepLR(optimizer, 1)
    optimizers = [optim.SGD, collections.defaultdict, dict]
    return {
        "dataclass": (Config(), [Config]), "slots": (Slotted(3), [Slotted]),
        "namespace": (argparse.Namespace(a=1, t=library.ones(2)), [argparse.Namespace]),
        "simple": (types.SimpleNamespace(a=1), [types.SimpleNamespace]), "pair": (Pair(1, library.ones(1)), [Pair]),
        "enum": (Color.RED, [Color]),
        "counts": (collections.defaultdict(int, a=1), [collections.defaultdict, int]),
        "lists": (collections.defaultdict(list, a=[1]), [collections.defaultdict, list]),
        "deque": (collections.deque([1, 2], 3), [collections.deque]), "names": (Names([1]), [Names]),
        "table": (Table(a=1), [Table]),
        "time": (datetime.datetime(2024, 1, 2), [datetime.datetime]),
        "span": (datetime.timedelta(1), [datetime.timedelta]),
        "path": (pathlib.PurePosixPath("/a/b"), [pathlib.PurePosixPath]),
        "partial": (functools.partial(max, 1), [functools.partial, max]),
        "decimal": (decimal.Decimal("1.5"), [decimal.Decimal]), "uuid": (uuid.UUID(int=5), [uuid.UUID]),
        "range": (range(3), [range]), "slice": (slice(1, 2), [slice]), "class": (int, [int]),
        "text class": (str, [str]), "function": (functools.reduce, [functools.reduce]),
        "error": (ValueError("x"), [ValueError]), "optimizer": (optimizer, optimizers),
        "schedule": (schedule, [optim.lr_scheduler.StepLR, *optimizers]),
        "layer": (layer, [nn.Linear]),
        "network": (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.BatchNorm1d(3)),
            [nn.Sequential, nn.Linear, nn.ReLU, nn.BatchNorm1d]),
        "recurrent": (nn.LSTM(2, 2), [nn.LSTM]),
        "attention": (nn.MultiheadAttention(2, 1),
            [nn.MultiheadAttention, nn.modules.linear.NonDynamicallyQuantizableLinear]),
        "by name": (nn.ModuleDict({"a": nn.GELU()}), [nn.ModuleDict, nn.GELU]),
        "parameters": (nn.ParameterList([nn.Parameter(library.ones(1))]), [nn.ParameterList]),
    }  # fmt: skip


def described(value: Any) -> Any:
    """What an object holds, the same for objects of either library."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "state_dict") and not isinstance(value, type):
        return type(value).__name__, described(value.state_dict())
    if isinstance(value, (argparse.Namespace, types.SimpleNamespace)):
        return described(vars(value))
    if isinstance(value, dict):
        return type(value).__name__, {str(key): described(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(entry) for entry in value]
    return (value.func, value.args) if isinstance(value, functools.partial) else repr(value)

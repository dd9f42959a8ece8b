"""PyTorch's paths to its layers, `nn.modules.linear.Linear` and so on: other names for the files of `nn`, where everything is defined."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import utils  # noqa: F401  the one file that is only here

_nn = sys.modules[__name__.rpartition(".")[0]]  # complete but for this folder, which it imports last
_ELSEWHERE = {"flatten": "linear"}  # files of PyTorch's whose layers are in one of another name here

_files = {name: file for name, file in vars(_nn).items() if isinstance(file, ModuleType) and not hasattr(file, "__path__")}
_files |= {name: _files[other] for name, other in _ELSEWHERE.items()}
for _name, _file in _files.items():
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _file


def __getattr__(name: str) -> Any:
    """The layers themselves, as in `nn.modules.Linear`."""
    return getattr(_nn, name)

"""Extends tensorboardX's conversion to NumPy, which supports frameworks by name, to numod's tensors.

This happens when tensorboardX is imported, before or after numod.
"""

from __future__ import annotations

import functools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .tensor import Tensor

_PACKAGE, _MODULE = "tensorboardX", "tensorboardX.x2num"


class _Finder:
    """Extends the module when it is imported, and leaves `sys.meta_path`."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), _extend(module))
        return spec


def install() -> None:
    """Extend the conversion now, where tensorboardX is imported, else at its import."""
    if _MODULE in sys.modules:
        _extend(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())


def _extend(x2num: ModuleType) -> None:
    """Replace the conversion, also where modules of tensorboardX have imported it by name."""
    plain = getattr(x2num, "make_np", None)
    if plain is None:
        return

    @functools.wraps(plain)
    def make_np(x: Any) -> Any:
        return plain(x.detach().cpu().numpy() if isinstance(x, Tensor) else x)

    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE) and getattr(module, "make_np", None) is plain:
            module.make_np = make_np

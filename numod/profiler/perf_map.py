"""Linux `perf`: a map that names compiled kernels, so that `perf report` shows them instead of bare addresses."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..kernel import build

_MOST = 1 << 16  # bytes a function is taken to have where no later one follows closely


def write_perf_map(path: str | None = None) -> str:
    """Write where every kernel of this process lies; call it at the end of the program that `perf record` runs. Returns the file's name.

    The default is where `perf` looks: /tmp/perf-<process>.map. Lines are `begin size name`, in hexadecimal but for the name.
    """
    path = path or f"/tmp/perf-{os.getpid()}.map"
    found = sorted({address: name for address, name in _functions()}.items())
    ends = [address for address, _ in found[1:]] + [found[-1][0] + _MOST] if found else []
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{begin:x} {min(end - begin, _MOST):x} {name}\n" for (begin, name), end in zip(found, ends))
    return path


def _functions() -> Iterator[tuple[int, str]]:
    """(address, name) of each kernel's own function, and of the wrapper that Python calls."""
    for kernel in build.kernels():
        for result in getattr(kernel.dispatcher, "overloads", {}).values():
            library, description = getattr(result, "library", None), getattr(result, "fndesc", None)
            if hasattr(library, "get_pointer_to_function"):
                yield library.get_pointer_to_function(description.llvm_func_name), f"numod::{kernel.name}"
                yield library.get_pointer_to_function(description.llvm_cpython_wrapper_name), f"numod::{kernel.name} (wrapper)"

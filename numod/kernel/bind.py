"""Bind kernels to a target: complete a kernel's source with imports, helpers and loops, and build its launcher.

A structured op writes its kernel once, as a function over flat arrays. `parallel_range(n)` is a loop with independent
iterations. It becomes `range(n)`, a function whose range threads divide (`kernel.divide`), or a grid-stride loop of GPU
threads. Float literals have the kernel's `real` type, since Numba would compute in float64. A kernel calls only `math`
functions, casts, the back end's functions, and functions registered by `kernel.scalar`, whose text is copied into its
own.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from ..device import signals
from ..device.phases import Span
from ..dtypes import dtype as DType
from . import build as builder
from .any_size import for_all_sizes
from . import library, scalar  # noqa: F401  the library adds its functions to those of scalar
from .divide import divided
from .sources import text_of
from .specialize import specialized

# decorators of functions in the text of kernels, of those in these groups
_GROUPS = {"inlined": scalar.inlined, "shared": scalar.shared, "rolled": scalar.rolled}
_ROUNDING = ("ceil", "floor", "trunc")  # on the CPU, those of `math` return integers, which cannot hold an infinity
# characters of a kernel that takes more than a second to compile; half as many if the work is more than _SMALL_WORK
_SLOW_TEXT_LENGTH, _SMALL_WORK = 3000, 1 << 16
_MATH = sorted(
    name for name in dir(math) if not name.startswith("_") and callable(getattr(math, name)) and name not in _ROUNDING
)


def launcher(
    device: object,
    name: str,
    source: str,
    signature: str,
    real: DType,
    work: int,
    fastmath: frozenset = builder.FAST_POINTWISE,
    blocks: tuple[int, int] | None = None,
) -> Callable:
    """A function that runs the kernel `source` on `device`: serial, parallel or on a grid.

    The choice depends on `work`, the number of simple elements.

    `blocks`: (blocks, threads per block) of a kernel that is written for thread blocks (`kernel.block`).
    """
    if _recording.log is not None:
        return Unbuilt(device, name, source, signature, real, work, fastmath, blocks)
    return _launcher(device, name, source, signature, real, work, fastmath, blocks)


def signature(*arrays: object, numbers: int = 0, others: Sequence[str] = ()) -> str:
    """The types of a kernel's arguments: flat arrays, then `numbers` integers, then `others`.

    Arrays are given as a name, a NumPy dtype or an object with a `storage`.
    """
    names = [array if isinstance(array, str) else getattr(array, "storage", array).name for array in arrays]
    return ", ".join([*[f"{name}[]" for name in names], *["int64"] * numbers, *others])


def _launcher(
    device: object,
    name: str,
    source: str,
    signature: str,
    real: DType,
    work: int,
    fastmath: frozenset,
    blocks: tuple[int, int] | None,
) -> Callable:
    """A launch of a kernel, built when it is first needed, serial or parallel by the amount of `work`."""
    backend = device.backend

    def make(parallel: bool) -> Callable:
        return _built(backend, name, source, signature, real, parallel, fastmath)

    # for all sizes, one kernel is both the serial and the parallel one
    long = for_all_sizes.get() or len(source) > (_SLOW_TEXT_LENGTH if work < _SMALL_WORK else _SLOW_TEXT_LENGTH // 2)
    return (
        backend.choose(make, work, "parallel_range(" in source, long)
        if blocks is None
        else backend.launch_blocks(make(False), *blocks)
    )


@dataclass(frozen=True)
class Unbuilt:
    """The launcher of a kernel that is not compiled: calls are recorded. `build` returns the actual launcher."""

    device: object
    name: str
    source: str
    signature: str
    real: DType
    work: int
    fastmath: frozenset
    blocks: tuple[int, int] | None = None

    def __call__(self, *arguments: object) -> None:
        _recording.log.append((self, arguments))

    def build(self) -> Callable:
        """The launcher that eager ops use."""
        return _launcher(
            self.device, self.name, self.source, self.signature, self.real, self.work, self.fastmath, self.blocks
        )

    def built(self) -> builder.Kernel:
        """The serial kernel."""
        text = _complete(self.device.backend, self.source, self.real, False)
        return builder.build(self.device.backend, self.name, text, self.signature, False, self.fastmath)

    def function(self, name: str) -> str:
        """The serial kernel's text as a function `name` that can share a module with other kernels.

        `real` is replaced by its type, which becomes part of the helper functions' names.
        """
        text = _complete(self.device.backend, self.source, self.real, False)
        helpers, _, kernel = text.rpartition("def kernel(")
        for helper_name in re.findall(r"@\w+_function\ndef (\w+)\(", helpers):
            helpers, kernel = (
                re.sub(rf"\b{helper_name}\(", f"{helper_name}_{_real(self.real)}(", part) for part in (helpers, kernel)
            )
        return re.sub(
            r"\breal\(",
            f"{_real(self.real)}(",
            re.sub(r"^(real = |from ).*\n", "", helpers, flags=re.M) + f"def {name}({kernel}",
        )


class _Recording(threading.local):
    log: list | None = None


_recording = _Recording()


@contextmanager
def unbuilt() -> Iterator[list]:
    """A context for the graph compiler in which kernels are not compiled.

    Launchers append (kernel, arguments) to the list that it yields.
    """
    before, _recording.log = _recording.log, []
    try:
        yield _recording.log
    finally:
        _recording.log = before


def _built(*kernel: object) -> Callable:
    """The launch of a kernel (see `_kernel`), which a kernel of `build.ahead` replaces when it is complete."""
    built = _kernel(*kernel)
    return builder.asked_for(built).launch


@cache
def _kernel(
    backend: object, name: str, source: str, signature: str, real: DType, parallel: bool, fastmath: frozenset
) -> builder.Kernel:
    # this imports Numba
    with builder.unforked, signals.waiting(), Span("source", "write the text", name):
        text = _complete(backend, source, real, parallel)
    return builder.build(backend, name, text, f"{signature}, int64" if parallel else signature, parallel, fastmath)


def _complete(backend: object, source: str, real: DType, parallel: bool) -> str:
    """The source with this target's loops, after its imports and the helpers that it uses."""
    source = divided(source) if parallel else source
    text = _helpers(source, {*_vectorised(backend), *backend.further_math()}) + re.sub(
        r"parallel_range\(((?:[^()]|\([^()]*\))*)\)", lambda match: backend.LOOP.format(match[1]), source
    )
    text = text.replace("local_array(", "cuda.local.array(")
    if "shared_array(" in text:
        text = text.replace("shared_array(", "cuda.shared.array(").replace(", SHARED)", backend.shared_end())
    return headed(f"real = {_real(real)}\n{text}", backend)


def headed(text: str, backend: object) -> str:
    """`text` preceded by imports of the math functions it calls."""
    header, vector_functions, called = "", _vectorised(backend), _called(text)
    for module, names in (
        (f"{__package__}.vectorised", vector_functions),
        (backend.MATH, _MATH),
        (backend.ROUNDING, _ROUNDING),
    ):
        imported = [
            name for name in names if name in called and (names is vector_functions or name not in vector_functions)
        ]
        if imported:
            version = f"  # {_version_of_vectors()}" if names is vector_functions else ""
            header += f"from {module} import {', '.join(imported)}{version}\n"
    return header + text


def _called(text: str) -> set[str]:
    """Names of the functions that `text` calls."""
    return set(re.findall(r"\b(\w+)\(", text))


def _vectorised(backend: object) -> dict[str, object]:
    """The functions that this target's kernels import from `kernel.vectorised`, by name."""
    return _formulas() if backend.VECTORISED else {}


@cache
def _formulas() -> dict[str, object]:
    # these import llvmlite, which is loaded only when a kernel is built
    from . import halves, lines, quotients, vector_math

    return {**vector_math.formulas, **lines.formulas, **halves.formulas, **quotients.formulas}


@cache
def _version_of_vectors() -> str:
    """A digest of the code that generates vector instructions.

    It is part of a kernel's source and so of its cache key, since the source has only the functions' names.
    """
    import hashlib

    from . import branches, halves, instructions, lines, quotients, vector_math

    return hashlib.sha256(
        "".join(map(text_of, (branches, halves, instructions, lines, quotients, *vector_math.MODULES))).encode()
    ).hexdigest()[:16]


def _real(dtype: DType) -> str:
    """The type of float literals in a kernel of this dtype."""
    return dtype.real.compute.name if dtype.differentiable else "float64"


def _helpers(source: str, excluded: Container[str]) -> str:
    """Texts of the functions of `kernel.scalar` that `source` calls, directly or indirectly, callees first.

    Functions in `excluded` are left out, since the target provides them.
    """
    texts: dict[str, str] = {}

    def collect(text: str) -> None:
        """Add the source of each function of the registry that `text` calls, callees first."""
        called_names = _called(text)
        for name, function in scalar.functions.items():
            if name in called_names and name not in texts and name not in excluded:
                helper = specialized(function, name=name)
                collect(helper.split("\n", 1)[1])
                decorator = next(
                    (decorator for decorator, group in _GROUPS.items() if function in group),
                    "device",
                )
                texts[name] = f"@{decorator}_function\n{helper}\n"

    collect(source)
    return "".join(texts.values())

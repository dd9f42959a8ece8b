"""How a kernel got its speed: a reference, then versions of it, each checked and then timed in turns.

`python -m perf ladder gemm`.

A version is a kernel as numod writes them, a function over flat arrays; the last is numod's own op. Versions before it
are here to be read.
"""

from __future__ import annotations

import argparse
import ast
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import measure
from ..row import QUICK, Pace

NAMES = ("gemm", "exp", "softmax", "conv")


@dataclass(frozen=True)
class Version:
    """A way to do the work:

    `run()` gives the result, as an array or a tensor. `why`: what it does otherwise than the one before.
    """

    name: str
    why: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Ladder:
    """Versions of one kernel, slowest first.

    `expected` was computed in float64; `tolerance` is that of a result beside the greatest expected.
    """

    title: str
    expected: np.ndarray
    tolerance: float
    versions: Sequence[Version]
    flops: int = 0
    moved: int = 0

    def error(self, version: Version) -> float:
        """The greatest error beside the greatest expected value."""
        return float(np.abs(values(version.run()).ravel() - self.expected.ravel()).max() / np.abs(self.expected).max())

    def check(self) -> list[float]:
        """The errors of all versions. ValueError if one is not what it should be."""
        errors = [self.error(version) for version in self.versions]
        for version, error in zip(self.versions, errors):
            if not error <= self.tolerance:
                raise ValueError(
                    f"ladder {self.title}: {version.name} is wrong by {error:.1e} of the greatest value, more than "
                    f"{self.tolerance:.1e}"
                )
        return errors


def values(result: object) -> np.ndarray:
    """The result of a version, in float64."""
    return np.asarray(result.numpy() if hasattr(result, "numpy") else result, np.float64)


def compiled(kernel: Callable, signature: str, *, fast: bool = False, library: str = "") -> Callable:
    """`kernel` compiled for one thread.

    `library`: an import, such as that of the C library's `exp` in the place of our own; `fast`: sums may be reordered.
    """
    from numod import device, float32
    from numod.device import cpu
    from numod.kernel import bind, build

    flags, name = build.FAST_REDUCTION if fast else build.FAST_POINTWISE, f"ladder_{kernel.__name__}"
    if library:
        return build.build(cpu, name, f"{library}\nreal = float32\n{_source(kernel)}", signature, False, flags).launch
    return bind.launcher(device("cpu"), name, _source(kernel), signature, float32, 0, flags)


def _source(kernel: Callable) -> str:
    """The kernel's text. Its names are those of the back end, or of `library`, and need not resolve in its module."""
    from numod.kernel.specialize import tree_of

    tree = tree_of(kernel)
    tree.body[0].name = "kernel"
    return ast.unparse(tree) + "\n"


def into(launch: Callable, out: np.ndarray, *arguments: object) -> Callable[[], np.ndarray]:
    """A run of a kernel whose last array is `out`: `arguments` without it, numbers behind the arrays."""
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    numbers = arguments[len(arrays) :]

    def run() -> np.ndarray:
        launch(*arrays, out, *numbers)
        return out

    return run


def main(arguments: Sequence[str]) -> int:
    """Check and time the ladders asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m perf ladder", description="How a kernel got its speed, version by version."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds, and rougher")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no ladder {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    measure.set_library_threads(1)
    for name in options.names or NAMES:
        climb(importlib.import_module(f"{__name__}.{name}").ladder(), QUICK if options.quick else Pace())
    return 0


def climb(ladder: Ladder, pace: Pace) -> None:
    """Check the versions, time them in turns, print a line for each and why it is faster."""
    from ..limit import limits
    from ..table import seconds

    errors = ladder.check()
    result = measure.take_turns(
        {
            version.name: measure.statement_timer("run()", {"run": version.run}, pace.seconds)
            for version in ladder.versions
        },
        pace.rounds,
        pace.budget * len(ladder.versions),
    )
    least = limits().fraction(ladder.flops, ladder.moved, 1.0)
    print(f"{ladder.title}\n\n{'version':<34} {'best':>8} {'median':>8} {'faster':>8} {'limit':>6} {'error':>8}")
    before = result.best(ladder.versions[0].name)
    for version, error in zip(ladder.versions, errors):
        best = result.best(version.name)
        print(
            f"{version.name:<34} {seconds(best):>8} {seconds(result.median(version.name)):>8} {before / best:>7.1f}x "
            f"{100 * least / best:>4.0f} % {error:>8.1e}  {version.why}".rstrip()
        )
        before = best
    print()

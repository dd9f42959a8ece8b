"""Compiles the kernels of all cases into the cache folder; prints the name of each case when it is done.

`python -m numod.prebuilt LEVEL` compiles for a level of another architecture. The cases need results, so every kernel
is compiled twice from one LLVM IR: for the level, which is saved, and for this processor, which runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numod

from ..device import target
from ..kernel import packs
from . import networks, operations

CASES: dict[str, Callable[[], None]] = {**networks.CASES, **operations.CASES}


def main(level: str = "") -> None:
    """Run the cases."""
    if level:
        target.compile_for(target.level_machine(level))
    packs.find = lambda key: None  # an installed pack must not keep kernels out of this one
    numod.manual_seed(0)
    for number, (name, case) in enumerate(CASES.items(), start=1):
        for threads in (2, 1):  # one thread has serial kernels of all sizes
            numod.set_num_threads(threads)
            case()
        print(f"{number}/{len(CASES)} {name}", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # the command that began this process says so
        sys.exit(130)

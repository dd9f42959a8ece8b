"""Tests that run on several ranks: `@on_ranks(2)` starts the test's body on each, by mpiexec, with a process group.

Without mpi4py they are skipped. Run as a program, this file is what each rank runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SECONDS = 300  # a test's limit; on an idle machine most take two or three


def started(arguments: list[str], count: int = 2, **environment: str) -> subprocess.CompletedProcess:
    """Run a program on ranks by the launcher. Its output is text."""
    launcher = [sys.executable, "-m", "numod.distributed.run", f"--nproc_per_node={count}"]
    paths = f"{ROOT}:{ROOT / 'tests' / 'shared'}"
    return subprocess.run(
        [*launcher, *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def on_ranks(count: int = 2) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """A test whose body runs on `count` ranks, each with the default group; it fails if one of them does."""
    import pytest

    import numod

    def decorate(program: Callable[[], None]) -> Callable[[], None]:
        def test() -> None:
            if not numod.distributed.is_available():
                pytest.skip('needs MPI: pip install -e ".[mpi]"')
            ended = started([__file__, program.__code__.co_filename, program.__name__], count)
            assert ended.returncode == 0, ended.stdout + ended.stderr

        test.__name__ = program.__name__
        test.program = program
        return pytest.mark.mpi(test)

    return decorate


def main(path: str, name: str) -> None:
    """Run a test's body in the default group."""
    import numod

    warnings.simplefilter("error")
    numod.manual_seed(0)
    numod.distributed.init_process_group("mpi", timeout=timedelta(seconds=200))
    spec = spec_from_file_location("ranks_test", path)
    module = module_from_spec(spec)
    sys.modules["ranks_test"] = module
    spec.loader.exec_module(module)
    getattr(module, name).program()
    numod.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

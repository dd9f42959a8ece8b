"""The campaign of hostile files:

`python tests/hostile_files.py 100000` changes so many programs, checkpoints, cache entries and archives and reads them.

The changes and the checks are those of the tests with the marker `fuzz`, with other random numbers. Each batch is a
process of its own, under a limit on time, so that a crash, a hang or a file that takes a gigabyte fails that batch,
whose kind and number are printed: `... hostile_files.py KIND NUMBER COUNT` repeats it. 100,000 files take about 40
minutes on one core.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS, BYTES = 120, 1 << 30  # for a batch, and two files a second more; the memory of its process
CHECKPOINTS = "plain structured archive.pt flat.pt pickle.pt legacy.pt quantized quantized.pt".split()
SHARES = {
    "programs": 0.20,
    "attributes": 0.05,
    **{f"checkpoints:{kind}": 0.45 / len(CHECKPOINTS) for kind in CHECKPOINTS},
    "entries": 0.15,
    "archives": 0.15,
}
BATCH = {"programs": 2500, "attributes": 500}


def module(path: str) -> object:
    """A module of tests, imported by its path as pytest does."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "tests" / path)
    loaded_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded_module)
    return loaded_module


def programs(seed: int, count: int, folder: Path) -> tuple[int, int]:
    tests = module("serialization/test_program_hostile.py")
    return tests.check_many(tuple(tests.hostile.PROGRAMS), tests.text_changed(folder), count, folder, seed)


def attributes(seed: int, count: int, folder: Path) -> tuple[int, int]:
    tests = module("serialization/test_program_hostile.py")
    return tests.check_many(tuple(tests.hostile.PROGRAMS), tests.replanned, count, folder, seed)


def checkpoints(seed: int, count: int, folder: Path, kind: str) -> tuple[int, int]:
    return module("serialization/test_serialization_damage.py").check_many(kind, count, seed)


def entries(seed: int, count: int, folder: Path) -> tuple[int, int]:
    return module("kernel/test_entry.py").check_mutations(count, seed)


def archives(seed: int, count: int, folder: Path) -> tuple[int, int]:
    import numod.kernel.trust

    tests = module("kernel/test_archive.py")
    os.chdir(folder)
    (folder / "mine").mkdir(mode=0o700)
    tests.fill(folder / "theirs")
    numod.kernel.trust._open_folder = None
    return tests.check_mutations(folder, count, seed)


KINDS: dict[str, Callable] = {
    module_.__name__: module_ for module_ in (programs, attributes, checkpoints, entries, archives)
}


def batch(kind: str, seed: int, count: int) -> None:
    """Read one batch in this process, and print what came of it."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "shared")]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(SECONDS + count // 2)
    name, *rest = kind.split(":")
    with tempfile.TemporaryDirectory() as folder:
        loaded, refused = KINDS[name](seed, count, Path(folder), *rest)
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    assert peak < BYTES, f"it took {peak >> 20} MB"
    print(loaded, refused, peak >> 20)


def main(total: int) -> int:
    """Read so many files of all kinds, in batches. Returns how many batches failed."""
    failures, environment = 0, {**os.environ, "PYTHONPATH": str(ROOT)}
    for kind, share in SHARES.items():
        start, left, counts, peak = time.perf_counter(), round(total * share), [0, 0], 0
        while left > 0:
            seed, count = left, min(left, BATCH.get(kind, 4000))
            command = [sys.executable, __file__, kind, str(seed), str(count)]
            completed = subprocess.run(command, capture_output=True, text=True, env=environment)
            left -= count
            if completed.returncode:
                failures += 1
                print(
                    f"FAILS: {kind} {seed} {count}: status {completed.returncode}\n{completed.stderr[-3000:]}",
                    flush=True,
                )
                continue
            loaded, refused, memory = map(int, completed.stdout.split()[-3:])
            counts, peak = [counts[0] + loaded, counts[1] + refused], max(peak, memory)
        print(
            f"{kind}: {counts[0]} loaded, {counts[1]} refused, at most {peak} MB, {time.perf_counter() - start:.0f} s",
            flush=True,
        )
    return failures


if __name__ == "__main__":
    if len(sys.argv) == 4:
        batch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)))

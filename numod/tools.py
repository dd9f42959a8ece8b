"""The commands about this machine and its kernels: `doctor`, `warmup`, `cache` and `kernels`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
import time
from collections.abc import Callable, Iterator

from . import config
from .device import target, threads
from .device.target import LEVELS
from .kernel import build, cache, packs, store
from .profiler.script import run_script
from .version import release


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register the four."""
    commands.add_parser("doctor", help="what numod finds on this machine, and what to mend").set_defaults(run=_doctor)
    warmup = commands.add_parser(
        "warmup", help="run a script, or a model once, so that its kernels are compiled ahead of time"
    )
    warmup.add_argument("target", help="a Python file, or MODULE:NAME of a model (or of a function that makes one)")
    warmup.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="arguments of the script; for a model its input's shape, such as 1 3 32 32",
    )
    warmup.set_defaults(run=_warmup)
    folder = commands.add_parser("cache", help="the folder of compiled kernels, and packs of them")
    folder.set_defaults(run=_summary)
    actions = folder.add_subparsers(dest="action", metavar="ACTION")
    for name, does, file in (
        ("list", "what it holds", None),
        ("clear", "empty it", None),
        ("pack", "write it to a file", "FILE"),
        ("unpack", "read such a file", "FILE"),
    ):
        action = actions.add_parser(name, help=does)
        if file:
            action.add_argument("file", metavar=file, help="an archive such as kernels.tar.gz; it holds native code")
        if name == "unpack":
            action.add_argument(
                "--trust",
                action="store_true",
                help="accept kernels that another cache folder made: they run as native code",
            )
        action.set_defaults(run=_cache)
    made = actions.add_parser("build", help="compile common kernels ahead of time into a pack, for other machines too")
    made.add_argument(
        "--target", metavar="LEVELS", default="", help=f"levels such as {','.join(LEVELS)} (default: this processor's)"
    )
    made.add_argument("-o", "--output", metavar="FILE", default="kernels.pack", help="the pack (default: %(default)s)")
    made.set_defaults(run=_build)
    kernels = commands.add_parser("kernels", help="run a script and list its kernels: from where, how long, how big")
    kernels.add_argument("script", help="a Python file")
    kernels.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    kernels.set_defaults(run=_kernels)


# ---- doctor


def _doctor(options: argparse.Namespace) -> int:
    problems: list[str] = []
    for title, check in (
        ("versions", _versions),
        ("processor", _processor),
        ("threads", _threads),
        ("kernel cache", _folder),
        ("packs of kernels", _packs),
        ("CUDA", _gpu),
    ):
        print(title)
        for line in check(problems):
            print(f"  {line}")
    print(
        "\nnothing to mend"
        if not problems
        else "\nto mend\n" + "\n".join(f"  {k}. {problem}" for k, problem in enumerate(problems, 1))
    )
    return int(bool(problems))


def _versions(problems: list[str]) -> Iterator[str]:
    yield f"numod {release}, Python {sys.version.split()[0]}"
    for name in ("numba", "llvmlite", "numpy"):
        try:
            yield f"{name} {importlib.import_module(name).__version__}"
        except ImportError as error:
            yield f"{name}: {error}"
            problems.append(f"{name} does not import: pip install --force-reinstall {name}")


def _processor(problems: list[str]) -> Iterator[str]:
    from .kernel.registers import tiles

    yield f"{target.processor()}, {config.num_threads()} cores for this process"
    yield f"vectors of {8 * tiles.host().width} bits"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        problems.append("NUMBA_DISABLE_JIT is set, so that kernels would run as slow Python: unset it")


def _threads(problems: list[str]) -> Iterator[str]:
    from .kernel.registers import tiles

    yield f"{config.num_threads()} threads in parallel kernels (NUMOD_NUM_THREADS, numod.set_num_threads)"
    try:
        yield f"tried now: {_tried_launches()}"
    except Exception as error:  # anything that prevents building or running kernels
        yield f"a parallel kernel fails: {error}"
        problems.append(f"kernels do not run here: {error}")
    if hasattr(os, "getloadavg") and (load := os.getloadavg()[0]) > config.num_threads():
        yield (
            f"load {load:.1f}: other programs use the cores; launches that lose time by waiting for a thread use "
            "fewer, until the cores are free"
        )
    yield "forked children run kernels with one thread"
    registers = tiles.host()
    yield f"products: tiles of {registers.rows} x {tiles.VECTORS} registers of {8 * registers.width} bits"


def _tried_launches() -> threads.Sharing:
    """What some parallel launches lose by waiting on this machine as it is now: a tenth of a second of them."""
    from .core.create.creation import ones

    before, x = threads.sharing(), ones(1 << 20)
    x.exp()
    end = time.perf_counter() + 0.1
    while time.perf_counter() < end:
        x.exp()
    return threads.sharing().since(before)


def _folder(problems: list[str]) -> Iterator[str]:
    folder = config.cache_dir()
    if folder is None:
        yield "off: kernels are compiled in every process"
        problems.append(
            "there is no cache folder, so that every process compiles: set NUMOD_CACHE_DIR to a folder of your own "
            f"({config.why_no_cache_dir()})"
        )
        return
    obstacle = cache.obstacle(folder)
    entries = store.entries(folder)
    yield (
        f"{folder}: {len(entries)} kernels, {_size(sum(entry.size for entry in entries))} of at most "
        f"{_size(config.cache_size())} (NUMOD_CACHE_SIZE)"
    )
    if others := store.of_other_versions(folder):
        yield f"{others} of them are of other versions; they are removed when unused for a week"
    if obstacle:
        problems.append(
            f"the kernel cache {folder} is not used, so that every process compiles: {obstacle}; mend that, or set "
            "NUMOD_CACHE_DIR"
        )


def _gpu(problems: list[str]) -> Iterator[str]:
    from . import cuda

    if config.cuda_simulator():
        yield "Numba's simulator (NUMBA_ENABLE_CUDASIM)"
    elif cuda.is_available():
        free, total = cuda.mem_get_info()
        yield (
            f"{cuda.get_device_name()}, capability {'.'.join(map(str, cuda.get_device_capability()))}, {_size(free)} "
            f"of {_size(total)} free"
        )
    else:
        yield "no device; kernels can be tried in the simulator with NUMBA_ENABLE_CUDASIM=1"


def _size(count: float) -> str:
    return (
        f"{count / 1e9:.2f} GB"
        if count >= 1e9
        else f"{count / 1e6:.1f} MB"
        if count >= 1e5
        else f"{count / 1e3:.1f} kB"
    )


# ---- warmup and kernels


def _warmup(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    run = _script if options.target.endswith(".py") else _model
    code = run(options.target, options.arguments, io.StringIO())
    if code == 0:
        done = build.statistics
        print(
            f"{done.compiled} kernels compiled, {done.loaded} found in the cache, "
            f"{time.perf_counter() - start:.1f} s: {config.cache_dir() or 'kept in memory only'}"
        )
    return code


def _script(path: str, arguments: list[str], output: io.StringIO | None = None) -> int:
    """Run a script as Python would; its exit code. What it prints goes to `output` where one is given."""
    return run_script(
        path, arguments, contextlib.redirect_stdout(output) if output is not None else contextlib.nullcontext()
    )


def _model(target: str, arguments: list[str], output: io.StringIO) -> int:
    """Import a model and run it forward and, where it has parameters, backward on random input of the given shape."""
    from .core.create.random import rand
    from .nn import Module

    module, colon, name = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        shape = tuple(int(argument) for argument in arguments)
        attribute = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        print(f"warmup: {error}", file=sys.stderr)
        return 2
    finally:
        sys.path.pop(0)
    try:
        model = attribute if isinstance(attribute, Module) or not isinstance(attribute, Callable) else attribute()
        if not isinstance(model, Module) or not shape:
            print(
                "warmup: expected FILE.py, or MODULE:NAME of a model and the shape of its input, such as mymodels:net "
                "1 3 32 32",
                file=sys.stderr,
            )
            return 2
        result = model(rand(*shape))
        if getattr(result, "requires_grad", False):
            result.sum().backward()
        return 0
    except Exception as error:  # an error of the model
        print(f"warmup: {target} with an input of {shape}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _kernels(options: argparse.Namespace) -> int:
    code = _script(options.script, options.arguments)
    if not os.path.isfile(options.script):
        return code
    kernels = sorted(build.kernels(), key=lambda kernel: -kernel.seconds)
    print(f"{'kernel':<44}{'form':<10}{'from':<10}{'ms':>8}{'source lines':>14}{'on the disk':>13}")
    for kernel in kernels:
        size = store.size_of(kernel)
        form, origin = "parallel" if kernel.parallel else "serial", "cache" if kernel.cached else "compiled"
        print(
            f"{kernel.name[:43]:<44}{form:<10}{origin:<10}{1e3 * kernel.seconds:>8.1f}"
            f"{kernel.source.count(chr(10)):>14}{_size(size) if size else '-':>13}"
        )
    done = build.statistics
    print(
        f"{len(kernels)} kernels: {done.compiled} compiled in {done.compile_seconds:.2f} s, {done.loaded} loaded in "
        f"{done.load_seconds:.2f} s"
    )
    return code


# ---- cache


def _summary(options: argparse.Namespace) -> int:
    """What `cache` without an action prints."""
    problems: list[str] = []
    for line in (*_folder(problems), *_packs(problems)):
        print(line)
    for problem in problems:
        print(f"cache: {problem}", file=sys.stderr)
    return int(bool(problems))


def _cache(options: argparse.Namespace) -> int:
    folder = config.cache_dir()
    if folder is None:
        print(f"cache: there is no folder: {config.why_no_cache_dir()}", file=sys.stderr)
        return 2
    if options.action == "list":
        entries = store.entries(folder)
        for entry in entries:
            print(
                f"{_size(entry.size):>10}  {time.strftime('%Y-%m-%d %H:%M', time.localtime(entry.written))}  "
                f"{entry.name}"
            )
        print(f"{len(entries)} kernels, {_size(sum(entry.size for entry in entries))} in {folder}")
        return 0
    if options.action == "clear":
        print(f"{store.clear(folder)} kernels removed from {folder}")
        return 0
    try:
        return _pack(options.file, folder) if options.action == "pack" else _unpack(options.file, folder, options.trust)
    except (OSError, ValueError) as error:
        print(f"cache {options.action}: {error}", file=sys.stderr)
        return 2


def _build(options: argparse.Namespace) -> int:
    from . import prebuilt

    levels = [level.strip() for level in options.target.split(",") if level.strip()]
    try:
        counts = prebuilt.build(options.output, levels, lambda line: print(line, flush=True))
    except (OSError, ValueError, RuntimeError) as error:
        print(f"cache build: {error}", file=sys.stderr)
        return 2
    print(f"{_pack_text(counts)}, {_size(os.path.getsize(options.output))}, written to {options.output}")
    return 0


def _pack_text(levels: dict[str, int]) -> str:
    return " and ".join(f"{count} kernels for {level}" for level, count in levels.items())


def _packs(problems: list[str]) -> Iterator[str]:
    """The packs on the path: what they hold, or why they are not used."""
    found = list(packs.listed(config.kernel_path()))
    for path, pack, error in found:
        if error is not None:
            yield f"{path}: not used: {error}"
            problems.append(f"the pack {path} is not used: {error}; build it again, or mend that")
        elif not pack.is_usable:
            yield f"{path}: not used: it was made by {pack.made}, and this is {packs.maker()}"
        else:
            level = target.level()
            fitting = "" if level in pack.levels else f"; none is for this processor ({level or 'no level'})"
            yield f"{path}: {_pack_text(pack.levels)}, {_size(pack.size)}{fitting}"
    if not found:
        yield f"no packs of kernels (NUMOD_KERNEL_PATH); this processor's level is {target.level()}"


def _pack(archive: str, folder: str) -> int:
    print(f"{store.pack(archive, folder)} kernels written to {archive}")
    return 0


def _unpack(archive: str, folder: str, trust: bool) -> int:
    accepted, refused = store.unpack(archive, folder, trust)
    print(f"{accepted} kernels read from {archive}")
    if refused:
        print(
            f"cache unpack: {refused} kernels left out, which were not compiled into {folder}: they are native code. "
            "If you trust who made the archive, unpack it with --trust; otherwise they are compiled again when needed",
            file=sys.stderr,
        )
    return int(refused > 0)

"""The commands about this machine and its kernels: `doctor`, `cache` and `kernels`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator

from . import config
from .device import target, threads
from .device.target import LEVELS
from .kernel import build, cache, packs, store
from .profiler import script
from .version import release


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register the three."""
    doctor = commands.add_parser("doctor", help="what numod finds on this machine, and what to mend")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.set_defaults(run=_doctor)
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
        if name == "list":
            action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_cache)
    build = actions.add_parser("build", help="compile common kernels ahead of time into a pack, for other machines too")
    build.add_argument(
        "--target", metavar="LEVELS", default="", help=f"levels such as {','.join(LEVELS)} (default: this processor's)"
    )
    build.add_argument("-o", "--output", metavar="FILE", default="kernels.pack", help="the pack (default: %(default)s)")
    build.set_defaults(run=_build)
    kernels = commands.add_parser("kernels", help="run a script and list its kernels: from where, how long, how big")
    kernels.add_argument("--json", action="store_true", help="print JSON; what the script prints goes to stderr")
    kernels.add_argument(
        "-m", dest="as_module", action="store_true", help="the script is the name of a module, as in python -m"
    )
    kernels.add_argument("script", help="a Python file, or with -m a module or package")
    kernels.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    kernels.set_defaults(run=_kernels)


# ---- doctor


class _Line(str):
    """A line of the report. `facts`: what it says, for JSON."""

    facts: dict[str, object] = {}

    def __new__(cls, text: str, **facts: object) -> _Line:
        line = super().__new__(cls, text)
        line.facts = facts
        return line


def _doctor(options: argparse.Namespace) -> int:
    problems: list[str] = []
    checks = ("versions", _versions), ("processor", _processor), ("threads", _threads), ("kernel cache", _folder)
    checks = (*checks, ("packs of kernels", _packs), ("CUDA", _gpu))
    sections = {title: list(check(problems)) for title, check in checks}
    print(_as_json(sections, problems) if options.json else _as_text(sections, problems))
    return int(bool(problems))


def _as_json(sections: dict[str, list[str]], problems: list[str]) -> str:
    report: dict[str, object] = {}
    for title, lines in sections.items():
        facts = {name: value for line in lines for name, value in getattr(line, "facts", {}).items()}
        report[title.replace(" ", "_").lower()] = {**facts, "lines": lines}
    return json.dumps({**report, "problems": problems}, indent=1)


def _as_text(sections: dict[str, list[str]], problems: list[str]) -> str:
    bold, yellow, plain = ("\033[1m", "\033[33m", "\033[0m") if config.colours(sys.stdout) else ("", "", "")
    lines = []
    for title, section in sections.items():
        lines += [f"{bold}{title}{plain}", *(f"  {line}" for line in section)]
    if not problems:
        return "\n".join([*lines, "", "nothing to mend"])
    numbered = (f"  {k}. {problem}" for k, problem in enumerate(problems, 1))
    return "\n".join([*lines, "", f"{yellow}to mend{plain}", *numbered])


def _versions(problems: list[str]) -> Iterator[str]:
    yield _Line(f"numod {release}, Python {sys.version.split()[0]}", numod=release, python=sys.version.split()[0])
    for name in ("numba", "llvmlite", "numpy"):
        try:
            version = importlib.import_module(name).__version__
        except ImportError as error:
            yield f"{name}: {error}"
            problems.append(f"{name} does not import: pip install --force-reinstall {name}")
            continue
        needed = _requirement(name)
        yield _Line(f"{name} {version}" + (f" (numod needs {needed})" if needed else ""), **{name: version})
        if not _is_within(version, needed):
            problems.append(f"{name} {version} is outside the range that numod needs: pip install '{name}{needed}'")
    if sys.dont_write_bytecode:
        has_some = os.path.exists(build.__cached__ or "")
        loss = "" if has_some else ", so every start compiles numod's modules, which takes seconds; unset it once"
        yield _Line(f"Python writes no bytecode (PYTHONDONTWRITEBYTECODE){loss}", writes_bytecode=False)


def _requirement(name: str) -> str:
    """The range of versions that numod's metadata asks for, such as `>=0.68,<0.69`; "" where numod is not installed."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        for line in metadata.requires("numod") or ():
            requirement, _, condition = line.partition(";")
            if not condition and (match := re.fullmatch(rf"{name}\s*\(?([<>=!~].*?)\)?", requirement.strip())):
                return ",".join(sorted((part.strip() for part in match[1].split(",")), reverse=True))
    return ""


def _is_within(version: str, needed: str) -> bool:
    """Whether a version satisfies the bounds `>=` and `<` of a range."""
    numbers = _numbers(version)
    return all(
        numbers >= _numbers(bound[2:]) if bound.startswith(">=") else numbers < _numbers(bound[1:])
        for bound in needed.split(",")
        if re.match(r">=|<\d", bound)
    )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _processor(problems: list[str]) -> Iterator[str]:
    from .kernel.registers import tiles

    name, cores, bits = target.processor(), os.cpu_count() or 1, 8 * tiles.host().width
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    yield _Line(f"{name}, {cores} cores, {mine} for this process", name=name, cores=cores, cores_of_process=mine)
    yield _Line(f"vectors of {bits} bits", vector_bits=bits)
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        problems.append("NUMBA_DISABLE_JIT is set, so that kernels would run as slow Python: unset it")


def _threads(problems: list[str]) -> Iterator[str]:
    from .kernel.registers import tiles

    count = config.num_threads()
    yield _Line(f"{count} threads in parallel kernels (NUMOD_NUM_THREADS, numod.set_num_threads)", threads=count)
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
        if config.cache_is_off():
            yield "off (NUMOD_CACHE_DIR is empty): what no pack has is compiled in every process"
            return
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
    if wrong_size := config.why_default_cache_size():
        problems.append(f"{wrong_size}; the default is used: mend or unset it")
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
    if count >= 1e9:
        return f"{count / 1e9:.2f} GB"
    if count >= 1e5:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.1f} kB"


# ---- kernels


def _kernels(options: argparse.Namespace) -> int:
    context = contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext()
    code = script.run_script(options.script, options.arguments, context, options.as_module)
    if not script.problem(options.script, options.as_module):
        kernels = sorted(build.kernels(), key=lambda kernel: -kernel.seconds)
        print(json.dumps([*map(_described, kernels)], indent=1) if options.json else _kernel_table(kernels))
    return code


def _described(kernel: build.Kernel) -> dict[str, object]:
    return {
        "name": kernel.name,
        "parallel": kernel.parallel,
        "cached": kernel.cached,
        "seconds": kernel.seconds,
        "source_lines": kernel.source.count("\n"),
        "bytes": store.size_of(kernel),
    }


def _kernel_table(kernels: list[build.Kernel]) -> str:
    rows = [f"{'kernel':<44}{'form':<10}{'from':<10}{'ms':>8}{'source lines':>14}{'on the disk':>13}"]
    for described in map(_described, kernels):
        form, origin = "parallel" if described["parallel"] else "serial", "cache" if described["cached"] else "compiled"
        rows.append(
            f"{described['name'][:43]:<44}{form:<10}{origin:<10}{1e3 * described['seconds']:>8.1f}"
            f"{described['source_lines']:>14}{_size(described['bytes']) if described['bytes'] else '-':>13}"
        )
    done = build.statistics
    rows.append(
        f"{len(kernels)} kernels: {done.compiled} compiled in {done.compile_seconds:.2f} s, {done.loaded} loaded in "
        f"{done.load_seconds:.2f} s"
    )
    return "\n".join(rows)


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
        if options.json:
            kernels = [{"name": entry.name, "bytes": entry.size, "written": entry.written} for entry in entries]
            print(json.dumps({"folder": folder, "kernels": kernels}, indent=1))
            return 0
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
    listed = list(packs.listed(config.kernel_path()))
    for path, pack, error in listed:
        if error is not None:
            yield f"{path}: not used: {packs.reason(error)}"
            problems.append(f"the pack {path} is not used: {packs.reason(error)}; build it again, or mend that")
        elif not pack.is_usable:
            yield f"{path}: not used: it was made by {pack.versions}, and this is {packs.versions()}"
        else:
            level = target.level()
            fitting = "" if level in pack.levels else f"; none is for this processor ({level or 'no level'})"
            yield f"{path}: {_pack_text(pack.levels)}, {_size(pack.size)}{fitting}"
    paths = {path.rstrip(os.sep) for path, *_ in listed}  # also of folders that cannot be listed
    for folder in config.kernel_path():
        if os.path.isdir(folder) and folder.rstrip(os.sep) not in paths | {*map(os.path.dirname, paths)}:
            problems.append(f"the folder {folder} of NUMOD_KERNEL_PATH has no file that ends in {packs.SUFFIX}")
    if not listed:
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

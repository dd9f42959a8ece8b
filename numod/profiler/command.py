"""`python -m numod profile script.py`: run a script under the profiler; write a table, an HTML page and a trace.

`python -m numod profile --compare BEFORE AFTER` compares two such traces.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING

from . import script
from .event import time_text

if TYPE_CHECKING:
    from .profile import profile

_COLUMNS = (
    "self_cpu_time_total", "cpu_time_total", "cpu_time", "count", "self_device_time_total", "device_time_total",
    "self_cpu_memory_usage", "cpu_memory_usage", "flops", "bytes_moved",
)  # fmt: skip


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register the command `profile`."""
    parser = commands.add_parser(
        "profile", help="run a script and show where its time goes: a table, an HTML page, a trace for Perfetto"
    )
    parser.add_argument(
        "--output",
        metavar="NAME",
        help="names of the files: NAME.html and NAME.trace.json (default: the script's, here, with _profile)",
    )
    parser.add_argument(
        "--sort",
        metavar="COLUMN",
        default="self_cpu_time_total",
        help=f"sort the table by this column: {', '.join(_COLUMNS)} (default: %(default)s)",
    )
    parser.add_argument("--rows", metavar="N", type=int, default=15, help="rows of each table (default: %(default)s)")
    parser.add_argument(
        "--perf-map",
        action="store_true",
        help="name compiled kernels for Linux perf: perf record -g python -m numod profile --perf-map ...",
    )
    parser.add_argument(
        "--jit-dump",
        action="store_true",
        help="write the kernels' code for perf inject --jit: perf record -k mono python -m numod profile --jit-dump "
        "...",
    )
    parser.add_argument(
        "--no-stack",
        dest="stack",
        action="store_false",
        help="do not record lines of code, which is the largest overhead",
    )
    parser.add_argument(
        "--compare",
        metavar=("BEFORE", "AFTER"),
        nargs=2,
        help="two traces NAME.trace.json: what got slower, by module and kernel; no script is run",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="show where the time for compiling kernels goes, by kernel and phase, instead of operations",
    )
    parser.add_argument(
        "-m", dest="as_module", action="store_true", help="the script is the name of a module, as in python -m"
    )
    parser.add_argument("script", nargs="?", help="a Python file, or with -m a module or package")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return _compare(*options.compare, options.rows) if options.compare else _profile(options)


def _compare(before: str, after: str, rows: int) -> int:
    from .compare import read_trace, report

    try:
        for table in report(read_trace(before), read_trace(after), rows):
            print(table)
    except (OSError, ValueError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 2
    return 0


def _profile(options: argparse.Namespace) -> int:
    """The command `profile SCRIPT`: run the script, print the report and write the files."""
    from ..kernel.compile_report import compile_report
    from .jit_dump import JitDump
    from .perf_map import write_perf_map
    from .profile import profile

    if options.script is None:
        print("profile: expected a script, or --compare BEFORE AFTER", file=sys.stderr)
        return 2
    name = options.output or f"{_short_name(options)}_profile"
    problem = script.problem(options.script, options.as_module) or _problem(
        options.sort, os.path.dirname(os.path.abspath(name))
    )
    if problem:
        print(f"profile: {problem}", file=sys.stderr)
        return 2
    more = not options.compile
    prof = profile(
        record_shapes=more, with_flops=more, profile_memory=more, with_stack=more and options.stack, with_jit=True
    )
    dump = JitDump() if options.jit_dump else None
    start = time.perf_counter()
    code = script.run_script(options.script, options.arguments, prof, options.as_module)
    wall = time.perf_counter() - start
    if options.compile:
        print(f"{compile_report(wall, options.rows)}\n")
    else:
        _print_operations(prof, options)
    prof.export_html(f"{name}.html", title=f"{options.script}: where its time goes")
    prof.export_chrome_trace(f"{name}.trace.json")
    if options.perf_map:
        print(write_perf_map())
    if dump is not None:
        dump.close()
        print(dump.path)
    print(f"{name}.html        open it in a browser\n{name}.trace.json  open it at https://ui.perfetto.dev")
    return code


def _print_operations(prof: profile, options: argparse.Namespace) -> None:
    """The tables of operations, modules and lines."""
    from .report import kinds, lines, modules

    events = prof.events()
    print(prof.key_averages().table(sort_by=options.sort, row_limit=options.rows))
    print(_table("module", "class", [(*row[:3], row[4], row[6]) for row in modules(events)], options.rows))
    print(_table("line", "text", [(row[0], row[6] or row[1], *row[2:5]) for row in lines(events)], options.rows, 28))
    print("  ".join(f"{kind} {time_text(spent)}" for kind, spent in kinds(events) if spent))
    print(f"threads: {prof.sharing()}\n")


def _short_name(options: argparse.Namespace) -> str:
    """The script's name without its folder and suffix; of a package's `__main__`, the package."""
    if options.as_module:
        return options.script.removesuffix(".__main__")
    return os.path.splitext(os.path.basename(options.script))[0]


def _problem(column: str, folder: str) -> str:
    """The error message for invalid options, before the script runs; "" if they are valid."""
    if column not in _COLUMNS:
        return f"cannot sort by {column!r}; choose from {', '.join(_COLUMNS)}"
    return "" if os.path.isdir(folder) and os.access(folder, os.W_OK) else f"cannot write to {folder}; give --output"


def _table(title: str, kind: str, rows: list[tuple], limit: int, width: int = 47) -> str:
    """A table of rows (name, kind, calls, forward time, backward time), longest first.

    A module's times exclude its submodules. The names have `width` columns, with the kinds 68.
    """
    rows = sorted(rows, key=lambda row: -row[3] - row[4])[:limit]
    table = [(title, kind, "calls", "forward", "backward")]
    table += [
        (_end(name, width - 1), str(kind)[: 67 - width], str(calls), time_text(forward), time_text(backward))
        for name, kind, calls, forward, backward in rows
    ]
    return (
        "\n".join(
            f"{name:<{width}}{kind:<{68 - width}}{calls:>7}{forward:>12}{backward:>12}".rstrip()
            for name, kind, calls, forward, backward in table
        )
        + "\n"
    )


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]

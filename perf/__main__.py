"""The command `python -m perf`: choose rows, time them, print the table, write JSON.

What a row is stands in `row`, how it is timed in `measure`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict

from . import instructions, measure, peers, table
from .row import QUICK, FreshRow, Pace, Row


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the rows asked for and print them. Exit code 0 whatever the times are; 2 for bad arguments."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["ladder"]:
        from .ladders import main as ladder

        return ladder(arguments[1:])
    if arguments[:1] == ["export"]:
        from .export import main as export

        return export(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    measure.set_library_threads(options.threads)
    from .rows import ROWS

    rows = [row for row in ROWS if options.rows.search(row.name)]
    if not rows:
        parser.error(f"--rows {options.rows.pattern!r} matches none of: {', '.join(row.name for row in ROWS)}")
    present = [name for name in peers.installed() if options.peers.search(name)]
    peers.set_threads(options.threads, present)
    report = _report(options, present)
    print(table.heading(report), flush=True)
    _measure(report, rows, present, QUICK if options.quick else Pace())
    print(table.foot(report))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    if options.plot:
        table.plot(report, options.plot)
    if "PyTorch" in present:
        instructions.measure_with_amx(arguments, [row.name for row in rows], instructions.flags(), os.environ)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m perf",
        description="Time numod beside its peers, in turns in one process. `python -m perf ladder` shows how a kernel "
        "got its speed.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds, and rougher")
    parser.add_argument(
        "--threads", type=_positive, default=1, metavar="N", help="threads of each library (default: 1)"
    )
    parser.add_argument(
        "--rows",
        type=_expression,
        default=re.compile(""),
        metavar="REGEX",
        help="only the rows whose name this matches somewhere",
    )
    parser.add_argument(
        "--peers",
        type=_expression,
        default=re.compile(""),
        metavar="REGEX",
        help=f"only these peers of: {', '.join(peers.PEERS)}",
    )
    parser.add_argument("--json", metavar="FILE", help="write every round of every contender, in seconds")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw each row's ratio to its best peer (needs matplotlib, of the extra `bench`)"
    )
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return int(text)


def _expression(text: str) -> re.Pattern:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def _report(options: argparse.Namespace, present: list[str]) -> dict:
    """All of the report but its rows: where and with what it was measured."""
    from .limit import limits

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    machine = {
        "processor": measure.processor(),
        "instructions": instructions.note(instructions.flags(), os.environ),
        "cores": os.cpu_count(),
        "load_before": load,
        "system": platform.system(),
        "python": platform.python_version(),
    }
    return {
        "machine": machine, "limits": asdict(limits()), "threads": options.threads, "quick": options.quick,
        "peers": present,
        "versions": peers.versions(present), "rows": [],
    }  # fmt: skip


def _measure(report: dict, rows: Sequence[Row | FreshRow], present: list[str], pace: Pace) -> None:
    """Measure the rows, print each when it is done, and add it to the report."""
    print(table.line(table.HEADER), flush=True)
    with measure.folders() as folders:
        for row in rows:
            result = row.measure(present, pace, folders)
            report["rows"].append(table.entry(row, result))
            print(table.line(table.cells(row, result)), flush=True)


if __name__ == "__main__":
    sys.exit(main())

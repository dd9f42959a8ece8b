"""The command `python -m perf`: choose rows, time them, print the table, write JSON. What a row is stands in `rows`, how it is timed in `measure`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import re
import sys
from collections.abc import Sequence

from . import measure
from .layers import LAYERS
from .rows import ROWS as BASICS, FreshRow, Row

ROWS = (*BASICS, *LAYERS)

PEERS = {"numod": "numod", "PyTorch": "torch"}  # libraries the same code runs on
HEADER = ("row", "numod", "median", "best peer", "", "median", "ratio", "bar", "met")


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the rows asked for and print them. Exit code 0 whatever the times are; 2 for bad arguments."""
    parser = _parser()
    options = parser.parse_args(arguments)
    rows = [row for row in ROWS if options.rows.search(row.name)]
    if not rows:
        parser.error(f"--rows {options.rows.pattern!r} matches none of: {', '.join(row.name for row in ROWS)}")
    measure.set_library_threads(options.threads)
    libraries = _libraries(options.threads)
    report = {"machine": _machine(), "threads": options.threads, "quick": options.quick, "versions": _versions(libraries), "rows": []}
    print(_heading(report), flush=True)
    report["rows"] = _measure(rows, libraries, options.quick)
    print(_foot(report))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    if options.plot:
        _plot(report, options.plot)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m perf", description="Time numod beside PyTorch and NumPy, in turns in one process.")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter rounds, and rougher")
    parser.add_argument("--threads", type=_positive, default=1, metavar="N", help="threads of each library (default: 1)")
    parser.add_argument("--rows", type=_expression, default=re.compile(""), metavar="REGEX", help="only the rows whose name this matches somewhere")
    parser.add_argument("--json", metavar="FILE", help="write every round of every contender, in seconds")
    parser.add_argument("--plot", metavar="FILE", help="draw each row's ratio to its best peer (needs matplotlib, of the extra `bench`)")
    return parser


def _plot(report: dict, file: str) -> None:
    """A bar for each row, on a logarithmic scale: left of 1 numod is the faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [(row["row"], row["ratios"][row["best_peer"]], row["met"]) for row in reversed(report["rows"]) if row["best_peer"]]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.25 * len(rows)), layout="constrained")
    axes.barh([name for name, _, _ in rows], [ratio for _, ratio, _ in rows], color=["tab:blue" if ratio <= 1 else "tab:orange" for _, ratio, _ in rows])
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="time beside the best peer's (below 1 numod is faster)")
    axes.margins(y=0.01)
    figure.savefig(file)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive whole number, got {text!r}")
    return int(text)


def _expression(text: str) -> re.Pattern:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def _libraries(threads: int) -> dict[str, object]:
    """The installed libraries by the name the table shows, each told how many threads to use."""
    found = {}
    for name, module in PEERS.items():
        try:
            found[name] = importlib.import_module(module)
        except ImportError:
            if name == "numod":
                raise
            continue
        found[name].set_num_threads(threads)
    return found


def _machine() -> dict[str, object]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"processor": measure.processor(), "cores": os.cpu_count(), "load_before": load, "system": platform.system(), "python": platform.python_version()}


def _versions(libraries: dict[str, object]) -> dict[str, str]:
    import numpy

    return {**{name: library.__version__ for name, library in libraries.items()}, "NumPy": numpy.__version__}


def _measure(rows: list[Row | FreshRow], libraries: dict[str, object], quick: bool) -> list[dict]:
    """Measure the rows, print each when it is done, and give their part of the report."""
    print(_line(HEADER), flush=True)
    measured = []
    with measure.kernel_folders() as folders:
        for row in rows:
            result = row.measure(libraries, quick, folders) if isinstance(row, FreshRow) else row.measure(libraries, quick)
            met = row.bar and row.bar.met(result)
            print(_line(_cells(row, result, met)), flush=True)
            peer = result.best_peer()
            ratios = {name: result.ratio(name) for name in result.rounds if name != "numod"}
            measured.append({
                "row": row.name, "best_peer": peer, "ratios": ratios, "bar": str(row.bar) if row.bar else None, "met": met, "seconds": result.rounds,
            })
    return measured


def _cells(row: Row | FreshRow, result: measure.Result, met: bool | None) -> tuple[str, ...]:
    peer = result.best_peer()
    beside = (peer, _time(result.best(peer)), _time(result.median(peer)), f"{result.ratio(peer):.2f}") if peer else ("none", "", "", "")
    bar, verdict = (str(row.bar), {True: "yes", False: "NO", None: "no peer"}[met]) if row.bar else ("", "")
    named = row.bar and row.bar.peer
    if named and named != peer and named in result.rounds:
        bar += f" ({result.ratio(named):.2f})"
    return (row.name, _time(result.best("numod")), _time(result.median("numod")), *beside, bar, verdict)


def _line(cells: Sequence[str]) -> str:
    name, mine, median, peer, theirs, their_median, ratio, bar, met = cells
    return f"{name:<39} {mine:>9} {median:>9}  {peer:<9} {theirs:>9} {their_median:>9} {ratio:>6}  {bar:<31} {met}".rstrip()


def _time(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if seconds >= size), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"


def _heading(report: dict) -> str:
    machine, versions = report["machine"], ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    load = machine["load_before"]
    busy = "" if load is None else f", load {load:.1f} before the start"
    missing = "" if "PyTorch" in report["versions"] else "\nPyTorch is not installed: `pip install torch` to compare with it."
    return (
        f"{versions}, Python {machine['python']}; threads of each: {report['threads']}\n{machine['processor']}, {machine['cores']} cores{busy}\n"
        f"Absolute times mean little on a shared machine; the ratios are of times taken in turns in one process.{missing}\n"
    )


def _foot(report: dict) -> str:
    judged = [row["met"] for row in report["rows"] if row["bar"]]
    rough = " These are quick rounds: run without --quick before drawing conclusions." if report["quick"] else ""
    return f"\nTimes are the best round and the median round; ratio is numod's best over the best peer's. Bars met: {judged.count(True)} of {len(judged)}.{rough}"


if __name__ == "__main__":
    sys.exit(main())

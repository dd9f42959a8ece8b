"""What is shown of the measurements: the table's lines, an entry of the JSON report, a picture.

Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Sequence

from .measure import Result
from .row import FreshRow, Row

HEADER = ("row", "numod", "median", "best peer", "", "median", "ratio", "limit", "bar", "met")
VERDICTS = {True: "yes", False: "NO", None: "no peer"}


def entry(row: Row | FreshRow, result: Result) -> dict:
    """A row of the report."""
    return {
        "row": row.name, "best_peer": result.best_peer(),
        "ratios": {name: result.ratio(name) for name in result.rounds if name != "numod"},
        "of_limit": result.of_limit(),
        "bar": str(row.bar) if row.bar else None, "met": row.bar.met(result) if row.bar else None,
        "seconds": result.rounds,
    }  # fmt: skip


def cells(row: Row | FreshRow, result: Result) -> tuple[str, ...]:
    """The texts of a line."""
    peer, part = result.best_peer(), result.of_limit()
    beside = (
        (peer, seconds(result.best(peer)), seconds(result.median(peer)), f"{result.ratio(peer):.2f}")
        if peer
        else ("none", "", "", "")
    )
    bar, verdict = (str(row.bar), VERDICTS[row.bar.met(result)]) if row.bar else ("", "")
    peer_reference = row.bar and row.bar.peer
    if peer_reference and peer_reference != peer and peer_reference in result.rounds:
        bar += f" ({result.ratio(peer_reference):.2f})"
    return (
        row.name,
        seconds(result.best("numod")),
        seconds(result.median("numod")),
        *beside,
        f"{100 * part:.0f} %" if part else "",
        bar,
        verdict,
    )


def line(cells: Sequence[str]) -> str:
    """Cells in columns."""
    name, mine, median, peer, theirs, their_median, ratio, part, bar, met = cells
    return (
        f"{name:<56} {mine:>8} {median:>8}  {peer:<13} {theirs:>8} {their_median:>8} {ratio:>6} {part:>6}  {bar:<31} "
        f"{met}"
    ).rstrip()


def seconds(taken: float) -> str:
    """Three figures and a unit."""
    unit, size = next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if taken >= size), ("µs", 1e-6))
    figures = taken / size
    return f"{figures:.{2 if figures < 9.995 else 1 if figures < 99.95 else 0}f} {unit}"


def heading(report: dict) -> str:
    """What stands above the table."""
    machine = report["machine"]
    limits = report["limits"]
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    busy = "" if machine["load_before"] is None else f", load {machine['load_before']:.1f} before the start"
    missing = (
        "" if "PyTorch" in report["peers"] else "\nPyTorch is not installed: `pip install torch` to compare with it."
    )
    return (
        f"{versions}, Python {machine['python']}; threads of each: {report['threads']}\n{machine['processor']}, "
        f"{machine['cores']} cores{busy}; "
        f"at most {limits['gflops']:.0f} GFLOP/s, copies of {limits['cache_gbs']:.0f} GB/s within a core's "
        f"caches, {limits['shared_gbs']:.0f} in the shared one, {limits['memory_gbs']:.0f} in memory\n"
        "Absolute times mean little on a shared machine; the ratios are of times taken in turns in one "
        f"process.{machine['instructions']}{missing}\n"
    )


def foot(report: dict) -> str:
    """What stands below: how many bars were met, of those that could be judged."""
    verdicts = [row["met"] for row in report["rows"] if row["bar"]]
    unjudged = f", {verdicts.count(None)} more had no peer to be judged by" if None in verdicts else ""
    rough = " These are quick rounds: run without --quick before drawing conclusions." if report["quick"] else ""
    return (
        "\nTimes are the best round and the median round; ratio is numod's best over the best peer's; limit is the "
        "part of what the machine allows."
        f" Bars met: {verdicts.count(True)} of {len(verdicts) - verdicts.count(None)}{unjudged}.{rough}"
    )


def plot(report: dict, file: str) -> None:
    """A bar for each row, on a logarithmic scale: left of 1 numod is the faster."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [(row["row"], row["ratios"][row["best_peer"]]) for row in reversed(report["rows"]) if row["best_peer"]]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.2 * len(rows)), layout="constrained")
    axes.barh(
        [name for name, _ in rows],
        [ratio for _, ratio in rows],
        color=["tab:blue" if ratio <= 1 else "tab:orange" for _, ratio in rows],
    )
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set(xscale="log", xlabel="time beside the best peer's (below 1 numod is faster)")
    axes.margins(y=0.01)
    figure.savefig(file)

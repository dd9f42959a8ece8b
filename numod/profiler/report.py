"""The report: a self-contained HTML file with all results of a profile. `page/` has its markup, style and script."""

from __future__ import annotations

import json
import linecache
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..device.phases import PHASES
from ..kernel.compile_report import compile_report
from .averages import EventList
from .event import Event
from .kernels import KernelReport
from .roofline import machine

if TYPE_CHECKING:
    from .profile import profile

_FOLDER = os.path.join(os.path.dirname(__file__), "page")
_KINDS = {  # kinds of time in display order; each sums up the self time of these categories
    "Python": ("profile", "step", "user", "module", "gc"),
    "dispatch": ("op", "item", "node", "backward", "optimizer", "compiled"), "planning": ("plan", "foreseen"),
    "kernels": ("kernel",), "compiling": ("compile", "pass"), "loading": ("load", "import"), "data": ("data",),
}  # fmt: skip
_KIND_OF = {category: kind for kind, categories in _KINDS.items() for category in categories}
_MAX_SLICES = 50_000  # maximum number of slices in the timeline; the tables count all
_REBUILD_SECONDS = 10.0  # time limit in seconds for compiling kernels again for their machine code


def export_html(prof: profile, path: str, title: str, assembly: int) -> None:
    """Write the report of a profile. The `assembly` longest kernels are shown with machine code."""
    write_page(path, title, _part("page.html"), _part("script.js"), describe(prof, title, assembly))


def write_page(path: str | os.PathLike, title: str, page: str, script: str, data: dict[str, Any]) -> None:
    """Write one HTML file: the page's markup and script, with the style and the functions that all pages share."""
    parts = {"title": _escaped(title), "style": _part("style.css"), "script": _part("common.js") + script}
    parts["data"] = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    text = re.sub(r"@(\w+)@", lambda match: parts[match[1]], page)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _part(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def describe(prof: profile, title: str, assembly: int) -> dict[str, Any]:
    """The page's data. Times are in microseconds since the first slice."""
    events = prof.events()
    begin = events[0].start
    kernels = prof.kernels()
    limits = machine()
    return {
        "title": title, "wall": sum(event.cpu_time_total for event in events if event.category == "profile"),
        "kinds": kinds(events),
        "averages": _averages(events.key_averages()), "slices": _slices(events[:_MAX_SLICES], begin),
        "left_out": max(len(events) - _MAX_SLICES, 0),
        "flame": _flame(events), "steps": steps(events, begin),
        "modules": modules(events), "lines": lines(events), "memory": _memory(prof, begin),
        "machine": [limits.gflops, limits.cache_gbs, limits.shared_gbs, limits.memory_gbs],
        "kernels": list(_kernels(kernels, assembly)),
        "sharing": {**prof.sharing()._asdict(), "text": str(prof.sharing())},
        "building": {"names": list(PHASES), **compile_report().as_dict()},
        "compilations": [_compilation(event, begin) for event in events if event.category in ("compile", "load")],
        "options": [name for name in ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules",
            "with_jit") if getattr(prof, name)],
    }  # fmt: skip


def kinds(events: Iterable[Event]) -> list[tuple[str, float]]:
    """Self time by kind."""
    totals = dict.fromkeys(_KINDS, 0.0)
    for event in events:
        totals[_KIND_OF[_category(event)]] += event.self_cpu_time_total
    return list(totals.items())


def _category(event: Event) -> str:
    """A slice's category. A pass that links code loaded from disk counts as loading."""
    loading = event.category == "pass" and event.cpu_parent is not None and event.cpu_parent.category == "load"
    return "load" if loading else event.category


def _averages(averages: EventList) -> list[list]:
    rows = sorted(averages, key=lambda average: -average.self_cpu_time_total)
    return [
        [
            row.key,
            row.category,
            row.self_cpu_time_total,
            row.cpu_time_total,
            row.count,
            row.self_cpu_memory_usage,
            row.flops,
        ]
        for row in rows
    ]


def _slices(events: Sequence[Event], begin: int) -> dict[str, Any]:
    """The timeline's columns: name (index), category, start, duration, depth, thread, module, line, forward slice.

    The forward slice is set for gradients.
    """
    names: dict[str, int] = {}
    depth: dict[int, int] = {}
    threads: dict[int, int] = {}
    rows = []
    for event in events:
        depth[event.id] = depth[event.cpu_parent.id] + 1 if event.cpu_parent is not None else 0
        line = _shortest(event.stack) if event.category in ("op", "node") else ""
        texts = [names.setdefault(text, len(names)) for text in (event.name, _category(event), event.module, line)]
        forward = event.forward.id if event.forward is not None else -1
        thread = threads.setdefault(event.thread, len(threads))
        rows.append(
            [
                *texts,
                round((event.start - begin) / 1e3, 3),
                round(event.duration / 1e3, 3),
                depth[event.id],
                thread,
                forward,
            ]
        )
    return {"names": list(names), "rows": rows}


def _shortest(stack: list[str]) -> str:
    return stack[0].rpartition("/")[2] if stack else ""


def _flame(events: Sequence[Event]) -> list[list]:
    """The flame graph, with equal stacks summed: [name, category, depth, start, duration].

    Parents come first, and the longest child is leftmost.
    """
    root: dict[str, Any] = {"children": {}, "time": 0.0}
    nodes = {-1: root}
    for event in events:
        parent = nodes[event.cpu_parent.id if event.cpu_parent is not None else -1]
        node = parent["children"].setdefault(
            event.name, {"children": {}, "time": 0.0, "name": event.name, "category": _category(event)}
        )
        node["time"] += event.cpu_time_total
        nodes[event.id] = node
    rows: list[list] = []
    starts: dict[int, float] = {id(root): 0.0}
    waiting = [(root, -1)]
    while waiting:
        node, depth = waiting.pop()
        at = starts[id(node)]
        if depth >= 0:
            rows.append([node["name"], node["category"], depth, at, node["time"]])
        for child in sorted(node["children"].values(), key=lambda value: -value["time"]):
            starts[id(child)] = at
            at += child["time"]
            waiting.append((child, depth + 1))
    return rows


def modules(events: Sequence[Event]) -> list[list]:
    """Table by module path.

    Columns: path, class, calls, forward time, forward self time, backward time, backward self time, memory allocated,
    operations, first calls. All but self times include submodules. Times exclude first calls.
    """
    rows: dict[str, list] = {}
    for event in events:
        if event.category == "module":
            row = rows.setdefault(
                event.module, [event.module, type(event.subject).__name__, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0]
            )
            inner = sum(_steady(cpu_child) for cpu_child in event.cpu_children if cpu_child.category == "module")
            for column, value in (
                (2, 1),
                (3, _steady(event)),
                (4, _steady(event) - inner),
                (7, event.cpu_memory_usage),
                (9, _first_calls(event)),
            ):
                row[column] += value
    for event in events:
        gradient = _steady(event) if event.category == "node" else 0.0
        path = event.module if gradient or event.flops else ""
        if path in rows:
            rows[path][6] += gradient
        while path:
            if path in rows:
                rows[path][5] += gradient
                rows[path][8] += event.flops
            path = path.rpartition(".")[0]
    return sorted(rows.values(), key=lambda row: row[0].split("."))


def lines(events: Sequence[Event]) -> list[list]:
    """Table by line of the user's code, longest time first. Needs with_stack.

    Columns: line, function, ops, their time, time of their gradients, first calls, text of the line. First calls are
    one-time work: planning, compiling, loading. The other times exclude it.
    """
    rows: dict[str, list] = {}
    for event in events:
        if event.category in ("op", "node") and event.stack and not _inside_op(event):
            line, _, function = event.stack[0].partition(": ")
            row = rows.setdefault(line, [line, function, 0, 0.0, 0.0, 0.0, _text_of(line)])
            row[2] += event.category == "op"
            row[4 if event.category == "node" else 3] += _steady(event)
            row[5] += _first_calls(event)
    return sorted(rows.values(), key=lambda row: -row[3] - row[4])


def _text_of(line: str) -> str:
    """The text of a line `file(number)`; "" where the file is not there."""
    file, _, number = line.removesuffix(")").rpartition("(")
    return linecache.getline(file, int(number)).strip() if number.isdecimal() else ""


def steps(events: Sequence[Event], begin: int) -> list[list]:
    """Table of the steps (`profile.step()`) in order of time: name, start, time, and the time of each kind in it."""
    rows = {event.id: [event.name, (event.start - begin) / 1e3, event.cpu_time_total, {}] for event in events
        if event.category == "step"}  # fmt: skip
    for event in events:
        step: Event | None = event
        while step is not None and step.id not in rows:
            step = step.cpu_parent
        if step is not None:
            times, kind = rows[step.id][3], _KIND_OF[_category(event)]
            times[kind] = times.get(kind, 0.0) + event.self_cpu_time_total
    return list(rows.values())


def _first_calls(event: Event) -> float:
    """Microseconds of planning, including compilation."""
    return sum(
        cpu_child.cpu_time_total
        if cpu_child.category in ("plan", "foreseen", "compile", "load", "import")
        else _first_calls(cpu_child)
        for cpu_child in event.cpu_children
    )


def _steady(event: Event) -> float:
    return event.cpu_time_total - _first_calls(event)


def _inside_op(event: Event) -> bool:
    outer = event.cpu_parent
    while outer is not None and outer.category not in ("op", "node"):
        outer = outer.cpu_parent
    return outer is not None


def _memory(prof: profile, begin: int) -> list[list[float]]:
    """[time, bytes in use] after each change."""
    used, points = 0, []
    for change in prof.memory():
        used += change.size
        points.append([(change.time - begin) / 1e3, used])
    step = -(-len(points) // 4000) if points else 1
    return points[::step]


def _kernels(reports: Sequence[KernelReport], most: int) -> Iterator[dict[str, Any]]:
    """The kernels' reports. Up to `most` include machine code, within the time limit for compiling."""
    end = perf_counter() + _REBUILD_SECONDS
    for number, report in enumerate(reports):
        expected = 0.0 if report.kernel.cached else report.kernel.seconds
        yield _kernel(report, number < most and perf_counter() + expected < end)


def _kernel(report: KernelReport, with_assembly: bool) -> dict[str, Any]:
    kernel, code = report.kernel, report.machine_code if with_assembly else None
    fields = {
        "name": kernel.name, "key": kernel.key, "signature": kernel.signature, "variant": _variant(report),
        "source": kernel.source, "why": kernel.why, "built": report.built, "seconds": kernel.seconds,
        "calls": report.calls, "time": report.time, "dispatch": report.dispatch, "flops": report.flops,
        "bytes": report.bytes_moved, "gflops": report.gflops, "gbs": report.gbs, "roofline": report.roofline,
        "imbalance": report.imbalance, "waiting": report.waiting,
        "ops": list(report.ops), "modules": list(report.modules), "passes": report.passes,
    }  # fmt: skip
    if code is not None:
        fields.update(
            assembly=code.assembly,
            lines=code.lines,
            hot=code.hot_range,
            code_bytes=code.code_bytes,
            vector_bits=code.vector_bits,
            unroll=code.unroll,
        )
    return fields


def _variant(report: KernelReport) -> str:
    """The variant of an op's loop: serial or parallel, contiguous or strided."""
    header = re.search(r"^def kernel\((.*)\)", report.kernel.source, re.MULTILINE)
    layout = "strided" if header and re.search(r"step|stride", header[1]) else "dense"
    return f"parallel, {report.threads} threads, {layout}" if report.kernel.parallel else f"serial, {layout}"


def _compilation(event: Event, begin: int) -> dict[str, Any]:
    """A kernel's compilation: start, duration, and its outermost passes."""
    passes = [
        [cpu_child.name, (cpu_child.start - event.start) / 1e3, cpu_child.cpu_time_total]
        for cpu_child in event.cpu_children
        if cpu_child.duration > event.duration / 500
    ]
    return {
        "name": event.subject.name, "category": event.category, "start": (event.start - begin) / 1e3,
        "time": event.cpu_time_total, "why": event.subject.why, "passes": passes,
    }  # fmt: skip

"""Averages: events summed by key, and the table of them, which fits a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from . import chrome
from .event import Event, Shown, time_text

WIDTH = 100
_SUMS = (
    "count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "flops", "multiply_adds", "bytes_moved",
)  # fmt: skip
_ALIASES = {name.replace("device", "cuda"): name for name in (*_SUMS, "device_time") if "device" in name}


class FunctionEventAvg(Shown):
    """The events of one key: count and sums; `cpu_time` is the mean. Times in microseconds, memory in bytes."""

    def __init__(self, first: Event) -> None:
        self.key = self.name = first.name
        self.category = first.category
        self.input_shapes = first.input_shapes
        self.stack = first.stack
        self.module = first.module
        self.subject = first.subject
        self.is_user_annotation = first.is_user_annotation
        for name in _SUMS:
            setattr(self, name, 0)

    def add(self, event: Event | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the sums of others."""
        for name in _SUMS:
            more = getattr(event, name)
            if more:
                setattr(self, name, getattr(self, name) + more)
        return self

    cpu_time = property(lambda self: self.cpu_time_total / self.count)
    device_time = property(lambda self: self.device_time_total / self.count)
    cpu_parent, cpu_children = None, ()

    def __getattr__(self, name: str) -> Any:
        if name in _ALIASES:
            return getattr(self, _ALIASES[name])
        raise AttributeError(f"'FunctionEventAvg' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg {self.key}: {self.count} calls, self {self.self_cpu_time_total_str}, total "
            f"{self.cpu_time_total_str}>"
        )


class EventList(list):
    """Events, or averages of them."""

    shown_shapes = shown_stack = False

    @property
    def self_cpu_time_total(self) -> float:
        """Total self time of all entries in microseconds."""
        return sum(each.self_cpu_time_total for each in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One entry per name (and input shapes, and innermost source lines).

        A slice nested in one of the same key adds only to count and self time.
        """
        found: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = (
                event.name,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n]),
            )
            if key not in found:
                found[key] = FunctionEventAvg(event)
            inside = _nested(event)
            before = found[key].cpu_time_total, found[key].cpu_memory_usage
            found[key].add(event)
            if inside:
                found[key].cpu_time_total, found[key].cpu_memory_usage = before
        result = EventList(found.values())
        result.shown_shapes, result.shown_stack = group_by_input_shapes, group_by_stack_n > 0
        return result

    def export_chrome_trace(self, path: str) -> None:
        """Write the slices as JSON for Perfetto and chrome://tracing."""
        chrome.export_trace(self, [], {}, path)

    supported_export_stacks_metrics = ("self_cpu_time_total", "self_cuda_time_total")

    def export_stacks(self, path: str, metric: str) -> None:
        """Write `outer;inner;... number` lines for flame graphs."""
        if metric not in self.supported_export_stacks_metrics:
            raise ValueError(f"metric should be one of: {list(self.supported_export_stacks_metrics)}")
        chrome.export_stacks(self, path, metric)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all entries."""
        total = FunctionEventAvg(self[0])
        for each in self:
            total.add(each)
        total.key = total.name = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table of at most 100 columns, sorted in descending order of `sort_by`: a time (`self_cpu_time_total`, ...),
        `count`, `flops` or a memory column.

        `time_unit`: s, ms or us; by default chosen per value. Raises AttributeError for an unknown `sort_by`.
        """
        rows = [each for each in self if not top_level_events_only or getattr(each, "cpu_parent", None) is None]
        if sort_by is not None:
            if self and not hasattr(self[0], sort_by):
                raise AttributeError(
                    f"table: cannot sort by {sort_by!r}; choose from {', '.join((*_SUMS, 'cpu_time', 'device_time'))}"
                )
            rows = sorted(rows, key=lambda row: getattr(row, sort_by), reverse=True)
        return _table(
            rows[: row_limit if row_limit >= 0 else None],
            self,
            max_name_column_width,
            max_shapes_column_width,
            max_src_column_width,
            header,
            time_unit,
        )

    def __repr__(self) -> str:
        return self.table()

    __str__ = __repr__


def _nested(event: Event) -> bool:
    above = event.cpu_parent
    while above is not None:
        if above.name == event.name:
            return True
        above = above.cpu_parent
    return False


def _table(
    rows: list,
    everything: EventList,
    name_width: int,
    shapes_width: int,
    source_width: int,
    header: str | None,
    unit: str | None,
) -> str:
    shown = partial(time_text, unit=unit)
    whole = everything.self_cpu_time_total or 1.0
    columns = [
        ("self", 9, lambda each: shown(each.self_cpu_time_total)),
        ("self %", 6, lambda each: f"{100 * each.self_cpu_time_total / whole:.1f}"),
        ("total", 9, lambda each: shown(each.cpu_time_total)), ("calls", 7, lambda each: str(each.count)),
        ("mean", 9, lambda each: shown(each.cpu_time)),
    ]  # fmt: skip
    if any(each.device_time_total for each in everything):
        columns.append(("CUDA", 9, lambda each: shown(each.device_time_total)))
    if any(each.cpu_memory_usage for each in everything):
        columns.append(
            ("self mem", 9, lambda each: bytes_text(each.self_cpu_memory_usage) if each.self_cpu_memory_usage else "")
        )
    if any(each.flops for each in everything):
        columns.append(
            (
                "GFLOP/s",
                7,
                lambda each: (
                    f"{each.flops / each.cpu_time_total / 1e3:.2f}" if each.flops and each.cpu_time_total else ""
                ),
            )
        )
    texts = [("name", name_width, lambda each: each.name)]
    if everything.shown_shapes:
        texts.append(("input shapes", shapes_width, lambda each: str(each.input_shapes) if each.input_shapes else ""))
    if everything.shown_stack:
        texts.append(("line", source_width, lambda each: _short(each.stack)))
    if len(texts) > 1:
        # width left for text columns
        columns = [column for column in columns if column[0] not in ("self %", "mean", "self mem")]
    return _laid_out(rows, texts, columns, header, f"Self CPU time total: {shown(everything.self_cpu_time_total)}")


def _laid_out(rows: list, texts: list, columns: list, header: str | None, footer: str) -> str:
    """Lines with text columns on the left, truncated to the width available, and numbers on the right."""
    left = WIDTH - sum(width + 2 for _, width, _ in columns) - 2 * (len(texts) - 1)
    shares = _share(
        left, [min(limit, max([len(title), *(len(text(row)) for row in rows)])) for title, limit, text in texts]
    )
    line = "  ".join(
        [
            *(_cut(title, share).ljust(share) for (title, *_), share in zip(texts, shares)),
            *(title.rjust(width) for title, width, _ in columns),
        ]
    )
    rule = "-" * len(line)
    body = []
    for row in rows:
        words = [_cut(text(row), share).ljust(share) for (_, _, text), share in zip(texts, shares)]
        body.append("  ".join([*words, *(value(row).rjust(width) for _, width, value in columns)]))

    return "\n".join([*([header] if header else []), rule, line, rule, *body, rule, footer, ""])


def _share(left: int, wanted: list[int]) -> list[int]:
    """The width of each column: as much as wanted if all fit, else a fair share."""
    shares, fair = [0] * len(wanted), left
    for number, k in enumerate(sorted(range(len(wanted)), key=lambda k: wanted[k])):
        shares[k] = min(wanted[k], fair // (len(wanted) - number))
        fair -= shares[k]
    return shares


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _short(stack: Iterable[str]) -> str:
    """The innermost source line without its folder."""
    return next(iter(stack), "").rpartition("/")[2]


def bytes_text(count: int) -> str:
    """1.50 MB."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"

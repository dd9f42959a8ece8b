"""Averages: events summed by key, and their table, which fits a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from .. import notebook
from . import chrome
from .event import Event, TimeTexts, time_text

WIDTH = 100
_HTML_ROWS = 25
_SUMS = (
    "count", "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "flops", "multiply_adds", "bytes_moved",
)  # fmt: skip
_ALIASES = {name.replace("device", "cuda"): name for name in (*_SUMS, "device_time") if "device" in name}


class FunctionEventAvg(TimeTexts):
    """Count and sums of the events of one key; `cpu_time` is the mean. Times in microseconds, memory in bytes."""

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
        """Add an event, or another average."""
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
    """A list of events or averages."""

    show_shapes = show_stack = False

    @property
    def self_cpu_time_total(self) -> float:
        """Total self time of all entries in microseconds."""
        return sum(entry.self_cpu_time_total for entry in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """One entry per name, and optionally per input shapes and innermost source lines.

        A slice nested in another of the same key adds only to the count and the self time.
        """
        averages: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = (
                event.name,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n]),
            )
            if key not in averages:
                averages[key] = FunctionEventAvg(event)
            inside = _nested(event)
            before = averages[key].cpu_time_total, averages[key].cpu_memory_usage
            averages[key].add(event)
            if inside:
                averages[key].cpu_time_total, averages[key].cpu_memory_usage = before
        result = EventList(averages.values())
        result.show_shapes, result.show_stack = group_by_input_shapes, group_by_stack_n > 0
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
        for entry in self:
            total.add(entry)
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
        """A table of at most 100 columns, sorted in descending order of `sort_by`.

        `sort_by` is a time (`self_cpu_time_total`, ...), `count`, `flops` or a memory column. `time_unit` is s, ms or
        us; by default it is chosen per value. Raises AttributeError for an unknown `sort_by`.
        """
        rows = [entry for entry in self if not top_level_events_only or getattr(entry, "cpu_parent", None) is None]
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

    def _repr_html_(self) -> str:
        """The averages, or those of the slices, longest first."""
        averages = self if not self or isinstance(self[0], FunctionEventAvg) else self.key_averages()
        rows = sorted(averages, key=lambda row: -row.self_cpu_time_total)
        return notebook.table(
            ["name", "self", "total", "calls", "mean"],
            [
                [row.key, *map(time_text, (row.self_cpu_time_total, row.cpu_time_total)), row.count,
                 time_text(row.cpu_time)]
                for row in rows[:_HTML_ROWS]
            ],
            f"self time in all {time_text(self.self_cpu_time_total)}"
            + (f"; the first {_HTML_ROWS} of {len(rows)} rows, table() has all" if len(rows) > _HTML_ROWS else ""),
        )  # fmt: skip

    def __repr__(self) -> str:
        return self.table()

    __str__ = __repr__


def _nested(event: Event) -> bool:
    outer = event.cpu_parent
    while outer is not None:
        if outer.name == event.name:
            return True
        outer = outer.cpu_parent
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
    """The rows as a text table with a header and totals."""
    as_text = partial(time_text, unit=unit)
    whole = everything.self_cpu_time_total or 1.0
    columns = [
        ("self", 9, lambda row: as_text(row.self_cpu_time_total)),
        ("self %", 6, lambda row: f"{100 * row.self_cpu_time_total / whole:.1f}"),
        ("total", 9, lambda row: as_text(row.cpu_time_total)), ("calls", 7, lambda row: str(row.count)),
        ("mean", 9, lambda row: as_text(row.cpu_time)),
    ]  # fmt: skip
    if any(row.device_time_total for row in everything):
        columns.append(("CUDA", 9, lambda row: as_text(row.device_time_total)))
    if any(row.cpu_memory_usage for row in everything):
        columns.append(
            ("self mem", 9, lambda row: bytes_text(row.self_cpu_memory_usage) if row.self_cpu_memory_usage else "")
        )
    if any(row.flops for row in everything):
        columns.append(
            (
                "GFLOP/s",
                7,
                lambda row: f"{row.flops / row.cpu_time_total / 1e3:.2f}" if row.flops and row.cpu_time_total else "",
            )
        )
    texts = [("name", name_width, lambda row: row.name)]
    if everything.show_shapes:
        texts.append(("input shapes", shapes_width, lambda row: str(row.input_shapes) if row.input_shapes else ""))
    if everything.show_stack:
        texts.append(("line", source_width, lambda row: _short(row.stack)))
    if len(texts) > 1:
        # leave room for the text columns
        columns = [column for column in columns if column[0] not in ("self %", "mean", "self mem")]
    longest = min(max((len(row.name) for row in rows), default=0), name_width)
    for spare in ("mean", "self %"):  # they follow from other columns; whole names are worth more
        if len(texts) == 1 and _room(texts, columns) < longest:
            columns = [column for column in columns if column[0] != spare]
    return _laid_out(rows, texts, columns, header, f"Self CPU time total: {as_text(everything.self_cpu_time_total)}")


def _laid_out(rows: list, texts: list, columns: list, header: str | None, footer: str) -> str:
    """Lines with text columns on the left, truncated to the available width, and numbers on the right."""
    shares = _share(
        _room(texts, columns),
        [min(limit, max([len(title), *(len(text(row)) for row in rows)])) for title, limit, text in texts],
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
        # kernels differ in the last characters of their names
        ends = [8] + [0] * len(texts)
        words = [_cut(text(row), share, end).ljust(share) for (_, _, text), share, end in zip(texts, shares, ends)]
        body.append("  ".join([*words, *(value(row).rjust(width) for _, width, value in columns)]))

    return "\n".join([*([header] if header else []), rule, line, rule, *body, rule, footer, ""])


def _room(texts: list, columns: list) -> int:
    """The width that the columns of numbers leave to the text columns."""
    return WIDTH - sum(width + 2 for _, width, _ in columns) - 2 * (len(texts) - 1)


def _share(left: int, wanted: list[int]) -> list[int]:
    """The width of each column: as much as needed if all fit, otherwise a fair share."""
    shares, fair = [0] * len(wanted), left
    for number, k in enumerate(sorted(range(len(wanted)), key=lambda k: wanted[k])):
        shares[k] = min(wanted[k], fair // (len(wanted) - number))
        fair -= shares[k]
    return shares


def _cut(text: str, width: int, end: int = 0) -> str:
    """At most `width` characters: the first and, if there is room, the last `end`."""
    end = min(end, width // 3)
    return text if len(text) <= width else f"{text[: max(width - 3 - end, 0)]}...{text[len(text) - end :]}"


def _short(stack: Iterable[str]) -> str:
    """The innermost source line without its folder."""
    return next(iter(stack), "").rpartition("/")[2]


def bytes_text(count: int) -> str:
    """A size as text, such as 1.50 MB."""
    for size, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"

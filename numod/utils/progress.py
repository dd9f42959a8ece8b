"""A progress line for loops: count, percentage, rate and time left.

    for batch in numod.utils.progress(loader, description="epoch 1"):
        ...

On a terminal, and in a notebook as a bar, the line is updated ten times a second. Otherwise, as in a log file, a line
is printed every half minute and at the end. Nested loops get a line each, which is removed when the inner loop ends.
"""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TextIO, TypeVar

from ..notebook import Text, bar, live_display

Item = TypeVar("Item")
_running: list[progress] = []  # outermost first


class progress(Generic[Item]):  # used like a function
    """Iterate over `iterable` and show the progress on `file` (stderr).

    `total` replaces `len(iterable)`. `note(...)` sets a text shown after the count. `leave=False` removes the line at
    the end.
    """

    def __init__(
        self,
        iterable: Iterable[Item],
        description: str = "",
        total: int | None = None,
        file: TextIO | None = None,
        width: int = 30,
        interval: float | None = None,
        leave: bool = True,
    ) -> None:
        hint = operator.length_hint(iterable, -1) if total is None else total
        self.iterable, self.description, self.count, self.total = iterable, description, 0, None if hint < 0 else hint
        self._file, self._width, self._leave = sys.stderr if file is None else file, width, leave
        self._text: str | Callable[[], str] = ""
        self._start = time.monotonic()
        self._show = live_display() if file is None else None  # in a notebook
        self._live = hasattr(self._file, "isatty") and self._file.isatty()
        self._interval = interval if interval is not None else 0.1 if self._live or self._show else 30.0
        try:
            "█▏".encode(getattr(self._file, "encoding", None) or "ascii")
            self._marks = " ▏▎▍▌▋▊▉█"
        except UnicodeEncodeError:
            self._marks = " #"

    def note(self, *text: object, **values: object) -> None:
        """Set the text shown after the count: `line.note(loss=loss.item())`.

        A function without arguments is called whenever the line is printed.
        """
        if len(text) == 1 and callable(text[0]):
            self._text = text[0]
            return
        pairs = [
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()
        ]
        self._text = " ".join([*map(str, text), *pairs])

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError(f"progress over {type(self.iterable).__name__} has no len(); pass total=")
        return self.total

    def __iter__(self) -> Iterator[Item]:
        self.count, self._start = 0, time.monotonic()
        self._last_printed = self._start
        depth = len(_running)
        _running.append(self)
        try:
            self._print(depth, self._live or self._show is not None)
            for item in self.iterable:
                yield item
                self.count += 1
                self._print(depth, time.monotonic() - self._last_printed >= self._interval)
        finally:
            del _running[depth:]
            self._print(depth, True, last=True)

    def _print(self, depth: int, due: bool, last: bool = False) -> None:
        if not due:
            return
        self._last_printed = time.monotonic()
        removed = last and not self._leave
        if self._show is not None:
            return self._show(Text() if removed or (last and depth) else self)
        if removed and not self._live:
            return
        text = f"{self.line()}\n"
        if self._live and depth:  # move down, write the line (or clear it at the end), move back up
            text = "\n" * depth + "\r\x1b[K" + ("" if last else self.line()) + f"\x1b[{depth}A\r"
        elif self._live:
            text = "\r\x1b[K" if removed else f"\r{self.line()}\x1b[K" + "\n" * last
        print(text, end="", file=self._file, flush=True)

    def _repr_html_(self) -> str:
        return bar(min(self.count / self.total, 1.0) if self.total else None, self.line(with_bar=False))

    def line(self, with_bar: bool = True) -> str:
        """The current line, without newline."""
        seconds = time.monotonic() - self._start
        rate = self.count / seconds if seconds else 0.0
        parts = [f"{self.description}:"] if self.description else []
        if self.total:
            share = min(self.count / self.total, 1.0)
            left = clock((self.total - self.count) / rate) if rate and self.count <= self.total else "?"
            drawn = f"|{self._bar(share)}| " if with_bar else ""
            parts += [f"{share:4.0%} {drawn}{self.count}/{self.total} [{clock(seconds)}<{left}, {_rate(rate)}]"]
        else:
            parts += [f"{self.count} [{clock(seconds)}, {_rate(rate)}]"]
        text = self._text() if callable(self._text) else self._text
        return " ".join([*parts, text] if text else parts)

    def _bar(self, share: float) -> str:
        steps = len(self._marks) - 1
        full, part = divmod(int(share * self._width * steps), steps)
        return (self._marks[-1] * full + (self._marks[part] if part else "")).ljust(self._width)


def clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def _rate(rate: float) -> str:
    return f"{rate:.2f}/s" if rate >= 1 or not rate else f"{1 / rate:.2f} s each"

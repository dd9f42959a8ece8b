"""The progress line: what it shows on a terminal, in a log, and in nested loops."""

from __future__ import annotations

import io
import itertools
import sys
import types
import unittest.mock

import pytest

from numod.utils import progress


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A millisecond passes between two looks at the clock, on any machine."""
    looks = itertools.count()
    clock = types.SimpleNamespace(monotonic=lambda: next(looks) / 1000)
    monkeypatch.setattr(sys.modules["numod.utils.progress"], "time", clock)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_items_pass_through_and_the_end_is_printed():
    log = io.StringIO()
    assert list(progress([1, 2, 3], description="epoch 1", file=log)) == [1, 2, 3]
    assert log.getvalue().startswith("epoch 1: 100% |") and log.getvalue().count("\n") == 1
    assert "3/3 [00:00<00:00, " in log.getvalue()


def test_without_a_terminal_little_is_printed_and_in_ascii_where_needed():
    class Ascii(io.StringIO):
        encoding = "ascii"

    log = Ascii()
    list(progress(range(1000), file=log))
    assert log.getvalue().count("\n") == 1 and log.getvalue().isascii() and "|" + "#" * 30 + "|" in log.getvalue()
    often = io.StringIO()
    list(progress(range(4), file=often, interval=0))
    assert [line[:4] for line in often.getvalue().splitlines()] == [" 25%", " 50%", " 75%", "100%", "100%"]


def test_a_terminal_sees_one_line_rewritten():
    screen = Terminal()
    line = progress(range(8), file=screen, interval=0, width=8)
    for number in line:
        line.note("step", loss=number / 3)
    shown = screen.getvalue()
    assert shown.count("\n") == 1 and shown.endswith("\n")
    assert "|████    | 4/8 [" in shown and "step loss=2.333" in shown


def test_nested_lines_go_below_and_vanish():
    screen = Terminal()
    for _ in progress(range(2), "outer", file=screen):
        list(progress(range(3), "inner", file=screen))
    assert "\n\r\x1b[Kinner: " in screen.getvalue() and "\n\r\x1b[K\x1b[1A\r" in screen.getvalue()
    assert screen.getvalue().endswith("\n")


def test_lengths():
    log = io.StringIO()
    assert list(progress((letter for letter in "ab"), file=log)) == ["a", "b"]
    assert log.getvalue().startswith("2 [00:00, ")
    assert len(progress(iter("ab"))) == len(progress("ab")) == len(progress((letter for letter in "ab"), total=2)) == 2
    with pytest.raises(TypeError, match="pass total="):
        len(progress(letter for letter in "ab"))
    empty = io.StringIO()
    assert list(progress([], file=empty)) == [] and empty.getvalue().startswith("0 [")


def test_a_loop_left_early_or_by_an_error_ends_its_line():
    screen = Terminal()
    for _ in progress(range(5), file=screen):
        break
    with pytest.raises(ZeroDivisionError):
        for number in progress(range(5), file=screen):
            1 // number
    assert screen.getvalue().count("\n") == 2
    interrupted = Terminal()
    interrupted.write = unittest.mock.Mock(side_effect=KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        list(progress(range(5), file=interrupted))
    after = Terminal()
    list(progress(range(1), file=after))
    assert "\x1b[1A" not in after.getvalue()

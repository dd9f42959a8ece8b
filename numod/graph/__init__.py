"""Graphs of ops: recorded at the waist (`trace`), lowered to kernel calls, linked into native functions, run under guards (`compile`)."""

from __future__ import annotations

from .compile import compile  # noqa: A004
from .trace import Program, trace

__all__ = ["Program", "compile", "trace"]

"""Graphs of ops: recorded at the waist, run again, printed. The fusing compiler will start from these."""

from __future__ import annotations

from .trace import Program, trace

__all__ = ["Program", "trace"]

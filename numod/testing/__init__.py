"""For tests of code that uses numod: `assert_close` and `make_tensor`. Not a test runner."""

from __future__ import annotations

from .comparison import assert_close
from .creation import make_tensor

__all__ = ["assert_close", "make_tensor"]

"""For all tests of this folder: its helpers can be imported, and `machine` runs the PTX of one file's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("machine_checks")


@pytest.fixture(scope="module")
def machine() -> Iterator[object]:
    """The machine of `ptx_machine`, behind the driver's interface."""
    from ptx_machine import Machine

    with Machine(1 << 27).installed() as machine:
        yield machine

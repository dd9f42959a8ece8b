"""One profile that many tests of the profiler look at."""

from __future__ import annotations

import pytest
from profiled import profile_of_a_step

from numod.profiler import profile


@pytest.fixture(scope="session")
def profiled() -> profile:
    return profile_of_a_step()

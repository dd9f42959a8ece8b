"""Dispatch's functions, which run for every op."""

import pytest

from numod.core.apply import apply, apply_into


@pytest.mark.parametrize("function", [apply, apply_into])
def test_dispatch_has_no_cells(function):
    """A lambda or a comprehension over local variables would make them cells, slower to make and read in every call."""
    assert function.__code__.co_cellvars == ()

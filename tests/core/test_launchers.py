"""Number of ops that common calls run: on small tensors the calls themselves, some microseconds each, dominate."""

import pytest

import numod
from numod.core.listeners import listeners

x, y = numod.rand(4), numod.rand(4)
CALLS = {
    "exponential_": (1, lambda: numod.empty(4).exponential_()),
    "equal": (1, lambda: numod.equal(x, y)),
    "median": (3, lambda: x.median()),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_run_no_more_ops_than_they_need(name):
    expected, call = CALLS[name]
    ran = []
    listeners.append(listener := lambda op, *_: ran.append(op.name))
    try:
        call()
    finally:
        listeners.remove(listener)
    assert len(ran) == expected, ran

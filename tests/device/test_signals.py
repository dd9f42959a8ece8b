"""Signals that come while a kernel is built."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from numod.device import signals

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")


@pytest.fixture
def came() -> Iterator[list[int]]:
    """The signals whose handlers ran: SIGTERM's only notes it, SIGINT's raises KeyboardInterrupt."""
    numbers: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        numbers.append(number)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, lambda number, frame: numbers.append(number))
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("delivers", [False, True])
def test_a_signal_after_one_whose_handler_raises_is_not_lost(came: list[int], delivers: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        with signals.waiting():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            assert came == []
            if delivers:
                signals.deliver()
    assert came == [signal.SIGINT, signal.SIGTERM]


def test_the_compilers_exception_is_not_shown_with_the_handlers(came: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        with signals.waiting():
            signal.raise_signal(signal.SIGINT)
            signals.deliver()
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None

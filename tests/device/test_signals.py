"""Signals that come while a kernel is built."""

from __future__ import annotations

import os
import signal
import socket
import threading
import warnings
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


def test_a_handler_that_is_interrupted_gets_the_usual_exception(came: list[int]) -> None:
    """Also while it waits for kernels itself."""

    def handler(number: int, frame: object) -> None:
        for delivers in (False, True):
            with pytest.raises(KeyboardInterrupt):
                with signals.waiting():
                    signal.raise_signal(signal.SIGINT)
                    if delivers:
                        signals.deliver()
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, handler)
    with pytest.raises(KeyboardInterrupt), signals.waiting():
        signal.raise_signal(signal.SIGTERM)
        signals.deliver()
    assert came == [signal.SIGINT] * 3


@pytest.mark.parametrize("delivers", [False, True])
def test_a_handler_that_sets_another_one(came: list[int], delivers: bool) -> None:
    def second(number: int, frame: object) -> None:
        came.append(-number)

    signal.signal(signal.SIGTERM, lambda number, frame: signal.signal(number, second))
    with signals.waiting():
        signal.raise_signal(signal.SIGTERM)
        if delivers:
            signals.deliver()
            signal.raise_signal(signal.SIGTERM)
            assert came == []
    assert came == [-signal.SIGTERM] * delivers and signal.getsignal(signal.SIGTERM) is second


def test_a_deferred_signal_wakes_an_event_loop_once(came: list[int]) -> None:
    """As `asyncio` is told of signals."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    before = signal.set_wakeup_fd(sender.fileno())
    try:
        with signals.waiting():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.set_wakeup_fd(before)
    with receiver, sender:
        assert came == [signal.SIGTERM] and receiver.recv(9) == bytes([signal.SIGTERM])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_of_another_thread_has_the_usual_handlers(came: list[int]) -> None:
    handlers, statuses = [*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))], []

    def fork() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads may hold locks, which this child does not need
            child = os.fork()
        if child == 0:
            os._exit(handlers != [*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM))])
        statuses.append(os.waitpid(child, 0)[1])

    with signals.waiting():
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    assert statuses == [0]

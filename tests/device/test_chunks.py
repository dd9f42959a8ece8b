"""Chunks: each thread's part of a parallel launch is timed while that is asked for, and only then."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

import numod
from numod.device import chunks, threads


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(threads.Crew, "LATE", 1 << 62)  # whatever else runs on this machine
    monkeypatch.setattr(threads, "_crew", threads.Crew())
    before = numod.get_num_threads()
    numod.set_num_threads(2)
    yield
    chunks.watch(False)
    numod.set_num_threads(before)


def test_parts_are_timed_while_watched() -> None:
    x = numod.arange(float(1 << 18))
    expected = x + 1.25
    chunks.watch(True)
    start = time.perf_counter_ns()
    found = x + 1.25
    end = time.perf_counter_ns()
    parts = chunks.take()
    assert chunks.take() == []
    assert numod.equal(found, expected)
    assert (
        len(parts) == 2
        and len({thread for _, _, thread in parts}) == 2
        and threading.get_ident() in {thread for _, _, thread in parts}
    )
    assert all(start <= began <= ended <= end for began, ended, _ in parts)


def test_nothing_is_kept_while_not_watched() -> None:
    x = numod.ones(1 << 18)
    x + 1.25
    chunks.watch(False)
    x + 1.25
    assert chunks.take() == []


def test_more_parts_than_fit_are_left_out() -> None:
    x = numod.ones(1 << 18)
    x + 1.25
    chunks.watch(True)
    chunks.install().count.value = chunks.MOST - 1
    x + 1.25
    assert len(chunks.take()) == chunks.MOST


@pytest.mark.parity
def test_a_library_that_shares_openmp_keeps_its_number_of_threads() -> None:
    program = (
        "import torch; torch.set_num_threads(1); import numod; x = numod.ones(1 << 18); x + 1; from "
        "numod.device import chunks; chunks.install(); print(torch.get_num_threads())"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        == "1"
    )

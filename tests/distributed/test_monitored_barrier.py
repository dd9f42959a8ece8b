"""`monitored_barrier` on three ranks, with ranks that arrive late or in another call. It takes about ten seconds."""

from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod.distributed.board import Board


@on_ranks(3)
def test_late_ranks_have_their_names_in_the_error() -> None:
    rank, short = dist.get_rank(), timedelta(seconds=0.5)
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=short * 200, wait_all_ranks=True)
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"^Rank 1 failed to pass monitoredBarrier in 500 ms at .*rank 1 \(proc"):
            dist.monitored_barrier(timeout=short)
        with pytest.raises(RuntimeError, match="^Ranks 1, 2 failed to pass monitoredBarrier in 500 ms"):
            dist.monitored_barrier(timeout=short, wait_all_ranks=True)
        with pytest.raises(RuntimeError, match="^Rank 0 timed out in monitoredBarrier after 0 ms"):
            dist.monitored_barrier(timeout=timedelta())
        dist.send(numod.ones(1), 1)
        dist.send(numod.ones(1), 2)
    if rank == 2:
        with pytest.raises(RuntimeError, match="^Rank 2 successfully reached monitoredBarrier, but received errors"):
            dist.monitored_barrier(timeout=short)
    if rank:
        dist.recv(numod.ones(1), 0)  # rank 0 has given up
    # the late ranks' messages are of the calls above, and do not count for the following ones
    for _ in range({0: 0, 1: 3, 2: 2}[rank]):
        with pytest.raises(RuntimeError, match="successfully reached monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=0.01))
    with pytest.warns(UserWarning, match=r"timeout as timedelta\(seconds=100.0\)"):
        dist.monitored_barrier(timeout=100.0)
    x = numod.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3]
    pair = dist.new_group([1, 2])
    if rank:
        dist.monitored_barrier(pair)
    else:
        with pytest.warns(UserWarning, match="does not belong to the given group"):
            dist.monitored_barrier(pair)


def test_a_running_rank_is_not_taken_for_another_that_ended() -> None:
    board, group = Board(None), SimpleNamespace(slot=1, ranks=[0, 1, 2])
    board.counts[1] = 1
    board.rows |= {1: np.array([os.getpid(), 0]), 2: np.array([-os.getpid(), 0])}
    assert board.ended(group) and board.ended(group, awaited=2) and not board.ended(group, awaited=1)

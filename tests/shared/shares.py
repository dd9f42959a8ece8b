"""A rank's half of a batch, and how far the results of training differ."""

from __future__ import annotations

import numod.distributed as dist
from numod import nn


def own_share(batch: int) -> slice:
    """This rank's half of a batch."""
    half = batch // 2
    return slice(dist.get_rank() * half, (dist.get_rank() + 1) * half)


def difference(model: nn.Module, other: nn.Module) -> float:
    """The largest relative difference of two modules' floating parameters and buffers."""
    pairs = zip(model.state_dict().values(), other.state_dict().values())
    return max(((x - y).abs().max() / y.abs().max()).item() for x, y in pairs if x.is_floating_point())

"""DistributedSampler: one rank's share of a dataset. It does not communicate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ...core.create.random import Generator, randperm
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, in an order that all ranks derive from `seed` and the epoch.

    Indices from the start are repeated, or with `drop_last` the last ones left out, so that every rank has the same
    number. Call `set_epoch` before each epoch, or the order stays the same. Both numbers are the default process
    group's where they are not given. Raises ValueError without a group, and for a bad rank.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ...distributed.group import get_rank, get_world_size

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        self.num_samples = len(dataset) // num_replicas if drop_last else math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        repeated = order * -(-self.total_size // len(order)) if order else order
        return iter(repeated[self.rank : self.total_size : self.num_replicas])

    def _order(self) -> list[int]:
        count = len(self.dataset)
        return (
            randperm(count, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
            if self.shuffle
            else list(range(count))
        )

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the next pass."""
        self.epoch = epoch

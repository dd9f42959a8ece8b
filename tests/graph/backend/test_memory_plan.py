"""The memory plan: buffers alive at the same time never share bytes, and each lies at the lowest offset that is
free.
"""

from __future__ import annotations

import random

import numpy as np

from numod.graph.backend import memory_plan
from numod.graph.backend.lower import Buffer


def test_each_buffer_lies_at_the_lowest_free_offset() -> None:
    chance = random.Random(0)
    for count in (0, 1, 2, 40, 80):
        buffers = [Buffer("local", chance.choice([1, 16, 17, 100]), np.dtype(np.float32), None) for _ in range(count)]
        alive = {buffer: (first := chance.randrange(30), first + chance.choice([0, 1, 5, 30])) for buffer in buffers}
        places, size = memory_plan._placed(buffers, alive)

        def end(buffer: Buffer, places: dict = places) -> int:
            return places[buffer] + -(-buffer.nbytes // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT

        assert size == max(map(end, buffers), default=0)
        for number, buffer in enumerate(buffers):
            beside = [
                other
                for other in buffers[:number]
                if alive[other][0] <= alive[buffer][1] and alive[buffer][0] <= alive[other][1]
            ]
            free = [
                at
                for at in [0, *map(end, beside)]
                if all(at + buffer.nbytes <= places[other] or end(other) <= at for other in beside)
            ]
            assert places[buffer] == min(free)

"""Launchers of kernels that read a packed weight: it is packed at each call, or is the last input of the op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..device.device import Device


def with_packed_weight(
    run: Callable, parts: Callable[[], tuple], device: Device, packer: tuple | None, results: int = 1
) -> Callable:
    """A launcher for buffers in an op's order: x, weight, further inputs, results.

    If `packer` is None, the last of the further inputs is the packed weight.

    `run` takes x, the further inputs, the packed weight, the results, and scratch memory for `parts()`. `packer` is
    the launcher that packs the weight, its numbers, and the words that it fills.
    """
    scratch = device.backend.scratch
    if packer is None:
        return lambda x, _, *others: run(x, *others, *scratch(parts()))
    pack, sizes, count = packer
    words = count, np.dtype("int32")

    def launch(x: object, weight: object, *others: object) -> None:
        packed, *memory = scratch((words, *parts()))
        pack(weight, packed, *sizes)
        run(x, *others[:-results], packed, *others[-results:], *memory)

    return launch

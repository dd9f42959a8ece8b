"""Cases that run on MPI with numod and on gloo with PyTorch, on the same ranks; their outcomes must be equal.

A case is a function of (library, its `distributed`, its DistributedDataParallel), which returns tensors, numbers and
text in lists and dicts, or raises.
"""

from __future__ import annotations

import gc
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import numod
import numod.distributed as dist


def plain(value: Any) -> Any:
    """A result with its tensors as NumPy arrays."""
    if isinstance(value, numod.Tensor) or type(value).__module__.startswith("torch"):
        value = value.detach()
        return np.asarray(value.double().numpy() if value.is_floating_point() else value.numpy())
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def differences(ours: Any, theirs: Any, tolerance: float, path: str = "") -> list[str]:
    """Where two results differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and list(ours) == list(theirs):
        pairs = [(f"{path}.{key}", ours[key], theirs[key]) for key in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(f"{path}[{k}]", x, y) for k, (x, y) in enumerate(zip(ours, theirs))]
    elif isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray) and ours.shape == theirs.shape:
        return [] if np.allclose(ours, theirs, tolerance, tolerance) else [f"{path}: {ours} is not {theirs}"]
    else:
        return [] if type(ours) is type(theirs) and ours == theirs else [f"{path}: {ours!r} is not {theirs!r}"]
    return [line for part, x, y in pairs for line in differences(x, y, tolerance, part)]


def outcome(case: Callable, library: Any, distributed: Any) -> Any:
    """The result of a case, or the type of its error."""
    try:
        return plain(case(library, distributed, library.nn.parallel.DistributedDataParallel))
    except Exception as error:
        return f"raises {type(error).__name__}"


def check(cases: dict[str, Callable], tolerance: float) -> None:
    """Run the cases on the ranks of this test. Raises AssertionError with what differs."""
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed as reference

    # before the group: its functions have the default group of the time of import as a default argument, so that the
    # group outlives destroy_process_group, and its threads sometimes end the process by std::terminate
    import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
    import torch.distributed.nn

    torch.set_num_threads(1)
    path = [tempfile.mktemp(prefix="beside-torch-")]
    dist.broadcast_object_list(path, 0)
    rank, size = dist.get_rank(), dist.get_world_size()
    reference.init_process_group("gloo", init_method=f"file://{path[0]}", rank=rank, world_size=size)
    lines = []
    for name, case in cases.items():
        ours, theirs = outcome(case, numod, dist), outcome(case, torch, reference)
        lines += [f"{name}{line}" for line in differences(ours, theirs, tolerance)]
        dist.barrier()
    every: list = [None] * size
    dist.all_gather_object(every, lines)
    gc.collect()  # PyTorch's modules hold the group; a thread of the group must not be the one that frees it
    reference.destroy_process_group()
    assert not any(every), every

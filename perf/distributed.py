"""Several processes: all-reduce beside mpi4py's own call and PyTorch's gloo, data parallel LeNet, batch inference.

    python -m numod.distributed.run --nproc_per_node=2 -m perf.distributed   # the extra `mpi`; torch for gloo
    python -m perf.distributed predict   # the extra `dask`

Alternatives are timed in turns in one run; the first program ends with the time of an all-reduce on more machines,
modelled from the latency and bandwidth that it measured.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec

import numpy as np

import numod
import numod.distributed as dist
from numod import nn
from numod.nn import functional as F
from numod.nn.parallel import DistributedDataParallel


def best_of(calls: dict[str, Callable], count: int, rounds: int) -> dict[str, float]:
    """Seconds per call of each: the best of many short rounds in turns, since on a busy machine few are undisturbed."""
    best = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            dist.barrier()
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count)
    return best


def all_reduce(size: int, count: int, rounds: int) -> tuple[float, dict[str, float]]:
    """Seconds of one all-reduce of `size` floats, and its ratio to mpi4py's and to gloo's.

    The peers are timed one after the other: gloo's threads slow whatever runs after it.
    """
    from mpi4py import MPI

    x, array = numod.ones(size), np.ones(size, np.float32)
    peers = {"mpi4py": lambda: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, array)}
    if find_spec("torch"):
        import torch
        import torch.distributed as reference

        if not reference.is_initialized():
            reference.init_process_group("gloo", rank=dist.get_rank(), world_size=dist.get_world_size())
        y = torch.ones(size)
        peers["gloo"] = lambda: reference.all_reduce(y)
    ratios, seconds = {}, math.inf
    for name, call in peers.items():
        best = best_of({"numod": lambda: dist.all_reduce(x), name: call}, count, rounds)
        ratios[name], seconds = best["numod"] / best[name], min(seconds, best["numod"])
    return seconds, ratios


class LeNet(nn.Module):
    """LeNet-5 of (N, 1, 28, 28) digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.linears = nn.Sequential(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.linears(x.flatten(1))


def training_step(model: nn.Module, batch: int) -> Callable:
    """A compiled step on random digits."""
    optimizer = numod.optim.SGD(model.parameters(), lr=0.01)
    x, y = numod.randn(batch, 1, 28, 28), numod.randint(0, 10, (batch,))

    @numod.compile
    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step()
    return step


def scaling(batch: int = 64) -> tuple[float, float]:
    """Examples per second of all ranks together by those of one rank alone, each with one thread.

    Without and with `gradient_as_bucket_view`. Of many steps in turns the fastest counts: on a machine that others
    use, few are undisturbed.
    """
    alone, *together = (
        training_step(model, batch)
        for model in (
            LeNet(),
            DistributedDataParallel(LeNet()),
            DistributedDataParallel(LeNet(), gradient_as_bucket_view=True),
        )
    )
    best = dict.fromkeys((alone, *together), math.inf)
    for _ in range(40):
        for step in best:
            dist.barrier()
            for _ in range(10 if step is not alone or dist.get_rank() == 0 else 0):
                start = time.perf_counter()
                step()
                best[step] = min(best[step], time.perf_counter() - start)
    return tuple(dist.get_world_size() * best[alone] / best[step] for step in together)


def modelled(latency: float, bandwidth: float, nbytes: int, ranks: int) -> tuple[float, float]:
    """Seconds of an all-reduce by a ring and by recursive doubling (Thakur et al., 2005), without the arithmetic."""
    ring = 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * nbytes / bandwidth
    tree = math.ceil(math.log2(ranks)) * (latency + nbytes / bandwidth)
    return ring, tree


class Wider(nn.Module):
    """Convolutions of (N, 1, 28, 28) images with about 20 times LeNet's arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 32, 64, 64)
        self.layers = nn.Sequential(
            *[layer for m, n in zip(widths, widths[1:]) for layer in (nn.Conv2d(m, n, 3, padding=1), nn.ReLU())],
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
        )  # fmt: skip

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.layers(x)


def inference(network: type[nn.Module], count: int, rounds: int) -> list[tuple[str, float, float, float, float]]:
    """Rows (source, speed-up of two Dask workers over one, least processor time of one worker, of two, of the client).

    Each worker is a process with one thread. The client, whose process has the scheduler too, shares the cores, so that
    on two cores the speed-up is at most 2 x one worker's time by that of the two workers and the client.
    """
    import dask
    from dask.distributed import Client, LocalCluster

    from numod.utils.batch import predict

    os.environ["NUMOD_NUM_THREADS"] = "1"
    # as the guide advises: Dask's own measurements take time of the same cores
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"})
    model = network().eval()
    x, rows = np.random.default_rng(0).normal(size=(count, 1, 28, 28)).astype(np.float32), []
    with ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "examples.npy")
        np.save(path, x)
        clusters = [
            stack.enter_context(LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None)) for n in (1, 2)
        ]
        clients = [stack.enter_context(Client(cluster)) for cluster in clusters]
        for name, source in ((".npy file", path), ("array", x)):
            best, workers, client_times = ([math.inf, math.inf] for _ in range(3))
            for number in range(rounds + 1):  # the first one loads the kernels
                for k, client in enumerate(clients):
                    before = sum(client.run(time.process_time).values())
                    start = time.perf_counter(), time.process_time()
                    predict(model, source, client, batch_size=500)
                    seconds, used = time.perf_counter() - start[0], time.process_time() - start[1]
                    if number:
                        best[k], client_times[k] = min(best[k], seconds), min(client_times[k], used)
                        workers[k] = min(workers[k], sum(client.run(time.process_time).values()) - before)
            rows.append((name, best[0] / best[1], *workers, client_times[1]))
    return rows


def main() -> None:
    """Print the table, on rank 0."""
    numod.set_num_threads(1)
    dist.init_process_group("mpi")
    small, large, speedup = all_reduce(1000, 20, 300), all_reduce(1 << 20, 10, 15), scaling()
    if find_spec("torch"):
        import torch.distributed as reference

        reference.destroy_process_group()  # its threads would end the process by std::terminate
    if dist.get_rank():
        return
    for name, (seconds, ratios) in (("1,000 floats", small), ("4 MB", large)):
        print(
            f"all_reduce of {name}: {seconds * 1e6:.1f} us, "
            + ", ".join(f"{r:.2f} x {peer}" for peer, r in ratios.items())
        )
    print(
        f"LeNet, batch 64 per rank: {speedup[0]:.2f} x the examples per second of one process, {speedup[1]:.2f} x with "
        "gradient_as_bucket_view"
    )
    latency, bandwidth = small[0], (4 << 20) / large[0]
    for ranks in (8, 64, 512):
        for nbytes in (4000, 4 << 20):
            ring, tree = modelled(latency, bandwidth, nbytes, ranks)
            print(f"model, {ranks} ranks, {nbytes} bytes: ring {ring * 1e6:.0f} us, tree {tree * 1e6:.0f} us")


if __name__ == "__main__":
    if sys.argv[1:] == ["predict"]:
        for network, count in ((LeNet, 20_000), (Wider, 4_000)):
            for source, speedup, one, two, client in inference(network, count, 5):
                print(
                    f"{network.__name__}, {count} examples, {source}: two workers {speedup:.2f} x one; processor time: "
                    f"one worker {one:.2f} s, two {two:.2f} s, client {client:.2f} s; so at most "
                    f"{2 * one / (two + client):.2f} x"
                )
    else:
        main()

"""A rank's environment as torchrun sets it, derived from the launcher's variables, and its share of the cores."""

from __future__ import annotations

import os

from ..device.threads import get_num_threads, set_num_threads

# (rank, ranks, rank on this machine, ranks on this machine) by launcher: MPICH and Intel MPI, Open MPI, Slurm
_NAMES = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"),
)


def position_in_job() -> tuple[int, int, int, int]:
    """(rank, ranks, rank on this machine, ranks on this machine) of this process; (0, 1, 0, 1) without a launcher."""
    environment = os.environ
    for rank, size, local, local_size in _NAMES:
        if rank in environment and size in environment:
            if local not in environment and environment[size] == environment.get("SLURM_STEP_NUM_TASKS"):
                local, local_size = _NAMES[-1][2:]  # srun sets PMI's ranks, but not MPICH's names of the local ones
            here = _tasks_of_node(environment.get(local_size, environment[size]))
            return int(environment[rank]), int(environment[size]), int(environment.get(local, environment[rank])), here
    return 0, 1, 0, 1


def _tasks_of_node(tasks: str) -> int:
    """This machine's number of ranks, of a list such as Slurm's "2(x3),1": three machines of two ranks, one of one."""
    counts: list[int] = []
    for entry in tasks.split(","):
        count, _, times = entry.partition("(x")
        counts += [int(count)] * int(times.rstrip(")") or 1)
    return counts[min(int(os.environ.get("SLURM_NODEID", 0)), len(counts) - 1)]


def set_up() -> None:
    """Set torchrun's variables, unless they are set, and run on this rank's share of the machine's cores."""
    set_variables()
    values = {"TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_RUN_ID": "none"}
    for name, value in values.items():
        os.environ.setdefault(name, str(value))
    share_cores(*position_in_job()[2:])


def set_variables() -> None:
    """Set RANK, LOCAL_RANK and the others that scripts for torchrun read, unless they are set."""
    rank, size, local, local_size = position_in_job()
    values = {
        "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": local_size,
        "GROUP_RANK": rank // local_size, "NODE_RANK": rank // local_size, "GROUP_WORLD_SIZE": -(-size // local_size),
        "ROLE_RANK": rank, "ROLE_WORLD_SIZE": size, "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }  # fmt: skip
    for name, value in values.items():
        os.environ.setdefault(name, str(value))


def limit_threads(sharing: int) -> None:
    """Use at most this rank's share of cores that `sharing` ranks may use, for ranks that mpiexec itself started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = max(cores // sharing, 1)
    if "NUMOD_NUM_THREADS" not in os.environ and get_num_threads() > share:
        set_num_threads(share)


def share_cores(number: int, count: int) -> None:
    """Run on part `number` of `count` of the cores that this process may use; on one core if there are fewer."""
    if count > 1 and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // count
        allotted = cores[number * share : (number + 1) * share] if share else [cores[number % len(cores)]]
        os.sched_setaffinity(0, allotted)
        os.environ.setdefault("OMP_NUM_THREADS", str(len(allotted)))
        if "NUMOD_NUM_THREADS" not in os.environ:
            set_num_threads(len(allotted))

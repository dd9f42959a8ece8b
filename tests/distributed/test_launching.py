"""The launcher, `multiprocessing.spawn`, and what happens when a rank fails, hangs or calls something else.

Each case starts two processes; the file takes about a minute.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ranks import ROOT, started

import numod
from numod.distributed import environment, mpiexec, run
from numod.distributed.spawn import needs_ranks

PROGRAM = """
import ctypes, os, sys, time, signal
from datetime import timedelta
import numod, numod.distributed as dist

def show(*words):  # in one write, so that the lines of two ranks do not mix
    sys.stdout.write(" ".join(map(str, words)) + "\\n")

how, rank = sys.argv[1], int(os.environ["RANK"])
if how == "early" and rank == 1:
    raise ValueError("before the group")
dist.init_process_group("mpi", timeout=timedelta(seconds=3 if how == "hang" else 100))
show("rank", rank, *[os.environ[name] for name in ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")])
x = numod.ones(2)
if rank == 1:
    if how == "raise":
        raise ValueError("in the loop")
    elif how == "exit":
        sys.exit(7)
    elif how == "leave":
        sys.exit(0)
    elif how == "quit":
        os._exit(5)
    elif how == "crash":
        ctypes.string_at(0)
    elif how == "hang":
        time.sleep(100)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "shape":
        x = numod.ones(3)
    elif how == "order":
        dist.broadcast(x, 0)
    elif how == "dtype":
        x = x.int()
if how == "wait":
    print("waiting", os.getpid(), flush=True)
    time.sleep(100)
dist.all_reduce(x)
dist.barrier()
show("sum", x.tolist(), numod.get_num_threads(), len(os.sched_getaffinity(0)))
"""
LINE = PROGRAM[: PROGRAM.index("dist.all_reduce")].count("\n") + 1


@pytest.fixture
def program(tmp_path):
    if not numod.distributed.is_available():
        pytest.skip('needs MPI: pip install -e ".[mpi]"')
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.mpi
def test_ranks_have_torchruns_environment_and_their_share_of_cores(program) -> None:
    ended = started([program, "run"])
    assert ended.returncode == 0, ended.stderr
    assert "rank 0 2 0 2 127.0.0.1" in ended.stdout and "rank 1 2 1 2 127.0.0.1" in ended.stdout
    share = max(len(os.sched_getaffinity(0)) // 2, 1)
    assert ended.stdout.count(f"sum [2.0, 2.0] {share} {share}") == 2
    assert {line[:4] for line in ended.stdout.splitlines() if line} == {"[0] ", "[1] "}


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("early", "ValueError: before the group"),
        ("raise", "ValueError: in the loop"),
        ("exit", "the ranks ended with exit code 7"),
        ("leave", "all_reduce on rank 0 of [0, 1]: cannot complete after"),
        ("quit", "the ranks ended with exit code "),  # mostly 5; MPICH may add that of a rank that it killed
        ("crash", "Segmentation fault"),
        ("kill", "Killed"),
        ("hang", "all_reduce on rank 0 of [0, 1]: Timed out after"),
    ],
)
def test_a_rank_that_fails_ends_all(program, how, text) -> None:
    ended = started([program, how])
    everything = ended.stdout + ended.stderr
    assert ended.returncode != 0 and text in everything and "sum" not in ended.stdout
    if how == "hang":
        assert f"program.py:{LINE}: rank 1 (process" in everything
        assert "running) has begun 0 collectives of the 1" in everything
    assert not _running(program)


@pytest.mark.mpi
def test_mpiexec_alone_starts_ranks(program) -> None:
    shared = {"env": {**os.environ, "PYTHONPATH": str(ROOT)}, "capture_output": True, "text": True, "timeout": 120}
    command = [mpiexec.find(), "-n", "2", sys.executable, program.replace("program.py", "direct.py")]
    text = PROGRAM.replace("import numod, numod.distributed as dist\n", "", 1)
    Path(command[-1]).write_text("import numod, numod.distributed as dist\n" + text)
    ended = subprocess.run([*command, "run"], **shared)
    cores = len(os.sched_getaffinity(0))
    assert ended.stdout.count(f"sum [2.0, 2.0] {max(cores // 2, 1)} {cores}") == 2, ended.stderr
    assert "rank 0 2 0 2 127.0.0.1" in ended.stdout and "rank 1 2 1 2 127.0.0.1" in ended.stdout
    for how in ("exit", "leave"):  # MPI's end waits for the other rank, which finds out
        ended = subprocess.run([*command, how], **shared)
        assert ended.returncode != 0 and "ended) has begun 0 collectives of the 1" in ended.stderr
        assert "cannot complete after 1" in ended.stderr
    assert not _running(command[-1])


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("how", "calls"),
    [
        ("shape", ("all_reduce(float32 [2]", "all_reduce(float32 [3]")),
        ("dtype", ("all_reduce(float32 [2]", "all_reduce(int32 [2]")),
        ("order", ("all_reduce(float32 [2]", "broadcast(float32 [2], 0)")),
    ],
)
def test_calls_are_compared_in_debug_mode(program, how, calls) -> None:
    ended = started([program, how], NUMOD_DISTRIBUTED_DEBUG="1")
    everything = ended.stdout + ended.stderr
    assert ended.returncode != 0 and "Detected mismatch between collectives on ranks: rank 0 calls" in everything
    assert all(call in everything for call in calls) and f"at program.py:{LINE}" in everything


@pytest.mark.mpi
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_when_the_launcher_is_ended(program, number) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "numod.distributed.run", "--nproc_per_node=2", program, "wait"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    waiting = 0
    while waiting < 2:  # the ranks say when they are there
        waiting += "waiting" in process.stdout.readline()
    process.send_signal(number)
    process.stdout.read()  # ends when the last process that writes to it has
    process.wait()
    process.stdout.close()
    limit = time.monotonic() + 30
    while (left := _running(program)) and time.monotonic() < limit:
        pass
    assert not left


def _running(program: str) -> list[str]:
    """The command lines of processes that run a program."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in processes.splitlines() if program in line]


@pytest.mark.mpi
@pytest.mark.parametrize("how", ["fine", "fail"])
def test_spawn_starts_ranks(tmp_path, how) -> None:
    if not numod.distributed.is_available():
        pytest.skip('needs MPI: pip install -e ".[mpi]"')
    path = tmp_path / "tutorial.py"
    path.write_text("""
import os, sys
import numod as torch
import numod.distributed as dist
import numod.multiprocessing as mp

def setup(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)

def demo(rank, world_size, how):
    setup(rank, world_size)
    x = torch.ones(2) * (rank + 1)
    dist.all_reduce(x)
    if how == "fail" and rank == 1:
        raise ValueError("in a rank")
    print(f"sum {x.tolist()}")
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(demo, args=(2, sys.argv[1]), nprocs=2, join=True)
""")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, str(path), how], env=environment, capture_output=True, text=True)
    if how == "fine":
        assert ended.returncode == 0 and ended.stdout.count("sum [3.0, 3.0]") == 2, ended.stderr
        assert ended.stderr.count("the backend is MPI, in the place of 'gloo'") == 1
    else:
        assert ended.returncode != 0 and "-- Process 1 terminated with the following error" in ended.stderr
        assert "ValueError: in a rank" in ended.stderr


# ---- without MPI


def _setup() -> None:
    numod.distributed.init_process_group("mpi")


class _Trainer:
    def start(self) -> None:
        _setup()


def test_spawn_finds_functions_that_need_ranks() -> None:
    assert needs_ranks(_setup) and needs_ranks(lambda: [_setup() for _ in range(1)])
    assert needs_ranks(lambda: _Trainer().start()) and not needs_ranks(lambda: print()) and not needs_ranks(print)


def test_places_of_launchers(monkeypatch) -> None:
    for names in environment._NAMES:
        for name in names:
            monkeypatch.delenv(name, raising=False)
    assert environment.position_in_job() == (0, 1, 0, 1)
    for name, value in zip(environment._NAMES[2], ("5", "8", "1", "4(x2)")):
        monkeypatch.setenv(name, value)
    assert environment.position_in_job() == (5, 8, 1, 4)
    for name, value in zip(environment._NAMES[0], ("3", "4", "1", "2")):
        monkeypatch.setenv(name, value)
    assert environment.position_in_job() == (3, 4, 1, 2)


@pytest.mark.parametrize(("node", "here"), [("0", 4), ("1", 4), ("2", 1)])
def test_slurm_names_local_ranks_beside_pmi(monkeypatch, node, here) -> None:
    for name in ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    values = {
        "PMI_RANK": "5", "PMI_SIZE": "9", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "9", "SLURM_LOCALID": "1",
        "SLURM_NODEID": node, "SLURM_STEP_TASKS_PER_NODE": "4(x2),1",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert environment.position_in_job() == (5, 9, 1, here)
    # mpiexec within a step of Slurm's, of one task per machine
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    monkeypatch.setenv("MPI_LOCALRANKID", "2")
    monkeypatch.setenv("MPI_LOCALNRANKS", "3")
    assert environment.position_in_job() == (5, 9, 2, 3)


def test_commands_of_launchers(monkeypatch) -> None:
    monkeypatch.setattr(mpiexec, "find", lambda: "mpiexec")
    monkeypatch.setattr(mpiexec, "is_open_mpi", lambda: False)
    assert mpiexec.command(["p"], 4, 2, "hosts") == "mpiexec -prepend-rank -f hosts -ppn 2 -n 4 p".split()
    monkeypatch.setattr(mpiexec, "is_open_mpi", lambda: True)
    command = mpiexec.command(["p"], 4, 2, "hosts")
    assert command[-3:] == ["--map-by", "ppr:2:node", "p"] and command[:3] == ["mpiexec", "-n", "4"]


def test_options_of_the_launcher(monkeypatch, tmp_path) -> None:
    calls, addresses, hosts = [], [], tmp_path / "hosts"
    hosts.write_text("# machines\nnode7\tslots=2\nnode8:2\n")
    monkeypatch.setattr(mpiexec, "command", lambda program, *others: calls.append((program[3:], *others)))
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr(mpiexec, "run", lambda _, variables: addresses.append(variables.get("MASTER_ADDR")) or 0)
    assert run.main(["--standalone", "--nproc-per-node=3", "--rdzv_backend=c10d", "train.py", "--lr", "1"]) == 0
    assert run.main(["--nproc_per_node", "2", "--nnodes=2", f"--hostfile={hosts}", "-m", "package.train"]) == 0
    assert run.main(["--master_addr=node9", f"--hostfile={hosts}", "train.py"]) == 0
    assert calls[:2] == [
        (["train.py", "--lr", "1"], 3, 3, None, True),
        (["-m", "package.train"], 4, 2, str(hosts), True),
    ]
    assert addresses == [None, "node7", "node9"]
    assert run.main(["train.py", "--lr", "1"], passes_local_rank=True) == 0
    assert run.main(["--use_env", "train.py"], passes_local_rank=True) == 0
    assert [call[0] for call in calls[3:]] == [["--local-rank", "train.py", "--lr", "1"], ["train.py"]]


@pytest.mark.mpi
def test_ranks_start_again_after_a_failure(tmp_path) -> None:
    path = tmp_path / "restarted.py"
    path.write_text(
        "import os, sys, numod.distributed as dist\n"
        "count = int(os.environ['TORCHELASTIC_RESTART_COUNT'])\n"
        "dist.init_process_group('mpi')\n"
        "if count < 2 and dist.get_rank() == 1:\n"
        "    raise ValueError(f'attempt {count}')\n"
        "dist.barrier()\n"
        "print('finished', count, os.environ['TORCHELASTIC_MAX_RESTARTS'])\n"
    )
    ended = started(["--max_restarts=2", str(path)])
    assert ended.returncode == 0 and ended.stdout.count("finished 2 2") == 2, ended.stderr
    assert "ValueError: attempt 1" in ended.stderr and "restart 2 of 2" in ended.stderr
    ended = started(["--max-restarts=1", str(path)])
    assert ended.returncode != 0 and "finished" not in ended.stdout


@pytest.mark.mpi
def test_launch_tells_scripts_their_local_rank(tmp_path) -> None:
    path = tmp_path / "older.py"
    path.write_text("import sys\nprint(sys.argv[1:])\n")
    ended = subprocess.run(
        [sys.executable, "-m", "numod.distributed.launch", "--nproc_per_node=2", str(path), "--lr", "1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert all(f"[{k}] ['--local-rank={k}', '--lr', '1']" in ended.stdout for k in range(2))
    for arguments, message in (
        (["--nnodes=2", "x.py"], "needs --hostfile"),
        (["--nproc_per_node=0", "x"], "at least 1"),
    ):
        with pytest.raises(SystemExit, match=message):
            run.main(arguments)


def test_a_missing_mpiexec_says_what_to_install(monkeypatch) -> None:
    mpiexec.find.cache_clear()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "prefix", "/nowhere")
    with pytest.raises(SystemExit, match="there is no mpiexec here; .*pip install"):
        run.main(["x.py"])
    mpiexec.find.cache_clear()

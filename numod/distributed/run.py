"""`python -m numod.distributed.run --nproc_per_node=2 script.py`: starts a script on several ranks, by `mpiexec`.

Its options are torchrun's. Each rank has torchrun's environment variables and its share of the cores, and its lines are
printed with its number. A rank that fails ends all.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

from . import mpiexec

_IGNORED = (  # torchrun's options that MPI's launcher has no use for
    "--rdzv_backend", "--rdzv_endpoint", "--rdzv_id", "--rdzv_conf", "--monitor_interval", "--start_method",
    "--role", "--log_dir", "--redirects", "--tee", "--local_addr", "--node_rank",
)  # fmt: skip


def _both(name: str) -> list[str]:
    """An option's name with underscores and with hyphens."""
    return [name, "--" + name[2:].replace("_", "-")]


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(prog="python -m numod.distributed.run", description=__doc__.partition("\n\n")[0])
    result.add_argument(
        *_both("--nproc_per_node"), default="1", help="ranks per machine; `auto` or `cpu`: one per core"
    )
    result.add_argument("--nnodes", default="1", help="machines")
    result.add_argument("--hostfile", help="file that names the machines, one per line")
    result.add_argument("--standalone", action="store_true", help="one machine, the default")
    result.add_argument(
        *_both("--max_restarts"), type=int, default=0, help="how often to start all ranks again after one failed"
    )
    result.add_argument(*_both("--master_addr"), help="MASTER_ADDR of the ranks")
    result.add_argument(*_both("--master_port"), help="MASTER_PORT of the ranks")
    result.add_argument(*_both("--no_prefix"), action="store_true", help="print lines without the rank")
    result.add_argument(*_both("--no_python"), action="store_true", help="the script is a program")
    result.add_argument("-m", "--module", action="store_true", help="the script is a module's name")
    result.add_argument(*_both("--use_env"), action="store_true", help="of `launch`: no argument --local-rank")
    for name in _IGNORED:
        result.add_argument(*dict.fromkeys(_both(name)), help=argparse.SUPPRESS)
    result.add_argument("training_script", help="the script")
    result.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return result


def _first_host(path: str) -> str | None:
    """The first machine of a hostfile, whose lines are a name and, after a colon or a space, a number of ranks."""
    with open(path) as file:
        lines = (line.partition("#")[0].strip() for line in file)
        first = next((line for line in lines if line), "")
    return re.split(r"[\s:]", first)[0] or None


def main(arguments: list[str] | None = None, passes_local_rank: bool = False) -> int:
    """Start the ranks and wait for them. Returns the exit code.

    With `passes_local_rank` each script gets the argument `--local-rank=N`, unless `--use_env` is an option.
    """
    options = parser().parse_args(arguments)
    per_node = options.nproc_per_node
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    per_node = cores if per_node in ("auto", "cpu") else int(per_node)
    nodes = int(options.nnodes.partition(":")[0])
    if per_node < 1 or nodes < 1:
        raise SystemExit(f"nproc_per_node and nnodes are at least 1, got {per_node} and {nodes}")
    if nodes > 1 and options.hostfile is None:
        raise SystemExit(f"--nnodes={nodes} needs --hostfile, a file with the names of the machines")
    kind = ["--no_python"] if options.no_python else ["-m"] if options.module else []
    kind = [*(["--local-rank"] if passes_local_rank and not options.use_env else []), *kind]
    worker = [sys.executable, "-m", "numod.distributed.worker", *kind]
    program = [*worker, options.training_script, *options.training_script_args]
    environment = dict(os.environ)
    master = options.master_addr or (_first_host(options.hostfile) if options.hostfile else None)
    address = {"MASTER_ADDR": master, "MASTER_PORT": options.master_port}
    environment.update({name: value for name, value in address.items() if value})
    try:
        command = mpiexec.command(program, per_node * nodes, per_node, options.hostfile, not options.no_prefix)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    return _run_again(command, environment, options.max_restarts)


def _run_again(command: list[str], environment: dict[str, str], restarts: int) -> int:
    """Run the ranks, after a failure up to `restarts` times more. Returns the last exit code."""
    environment["TORCHELASTIC_MAX_RESTARTS"] = str(restarts)
    for number in range(restarts + 1):
        environment["TORCHELASTIC_RESTART_COUNT"] = str(number)
        code = mpiexec.run(command, environment)
        if code in (0, mpiexec.INTERRUPTED):
            break
        print(f"numod.distributed.run: the ranks ended with exit code {code}", file=sys.stderr)
        if number < restarts:
            print(f"numod.distributed.run: restart {number + 1} of {restarts}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

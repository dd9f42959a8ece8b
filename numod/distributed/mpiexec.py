"""Finds the `mpiexec` that belongs to mpi4py's MPI library, and builds its command line."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from functools import cache, partial

from .errors import INSTALL

_SET_PARENT_DEATH_SIGNAL = 1  # Linux's PR_SET_PDEATHSIG
INTERRUPTED = 130  # the exit code after Ctrl-C


@cache
def find() -> str:
    """The path of mpiexec: the wheel's, beside this Python, or the first in PATH. Raises RuntimeError without one."""
    beside = os.path.join(sys.prefix, "bin")
    command = shutil.which("mpiexec", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if command is None:
        raise RuntimeError(f"numod.distributed.run: there is no mpiexec here; {INSTALL}")
    return command


@cache
def is_open_mpi() -> bool:
    """Whether it is Open MPI's, whose options differ from MPICH's."""
    text = subprocess.run([find(), "--version"], capture_output=True, text=True, check=False).stdout
    return "open" in text.lower().partition("\n")[0] or "prrte" in text.lower()


def command(
    program: list[str], ranks: int, per_node: int = 0, hostfile: str | None = None, prefix: bool = True
) -> list:
    """The command that starts `ranks` processes of a program, `per_node` on each machine of the hostfile."""
    if is_open_mpi():
        options = ["--oversubscribe", "--bind-to", "none", *(["--tag-output"] if prefix else [])]
        options += ["--allow-run-as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        options += ["--hostfile", hostfile, "--map-by", f"ppr:{per_node}:node"] if hostfile else []
        return [find(), "-n", str(ranks), *options, *program]
    options = ["-prepend-rank"] if prefix else []
    options += ["-f", hostfile, "-ppn", str(per_node)] if hostfile else []
    return [find(), *options, "-n", str(ranks), *program]


def start(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen:
    """Start an mpiexec command. On Linux it ends, with its ranks, when this process does, however that ends."""
    end_with_parent = None
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl  # found before the fork
        end_with_parent = partial(prctl, _SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM))
    return subprocess.Popen(arguments, env=environment, preexec_fn=end_with_parent)


def run(arguments: list[str], environment: dict[str, str] | None = None) -> int:
    """Run an mpiexec command and return its exit code. Ctrl-C and SIGTERM end all its processes: INTERRUPTED."""
    process = start(arguments, environment)
    former = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return process.wait()
    except KeyboardInterrupt:
        end(process)
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, former)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def end(process: subprocess.Popen) -> None:
    """End mpiexec and, through it, all ranks: SIGINT, after which it kills them; SIGKILL where it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()  # its proxies end the ranks when they lose it
        process.wait()

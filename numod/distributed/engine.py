"""MPI through mpi4py: whether it is installed, the communicator of all ranks, and MPI's types and reductions.

mpi4py is imported by `load`, which the first process group calls. Nothing else in numod imports it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from .errors import INSTALL
from .reduce_op import ReduceOp
from .single import SingleCommunicator

# launchers' variables for the number of ranks: MPICH and Intel MPI, Open MPI, PMIx, Slurm
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
_TYPES = {
    "bool": "UINT8_T", "uint8": "UINT8_T", "int8": "INT8_T", "int16": "INT16_T", "int32": "INT32_T",
    "int64": "INT64_T", "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T",
    "float16": "UINT16_T", "bfloat16": "UINT16_T", "float32": "FLOAT", "float64": "DOUBLE",
    "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip
_OPERATIONS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
_OF_BOOL = {
    ReduceOp.SUM: "LOR", ReduceOp.AVG: "LOR", ReduceOp.PRODUCT: "LAND", ReduceOp.MIN: "LAND", ReduceOp.MAX: "LOR",
    ReduceOp.BAND: "LAND", ReduceOp.BOR: "LOR", ReduceOp.BXOR: "LXOR",
}  # fmt: skip


def is_installed() -> bool:
    """Whether mpi4py can be imported."""
    return find_spec("mpi4py") is not None


def launched_size() -> int:
    """The number of ranks that an MPI launcher started; 1 without one."""
    return next((int(os.environ[name]) for name in _SIZES if os.environ.get(name, "").isdecimal()), 1)


@cache
def load() -> Any:
    """The module `mpi4py.MPI`, with MPI initialised. Raises RuntimeError where it or the MPI library is missing."""
    if not is_installed():
        raise RuntimeError(f"numod.distributed: {INSTALL}")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"numod.distributed: mpi4py finds no MPI library; {INSTALL}: {error}") from error
    return MPI


class MpiCommunicator:
    """An MPI communicator, with mpi4py's non-blocking methods as its own."""

    def __init__(self, communicator: Any) -> None:
        self.mpi = communicator
        self.rank, self.size = communicator.rank, communicator.size

    def __getattr__(self, name: str) -> Callable:
        value = self.__dict__[name] = getattr(self.mpi, name)
        return value

    def split(self, ranks: list[int]) -> MpiCommunicator:
        """The communicator of these ranks; called by them only."""
        group = self.mpi.Get_group().Incl(ranks)
        return MpiCommunicator(self.mpi.Create_group(group, ranks[0]))

    def largest(self, number: int) -> int:
        """The largest of the ranks' numbers."""
        return self.mpi.allreduce(number, load().MAX)


def world() -> MpiCommunicator | SingleCommunicator:
    """A communicator of all ranks, or of this process alone if no launcher started it."""
    if launched_size() == 1:
        return SingleCommunicator()
    communicator = load().COMM_WORLD.Dup()
    if communicator.size == 1:
        raise RuntimeError(
            f"numod.distributed: the launcher started {launched_size()} ranks, but mpi4py's MPI library sees one. "
            "The launcher and the library are of different MPIs: use the mpiexec beside this Python, or "
            "`python -m numod.distributed.run`, which does; of Slurm `srun --mpi=pmi2`, with the library of the wheel"
        )
    return MpiCommunicator(communicator)


def in_place(communicator: object) -> object:
    """MPI's marker for a buffer that is sent and received."""
    return None if isinstance(communicator, SingleCommunicator) else load().IN_PLACE


@cache
def mpi_type(name: str, single: bool) -> Any:
    """MPI's type of the elements of a dtype, as they are stored."""
    return None if single else getattr(load(), _TYPES[name])


@cache
def mpi_operation(op: ReduceOp, name: str, single: bool) -> Any:
    """MPI's reduction of a dtype's elements. Those of 16-bit floats are made here: MPI has none for them."""
    if single:
        return None
    if name in ("float16", "bfloat16"):
        return load().Op.Create(_reduction_of_halves(op, name), commute=True)
    return getattr(load(), (_OF_BOOL if name == "bool" else _OPERATIONS)[op])


def _reduction_of_halves(op: ReduceOp, name: str) -> Callable:
    """MPI's user function `(source, target, type)`: target = op(source, target), in float32, rounded to nearest."""
    combine = {ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum}.get(op, np.add)

    def reduce(source: Any, target: Any, datatype: Any) -> None:
        bits, result = np.frombuffer(source, np.uint16), np.frombuffer(target, np.uint16)
        with np.errstate(all="ignore"):
            if name == "float16":
                combined = combine(bits.view(np.float16).astype(np.float32), result.view(np.float16))
                result[...] = combined.astype(np.float16).view(np.uint16)
            else:
                result[...] = _to_bfloat16(combine(_from_bfloat16(bits), _from_bfloat16(result)))

    return reduce


def _from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The bits of float32 values rounded to nearest, ties to even; NaN stays NaN."""
    bits = values.view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


# ---- a rank that fails ends all


def abort_on_error() -> None:
    """From now on an exception that nobody handles ends all ranks, after its traceback was printed.

    Without this, the other ranks would wait for this one until they time out.
    """
    former = sys.excepthook

    def report(kind: type, error: BaseException, trace: object) -> None:
        former(kind, error, trace)
        abort(130 if issubclass(kind, KeyboardInterrupt) else 1)

    sys.excepthook = report


def abort(code: int) -> None:
    """End all ranks, after mpiexec has had time to read what they printed: it drops the rest."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a closed pipe
            stream.flush()
    time.sleep(0.2)
    load().COMM_WORLD.Abort(code)

"""The optimisation passes over a recorded program, in order.

Each returns a well-formed program that computes the same.
"""

from __future__ import annotations

from .fuse_reduction import close
from ..ir.alias_analysis import Boundary, copied
from .fuse_epilogue import finish
from .fuse_pointwise import fuse
from .reuse_in_place import overwrite
from ..ir.program import Program
from .simplify import out_of_place, without_dead, without_repeats

SIMPLIFY = (out_of_place, without_repeats, without_dead)


def simplified(program: Program) -> Program:
    """The program without repetitions, dead steps, and writes in place that can be new values."""
    program = copied(program, program.steps)
    for change in SIMPLIFY:
        program = change(program)
    return program


def optimise(program: Program, boundary: int | None = None) -> tuple[Program, int | None]:
    """(optimised program, new position of the start of its backward pass). No loop crosses that boundary."""
    mark = Boundary()
    program = copied(
        program, program.steps if boundary is None else [*program.steps[:boundary], mark, *program.steps[boundary:]]
    )
    for change in (*SIMPLIFY, fuse, without_dead, close, finish, overwrite):
        program = change(program)
    if boundary is not None:
        boundary = program.steps.index(mark)
        del program.steps[boundary]
    return program, boundary

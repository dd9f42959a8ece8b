"""The optimisation passes over a recorded program, in order.

Each returns a well-formed program with equal results.
"""

from __future__ import annotations

from .fuse_reduction import fuse_reductions
from ..ir.alias_analysis import Boundary, copied
from .fuse_epilogue import fuse_epilogues
from .fuse_pointwise import fuse_pointwise
from .reuse_in_place import reuse_in_place
from ..ir.program import Program
from .simplify import out_of_place, without_dead, without_repeats

SIMPLIFY = (out_of_place, without_repeats, without_dead)


def simplified(program: Program) -> Program:
    """The program without common subexpressions, dead steps and avoidable in-place writes."""
    program = copied(program, program.steps)
    for transform in SIMPLIFY:
        program = transform(program)
    return program


def optimise(program: Program, boundary: int | None = None) -> tuple[Program, int | None]:
    """(optimised program, new position of the start of its backward pass). No fused loop crosses this boundary."""
    marker = Boundary()
    program = copied(
        program, program.steps if boundary is None else [*program.steps[:boundary], marker, *program.steps[boundary:]]
    )
    for transform in (*SIMPLIFY, fuse_pointwise, without_dead, fuse_reductions, fuse_epilogues, reuse_in_place):
        program = transform(program)
    if boundary is not None:
        boundary = program.steps.index(marker)
        del program.steps[boundary]
    return program, boundary

"""The graph compiler: records what a function does, op by op, and runs it again as native code.

Used by `numod.compile` and by the exporter.

**Parts of a program** (`ir/program.py`). A `Program` has `inputs` (one value per argument tensor), `held` (tensors that
existed before: parameters, buffers, optimizer state), `steps`, `gradients` (the leaves whose `.grad` a run sets, or
drops where the value is None) and `outputs` (values in nested tuples, lists and dicts, among constants). A `Value` is a
number; `layouts` gives its shape, dtype, strides and device. There are two kinds of step:

- `Step`: one op of `numod.ops` with its inputs (values, numbers, None), its parameters and its results. If `in_place`
  is set, the results overwrite existing values. If the op has `is_view`, the result aliases its input. `EMPTY` is
  uninitialized memory. An `Update` is an optimizer step; its numbers are read at every run (the one called `ACTION`
  belongs to a learning-rate schedule and sets such numbers). A `Draw` among the inputs is the offset of a random stream
  and advances at every run.
- `Check`: a value that numod read while recording (for example, whether all indices are in range) and what it was. A
  run that finds another value stops.

**From a function to native code.**

1. `capture`: `recorder` records a program while the function runs eagerly. `capture` adds what `compile` needs: the
   state of Python (`python_state`), the state of gradients (`grad_state`) and the guards.
2. `guards`: the conditions under which a recorded program may run again. `build` collects them, `snapshot` holds
   them, `bytecode` finds the names that code can reach. `cache_key` tells calls apart.
3. `passes`: each maps a well-formed program to another. `simplify` removes in-place writes to a program's own memory,
   common subexpressions, no-ops and dead steps. `fuse_pointwise` merges chains of pointwise steps into one `Fused`
   step, `fuse_reduction` merges a loop with the reduction of its result (`FusedReduction`), `fuse_epilogue` merges a
   loop into the product or convolution before it (`WithEpilogue`), `reuse_in_place` lets a loop overwrite an input that
   is no longer needed. They ask `ir.alias_analysis` which values share memory.
4. `backend`: `lower` runs each op's launch with spans of memory in place of arrays and so gets kernel calls.
   `schedule` puts checks first: a run that stops has changed nothing. `memory_plan` gives intermediate values offsets
   in one arena. `section` turns the calls into one native function (`link`; `ir.repetition` finds what becomes a
   loop), into a CUDA graph (`cuda_graph`), or into separate launches. `executable` and `autograd_executable` are the
   objects that are called; `fast_path` generates the short way into the first.
5. `report`: `explain` prints a program, `graphviz` draws it.

**What an exporter may rely on.** `verify(program)` holds for every recorded program and after every pass: each value is
made once, before its use; the layouts are those that the ops plan; every value that is neither in `inputs` nor in
`held` is made by a step. Calling the program runs it op by op; this defines its meaning. `lower(program)` gives kernel
calls that do not allocate, raise or use Python, except calls with `host`. A recorded program (before the passes:
`executable.recorded`) is saved and loaded by `numod.serialization.save_program` and `load_program`.
"""

from __future__ import annotations

from .compile import compile, mark_dynamic
from .ir.program import Program
from .backend.executable import Executable
from .capture.trace import trace
from .ir.verify import verify

__all__ = ["Executable", "Program", "compile", "mark_dynamic", "trace", "verify"]

"""The graph compiler: records the ops of a function as a program, and runs it as native code.

Used by `numod.compile` and by the exporter.

**A call of a compiled function.** Three files, top to bottom: `compile.py` (`Compiled` tries its variants in order),
`variant.py` (a variant passes the arguments to a version, or records one), `version.py` (a version checks its
conditions and runs its program). Most calls skip them: `Compiled.__call__` is a generated function
(`backend/fast_path.py`).

**Parts of a program** (`ir/program.py`, `ir/step.py`). A `Program` has `inputs` (one value per argument tensor), `held`
(tensors that existed before: parameters, buffers, optimizer state), `steps`, `gradients` (the leaves whose `.grad` a
run sets, or drops if the value is None) and `outputs` (values in nested tuples, lists and dicts, among constants). A
`Value` is a number; `layouts` maps it to shape, dtype, strides and device. There are two kinds of step:

- `Step`: one op of `numod.ops` with its inputs (values, numbers, None), its attributes and its results. If `in_place`
  is set, the results overwrite existing values. If the op has `is_view`, the result aliases its input. `EMPTY` is
  uninitialized memory. An `Update` is an optimizer step; its numbers are read at every run (`ACTION`, an update of a
  learning-rate schedule, sets such numbers). A `Draw` among the inputs is the offset of a random stream, which advances
  at every run.
- `Check`: a value that numod read while recording (for example, whether all indices are in range). A run that finds
  another value stops.

**From a function to native code.**

1. `capture`: `capture` records one call. `recorded_call` runs it and encodes its results, `call_changes` finds the
   changes of Python state that it made. `recorder` turns the events of ops into steps. Its parts decide what can be
   repeated: `decisions` (refusals), `scalar_reads` (lazy scalars, flags), `view_copies`, `update_numbers`. `trace`
   finishes the program. State in Python (`python_state`), numbers that become tensors (`number_arguments`) and
   gradients (`grad_state`, `differentiate`) are added for `compile`.
2. `guards`: the conditions under which a recorded program may run again. `build` finds them (with `containers`,
   `attributes`, `optimizers`; `bytecode` and `definitions` find what code can reach), `guard` defines them. `snapshot`
   compares the state that `state_visitor` finds. `cache_key` distinguishes calls.
3. `passes`: each maps a well-formed program to another. `simplify` removes in-place writes to a program's own memory,
   common subexpressions, no-ops and dead steps. `fuse_pointwise` merges chains of pointwise steps into one `Fused`
   step, `fuse_reduction` merges a loop with the reduction of its result (`FusedReduction`), `fuse_epilogue` merges a
   loop into the product or convolution before it (`WithEpilogue`), `reuse_in_place` lets a loop overwrite an input that
   is no longer needed. `ir.alias_analysis` finds the values that share memory.
4. `backend`: `lower` runs each op's launch with spans of memory instead of arrays, and so gets kernel calls. `schedule`
   puts checks first: a run that stops has changed nothing. `memory_plan` assigns intermediate values to offsets in one
   arena. `section` turns the calls into one native function (`link`; `ir.repetition` finds loops), into a CUDA graph
   (`cuda_graph`), or into separate launches. `executable` and `autograd_executable` run programs; `fast_path` generates
   the function that checks all conditions and launches the kernels.
5. `report`: `program_text` prints a program, `explain` adds costs, kernels and memory, `graphviz` draws it.

**What an exporter may rely on.** `verify(program)` passes for every recorded program and after every pass: each value
is defined once, before its use; the layouts are those that the ops plan; every value that is neither in `inputs` nor in
`held` is the result of a step. Calling the program runs it op by op; this defines its meaning. `lower(program)` gives
kernel calls that do not allocate, raise or use Python, except calls with `host`. A recorded program (before the passes:
`executable.recorded`) is saved and loaded by `numod.serialization.save_program` and `load_program`.
"""

from __future__ import annotations

from .compile import compile, mark_dynamic
from .ir.program import Program
from .backend.executable import Executable
from .capture.trace import trace
from .ir.verify import verify

__all__ = ["Executable", "Program", "compile", "mark_dynamic", "trace", "verify"]

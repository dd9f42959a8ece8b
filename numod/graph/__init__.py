"""Graphs of ops: what a function did, recorded at the waist, and run again as native code.

For `numod.compile`, the exporter, and whoever wants to look inside.

**The parts of a program** (`program.py`). A `Program` has `inputs` (values each run is given), `held` (values that are
tensors which existed before: parameters, buffers, an optimizer's state), `steps`, `gradients` (the leaves whose `.grad`
a run sets, or with None drops) and `outputs` (values in nested tuples, lists and dicts, among constants). A `Value` is
a number; `layouts` says its shape, dtype, strides and device. There are two kinds of step:

- `Step`: one op of `numod.ops` with its inputs (values, numbers, None), parameters and results. `in_place`: the results
  are values that were there before. An op with `is_view` gives the memory of its input; `EMPTY` gives memory without
  values; an `Update` is an optimizer's step, whose numbers are asked for at every run (the one called `ACTION` is a
  schedule's, which sets such numbers); a `Draw` among the inputs is a random stream's offset, drawn anew at every run.
- `Check`: a value the library looked at (whether indices are in range, say) and what it found. A run that finds another
  value stops.

**The life of a program.** `trace` (or `record`, for `compile`, with guards) records it while the function runs eagerly.
`passes` make it smaller, each from one well-formed program to another: `simplify` (writes over own memory become
values; equal steps, no-ops and dead steps go), `fuse` (chains of pointwise steps are one `Fused` step: `rows` says
which ops, over inputs, earlier rows and constants; constants made by `fill` go into it), `closing` (a loop and the
reduction of its result are one `FusedReduction`), `epilogue` (a product or convolution and the loop over its elements
are one `Finished`) and `overwrite` (a loop's result takes the place of an input that nothing needs any more). `effects`
tells them what memory values lie in. `lower` runs every op's own launch with spans of memory for arrays and so gets
kernel calls. `order` puts checks first, so that a run which stops has changed nothing. `memory` lays values in between
in one arena. `section` makes the calls one native function (`link`; what repeats becomes a loop, `roll`), on a GPU a
graph that the driver keeps (`replay`), or launches them in turn. `run` and `differentiable` are the forms that are
called, `caller` writes the short way into the first. `key` tells calls apart; `guards` and `reach` know what a record
took for granted (by `names` what code mentions, by `kinds` what objects are), `gradients` what it found in `.grad`,
`state` which tensors Python keeps from call to call, `lines` what to tell of the rest. `explain` and `draw` tell it to
people.

**What an exporter may rely on.** `verify(program)` holds for every recorded program and after every pass: each value is
made once, before its use; the layouts are those the ops plan; what is not in `inputs` or `held` is made inside. Calling
the program runs it op by op, which is its meaning. `lower(program)` gives calls of kernels that neither allocate nor
raise nor touch Python, except calls with `host`. A recorded program (before the passes: `executable.recorded`) is saved
and loaded by `numod.serialization.save_program` and `load_program`.
"""

from __future__ import annotations

from .compile import compile, mark_dynamic
from .program import Program
from .run import Executable
from .trace import trace
from .verify import verify

__all__ = ["Executable", "Program", "compile", "mark_dynamic", "trace", "verify"]

"""Whether plans are made for all sizes: then the choice of a kernel may not depend on the sizes of its inputs.

`numod.compile(dynamic=True)` and exported programs with dynamic dimensions need it (`ops.op.planning_for_all_sizes`).
Which dimensions change is not known, so every choice takes the form that is right for all sizes. Sizes that are only
arguments of kernels remain as they are.
"""

from __future__ import annotations

from contextvars import ContextVar

for_all_sizes: ContextVar[bool] = ContextVar("for_all_sizes", default=False)
# whether a program for all sizes is recorded: tables that follow from sizes, such as the weights of an interpolation,
# are computed by its steps, else they are constants; and layers with a form for few rows take the one for all sizes
tables_by_steps: ContextVar[bool] = ContextVar("tables_by_steps", default=False)

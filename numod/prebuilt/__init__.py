"""Packs of kernels that are compiled ahead of time (`python -m numod cache build`).

`networks` and `operations` are the cases whose kernels a pack holds; `build` compiles them for instruction-set levels.
Kernels depend on dtypes, layouts, activations and sizes of filters, but hardly on widths and batch sizes: a size
chooses among a few forms of a kernel. So a case is run with sizes that choose all forms.
"""

from .build import build, buildable, runnable

__all__ = ["build", "buildable", "runnable"]

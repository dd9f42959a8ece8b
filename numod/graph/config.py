"""Settings of all compiled functions:

PyTorch's `torch._dynamo.config`. Its others change no result, and can be set here as they come.
"""

from __future__ import annotations

# programs recorded per function, unless `compile` is told another number; beyond it, other calls run eagerly
recompile_limit = 8
cache_size_limit: int | None = None  # the former name of it; counts where it is set


def limit() -> int:
    """The limit of recordings that holds now."""
    return recompile_limit if cache_size_limit is None else cache_size_limit

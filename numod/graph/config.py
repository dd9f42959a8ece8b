"""Settings of all compiled functions, as in PyTorch's `torch._dynamo.config`.

PyTorch's other settings do not change results. They can be set here, and have no effect.
"""

from __future__ import annotations

# recordings per function, unless `compile` gets a `recompile_limit`; after them, other calls run eagerly
recompile_limit = 8
cache_size_limit: int | None = None  # the deprecated name; used if it is set


def limit() -> int:
    """The current limit on recordings."""
    return recompile_limit if cache_size_limit is None else cache_size_limit

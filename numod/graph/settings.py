"""The options of `numod.compile`: the accepted names, and the settings that a compiled function stores."""

from __future__ import annotations

from typing import NamedTuple

from . import config

BACKENDS = "aot_eager", "cudagraphs", "eager", "inductor", "numba"  # all are numba
_MODES = "default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"
_OPTIONS = "freezing", "linked", "sparsity"
_TUNING = (  # Inductor's options that change no result and have no counterpart here
    "coordinate_descent_tuning", "epilogue_fusion", "fallback_random", "guard_filter_fn", "max_autotune",
    "max_autotune_gemm", "max_autotune_pointwise", "shape_padding", "trace.enabled", "trace.graph_diagram",
    "triton.cudagraphs",
)  # fmt: skip


class Settings(NamedTuple):
    """The arguments of `numod.compile` that a compiled function stores."""

    dynamic: bool | None = None
    verbose: bool = False
    options: dict | None = None
    name: str | None = None
    limit: int | None = None
    fullgraph: bool = False

    @property
    def recompile_limit(self) -> int:
        """The number of recordings after which other calls run eagerly."""
        return config.limit() if self.limit is None else self.limit

    def option(self, name: str) -> bool | None:
        """The value of an entry of `options`, None if it is not set."""
        return (self.options or {}).get(name)


def check_backend(backend: object) -> None:
    """Raise RuntimeError for an unknown name of a backend."""
    if isinstance(backend, str) and backend not in BACKENDS:
        raise RuntimeError(f"Invalid backend: {backend!r}, see `numod._dynamo.list_backends()` for available backends.")


def check_options(mode: str | None, options: dict | None) -> None:
    """Raise RuntimeError, with PyTorch's text, for an unknown mode or option."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    for name, value in (options or {}).items():
        if name not in (*_OPTIONS, *_TUNING):
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {[*_OPTIONS, *_TUNING]}")
        if name in _OPTIONS and not isinstance(value, (bool, type(None))):
            raise RuntimeError(f"Unexpected type of attr {name}, got {type(value).__name__} should be bool")
    if options and options.get("sparsity") and not options.get("freezing"):
        raise RuntimeError('The option sparsity needs freezing: options={"freezing": True, "sparsity": True}')

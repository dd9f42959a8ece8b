"""Fourier transforms under the names of `torch.fft`, with `out`. Implemented in `core.signal.fourier`."""

from __future__ import annotations

from .core.signal import fourier as _fourier
from .core import methods as _methods

globals().update(
    {name: _methods.with_out(_methods.checked(name, getattr(_fourier, name))) for name in _fourier.NAMES.split()}
)
__all__ = _fourier.NAMES.split()  # noqa: PLE0605
